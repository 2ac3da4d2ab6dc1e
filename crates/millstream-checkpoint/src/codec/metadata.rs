//! `metadata`: the query that a checkpoint belongs to, in Spark's `StreamMetadata` format: one JSON object and no line break.

use bytes::Bytes;
use serde_json::{Map, Value, json};
use uuid::Uuid;

use super::check;
use super::{FACTS, Flaw, checked_object, text_of};

/// The version of the checkpoint layout that this program writes and the newest that it reads.
pub(crate) const FORMAT: u64 = 1;

/// What `metadata` says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Metadata {
    /// The query, which is also the key under which sinks remember its batches.
    pub id: Uuid,
    /// Where the checkpoint was created. Spark does not record it.
    pub location: Option<String>,
}

pub(crate) fn encode(metadata: &Metadata) -> Bytes {
    let mut facts = Map::new();
    facts.insert("format".into(), FORMAT.into());
    if let Some(location) = &metadata.location {
        facts.insert("location".into(), location.as_str().into());
    }
    let mut text = json!({ "id": metadata.id.to_string(), FACTS: facts }).to_string();
    text.truncate(text.len() - 2);
    text.push(',');
    text.push_str(&check::blank_field());
    check::seal(&mut text, &[]);
    text.into()
}

pub(crate) fn decode(bytes: &[u8]) -> Result<Metadata, Flaw> {
    let text = text_of(bytes)?;
    let line = text.trim_end();
    let fields = checked_object(bytes, line.len(), line)?;
    let id = fields.get("id").and_then(Value::as_str).and_then(|id| id.parse().ok());
    let id = id.ok_or_else(|| Flaw::Damaged("it has no query id".into()))?;
    let facts = fields.get(FACTS);
    match facts.and_then(|facts| facts.get("format")).map(Value::as_u64) {
        Some(Some(found)) if found > FORMAT => return Err(Flaw::Version { found, supported: FORMAT }),
        Some(None) => return Err(Flaw::Damaged("its format is not a number".into())),
        _ => {}
    }
    let location = facts.and_then(|facts| facts.get("location")).and_then(Value::as_str).map(str::to_owned);
    Ok(Metadata { id, location })
}
