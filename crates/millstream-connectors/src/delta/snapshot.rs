//! A table at one version, read through the Delta kernel. File lists are streamed and never held by it.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use arrow::array::{Array, AsArray, BooleanArray, RecordBatch, StringArray, StructArray};
use arrow::compute::filter_record_batch;
use arrow::datatypes::{Int32Type, Int64Type};
use delta_kernel::Engine;
use delta_kernel::actions::deletion_vector::{DeletionVectorDescriptor, DeletionVectorStorageType};
use delta_kernel::engine::arrow_data::ArrowEngineData;
use delta_kernel::schema::{DataType, StructField, StructType};
use delta_kernel::snapshot::SnapshotRef;
use millstream_core::{Error, Result};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::actions::{Add, DeletionVector, Metadata, PartitionValues, Protocol};
use super::log::TableLog;

/// A table at one version.
#[derive(Clone)]
pub struct TableSnapshot {
    log: TableLog,
    inner: SnapshotRef,
    engine: Arc<dyn Engine>,
    /// The table's protocol.
    pub protocol: Protocol,
    /// The table's metadata.
    pub metadata: Metadata,
}

impl TableSnapshot {
    pub(super) fn new(log: TableLog, inner: SnapshotRef, engine: Arc<dyn Engine>) -> Result<Self> {
        let configuration = inner.table_configuration();
        let protocol = convert(configuration.protocol())?;
        let metadata = convert(configuration.metadata())?;
        Ok(TableSnapshot { log, inner, engine, protocol, metadata })
    }

    /// The version.
    pub fn version(&self) -> u64 {
        self.inner.version()
    }

    /// The version that an application's newest write has, if it ever wrote and the table still remembers.
    pub(super) async fn txn(&self, app_id: &str) -> Result<Option<i64>> {
        let app_id = app_id.to_owned();
        self.blocking(move |snapshot, engine| snapshot.get_app_id_version(&app_id, engine)).await
    }

    /// The newest write of every application.
    pub(super) async fn txns(&self) -> Result<BTreeMap<String, i64>> {
        self.blocking(|snapshot, engine| {
            let txn =
                StructType::try_new([StructField::nullable("appId", DataType::STRING), StructField::nullable("version", DataType::LONG)])?;
            let schema = Arc::new(StructType::try_new([StructField::nullable("txn", txn)])?);
            let mut newest = BTreeMap::new();
            // Newest first, so that the first one seen of an application counts.
            for batch in snapshot.log_segment().read_actions(engine, schema)? {
                let batch: RecordBatch = ArrowEngineData::try_from_engine_data(batch?.actions)?.into();
                let Some(txns) = batch.column_by_name("txn").and_then(|column| column.as_struct_opt()) else { continue };
                let apps = txns.column_by_name("appId").and_then(|column| column.as_string_opt::<i32>());
                let versions = txns.column_by_name("version").and_then(|column| column.as_primitive_opt::<Int64Type>());
                let (Some(apps), Some(versions)) = (apps, versions) else { continue };
                for row in (0..batch.num_rows()).filter(|row| txns.is_valid(*row) && apps.is_valid(*row) && versions.is_valid(*row)) {
                    newest.entry(apps.value(row).to_owned()).or_insert_with(|| versions.value(row));
                }
            }
            Ok(newest)
        })
        .await
    }

    /// What a feature keeps in the log about the table.
    pub(super) async fn domain(&self, domain: &'static str) -> Result<Option<String>> {
        self.blocking(move |snapshot, engine| snapshot.get_domain_metadata_internal(domain, engine)).await
    }

    /// Every file of the table at this version, in no particular order.
    pub(super) async fn files(&self) -> Result<Vec<Add>> {
        let mut files = Vec::new();
        self.each_file(|file| files.push(file)).await.map(|()| files)
    }

    /// Calls `take` with every file of the table at this version.
    pub(super) async fn each_file(&self, mut take: impl FnMut(Add)) -> Result<()> {
        let (sender, mut receiver) = tokio::sync::mpsc::channel::<Vec<Add>>(4);
        let producing = self.blocking(move |snapshot, engine| {
            let scan = snapshot.scan_builder().build()?;
            for chunk in scan.scan_metadata(engine)? {
                let (data, mut selected) = chunk?.scan_files.into_parts();
                let batch: RecordBatch = ArrowEngineData::try_from_engine_data(data)?.into();
                selected.resize(batch.num_rows(), true);
                let batch = filter_record_batch(&batch, &BooleanArray::from(selected))?;
                let files = (0..batch.num_rows()).map(|row| add_of(&batch, row)).collect::<Option<Vec<Add>>>();
                let files = files.ok_or_else(|| delta_kernel::Error::generic("a file entry lacks its path, size or time"))?;
                if sender.blocking_send(files).is_err() {
                    break;
                }
            }
            Ok(())
        });
        let consuming = async {
            while let Some(files) = receiver.recv().await {
                files.into_iter().for_each(&mut take);
            }
        };
        let (produced, ()) = futures::join!(producing, consuming);
        produced
    }

    /// Writes a checkpoint of the log at this version. Returns whether there was none yet.
    pub(super) async fn write_checkpoint(&self) -> Result<bool> {
        let (result, _) = self.blocking(|snapshot, engine| snapshot.checkpoint(engine, None)).await?;
        Ok(matches!(result, delta_kernel::snapshot::CheckpointWriteResult::Written))
    }

    async fn blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce(SnapshotRef, &dyn Engine) -> delta_kernel::DeltaResult<T> + Send + 'static,
    ) -> Result<T> {
        let (inner, engine) = (self.inner.clone(), self.engine.clone());
        match tokio::task::spawn_blocking(move || work(inner, engine.as_ref())).await {
            Ok(Ok(value)) => Ok(value),
            Ok(Err(error)) => Err(self.failure(error)),
            Err(error) => Err(self.failure(error)),
        }
    }

    fn failure(&self, cause: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Error {
        let message = format!("the log of table {} cannot be read at version {}", self.log.url(), self.version());
        Error::new(self.log.kind(), "DELTA_READ_LOG_FAILED", message).caused_by(cause)
    }
}

impl fmt::Debug for TableSnapshot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TableSnapshot({}@{})", self.log.url(), self.version())
    }
}

/// The rows of a file that a deletion vector deletes, ascending.
///
/// # Errors
/// `DELTA_DELETION_VECTOR_UNREADABLE`.
pub(super) async fn deleted_rows(log: &TableLog, vector: &DeletionVector) -> Result<Vec<u64>> {
    let failure = |cause: Box<dyn std::error::Error + Send + Sync>| {
        let message = format!("a deletion vector of table {} cannot be read", log.url());
        Error::new(log.kind(), "DELTA_DELETION_VECTOR_UNREADABLE", message).caused_by(cause)
    };
    let storage = match vector.storage_type.as_str() {
        "u" => DeletionVectorStorageType::PersistedRelative,
        "i" => DeletionVectorStorageType::Inline,
        "p" => DeletionVectorStorageType::PersistedAbsolute,
        other => return Err(failure(format!("unknown storage type '{other}'").into())),
    };
    let cardinality = i64::try_from(vector.cardinality).map_err(|error| failure(error.into()))?;
    let path = vector.path_or_inline_dv.clone();
    let descriptor = DeletionVectorDescriptor::try_new(storage, path, vector.offset, vector.size_in_bytes, cardinality)
        .map_err(|error| failure(error.into()))?;
    let (root, engine) = (log.folder_url(), log.engine());
    match tokio::task::spawn_blocking(move || descriptor.row_indexes(engine.storage_handler(), &root)).await {
        Ok(Ok(rows)) => Ok(rows),
        Ok(Err(error)) => Err(failure(error.into())),
        Err(error) => Err(failure(error.into())),
    }
}

/// The kernel's types have no accessors for everything, but serialise as the log does.
fn convert<T: DeserializeOwned>(value: &impl Serialize) -> Result<T> {
    serde_json::to_value(value)
        .and_then(serde_json::from_value)
        .map_err(|error| Error::internal("an action of the Delta log has an unexpected shape").caused_by(error))
}

/// One row of the kernel's scan metadata.
fn add_of(batch: &RecordBatch, row: usize) -> Option<Add> {
    let long = |column: &str| Some(batch.column_by_name(column)?.as_primitive_opt::<Int64Type>()?.value(row));
    let constants = batch.column_by_name("fileConstantValues")?.as_struct_opt()?;
    Some(Add {
        path: batch.column_by_name("path")?.as_string_opt::<i32>()?.value(row).to_owned(),
        partition_values: map_of(constants, "partitionValues", row).unwrap_or_default(),
        size: u64::try_from(long("size")?).ok()?,
        modification_time: long("modificationTime")?,
        data_change: true,
        stats: batch.column_by_name("stats").and_then(|column| text_of(column.as_string_opt::<i32>()?, row)),
        tags: map_of(constants, "tags", row),
        deletion_vector: batch.column_by_name("deletionVector").and_then(|column| vector_of(column.as_struct_opt()?, row)),
    })
}

fn text_of(column: &StringArray, row: usize) -> Option<String> {
    column.is_valid(row).then(|| column.value(row).to_owned())
}

fn map_of(parent: &StructArray, column: &str, row: usize) -> Option<PartitionValues> {
    let map = parent.column_by_name(column)?.as_map_opt()?;
    if !map.is_valid(row) {
        return None;
    }
    let entries = map.value(row);
    let keys = entries.column(0).as_string_opt::<i32>()?;
    let values = entries.column(1).as_string_opt::<i32>()?;
    Some((0..entries.len()).map(|entry| (keys.value(entry).to_owned(), text_of(values, entry))).collect())
}

fn vector_of(column: &StructArray, row: usize) -> Option<DeletionVector> {
    if !column.is_valid(row) {
        return None;
    }
    let text = |name: &str| text_of(column.column_by_name(name)?.as_string_opt::<i32>()?, row);
    let int = |name: &str| {
        let column = column.column_by_name(name)?.as_primitive_opt::<Int32Type>()?;
        column.is_valid(row).then(|| column.value(row))
    };
    Some(DeletionVector {
        storage_type: text("storageType")?,
        path_or_inline_dv: text("pathOrInlineDv")?,
        offset: int("offset"),
        size_in_bytes: int("sizeInBytes")?,
        cardinality: u64::try_from(column.column_by_name("cardinality")?.as_primitive_opt::<Int64Type>()?.value(row)).ok()?,
    })
}
