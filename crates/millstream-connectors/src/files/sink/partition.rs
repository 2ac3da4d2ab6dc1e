//! Folders of partitions: `k=a%2Fb/v=1`.

use std::collections::HashMap;
use std::fmt::Write;

use arrow::array::{RecordBatch, UInt32Array};
use arrow::compute::take_record_batch;
use millstream_core::{Error, Result};

use crate::files::partition::NULL_PARTITION;
use crate::formats::write::spark_text::{Style, TextOf};

/// The columns whose values name folders.
#[derive(Debug)]
pub(super) struct Partitioning {
    /// `k=` and the position of the column.
    keys: Vec<(String, usize)>,
    style: Style,
}

impl Partitioning {
    pub(super) fn new<'a>(keys: impl Iterator<Item = (&'a str, usize)>, style: Style) -> Self {
        Partitioning { keys: keys.map(|(name, column)| (format!("{}=", escaped(name)), column)).collect(), style }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    /// The rows by folder, folders in the order of their first rows. Without partition columns the folder is empty.
    ///
    /// # Errors
    /// `UNSUPPORTED_DATA_TYPE_FOR_DATASOURCE` for a partition column that has no text.
    pub(super) fn split(&self, rows: &RecordBatch) -> Result<Vec<(String, RecordBatch)>> {
        if self.keys.is_empty() || rows.num_rows() == 0 {
            return Ok(vec![(String::new(), rows.clone())]);
        }
        let texts = self.keys.iter().map(|(_, column)| TextOf::new(rows.column(*column), &self.style)).collect::<Result<Vec<_>>>()?;
        let mut folders: Vec<(String, Vec<u32>)> = Vec::new();
        let mut known: HashMap<String, usize> = HashMap::new();
        let mut folder = String::new();
        for row in 0..rows.num_rows() {
            folder.clear();
            for (number, ((name, _), text)) in self.keys.iter().zip(&texts).enumerate() {
                if number > 0 {
                    folder.push('/');
                }
                folder.push_str(name);
                match text.text(row).filter(|text| !text.is_empty()) {
                    Some(text) => folder.push_str(&escaped(&text)),
                    None => folder.push_str(NULL_PARTITION),
                }
            }
            let row = u32::try_from(row).map_err(|error| Error::internal("a batch has too many rows").caused_by(error))?;
            match known.get(&folder).and_then(|at| folders.get_mut(*at)) {
                Some((_, rows)) => rows.push(row),
                None => {
                    known.insert(folder.clone(), folders.len());
                    folders.push((folder.clone(), vec![row]));
                }
            }
        }
        if let [(folder, _)] = folders.as_slice() {
            return Ok(vec![(folder.clone(), rows.clone())]);
        }
        let taken = folders.into_iter().map(|(folder, indices)| {
            let rows = take_record_batch(rows, &UInt32Array::from(indices));
            rows.map(|rows| (folder, rows)).map_err(|error| Error::internal("rows of a partition cannot be taken").caused_by(error))
        });
        taken.collect()
    }
}

/// A name or value with the characters escaped that Hive escapes in folder names.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if c.is_ascii_control() || "\"#%'*/:=?\\{[]^".contains(c) {
            // Writing to a string does not fail.
            let _ = write!(out, "%{:02X}", u32::from(c));
        } else {
            out.push(c);
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{ArrayRef, Date32Array, Decimal128Array, Int64Array, StringArray, TimestampMicrosecondArray};

    use super::*;
    use crate::formats::write::datetime::DateTimeText;

    fn partitioning(names: &[&'static str]) -> Partitioning {
        Partitioning::new(names.iter().copied().zip(0..), Style::cast(DateTimeText::cast_in_utc()))
    }

    /// Recorded from Spark 4.2.
    #[test]
    fn values_are_escaped_and_the_empty_one_is_null() {
        let keys =
            StringArray::from(vec![Some("a/b c"), Some("x=y%"), Some("žluť:é"), Some(""), None, Some("a%b c#d?é[x]{y}"), Some("x=y%")]);
        let rows = RecordBatch::try_from_iter([("k", Arc::new(keys) as ArrayRef)]).unwrap();
        let folders = partitioning(&["k"]).split(&rows).unwrap();
        let named: Vec<(&str, usize)> = folders.iter().map(|(folder, rows)| (folder.as_str(), rows.num_rows())).collect();
        assert_eq!(
            named,
            [
                ("k=a%2Fb c", 1),
                ("k=x%3Dy%25", 2),
                ("k=žluť%3Aé", 1),
                ("k=__HIVE_DEFAULT_PARTITION__", 2),
                ("k=a%25b c%23d%3Fé%5Bx%5D%7By}", 1)
            ]
        );
    }

    /// Recorded from Spark 4.2.
    #[test]
    fn values_of_every_type_are_their_text() {
        let columns: Vec<(&str, ArrayRef)> = vec![
            ("ts", Arc::new(TimestampMicrosecondArray::from(vec![1_704_164_645_500_000]).with_timezone("UTC"))),
            ("dec", Arc::new(Decimal128Array::from(vec![150]).with_precision_and_scale(5, 2).unwrap())),
            ("n", Arc::new(Int64Array::from(vec![-3]))),
            ("da", Arc::new(Date32Array::from(vec![19_724]))),
        ];
        let rows = RecordBatch::try_from_iter(columns).unwrap();
        let folders = partitioning(&["ts", "dec", "n", "da"]).split(&rows).unwrap();
        assert_eq!(folders[0].0, "ts=2024-01-02 03%3A04%3A05.5/dec=1.50/n=-3/da=2024-01-02");
    }
}
