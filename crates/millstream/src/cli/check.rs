//! `millstream check`: plans a pipeline without running it.

use clap::Args;
use millstream::wiring::Wiring;
use millstream_core::Result;
use millstream_spark::pipelines::DatasetKind;

use super::PipelineArgs;
use super::run::load;

/// Arguments of `millstream check`.
#[derive(Debug, Args)]
pub(super) struct CheckArgs {
    #[command(flatten)]
    pipeline: PipelineArgs,
}

/// Prints every dataset with its columns, or every fault of the pipeline.
#[expect(clippy::print_stdout, reason = "the result of the command")]
pub(super) async fn run(args: CheckArgs) -> Result<()> {
    let wiring = Wiring::system();
    let pipeline = load(&wiring, &args.pipeline, Default::default()).await?;
    let checked = pipeline.check().await?;
    for note in &checked.notes {
        println!("note: {note}");
    }
    let graph = pipeline.graph();
    for (index, dataset) in graph.datasets.iter().enumerate() {
        let kind = match dataset.kind {
            DatasetKind::StreamingTable => "streaming table",
            DatasetKind::MaterializedView => "materialized view",
            DatasetKind::TemporaryView => "temporary view",
        };
        println!("{kind} {}", dataset.name);
        if let Some(schema) = checked.schemas.get(&index) {
            for field in schema.fields() {
                println!("  {} {}", field.name(), millstream_spark::types::simple_name(field.data_type()));
            }
        }
    }
    println!("ok: {} datasets, {} flows", graph.datasets.len(), graph.flows.len());
    Ok(())
}
