//! JSON lines on standard output, for programs.

use std::io::{self, Write};
use std::sync::{Mutex, PoisonError};

use millstream_core::Error;
use millstream_spark::pipelines::{FlowSummary, PipelineEvent, RunSummary};
use serde_json::{Value, json};

use super::Reporter;

/// One JSON object per event; every object has `event`. Progress is Spark's progress JSON.
///
/// Nobody may read any more, or the disk below may be full: the run goes on all the same, and tells it at its end.
#[derive(Default)]
pub(crate) struct Lines {
    failed: Mutex<Option<io::Error>>,
}

impl Lines {
    fn print(&self, line: &Value) {
        if let Err(error) = writeln!(io::stdout(), "{line}") {
            self.failed.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
        }
    }
}

impl Reporter for Lines {
    fn event(&self, event: &PipelineEvent) {
        self.print(&match event {
            PipelineEvent::Started { flow } => json!({"event": "started", "flow": flow}),
            PipelineEvent::Progress { flow, progress } => json!({"event": "progress", "flow": flow, "progress": progress.as_ref()}),
            PipelineEvent::Retrying { flow, error, pause } => {
                json!({"event": "retrying", "flow": flow, "error": describe(error), "pauseMs": millis(*pause)})
            }
            PipelineEvent::Refreshed { flow, rows } => json!({"event": "refreshed", "flow": flow, "rows": rows}),
            PipelineEvent::Finished(summary) => {
                let mut line = flow(summary);
                line["event"] = json!("finished");
                line
            }
        });
    }

    fn summary(&self, summary: &RunSummary) -> io::Result<()> {
        let flows: Vec<Value> = summary.flows.iter().map(flow).collect();
        self.print(&json!({"event": "summary", "seconds": summary.elapsed.as_secs_f64(), "flows": flows}));
        match self.failed.lock().unwrap_or_else(PoisonError::into_inner).take() {
            Some(error) => Err(error),
            None => io::stdout().flush(),
        }
    }
}

fn flow(summary: &FlowSummary) -> Value {
    json!({
        "flow": summary.name,
        "table": summary.table,
        "kind": summary.kind,
        "status": summary.status,
        "seconds": summary.elapsed.as_secs_f64(),
        "error": summary.error.as_ref().map(|error| describe(error)),
        "counts": summary.counts,
    })
}

fn describe(error: &Error) -> Value {
    json!({"kind": error.kind().to_string(), "code": error.code(), "sqlstate": error.sqlstate(), "message": error.to_string()})
}

fn millis(duration: std::time::Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
