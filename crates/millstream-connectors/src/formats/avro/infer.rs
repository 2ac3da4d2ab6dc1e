//! The schema of Avro files.

use std::sync::Arc;

use arrow::datatypes::{DataType, Schema, SchemaRef};
use millstream_core::{Error, ErrorKind, Options, Result};

use super::super::FileRef;
use super::container::Container;
use super::schema::parse;
use super::types::spark_type;

/// The columns of the option `avroSchema`, or of the first file that is not empty.
///
/// # Errors
/// `UNABLE_TO_INFER_SCHEMA` without such a file, `FAILED_READ_FILE.NO_HINT`, `AVRO_INCOMPATIBLE_SCHEMA`, `UNSUPPORTED_TIME_TYPE`.
pub(super) async fn infer(files: &[FileRef], options: &Options) -> Result<SchemaRef> {
    if let Some(json) = options.get("avroSchema") {
        return columns(json, "the option avroSchema").map_err(|error| error.within("option 'avroSchema'"));
    }
    for file in files {
        if let Some(container) = Container::open(file).await? {
            return columns(&container.schema, &file.url);
        }
    }
    let message = "there is no file with content to take the Avro schema from: give the schema or the option avroSchema";
    Err(Error::invalid("UNABLE_TO_INFER_SCHEMA", message).with_sqlstate("42KD9"))
}

fn columns(json: &str, origin: &str) -> Result<SchemaRef> {
    let (parsed, _) = parse(json).map_err(|why| incompatible(origin, &why))?;
    match spark_type(&parsed) {
        Ok(DataType::Struct(fields)) => Ok(Arc::new(Schema::new(fields))),
        Ok(_) => Err(incompatible(origin, "it is no record, so it has no columns")),
        Err(kind) => {
            let message =
                format!("the Avro schema of {origin} has the type {kind}, which is not supported: leave the column out or give the schema");
            Err(Error::invalid("UNSUPPORTED_TIME_TYPE", message).with_sqlstate("0A000"))
        }
    }
}

/// A schema that cannot be expressed in columns.
pub(super) fn incompatible(origin: &str, why: &str) -> Error {
    Error::new(ErrorKind::SchemaMismatch, "AVRO_INCOMPATIBLE_SCHEMA", format!("the Avro schema of {origin} cannot be used: {why}"))
}
