//! The stream of responses to one attached client.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use futures::Stream;
use futures::future::BoxFuture;
use millstream_core::Error;
use prost::Message;
use spark_connect_proto::ExecutePlanResponse;
use tonic::Status;

use super::invalid_cursor;
use super::operation::{Operation, Operations};
use super::responses::{End, Next};
use crate::connect::errors::{self, Fault};
use crate::connect::session::ConnectSession;

/// What a call to execute or reattach answers with.
pub(in crate::connect) type ResponseStream = Pin<Box<dyn Stream<Item = Result<ExecutePlanResponse, Status>> + Send>>;

/// After this time a stream ends without a final response, and the client attaches again: proxies dislike calls that never end.
const MOST_TIME: Duration = Duration::from_secs(120);

/// After so many bytes a stream ends the same way.
const MOST_BYTES: usize = 1 << 30;

/// A client's place in the responses of an operation. When it is dropped, the client is gone.
struct Attachment {
    session: Arc<ConnectSession>,
    operation: Arc<Operation>,
    client: u64,
    position: u64,
    bytes: usize,
    ended: bool,
    deadline: BoxFuture<'static, ()>,
}

impl Drop for Attachment {
    fn drop(&mut self) {
        let now_ms = self.session.host.clock().now_ms();
        let was_current = self.operation.responses.detach(self.client, now_ms);
        // Nobody can come back to an operation that is not reattachable.
        if was_current && !self.operation.reattachable {
            self.session.part::<Operations>().release(&self.operation.id);
        }
    }
}

/// Makes a new client the one that gets the responses of an operation, from a position on.
pub(super) fn attach(session: Arc<ConnectSession>, operation: Arc<Operation>, position: u64) -> ResponseStream {
    let clock = session.host.clock();
    let attachment = Attachment {
        client: operation.responses.attach(),
        session,
        operation,
        position,
        bytes: 0,
        ended: false,
        deadline: Box::pin(async move { clock.sleep(MOST_TIME).await }),
    };
    Box::pin(futures::stream::unfold(attachment, |mut attachment| async move {
        let next = attachment.next().await?;
        Some((next, attachment))
    }))
}

impl Attachment {
    async fn next(&mut self) -> Option<Result<ExecutePlanResponse, Status>> {
        if self.ended || (self.operation.reattachable && self.bytes > MOST_BYTES) {
            return None;
        }
        let responses = &self.operation.responses;
        let next = if self.operation.reattachable {
            tokio::select! {
                biased;
                next = responses.next(self.client, self.position) => next,
                () = &mut self.deadline => return None,
            }
        } else {
            responses.next(self.client, self.position).await
        };
        match next {
            Next::Response(response) => {
                self.position += 1;
                self.bytes = self.bytes.saturating_add(response.encoded_len());
                Some(Ok(*response))
            }
            Next::End(End::Complete) => None,
            Next::End(End::Failed(fault)) => {
                self.ended = true;
                Some(Err(errors::status(Some(&self.session), &fault)))
            }
            Next::Replaced => self.fail(&invalid_cursor("DISCONNECTED", "The cursor has been disconnected by the server.")),
            Next::Gone => {
                let message = format!("The response at position {} is no longer available.", self.position);
                self.fail(&invalid_cursor("POSITION_NOT_AVAILABLE", &message))
            }
        }
    }

    fn fail(&mut self, error: &Error) -> Option<Result<ExecutePlanResponse, Status>> {
        self.ended = true;
        Some(Err(errors::status(Some(&self.session), &Arc::new(Fault::of(error)))))
    }
}
