//! `millstream checkpoint state`.

use std::io::Write;
use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions, StructArray};
use arrow::datatypes::{Field, Schema};
use clap::Args;
use millstream_core::{Error, Result};
use millstream_engine::state_source::{StoredTable, tables};

use super::{CheckpointArgs, batch_or_last};
use crate::cli::finish;
use crate::terminal;

/// Arguments of `millstream checkpoint state`.
#[derive(Debug, Args)]
pub(in crate::cli) struct StateArgs {
    #[command(flatten)]
    checkpoint: CheckpointArgs,

    /// The operator, as `show` numbers them
    #[arg(long, default_value_t = 0)]
    operator: usize,

    /// The table of the operator; the first by default
    #[arg(long)]
    table: Option<String>,

    /// The batch after which the state is read; the last committed one by default
    #[arg(long)]
    batch: Option<u64>,

    /// Rows to print
    #[arg(long, default_value_t = 20)]
    limit: usize,
}

/// Prints rows of one table, in the order of their keys.
pub(super) async fn run(args: StateArgs) -> Result<()> {
    let reader = args.checkpoint.open()?;
    let batch = batch_or_last(&reader, args.batch).await?;
    let tables = tables(&reader, batch).await?;
    let wanted = |table: &&StoredTable| table.operator == args.operator && args.table.as_ref().is_none_or(|name| *name == table.name);
    let Some(table) = tables.iter().find(wanted) else {
        let known: Vec<String> = tables.iter().map(|table| format!("{} {}", table.operator, table.name)).collect();
        let known = if known.is_empty() { "the query has no state".to_owned() } else { format!("there are: {}", known.join(", ")) };
        return Err(Error::invalid("INVALID_ARGUMENT", format!("there is no such operator or table after batch {batch}; {known}")));
    };
    let rows = table.rows(&reader, batch).await?;
    let all = flat(&rows.key, &rows.value)?;
    let shown = all.slice(0, args.limit.min(all.num_rows()));
    let mut out = std::io::stdout().lock();
    if args.checkpoint.json {
        let mut writer = arrow::json::LineDelimitedWriter::new(&mut out);
        return finish(writer.write(&shown).and_then(|()| writer.finish()).map_err(std::io::Error::other));
    }
    let printed = terminal::rows(&shown.schema(), std::slice::from_ref(&shown))?;
    let title = format!("operator {} ({}), table {}, after batch {batch}", table.operator, table.operator_name, table.name);
    let written = writeln!(out, "{title}").and_then(|()| printed.and_then_write(&mut out));
    let rest = all.num_rows() - shown.num_rows();
    finish(written.and_then(|()| if rest > 0 { writeln!(out, "{rest} more: --limit {}", all.num_rows()) } else { Ok(()) }))
}

/// The columns of the key and then those of the value.
fn flat(key: &StructArray, value: &StructArray) -> Result<RecordBatch> {
    let parts = [key, value];
    let fields: Vec<Arc<Field>> = parts.iter().flat_map(|part| part.fields().iter().cloned()).collect();
    let columns: Vec<ArrayRef> = parts.iter().flat_map(|part| part.columns().iter().cloned()).collect();
    let options = RecordBatchOptions::new().with_row_count(Some(arrow::array::Array::len(key)));
    RecordBatch::try_new_with_options(Arc::new(Schema::new(fields)), columns, &options)
        .map_err(|error| Error::internal("rows of state have no columns").caused_by(error))
}
