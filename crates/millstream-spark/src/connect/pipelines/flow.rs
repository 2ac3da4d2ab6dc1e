//! One attempt of a flow: its query over the tables as they are, and the rows into its table.

use std::sync::Arc;

use millstream_core::versioned::AsOf;
use millstream_core::{Error, ErrorKind, Options, Result};
use millstream_engine::StreamingQuery;
use millstream_engine::plan::is_streaming;

use super::cdc::{self, AutoCdc, CdcSink};
use super::graph::{FlowQuery, OutputKind};
use super::resolve::{Mode, Resolver};
use crate::analyzer::Analyzed;
use crate::connect::catalog::{Stored, TableName, Warehouse};
use crate::connect::command::{By, DeltaMode, into_table};
use crate::connect::session::ConnectSession;
use crate::connect::streaming::{self, FlowDestination};
use crate::types::schema_from_json;

/// A flow that is ready to run.
pub(super) struct Prepared {
    session: Arc<ConnectSession>,
    name: String,
    analyzed: Analyzed,
    work: Work,
}

enum Work {
    /// The table becomes the result of the query.
    Replace(TableName),
    /// The rows of a stream go somewhere.
    Stream { destination: FlowDestination, checkpoint: String },
}

/// A flow that runs.
pub(super) struct Running(Started);

enum Started {
    Replace(Box<Prepared>),
    Stream(Guarded),
}

/// Plans a flow.
///
/// # Errors
/// Those of its query over the tables as they are, and of its table.
pub(super) async fn prepare(resolver: &Arc<Resolver>, index: usize, target: usize, checkpoint: &str) -> Result<Prepared> {
    let flow = resolver.flow(index)?;
    let session = resolver.session_of(index)?;
    let output = resolver.graph.outputs.get(target).ok_or_else(|| Error::internal("a flow has no target"))?;
    let (analyzed, _) = resolver.analyze(index, Mode::Live).await?;
    let name = flow.name.to_string();
    let stream = |destination| Work::Stream { destination, checkpoint: checkpoint.to_owned() };
    if !matches!(output.kind, OutputKind::MaterializedView(_)) && !is_streaming(&analyzed.plan)? {
        let message = format!("flow '{name}' reads tables as they are: read them as streams, with STREAM or readStream");
        return Err(Error::invalid("RuntimeException", message));
    }
    let work = match (&output.kind, output.name.table()) {
        (OutputKind::MaterializedView(_), Some(table)) => Work::Replace(table),
        (OutputKind::StreamingTable(details), Some(table)) => match &flow.query {
            FlowQuery::AutoCdc(cdc) => stream(changes(&session, &name, cdc, &table, &analyzed).await?),
            _ => {
                let stored = stored(&session, &table).await?;
                let mut options: Options = stored.options.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
                options.set("path", stored.location());
                stream(FlowDestination::Format { format: stored.format.clone(), options, partition_by: details.partition_by.clone() })
            }
        },
        (OutputKind::Sink { format, options }, _) => stream(FlowDestination::Format {
            format: format.to_lowercase(),
            options: options.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect(),
            partition_by: Vec::new(),
        }),
        _ => return Err(Error::internal("a view does not run")),
    };
    Ok(Prepared { session, name, analyzed, work })
}

async fn stored(session: &Arc<ConnectSession>, table: &TableName) -> Result<Stored> {
    let found = Warehouse::open(session.host.as_ref())?.table(table).await?;
    found.ok_or_else(|| Error::invalid("NoSuchElementException", format!("the table {table} of the pipeline is gone")))
}

/// The sink of an AUTO CDC flow.
async fn changes(
    session: &Arc<ConnectSession>,
    flow: &str,
    cdc: &AutoCdc,
    table: &TableName,
    analyzed: &Analyzed,
) -> Result<FlowDestination> {
    let (_, side) = cdc::side_table(table, cdc, &analyzed.schema())?;
    if session.engine.registry().versioned(&stored(session, table).await?.format).is_none() {
        let message = format!("the rows of {table} cannot be changed in its format: AUTO CDC needs a Delta table");
        return Err(Error::invalid("AUTOCDC_TARGET_DOES_NOT_SUPPORT_MERGE", message).with_sqlstate("0A000"));
    }
    let there = stored(session, &side.name).await?;
    let opened = match session.engine.registry().versioned(&there.format) {
        Some(tables) => tables.open(there.location(), &AsOf::Newest).await?,
        None => None,
    };
    let opened = opened.ok_or_else(|| Error::internal(format!("the table {} is no Delta table", side.name)))?;
    let facts = opened.facts();
    cdc::check_side_table(flow, &side, &schema_from_json(&facts.schema)?, &facts.properties)?;
    // The changes are read by one task, and applied by all.
    let applying = session.duplicate(session.host.ids().next().to_string())?;
    Ok(FlowDestination::Sink(Arc::new(CdcSink::new(applying, flow, table, &side.name, &cdc.keys))))
}

impl Prepared {
    /// Starts it. What replaces a table runs when it is waited for.
    ///
    /// # Errors
    /// Spark's refusals of queries.
    pub(super) async fn start(self) -> Result<Running> {
        Ok(Running(match self.work {
            Work::Replace(_) => Started::Replace(Box::new(self)),
            Work::Stream { destination, checkpoint } => {
                let query = streaming::FlowQuery { name: self.name, analyzed: self.analyzed, destination, checkpoint };
                Started::Stream(Guarded(streaming::start_flow(&self.session, query).await?))
            }
        }))
    }
}

impl Running {
    /// Waits for its end.
    ///
    /// # Errors
    /// What went wrong; `STREAM_FAILED` with the cause for a stream.
    pub(super) async fn finish(self) -> Result<()> {
        match self.0 {
            Started::Replace(prepared) => {
                let Prepared { session, analyzed, work: Work::Replace(table), .. } = *prepared else {
                    return Err(Error::internal("a stream replaces no table"));
                };
                replace(&session, analyzed, &table).await
            }
            Started::Stream(query) => query.0.await_termination().await.map_err(|error| streaming::failed(&query.0, &error)),
        }
    }
}

async fn replace(session: &Arc<ConnectSession>, analyzed: Analyzed, table: &TableName) -> Result<()> {
    let columns = stored(session, table).await?.columns(session).await?;
    let given = analyzed.schema().fields().len();
    if given != columns.fields().len() {
        let message = format!(
            "The column number of the existing table {table} ({} columns) does not match the data schema ({given} columns).",
            columns.fields().len()
        );
        return Err(Error::new(ErrorKind::Invalid, "_LEGACY_ERROR_TEMP_1161", message));
    }
    into_table(session, analyzed, table, &By::Name, DeltaMode::Overwrite, &Options::new()).await
}

/// A query that is stopped when nobody waits for it any more.
struct Guarded(StreamingQuery);

impl Drop for Guarded {
    fn drop(&mut self) {
        if self.0.is_active() {
            let query = self.0.clone();
            tokio::spawn(async move { query.stop().await });
        }
    }
}
