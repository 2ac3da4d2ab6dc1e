//! What the tests of the formats share: files in memory and on disk, and reading them whole.

use std::path::Path as FilePath;
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::compute::concat_batches;
use arrow::util::display::{ArrayFormatter, FormatOptions};
use futures::StreamExt;
use millstream_core::quarantine::{BadRecord, Quarantine};
use millstream_core::source::ReadContext;
use millstream_core::{Error, Options};
use object_store::local::LocalFileSystem;
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt};
use parking_lot::Mutex;

use super::{FileFormat, FileReader, FileRef};

/// A quarantine that keeps everything.
#[derive(Default)]
pub(super) struct Kept(pub(super) Mutex<Vec<BadRecord>>);

impl Quarantine for Kept {
    fn put(&self, record: BadRecord) {
        self.0.lock().push(record);
    }
}

/// A file of an object store.
pub(super) async fn remote(name: &str, content: &[u8]) -> FileRef {
    let store = Arc::new(InMemory::new());
    let path = Path::from(name);
    store.put(&path, content.to_vec().into()).await.unwrap();
    FileRef { store: store as Arc<dyn ObjectStore>, path, url: format!("memory:///{name}"), size: content.len() as u64, modified_ms: 0 }
}

/// A file of this machine.
pub(super) fn local(folder: &FilePath, name: &str, content: &[u8]) -> FileRef {
    let path = folder.join(name);
    std::fs::write(&path, content).unwrap();
    FileRef {
        store: Arc::new(LocalFileSystem::new()),
        path: Path::from_absolute_path(&path).unwrap(),
        url: url::Url::from_file_path(&path).unwrap().to_string(),
        size: content.len() as u64,
        modified_ms: 0,
    }
}

/// What came of reading a file.
pub(super) struct Outcome {
    pub(super) batches: Vec<RecordBatch>,
    pub(super) error: Option<Error>,
    pub(super) bad: Vec<BadRecord>,
}

impl Outcome {
    /// The rows as text, values separated by ` | `.
    pub(super) fn rows(&self) -> Vec<String> {
        let Some(first) = self.batches.first() else { return Vec::new() };
        let batch = concat_batches(&first.schema(), &self.batches).unwrap();
        let options = FormatOptions::default().with_null("null");
        let columns: Vec<_> = batch.columns().iter().map(|column| ArrayFormatter::try_new(column, &options).unwrap()).collect();
        (0..batch.num_rows())
            .map(|row| columns.iter().map(|column| column.value(row).to_string()).collect::<Vec<_>>().join(" | "))
            .collect()
    }

    /// The rows of a read that did not fail.
    pub(super) fn all_rows(&self) -> Vec<String> {
        assert!(self.error.is_none(), "{}", self.error.as_ref().unwrap());
        self.rows()
    }
}

/// Reads a file with a reader until it ends or fails.
pub(super) async fn read_with(reader: &Arc<dyn FileReader>, file: FileRef, projection: &[usize], batch_size: usize) -> Outcome {
    let kept = Arc::new(Kept::default());
    let context = ReadContext { projection: projection.to_vec(), batch_size, quarantine: kept.clone() };
    let mut stream = reader.read(file, context);
    let (mut batches, mut error) = (Vec::new(), None);
    while let Some(next) = stream.next().await {
        match next {
            Ok(batch) => batches.push(batch),
            Err(failure) => error = Some(failure),
        }
    }
    let bad = std::mem::take(&mut *kept.0.lock());
    Outcome { batches, error, bad }
}

/// Reads every column of a file, from an object store.
pub(super) async fn read(format: &dyn FileFormat, schema: arrow::datatypes::SchemaRef, options: Options, content: &[u8]) -> Outcome {
    let projection: Vec<usize> = (0..schema.fields().len()).collect();
    let reader = format.reader(schema.clone(), &options).unwrap();
    let outcome = read_with(&reader, remote("f", content).await, &projection, 1000).await;
    for batch in &outcome.batches {
        assert_eq!(batch.schema(), schema);
    }
    outcome
}
