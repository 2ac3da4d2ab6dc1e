//! A clock, identifiers, stores and records for tests.

use std::collections::BTreeMap;
use std::path::Path as FilePath;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use millstream_core::recovery::{CommitRecord, OffsetRecord};
use millstream_core::{Clock, Ids, Offset, Result};
use object_store::local::LocalFileSystem;
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt};
use tempfile::TempDir;
use url::Url;
use uuid::Uuid;

use crate::{Checkpoint, CheckpointOptions};

/// A clock that only sleeping moves.
#[derive(Debug)]
pub(super) struct TestClock(pub AtomicI64);

#[async_trait]
impl Clock for TestClock {
    fn now_ms(&self) -> i64 {
        self.0.load(Ordering::SeqCst)
    }

    fn monotonic_ns(&self) -> u64 {
        self.now_ms() as u64 * 1_000_000
    }

    async fn sleep(&self, duration: Duration) {
        self.0.fetch_add(duration.as_millis() as i64, Ordering::SeqCst);
    }
}

#[derive(Debug)]
struct TestIds;

impl Ids for TestIds {
    fn next(&self) -> Uuid {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        Uuid::from_u128(NEXT.fetch_add(1, Ordering::SeqCst).into())
    }
}

/// Later than any file that a test writes.
pub(super) const FAR_FUTURE_MS: i64 = 4_000_000_000_000;

pub(super) fn options(owner: &str) -> CheckpointOptions {
    CheckpointOptions::new(Arc::new(TestClock(AtomicI64::new(FAR_FUTURE_MS))), Arc::new(TestIds), owner)
}

pub(super) fn takeover(owner: &str) -> CheckpointOptions {
    CheckpointOptions { takeover: true, ..options(owner) }
}

pub(super) async fn open_with(store: &Arc<dyn ObjectStore>, options: CheckpointOptions) -> Result<Checkpoint> {
    Checkpoint::open(store.clone(), Path::from("ck"), Url::parse("memory:///ck").unwrap(), options).await
}

pub(super) async fn open(store: &Arc<dyn ObjectStore>) -> Checkpoint {
    open_with(store, options("pid 1 on a")).await.unwrap()
}

/// A checkpoint in a directory of its own.
pub(super) struct OnDisk {
    pub directory: TempDir,
    pub store: Arc<dyn ObjectStore>,
    pub url: Url,
}

impl OnDisk {
    pub fn new() -> OnDisk {
        let directory = tempfile::tempdir().unwrap();
        let store = Arc::new(LocalFileSystem::new_with_prefix(directory.path()).unwrap());
        let url = Url::from_file_path(directory.path()).unwrap();
        OnDisk { directory, store, url }
    }

    /// One with the files of a checkpoint that Spark wrote.
    pub fn of_spark(name: &str) -> OnDisk {
        let on_disk = OnDisk::new();
        copy(&FilePath::new("tests-data/spark-4.2").join(name), on_disk.directory.path());
        on_disk
    }

    pub async fn open(&self, options: CheckpointOptions) -> Result<Checkpoint> {
        Checkpoint::open(self.store.clone(), Path::default(), self.url.clone(), options).await
    }

    pub fn write(&self, path: &str, contents: impl AsRef<[u8]>) {
        let path = self.directory.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, contents).unwrap();
    }

    pub fn read(&self, path: &str) -> String {
        std::fs::read_to_string(self.directory.path().join(path)).unwrap()
    }

    pub fn has(&self, path: &str) -> bool {
        self.directory.path().join(path).exists()
    }

    /// The names in a folder, in order.
    pub fn names(&self, folder: &str) -> Vec<String> {
        let Ok(entries) = std::fs::read_dir(self.directory.path().join(folder)) else { return Vec::new() };
        let mut names: Vec<String> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }
}

pub(super) fn copy(from: &FilePath, to: &FilePath) {
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            std::fs::create_dir_all(&target).unwrap();
            copy(&entry.path(), &target);
        } else {
            std::fs::copy(entry.path(), target).unwrap();
        }
    }
}

/// Every object of a store with its contents.
pub(super) async fn contents(store: &Arc<dyn ObjectStore>) -> BTreeMap<String, Vec<u8>> {
    use futures::TryStreamExt;
    let objects: Vec<_> = store.list(None).try_collect().await.unwrap();
    let mut contents = BTreeMap::new();
    for object in objects {
        let bytes = store.get(&object.location).await.unwrap().bytes().await.unwrap();
        contents.insert(object.location.to_string(), bytes.to_vec());
    }
    contents
}

pub(super) fn plan(end: u64) -> OffsetRecord {
    OffsetRecord {
        watermark_ms: 0,
        timestamp_ms: 1_000,
        conf: BTreeMap::new(),
        offsets: vec![Some(Offset::from_json(format!("{{\"logOffset\":{end}}}")).unwrap())],
        extra: BTreeMap::new(),
    }
}

pub(super) fn commit(next_watermark_ms: i64) -> CommitRecord {
    CommitRecord { next_watermark_ms, extra: BTreeMap::new() }
}

/// Entries as the file source writes them.
pub(super) fn entries(batch: u64, files: u64) -> Vec<String> {
    (0..files).map(|file| format!("{{\"path\":\"file:///in/{batch}-{file}\",\"timestamp\":1,\"batchId\":{batch}}}")).collect()
}

/// Runs batches `from..to` with everything written that a query writes.
pub(super) async fn batches(checkpoint: &Checkpoint, from: u64, to: u64) {
    let log = checkpoint.source_log("0");
    for batch in from..to {
        log.add(batch, &entries(batch, 1)).await.unwrap();
        checkpoint.write_offsets(batch, &plan(batch)).await.unwrap();
        checkpoint.write_commit(batch, &commit(0)).await.unwrap();
    }
}
