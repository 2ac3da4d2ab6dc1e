//! What a commit record says about the state of stateful operators.
//!
//! The files under `state/` are never overwritten: each attempt at a batch writes files with names of their own, and the commit record of the
//! batch names the ones that count. A file that no retained commit names is garbage.

pub mod blocks;
pub mod key;
pub mod store;

use millstream_core::recovery::CommitRecord;
use millstream_core::{Error, ErrorKind, Result};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::{StateKind, facts};

/// The fact that is the manifest.
const FIELD: &str = "state";

/// A file of state that a commit record vouches for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StateFile {
    /// Its name below `state/`, unique among all attempts at all batches.
    pub name: String,
    /// Its length in bytes.
    pub length: u64,
    /// The CRC32C of all of it.
    #[serde(serialize_with = "crc_to_hex", deserialize_with = "crc_from_hex")]
    pub crc32c: u32,
    /// The key groups that it has entries of: the first, and the one after the last.
    #[serde(rename = "keyGroups")]
    pub key_groups: (u16, u16),
}

impl StateFile {
    /// A file called `name` with `bytes` in it.
    pub fn of(name: impl Into<String>, bytes: &[u8], key_groups: (u16, u16)) -> StateFile {
        StateFile { name: name.into(), length: bytes.len() as u64, crc32c: crc32c::crc32c(bytes), key_groups }
    }

    /// Whether it is of a snapshot.
    pub fn is_snapshot(&self) -> bool {
        self.name.ends_with(StateKind::Snapshot.suffix())
    }

    /// The batch that its name says it is about.
    pub(crate) fn batch_of(name: &str) -> Option<u64> {
        name.split_once('_').and_then(|(batch, _)| batch.parse().ok())
    }

    /// Compares what was read with what was written.
    ///
    /// # Errors
    /// `CHECKPOINT_FILE_CHECKSUM_VERIFICATION_FAILED`.
    pub fn verify(&self, bytes: &[u8]) -> Result<()> {
        let crc = crc32c::crc32c(bytes);
        if bytes.len() as u64 == self.length && crc == self.crc32c {
            return Ok(());
        }
        Err(Error::new(
            ErrorKind::CheckpointIncompatible,
            "CHECKPOINT_FILE_CHECKSUM_VERIFICATION_FAILED",
            format!(
                "the state file {} has {} bytes and CRC32C {crc:08x}, but {} bytes and {:08x} were written. Restore it from a backup, or \
                 start a new checkpoint.",
                self.name,
                bytes.len(),
                self.length,
                self.crc32c
            ),
        )
        .with_sqlstate("XX000"))
    }
}

/// The state after a batch: a snapshot, and the changes of every batch since.
///
/// The changes are the truth and name this batch's only; those of earlier batches are named by their own commit records, back to `base`. A
/// snapshot is made in the background, is named by the first commit after it is durable, and can be made again from the changes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StateManifest {
    /// Into how many key groups the state is split, for the life of the checkpoint.
    #[serde(rename = "keyGroups")]
    pub key_groups: u16,
    /// The batch after which the snapshot in use was taken; `None` while state is only changes, from batch 0 on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base: Option<u64>,
    /// The files of that snapshot.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub snapshot: Vec<StateFile>,
    /// The changes made by this batch, one file per process that had any.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub changes: Vec<StateFile>,
}

impl StateManifest {
    /// The manifest in `record`, or `None` when the batch had no stateful operators.
    ///
    /// # Errors
    /// `CHECKPOINT_RECORD_DAMAGED` when there is one that cannot be read.
    pub fn of(record: &CommitRecord) -> Result<Option<StateManifest>> {
        facts::get(record, FIELD)
    }

    /// Puts the manifest into `record`.
    ///
    /// # Errors
    /// `INTERNAL_ERROR` when the record's own facts are not an object.
    pub fn put_into(&self, record: &mut CommitRecord) -> Result<()> {
        facts::put(record, FIELD, self)
    }

    /// The first batch whose files below `state/` are needed to restore the state after `batch`.
    pub(crate) fn oldest_file(&self, batch: u64) -> u64 {
        self.base.unwrap_or(0).min(batch)
    }

    /// The oldest batch whose commit record is needed to restore the state after `batch`.
    pub fn oldest_needed(&self, batch: u64) -> u64 {
        self.base.map_or(0, |base| base + 1).min(batch)
    }
}

fn crc_to_hex<S: Serializer>(crc: &u32, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(&format_args!("{crc:08x}"))
}

fn crc_from_hex<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u32, D::Error> {
    let text = String::deserialize(deserializer)?;
    u32::from_str_radix(&text, 16).map_err(|_| serde::de::Error::custom(format!("{text:?} is not a CRC32C")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::FACTS;

    fn manifest() -> StateManifest {
        StateManifest {
            key_groups: 128,
            base: Some(40),
            snapshot: vec![StateFile::of("40_0b0e.snapshot", b"all of it", (0, 128))],
            changes: vec![StateFile::of("42_5e11.changes", b"123456789", (0, 64)), StateFile::of("42_77aa.changes", b"", (64, 128))],
        }
    }

    #[test]
    fn the_text_is_fixed_and_goes_both_ways() {
        let mut record = CommitRecord::default();
        record.extra.insert(FACTS.into(), serde_json::json!({"watermarks": [1, 2]}));
        manifest().put_into(&mut record).unwrap();
        assert_eq!(
            record.extra[FACTS].to_string(),
            concat!(
                r#"{"watermarks":[1,2],"state":{"keyGroups":128,"base":40,"#,
                r#""snapshot":[{"name":"40_0b0e.snapshot","length":9,"crc32c":"89bfe7f1","keyGroups":[0,128]}],"#,
                r#""changes":[{"name":"42_5e11.changes","length":9,"crc32c":"e3069283","keyGroups":[0,64]},"#,
                r#"{"name":"42_77aa.changes","length":0,"crc32c":"00000000","keyGroups":[64,128]}]}}"#
            )
        );
        assert_eq!(StateManifest::of(&record).unwrap(), Some(manifest()));
        assert_eq!(StateManifest::of(&CommitRecord::default()).unwrap(), None);
    }

    #[test]
    fn a_wrong_manifest_is_an_error() {
        let mut record = CommitRecord::default();
        record.extra.insert(FACTS.into(), serde_json::json!({"state": {"keyGroups": 128, "changes": [{"name": "x"}]}}));
        assert_eq!(StateManifest::of(&record).unwrap_err().code(), "CHECKPOINT_RECORD_DAMAGED");
        record.extra.insert(FACTS.into(), serde_json::json!(3));
        assert_eq!(manifest().put_into(&mut record).unwrap_err().code(), "INTERNAL_ERROR");
    }

    #[test]
    fn a_file_is_what_was_written_or_named_in_an_error() {
        let file = StateFile::of("42_5e11.changes", b"123456789", (0, 64));
        file.verify(b"123456789").unwrap();
        for wrong in [&b"12345678"[..], b"123456780", b"", b"1234567890"] {
            let error = file.verify(wrong).unwrap_err();
            assert_eq!(error.code(), "CHECKPOINT_FILE_CHECKSUM_VERIFICATION_FAILED");
            assert!(error.message().contains("42_5e11.changes"), "{error}");
        }
    }

    #[test]
    fn recovery_needs_the_commits_since_the_snapshot() {
        assert_eq!(manifest().oldest_needed(42), 41);
        assert_eq!(StateManifest { base: None, ..manifest() }.oldest_needed(42), 0);
        assert_eq!(StateManifest { base: Some(42), ..manifest() }.oldest_needed(42), 42);
    }
}
