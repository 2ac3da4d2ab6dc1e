//! What a checkpoint says of its query, for whoever looks into it: commands, the HTTP interface, people.

mod difference;

use std::collections::BTreeMap;

use millstream_checkpoint::facts;
use millstream_checkpoint::reader::{CheckpointReader, Finding, Severity};
use millstream_checkpoint::state::StateManifest;
use millstream_core::lateness::Lateness;
use millstream_core::recovery::{CommitRecord, OffsetRecord};
use millstream_core::{ErrorKind, Result};
use serde::Serialize;
use serde_json::Value;

use crate::query::{EventTimeFacts, FINGERPRINT};
use crate::state_source::tables;

pub use difference::{Difference, TableDifference, difference};

/// What a checkpoint says of its query.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CheckpointReport {
    /// Where it is.
    pub location: String,
    /// The query.
    pub query_id: String,
    /// Who opened it last: the number of the opening, host and process, and when (milliseconds since the epoch).
    pub opened: Option<(u64, String, i64)>,
    /// The newest batches, oldest first.
    pub batches: Vec<BatchReport>,
    /// How many batches the logs know.
    pub known_batches: u64,
    /// The newest batch with a commit record.
    pub last_committed: Option<u64>,
    /// Options that are pinned for the life of the checkpoint.
    pub options: BTreeMap<String, String>,
    /// The logs of sources.
    pub sources: Vec<SourceReport>,
    /// Stateful operators, from the top of the plan down.
    pub operators: Vec<OperatorReport>,
    /// The files of state.
    pub state: StateReport,
    /// The watermark of every watermark node, milliseconds.
    pub watermarks_ms: Vec<i64>,
    /// How late rows were, by source.
    pub lateness: Lateness,
    /// What the query means: output mode, windows, keys, aggregates.
    pub query: Option<Value>,
}

/// One batch.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct BatchReport {
    /// Its number.
    pub batch: u64,
    /// Its time (`current_timestamp`), milliseconds since the epoch.
    pub timestamp_ms: Option<i64>,
    /// When its commit record was written, milliseconds since the epoch.
    pub committed_ms: Option<i64>,
    /// The watermark that it used, milliseconds.
    pub watermark_ms: Option<i64>,
    /// Where it ended, per source.
    pub offsets: Vec<Option<Value>>,
    /// Files of changes of state that it wrote.
    pub state_files: usize,
}

/// The log of one source.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SourceReport {
    /// Its number in plan order, or its name.
    pub name: String,
    /// Files of its log.
    pub log_files: usize,
    /// The newest batch of its log.
    pub newest_batch: Option<u64>,
}

/// One stateful operator.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct OperatorReport {
    /// Its number.
    pub operator: usize,
    /// Spark's name.
    pub name: String,
    /// Its tables.
    pub tables: Vec<TableReport>,
}

/// One table of state.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TableReport {
    /// Its name.
    pub name: String,
    /// The columns of the key, with their types.
    pub key: Vec<(String, String)>,
    /// The columns of the value, with their types.
    pub value: Vec<(String, String)>,
}

/// The files of state.
#[derive(Clone, Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct StateReport {
    /// The batch after which the snapshot in use was taken.
    pub snapshot_batch: Option<u64>,
    /// Files that the newest state is made of.
    pub files: usize,
    /// Their length, bytes.
    pub bytes: u64,
    /// All files below `state/`, those of earlier batches and leavings among them.
    pub stored_files: usize,
    /// Their length, bytes.
    pub stored_bytes: u64,
}

/// Describes a checkpoint, with at most `newest` batches one by one.
///
/// # Errors
/// `CHECKPOINT_NOT_FOUND`, damaged records, and those of the store.
pub async fn describe(reader: &CheckpointReader, newest: usize) -> Result<CheckpointReport> {
    let query_id = reader.query_id().await?.to_string();
    let known = reader.batches().await?;
    let last_committed = known.iter().rev().find(|(_, records)| records.committed_ms.is_some()).map(|(batch, _)| *batch);
    let mut batches = Vec::new();
    let mut options = BTreeMap::new();
    for (batch, records) in known.iter().skip(known.len().saturating_sub(newest.max(1))) {
        let (planned, committed) = (reader.offsets(*batch).await?, reader.commit(*batch).await?);
        if let Some(planned) = &planned {
            options.clone_from(&planned.conf);
        }
        batches.push(batch_report(*batch, planned.as_ref(), committed.as_ref(), records.committed_ms)?);
    }
    batches.drain(..batches.len().saturating_sub(newest));
    let mut report = CheckpointReport {
        location: reader.location(),
        query_id,
        opened: reader.opened().await?.map(|opened| (opened.epoch, opened.owner, opened.started_ms)),
        batches,
        known_batches: known.len() as u64,
        last_committed,
        options,
        sources: Vec::new(),
        operators: Vec::new(),
        state: StateReport::default(),
        watermarks_ms: Vec::new(),
        lateness: Lateness::default(),
        query: None,
    };
    for log in reader.source_logs().await? {
        let newest_batch = log.files.keys().next_back().copied();
        report.sources.push(SourceReport { name: log.name, log_files: log.files.len(), newest_batch });
    }
    if let Some(batch) = last_committed
        && let Some(record) = reader.commit(batch).await?
    {
        let event_time = EventTimeFacts::of(&record)?;
        (report.watermarks_ms, report.lateness) = (event_time.watermarks_ms, event_time.lateness);
        report.query = facts::get(&record, FINGERPRINT)?;
        report.operators = operators(reader, batch).await?;
        report.state = state(reader, batch, &record).await?;
    }
    Ok(report)
}

fn batch_report(
    batch: u64,
    planned: Option<&OffsetRecord>,
    committed: Option<&CommitRecord>,
    committed_ms: Option<i64>,
) -> Result<BatchReport> {
    let manifest = committed.map(StateManifest::of).transpose()?.flatten();
    let offsets = planned.map(|planned| planned.offsets.as_slice()).unwrap_or_default();
    let json = |text: &str| serde_json::from_str(text).unwrap_or_else(|_| Value::String(text.to_owned()));
    Ok(BatchReport {
        batch,
        timestamp_ms: planned.map(|planned| planned.timestamp_ms),
        committed_ms,
        watermark_ms: planned.map(|planned| planned.watermark_ms),
        offsets: offsets.iter().map(|offset| offset.as_ref().map(|offset| json(offset.as_json()))).collect(),
        state_files: manifest.map_or(0, |manifest| manifest.changes.len()),
    })
}

async fn operators(reader: &CheckpointReader, batch: u64) -> Result<Vec<OperatorReport>> {
    let columns = |fields: &arrow::datatypes::Fields| {
        fields.iter().map(|field| (field.name().clone(), field.data_type().to_string())).collect::<Vec<_>>()
    };
    let mut operators: Vec<OperatorReport> = Vec::new();
    for table in tables(reader, batch).await? {
        let report = TableReport { name: table.name.clone(), key: columns(&table.key_fields()), value: columns(&table.value_fields()) };
        match operators.last_mut().filter(|last| last.operator == table.operator) {
            Some(operator) => operator.tables.push(report),
            None => operators.push(OperatorReport { operator: table.operator, name: table.operator_name, tables: vec![report] }),
        }
    }
    Ok(operators)
}

async fn state(reader: &CheckpointReader, batch: u64, record: &CommitRecord) -> Result<StateReport> {
    let Some(manifest) = StateManifest::of(record)? else { return Ok(StateReport::default()) };
    let (needed, stored) = (reader.state_after(batch).await?.unwrap_or_default(), reader.state_files().await?);
    Ok(StateReport {
        snapshot_batch: manifest.base,
        files: needed.len(),
        bytes: needed.iter().map(|file| file.length).sum(),
        stored_files: stored.len(),
        stored_bytes: stored.iter().map(|file| file.length).sum(),
    })
}

/// Reads all there is in a checkpoint and lists what is not as it should be, faults first: records, files, and the rows of state.
///
/// # Errors
/// `CHECKPOINT_NOT_FOUND`, and those of the store. What is wrong with the checkpoint is a finding and no error.
pub async fn verify(reader: &CheckpointReader) -> Result<Vec<Finding>> {
    let mut findings = reader.verify().await?;
    if findings.iter().any(|finding| finding.severity == Severity::Fault) {
        return Ok(findings);
    }
    let Some(batch) = reader.last_commit().await? else { return Ok(findings) };
    for table in tables(reader, batch).await? {
        match table.rows(reader, batch).await {
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::StoreUnavailable => return Err(error),
            Err(error) => findings.insert(
                0,
                Finding {
                    severity: Severity::Fault,
                    place: format!("operator {}, table {}", table.operator, table.name),
                    what: format!("its rows after batch {batch} cannot be read: {error}"),
                },
            ),
        }
    }
    Ok(findings)
}
