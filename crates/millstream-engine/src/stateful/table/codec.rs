//! Columns to bytes and back, a row at a time.

use arrow::array::{Array, ArrayRef, Int64Array};
use arrow::datatypes::DataType;
use arrow::row::{RowConverter, RowParser, Rows, SortField};
use datafusion::error::{DataFusionError, Result as DfResult};
use millstream_checkpoint::state::key;

/// Encodes rows of some columns as bytes: equal rows as equal bytes.
#[derive(Debug)]
pub(crate) struct Codec {
    /// `None` without columns, where every row is empty.
    inner: Option<(RowConverter, RowParser)>,
}

impl Codec {
    /// A codec for columns of these types.
    ///
    /// # Errors
    /// When a type has no encoding.
    pub(crate) fn new<'a>(types: impl IntoIterator<Item = &'a DataType>) -> DfResult<Self> {
        let fields: Vec<SortField> = types.into_iter().map(|data_type| SortField::new(data_type.clone())).collect();
        if fields.is_empty() {
            return Ok(Codec { inner: None });
        }
        let converter = RowConverter::new(fields).map_err(DataFusionError::from)?;
        let parser = converter.parser();
        Ok(Codec { inner: Some((converter, parser)) })
    }

    /// The rows of these columns.
    pub(crate) fn encode(&self, columns: &[ArrayRef], rows: usize) -> DfResult<Encoded> {
        let encoded = self.inner.as_ref().map(|(converter, _)| converter.convert_columns(columns)).transpose()?;
        Ok(Encoded { encoded, rows })
    }

    /// The columns of these rows.
    pub(crate) fn decode<'a>(&self, rows: impl IntoIterator<Item = &'a [u8]>) -> DfResult<Vec<ArrayRef>> {
        match &self.inner {
            None => Ok(Vec::new()),
            Some((converter, parser)) => {
                let rows = rows.into_iter().map(|bytes| parser.parse(bytes));
                converter.convert_rows(rows).map_err(DataFusionError::from)
            }
        }
    }
}

/// Encoded rows.
#[derive(Debug)]
pub(crate) struct Encoded {
    encoded: Option<Rows>,
    rows: usize,
}

impl Encoded {
    /// One of them.
    pub(crate) fn row(&self, index: usize) -> &[u8] {
        self.encoded.as_ref().map_or(&[], |rows| rows.row(index).data())
    }

    /// All of them.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &[u8]> {
        (0..self.rows).map(|index| self.row(index))
    }
}

/// Keys of state: [`key`] says what is in front of their columns.
#[derive(Debug)]
pub(crate) struct EncodedKeys {
    bytes: Vec<u8>,
    /// Where each key ends.
    ends: Vec<usize>,
}

impl EncodedKeys {
    /// Keys of encoded columns. `grouped_by` are the columns that say which group a key is in; `expiries` are those of a table whose keys have
    /// one, and rows without one never leave.
    pub(crate) fn of(columns: &Encoded, grouped_by: &Encoded, expiries: Option<&Int64Array>) -> EncodedKeys {
        let mut keys = EncodedKeys { bytes: Vec::new(), ends: Vec::with_capacity(columns.rows) };
        for (row, columns) in columns.iter().enumerate() {
            let expiry = expiries.map(|expiries| if expiries.is_valid(row) { expiries.value(row) } else { key::NEVER });
            key::write(&mut keys.bytes, key::group_of(grouped_by.row(row)), expiry, columns);
            keys.ends.push(keys.bytes.len());
        }
        keys
    }

    /// One of them.
    pub(crate) fn row(&self, index: usize) -> &[u8] {
        let from = index.checked_sub(1).and_then(|before| self.ends.get(before)).copied().unwrap_or(0);
        self.ends.get(index).and_then(|to| self.bytes.get(from..*to)).unwrap_or_default()
    }

    /// All of them.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &[u8]> {
        (0..self.ends.len()).map(|index| self.row(index))
    }
}

/// The encoded columns of a key.
pub(crate) fn columns_of(key: &[u8], expires: bool) -> &[u8] {
    let skip = key::GROUP_BYTES + if expires { key::EXPIRY_BYTES } else { 0 };
    key.get(skip..).unwrap_or_default()
}
