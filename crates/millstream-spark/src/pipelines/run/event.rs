//! What a run tells while it goes on, and at its end.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use millstream_core::progress::ExpectationProgress;
use millstream_core::{Error, QueryProgress};
use serde::Serialize;

/// Something that happened in a run.
#[derive(Clone, Debug)]
pub enum PipelineEvent {
    /// A flow begins.
    Started {
        /// The flow.
        flow: String,
    },
    /// A streaming flow finished a batch.
    Progress {
        /// The flow.
        flow: String,
        /// The batch's report.
        progress: Arc<QueryProgress>,
    },
    /// A flow is tried again.
    Retrying {
        /// The flow.
        flow: String,
        /// Why the last attempt failed.
        error: Arc<Error>,
        /// The pause before the next one.
        pause: Duration,
    },
    /// A materialized view was written while running continuously.
    Refreshed {
        /// The flow.
        flow: String,
        /// Its rows.
        rows: u64,
    },
    /// A flow ended.
    Finished(Box<FlowSummary>),
}

/// What kind of work a flow is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum FlowKind {
    /// A streaming query into a streaming table.
    Streaming,
    /// A batch query whose rows are appended once.
    Once,
    /// The query of a materialized view.
    MaterializedView,
}

/// How a flow ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum FlowStatus {
    /// It did its work.
    Completed,
    /// A materialized view whose inputs and definition are as they were: nothing was computed. Or a flow that is run once, and was.
    Unchanged,
    /// It failed.
    Failed,
    /// Something it reads failed, so it was not run.
    Skipped,
    /// The run was stopped.
    Stopped,
}

/// What a flow did.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Counts {
    /// Batches.
    pub batches: u64,
    /// Rows read.
    pub input_rows: u64,
    /// Rows written.
    pub output_rows: u64,
    /// Files, or other splits, read.
    pub splits: u64,
    /// Rows that were too late.
    pub late_rows: u64,
    /// Records that could not be read.
    pub quarantined: u64,
    /// Expectations by name.
    pub expectations: BTreeMap<String, ExpectationProgress>,
}

/// A flow at the end of a run.
#[derive(Clone, Debug)]
pub struct FlowSummary {
    /// The flow.
    pub name: String,
    /// The table that it writes.
    pub table: String,
    /// What kind of work it is.
    pub kind: FlowKind,
    /// How it ended.
    pub status: FlowStatus,
    /// How long it took.
    pub elapsed: Duration,
    /// Why it failed.
    pub error: Option<Arc<Error>>,
    /// What it did.
    pub counts: Counts,
}

/// A run at its end: every flow, in the order in which the graph runs them.
#[derive(Clone, Debug)]
pub struct RunSummary {
    /// The flows.
    pub flows: Vec<FlowSummary>,
    /// How long the run took.
    pub elapsed: Duration,
}

impl RunSummary {
    /// The first error of a flow, in the order of the flows.
    pub fn error(&self) -> Option<&Arc<Error>> {
        self.flows.iter().find_map(|flow| flow.error.as_ref())
    }
}
