//! Apache ORC, read as Spark reads it: columns by name, ORC's own schema evolution for values.
//!
//! Limits of the decoder: dates before 1582 of files in the old calendar (Spark and Hive write it) are days off, files with timestamps
//! before 1970 whose fractions the C++ writer has stored as negative numbers are refused, and union types are not supported.

mod reader;
mod types;

use std::sync::Arc;

use arrow::datatypes::{Field, Schema, SchemaRef};
use async_trait::async_trait;
use millstream_core::options::OptionKind;
use millstream_core::{Error, ErrorKind, OptionSpec, Options, Result};

use super::merge::merge;
use super::{FileFormat, FileReader, FileRef};

/// The `orc` format.
#[derive(Debug)]
pub struct Orc;

/// Every option of the format.
pub const OPTIONS: &[OptionSpec] = &[OptionSpec {
    name: "mergeSchema",
    kind: OptionKind::Bool,
    default: Some("false"),
    doc: "Infer the schema from every sampled file instead of the first.",
}];

#[async_trait]
impl FileFormat for Orc {
    fn names(&self) -> &'static [&'static str] {
        &["orc"]
    }

    fn options(&self) -> Vec<OptionSpec> {
        OPTIONS.to_vec()
    }

    async fn infer(&self, files: &[FileRef], options: &Options) -> Result<SchemaRef> {
        options.check(OPTIONS)?;
        let merge_all = options.bool("mergeSchema", false)?;
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
            let message = "there is no file with content to take the ORC schema from: give the schema";
            Error::invalid("UNABLE_TO_INFER_SCHEMA", message).with_sqlstate("42KD9")
        })
    }

    fn reader(&self, schema: SchemaRef, options: &Options) -> Result<Arc<dyn FileReader>> {
        options.check(OPTIONS)?;
        Ok(Arc::new(reader::OrcReader::new(schema)))
    }
}

async fn schema_of(file: &FileRef) -> Result<SchemaRef> {
    let columns = reader::columns_of(file).await.map_err(|error| match error.kind() {
        ErrorKind::BadRecord => Error::new(ErrorKind::BadRecord, "FAILED_READ_FILE.CANNOT_READ_FILE_FOOTER", error.message().to_owned())
            .with_sqlstate("KD001")
            .caused_by(error),
        _ => error,
    })?;
    let mut fields: Vec<Field> = Vec::new();
    for field in columns.fields() {
        let name = field.name();
        if fields.iter().any(|known| known.name().to_lowercase() == name.to_lowercase()) {
            let message = format!("column `{name}` of file {} already exists: names that differ only in case are not told apart", file.url);
            return Err(Error::invalid("COLUMN_ALREADY_EXISTS", message).with_sqlstate("42711"));
        }
        let kind = types::spark_type(field.data_type()).map_err(|kind| {
            let message = format!("column `{name}` of file {} has the type {kind}, which has no counterpart", file.url);
            Error::invalid("UNSUPPORTED_DATA_TYPE_FOR_DATASOURCE", message).with_sqlstate("0A000")
        })?;
        fields.push(Field::new(name, kind, true));
    }
    Ok(Arc::new(Schema::new(fields)))
}

#[cfg(test)]
mod tests;
