//! The rows of a batch, key by key.

use std::ops::Range;

use arrow::array::{ArrayRef, RecordBatch, UInt32Array};
use arrow::compute::{concat_batches, take_record_batch};
use arrow::datatypes::SchemaRef;
use datafusion::error::{DataFusionError, Result as DfResult};

use super::super::table::{StateTable, normalize};
use super::state::GroupKey;

/// Rows in the order of their keys; the rows of a key keep their order.
#[derive(Debug)]
pub(super) struct Grouped {
    pub(super) rows: RecordBatch,
    pub(super) groups: Vec<(GroupKey, Range<usize>)>,
}

impl Grouped {
    /// Groups rows of this schema by the columns `keys`, which `table` encodes.
    pub(super) fn new(batches: &[RecordBatch], schema: &SchemaRef, keys: &[usize], table: &StateTable) -> DfResult<Self> {
        let rows = concat_batches(schema, batches)?;
        let columns: Vec<ArrayRef> = keys.iter().filter_map(|key| rows.columns().get(*key)).map(normalize).collect::<DfResult<_>>()?;
        let encoded = table.encode_keys(&columns, rows.num_rows())?;
        let count = u32::try_from(rows.num_rows()).map_err(|error| DataFusionError::External(Box::new(error)))?;
        let mut order: Vec<u32> = (0..count).collect();
        order.sort_by(|a, b| encoded.row(*a as usize).cmp(encoded.row(*b as usize)));
        let mut groups: Vec<(GroupKey, Range<usize>)> = Vec::new();
        for (at, row) in order.iter().enumerate() {
            let key = encoded.row(*row as usize);
            match groups.last_mut().filter(|(known, _)| known.0.as_ref() == key) {
                Some((_, range)) => range.end = at + 1,
                None => groups.push((GroupKey(key.into()), at..at + 1)),
            }
        }
        Ok(Grouped { rows: take_record_batch(&rows, &UInt32Array::from(order))?, groups })
    }
}
