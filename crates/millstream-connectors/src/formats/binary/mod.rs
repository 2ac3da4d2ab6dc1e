//! The format `binaryFile`: every file is one row with its path, the time of its last change, its length and its bytes.

#[cfg(test)]
mod tests;

use std::sync::Arc;

use arrow::array::{ArrayRef, BinaryBuilder, Int64Array, RecordBatch, RecordBatchOptions, StringArray, TimestampMicrosecondArray};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, Schema, SchemaRef, TimeUnit};
use async_trait::async_trait;
use futures::StreamExt;
use millstream_core::source::{BatchStream, ReadContext};
use millstream_core::{Error, ErrorKind, OptionSpec, Options, Result};

use super::positioned::{Positioned, io_error};
use super::{FileFormat, FileReader, FileRef};
use crate::files::shown_path;

/// The columns, which are the same for all files: their names, and what they hold.
const COLUMNS: [(&str, Fact); 4] =
    [("path", Fact::Path), ("modificationTime", Fact::ModificationTime), ("length", Fact::Length), ("content", Fact::Content)];

/// The longest content that a row can have, as in Spark (`spark.sql.sources.binaryFile.maxLength`).
const MOST_BYTES: u64 = i32::MAX as u64;

/// What a column says about a file.
#[derive(Clone, Copy, Debug)]
enum Fact {
    Path,
    ModificationTime,
    Length,
    Content,
}

impl Fact {
    fn data_type(self) -> DataType {
        match self {
            Fact::Path => DataType::Utf8,
            Fact::ModificationTime => DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into())),
            Fact::Length => DataType::Int64,
            Fact::Content => DataType::Binary,
        }
    }
}

/// The format.
#[derive(Clone, Copy, Debug)]
pub struct BinaryFile;

#[async_trait]
impl FileFormat for BinaryFile {
    fn names(&self) -> &'static [&'static str] {
        &["binaryFile"]
    }

    fn options(&self) -> Vec<OptionSpec> {
        Vec::new()
    }

    fn fixed_schema(&self) -> Option<SchemaRef> {
        Some(Arc::new(Schema::new(COLUMNS.map(|(name, fact)| Field::new(name, fact.data_type(), true)).to_vec())))
    }

    fn streams_need_schema(&self, _options: &Options) -> bool {
        true
    }

    async fn infer(&self, _files: &[FileRef], _options: &Options) -> Result<SchemaRef> {
        self.fixed_schema().ok_or_else(|| Error::internal("the format binaryFile has a schema"))
    }

    fn reader(&self, schema: SchemaRef, _options: &Options) -> Result<Arc<dyn FileReader>> {
        let fits = schema.fields().len() == COLUMNS.len()
            && schema.fields().iter().zip(COLUMNS).all(|(field, (name, fact))| field.name() == name && is(field.data_type(), fact));
        if !fits {
            let found: Vec<String> = schema.fields().iter().map(|field| format!("{} {}", field.name(), field.data_type())).collect();
            // Spark's exception has no condition.
            return Err(Error::invalid(
                "IllegalArgumentException",
                format!(
                    "the format binaryFile has the schema 'path string, modificationTime timestamp, length long, content binary', but the one \
                     given is '{}': leave it out, or give this one",
                    found.join(", ")
                ),
            ));
        }
        Ok(Arc::new(BinaryReader { schema }))
    }
}

fn is(data_type: &DataType, fact: Fact) -> bool {
    match (data_type, fact) {
        (DataType::Timestamp(TimeUnit::Microsecond, Some(_)), Fact::ModificationTime)
        | (DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View, Fact::Path)
        | (DataType::Binary | DataType::LargeBinary | DataType::BinaryView, Fact::Content) => true,
        (other, fact) => *other == fact.data_type(),
    }
}

#[derive(Clone, Debug)]
struct BinaryReader {
    schema: SchemaRef,
}

impl FileReader for BinaryReader {
    fn read(&self, file: FileRef, context: ReadContext) -> BatchStream {
        let reader = self.clone();
        futures::stream::once(async move { reader.row(&file, &context.projection).await }).boxed()
    }
}

impl BinaryReader {
    /// The row of a file. Its bytes are read only if they are asked for.
    async fn row(&self, file: &FileRef, projection: &[usize]) -> Result<RecordBatch> {
        let mut columns: Vec<ArrayRef> = Vec::with_capacity(projection.len());
        for column in projection {
            let (Some((_, fact)), Some(field)) = (COLUMNS.get(*column), self.schema.fields().get(*column)) else {
                return Err(Error::internal("the projection does not fit the schema of binaryFile"));
            };
            let values: ArrayRef = match fact {
                Fact::Path => Arc::new(StringArray::from(vec![shown_path(&file.url)])),
                Fact::ModificationTime => {
                    Arc::new(TimestampMicrosecondArray::from(vec![file.modified_ms.saturating_mul(1000)]).with_timezone("UTC"))
                }
                Fact::Length => Arc::new(Int64Array::from(vec![i64::try_from(file.size).unwrap_or(i64::MAX)])),
                Fact::Content => content(file).await?,
            };
            columns.push(cast(&values, field.data_type()).map_err(|error| unfit(file, error))?);
        }
        let schema = self.schema.project(projection).map_err(|error| unfit(file, error))?;
        let options = RecordBatchOptions::new().with_row_count(Some(1));
        RecordBatch::try_new_with_options(Arc::new(schema), columns, &options).map_err(|error| unfit(file, error))
    }
}

async fn content(file: &FileRef) -> Result<ArrayRef> {
    let open = Positioned::open(file).await?;
    if open.len() > MOST_BYTES {
        let message = format!(
            "file {} has {} bytes, a row of binaryFile at most {MOST_BYTES}: leave out the column content, or the file by pathGlobFilter",
            file.url,
            open.len()
        );
        return Err(Error::new(ErrorKind::BadRecord, "FAILED_READ_FILE.NO_HINT", message).with_sqlstate("KD001"));
    }
    let bytes = open.read(0..open.len()).await.map_err(|error| io_error(file, error))?;
    let mut values = BinaryBuilder::with_capacity(1, bytes.len());
    values.append_value(&bytes);
    Ok(Arc::new(values.finish()))
}

fn unfit(file: &FileRef, error: arrow::error::ArrowError) -> Error {
    Error::internal(format!("the row of {} does not fit its schema", file.url)).caused_by(error)
}
