use std::sync::Arc;

use async_trait::async_trait;
use futures::FutureExt;
use object_store::path::Path;
use object_store::{MultipartUpload, PutPayload, PutResult, Result, UploadPart};
use parking_lot::Mutex;

use super::{Fault, Operation, Request, STORE, Script};

/// An upload whose parts and end the rules may hit.
#[derive(Debug)]
pub(super) struct FaultUpload {
    /// `None` once ended, also while a zombie ends it.
    inner: Option<Box<dyn MultipartUpload>>,
    location: Path,
    script: Arc<Mutex<Script>>,
}

impl FaultUpload {
    pub(super) fn new(inner: Box<dyn MultipartUpload>, location: Path, script: Arc<Mutex<Script>>) -> Self {
        FaultUpload { inner: Some(inner), location, script }
    }

    fn strike(&self, operation: Operation) -> Option<Fault> {
        self.script.lock().strike(operation, &self.location)
    }
}

#[async_trait]
impl MultipartUpload for FaultUpload {
    fn put_part(&mut self, data: PutPayload) -> UploadPart {
        let fault = self.strike(Operation::PutPart);
        let request = Request { location: self.location.clone(), creating: false, lost: Some(()) };
        let work = match &mut self.inner {
            // A part that does not arrive must not reach the inner upload at all, or it would know of it.
            _ if matches!(fault, Some(Fault::Before(_) | Fault::Lose)) => async { Ok(()) }.boxed(),
            Some(inner) => inner.put_part(data),
            None => async { Err(ended()) }.boxed(),
        };
        async move { request.run(fault, work).await }.boxed()
    }

    async fn complete(&mut self) -> Result<PutResult> {
        let fault = self.strike(Operation::CompleteUpload);
        if let Some(Fault::Before(failure)) = fault {
            return Err(failure.error(&self.location, false));
        }
        let mut inner = self.inner.take().ok_or_else(ended)?;
        let work = async move { inner.complete().await }.boxed();
        Request::to(&self.location).run(fault, work).await
    }

    async fn abort(&mut self) -> Result<()> {
        let fault = self.strike(Operation::AbortUpload);
        let mut inner = self.inner.take().ok_or_else(ended)?;
        let work = async move { inner.abort().await }.boxed();
        Request::to(&self.location).run(fault, work).await
    }
}

fn ended() -> object_store::Error {
    object_store::Error::Generic { store: STORE, source: "the upload has ended".into() }
}
