//! The file sink: files of one format under one folder, committed batch by batch through the folder's `_spark_metadata`.
//!
//! A file counts once the manifest of its batch names it; what a dead attempt left behind is never named. Readers that honour the manifest
//! (Spark, and Millstream's own file source) see each batch exactly once.

mod log;
mod part;
mod partition;
mod target;

#[cfg(test)]
mod tests;

use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use async_trait::async_trait;
use millstream_core::options::OptionKind;
use millstream_core::registry::{SinkProvider, WriteRequest};
use millstream_core::sink::{Admission, BatchInfo, Committed, Guarantee, OutputMode, Part, PartWriter, Sink};
use millstream_core::{Clock, Error, Ids, OptionSpec, Result, crash};
use object_store::ObjectStoreExt;

use self::log::{Added, ManifestLog};
use self::part::FilePart;
use self::target::{Target, Targets};
use super::uri::Root;
use crate::formats::write::{self, FileWriteFormat};
use crate::storage::Storage;

/// Makes [`FileSink`]s of one format.
#[derive(Debug)]
pub struct FileSinkProvider {
    format: Arc<dyn FileWriteFormat>,
    storage: Storage,
    clock: Arc<dyn Clock>,
    ids: Arc<dyn Ids>,
}

impl FileSinkProvider {
    /// A provider per format: parquet, json, csv, orc, text and avro.
    pub fn all(storage: &Storage, clock: &Arc<dyn Clock>, ids: &Arc<dyn Ids>) -> Vec<Arc<dyn SinkProvider>> {
        let provider = |format| FileSinkProvider { format, storage: storage.clone(), clock: clock.clone(), ids: ids.clone() };
        write::all().into_iter().map(|format| Arc::new(provider(format)) as Arc<dyn SinkProvider>).collect()
    }
}

#[async_trait]
impl SinkProvider for FileSinkProvider {
    fn names(&self) -> &'static [&'static str] {
        self.format.names()
    }

    fn options(&self) -> Vec<OptionSpec> {
        let mut options = vec![
            OptionSpec { name: "path", kind: OptionKind::Text, default: None, doc: "The folder that files are written to." },
            OptionSpec {
                name: "retention",
                kind: OptionKind::Duration,
                default: None,
                doc: "How long files stay in the folder's manifest; older ones are no longer seen by readers.",
            },
            OptionSpec {
                name: "maxRecordsPerFile",
                kind: OptionKind::Integer { min: 0 },
                default: Some("0"),
                doc: "How many rows a file has at most; 0 is no limit.",
            },
        ];
        options.extend(self.format.options());
        options
    }

    /// A sink for the folder that `path` names.
    ///
    /// # Errors
    /// `_LEGACY_ERROR_TEMP_2047` without a path; `INVALID_OPTION_VALUE`; those of the storage.
    async fn sink(&self, request: &WriteRequest) -> Result<Arc<dyn Sink>> {
        let path = request.path.as_deref().or_else(|| request.options.get("path")).filter(|path| !path.is_empty());
        let path = path.ok_or_else(|| Error::invalid("_LEGACY_ERROR_TEMP_2047", "'path' is not specified: name the folder to write to"))?;
        request.options.check(&self.options())?;
        let root = Root::new(&self.storage.open(path)?)?;
        let log = ManifestLog::new(&root, self.clock.clone(), request.options.duration("retention")?);
        let max_rows = request.options.integer("maxRecordsPerFile", 0)?.and_then(|rows| u64::try_from(rows).ok()).filter(|rows| *rows > 0);
        let targets = Targets::new(self.format.clone(), request.options.clone(), request.partition_by.clone(), max_rows);
        Ok(Arc::new(FileSink { root, log, targets, clock: self.clock.clone(), ids: self.ids.clone() }))
    }
}

/// Writes files and commits them through a manifest.
#[derive(Debug)]
pub struct FileSink {
    root: Root,
    log: ManifestLog,
    targets: Targets,
    clock: Arc<dyn Clock>,
    ids: Arc<dyn Ids>,
}

impl FileSink {
    fn target(&self, schema: &SchemaRef) -> Result<Arc<Target>> {
        self.targets.of(schema)
    }

    /// Removes the staged files that the manifest does not name. In doubt they stay: a file that no manifest names is invisible anyway.
    async fn remove_unnamed(&self, batch_id: u64, parts: &[Part]) {
        let Ok(Some(named)) = self.log.lines_of(batch_id).await else { return };
        for line in parts.iter().flat_map(part::lines).filter(|line| !named.iter().any(|named| named == line)) {
            let Some(url) = log::url_of(line) else { continue };
            let Ok(file) = self.root.file_ref(&url, 0) else { continue };
            if let Err(error) = file.store.delete(&file.path).await {
                tracing::debug!(file = url, %error, "a staged file was not removed");
            }
        }
    }
}

#[async_trait]
impl Sink for FileSink {
    fn description(&self) -> String {
        format!("FileSink[{}]", self.root.display())
    }

    fn guarantee(&self) -> Guarantee {
        Guarantee::ExactlyOnce
    }

    fn supports(&self, mode: OutputMode) -> bool {
        mode == OutputMode::Append
    }

    fn reports_rows(&self) -> bool {
        false
    }

    async fn prepare(&self, schema: &SchemaRef, mode: OutputMode) -> Result<()> {
        if !self.supports(mode) {
            return Err(Error::invalid(
                "STREAMING_OUTPUT_MODE.UNSUPPORTED_DATASOURCE",
                format!(
                    "Invalid streaming output mode: {mode}. This output mode is not supported in Data Source {}: use append.",
                    self.targets.format_name()
                ),
            )
            .with_sqlstate("42KDE"));
        }
        self.target(schema).map(drop)
    }

    async fn admit(&self, batch: &BatchInfo) -> Result<Admission> {
        let known = self.log.latest().await?.is_some_and(|latest| latest >= batch.batch_id);
        Ok(if known { Admission::AlreadyCommitted } else { Admission::Write })
    }

    async fn writer(&self, batch: &BatchInfo, partition: usize) -> Result<Box<dyn PartWriter>> {
        let target = self.target(&batch.schema)?;
        Ok(Box::new(FilePart::new(self.root.clone(), target, partition, self.clock.clone(), self.ids.clone())))
    }

    async fn commit(&self, batch: &BatchInfo, parts: Vec<Part>) -> Result<Committed> {
        crash::point("sink.commit.before");
        let lines: Vec<&str> = parts.iter().flat_map(part::lines).collect();
        if let Added::Known = self.log.add(batch.batch_id, &lines).await? {
            self.remove_unnamed(batch.batch_id, &parts).await;
        }
        crash::point("sink.commit.after");
        Ok(Committed {
            rows: parts.iter().map(|part| part.rows).sum(),
            bytes: parts.iter().map(|part| part.bytes).sum(),
            ..Committed::default()
        })
    }

    async fn abort(&self, batch: &BatchInfo, parts: Vec<Part>) {
        self.remove_unnamed(batch.batch_id, &parts).await;
    }
}
