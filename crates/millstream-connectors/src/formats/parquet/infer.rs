//! Schema inference from footers.

use std::sync::Arc;

use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use millstream_core::{Error, ErrorKind, Result};

use super::super::FileRef;
use super::super::merge::merge;
use super::super::positioned::Positioned;
use super::footer;
use super::types::spark_type;

/// The schema of the first file that is not empty, or of all of them merged.
///
/// # Errors
/// `FAILED_READ_FILE.CANNOT_READ_FILE_FOOTER`, `PARQUET_TYPE_ILLEGAL`, `COLUMN_ALREADY_EXISTS`, `CANNOT_MERGE_SCHEMAS`,
/// `UNABLE_TO_INFER_SCHEMA`.
pub(super) async fn infer(files: &[FileRef], merge_all: bool) -> Result<SchemaRef> {
    let mut merged: Option<SchemaRef> = None;
    for file in files.iter().filter(|file| file.size > 0) {
        let schema = schema_of(file).await?;
        merged = Some(match merged {
            Some(known) => merge(&known, &schema)?,
            None => schema,
        });
        if !merge_all {
            break;
        }
    }
    merged.ok_or_else(|| {
        Error::invalid("UNABLE_TO_INFER_SCHEMA", "there is no file with content to take the Parquet schema from: give the schema")
            .with_sqlstate("42KD9")
    })
}

async fn schema_of(file: &FileRef) -> Result<SchemaRef> {
    let metadata = footer::read(file, &Positioned::open(file).await?).await.map_err(|error| match error.kind() {
        ErrorKind::BadRecord => Error::new(ErrorKind::BadRecord, "FAILED_READ_FILE.CANNOT_READ_FILE_FOOTER", error.message().to_owned())
            .with_sqlstate("KD001")
            .caused_by(error),
        _ => error,
    })?;
    let mut fields: Vec<Field> = Vec::new();
    for field in metadata.schema().fields() {
        let name = field.name();
        if fields.iter().any(|known| known.name().to_lowercase() == name.to_lowercase()) {
            let message = format!("column `{name}` of file {} already exists: names that differ only in case are not told apart", file.url);
            return Err(Error::invalid("COLUMN_ALREADY_EXISTS", message).with_sqlstate("42711"));
        }
        let kind = spark_type(field.data_type()).map_err(|illegal| illegal_type(file, name, &illegal))?;
        fields.push(Field::new(name, kind, true));
    }
    Ok(Arc::new(Schema::new(fields)))
}

fn illegal_type(file: &FileRef, column: &str, illegal: &DataType) -> Error {
    let (code, sqlstate) = match illegal {
        DataType::Time64(arrow::datatypes::TimeUnit::Microsecond) => ("UNSUPPORTED_TIME_TYPE", "0A000"),
        _ => ("PARQUET_TYPE_ILLEGAL", "42846"),
    };
    Error::invalid(code, format!("column `{column}` of file {} has the type {illegal}, which has no counterpart", file.url))
        .with_sqlstate(sqlstate)
}
