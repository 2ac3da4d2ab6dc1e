//! The queries of a pipeline's flows: they take what is there and end.

use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use millstream_core::sink::{OutputMode, Sink};
use millstream_core::{Error, Options, Result, Trigger};
use millstream_engine::{QueryRequest, StreamingQuery};

use super::destination::{self, Wanted};
use super::queries::Queries;
use super::start::{settings, visible};
use super::{failure, reader};
use crate::analyzer::Analyzed;
use crate::connect::session::ConnectSession;

/// A query of a flow.
#[derive(Debug)]
pub(in crate::connect) struct FlowQuery {
    /// Its name.
    pub(in crate::connect) name: String,
    /// The rows.
    pub(in crate::connect) analyzed: Analyzed,
    /// Where they go.
    pub(in crate::connect) destination: FlowDestination,
    /// The path or URL of its checkpoint.
    pub(in crate::connect) checkpoint: String,
}

/// Where the rows of a flow go.
#[derive(Debug)]
pub(in crate::connect) enum FlowDestination {
    /// A place of a format.
    Format {
        /// The format, in lower case.
        format: String,
        /// Options of the writer, with the path.
        options: Options,
        /// Columns that it is partitioned by.
        partition_by: Vec<String>,
    },
    /// A sink.
    Sink(Arc<dyn Sink>),
}

/// Starts the query of a flow.
///
/// # Errors
/// Spark's refusals of queries and writers; what goes wrong later ends the query.
pub(in crate::connect) async fn start_flow(session: &Arc<ConnectSession>, flow: FlowQuery) -> Result<StreamingQuery> {
    reader::check_distinct(&millstream_engine::plan::stream_names(&flow.analyzed.plan)?)?;
    let schema: SchemaRef = Arc::new(flow.analyzed.schema());
    let mode = OutputMode::Append;
    let sink = match flow.destination {
        FlowDestination::Sink(sink) => sink,
        FlowDestination::Format { format, options, partition_by } => {
            let wanted = Wanted { format, options, partition_by, name: Some(flow.name.clone()), mode };
            destination::open(session, &wanted, &schema).await?
        }
    };
    let request = QueryRequest {
        name: Some(flow.name),
        plan: visible(flow.analyzed)?,
        output: Some(schema),
        sink,
        mode,
        trigger: Trigger::AvailableNow,
        checkpoint: session.host.checkpoint(&flow.checkpoint).await?,
        quarantine: None,
        expectations: Vec::new(),
        settings: settings(session)?,
    };
    let query = session.engine.start_detached(request).await?;
    // No client waits for an answer that tells of this start.
    session.part::<Queries>().bus().tell(query.run_id());
    Ok(query)
}

/// What whoever waits for a query is told when it fails.
pub(in crate::connect) fn failed(query: &StreamingQuery, cause: &Error) -> Error {
    failure::stream_failed(query, cause)
}
