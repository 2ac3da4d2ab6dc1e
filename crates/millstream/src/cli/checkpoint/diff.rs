//! `millstream checkpoint diff`.

use clap::Args;
use millstream_core::progress::utc_text;
use millstream_core::{Error, Result};
use millstream_engine::inspect::{Difference, difference};

use super::{CheckpointArgs, Page, batch_or_last, print, print_json};

/// Arguments of `millstream checkpoint diff`.
#[derive(Debug, Args)]
pub(in crate::cli) struct DiffArgs {
    #[command(flatten)]
    checkpoint: CheckpointArgs,

    /// The earlier batch; the one before the later by default
    #[arg(long)]
    from: Option<u64>,

    /// The later batch; the last committed one by default
    #[arg(long)]
    to: Option<u64>,
}

/// Prints what differs.
pub(super) async fn run(args: DiffArgs) -> Result<()> {
    let reader = args.checkpoint.open()?;
    let to = batch_or_last(&reader, args.to).await?;
    let from = match args.from {
        Some(from) if from < to => from,
        Some(from) => return Err(Error::invalid("INVALID_ARGUMENT", format!("--from {from} is not before --to {to}"))),
        None => to.checked_sub(1).ok_or_else(|| {
            let message = format!(
                "{} has nothing before batch 0 to compare it with: `millstream checkpoint show` prints what batch 0 did",
                reader.location()
            );
            Error::invalid("INVALID_ARGUMENT", message)
        })?,
    };
    let difference = difference(&reader, from, to).await?;
    if args.checkpoint.json { print_json(&difference) } else { print(&page(&difference)) }
}

fn page(difference: &Difference) -> String {
    let mut page = Page::default();
    page.line("batches", format!("{} to {}", difference.from, difference.to));
    let (was, is) = difference.watermark_ms;
    if was != is {
        page.line("watermark", format!("{} -> {}", utc_text(was), utc_text(is)));
    }
    let shown = |value: &Option<serde_json::Value>| value.as_ref().map_or_else(|| "-".to_owned(), ToString::to_string);
    for (source, (was, is)) in &difference.offsets {
        page.line(&format!("source {source}"), format!("{} -> {}", shown(was), shown(is)));
    }
    let or_none = |value: &Option<String>| value.clone().unwrap_or_else(|| "-".to_owned());
    for (name, (was, is)) in &difference.options {
        page.line("option", format!("{name}: {} -> {}", or_none(was), or_none(is)));
    }
    for change in &difference.query {
        page.line("query", change);
    }
    for table in &difference.tables {
        let name = format!("operator {}", table.operator);
        page.line(&name, format!("{} {}: {} rows put, {} removed", table.name, table.table, table.put, table.removed));
    }
    if page.0.lines().count() == 1 {
        page.text("nothing differs");
    }
    page.0
}
