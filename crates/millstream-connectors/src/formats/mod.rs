//! File formats: bytes of one file to record batches, and back.
//!
//! A format is bound once per query to the schema and options, which it checks, and then reads any number of files. Malformed records are
//! the format's business: it applies the parse mode, fills the corrupt-record and rescued-data columns, and reports to the quarantine
//! every record whose text is not kept in one of those columns.

pub mod avro;
pub mod binary;
pub mod csv;
pub mod input;
pub mod json;
pub mod lines;
mod merge;
pub mod orc;
pub mod parquet;
mod plan;
mod positioned;
#[cfg(test)]
mod reading;
pub mod rescue;
mod resolve;
pub mod text;
pub mod values;
pub mod write;
pub mod xml;

use std::fmt::Debug;
use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use async_trait::async_trait;
use millstream_core::source::{BatchStream, ReadContext};
use millstream_core::{Error, OptionSpec, Options, Result};
use object_store::ObjectStore;
use object_store::path::Path;

/// One file to read.
#[derive(Clone, Debug)]
pub struct FileRef {
    /// The store.
    pub store: Arc<dyn ObjectStore>,
    /// The path inside the store.
    pub path: Path,
    /// The file's URL as users see it (URI-encoded), for messages and the quarantine.
    pub url: String,
    /// The size in bytes when it was listed.
    pub size: u64,
    /// When it was last modified, milliseconds since 1970, as it was listed; 0 where nobody asked.
    pub modified_ms: i64,
}

/// A file format.
#[async_trait]
pub trait FileFormat: Debug + Send + Sync {
    /// The canonical name, and any others: `["json"]`.
    fn names(&self) -> &'static [&'static str];

    /// The options that this format understands.
    fn options(&self) -> Vec<OptionSpec>;

    /// The schema of a file whose schema is fixed (`text`: one column `value`), or `None`.
    fn fixed_schema(&self) -> Option<SchemaRef> {
        None
    }

    /// Whether a stream with these options has to be given a schema, unless inference is allowed.
    fn streams_need_schema(&self, _options: &Options) -> bool {
        self.fixed_schema().is_none()
    }

    /// Whether conditions on columns are decided while rows are parsed, so that other rows do not count as read.
    fn filters_rows(&self) -> bool {
        false
    }

    /// The schema of the data inside `files`, by Spark's rules for the format. Files are a sample in listing order.
    async fn infer(&self, files: &[FileRef], options: &Options) -> Result<SchemaRef>;

    /// A reader for data of this schema (the data columns only: no partition columns, no `_metadata`).
    ///
    /// # Errors
    /// `INVALID_OPTION_VALUE` and `UNSUPPORTED_DATA_TYPE_FOR_DATASOURCE` before any file is touched.
    fn reader(&self, schema: SchemaRef, options: &Options) -> Result<Arc<dyn FileReader>>;
}

/// A format bound to a schema and options.
pub trait FileReader: Debug + Send + Sync {
    /// Reads one file. `context.projection` are columns of the bound schema; a record is malformed only by projected columns. An empty
    /// projection still yields batches with the right number of rows and no columns.
    fn read(&self, file: FileRef, context: ReadContext) -> BatchStream;
}

/// Every format, in the order of the documentation.
pub fn all() -> Vec<Arc<dyn FileFormat>> {
    vec![
        Arc::new(json::Json),
        Arc::new(csv::Csv),
        Arc::new(text::Text),
        Arc::new(parquet::Parquet),
        Arc::new(avro::Avro),
        Arc::new(orc::Orc),
        Arc::new(xml::Xml),
        Arc::new(binary::BinaryFile),
    ]
}

/// The format of that name, whatever its case.
///
/// # Errors
/// `DATA_SOURCE_NOT_FOUND`.
pub fn find(name: &str) -> Result<Arc<dyn FileFormat>> {
    all().into_iter().find(|format| format.names().iter().any(|known| known.eq_ignore_ascii_case(name))).ok_or_else(|| {
        Error::invalid(
            "DATA_SOURCE_NOT_FOUND",
            format!("there is no file format '{name}': use json, csv, xml, text, parquet, avro, orc or binaryFile"),
        )
        .with_sqlstate("42K02")
    })
}
