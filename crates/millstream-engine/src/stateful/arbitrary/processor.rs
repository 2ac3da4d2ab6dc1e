//! Stateful processors: what a program does with the rows and timers of one key.

use std::fmt::Debug;

use arrow::array::{ArrayRef, RecordBatch};
use async_trait::async_trait;
use datafusion::scalar::ScalarValue;
use millstream_core::{Error, Result};

use super::batch::{Emit, ProcessorBatch, ProcessorRuntime};
use super::rows::Rows;
use super::state::{GroupKey, ProcessorState};
use super::variable::StateVariable;
use crate::from_datafusion;

/// The logic of a stateful operator over a keyed stream, as Spark's `transformWithState`: it is called with the rows of one key at a time, and
/// whenever a timer of a key is due. What it remembers goes into the state variables that it declares.
pub trait StatefulProcessor: Debug + Send + Sync {
    /// The state variables. They are the same in every run; one that is left out keeps its state for the run that has it again.
    fn variables(&self) -> Vec<StateVariable>;

    /// Handles the rows of a key in one batch, in the order in which they came.
    ///
    /// # Errors
    /// Those of the program and of the state; the query ends then.
    fn handle_rows(&self, context: &mut KeyContext<'_>, rows: &RecordBatch) -> Result<()>;

    /// Handles a timer of a key that is due. It is deleted afterwards.
    ///
    /// # Errors
    /// As [`StatefulProcessor::handle_rows`].
    fn handle_timer(&self, context: &mut KeyContext<'_>, at_ms: i64) -> Result<()> {
        let _ = (context, at_ms);
        Ok(())
    }

    /// Handles the rows of the initial state that a key has, in the first batch and before its rows.
    ///
    /// # Errors
    /// As [`StatefulProcessor::handle_rows`].
    fn handle_initial_state(&self, context: &mut KeyContext<'_>, rows: &RecordBatch) -> Result<()> {
        let _ = (context, rows);
        Ok(())
    }
}

/// What a processor works with while it handles a key.
pub struct KeyContext<'a> {
    state: &'a mut ProcessorState,
    key: GroupKey,
    emit: &'a mut Emit<'a>,
}

impl Debug for KeyContext<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("KeyContext").field("key", &self.key).finish_non_exhaustive()
    }
}

impl KeyContext<'_> {
    /// The values of the grouping columns.
    ///
    /// # Errors
    /// Those of the state store.
    pub fn key(&self) -> Result<Vec<ScalarValue>> {
        scalars(&self.state.key_columns([&self.key])?, 0)
    }

    /// The time of the batch, milliseconds since the epoch.
    pub fn processing_time_ms(&self) -> i64 {
        self.state.processing_time_ms()
    }

    /// The watermark of the batch, milliseconds since the epoch; 0 before time has passed.
    pub fn watermark_ms(&self) -> i64 {
        self.state.watermark_ms()
    }

    /// Gives out rows of the output schema.
    ///
    /// # Errors
    /// `STATEFUL_PROCESSOR_RESULT_MISMATCH` for other columns; `EMITTING_ROWS_OLDER_THAN_WATERMARK_NOT_ALLOWED` where the output has event time.
    pub fn emit(&mut self, rows: RecordBatch) -> Result<()> {
        (self.emit)(rows)
    }

    /// A variable that holds one row.
    ///
    /// # Errors
    /// `INTERNAL_ERROR` when none of that name is declared.
    pub fn value(&mut self, name: &str) -> Result<ValueState<'_>> {
        let variable = self.variable(name)?;
        Ok(ValueState { state: self.state, key: &self.key, variable })
    }

    /// A variable that holds rows in order.
    ///
    /// # Errors
    /// As [`KeyContext::value`].
    pub fn list(&mut self, name: &str) -> Result<ListState<'_>> {
        let variable = self.variable(name)?;
        Ok(ListState { state: self.state, key: &self.key, variable })
    }

    /// A variable that holds rows by a key.
    ///
    /// # Errors
    /// As [`KeyContext::value`].
    pub fn map(&mut self, name: &str) -> Result<MapState<'_>> {
        let variable = self.variable(name)?;
        Ok(MapState { state: self.state, key: &self.key, variable })
    }

    fn variable(&self, name: &str) -> Result<usize> {
        self.state.variable(name).ok_or_else(|| Error::internal(format!("the processor has not declared a state variable '{name}'")))
    }

    /// Registers a timer of the key, milliseconds since the epoch. One in the past is due at the end of this batch.
    ///
    /// # Errors
    /// `STATEFUL_PROCESSOR_CANNOT_PERFORM_OPERATION_WITH_INVALID_TIME_MODE` in the time mode `None`.
    pub fn register_timer(&mut self, at_ms: i64) -> Result<()> {
        self.state.register_timer(&self.key, at_ms)
    }

    /// Deletes a timer of the key.
    ///
    /// # Errors
    /// As [`KeyContext::register_timer`].
    pub fn delete_timer(&mut self, at_ms: i64) -> Result<()> {
        self.state.delete_timer(&self.key, at_ms)
    }

    /// The timers of the key in the order of time.
    ///
    /// # Errors
    /// As [`KeyContext::register_timer`].
    pub fn timers(&mut self) -> Result<Vec<i64>> {
        self.state.timers(&self.key)
    }
}

/// One row of a key.
#[derive(Debug)]
pub struct ValueState<'a> {
    state: &'a mut ProcessorState,
    key: &'a GroupKey,
    variable: usize,
}

impl ValueState<'_> {
    /// The row, if there is one.
    ///
    /// # Errors
    /// Those of the state store.
    pub fn get(&mut self) -> Result<Option<Vec<ScalarValue>>> {
        self.state.value(self.variable, self.key)?.map(|columns| scalars(&columns, 0)).transpose()
    }

    /// Sets the row.
    ///
    /// # Errors
    /// As [`ProcessorState::set_value`].
    pub fn set(&mut self, row: &[ScalarValue]) -> Result<()> {
        self.state.set_value(self.variable, self.key, &columns(row)?)
    }

    /// Removes the row.
    ///
    /// # Errors
    /// Those of the state store.
    pub fn clear(&mut self) -> Result<()> {
        self.state.clear_value(self.variable, self.key)
    }
}

/// Rows of a key in order.
#[derive(Debug)]
pub struct ListState<'a> {
    state: &'a mut ProcessorState,
    key: &'a GroupKey,
    variable: usize,
}

impl ListState<'_> {
    /// The rows.
    ///
    /// # Errors
    /// Those of the state store.
    pub fn get(&mut self) -> Result<Vec<Vec<ScalarValue>>> {
        all(&self.state.list(self.variable, self.key)?)
    }

    /// Appends a row.
    ///
    /// # Errors
    /// As [`ProcessorState::set_value`].
    pub fn append(&mut self, row: &[ScalarValue]) -> Result<()> {
        self.state.append(self.variable, self.key, &Rows { columns: columns(row)?, count: 1 })
    }

    /// Replaces the rows by these, of which there must be one.
    ///
    /// # Errors
    /// As [`ProcessorState::append`].
    pub fn set(&mut self, rows: &[Vec<ScalarValue>]) -> Result<()> {
        let width = rows.first().map_or(0, Vec::len);
        let column = |index: usize| ScalarValue::iter_to_array(rows.iter().filter_map(|row| row.get(index).cloned()));
        let columns = (0..width).map(|index| column(index).map_err(from_datafusion)).collect::<Result<Vec<_>>>()?;
        self.state.replace(self.variable, self.key, &Rows { columns, count: rows.len() })
    }

    /// Removes the rows.
    ///
    /// # Errors
    /// Those of the state store.
    pub fn clear(&mut self) -> Result<()> {
        self.state.clear_list(self.variable, self.key)
    }
}

/// Rows of a key by a further key.
#[derive(Debug)]
pub struct MapState<'a> {
    state: &'a mut ProcessorState,
    key: &'a GroupKey,
    variable: usize,
}

impl MapState<'_> {
    /// The row of a user's key.
    ///
    /// # Errors
    /// As [`ProcessorState::set_value`].
    pub fn get(&mut self, user_key: &[ScalarValue]) -> Result<Option<Vec<ScalarValue>>> {
        let value = self.state.map_value(self.variable, self.key, &columns(user_key)?)?;
        value.map(|columns| scalars(&columns, 0)).transpose()
    }

    /// Sets the row of a user's key.
    ///
    /// # Errors
    /// As [`ProcessorState::set_value`].
    pub fn set(&mut self, user_key: &[ScalarValue], row: &[ScalarValue]) -> Result<()> {
        self.state.set_map_value(self.variable, self.key, &columns(user_key)?, &columns(row)?)
    }

    /// Removes a user's key.
    ///
    /// # Errors
    /// As [`ProcessorState::set_value`].
    pub fn remove(&mut self, user_key: &[ScalarValue]) -> Result<()> {
        self.state.remove_map_value(self.variable, self.key, &columns(user_key)?)
    }

    /// The entries, in no order.
    ///
    /// # Errors
    /// Those of the state store.
    pub fn entries(&mut self) -> Result<Vec<(Vec<ScalarValue>, Vec<ScalarValue>)>> {
        let (keys, values) = self.state.map_entries(self.variable, self.key)?;
        Ok(all(&keys)?.into_iter().zip(all(&values)?).collect())
    }

    /// Removes all entries.
    ///
    /// # Errors
    /// Those of the state store.
    pub fn clear(&mut self) -> Result<()> {
        self.state.clear_map(self.variable, self.key)
    }
}

fn scalars(columns: &[ArrayRef], row: usize) -> Result<Vec<ScalarValue>> {
    columns.iter().map(|column| ScalarValue::try_from_array(column, row).map_err(from_datafusion)).collect()
}

fn all(rows: &Rows) -> Result<Vec<Vec<ScalarValue>>> {
    (0..rows.count).map(|row| scalars(&rows.columns, row)).collect()
}

fn columns(row: &[ScalarValue]) -> Result<Vec<ArrayRef>> {
    row.iter().map(|value| value.to_array().map_err(from_datafusion)).collect()
}

/// Runs a processor in this process.
#[derive(Debug)]
pub(super) struct InProcess<P>(pub(super) P);

#[async_trait]
impl<P: StatefulProcessor + 'static> ProcessorRuntime for InProcess<P> {
    fn operator_name(&self) -> &'static str {
        "transformWithStateExec"
    }

    async fn variables(&self) -> Result<Vec<StateVariable>> {
        Ok(self.0.variables())
    }

    async fn run(&self, batch: ProcessorBatch, state: &mut ProcessorState, emit: &mut Emit<'_>) -> Result<()> {
        for variable in self.0.variables() {
            state.declare(variable)?;
        }
        for group in &batch.groups {
            let mut context = KeyContext { state: &mut *state, key: group.key.clone(), emit: &mut *emit };
            if !group.initial.is_empty() {
                self.0.handle_initial_state(&mut context, &batch.initial.slice(group.initial.start, group.initial.len()))?;
            }
            if !group.rows.is_empty() {
                self.0.handle_rows(&mut context, &batch.rows.slice(group.rows.start, group.rows.len()))?;
            }
        }
        for (key, at_ms) in state.due_timers()? {
            let mut context = KeyContext { state: &mut *state, key: key.clone(), emit: &mut *emit };
            self.0.handle_timer(&mut context, at_ms)?;
            state.delete_timer(&key, at_ms)?;
        }
        Ok(())
    }
}
