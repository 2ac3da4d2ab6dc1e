//! What the tests of stores share: a clock they move, identifiers in order, a store over a fresh directory.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering::SeqCst};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use futures::TryStreamExt;
use millstream_core::{Clock, Ids};
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt, PutMode, PutResult, Result};
use tempfile::TempDir;
use uuid::Uuid;

use super::{DurableStore, Privacy, StoreOptions};

/// A clock that stands still; sleeping moves it and takes no time.
#[derive(Debug, Default)]
pub(super) struct TestClock {
    pub(super) now_ms: AtomicI64,
}

#[async_trait]
impl Clock for TestClock {
    fn now_ms(&self) -> i64 {
        self.now_ms.load(SeqCst)
    }

    fn monotonic_ns(&self) -> u64 {
        // Moves on, so that durations are not zero.
        self.now_ms.fetch_add(1, SeqCst) as u64 * 1_000_000
    }

    async fn sleep(&self, duration: Duration) {
        self.now_ms.fetch_add(duration.as_millis() as i64, SeqCst);
        tokio::task::yield_now().await;
    }
}

/// Identifiers that differ between all users in the process.
#[derive(Debug)]
pub(super) struct TestIds;

static NEXT: AtomicU64 = AtomicU64::new(1);

impl Ids for TestIds {
    fn next(&self) -> Uuid {
        Uuid::from_u128(u128::from(NEXT.fetch_add(1, SeqCst)))
    }
}

pub(super) fn options() -> StoreOptions {
    StoreOptions::new(Arc::new(TestClock::default()), Arc::new(TestIds))
}

/// A store over a new directory, which goes away with the first part.
pub(super) fn durable(privacy: Privacy) -> (TempDir, DurableStore, StoreOptions) {
    let directory = tempfile::tempdir().unwrap();
    let options = options();
    let store = DurableStore::new(directory.path().canonicalize().unwrap(), privacy, &options);
    (directory, store, options)
}

pub(super) async fn create(store: &dyn ObjectStore, path: &str, content: &'static str) -> Result<PutResult> {
    store.put_opts(&Path::parse(path).unwrap(), content.into(), PutMode::Create.into()).await
}

pub(super) async fn overwrite(store: &dyn ObjectStore, path: &str, content: &'static str) -> Result<PutResult> {
    store.put(&Path::parse(path).unwrap(), content.into()).await
}

pub(super) async fn read(store: &dyn ObjectStore, path: &str) -> Result<Bytes> {
    store.get(&Path::parse(path).unwrap()).await?.bytes().await
}

pub(super) async fn names(store: &dyn ObjectStore, prefix: Option<&str>) -> Vec<String> {
    let prefix = prefix.map(|prefix| Path::parse(prefix).unwrap());
    let found: Vec<_> = store.list(prefix.as_ref()).map_ok(|meta| meta.location.to_string()).try_collect().await.unwrap();
    found
}
