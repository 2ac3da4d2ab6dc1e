//! Positions of the Delta source, as Spark writes them.

use millstream_core::{Error, ErrorKind, Offset, Result};
use serde::{Deserialize, Serialize};

/// The index that stands before the first file of a version.
pub(super) const BEFORE: i64 = -1;

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Json {
    source_version: i32,
    reservoir_id: String,
    reservoir_version: u64,
    index: i64,
    #[serde(alias = "isInitialSnapshot")]
    is_starting_version: bool,
}

/// A position: everything up to and including file `index` of `version` is behind it.
///
/// When the last file of a version is behind it, the position is before the first file of the next version, so that the finished version
/// is never read again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Position {
    pub version: u64,
    /// [`BEFORE`] or the index of a file.
    pub index: i64,
    /// Files are those of the table at `version`; otherwise those that the commit `version` added.
    pub initial: bool,
}

impl Position {
    /// Before the first change of a version.
    pub(super) fn before(version: u64) -> Self {
        Position { version, index: BEFORE, initial: false }
    }

    /// Before the first file of the table as it is at a version.
    pub(super) fn table_at(version: u64) -> Self {
        Position { version, index: BEFORE, initial: true }
    }

    /// Whether a tail position is at or beyond another one. The table at a version comes before the changes of the next one.
    pub(super) fn reached(self, other: Self) -> bool {
        let rank = |position: Self| (position.version, !position.initial, position.index);
        rank(self) >= rank(other)
    }

    pub(super) fn to_offset(self, table_id: &str) -> Result<Offset> {
        Offset::of(&Json {
            source_version: 1,
            reservoir_id: table_id.to_owned(),
            reservoir_version: self.version,
            index: self.index,
            is_starting_version: self.initial,
        })
    }

    /// Reads an offset of this table. Every negative index of later source versions stands before the files of its version.
    ///
    /// # Errors
    /// `DIFFERENT_DELTA_TABLE_READ_BY_STREAMING_SOURCE`, `DELTA_INVALID_SOURCE_VERSION`, `MALFORMED_OFFSET`.
    pub(super) fn of_offset(offset: &Offset, table_id: &str) -> Result<Self> {
        let json: Json = offset.read()?;
        if !(1..=3).contains(&json.source_version) {
            let message =
                format!("the checkpoint's offset {offset} has a source version that Millstream does not know: use a newer Millstream");
            return Err(Error::new(ErrorKind::CheckpointIncompatible, "DELTA_INVALID_SOURCE_VERSION", message).with_sqlstate("XXKDS"));
        }
        if json.reservoir_id != table_id {
            let message = format!(
                "the checkpoint belongs to the Delta table with id {} but the table that is read now has id {table_id}: it was replaced. \
                 Restore the table, or start a new checkpoint.",
                json.reservoir_id
            );
            let code = "DIFFERENT_DELTA_TABLE_READ_BY_STREAMING_SOURCE";
            return Err(Error::new(ErrorKind::CheckpointIncompatible, code, message).with_sqlstate("55019"));
        }
        Ok(Position { version: json.reservoir_version, index: json.index.max(BEFORE), initial: json.is_starting_version })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offsets_have_sparks_text() {
        let position = Position { version: 3, index: 7, initial: true };
        let offset = position.to_offset("id").unwrap();
        assert_eq!(offset.as_json(), r#"{"sourceVersion":1,"reservoirId":"id","reservoirVersion":3,"index":7,"isStartingVersion":true}"#);
        assert_eq!(Position::of_offset(&offset, "id").unwrap(), position);
        assert_eq!(Position::of_offset(&offset, "other").unwrap_err().code(), "DIFFERENT_DELTA_TABLE_READ_BY_STREAMING_SOURCE");
        let later =
            Offset::from_json(r#"{"sourceVersion":3,"reservoirId":"id","reservoirVersion":4,"index":-100,"isStartingVersion":false}"#);
        assert_eq!(Position::of_offset(&later.unwrap(), "id").unwrap(), Position::before(4));
        let unknown =
            Offset::from_json(r#"{"sourceVersion":9,"reservoirId":"id","reservoirVersion":4,"index":0,"isStartingVersion":false}"#);
        assert_eq!(Position::of_offset(&unknown.unwrap(), "id").unwrap_err().code(), "DELTA_INVALID_SOURCE_VERSION");
    }

    #[test]
    fn positions_are_ordered() {
        let ascending = [Position::table_at(2), Position { version: 2, index: 5, initial: true }, Position::before(3)];
        for (index, position) in ascending.iter().enumerate() {
            for (other_index, other) in ascending.iter().enumerate() {
                assert_eq!(position.reached(*other), index >= other_index);
            }
        }
    }
}
