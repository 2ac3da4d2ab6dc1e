//! The inside of a file below `state/`: changes of one batch, or a snapshot.
//!
//! ```text
//! MSTATE1\n                                   magic and version
//! { length u32 | CRC32C u32 | payload } …     little-endian; the CRC is that of the payload
//! ```
//!
//! The first block is JSON: the batch, and for each following block the operator, the table, whether its rows are put or removed, which key groups
//! they are in (all, where it does not say), and how many there are. Each following block is an Arrow IPC stream with the columns of the table's key (`k0_…`), the number that tells the values of
//! one key apart (`sub`), and the columns of the value (`v0_…`); removals have no value. Rows are put before any is removed, and a key occurs
//! at most once in a file of changes.

use millstream_core::{Error, ErrorKind, Result};
use serde::{Deserialize, Serialize};

use crate::KEY_GROUPS;

const MAGIC: &[u8] = b"MSTATE1\n";

/// What happens to the rows of a section.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Change {
    /// They are put, in place of rows of the same key.
    Put,
    /// They are removed.
    Remove,
}

/// Rows of one table of one operator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Section {
    /// The operator's number, from the top of the plan down.
    pub operator: usize,
    /// The table's name.
    pub table: String,
    /// What happens to the rows.
    pub change: Change,
    /// The key groups that the rows are in: the first, and the one after the last.
    pub key_groups: (u16, u16),
    /// How many there are.
    pub rows: u64,
    /// They, as an Arrow IPC stream.
    pub payload: Vec<u8>,
}

#[derive(Serialize, Deserialize)]
struct Header {
    batch: u64,
    sections: Vec<Listed>,
}

#[derive(Serialize, Deserialize)]
struct Listed {
    operator: usize,
    table: String,
    change: Change,
    #[serde(rename = "keyGroups", default = "all_groups", skip_serializing_if = "are_all")]
    key_groups: (u16, u16),
    rows: u64,
}

fn all_groups() -> (u16, u16) {
    (0, KEY_GROUPS)
}

fn are_all(groups: &(u16, u16)) -> bool {
    *groups == all_groups()
}

/// The bytes of a file about `batch`.
///
/// # Errors
/// `INTERNAL_ERROR` when a section is too long for its length field.
pub fn encode(batch: u64, sections: &[Section]) -> Result<Vec<u8>> {
    let listed = sections.iter().map(|section| Listed {
        operator: section.operator,
        table: section.table.clone(),
        change: section.change,
        key_groups: section.key_groups,
        rows: section.rows,
    });
    let header = Header { batch, sections: listed.collect() };
    let header = serde_json::to_vec(&header).map_err(|error| Error::internal("a header of state does not serialise").caused_by(error))?;
    let size = MAGIC.len() + header.len() + sections.iter().map(|section| section.payload.len() + 8).sum::<usize>() + 8;
    let mut bytes = Vec::with_capacity(size);
    bytes.extend_from_slice(MAGIC);
    for payload in std::iter::once(&header).chain(sections.iter().map(|section| &section.payload)) {
        let length = u32::try_from(payload.len()).map_err(|_| Error::internal("a section of state is longer than 4 GiB"))?;
        bytes.extend_from_slice(&length.to_le_bytes());
        bytes.extend_from_slice(&crc32c::crc32c(payload).to_le_bytes());
        bytes.extend_from_slice(payload);
    }
    Ok(bytes)
}

/// The batch and the sections of the file called `name`.
///
/// # Errors
/// `CHECKPOINT_FILE_CHECKSUM_VERIFICATION_FAILED` when the bytes are not what was written, `INVALID_LOG_VERSION.MAX_SUPPORTED_VERSION` when
/// they were written by a later version.
pub fn decode(name: &str, bytes: &[u8]) -> Result<(u64, Vec<Section>)> {
    let Some(mut rest) = bytes.strip_prefix(MAGIC) else {
        if bytes.len() >= MAGIC.len() && bytes.starts_with(b"MSTATE") {
            return Err(Error::new(
                ErrorKind::CheckpointIncompatible,
                "INVALID_LOG_VERSION.MAX_SUPPORTED_VERSION",
                format!("the state file {name} was written by a later version of Millstream: use that version, or start a new checkpoint"),
            )
            .with_sqlstate("KD002"));
        }
        return Err(damaged(name, "it does not begin like a state file"));
    };
    let header = block(name, &mut rest)?;
    let header: Header = serde_json::from_slice(header).map_err(|error| damaged(name, "its header cannot be read").caused_by(error))?;
    let mut sections = Vec::with_capacity(header.sections.len());
    for listed in header.sections {
        let payload = block(name, &mut rest)?.to_vec();
        let Listed { operator, table, change, key_groups, rows } = listed;
        sections.push(Section { operator, table, change, key_groups, rows, payload });
    }
    if !rest.is_empty() {
        return Err(damaged(name, "it goes on after its end"));
    }
    Ok((header.batch, sections))
}

fn block<'a>(name: &str, rest: &mut &'a [u8]) -> Result<&'a [u8]> {
    let mut number = || {
        let (head, tail) = rest.split_first_chunk::<4>()?;
        *rest = tail;
        Some(u32::from_le_bytes(*head))
    };
    let (Some(length), Some(crc)) = (number(), number()) else { return Err(damaged(name, "it is cut off")) };
    let Some((payload, tail)) = usize::try_from(length).ok().and_then(|length| rest.split_at_checked(length)) else {
        return Err(damaged(name, "it is cut off"));
    };
    if crc32c::crc32c(payload) != crc {
        return Err(damaged(name, "the checksum of a block does not match"));
    }
    *rest = tail;
    Ok(payload)
}

fn damaged(name: &str, what: &str) -> Error {
    Error::new(
        ErrorKind::CheckpointIncompatible,
        "CHECKPOINT_FILE_CHECKSUM_VERIFICATION_FAILED",
        format!("the state file {name} is damaged: {what}. Restore it from a backup, or start a new checkpoint."),
    )
    .with_sqlstate("XX000")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sections() -> Vec<Section> {
        let section = |operator, change, payload: &[u8]| Section {
            operator,
            table: "left".into(),
            change,
            key_groups: if operator == 7 { (64, 128) } else { all_groups() },
            rows: payload.len() as u64,
            payload: payload.to_vec(),
        };
        vec![section(0, Change::Put, b"rows"), section(0, Change::Remove, b""), section(7, Change::Put, &[0; 300])]
    }

    #[test]
    fn a_file_goes_both_ways() {
        for sections in [sections(), vec![]] {
            let bytes = encode(12, &sections).unwrap();
            assert_eq!(decode("f", &bytes).unwrap(), (12, sections));
        }
    }

    #[test]
    fn the_bytes_of_version_1_are_fixed() {
        let bytes = encode(3, &sections()[..1]).unwrap();
        let header = br#"{"batch":3,"sections":[{"operator":0,"table":"left","change":"put","rows":4}]}"#;
        let mut expected = b"MSTATE1\n".to_vec();
        expected.extend((header.len() as u32).to_le_bytes());
        expected.extend(crc32c::crc32c(header).to_le_bytes());
        expected.extend(header);
        expected.extend([4, 0, 0, 0]);
        expected.extend(crc32c::crc32c(b"rows").to_le_bytes());
        expected.extend(b"rows");
        assert_eq!(bytes, expected);
    }

    #[test]
    fn every_cut_and_every_flipped_bit_is_found() {
        let bytes = encode(1, &sections()).unwrap();
        for length in 0..bytes.len() {
            assert_eq!(decode("f", &bytes[..length]).unwrap_err().code(), "CHECKPOINT_FILE_CHECKSUM_VERIFICATION_FAILED", "{length}");
        }
        for at in 0..bytes.len() {
            let mut wrong = bytes.clone();
            wrong[at] ^= 1;
            assert!(decode("f", &wrong).is_err(), "{at}");
        }
        assert_eq!(decode("f", b"MSTATE2\n").unwrap_err().code(), "INVALID_LOG_VERSION.MAX_SUPPORTED_VERSION");
    }
}
