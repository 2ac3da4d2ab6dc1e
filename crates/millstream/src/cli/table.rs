//! `millstream table`: looks at tables of a pipeline, or at any Delta table by path.

use std::io::Write;

use clap::{Args, Subcommand, ValueEnum};
use millstream::wiring::Wiring;
use millstream_connectors::delta::{table_history, table_info};
use millstream_core::registry::ReadRequest;
use millstream_core::{Error, Options, Result};
use millstream_engine::{Session, SessionOptions};

use super::{StorageArgs, finish};
use crate::terminal;

/// Subcommands of `millstream table`.
#[derive(Debug, Subcommand)]
pub(super) enum TableCommand {
    /// Print rows of a table
    Show(ShowArgs),
    /// Print a table's version, size, columns and the batches that queries have written
    Info(TableArgs),
    /// Print the last commits of a table
    History(HistoryArgs),
}

/// Which table.
#[derive(Debug, Args)]
pub(super) struct TableArgs {
    /// A table of the pipeline, `quarantine.FLOW` for records that a flow could not read, `late.FLOW` for rows that it left out as late, or
    /// the path or URL of any Delta table
    table: String,

    #[command(flatten)]
    storage: StorageArgs,
}

/// Arguments of `millstream table show`.
#[derive(Debug, Args)]
pub(super) struct ShowArgs {
    #[command(flatten)]
    table: TableArgs,

    /// Rows to print
    #[arg(long, default_value_t = 20)]
    limit: u64,

    /// A condition in SQL
    #[arg(long, value_name = "CONDITION")]
    r#where: Option<String>,

    /// Columns to sort by, in SQL
    #[arg(long, value_name = "COLUMNS")]
    order_by: Option<String>,

    /// An older version of the table
    #[arg(long)]
    version: Option<u64>,

    /// How to print
    #[arg(long, value_enum, default_value_t = Format::Table)]
    format: Format,
}

/// Arguments of `millstream table history`.
#[derive(Debug, Args)]
pub(super) struct HistoryArgs {
    #[command(flatten)]
    table: TableArgs,

    /// Commits to print
    #[arg(long, default_value_t = 20)]
    limit: usize,
}

/// How rows are printed.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Format {
    Table,
    Json,
    Csv,
}

impl TableArgs {
    fn location(&self) -> String {
        if self.table.contains('/') {
            return self.table.clone();
        }
        let name = self.table.to_lowercase();
        let beside = ["quarantine", "late"].into_iter().find_map(|kind| Some((kind, name.strip_prefix(kind)?.strip_prefix('.')?)));
        let folder = beside.map_or_else(|| name.clone(), |(kind, flow)| format!("_{kind}_{flow}"));
        format!("{}/tables/{folder}", self.storage.storage.trim_end_matches('/'))
    }

    fn missing(&self) -> Error {
        Error::invalid("TABLE_OR_VIEW_NOT_FOUND", format!("there is no table '{}' at {}", self.table, self.location()))
            .with_sqlstate("42P01")
    }
}

/// Runs a subcommand.
pub(super) async fn run(command: TableCommand) -> Result<()> {
    match command {
        TableCommand::Show(args) => show(args).await,
        TableCommand::Info(args) => info(args).await,
        TableCommand::History(args) => history(args).await,
    }
}

async fn show(args: ShowArgs) -> Result<()> {
    let wiring = Wiring::system();
    let session = Session::new(wiring.registry(std::io::stdout()), SessionOptions::default())?;
    let mut options = Options::new();
    if let Some(version) = args.version {
        options.set("versionAsOf", version.to_string());
    }
    let request = ReadRequest { schema: None, paths: vec![args.table.location()], options };
    if table_info(&wiring.storage(), &args.table.location(), args.version).await?.is_none() {
        return Err(args.table.missing());
    }
    let relation = session.table_relation("delta", request).await?;
    let condition = args.r#where.map(|condition| format!(" WHERE {condition}")).unwrap_or_default();
    let order = args.order_by.map(|columns| format!(" ORDER BY {columns}")).unwrap_or_default();
    let text = format!("SELECT * FROM shown{condition}{order} LIMIT {}", args.limit);
    let plan = millstream_spark::sql::plan_over(&session, "shown", relation, &text).await?;
    let (schema, rows) = session.collect(plan).await?;
    let mut out = std::io::stdout().lock();
    let written = match args.format {
        Format::Table => terminal::rows(&schema, &rows)?.and_then_write(&mut out),
        Format::Json => {
            let mut writer = arrow::json::LineDelimitedWriter::new(&mut out);
            let written = rows.iter().try_for_each(|rows| writer.write(rows)).and_then(|()| writer.finish());
            written.map_err(std::io::Error::other)
        }
        Format::Csv => {
            let mut writer = arrow::csv::Writer::new(&mut out);
            rows.iter().try_for_each(|rows| writer.write(rows)).map_err(std::io::Error::other)
        }
    };
    finish(written)
}

async fn info(args: TableArgs) -> Result<()> {
    let wiring = Wiring::system();
    let Some(info) = table_info(&wiring.storage(), &args.location(), None).await? else { return Err(args.missing()) };
    let text = terminal::table_info(&info);
    finish(std::io::stdout().lock().write_all(text.as_bytes()))
}

async fn history(args: HistoryArgs) -> Result<()> {
    let wiring = Wiring::system();
    let location = args.table.location();
    if table_info(&wiring.storage(), &location, None).await?.is_none() {
        return Err(args.table.missing());
    }
    let text = terminal::table_history(&table_history(&wiring.storage(), &location, args.limit).await?);
    finish(std::io::stdout().lock().write_all(text.as_bytes()))
}
