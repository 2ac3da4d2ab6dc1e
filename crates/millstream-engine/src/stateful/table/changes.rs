//! What a batch changed in a table.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array, RecordBatch};
use datafusion::common::HashMap;
use datafusion::error::Result as DfResult;

use super::{Codecs, Row, TableSchema};

/// The rows that a batch touched so far, each with what it is now.
#[derive(Debug, Default)]
pub(super) struct Touched(HashMap<Box<[u8]>, Rows>);

/// The touched rows of a key; most keys of most operators have one.
#[derive(Debug)]
enum Rows {
    One(i64, Touch),
    Many(BTreeMap<i64, Touch>),
}

#[derive(Debug)]
struct Touch {
    /// Whether the row was there before the batch.
    existed: bool,
    /// What it is now, `None` when it is gone.
    value: Option<Box<[u8]>>,
}

impl Touched {
    /// Notes that a row was put, or removed; `existed` says whether it was there before that.
    pub(super) fn note(&mut self, key: &[u8], sub: i64, existed: bool, value: Option<&[u8]>) {
        let value: Option<Box<[u8]>> = value.map(Into::into);
        let Some(rows) = self.0.get_mut(key) else {
            self.0.insert(key.into(), Rows::One(sub, Touch { existed, value }));
            return;
        };
        match rows {
            Rows::One(known, touch) if *known == sub => touch.value = value,
            Rows::One(..) => {
                if let Rows::One(known, touch) = std::mem::replace(rows, Rows::Many(BTreeMap::new()))
                    && let Rows::Many(all) = rows
                {
                    all.extend([(known, touch), (sub, Touch { existed, value })]);
                }
            }
            Rows::Many(all) => match all.get_mut(&sub) {
                Some(touch) => touch.value = value,
                None => drop(all.insert(sub, Touch { existed, value })),
            },
        }
    }

    /// What is different from before the batch. Nothing is touched then.
    pub(super) fn take(&mut self) -> (Vec<Row>, Vec<(Box<[u8]>, i64)>) {
        let (mut puts, mut removes) = (Vec::new(), Vec::new());
        let mut sort = |key: Box<[u8]>, sub, touch: Touch| match touch.value {
            Some(value) => puts.push((key, sub, value)),
            None if touch.existed => removes.push((key, sub)),
            None => {}
        };
        for (key, rows) in std::mem::take(&mut self.0) {
            match rows {
                Rows::One(sub, touch) => sort(key, sub, touch),
                Rows::Many(all) => all.into_iter().for_each(|(sub, touch)| sort(key.clone(), sub, touch)),
            }
        }
        (puts, removes)
    }
}

/// What a batch changed in a table, still as the store's bytes: putting it into columns can wait until nobody waits for it.
#[derive(Debug)]
pub(crate) struct Changes {
    pub(super) schema: TableSchema,
    pub(super) codecs: Arc<Codecs>,
    pub(super) puts: Vec<Row>,
    pub(super) removes: Vec<(Box<[u8]>, i64)>,
}

/// Changes in columns.
#[derive(Debug)]
pub(crate) struct ChangedRows {
    /// Key columns, `sub`, value columns.
    pub(crate) puts: RecordBatch,
    /// Key columns, `sub`.
    pub(crate) removes: RecordBatch,
}

impl Changes {
    /// The name of the table.
    pub(crate) fn table(&self) -> &str {
        &self.schema.name
    }

    /// The changes in columns.
    ///
    /// # Errors
    /// Those of decoding.
    pub(crate) fn rows(&self) -> DfResult<ChangedRows> {
        let subs = |subs: &mut dyn Iterator<Item = i64>| -> ArrayRef { Arc::new(Int64Array::from_iter_values(subs)) };
        let mut columns = self.codecs.decode_keys(self.puts.iter().map(|(key, ..)| key.as_ref()))?;
        columns.push(subs(&mut self.puts.iter().map(|(_, sub, _)| *sub)));
        columns.extend(self.codecs.values.decode(self.puts.iter().map(|(.., value)| value.as_ref()))?);
        let puts = RecordBatch::try_new(self.schema.change_schema(), columns)?;
        let mut columns = self.codecs.decode_keys(self.removes.iter().map(|(key, _)| key.as_ref()))?;
        columns.push(subs(&mut self.removes.iter().map(|(_, sub)| *sub)));
        let removes = RecordBatch::try_new(self.schema.removal_schema(), columns)?;
        Ok(ChangedRows { puts, removes })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_leaves_the_difference_between_before_and_after() {
        type Step = (&'static str, i64, bool, Option<&'static str>);
        type Case = (&'static [Step], &'static [(&'static str, i64, &'static str)], &'static [(&'static str, i64)]);
        let cases: [Case; 6] = [
            (&[("k", 0, false, Some("a"))], &[("k", 0, "a")], &[]),
            (&[("k", 0, true, Some("a")), ("k", 0, true, Some("b"))], &[("k", 0, "b")], &[]),
            (&[("k", 0, false, Some("a")), ("k", 0, true, None)], &[], &[]),
            (&[("k", 0, true, None), ("k", 0, false, Some("c"))], &[("k", 0, "c")], &[]),
            (&[("k", 0, true, Some("a")), ("k", 0, true, None)], &[], &[("k", 0)]),
            (
                &[("k", 7, false, Some("a")), ("k", 3, true, None), ("k", 5, true, Some("b")), ("k", 5, true, Some("c"))],
                &[("k", 5, "c"), ("k", 7, "a")],
                &[("k", 3)],
            ),
        ];
        for (steps, puts, removes) in cases {
            let mut touched = Touched::default();
            for (key, sub, existed, value) in steps {
                touched.note(key.as_bytes(), *sub, *existed, value.map(str::as_bytes));
            }
            let bytes = |text: &str| -> Box<[u8]> { text.as_bytes().into() };
            let puts: Vec<Row> = puts.iter().map(|(key, sub, value)| (bytes(key), *sub, bytes(value))).collect();
            let removes: Vec<_> = removes.iter().map(|(key, sub)| (bytes(key), *sub)).collect();
            assert_eq!(touched.take(), (puts, removes), "{steps:?}");
            assert_eq!(touched.take(), (vec![], vec![]));
        }
    }
}
