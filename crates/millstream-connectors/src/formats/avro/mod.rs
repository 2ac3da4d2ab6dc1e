//! Apache Avro container files, read as Spark reads them.

mod container;
mod infer;
mod reader;
mod schema;
mod types;
mod union;
mod validate;

use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use async_trait::async_trait;
use millstream_core::options::OptionKind;
use millstream_core::{OptionSpec, Options, Result};

use super::{FileFormat, FileReader, FileRef};

/// The `avro` format.
#[derive(Debug)]
pub struct Avro;

/// Every option of the format.
pub const OPTIONS: &[OptionSpec] = &[
    OptionSpec {
        name: "avroSchema",
        kind: OptionKind::Text,
        default: None,
        doc: "A reader schema as Avro JSON, to which every file is resolved: renamed (aliases), promoted and defaulted fields.",
    },
    OptionSpec {
        name: "positionalFieldMatching",
        kind: OptionKind::Bool,
        default: Some("false"),
        doc: "Match the top-level columns by position instead of by name.",
    },
    OptionSpec {
        name: "datetimeRebaseMode",
        kind: OptionKind::OneOf(&["CORRECTED"]),
        default: Some("CORRECTED"),
        doc: "How dates and timestamps before 1582 are read: as they are.",
    },
];

#[async_trait]
impl FileFormat for Avro {
    fn names(&self) -> &'static [&'static str] {
        &["avro"]
    }

    fn options(&self) -> Vec<OptionSpec> {
        OPTIONS.to_vec()
    }

    fn filters_rows(&self) -> bool {
        true
    }

    async fn infer(&self, files: &[FileRef], options: &Options) -> Result<SchemaRef> {
        options.check(OPTIONS)?;
        infer::infer(files, options).await
    }

    fn reader(&self, schema: SchemaRef, options: &Options) -> Result<Arc<dyn FileReader>> {
        options.check(OPTIONS)?;
        Ok(Arc::new(reader::AvroReader::new(schema, options)?))
    }
}

#[cfg(test)]
mod tests;
