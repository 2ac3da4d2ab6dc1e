//! Commands to one query.

use std::sync::Arc;
use std::time::Duration;

use millstream_core::{Error, Result};
use millstream_engine::StreamingQuery;
use spark_connect_proto::streaming_query_command::Command;
use spark_connect_proto::streaming_query_command_result::{
    AwaitTerminationResult, ExceptionResult, ExplainResult, RecentProgressResult, ResultType, StatusResult,
};
use spark_connect_proto::{StreamingQueryCommand, StreamingQueryCommandResult};

use super::queries::Queries;
use super::{failure, progress};
use crate::connect::session::ConnectSession;

/// Does what a `StreamingQuery` of a client is asked to.
///
/// # Errors
/// `CONNECT_INVALID_PLAN.STREAMING_QUERY_NOT_FOUND`; `STREAM_FAILED` from what waits for a query that failed.
pub(in crate::connect) async fn query_command(
    session: &Arc<ConnectSession>,
    command: StreamingQueryCommand,
) -> Result<StreamingQueryCommandResult> {
    let id = command.query_id.unwrap_or_default();
    let query = session.part::<Queries>().find(&id.id, &id.run_id)?;
    let command = command.command.ok_or_else(|| Error::invalid("INVALID_PLAN_INPUT", "a streaming query command says nothing to do"))?;
    let result_type = match command {
        Command::Status(_) => Some(ResultType::Status(status(&query))),
        Command::LastProgress(_) => Some(recent(query.last_progress().iter().map(|last| progress::recent_json(last)))),
        Command::RecentProgress(_) => Some(recent(query.recent_progress().iter().map(|recent| progress::recent_json(recent)))),
        Command::Stop(_) => {
            query.stop().await;
            None
        }
        Command::ProcessAllAvailable(_) => {
            query.process_all_available().await.map_err(|error| failure::stream_failed(&query, &error))?;
            None
        }
        Command::Explain(explain) => Some(ResultType::Explain(ExplainResult { result: plans(&query, explain.extended) })),
        Command::Exception(_) => query.error().map(|error| {
            let message = failure::exception_message(&query, &error);
            ResultType::Exception(ExceptionResult {
                exception_message: Some(message.clone()),
                error_class: Some("STREAM_FAILED".to_owned()),
                stack_trace: Some(message),
            })
        }),
        Command::AwaitTermination(wait) => {
            let terminated = match wait.timeout_ms {
                Some(ms) => query.await_termination_for(Duration::from_millis(u64::try_from(ms).unwrap_or(0))).await,
                None => query.await_termination().await.map(|()| true),
            };
            let terminated = terminated.map_err(|error| failure::stream_failed(&query, &error))?;
            Some(ResultType::AwaitTermination(AwaitTerminationResult { terminated }))
        }
    };
    Ok(StreamingQueryCommandResult { query_id: Some(id), result_type })
}

fn status(query: &StreamingQuery) -> StatusResult {
    let status = query.status();
    let status_message = match query.error() {
        Some(error) => format!("Terminated with exception: {}", failure::text_of(&error)),
        None => status.message,
    };
    StatusResult {
        status_message,
        is_data_available: status.is_data_available,
        is_trigger_active: status.is_trigger_active,
        is_active: query.is_active(),
    }
}

fn recent(progress: impl Iterator<Item = String>) -> ResultType {
    ResultType::RecentProgress(RecentProgressResult { recent_progress_json: progress.collect() })
}

fn plans(query: &StreamingQuery, extended: bool) -> String {
    let Some(physical) = query.explain() else { return "No physical plan. Waiting for data.".to_owned() };
    if extended {
        format!("== Analyzed Logical Plan ==\n{}\n== Physical Plan ==\n{physical}", query.explain_logical())
    } else {
        format!("== Physical Plan ==\n{physical}")
    }
}
