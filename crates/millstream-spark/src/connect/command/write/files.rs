//! Batch writes into a folder of files. Unlike a stream's, they keep no manifest: every file in the folder counts.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use async_trait::async_trait;
use futures::TryStreamExt;
use millstream_core::sink::{Admission, BatchInfo, Committed, Guarantee, OutputMode, Part, PartWriter, Sink};
use millstream_core::{Error, ErrorKind, Result};
use millstream_engine::query::CheckpointLocation;
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt};
use spark_connect_proto::write_operation::SaveMode;

use super::{Session, Write, check_partitions, is_dynamic, open, write_rows};
use crate::connect::execute::named_plan;
use crate::connect::host::Host;

/// The formats whose data is files.
pub(super) const FORMATS: [&str; 7] = ["parquet", "json", "csv", "orc", "text", "avro", "xml"];

/// The file that tells that a write is complete.
const SUCCESS: &str = "_SUCCESS";

/// Writes rows into a folder.
///
/// # Errors
/// `PATH_ALREADY_EXISTS`, and those of the plan and the folder.
pub(super) async fn save(session: &Session, write: Write, path: &str) -> Result<()> {
    let schema = write.schema();
    check_partitions(&write.partition_by, &schema)?;
    let folder = Folder { place: session.host.open(path)? };
    let before = folder.files().await?;
    match write.mode {
        SaveMode::ErrorIfExists | SaveMode::Unspecified if !before.is_empty() => {
            let shown = folder.place.url.as_str().replacen("file://", "file:", 1);
            let message = format!("Path {shown} already exists. Set mode as \"overwrite\" to overwrite the existing path.");
            return Err(Error::invalid("PATH_ALREADY_EXISTS", message).with_sqlstate("42K04"));
        }
        SaveMode::Ignore if !before.is_empty() => return Ok(()),
        _ => {}
    }
    let dynamic = write.mode == SaveMode::Overwrite && !write.partition_by.is_empty() && is_dynamic(session, &write.options);
    let partitioned = !write.partition_by.is_empty();
    let overwrite = write.mode == SaveMode::Overwrite;
    let inner = open(session, &write, Some(path)).await?;
    let plan = named_plan(write.analyzed, session.settings().case_sensitive)?;
    write_rows(session, plan, Arc::new(BatchFiles { inner, host: session.host.clone(), partitioned }), OutputMode::Append).await?;
    if overwrite {
        // The old files go when the new ones are there, so that the rows written may come from the old ones.
        let new = folder.files().await?.into_iter().filter(|file| !before.contains(file));
        let folders: BTreeSet<String> = new.map(|file| parent(&file)).collect();
        let replaced = before.iter().filter(|file| !dynamic || folders.contains(&parent(file)));
        folder.delete(replaced).await?;
    }
    folder.succeed().await
}

/// Removes the files of a folder.
///
/// # Errors
/// `FILE_WRITE_FAILED`.
pub(in crate::connect) async fn clear(session: &Session, path: &str) -> Result<()> {
    let folder = Folder { place: session.host.open(path)? };
    let files = folder.files().await?;
    folder.delete(files.iter()).await
}

fn parent(file: &Path) -> String {
    let text = file.as_ref();
    text.rsplit_once('/').map_or_else(String::new, |(folder, _)| folder.to_owned())
}

struct Folder {
    place: CheckpointLocation,
}

impl Folder {
    fn unavailable(&self, what: &str, error: object_store::Error) -> Error {
        Error::new(ErrorKind::SinkUnavailable, "FILE_WRITE_FAILED", format!("cannot {what} in {}", self.place.url)).caused_by(error)
    }

    fn store(&self) -> &dyn ObjectStore {
        self.place.store.as_ref()
    }

    async fn files(&self) -> Result<Vec<Path>> {
        let objects: Vec<_> =
            self.store().list(Some(&self.place.root)).try_collect().await.map_err(|error| self.unavailable("list files", error))?;
        // What the catalog keeps beside the data of a table is not data.
        let locations = objects.into_iter().map(|object| object.location);
        Ok(locations.filter(|path| !path.filename().is_some_and(|name| name.starts_with("_millstream"))).collect())
    }

    async fn delete(&self, files: impl Iterator<Item = &Path>) -> Result<()> {
        for file in files {
            match self.store().delete(file).await {
                Ok(()) | Err(object_store::Error::NotFound { .. }) => {}
                Err(error) => return Err(self.unavailable("remove old files", error)),
            }
        }
        Ok(())
    }

    async fn succeed(&self) -> Result<()> {
        let path = self.place.root.clone().join(SUCCESS);
        self.store().put(&path, Vec::new().into()).await.map(drop).map_err(|error| self.unavailable("end a write", error))
    }
}

/// The file sink of a stream, without its manifest.
pub(super) struct BatchFiles {
    inner: Arc<dyn Sink>,
    host: Arc<dyn Host>,
    partitioned: bool,
}

impl fmt::Debug for BatchFiles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "BatchFiles({})", self.inner.description())
    }
}

#[async_trait]
impl Sink for BatchFiles {
    fn description(&self) -> String {
        self.inner.description()
    }

    fn guarantee(&self) -> Guarantee {
        Guarantee::AtLeastOnce
    }

    fn supports(&self, mode: OutputMode) -> bool {
        self.inner.supports(mode)
    }

    async fn prepare(&self, schema: &SchemaRef, mode: OutputMode) -> Result<()> {
        self.inner.prepare(schema, mode).await
    }

    async fn admit(&self, _batch: &BatchInfo) -> Result<Admission> {
        Ok(Admission::Write)
    }

    async fn writer(&self, batch: &BatchInfo, partition: usize) -> Result<Box<dyn PartWriter>> {
        self.inner.writer(batch, partition).await
    }

    async fn commit(&self, batch: &BatchInfo, mut parts: Vec<Part>) -> Result<Committed> {
        if parts.is_empty() && !self.partitioned {
            // A file without rows still tells the columns.
            parts.push(self.inner.writer(batch, 0).await?.finish().await?);
        }
        let (rows, bytes) = (parts.iter().map(|part| part.rows).sum(), parts.iter().map(|part| part.bytes).sum());
        Ok(Committed { rows, bytes, ..Committed::default() })
    }

    async fn abort(&self, _batch: &BatchInfo, parts: Vec<Part>) {
        for line in parts.iter().flat_map(|part| std::str::from_utf8(&part.staged).unwrap_or_default().lines()) {
            let Ok(file) = serde_json::from_str::<serde_json::Value>(line) else { continue };
            let Some(place) = file.get("path").and_then(|path| path.as_str()).and_then(|path| self.host.open(path).ok()) else { continue };
            if let Err(error) = place.store.delete(&place.root).await {
                tracing::debug!(file = %place.url, %error, "a file of a failed write was not removed");
            }
        }
    }

    async fn stop(&self) {
        self.inner.stop().await;
    }
}
