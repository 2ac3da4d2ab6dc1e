//! `millstream checkpoint show`.

use clap::Args;
use comfy_table::presets::UTF8_FULL_CONDENSED;
use comfy_table::{Cell, CellAlignment, Table};
use millstream_core::Result;
use millstream_core::lateness::{SourceLateness, Tally};
use millstream_core::progress::utc_text;
use millstream_engine::inspect::{BatchReport, CheckpointReport, OperatorReport, describe};
use serde_json::Value;

use super::{CheckpointArgs, Page, print, print_json, time};

/// Arguments of `millstream checkpoint show`.
#[derive(Debug, Args)]
pub(in crate::cli) struct ShowArgs {
    #[command(flatten)]
    checkpoint: CheckpointArgs,

    /// Batches to print
    #[arg(long, default_value_t = 10)]
    batches: usize,
}

/// Prints a checkpoint.
pub(super) async fn run(args: ShowArgs) -> Result<()> {
    let reader = args.checkpoint.open()?;
    let report = describe(&reader, args.batches).await?;
    if args.checkpoint.json { print_json(&report) } else { print(&page(&report)) }
}

fn page(report: &CheckpointReport) -> String {
    let mut page = Page::default();
    page.line("checkpoint", &report.location);
    page.line("query", &report.query_id);
    match &report.opened {
        Some((epoch, owner, started_ms)) => page.line("opened", format!("{} by {owner} (epoch {epoch})", utc_text(*started_ms))),
        None => page.line("opened", "by Spark only"),
    }
    let committed = report.last_committed.map_or_else(|| "none".to_owned(), |batch| batch.to_string());
    page.line("batches", format!("{} in the logs, last committed {committed}", report.known_batches));
    for source in &report.sources {
        let newest = source.newest_batch.map_or_else(|| "none".to_owned(), |batch| batch.to_string());
        page.line(&format!("source {}", source.name), format!("{} files in its log, newest batch {newest}", source.log_files));
    }
    for (node, watermark_ms) in report.watermarks_ms.iter().enumerate() {
        page.line(&format!("watermark {node}"), utc_text(*watermark_ms));
    }
    for operator in &report.operators {
        page.line(&format!("operator {}", operator.operator), describe_operator(operator));
    }
    if report.state.stored_files > 0 {
        let state = &report.state;
        let since = state.snapshot_batch.map_or_else(|| "no snapshot".to_owned(), |batch| format!("snapshot of batch {batch}"));
        page.line(
            "state",
            format!(
                "{} files, {} bytes ({since}); {} files, {} bytes stored",
                state.files, state.bytes, state.stored_files, state.stored_bytes
            ),
        );
    }
    if let Some(query) = &report.query {
        meaning(query, &mut page);
    }
    for (name, value) in &report.options {
        page.line("option", format!("{name} = {value}"));
    }
    for (source, lateness) in report.lateness.0.iter().enumerate() {
        late(&format!("source {source}"), lateness, &mut page);
    }
    if !report.batches.is_empty() {
        page.text(batches(&report.batches));
    }
    page.0
}

fn describe_operator(operator: &OperatorReport) -> String {
    let columns = |columns: &[(String, String)]| columns.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>().join(", ");
    let tables = operator.tables.iter().map(|table| format!("{}({} -> {})", table.name, columns(&table.key), columns(&table.value)));
    format!("{}: {}", operator.name, tables.collect::<Vec<_>>().join(", "))
}

/// What the query means, aspect by aspect.
fn meaning(query: &Value, page: &mut Page) {
    let parts = ["watermarks", "operators"].into_iter().flat_map(|part| {
        let all = query.get(part).and_then(Value::as_array).cloned().unwrap_or_default();
        all.into_iter().enumerate().map(move |(number, aspects)| (format!(" of {} {number}", part.trim_end_matches('s')), aspects))
    });
    let whole = query.get("query").cloned().map(|aspects| (String::new(), aspects));
    for (of, aspects) in whole.into_iter().chain(parts) {
        for (aspect, text) in aspects.as_object().into_iter().flatten() {
            let text = text.as_str().unwrap_or_default();
            if !text.is_empty() {
                page.line("query", format!("{aspect}{of}: {text}"));
            }
        }
    }
}

fn late(name: &str, lateness: &SourceLateness, page: &mut Page) {
    page.line("lateness", format!("{name}: {}", tally(&lateness.total)));
    for (partition, counted) in &lateness.partitions {
        page.line("", format!("{partition}: {}", tally(counted)));
    }
}

fn tally(tally: &Tally) -> String {
    let mut text = format!("{} rows, {} left out as late", tally.rows, tally.late);
    if tally.partly_late > 0 {
        text.push_str(&format!(", {} left out of some windows", tally.partly_late));
    }
    if tally.max_behind_ms > 0 {
        let enough = |part: f64| tally.behind.delay_for(part).map_or_else(|| "-".to_owned(), |ms| format!("{ms} ms"));
        text.push_str(&format!(
            "; at most {} ms behind; a delay of {} keeps 99 %, {} keeps 99.9 %",
            tally.max_behind_ms,
            enough(0.99),
            enough(0.999)
        ));
    }
    text
}

fn batches(batches: &[BatchReport]) -> Table {
    let mut table = Table::new();
    table.load_preset(UTF8_FULL_CONDENSED);
    table.set_header(["batch", "time", "committed", "watermark", "state files", "offsets"]);
    for batch in batches {
        let offsets: Vec<String> =
            batch.offsets.iter().map(|offset| offset.as_ref().map_or_else(|| "-".to_owned(), ToString::to_string)).collect();
        table.add_row(
            [
                batch.batch.to_string(),
                time(batch.timestamp_ms),
                time(batch.committed_ms),
                time(batch.watermark_ms),
                batch.state_files.to_string(),
                offsets.join(" "),
            ]
            .map(Cell::new),
        );
    }
    for column in [0, 4] {
        if let Some(column) = table.column_mut(column) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table
}
