//! Timers: instants at which a key is called.

use std::sync::Arc;

use arrow::array::{ArrayRef, TimestampMicrosecondArray};
use arrow::datatypes::FieldRef;
use datafusion::error::Result as DfResult;

use super::super::micros;
use super::super::table::{Expiry, PerKey, StateTable, TableSchema, Tables};
use super::state::GroupKey;
use super::variable::instant;

/// The timers of all keys. A timer's number within its key is its time in milliseconds.
#[derive(Debug)]
pub(super) struct Timers {
    pub(super) table: StateTable,
}

impl Timers {
    pub(super) fn new(keys: &[FieldRef], tables: &Tables) -> DfResult<Self> {
        Ok(Timers { table: tables.open(Self::schema(keys))? })
    }

    pub(super) fn schema(keys: &[FieldRef]) -> TableSchema {
        TableSchema {
            name: "$timers".into(),
            key: keys.to_vec(),
            value: vec![Arc::new(instant("expiryTimestamp"))],
            expiry: Expiry::Value(0),
            per_key: PerKey::Many,
            grouped_by: None,
        }
    }

    /// Says whether the timer is new.
    pub(super) fn register(&mut self, key: &GroupKey, at_ms: i64) -> DfResult<bool> {
        let new = !self.table.contains(&key.0, at_ms)?;
        let at: ArrayRef = Arc::new(TimestampMicrosecondArray::from(vec![micros(at_ms)]));
        let encoded = self.table.encode_values(&[at], 1)?;
        self.table.put(&key.0, at_ms, encoded.row(0), Some(micros(at_ms)))?;
        Ok(new)
    }

    /// Says whether there was such a timer.
    pub(super) fn delete(&mut self, key: &GroupKey, at_ms: i64) -> DfResult<bool> {
        self.table.remove(&key.0, at_ms)
    }

    /// The timers of a key.
    pub(super) fn of(&mut self, key: &GroupKey) -> DfResult<Vec<i64>> {
        let mut found = Vec::new();
        self.table.get_many([key.0.as_ref()], &mut |_, at_ms, _| found.push(at_ms))?;
        Ok(found)
    }

    /// The timers at or before an instant, in the order of time. They stay in the table.
    pub(super) fn due(&mut self, instant_ms: i64) -> DfResult<Vec<(GroupKey, i64)>> {
        let mut due = Vec::new();
        for (key, at_ms, value) in self.table.expire(micros(instant_ms))? {
            self.table.put(&key, at_ms, &value, Some(micros(at_ms)))?;
            due.push((GroupKey(key), at_ms));
        }
        Ok(due)
    }

    /// The earliest timer there may be.
    pub(super) fn first_ms(&self) -> Option<i64> {
        self.table.first_expiry().map(|at| at.div_euclid(1_000))
    }
}
