//! What a reader knows before it opens a file: which columns it reads, and where the others come from.

use std::sync::Arc;

use arrow::datatypes::{DataType, Schema, SchemaRef};
use millstream_core::{Error, Result, variant};

/// A schema and options that were checked, for formats whose records have named fields.
#[derive(Debug)]
pub struct Plan<O> {
    /// The schema that files are read with.
    pub schema: SchemaRef,
    /// The options.
    pub options: O,
    /// What the format is called.
    format: &'static str,
    /// Which column of the schema takes the text of malformed records.
    pub corrupt_record: Option<usize>,
    /// Which column of the schema takes what does not fit it.
    pub rescued_data: Option<usize>,
}

/// Where a projected column comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// From the fields of the record: the position among the fields that are read.
    Field(usize),
    /// The text of the malformed record.
    CorruptRecord,
    /// What does not fit the schema.
    RescuedData,
}

/// A projection of a plan.
#[derive(Clone, Debug)]
pub struct Projection {
    /// The schema of the batches.
    pub schema: SchemaRef,
    /// Where each of their columns comes from.
    pub sources: Vec<Source>,
    /// The columns of the plan's schema that are read from records.
    pub fields: Vec<usize>,
}

/// What the options say about columns that do not come from the fields of records.
#[derive(Clone, Copy, Debug)]
pub struct TextColumns<'o> {
    /// The column for the text of malformed records.
    pub corrupt_record: &'o str,
    /// The column for what does not fit the schema.
    pub rescued_data: Option<&'o str>,
}

impl<O> Plan<O> {
    /// Checks a schema against the options of a format that has values of types that are `supported`.
    ///
    /// # Errors
    /// `UNSUPPORTED_DATA_TYPE_FOR_DATASOURCE` for other types, `INVALID_CORRUPT_RECORD_TYPE` when the column for malformed records or for
    /// rescued data is no string.
    pub fn new(
        format: &'static str,
        schema: SchemaRef,
        options: O,
        supported: impl Fn(&DataType) -> bool,
        columns: impl Fn(&O) -> TextColumns<'_>,
    ) -> Result<Arc<Self>> {
        for field in schema.fields() {
            if !supported(field.data_type()) {
                let message = format!("the format {format} has no values of type {} for column '{}'", field.data_type(), field.name());
                return Err(Error::invalid("UNSUPPORTED_DATA_TYPE_FOR_DATASOURCE", message).with_sqlstate("0A000"));
            }
        }
        let is_text = |data_type: &DataType| matches!(data_type, DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View);
        let text_column = |name: &str| match schema.column_with_name(name) {
            Some((_, field)) if !is_text(field.data_type()) => {
                let message = format!("column '{name}' takes the text of records and must be a string, but it is {}", field.data_type());
                Err(Error::invalid("INVALID_CORRUPT_RECORD_TYPE", message).with_sqlstate("42804"))
            }
            found => Ok(found.map(|(index, _)| index)),
        };
        let named = columns(&options);
        let corrupt_record = text_column(named.corrupt_record)?;
        let rescued_data = named.rescued_data.map(text_column).transpose()?.flatten().filter(|column| Some(*column) != corrupt_record);
        Ok(Arc::new(Plan { schema, options, format, corrupt_record, rescued_data }))
    }

    /// What is read for a projection.
    ///
    /// # Errors
    /// `UNSUPPORTED_FEATURE.QUERY_ONLY_CORRUPT_RECORD_COLUMN` when nothing but the text of malformed records is asked for: a record is
    /// malformed only by the columns that are read. `INTERNAL_ERROR` for columns outside of the schema.
    pub fn project(&self, columns: &[usize]) -> Result<Projection> {
        if !columns.is_empty() && columns.iter().all(|column| Some(*column) == self.corrupt_record) {
            let name = self.corrupt_record.and_then(|column| self.schema.fields().get(column)).map_or("", |field| field.name());
            let message = format!(
                "a query over {} files that reads only the column '{name}' finds no malformed records: select another column with it",
                self.format
            );
            return Err(Error::invalid("UNSUPPORTED_FEATURE.QUERY_ONLY_CORRUPT_RECORD_COLUMN", message).with_sqlstate("0A000"));
        }
        let is_field = |column: &usize| Some(*column) != self.corrupt_record && Some(*column) != self.rescued_data;
        let rescues = self.rescued_data.is_some_and(|column| columns.contains(&column));
        // To tell what does not fit the schema, all of it must be read.
        let fields: Vec<usize> = if rescues {
            (0..self.schema.fields().len()).filter(is_field).collect()
        } else {
            let mut fields: Vec<usize> = columns.iter().copied().filter(is_field).collect();
            fields.sort_unstable();
            fields.dedup();
            fields
        };
        let source = |column: &usize| {
            if Some(*column) == self.corrupt_record {
                Source::CorruptRecord
            } else if Some(*column) == self.rescued_data {
                Source::RescuedData
            } else {
                Source::Field(fields.binary_search(column).unwrap_or(usize::MAX))
            }
        };
        let sources = columns.iter().map(source).collect();
        let schema: Schema = self.schema.project(columns).map_err(|error| Error::internal("bad projection").caused_by(error))?;
        Ok(Projection { schema: Arc::new(schema), sources, fields })
    }

    /// The type of a column of the schema.
    pub fn data_type(&self, column: usize) -> &DataType {
        self.schema.fields().get(column).map_or(&DataType::Null, |field| field.data_type())
    }
}

/// Checks that a schema has nothing but the column that takes whole records as variants, and perhaps the one for malformed records.
///
/// # Errors
/// Spark's exception has no condition.
pub fn check_single_variant(schema: &Schema, name: &str, corrupt_record: &str) -> Result<()> {
    let mut data = schema.fields().iter().filter(|field| field.name() != corrupt_record);
    match (data.next(), data.next()) {
        (Some(field), None) if field.name() == name && *field.data_type() == variant::data_type() => Ok(()),
        _ => Err(Error::invalid(
            "IllegalArgumentException",
            format!("the option singleVariantColumn asks for one column '{name}' of the type variant, but the schema has other ones"),
        )),
    }
}
