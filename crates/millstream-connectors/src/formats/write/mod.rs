//! Record batches to the bytes of one file, by the rules of Spark's writers.

mod avro;
pub(crate) mod canonical;
mod column;
mod compression;
mod csv;
pub(crate) mod datetime;
mod json;
mod orc;
mod parquet;
mod pattern;
mod scalar;
pub(crate) mod spark_text;
mod text;
mod variant;
mod xml;

#[cfg(test)]
mod tests;

use std::fmt::Debug;
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::{Schema, SchemaRef};
use millstream_core::options::OptionKind;
use millstream_core::{Error, ErrorKind, OptionSpec, Options, Result};

/// A format that files are written in.
pub trait FileWriteFormat: Debug + Send + Sync {
    /// The canonical name, and any others: `["json"]`.
    fn names(&self) -> &'static [&'static str];

    /// The options that its writer understands.
    fn options(&self) -> Vec<OptionSpec>;

    /// A writer for rows of this schema.
    ///
    /// # Errors
    /// `UNSUPPORTED_DATA_TYPE_FOR_DATASOURCE`, `CODEC_NOT_AVAILABLE.WITH_AVAILABLE_CODECS_SUGGESTION`, `INVALID_OPTION_VALUE`, before
    /// anything is written.
    fn writer(&self, schema: &Schema, options: &Options) -> Result<Arc<dyn FileWriter>>;
}

/// A format bound to a schema and options: makes any number of files.
pub trait FileWriter: Debug + Send + Sync {
    /// What file names end with: `.json.gz`, `.snappy.parquet`.
    fn extension(&self) -> &str;

    /// Begins a file.
    ///
    /// # Errors
    /// `FILE_ENCODING_FAILED`.
    fn start(&self) -> Result<Box<dyn FileEncoder>>;
}

/// One file being made. Bytes come out as they are ready, so that memory stays bounded.
pub trait FileEncoder: Send {
    /// Takes rows.
    ///
    /// # Errors
    /// `FILE_ENCODING_FAILED`, `DATA_TYPE_CONVERSION_FAILED`, `UNSUPPORTED_DATETIME_FIELD`.
    fn write(&mut self, rows: &RecordBatch) -> Result<()>;

    /// The bytes that became ready since the last call.
    fn take(&mut self) -> Vec<u8>;

    /// Ends the file: the bytes not taken yet.
    ///
    /// # Errors
    /// `FILE_ENCODING_FAILED`.
    fn finish(self: Box<Self>) -> Result<Vec<u8>>;
}

/// Every format that files are written in.
pub fn all() -> Vec<Arc<dyn FileWriteFormat>> {
    vec![
        Arc::new(parquet::Parquet),
        Arc::new(json::Json),
        Arc::new(csv::Csv),
        Arc::new(orc::Orc),
        Arc::new(text::Text),
        Arc::new(avro::Avro),
        Arc::new(xml::Xml),
    ]
}

/// The error for a codec that a format does not have.
pub(super) fn no_such_codec(codec: &str, known: &[&str]) -> Error {
    Error::invalid(
        "CODEC_NOT_AVAILABLE.WITH_AVAILABLE_CODECS_SUGGESTION",
        format!("The codec {codec} is not available. Available codecs are {}.", known.join(", ")),
    )
    .with_sqlstate("56038")
}

fn encoding_failed(format: &str) -> impl Fn(Box<dyn std::error::Error + Send + Sync>) -> Error {
    let what = format!("rows cannot be encoded as {format}");
    move |cause| Error::new(ErrorKind::Internal, "FILE_ENCODING_FAILED", what.clone()).caused_by(cause)
}

const fn option(name: &'static str, kind: OptionKind, default: Option<&'static str>, doc: &'static str) -> OptionSpec {
    OptionSpec { name, kind, default, doc }
}

/// The options of formats that write dates and timestamps as text.
fn datetime_options() -> Vec<OptionSpec> {
    vec![
        option("dateFormat", OptionKind::Text, Some("yyyy-MM-dd"), "The pattern of dates."),
        option("timestampFormat", OptionKind::Text, Some("yyyy-MM-dd'T'HH:mm:ss[.SSS][XXX]"), "The pattern of timestamps."),
        option("timestampNTZFormat", OptionKind::Text, Some("yyyy-MM-dd'T'HH:mm:ss[.SSS]"), "The pattern of timestamps without zone."),
        option("timeZone", OptionKind::Text, Some("UTC"), "The zone in which timestamps are shown."),
    ]
}

/// Only UTF-8 is written.
fn check_encoding(options: &Options) -> Result<()> {
    match options.get("encoding").or_else(|| options.get("charset")) {
        Some(name) if !name.eq_ignore_ascii_case("UTF-8") && !name.eq_ignore_ascii_case("UTF8") => Err(Error::invalid(
            "INVALID_OPTION_VALUE",
            format!("option 'encoding' is '{name}' but files are written as UTF-8 only: leave it out"),
        )),
        _ => Ok(()),
    }
}

/// The names of the columns that occur twice, for formats whose files could not be read back then.
fn refuse_duplicates(format: &str, schema: &SchemaRef) -> Result<()> {
    let mut seen = std::collections::BTreeSet::new();
    match schema.fields().iter().find(|field| !seen.insert(field.name())) {
        None => Ok(()),
        // Spark dies of an error without a condition here; the name of its exception stands in.
        Some(field) => Err(Error::new(
            ErrorKind::Invalid,
            "ParquetDecodingException",
            format!("two columns are named '{}', which {format} files cannot have: rename one of them", field.name()),
        )),
    }
}
