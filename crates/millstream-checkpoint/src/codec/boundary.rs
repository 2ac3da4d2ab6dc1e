//! `boundary`: below which numbers records were removed. Our own format; Spark never looks at it.
//!
//! A listing that comes back empty or partial must not make an old checkpoint look new, and once the first records are removed their absence
//! proves nothing. This file says where to look instead. It is written before anything is removed.

use std::collections::BTreeMap;

use bytes::Bytes;
use millstream_core::{Error, Result};
use serde::{Deserialize, Serialize};

use super::{FACTS, Flaw, check, checked_object, text_of};

/// Numbers at which the logs of a checkpoint are known to have had a record.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Boundary {
    /// A batch that was committed; every record of `offsets` and `commits` below it may be gone.
    pub batch: u64,
    /// An epoch that was claimed; older claims may be gone.
    pub epoch: u64,
    /// Per source log a compacted batch; everything below it may be gone.
    pub sources: BTreeMap<String, u64>,
}

pub(crate) fn encode(boundary: &Boundary) -> Result<Bytes> {
    let mut text = serde_json::to_string(boundary).map_err(|error| Error::internal("a boundary does not serialise").caused_by(error))?;
    text.truncate(text.len() - 1);
    text.push_str(&format!(",\"{FACTS}\":{{{}", check::blank_field()));
    check::seal(&mut text, &[]);
    Ok(text.into())
}

pub(crate) fn decode(bytes: &[u8]) -> Result<Boundary, Flaw> {
    let text = text_of(bytes)?;
    let fields = checked_object(bytes, bytes.len(), text)?;
    serde_json::from_value(fields.into()).map_err(|error| Flaw::Damaged(error.to_string()))
}
