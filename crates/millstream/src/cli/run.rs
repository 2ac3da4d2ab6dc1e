//! `millstream run`: runs a pipeline, once or until it is stopped.

use std::sync::Arc;

use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use millstream::memory::default_limit;
use millstream::wiring::{Wiring, owner};
use millstream_core::{Error, Result};
use millstream_engine::memory::set_process_limit;
use millstream_engine::stateful::ACCEPTABLE_CHANGES;
use millstream_engine::{Session, SessionOptions};
use millstream_spark::pipelines::{Pipeline, RunOptions};
use millstream_spark::sql::Variables;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::{PipelineArgs, finish, stop_on_signal};
use crate::terminal::{self, Reporter};

/// Events that may wait for the terminal; beyond that progress reports are lost, totals are not.
const EVENTS: usize = 1_024;

/// Arguments of `millstream run`.
#[derive(Debug, Args)]
pub(super) struct RunArgs {
    #[command(flatten)]
    pipeline: PipelineArgs,

    /// Bring every table up to date and stop; otherwise run until Ctrl-C
    #[arg(long)]
    once: bool,

    /// Compute this table again from nothing; may be repeated
    #[arg(long, value_name = "TABLE")]
    full_refresh: Vec<String>,

    /// Compute every table again from nothing
    #[arg(long, conflicts_with = "full_refresh")]
    full_refresh_all: bool,

    /// Report as JSON lines on standard output
    #[arg(long)]
    json: bool,

    /// Take checkpoints from another process that still holds them; that process is fenced and changes nothing any more
    #[arg(long)]
    takeover: bool,

    /// Accept that the storage was moved here: checkpoints stop warning that they were last used in another place. Of a copy, run only one
    #[arg(long)]
    adopt: bool,

    /// Go on with the state of a flow although the flow now means something else: `window`, `keys`, `aggregates`, `session`, `join`,
    /// `event-time`, `output-mode`, or `all`; may be repeated
    #[arg(long, value_name = "CHANGE", ignore_case = true, value_parser = change())]
    accept_change: Vec<String>,

    /// Tasks that a batch runs at once; the number of cores by default
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..))]
    parallelism: Option<u16>,
}

/// The changes that can be accepted, in any case.
fn change() -> impl TypedValueParser<Value = String> {
    PossibleValuesParser::new(ACCEPTABLE_CHANGES).map(|change| change.to_lowercase())
}

/// Reads a pipeline and opens its storage.
pub(super) async fn load(wiring: &Wiring, args: &PipelineArgs, options: SessionOptions) -> Result<Pipeline> {
    let session = Session::new(wiring.registry(std::io::stdout()), options)?;
    let mut variables = Variables::new();
    for (key, value) in &args.variables {
        variables.set(key, value);
    }
    let root = wiring.pipeline_root(&args.storage.storage).await?;
    Pipeline::load(session, &args.pipeline, &variables, root).await
}

/// Runs the pipeline and reports what it did. The error is that of the first flow that failed.
pub(super) async fn run(args: RunArgs) -> Result<()> {
    let wiring = Wiring::system();
    set_process_limit(default_limit());
    let mut options = SessionOptions { owner: owner(), takeover: args.takeover, adopt: args.adopt, ..SessionOptions::default() };
    if let Some(parallelism) = args.parallelism {
        options.parallelism = usize::from(parallelism);
    }
    wiring.make_folder(&format!("{}/tables", args.pipeline.storage.storage.trim_end_matches('/')), "--storage")?;
    let pipeline = load(&wiring, &args.pipeline, options).await?;
    let stop = CancellationToken::new();
    tokio::spawn(stop_on_signal(stop.clone()));

    let (events, reports) = mpsc::channel(EVENTS);
    let reporter: Box<dyn Reporter> = if args.json { Box::new(terminal::Lines::default()) } else { Box::new(terminal::Bars::new()) };
    let shown = tokio::spawn(terminal::show(reporter, reports));
    let run_options = RunOptions {
        once: args.once,
        full_refresh: args.full_refresh,
        full_refresh_all: args.full_refresh_all,
        accepted_changes: args.accept_change.into_iter().collect(),
        ..RunOptions::default()
    };
    let outcome = pipeline.run(run_options, events, stop).await;
    let reporter = shown.await.map_err(|error| Error::internal("the report ended early").caused_by(error))?;
    let summary = outcome?;
    let shown = reporter.summary(&summary);
    match summary.error() {
        None => finish(shown),
        Some(error) => Err(copy(error)),
    }
}

/// A failed flow's error belongs to its summary; the command's own error says the same.
fn copy(error: &Arc<Error>) -> Error {
    let text = error.to_string();
    let message = text.strip_prefix(&format!("[{}] ", error.code())).unwrap_or(&text);
    Error::new(error.kind(), error.code().to_owned(), message)
}

#[cfg(test)]
mod tests {
    use millstream_core::ErrorKind;

    use super::*;

    #[test]
    fn the_last_line_says_why_a_flow_failed() {
        let full = std::io::Error::from(std::io::ErrorKind::StorageFull);
        let store =
            Error::new(ErrorKind::StoreUnavailable, "STORE_FULL", "cannot write offsets/3; free space or raise the quota").caused_by(full);
        let flow = Arc::new(Error::new(ErrorKind::SinkUnavailable, "DELTA_SINK_UNAVAILABLE", "flow 'a': no commit").caused_by(store));
        let told = copy(&flow);
        assert_eq!((told.kind(), told.to_string()), (flow.kind(), flow.to_string()));
        assert!(told.to_string().contains("free space or raise the quota: no storage space"), "{told}");
    }
}
