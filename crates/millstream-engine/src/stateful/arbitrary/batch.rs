//! What a batch is to the code that runs a processor, in this process or in another.

use std::fmt::Debug;
use std::ops::Range;

use arrow::array::RecordBatch;
use async_trait::async_trait;
use millstream_core::Result;

use super::state::{GroupKey, ProcessorState};
use super::variable::StateVariable;

/// Takes rows of the output.
pub type Emit<'a> = dyn FnMut(RecordBatch) -> Result<()> + Send + 'a;

/// The rows of one batch that a processor handles.
#[derive(Debug)]
pub struct ProcessorBatch {
    /// The number of the batch.
    pub id: u64,
    /// The rows, key by key.
    pub rows: RecordBatch,
    /// The rows of the initial state, key by key; none after the first batch.
    pub initial: RecordBatch,
    /// The keys, in the order of both.
    pub groups: Vec<ProcessorGroup>,
}

/// The rows of one key.
#[derive(Debug)]
pub struct ProcessorGroup {
    /// The key.
    pub key: GroupKey,
    /// Which of the rows.
    pub rows: Range<usize>,
    /// Which of the rows of the initial state.
    pub initial: Range<usize>,
}

/// Runs a stateful processor over whole batches, wherever its code is.
#[async_trait]
pub trait ProcessorRuntime: Debug + Send + Sync {
    /// The operator's name in progress reports.
    fn operator_name(&self) -> &'static str;

    /// The state variables that the processor declares, asked before a query runs.
    ///
    /// # Errors
    /// Those of the processor.
    async fn variables(&self) -> Result<Vec<StateVariable>>;

    /// Handles the groups of a batch and then the timers that are due. Is not called where there are neither.
    ///
    /// # Errors
    /// Those of the processor and of the state.
    async fn run(&self, batch: ProcessorBatch, state: &mut ProcessorState, emit: &mut Emit<'_>) -> Result<()>;
}
