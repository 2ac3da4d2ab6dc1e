//! `millstream table`: looks at tables of a pipeline, or at any Delta table by path.

use std::io::Write;

use clap::{Args, Subcommand, ValueEnum};
use millstream::wiring::Wiring;
use millstream_connectors::delta::{TableInfo, table_history, table_info};
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
    /// A table of the pipeline or of a server's warehouse (`--storage` names either), `quarantine.FLOW` for records that a flow could not
    /// read, `late.FLOW` for rows that it left out as late, or the path or URL of any Delta table
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
    /// Where the table may be: below the storage of a pipeline, or in the warehouse of a server.
    fn places(&self) -> Vec<String> {
        if self.table.contains('/') {
            return vec![self.table.clone()];
        }
        let root = self.storage.storage.trim_end_matches('/');
        let name = self.table.to_lowercase();
        let beside = ["quarantine", "late"].into_iter().find_map(|kind| Some((kind, name.strip_prefix(kind)?.strip_prefix('.')?)));
        let folder = beside.map_or_else(|| name.clone(), |(kind, flow)| format!("_{kind}_{flow}"));
        let served = match name.split_once('.') {
            Some(("default", table)) => format!("{root}/{table}"),
            Some((schema, table)) => format!("{root}/{schema}.db/{table}"),
            None => format!("{root}/{name}"),
        };
        vec![format!("{root}/tables/{folder}"), served]
    }

    /// The first of its places that has a table of that version.
    async fn find(&self, wiring: &Wiring, version: Option<u64>) -> Result<(String, TableInfo)> {
        let places = self.places();
        for place in &places {
            if let Some(info) = table_info(&wiring.storage(), place, version).await? {
                return Ok((place.clone(), info));
            }
        }
        let message = format!("there is no table '{}' at {}: check the name and --storage", self.table, places.join(" or "));
        Err(Error::invalid("TABLE_OR_VIEW_NOT_FOUND", message).with_sqlstate("42P01"))
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
    let (place, _) = args.table.find(&wiring, args.version).await?;
    let request = ReadRequest { schema: None, paths: vec![place], options };
    let relation = session.table_relation("delta", request).await?;
    let condition = args.r#where.map(|condition| format!(" WHERE {condition}")).unwrap_or_default();
    let order = args.order_by.map(|columns| format!(" ORDER BY {columns}")).unwrap_or_default();
    let text = format!("SELECT * FROM shown{condition}{order} LIMIT {}", args.limit);
    let plan = millstream_spark::sql::plan_over(&session, "shown", relation, &text).await?;
    let (schema, rows) = session.collect(plan).await?;
    // Laid out before anything is written: writers of rows hide what went wrong with the output.
    let mut text = Vec::new();
    let laid_out = match args.format {
        Format::Table => terminal::rows(&schema, &rows)?
            .and_then_write(&mut text)
            .map_err(|error| arrow::error::ArrowError::from_external_error(error.into())),
        Format::Json => {
            let mut writer = arrow::json::LineDelimitedWriter::new(&mut text);
            rows.iter().try_for_each(|rows| writer.write(rows)).and_then(|()| writer.finish())
        }
        Format::Csv => {
            let mut writer = arrow::csv::Writer::new(&mut text);
            rows.iter().try_for_each(|rows| writer.write(rows))
        }
    };
    laid_out.map_err(|error| {
        let message = "the rows cannot be printed in this format: try --format json, or leave columns out";
        Error::invalid("UNSUPPORTED_FEATURE", message).caused_by(error)
    })?;
    finish(std::io::stdout().lock().write_all(&text))
}

async fn info(args: TableArgs) -> Result<()> {
    let wiring = Wiring::system();
    let (_, info) = args.find(&wiring, None).await?;
    let text = terminal::table_info(&info);
    finish(std::io::stdout().lock().write_all(text.as_bytes()))
}

async fn history(args: HistoryArgs) -> Result<()> {
    let wiring = Wiring::system();
    let (place, _) = args.table.find(&wiring, None).await?;
    let text = terminal::table_history(&table_history(&wiring.storage(), &place, args.limit).await?);
    finish(std::io::stdout().lock().write_all(text.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_looked_for_in_pipelines_and_warehouses() {
        for (table, expected) in [
            ("Gold", &["lake/tables/gold", "lake/gold"][..]),
            ("s.gold", &["lake/tables/s.gold", "lake/s.db/gold"]),
            ("default.gold", &["lake/tables/default.gold", "lake/gold"]),
            ("quarantine.f", &["lake/tables/_quarantine_f", "lake/quarantine.db/f"]),
            ("/a/Path", &["/a/Path"]),
        ] {
            let args = TableArgs { table: table.to_owned(), storage: StorageArgs { storage: "lake/".to_owned() } };
            assert_eq!(args.places(), expected, "{table}");
        }
    }
}
