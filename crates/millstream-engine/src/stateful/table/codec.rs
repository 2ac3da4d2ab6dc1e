//! Columns to bytes and back, a row at a time.

use arrow::array::ArrayRef;
use arrow::datatypes::DataType;
use arrow::row::{RowConverter, RowParser, Rows, SortField};
use datafusion::error::{DataFusionError, Result as DfResult};

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
