//! Creating objects on remote stores, where an error does not say whether the object was created.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use futures::stream::BoxStream;
use millstream_core::{Clock, Error, ErrorKind};
use object_store::path::Path;
use object_store::{
    CopyOptions, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta, ObjectStore, ObjectStoreExt, PutMode, PutMultipartOptions,
    PutOptions, PutPayload, PutResult, RenameOptions, Result,
};

use super::failure::carry;

/// Attempts to create or to read back before giving up.
const ATTEMPTS: u32 = 6;

/// The pause after the first attempt; each further pause is twice as long.
const FIRST_PAUSE: Duration = Duration::from_millis(50);

/// A store whose [`PutMode::Create`] says what is true of the object, not what a response said.
///
/// A request may fail after it was applied (its response was lost, or `object_store` retried after a 5xx and met its own object), and S3 may
/// answer 409 to a create that no one won. So every failed create is read back: the same bytes are there → success; other bytes →
/// `AlreadyExists`; nothing is there → tried again after a pause. When the attempts are used up, the error carries the code
/// `STORE_OUTCOME_UNKNOWN`: the object may still appear. Errors that the request never left for are passed on at once, and so is everything
/// that is not a conditional put.
///
/// Two writers creating the same bytes both succeed: records that tell writers apart must say who wrote them.
#[derive(Debug)]
pub struct ConfirmedStore<S> {
    inner: S,
    clock: Arc<dyn Clock>,
}

impl<S: ObjectStore> ConfirmedStore<S> {
    /// Confirms what is created in `inner`; pauses on `clock`.
    pub fn new(inner: S, clock: Arc<dyn Clock>) -> Self {
        ConfirmedStore { inner, clock }
    }

    async fn create(&self, location: &Path, payload: PutPayload, options: PutOptions) -> Result<PutResult> {
        let mut pause = FIRST_PAUSE;
        let mut attempt = 1;
        loop {
            let failure = match self.inner.put_opts(location, payload.clone(), options.clone()).await {
                Err(error) if may_have_been_applied(&error) => error,
                outcome => return outcome,
            };
            // The failure stays the error to report until an object is seen: a 409 with nothing there is not `AlreadyExists`.
            loop {
                match self.read_back(location, &payload).await {
                    Ok(Found::Ours(result)) => return Ok(result),
                    Ok(Found::Other) => {
                        return Err(object_store::Error::AlreadyExists { path: location.to_string(), source: failure.into() });
                    }
                    Ok(Found::Nothing) if attempt < ATTEMPTS => break,
                    Err(_) if attempt < ATTEMPTS => {
                        self.wait(&mut pause, &mut attempt).await;
                    }
                    Ok(Found::Nothing) => return Err(unknown(location, failure)),
                    Err(unreadable) => {
                        let failure = if matches!(failure, object_store::Error::AlreadyExists { .. }) { unreadable } else { failure };
                        return Err(unknown(location, failure));
                    }
                }
            }
            self.wait(&mut pause, &mut attempt).await;
        }
    }

    async fn wait(&self, pause: &mut Duration, attempt: &mut u32) {
        self.clock.sleep(*pause).await;
        *pause *= 2;
        *attempt += 1;
    }

    async fn read_back(&self, location: &Path, payload: &PutPayload) -> Result<Found> {
        let found = match self.inner.get(location).await {
            Ok(found) => found,
            Err(object_store::Error::NotFound { .. }) => return Ok(Found::Nothing),
            Err(error) => return Err(error),
        };
        let meta = found.meta.clone();
        if meta.size != payload.content_length() as u64 {
            return Ok(Found::Other);
        }
        let bytes = found.bytes().await?;
        if bytes.len() as u64 != meta.size {
            return Err(object_store::Error::Generic { store: "ConfirmedStore", source: "the read back was cut short".into() });
        }
        let same = bytes.iter().eq(payload.iter().flatten());
        Ok(if same { Found::Ours(PutResult { e_tag: meta.e_tag, version: meta.version }) } else { Found::Other })
    }
}

enum Found {
    Ours(PutResult),
    Other,
    Nothing,
}

/// Whether the object can be there in spite of the error.
fn may_have_been_applied(error: &object_store::Error) -> bool {
    use object_store::Error as E;
    !matches!(
        error,
        E::InvalidPath { .. }
            | E::NotSupported { .. }
            | E::NotImplemented { .. }
            | E::PermissionDenied { .. }
            | E::Unauthenticated { .. }
            | E::UnknownConfigurationKey { .. }
    )
}

fn unknown(location: &Path, failure: object_store::Error) -> object_store::Error {
    let message = format!(
        "creating {location} failed {ATTEMPTS} times and it is unknown whether the object will appear; check the store, then restart: \
         recovery finds out"
    );
    carry(Error::new(ErrorKind::StoreUnavailable, "STORE_OUTCOME_UNKNOWN", message).caused_by(failure))
}

#[async_trait]
impl<S: ObjectStore> ObjectStore for ConfirmedStore<S> {
    async fn put_opts(&self, location: &Path, payload: PutPayload, options: PutOptions) -> Result<PutResult> {
        match options.mode {
            PutMode::Create => self.create(location, payload, options).await,
            PutMode::Overwrite | PutMode::Update(_) => self.inner.put_opts(location, payload, options).await,
        }
    }

    async fn put_multipart_opts(&self, location: &Path, options: PutMultipartOptions) -> Result<Box<dyn MultipartUpload>> {
        self.inner.put_multipart_opts(location, options).await
    }

    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        self.inner.get_opts(location, options).await
    }

    async fn get_ranges(&self, location: &Path, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        self.inner.get_ranges(location, ranges).await
    }

    fn delete_stream(&self, locations: BoxStream<'static, Result<Path>>) -> BoxStream<'static, Result<Path>> {
        self.inner.delete_stream(locations)
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        self.inner.list(prefix)
    }

    fn list_with_offset(&self, prefix: Option<&Path>, offset: &Path) -> BoxStream<'static, Result<ObjectMeta>> {
        self.inner.list_with_offset(prefix, offset)
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        self.inner.list_with_delimiter(prefix).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        self.inner.copy_opts(from, to, options).await
    }

    async fn rename_opts(&self, from: &Path, to: &Path, options: RenameOptions) -> Result<()> {
        self.inner.rename_opts(from, to, options).await
    }
}

impl<S: fmt::Display> fmt::Display for ConfirmedStore<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ConfirmedStore({})", self.inner)
    }
}

#[cfg(test)]
mod tests;
