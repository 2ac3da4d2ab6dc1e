//! Execution: operations run as tasks of their own and answer through bounded queues, to which clients attach and come back.

mod batches;
mod local;
mod observe;
mod operation;
mod query;
mod responses;
mod stream;

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use futures::FutureExt;
use millstream_core::{Error, Result};
use spark_connect_proto::execute_plan_request::RequestOption;
use spark_connect_proto::execute_plan_request::request_option::RequestOption as Asked;
use spark_connect_proto::execute_plan_response::{ResponseType, ResultComplete};
use spark_connect_proto::{
    ExecutePlanRequest, ExecutePlanResponse, GetStatusRequest, GetStatusResponse, InterruptRequest, ReattachExecuteRequest,
    ReleaseExecuteRequest, interrupt_request, release_execute_request,
};
use spark_connect_proto::{get_status_response::OperationStatus, interrupt_request::InterruptType};
use tokio_util::sync::CancellationToken;

use super::command;
use super::errors::Fault;
use super::pipelines::Loading;
use super::plan::{Work, unpack};
use super::planner::Planner;
use super::session::ConnectSession;
use super::sessions::check_uuid;
use operation::{Admitted, Operation};
use responses::{Cursor, End, Responses};

pub(super) use local::{local_relation, single};
pub(super) use operation::Operations;
pub(super) use query::{named_plan, visible_plan};
pub(super) use stream::ResponseStream;

/// Where what runs sends its responses.
#[derive(Clone, Debug)]
pub(super) struct Answers {
    pub(super) session: Arc<ConnectSession>,
    operation: Arc<Operation>,
    chunking: Chunking,
}

/// How a client takes record batches that are larger than usual.
#[derive(Clone, Copy, Debug)]
struct Chunking {
    allowed: bool,
    /// Bytes of a piece.
    size: usize,
}

impl Answers {
    /// Sends a response of a kind of its own, when the client has room.
    pub(super) async fn send(&self, response: ResponseType) {
        self.push(ExecutePlanResponse { response_type: Some(response), ..ExecutePlanResponse::default() }).await;
    }

    /// Waits until the client lets go of the operation, because it has taken all answers or is gone.
    pub(super) fn released(&self) -> impl Future<Output = ()> + use<> {
        self.operation.cancel.clone().cancelled_owned()
    }

    /// Says that everything was sent. A client that can come back waits for this; it carries the metrics, so that they cost no response of
    /// their own.
    async fn complete(&self, summary: query::Summary) {
        let response_type = self.operation.reattachable.then_some(ResponseType::ResultComplete(ResultComplete {}));
        if response_type.is_none() && summary.metrics.is_none() && summary.observed.is_empty() {
            return;
        }
        let query::Summary { metrics, observed } = summary;
        let response = ExecutePlanResponse { response_type, metrics, observed_metrics: observed, ..ExecutePlanResponse::default() };
        self.operation.responses.push_last(self.addressed(response)).await;
    }

    async fn push(&self, response: ExecutePlanResponse) {
        self.operation.responses.push(self.addressed(response)).await;
    }

    /// A response under the ids of its session and operation.
    fn addressed(&self, response: ExecutePlanResponse) -> ExecutePlanResponse {
        ExecutePlanResponse {
            session_id: self.session.key.session_id.clone(),
            server_side_session_id: self.session.server_side_session_id.clone(),
            operation_id: self.operation.id.clone(),
            ..response
        }
    }
}

/// Starts an operation, or attaches to the one that a repeated request started.
///
/// # Errors
/// `INVALID_HANDLE.*`, `INVALID_PARAMETER_VALUE.*` for tags that are none.
pub(super) fn execute(session: &Arc<ConnectSession>, mut request: ExecutePlanRequest, planner: &Planner) -> Result<ResponseStream> {
    let id = match request.operation_id.take() {
        Some(id) => {
            check_uuid(&id)?;
            id
        }
        None => session.host.ids().next().to_string(),
    };
    check_tags(&request.tags)?;
    let plan_bytes = request.plan.as_ref().map_or(0, prost::Message::encoded_len);
    let (reattachable, chunking) = options(&request.request_options);
    let operations = session.part::<Operations>();
    let admitted = operations.admit(Operation {
        responses: Responses::new(id.clone(), reattachable),
        id,
        tags: request.tags,
        reattachable,
        plan_bytes,
        cancel: CancellationToken::new(),
    })?;
    let operation = match admitted {
        Admitted::Known(operation) => operation,
        Admitted::New(operation) => {
            let answers = Answers { session: session.clone(), operation: operation.clone(), chunking };
            let loading = Loading::of(request.user_context.as_ref());
            planner.spawn(run(answers, request.plan, loading));
            operation
        }
    };
    Ok(stream::attach(session.clone(), operation, 0))
}

fn options(options: &[RequestOption]) -> (bool, Chunking) {
    let mut reattachable = false;
    let mut chunking = Chunking { allowed: false, size: batches::BATCH_BYTES };
    for option in options {
        match &option.request_option {
            Some(Asked::ReattachOptions(asked)) => reattachable = asked.reattachable,
            Some(Asked::ResultChunkingOptions(asked)) => {
                chunking.allowed = asked.allow_arrow_batch_chunking;
                let preferred = asked.preferred_arrow_chunk_size.and_then(|size| usize::try_from(size).ok());
                chunking.size = preferred.unwrap_or(chunking.size).clamp(batches::LEAST_CHUNK, batches::BATCH_BYTES);
            }
            Some(Asked::Extension(_)) | None => {}
        }
    }
    (reattachable, chunking)
}

fn check_tags(tags: &[String]) -> Result<()> {
    match tags.iter().find(|tag| tag.is_empty() || tag.contains(',')) {
        None => Ok(()),
        Some(tag) => Err(Error::invalid("IllegalArgumentException", format!("the tag '{tag}' is empty or has a comma in it"))),
    }
}

/// Runs an operation to its end.
async fn run(answers: Answers, plan: Option<spark_connect_proto::Plan>, loading: Option<Loading>) {
    let operation = answers.operation.clone();
    let work = AssertUnwindSafe(async {
        let work = unpack(plan)?;
        if let Some(loading) = loading {
            loading.admit(&work)?;
        }
        let summary = match work {
            Work::Root(relation) => query::run(&answers, *relation).await?,
            Work::Command(command) => {
                command::run(&answers, *command, loading).await?;
                query::Summary::default()
            }
        };
        answers.complete(summary).await;
        Ok::<(), Error>(())
    });
    let outcome = tokio::select! {
        biased;
        // What waits for room in the queue of a client that is gone ends here, too.
        () = operation.cancel.cancelled() => Err(Error::cancelled()),
        outcome = work.catch_unwind() => outcome.unwrap_or_else(|panic| Err(panicked(panic.as_ref()))),
    };
    let end = match outcome {
        Ok(()) => End::Complete,
        Err(error) => {
            let error = if operation.cancel.is_cancelled() { cancelled() } else { error };
            tracing::debug!(operation = %operation.id, %error, "an operation failed");
            End::Failed(Arc::new(Fault::of(&error)))
        }
    };
    operation.responses.finish(end);
}

fn cancelled() -> Error {
    Error::new(millstream_core::ErrorKind::Cancelled, "OPERATION_CANCELED", "Operation has been canceled.").with_sqlstate("HY008")
}

/// A panic is a fault of ours; it ends the operation and not the server.
pub(super) fn panicked(panic: &(dyn std::any::Any + Send)) -> Error {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned()).or_else(|| panic.downcast_ref::<String>().cloned());
    Error::internal(format!("the operation panicked: {}. Please report this.", text.unwrap_or_else(|| "without a message".to_owned())))
}

/// Attaches to an operation again, after the response that the client saw last.
///
/// # Errors
/// `INVALID_HANDLE.OPERATION_*`, `INVALID_CURSOR.NOT_REATTACHABLE` and `.POSITION_NOT_FOUND`.
pub(super) fn reattach(session: &Arc<ConnectSession>, request: &ReattachExecuteRequest) -> Result<ResponseStream> {
    check_uuid(&request.operation_id)?;
    let operation = session.part::<Operations>().find(&request.operation_id)?;
    if !operation.reattachable {
        return Err(invalid_cursor("NOT_REATTACHABLE", "The cursor is not reattachable."));
    }
    let position = match request.last_response_id.as_deref() {
        None => 0,
        Some(seen) => match operation.responses.after(seen) {
            Cursor::At(position) => position,
            Cursor::Unknown => return Err(invalid_cursor("POSITION_NOT_FOUND", &format!("The cursor position id {seen} is not found."))),
        },
    };
    Ok(stream::attach(session.clone(), operation, position))
}

fn invalid_cursor(what: &str, message: &str) -> Error {
    Error::invalid(format!("INVALID_CURSOR.{what}"), format!("The cursor is invalid. {message}")).with_sqlstate("HY109")
}

/// Forgets an operation, or its responses up to one. Gives the operation's id if there is one.
///
/// # Errors
/// `INVALID_HANDLE.FORMAT`.
pub(super) fn release(session: &ConnectSession, request: &ReleaseExecuteRequest) -> Result<Option<String>> {
    check_uuid(&request.operation_id)?;
    let operations = session.part::<Operations>();
    let known = match &request.release {
        Some(release_execute_request::Release::ReleaseUntil(until)) => operations.release_until(&request.operation_id, &until.response_id),
        Some(release_execute_request::Release::ReleaseAll(_)) | None => operations.release(&request.operation_id),
    };
    Ok(known.then(|| request.operation_id.clone()))
}

/// Stops running operations and gives their ids.
///
/// # Errors
/// `INVALID_PARAMETER_VALUE.*` for a request that does not say which.
pub(super) fn interrupt(session: &ConnectSession, request: &InterruptRequest) -> Result<Vec<String>> {
    let operations = session.part::<Operations>();
    let lacks = |what: &str, message: &str| {
        Err(Error::invalid(
            format!("INVALID_PARAMETER_VALUE.{what}"),
            format!("The value of parameter(s) in interrupt is invalid: {message}"),
        )
        .with_sqlstate("22023"))
    };
    match (request.interrupt_type(), &request.interrupt) {
        (InterruptType::All, _) => Ok(operations.interrupt(|_| true)),
        (InterruptType::Tag, Some(interrupt_request::Interrupt::OperationTag(tag))) if !tag.is_empty() => {
            Ok(operations.interrupt(|operation| operation.tags.contains(tag)))
        }
        (InterruptType::Tag, _) => lacks("INTERRUPT_TYPE_TAG_REQUIRES_TAG", "INTERRUPT_TYPE_TAG requested, but no operation_tag provided."),
        (InterruptType::OperationId, Some(interrupt_request::Interrupt::OperationId(id))) if !id.is_empty() => {
            Ok(operations.interrupt(|operation| operation.id == *id))
        }
        (InterruptType::OperationId, _) => {
            lacks("INTERRUPT_TYPE_OPERATION_ID_REQUIRES_ID", "INTERRUPT_TYPE_OPERATION_ID requested, but no operation_id provided.")
        }
        (InterruptType::Unspecified, _) => lacks("UNSUPPORTED_INTERRUPT_TYPE", "no interrupt_type provided."),
    }
}

/// The states of operations; the response lacks the ids of the session.
pub(super) fn status(session: &ConnectSession, request: &GetStatusRequest) -> GetStatusResponse {
    let Some(asked) = &request.operation_status else { return GetStatusResponse::default() };
    let states = session.part::<Operations>().states(&asked.operation_ids).into_iter();
    let statuses = states.map(|(operation_id, state)| OperationStatus { operation_id, state: state.into(), ..OperationStatus::default() });
    GetStatusResponse { operation_statuses: statuses.collect(), ..GetStatusResponse::default() }
}
