//! One task's files of one batch.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::array::RecordBatch;
use async_trait::async_trait;
use bytes::Bytes;
use millstream_core::sink::{Part, PartWriter};
use millstream_core::{Clock, Error, ErrorKind, Ids, Result, crash};
use object_store::ObjectStoreExt;
use object_store::buffered::BufWriter;
use tokio::io::AsyncWriteExt;

use super::log::line_of;
use super::target::Target;
use crate::files::uri::{Root, encode};
use crate::formats::FileRef;
use crate::formats::write::FileEncoder;

/// Files that one task keeps open at once. With more partitions than this in a batch, the one written least recently is closed.
const MAX_OPEN: usize = 20;

/// Bytes that are collected before an upload in parts begins; object stores want at least 5 MiB a part.
const UPLOAD_PART: usize = 5 * 1024 * 1024;

/// Uploads of parts under way at once, per file.
const UPLOADS: usize = 2;

/// The manifest lines of a part.
pub(super) fn lines(part: &Part) -> impl Iterator<Item = &str> {
    std::str::from_utf8(&part.staged).unwrap_or_default().lines()
}

/// Writes one task's rows into files, one per folder and more where the number of rows is limited.
pub(super) struct FilePart {
    root: Root,
    target: Arc<Target>,
    partition: usize,
    clock: Arc<dyn Clock>,
    ids: Arc<dyn Ids>,
    open: HashMap<String, OpenFile>,
    /// Files made so far per folder, for their numbers.
    counts: HashMap<String, usize>,
    /// Counts writes, to tell which file was written least recently.
    writes: u64,
    done: Vec<DoneFile>,
    rows: u64,
}

struct OpenFile {
    file: FileRef,
    encoder: Box<dyn FileEncoder>,
    upload: BufWriter,
    rows: u64,
    bytes: u64,
    last_write: u64,
}

struct DoneFile {
    file: FileRef,
    bytes: u64,
    line: String,
}

impl FilePart {
    pub(super) fn new(root: Root, target: Arc<Target>, partition: usize, clock: Arc<dyn Clock>, ids: Arc<dyn Ids>) -> Self {
        FilePart { root, target, partition, clock, ids, open: HashMap::new(), counts: HashMap::new(), writes: 0, done: Vec::new(), rows: 0 }
    }

    /// A new file in a folder, named as Spark names it: the number follows a dash, or a dot below partition folders.
    fn begin(&mut self, folder: &str) -> Result<OpenFile> {
        let count = self.counts.entry(folder.to_owned()).or_default();
        let number = *count;
        *count += 1;
        let dash = if self.target.partitioning.is_empty() { '-' } else { '.' };
        let name = format!("part-{:05}-{}{dash}c{number:03}{}", self.partition, self.ids.next(), self.target.writer.extension());
        let relative = if folder.is_empty() { name } else { format!("{folder}/{name}") };
        let url = format!("{}/{}", self.root.url, encode(relative.as_bytes()));
        let file = self.root.file_ref(&url, 0)?;
        let upload = BufWriter::with_capacity(file.store.clone(), file.path.clone(), UPLOAD_PART).with_max_concurrency(UPLOADS);
        Ok(OpenFile { file, encoder: self.target.writer.start()?, upload, rows: 0, bytes: 0, last_write: 0 })
    }

    async fn write_to(&mut self, folder: &str, rows: &RecordBatch) -> Result<()> {
        let mut from = 0;
        while from < rows.num_rows() {
            let mut file = match self.open.remove(folder) {
                Some(file) => file,
                None => {
                    self.make_room().await?;
                    self.begin(folder)?
                }
            };
            let left = (rows.num_rows() - from) as u64;
            let taken = self.target.max_rows.map_or(left, |max| left.min(max - file.rows));
            let length = usize::try_from(taken).unwrap_or(usize::MAX);
            self.writes += 1;
            file.last_write = self.writes;
            let written = file.write(&rows.slice(from, length)).await;
            file.rows += taken;
            from += length;
            let full = self.target.max_rows.is_some_and(|max| file.rows >= max);
            match written {
                Ok(()) if full => self.close(file).await?,
                outcome => {
                    self.open.insert(folder.to_owned(), file);
                    outcome?;
                }
            }
        }
        Ok(())
    }

    async fn make_room(&mut self) -> Result<()> {
        while self.open.len() >= MAX_OPEN {
            let oldest = self.open.iter().min_by_key(|(_, file)| file.last_write).map(|(folder, _)| folder.clone());
            let Some(file) = oldest.and_then(|folder| self.open.remove(&folder)) else { break };
            self.close(file).await?;
        }
        Ok(())
    }

    /// Makes a file durable.
    async fn close(&mut self, mut file: OpenFile) -> Result<()> {
        let rest = file.encoder.finish()?;
        file.bytes += rest.len() as u64;
        let put = async {
            file.upload.put(Bytes::from(rest)).await?;
            Ok::<(), Box<dyn std::error::Error + Send + Sync>>(file.upload.shutdown().await?)
        };
        put.await.map_err(|cause| unwritten(&file.file, cause))?;
        let line = line_of(&file.file.url, file.bytes, self.clock.now_ms());
        self.done.push(DoneFile { file: file.file, bytes: file.bytes, line });
        Ok(())
    }
}

impl OpenFile {
    async fn write(&mut self, rows: &RecordBatch) -> Result<()> {
        self.encoder.write(rows)?;
        let ready = self.encoder.take();
        if ready.is_empty() {
            return Ok(());
        }
        self.bytes += ready.len() as u64;
        self.upload.put(Bytes::from(ready)).await.map_err(|error| unwritten(&self.file, error.into()))
    }
}

fn unwritten(file: &FileRef, cause: Box<dyn std::error::Error + Send + Sync>) -> Error {
    Error::new(
        ErrorKind::SinkUnavailable,
        "FILE_WRITE_FAILED",
        format!("cannot write {}: check the folder's store, then restart the query", file.url),
    )
    .caused_by(cause)
}

#[async_trait]
impl PartWriter for FilePart {
    async fn write(&mut self, rows: RecordBatch) -> Result<()> {
        self.rows += rows.num_rows() as u64;
        for (folder, rows) in self.target.partitioning.split(&rows)? {
            let stored =
                rows.project(&self.target.data).map_err(|error| Error::internal("data columns do not project").caused_by(error))?;
            self.write_to(&folder, &stored).await?;
        }
        Ok(())
    }

    async fn finish(mut self: Box<Self>) -> Result<Part> {
        crash::point("sink.data.before");
        // As in Spark, the first task leaves a file even without rows, so that the folder's schema can be read.
        if self.partition == 0 && self.rows == 0 && self.target.partitioning.is_empty() {
            let file = self.begin("")?;
            self.close(file).await?;
        }
        let mut open: Vec<(String, OpenFile)> = std::mem::take(&mut self.open).into_iter().collect();
        open.sort_unstable_by(|(a, _), (b, _)| a.cmp(b));
        for (_, file) in open {
            self.close(file).await?;
        }
        crash::point("sink.data.after");
        let lines: Vec<&str> = self.done.iter().map(|file| file.line.as_str()).collect();
        Ok(Part { rows: self.rows, bytes: self.done.iter().map(|file| file.bytes).sum(), staged: Bytes::from(lines.join("\n")) })
    }

    async fn abort(mut self: Box<Self>) {
        for (_, mut file) in self.open.drain() {
            if let Err(error) = file.upload.abort().await {
                tracing::debug!(file = file.file.url, %error, "an upload was not aborted");
            }
        }
        for done in &self.done {
            if let Err(error) = done.file.store.delete(&done.file.path).await {
                tracing::debug!(file = done.file.url, %error, "a staged file was not removed");
            }
        }
    }
}
