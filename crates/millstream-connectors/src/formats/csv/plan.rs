//! What a reader knows before it opens a file: which columns it reads, and where in a record they are.

use std::sync::Arc;

use arrow::datatypes::{DataType, Schema, SchemaRef};
use millstream_core::{Error, Result};

use super::super::resolve::is_text_or_bytes;
use super::column::is_supported;
use super::options::CsvOptions;

/// A schema and options that were checked.
#[derive(Debug)]
pub(super) struct Plan {
    /// The schema that files are read with.
    pub(super) schema: SchemaRef,
    /// The options.
    pub(super) options: CsvOptions,
    /// The columns of the schema that records have, in the order of their values.
    pub(super) data_columns: Vec<usize>,
    corrupt_record: Option<usize>,
    rescued_data: Option<usize>,
}

/// Where a projected column comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Source {
    /// From a value of the record: the index in [`Projection::positions`].
    Value(usize),
    /// The text of the malformed record.
    CorruptRecord,
    /// What does not fit the schema.
    RescuedData,
}

/// A projection of a plan.
#[derive(Clone, Debug)]
pub(super) struct Projection {
    /// The schema of the batches.
    pub(super) schema: SchemaRef,
    /// Where each of their columns comes from.
    pub(super) sources: Vec<Source>,
    /// The positions of the values that are read, ascending.
    pub(super) positions: Vec<usize>,
    /// Whether a record with another number of values than the schema has columns is malformed.
    pub(super) judge_length: bool,
    /// Whether records need not even be split.
    pub(super) count_only: bool,
}

impl Plan {
    /// Checks a schema against the options.
    ///
    /// # Errors
    /// `UNSUPPORTED_DATA_TYPE_FOR_DATASOURCE` for types that CSV cannot have, `INVALID_CORRUPT_RECORD_TYPE` when the column for malformed
    /// records or for rescued data is no string.
    pub(super) fn new(schema: SchemaRef, options: CsvOptions) -> Result<Arc<Self>> {
        for field in schema.fields() {
            if !is_supported(field.data_type()) {
                let message = format!("the format csv does not support the column `{}` of the type {}", field.name(), field.data_type());
                return Err(Error::invalid("UNSUPPORTED_DATA_TYPE_FOR_DATASOURCE", message).with_sqlstate("0A000"));
            }
        }
        let is_text =
            |kind: &DataType| is_text_or_bytes(kind) && !matches!(kind, DataType::Binary | DataType::LargeBinary | DataType::BinaryView);
        let text_column = |name: &str| match schema.column_with_name(name) {
            Some((_, field)) if !is_text(field.data_type()) => {
                let message = format!("column `{name}` takes the text of records and must be a string, but it is {}", field.data_type());
                Err(Error::invalid("INVALID_CORRUPT_RECORD_TYPE", message).with_sqlstate("42804"))
            }
            found => Ok(found.map(|(index, _)| index)),
        };
        let corrupt_record = text_column(&options.corrupt_record)?;
        let rescued_data =
            options.rescued_data.as_deref().map(text_column).transpose()?.flatten().filter(|column| Some(*column) != corrupt_record);
        let is_data = |column: &usize| Some(*column) != corrupt_record && Some(*column) != rescued_data;
        let data_columns = (0..schema.fields().len()).filter(is_data).collect();
        Ok(Arc::new(Plan { schema, options, data_columns, corrupt_record, rescued_data }))
    }

    /// Whether what does not fit is rescued, if anybody reads it.
    pub(super) fn rescues(&self) -> bool {
        self.rescued_data.is_some()
    }

    /// What is read for a projection.
    ///
    /// # Errors
    /// `UNSUPPORTED_FEATURE.QUERY_ONLY_CORRUPT_RECORD_COLUMN` when nothing but the text of malformed records is asked for: a record is
    /// malformed only by the columns that are read. `INTERNAL_ERROR` for columns outside of the schema.
    pub(super) fn project(&self, columns: &[usize]) -> Result<Projection> {
        if !columns.is_empty() && columns.iter().all(|column| Some(*column) == self.corrupt_record) {
            let message = format!(
                "a query over csv files that reads only the column '{}' finds no malformed records: select another column with it",
                self.options.corrupt_record
            );
            return Err(Error::invalid("UNSUPPORTED_FEATURE.QUERY_ONLY_CORRUPT_RECORD_COLUMN", message).with_sqlstate("0A000"));
        }
        let all = self.data_columns.len();
        // To tell what does not fit the schema, all of it must be read.
        let positions: Vec<usize> = if self.rescued_data.is_some_and(|column| columns.contains(&column)) {
            (0..all).collect()
        } else {
            (0..all).filter(|position| self.data_columns.get(*position).is_some_and(|column| columns.contains(column))).collect()
        };
        let source = |column: &usize| {
            if Some(*column) == self.corrupt_record {
                Source::CorruptRecord
            } else if Some(*column) == self.rescued_data {
                Source::RescuedData
            } else {
                let index = positions.iter().position(|position| self.data_columns.get(*position) == Some(column));
                Source::Value(index.unwrap_or(usize::MAX))
            }
        };
        let sources = columns.iter().map(source).collect();
        let schema: Schema = self.schema.project(columns).map_err(|error| Error::internal("bad projection").caused_by(error))?;
        let pruned = self.options.column_pruning && positions.len() < all;
        Ok(Projection { schema: Arc::new(schema), sources, judge_length: !pruned, count_only: pruned && positions.is_empty(), positions })
    }

    /// The name and type of the value at a position.
    pub(super) fn data_column(&self, position: usize) -> (&str, &DataType) {
        let field = self.data_columns.get(position).and_then(|column| self.schema.fields().get(*column));
        field.map_or(("", &DataType::Utf8), |field| (field.name(), field.data_type()))
    }
}
