//! Commands to `spark.streams`.

use std::sync::Arc;
use std::time::Duration;

use millstream_core::{Error, Result};
use millstream_engine::StreamingQuery;
use spark_connect_proto::streaming_query_manager_command::Command;
use spark_connect_proto::streaming_query_manager_command_result::{
    ActiveResult, AwaitAnyTerminationResult, ListStreamingQueryListenerResult, ResultType, StreamingQueryInstance,
};
use spark_connect_proto::{StreamingQueryInstanceId, StreamingQueryManagerCommand, StreamingQueryManagerCommandResult};
use uuid::Uuid;

use super::queries::Queries;
use crate::connect::session::ConnectSession;

/// Does what `spark.streams` of a client is asked to.
///
/// # Errors
/// `STREAM_FAILED` from waiting when a query failed; `IllegalArgumentException` for an id that is none;
/// `UNSUPPORTED_FEATURE.STREAMING_LISTENER_ON_SERVER` for listeners that are to run here.
pub(in crate::connect) async fn manager_command(
    session: &Arc<ConnectSession>,
    command: StreamingQueryManagerCommand,
) -> Result<StreamingQueryManagerCommandResult> {
    let queries = session.part::<Queries>();
    let command = command.command.ok_or_else(|| Error::invalid("INVALID_PLAN_INPUT", "a command to streams says nothing to do"))?;
    let result_type = match command {
        Command::Active(_) => Some(ResultType::Active(ActiveResult { active_queries: queries.active().iter().map(instance).collect() })),
        Command::GetQuery(id) => {
            let id = Uuid::parse_str(&id).map_err(|_| Error::invalid("IllegalArgumentException", format!("Invalid UUID string: {id}")))?;
            queries.active_by_id(id).map(|query| ResultType::Query(instance(&query)))
        }
        Command::AwaitAnyTermination(wait) => {
            let timeout = wait.timeout_ms.map(|ms| Duration::from_millis(u64::try_from(ms).unwrap_or(0)));
            let terminated = queries.await_any(timeout).await?;
            Some(ResultType::AwaitAnyTermination(AwaitAnyTerminationResult { terminated }))
        }
        Command::ResetTerminated(_) => {
            queries.reset_terminated();
            Some(ResultType::ResetTerminated(true))
        }
        Command::ListListeners(_) => Some(ResultType::ListListeners(ListStreamingQueryListenerResult { listener_ids: Vec::new() })),
        Command::AddListener(_) | Command::RemoveListener(_) => {
            return Err(Error::invalid(
                "UNSUPPORTED_FEATURE.STREAMING_LISTENER_ON_SERVER",
                "listeners whose code would run in the server are not taken: PySpark's addListener runs them in the client",
            )
            .with_sqlstate("0A000"));
        }
    };
    Ok(StreamingQueryManagerCommandResult { result_type })
}

fn instance(query: &StreamingQuery) -> StreamingQueryInstance {
    let id = StreamingQueryInstanceId { id: query.id().to_string(), run_id: query.run_id().to_string() };
    StreamingQueryInstance { id: Some(id), name: query.name().map(str::to_owned) }
}
