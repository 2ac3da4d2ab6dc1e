//! `millstream check`: plans a pipeline without running it.

use std::io::Write;

use clap::Args;
use millstream::wiring::Wiring;
use millstream_core::Result;
use millstream_spark::pipelines::DatasetKind;

use super::run::load;
use super::{PipelineArgs, finish};

/// Arguments of `millstream check`.
#[derive(Debug, Args)]
pub(super) struct CheckArgs {
    #[command(flatten)]
    pipeline: PipelineArgs,
}

/// Prints every dataset with its columns, or every fault of the pipeline.
pub(super) async fn run(args: CheckArgs) -> Result<()> {
    let wiring = Wiring::system();
    let pipeline = load(&wiring, &args.pipeline, Default::default()).await?;
    let checked = pipeline.check().await?;
    let mut text = String::new();
    let mut line = |line: String| text.push_str(&format!("{line}\n"));
    for note in &checked.notes {
        line(format!("note: {note}"));
    }
    let graph = pipeline.graph();
    for (index, dataset) in graph.datasets.iter().enumerate() {
        let kind = match dataset.kind {
            DatasetKind::StreamingTable => "streaming table",
            DatasetKind::MaterializedView => "materialized view",
            DatasetKind::TemporaryView => "temporary view",
        };
        line(format!("{kind} {}", dataset.name));
        if let Some(schema) = checked.schemas.get(&index) {
            for field in schema.fields() {
                line(format!("  {} {}", field.name(), millstream_spark::types::simple_name(field.data_type())));
            }
        }
    }
    line(format!("ok: {} datasets, {} flows", graph.datasets.len(), graph.flows.len()));
    finish(std::io::stdout().lock().write_all(text.as_bytes()))
}
