//! The few operations that the checkpoint asks of a store, with their unknown outcomes settled.
//!
//! A store may say that a write failed although it was stored (a lost response), or that an object exists although it does not (S3's 409).
//! [`Objects::create`] therefore believes only what it reads back.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::StreamExt;
use millstream_core::{Clock, Result};
use object_store::path::Path;
use object_store::{Error as StoreError, ObjectMeta, ObjectStore, ObjectStoreExt, PutMode, PutOptions, PutPayload};

use crate::codec::Flaw;
use crate::store::to_error;

/// How often an operation is tried. The stores' own clients have retried transient failures by themselves before we see them.
const ATTEMPTS: u32 = 4;
const FIRST_PAUSE: Duration = Duration::from_millis(50);

/// What became of a create-if-absent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Created {
    /// The object is there with our bytes.
    Ours,
    /// The object is there with these bytes, written by somebody else.
    Other(Bytes),
}

/// What a record turned out to be.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Found<T> {
    Nothing,
    Record(T),
    Flawed(Flaw, Bytes),
}

/// A store below one root.
#[derive(Clone)]
pub(crate) struct Objects {
    store: Arc<dyn ObjectStore>,
    clock: Arc<dyn Clock>,
    /// Whether it is a disk of this machine, where a failed write has a known outcome but an unknown durability.
    local: bool,
}

impl fmt::Debug for Objects {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Objects({})", self.store)
    }
}

impl Objects {
    pub fn new(store: Arc<dyn ObjectStore>, clock: Arc<dyn Clock>, local: bool) -> Self {
        Objects { store, clock, local }
    }

    /// The whole object, or `None` when there is none.
    pub async fn read(&self, path: &Path) -> Result<Option<Bytes>> {
        let mut attempt = 0;
        loop {
            match self.read_once(path).await {
                Ok(bytes) => return Ok(Some(bytes)),
                Err(StoreError::NotFound { .. }) => return Ok(None),
                Err(error) => self.pause_or_give_up(&mut attempt, "read", path, error).await?,
            }
        }
    }

    async fn read_once(&self, path: &Path) -> object_store::Result<Bytes> {
        let result = self.store.get(path).await?;
        let size = result.meta.size;
        let bytes = result.bytes().await?;
        if bytes.len() as u64 == size {
            return Ok(bytes);
        }
        let source = format!("{} of {size} bytes arrived", bytes.len()).into();
        Err(StoreError::Generic { store: "checkpoint", source })
    }

    /// The record at `path`. One that does not decode is read again, because the fault may be in the reading.
    pub async fn read_record<T>(&self, path: &Path, decode: impl Fn(&Bytes) -> Result<T, Flaw>) -> Result<Found<T>> {
        let mut attempt = 0;
        loop {
            let Some(bytes) = self.read(path).await? else { return Ok(Found::Nothing) };
            match decode(&bytes) {
                Ok(record) => return Ok(Found::Record(record)),
                Err(flaw) if attempt == ATTEMPTS - 1 || matches!(flaw, Flaw::Version { .. }) => return Ok(Found::Flawed(flaw, bytes)),
                Err(_) => self.pause(&mut attempt).await,
            }
        }
    }

    /// Whether there is an object.
    pub async fn exists(&self, path: &Path) -> Result<bool> {
        let mut attempt = 0;
        loop {
            match self.store.head(path).await {
                Ok(_) => return Ok(true),
                Err(StoreError::NotFound { .. }) => return Ok(false),
                Err(error) => self.pause_or_give_up(&mut attempt, "read", path, error).await?,
            }
        }
    }

    /// Makes `parts` durable at `path` unless there is an object already, and says whose bytes are there.
    ///
    /// # Errors
    /// Those of [`to_error`] when the outcome is failure, or still unknown after several attempts.
    pub async fn create(&self, path: &Path, parts: &[Bytes]) -> Result<Created> {
        let mut attempt = 0;
        loop {
            let options = PutOptions::from(PutMode::Create);
            let outcome = self.store.put_opts(path, PutPayload::from_iter(parts.iter().cloned()), options).await;
            let error = match outcome {
                Ok(_) => return Ok(Created::Ours),
                Err(error) => error,
            };
            let taken = matches!(error, StoreError::AlreadyExists { .. } | StoreError::Precondition { .. });
            // After a failed write on a local disk the object may be visible and not durable: reading it back would prove nothing.
            if self.local && !taken {
                return Err(to_error(format!("cannot write {path}"), error));
            }
            match self.read(path).await {
                Ok(Some(bytes)) if same(parts, &bytes) => return Ok(Created::Ours),
                Ok(Some(bytes)) => return Ok(Created::Other(bytes)),
                Ok(None) | Err(_) => self.pause_or_give_up(&mut attempt, "write", path, error).await?,
            }
        }
    }

    /// Makes `bytes` durable at `path`, whatever was there. For what is only a hint: a suspended writer may do this late.
    pub async fn replace(&self, path: &Path, bytes: &Bytes) -> Result<()> {
        let mut attempt = 0;
        loop {
            match self.store.put(path, PutPayload::from(bytes.clone())).await {
                Ok(_) => return Ok(()),
                Err(error) => self.pause_or_give_up(&mut attempt, "write", path, error).await?,
            }
        }
    }

    /// Removes an object. It is no error when there is none, and correctness must not depend on its absence.
    pub async fn delete(&self, path: &Path) -> Result<()> {
        let mut attempt = 0;
        loop {
            match self.store.delete(path).await {
                Ok(()) | Err(StoreError::NotFound { .. }) => return Ok(()),
                Err(error) => self.pause_or_give_up(&mut attempt, "delete", path, error).await?,
            }
        }
    }

    /// Removes many objects at once where the store can.
    pub async fn delete_all(&self, paths: Vec<Path>) -> Result<()> {
        if paths.is_empty() {
            return Ok(());
        }
        let many = futures::stream::iter(paths.clone().into_iter().map(Ok)).boxed();
        let outcomes: Vec<_> = self.store.delete_stream(many).collect().await;
        if outcomes.iter().all(|outcome| matches!(outcome, Ok(_) | Err(StoreError::NotFound { .. }))) {
            return Ok(());
        }
        for path in &paths {
            self.delete(path).await?;
        }
        Ok(())
    }

    /// The objects directly below `folder`, in no order. They are candidates: a listing may be behind what reading an object shows.
    pub async fn list(&self, folder: &Path) -> Result<Vec<ObjectMeta>> {
        let mut attempt = 0;
        loop {
            match self.store.list_with_delimiter(Some(folder)).await {
                Ok(listing) => return Ok(listing.objects),
                Err(StoreError::NotFound { .. }) => return Ok(Vec::new()),
                Err(error) => self.pause_or_give_up(&mut attempt, "list", folder, error).await?,
            }
        }
    }

    /// The folders directly below `folder`, in no order.
    pub async fn folders(&self, folder: &Path) -> Result<Vec<Path>> {
        let mut attempt = 0;
        loop {
            match self.store.list_with_delimiter(Some(folder)).await {
                Ok(listing) => return Ok(listing.common_prefixes),
                Err(StoreError::NotFound { .. }) => return Ok(Vec::new()),
                Err(error) => self.pause_or_give_up(&mut attempt, "list", folder, error).await?,
            }
        }
    }

    async fn pause_or_give_up(&self, attempt: &mut u32, verb: &str, path: &Path, error: StoreError) -> Result<()> {
        use StoreError as E;
        let hopeless = matches!(
            error,
            E::PermissionDenied { .. }
                | E::Unauthenticated { .. }
                | E::InvalidPath { .. }
                | E::NotSupported { .. }
                | E::NotImplemented { .. }
        );
        if hopeless || *attempt >= ATTEMPTS - 1 {
            return Err(to_error(format!("cannot {verb} {path}"), error));
        }
        tracing::debug!(%path, %error, attempt, "cannot {verb}, trying again");
        self.pause(attempt).await;
        Ok(())
    }

    async fn pause(&self, attempt: &mut u32) {
        self.clock.sleep(FIRST_PAUSE * 2u32.pow(*attempt)).await;
        *attempt += 1;
    }
}

/// Whether `parts` together are `bytes`.
pub(crate) fn same(parts: &[Bytes], bytes: &Bytes) -> bool {
    let mut rest = bytes.as_ref();
    parts.iter().all(|part| match rest.strip_prefix(part.as_ref()) {
        Some(after) => {
            rest = after;
            true
        }
        None => false,
    }) && rest.is_empty()
}
