//! The fields of an object, found by name: a record mostly has the same names in the same order as the one before it, so the name seen last
//! at each place is tried first.

use millstream_core::json::{Cursor, Fault, unescape};

use std::collections::HashMap;

use arrow::datatypes::Field;

use super::column::Column;

/// How many places remember a name.
const REMEMBERED: usize = 1024;

/// The columns of an object's fields.
#[derive(Debug)]
pub(super) struct Members {
    /// One column for each field.
    pub(super) columns: Vec<Column>,
    indexes: HashMap<Box<[u8]>, usize>,
    seen: Vec<Seen>,
}

/// A name that was seen at some place of the last object.
#[derive(Debug)]
struct Seen {
    /// With its quotes; empty when it must be read in full.
    quoted: Vec<u8>,
    index: Option<usize>,
}

impl Members {
    /// Empty columns for fields of these names and types. Of fields of the same name the last is filled.
    pub(super) fn new<'a>(fields: impl Iterator<Item = &'a Field>) -> Self {
        let (mut columns, mut indexes) = (Vec::new(), HashMap::new());
        for (index, field) in fields.enumerate() {
            columns.push(Column::new(field));
            indexes.insert(field.name().as_bytes().into(), index);
        }
        Members { columns, indexes, seen: Vec::new() }
    }

    /// Reads the name at the cursor, the object's `place`th, and the colon behind it; which column it belongs to.
    #[inline(always)]
    pub(super) fn name(&mut self, place: usize, cursor: &mut Cursor<'_>) -> Result<Option<usize>, Fault> {
        if let Some(seen) = self.seen.get(place)
            && !seen.quoted.is_empty()
            && cursor.take(&seen.quoted)
        {
            let index = seen.index;
            cursor.colon()?;
            return Ok(index);
        }
        self.unexpected_name(place, cursor)
    }

    fn unexpected_name(&mut self, place: usize, cursor: &mut Cursor<'_>) -> Result<Option<usize>, Fault> {
        let start = cursor.at();
        let name = cursor.name()?;
        let raw = cursor.since(start);
        let index = if name.escaped {
            let mut plain = Vec::new();
            unescape(name, &mut plain);
            self.indexes.get(plain.as_slice())
        } else {
            self.indexes.get(name.raw)
        };
        let index = index.copied();
        if place < REMEMBERED {
            self.seen.resize_with(self.seen.len().max(place + 1), || Seen { quoted: Vec::new(), index: None });
            if let Some(seen) = self.seen.get_mut(place) {
                seen.quoted.clear();
                // Only a name in quotes cannot be the beginning of a longer one.
                if raw.first() == Some(&b'"') {
                    seen.quoted.extend_from_slice(raw);
                }
                seen.index = index;
            }
        }
        cursor.colon()?;
        Ok(index)
    }
}
