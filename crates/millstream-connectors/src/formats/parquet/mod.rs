//! Apache Parquet, read as Spark reads it: columns by name, Spark's conversions and no others.

mod footer;
mod infer;
mod reader;
mod types;

use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use async_trait::async_trait;
use millstream_core::options::OptionKind;
use millstream_core::{OptionSpec, Options, Result};

use super::{FileFormat, FileReader, FileRef};

/// The `parquet` format.
#[derive(Debug)]
pub struct Parquet;

/// Every option of the format.
pub const OPTIONS: &[OptionSpec] = &[
    OptionSpec {
        name: "mergeSchema",
        kind: OptionKind::Bool,
        default: Some("false"),
        doc: "Infer the schema from every sampled file instead of the first.",
    },
    OptionSpec {
        name: "datetimeRebaseMode",
        kind: OptionKind::OneOf(&["CORRECTED"]),
        default: Some("CORRECTED"),
        doc: "How dates and timestamps before 1582 are read: as they are.",
    },
    OptionSpec {
        name: "int96RebaseMode",
        kind: OptionKind::OneOf(&["CORRECTED"]),
        default: Some("CORRECTED"),
        doc: "How INT96 timestamps before 1582 are read: as they are.",
    },
];

#[async_trait]
impl FileFormat for Parquet {
    fn names(&self) -> &'static [&'static str] {
        &["parquet"]
    }

    fn options(&self) -> Vec<OptionSpec> {
        OPTIONS.to_vec()
    }

    async fn infer(&self, files: &[FileRef], options: &Options) -> Result<SchemaRef> {
        options.check(OPTIONS)?;
        infer::infer(files, options.bool("mergeSchema", false)?).await
    }

    fn reader(&self, schema: SchemaRef, options: &Options) -> Result<Arc<dyn FileReader>> {
        options.check(OPTIONS)?;
        Ok(Arc::new(reader::ParquetReader::new(schema)))
    }
}

#[cfg(test)]
mod tests;
