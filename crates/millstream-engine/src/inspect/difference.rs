//! What happened in a checkpoint between two batches.

use std::collections::BTreeMap;

use arrow::array::Array;
use millstream_checkpoint::facts;
use millstream_checkpoint::reader::CheckpointReader;
use millstream_checkpoint::state::blocks::Change;
use millstream_core::{Error, Result};
use serde::Serialize;
use serde_json::Value;

use crate::query::FINGERPRINT;
use crate::state_source::tables;
use crate::stateful::Fingerprint;

/// What differs between the ends of two batches.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Difference {
    /// The earlier batch.
    pub from: u64,
    /// The later batch.
    pub to: u64,
    /// The watermarks that the batches used, milliseconds.
    pub watermark_ms: (i64, i64),
    /// The ends of the batches in sources where they differ, by the numbers of the sources.
    pub offsets: BTreeMap<usize, (Option<Value>, Option<Value>)>,
    /// Pinned options that differ.
    pub options: BTreeMap<String, (Option<String>, Option<String>)>,
    /// How the query differs.
    pub query: Vec<String>,
    /// What was changed in tables of state, where anything was.
    pub tables: Vec<TableDifference>,
}

/// What batches changed in one table of state.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TableDifference {
    /// The operator's number.
    pub operator: usize,
    /// Spark's name of the operator.
    pub name: String,
    /// The table.
    pub table: String,
    /// Rows put, once for each batch that put them.
    pub put: u64,
    /// Rows removed.
    pub removed: u64,
}

/// Compares what a checkpoint was after batch `from` with what it was after batch `to`.
///
/// # Errors
/// `CHECKPOINT_LOG_HOLE` when the logs no longer have a batch, damaged records, and those of the store.
pub async fn difference(reader: &CheckpointReader, from: u64, to: u64) -> Result<Difference> {
    let missing = |batch: u64| {
        Error::invalid(
            "CHECKPOINT_LOG_HOLE",
            format!("the logs of {} do not have batch {batch}: see `show` for those they have", reader.location()),
        )
    };
    let before = reader.offsets(from).await?.ok_or_else(|| missing(from))?;
    let after = reader.offsets(to).await?.ok_or_else(|| missing(to))?;
    let json = |text: &str| serde_json::from_str(text).unwrap_or_else(|_| Value::String(text.to_owned()));
    let end = |offsets: &[Option<millstream_core::Offset>], source: usize| {
        offsets.get(source).and_then(Option::as_ref).map(|offset| json(offset.as_json()))
    };
    let sources = before.offsets.len().max(after.offsets.len());
    let offsets = (0..sources).map(|source| (source, (end(&before.offsets, source), end(&after.offsets, source))));
    let options = before.conf.keys().chain(after.conf.keys());
    let options = options.map(|name| (name.clone(), (before.conf.get(name).cloned(), after.conf.get(name).cloned())));
    let mut query = Vec::new();
    let (was, is) = (reader.commit(from).await?, reader.commit(to).await?);
    if let (Some(was), Some(is)) = (&was, &is)
        && let (Some(was), Some(is)) = (facts::get::<Fingerprint>(was, FINGERPRINT)?, facts::get::<Fingerprint>(is, FINGERPRINT)?)
    {
        query = is.changes_since(&was).iter().map(ToString::to_string).collect();
    }
    let mut changed = Vec::new();
    for table in tables(reader, to).await? {
        let (mut put, mut removed) = (0, 0);
        for batch in from + 1..=to {
            for (change, rows) in table.changes(reader, batch).await? {
                match change {
                    Change::Put => put += rows.key.len() as u64,
                    Change::Remove => removed += rows.key.len() as u64,
                }
            }
        }
        if put + removed > 0 {
            changed.push(TableDifference { operator: table.operator, name: table.operator_name, table: table.name, put, removed });
        }
    }
    Ok(Difference {
        from,
        to,
        watermark_ms: (before.watermark_ms, after.watermark_ms),
        offsets: offsets.filter(|(_, (was, is))| was != is).collect(),
        options: options.filter(|(_, (was, is))| was != is).collect(),
        query,
        tables: changed,
    })
}
