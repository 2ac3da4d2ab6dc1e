//! `epoch/<k>`: who became the checkpoint's writer with epoch k. Our own format; Spark never looks at it.

use bytes::Bytes;
use serde_json::{Map, Value, json};
use uuid::Uuid;

use super::check;
use super::{FACTS, Flaw, checked_object, text_of};

/// A claim to be the checkpoint's only writer, until a higher one is made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Claim {
    pub epoch: u64,
    pub writer: Uuid,
    /// Host and process, for people.
    pub owner: String,
    /// Milliseconds since the epoch.
    pub started_ms: i64,
    /// The place that the checkpoint is accepted to be at.
    pub location: String,
}

pub(crate) fn encode(claim: &Claim) -> Bytes {
    let mut text = json!({
        "epoch": claim.epoch,
        "writer": claim.writer.to_string(),
        "owner": claim.owner,
        "startedMs": claim.started_ms,
        "location": claim.location,
    })
    .to_string();
    text.truncate(text.len() - 1);
    text.push_str(&format!(",\"{FACTS}\":{{{}", check::blank_field()));
    check::seal(&mut text, &[]);
    text.into()
}

pub(crate) fn decode(bytes: &[u8]) -> Result<Claim, Flaw> {
    let text = text_of(bytes)?;
    let fields = checked_object(bytes, bytes.len(), text)?;
    claim_of(&fields).ok_or_else(|| Flaw::Damaged("it lacks a field".into()))
}

fn claim_of(fields: &Map<String, Value>) -> Option<Claim> {
    let text = |name: &str| fields.get(name).and_then(Value::as_str);
    Some(Claim {
        epoch: fields.get("epoch")?.as_u64()?,
        writer: text("writer")?.parse().ok()?,
        owner: text("owner")?.to_owned(),
        started_ms: fields.get("startedMs")?.as_i64()?,
        location: text("location")?.to_owned(),
    })
}
