//! A column of maps under construction.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use arrow::array::{Array, ArrayRef, new_null_array};
use arrow::compute::interleave;
use arrow::datatypes::DataType;
use arrow::row::{Row, Rows};
use datafusion::scalar::ScalarValue;
use millstream_core::Result;

use super::super::downcast::arrow_error;
use super::super::{Settings, faults, keys, nested};

/// The places of a key or a value: which source, and which element of it.
type Pick = (usize, usize);

/// What becomes of keys that are there twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(in crate::functions) enum Duplicates {
    /// They are an error.
    Fail,
    /// The first one keeps its place and gets the value of the last one.
    LastWins,
}

impl Duplicates {
    /// As the session wants it.
    pub(in crate::functions) fn of(settings: &Settings) -> Self {
        if settings.last_key_wins { Duplicates::LastWins } else { Duplicates::Fail }
    }
}

/// Builds maps of keys and values picked from other arrays. A key is not null and is there once; −0.0 is 0.0.
#[derive(Debug)]
pub(in crate::functions) struct MapBuilder<'k> {
    data_type: DataType,
    keys: Vec<ArrayRef>,
    values: Vec<ArrayRef>,
    compared: &'k [Rows],
    duplicates: Duplicates,
    /// The keys of the map under construction, with their places among the picks.
    seen: HashMap<Row<'k>, usize>,
    picks: Vec<(Pick, Pick)>,
    offsets: Vec<i32>,
    valid: Vec<bool>,
}

impl<'k> MapBuilder<'k> {
    /// Maps of a type. `compared` are the keys of `keys`, see [`keys::of_columns`]. One null is added as the last source of values.
    ///
    /// # Errors
    /// `INTERNAL_ERROR` when a source is not of the type.
    pub(in crate::functions) fn new(
        data_type: DataType,
        duplicates: Duplicates,
        keys: &[&ArrayRef],
        values: &[&ArrayRef],
        compared: &'k [Rows],
    ) -> Result<Self> {
        let (key, value) = nested::entry_fields(&data_type)?;
        let keys = keys.iter().map(|source| keys::normalized(&nested::relabel(source, key.data_type())?)).collect::<Result<Vec<_>>>()?;
        let mut values = values.iter().map(|source| nested::relabel(source, value.data_type())).collect::<Result<Vec<_>>>()?;
        values.push(new_null_array(value.data_type(), 1));
        Ok(MapBuilder {
            data_type,
            keys,
            values,
            compared,
            duplicates,
            seen: HashMap::new(),
            picks: Vec::new(),
            offsets: vec![0],
            valid: Vec::new(),
        })
    }

    /// Adds an entry to the map under construction.
    ///
    /// # Errors
    /// `NULL_MAP_KEY`, `DUPLICATED_MAP_KEY`.
    pub(in crate::functions) fn push(&mut self, key: Pick, value: Pick) -> Result<()> {
        let source = self.keys.get(key.0);
        if source.is_none_or(|source| source.is_null(key.1) || *source.data_type() == DataType::Null) {
            return Err(faults::row("NULL_MAP_KEY", "2200E", "a key of a map cannot be null"));
        }
        if let Some(rows) = self.compared.get(key.0) {
            let known = match self.seen.entry(rows.row(key.1)) {
                Entry::Vacant(place) => {
                    place.insert(self.picks.len());
                    self.picks.push((key, value));
                    return Ok(());
                }
                Entry::Occupied(place) => *place.get(),
            };
            if let (Duplicates::LastWins, Some(pick)) = (self.duplicates, self.picks.get_mut(known)) {
                pick.1 = value;
                return Ok(());
            }
            let shown = source.and_then(|source| ScalarValue::try_from_array(source, key.1).ok()).map(|key| key.to_string());
            let message = format!("the key {} is there twice: keep one of its entries", shown.unwrap_or_default());
            return Err(faults::row("DUPLICATED_MAP_KEY", "23505", message));
        }
        self.picks.push((key, value));
        Ok(())
    }

    /// Ends a map.
    ///
    /// # Errors
    /// `COLLECTION_SIZE_LIMIT_EXCEEDED.PARAMETER` when a column of maps gets too long.
    pub(in crate::functions) fn end(&mut self, valid: bool) -> Result<()> {
        self.seen.clear();
        self.offsets.push(nested::offset(self.picks.len())?);
        self.valid.push(valid);
        Ok(())
    }

    /// The maps.
    ///
    /// # Errors
    /// `INTERNAL_ERROR` when a null was picked for values that cannot be null.
    pub(in crate::functions) fn finish(self) -> Result<ArrayRef> {
        let (keys, values): (Vec<Pick>, Vec<Pick>) = self.picks.into_iter().unzip();
        let gather = |sources: &[ArrayRef], picks: &[Pick], data_type: &DataType| -> Result<ArrayRef> {
            if picks.is_empty() {
                return Ok(arrow::array::new_empty_array(data_type));
            }
            interleave(&sources.iter().map(AsRef::as_ref).collect::<Vec<&dyn Array>>(), picks).map_err(arrow_error)
        };
        let (key, value) = nested::entry_fields(&self.data_type)?;
        let keys = gather(&self.keys, &keys, key.data_type())?;
        let values = gather(&self.values, &values, value.data_type())?;
        nested::map(&self.data_type, self.offsets, keys, values, self.valid)
    }
}
