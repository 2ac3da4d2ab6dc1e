//! What a person, or a program, sees of a run.

mod bars;
mod lines;
mod tables;

use millstream_spark::pipelines::{PipelineEvent, RunSummary};
use tokio::sync::mpsc;

pub(crate) use bars::Bars;
pub(crate) use lines::Lines;
pub(crate) use tables::{rows, table_history, table_info};

/// Shows a run while it goes on, and its end.
pub(crate) trait Reporter: Send {
    /// Shows one event.
    fn event(&self, event: &PipelineEvent);

    /// Shows what the whole run did.
    fn summary(&self, summary: &RunSummary) -> std::io::Result<()>;
}

/// Shows events until the run has told its last, and gives the reporter back.
pub(crate) async fn show(reporter: Box<dyn Reporter>, mut events: mpsc::Receiver<PipelineEvent>) -> Box<dyn Reporter> {
    while let Some(event) = events.recv().await {
        reporter.event(&event);
    }
    reporter
}
