//! The first rows of a stream.

use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, Int64Array, RecordBatch};
use arrow::datatypes::{DataType, Field, Int64Type};
use datafusion::error::Result as DfResult;
use millstream_core::watermark::Watermarks;

use super::operator::{Core, Counts, Description};
use super::table::{Expiry, PerKey, StateTable, TableSchema, Tables};

/// Spark's name of the operator.
pub(crate) const NAME: &str = "globalLimit";

fn table() -> TableSchema {
    TableSchema {
        name: "default".into(),
        key: Vec::new(),
        value: vec![Arc::new(Field::new("value", DataType::Int64, false))],
        expiry: Expiry::Never,
        per_key: PerKey::One,
        grouped_by: None,
    }
}

/// What the operator is.
pub(crate) fn description() -> Description {
    Description { name: NAME, tables: vec![table()], variant: String::new(), stores: 1 }
}

/// Lets rows through until a number of them has passed.
#[derive(Debug)]
pub(crate) struct LimitCore {
    limit: u64,
    table: StateTable,
    /// How many have passed, once the batch has asked.
    passed: Option<u64>,
    new: u64,
    done: Counts,
}

impl LimitCore {
    pub(crate) fn new(limit: u64, tables: &Tables) -> DfResult<Self> {
        Ok(LimitCore { limit, table: tables.open(table())?, passed: None, new: 0, done: Counts::default() })
    }

    fn passed(&mut self) -> DfResult<u64> {
        if let Some(passed) = self.passed {
            return Ok(passed);
        }
        let mut stored: Option<Box<[u8]>> = None;
        let key = self.table.encode_keys(&[], 1)?;
        self.table.get_many([key.row(0)], &mut |_, _, value| stored = Some(value.into()))?;
        let passed = match stored {
            Some(value) => {
                let columns = self.table.decode_values([value.as_ref()])?;
                let count = columns.first().and_then(|column| column.as_primitive_opt::<Int64Type>()).map_or(0, |counts| counts.value(0));
                u64::try_from(count).unwrap_or(0)
            }
            None => 0,
        };
        self.passed = Some(passed);
        Ok(passed)
    }
}

impl Core for LimitCore {
    fn push(&mut self, _: usize, rows: &RecordBatch, _: Watermarks, emit: &mut dyn FnMut(RecordBatch)) -> DfResult<()> {
        let left = self.limit.saturating_sub(self.passed()?.saturating_add(self.new));
        let take = usize::try_from(left).unwrap_or(usize::MAX).min(rows.num_rows());
        if take > 0 {
            self.new += take as u64;
            emit(rows.slice(0, take));
        }
        Ok(())
    }

    fn finish(&mut self, _: Watermarks, _: &mut dyn FnMut(RecordBatch)) -> DfResult<()> {
        self.done = Counts::default();
        if self.new > 0 {
            let total = self.passed()?.saturating_add(self.new);
            let column: ArrayRef = Arc::new(Int64Array::from(vec![i64::try_from(total).unwrap_or(i64::MAX)]));
            let value = self.table.encode_values(&[column], 1)?;
            let key = self.table.encode_keys(&[], 1)?;
            self.table.put(key.row(0), 0, value.row(0), None)?;
            self.done.updated = 1;
        }
        (self.passed, self.new) = (None, 0);
        Ok(())
    }

    fn counts(&self) -> Counts {
        self.done
    }

    fn tables(&mut self) -> Vec<&mut StateTable> {
        vec![&mut self.table]
    }

    fn wants_time_to_pass(&self) -> bool {
        false
    }
}
