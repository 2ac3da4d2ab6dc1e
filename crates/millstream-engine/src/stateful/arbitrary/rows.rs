//! Rows of state in columns, and when they expire.

use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, BooleanArray, TimestampMicrosecondArray};
use arrow::compute::filter;
use arrow::datatypes::TimestampMicrosecondType;
use datafusion::error::Result as DfResult;

/// Rows in columns. There are rows without columns, so their number goes beside them.
#[derive(Clone, Debug, Default)]
pub struct Rows {
    /// The columns.
    pub columns: Vec<ArrayRef>,
    /// How many rows they have.
    pub count: usize,
}

/// Rows whose last column says when each of them expires, where the variable has a time to live.
#[derive(Debug)]
pub(super) struct Expiring {
    /// The time by which rows have expired, microseconds; `None` where they live for ever.
    pub(super) at: Option<i64>,
}

impl Expiring {
    /// The columns with the instant (microseconds) at which the rows expire.
    pub(super) fn columns(columns: &[ArrayRef], rows: usize, expires: Option<i64>) -> Vec<ArrayRef> {
        let last = expires.map(|expires| Arc::new(TimestampMicrosecondArray::from(vec![expires; rows])) as ArrayRef);
        columns.iter().cloned().chain(last).collect()
    }

    /// The rows that have not expired, without that column.
    pub(super) fn alive(&self, mut rows: Rows) -> DfResult<Rows> {
        let Some(now) = self.at else { return Ok(rows) };
        let Some(last) = rows.columns.pop() else { return Ok(rows) };
        let Some(expires) = last.as_primitive_opt::<TimestampMicrosecondType>() else { return Ok(rows) };
        let alive: BooleanArray = expires.iter().map(|expires| Some(expires.is_none_or(|expires| expires > now))).collect();
        if alive.true_count() == rows.count {
            return Ok(rows);
        }
        let columns = rows.columns.iter().map(|column| filter(column, &alive)).collect::<Result<Vec<_>, _>>()?;
        Ok(Rows { columns, count: alive.true_count() })
    }
}
