//! Parquet, with the physical types that Spark writes.

use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::{DataType, Schema, SchemaRef};
use millstream_core::options::OptionKind;
use millstream_core::{OptionSpec, Options, Result};
use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_writer::ArrowWriterOptions;
use parquet::basic::{BrotliLevel, Compression, GzipLevel, ZstdLevel};
use parquet::file::properties::WriterProperties;

use super::canonical::{canonical_batch, canonical_schema, unsupported};
use super::{FileEncoder, FileWriteFormat, FileWriter, encoding_failed, no_such_codec, option, refuse_duplicates};

const KNOWN: &[&str] = &["none", "uncompressed", "snappy", "gzip", "brotli", "lz4", "lz4_raw", "zstd"];

/// Rows and bytes after which a row group ends. Rows are buffered until then.
const ROW_GROUP_ROWS: usize = 1_048_576;
const ROW_GROUP_BYTES: usize = 128 * 1024 * 1024;

/// The format `parquet`.
#[derive(Debug)]
pub(super) struct Parquet;

impl FileWriteFormat for Parquet {
    fn names(&self) -> &'static [&'static str] {
        &["parquet"]
    }

    fn options(&self) -> Vec<OptionSpec> {
        vec![option("compression", OptionKind::Text, Some("snappy"), "none, snappy, gzip, brotli, lz4, lz4_raw or zstd.")]
    }

    fn writer(&self, schema: &Schema, options: &Options) -> Result<Arc<dyn FileWriter>> {
        let schema = canonical_schema("Parquet", schema)?;
        if let Some(field) = schema.fields().iter().find(|field| has_interval(field.data_type())) {
            return Err(unsupported("Parquet", field));
        }
        refuse_duplicates("Parquet", &schema)?;
        let (compression, ending) = codec(options.get("compression").unwrap_or("snappy"))?;
        let properties = WriterProperties::builder()
            .set_compression(compression)
            .set_max_row_group_row_count(Some(ROW_GROUP_ROWS))
            .set_max_row_group_bytes(Some(ROW_GROUP_BYTES))
            // Names of list and map parts as the format's specification has them, which Spark writes too.
            .set_coerce_types(true)
            .build();
        Ok(Arc::new(ParquetWriter { schema, properties, extension: format!("{ending}.parquet") }))
    }
}

/// Whether a type is, or has inside of it, an interval.
pub(super) fn has_interval(data_type: &DataType) -> bool {
    match data_type {
        DataType::Duration(_) | DataType::Interval(_) => true,
        DataType::List(item) | DataType::Map(item, _) => has_interval(item.data_type()),
        DataType::Struct(fields) => fields.iter().any(|field| has_interval(field.data_type())),
        _ => false,
    }
}

/// The codec of a name and what file names have before `.parquet`.
fn codec(name: &str) -> Result<(Compression, &'static str)> {
    Ok(match name.to_ascii_lowercase().as_str() {
        "none" | "uncompressed" => (Compression::UNCOMPRESSED, ""),
        "snappy" => (Compression::SNAPPY, ".snappy"),
        "gzip" => (Compression::GZIP(GzipLevel::default()), ".gz"),
        "brotli" => (Compression::BROTLI(BrotliLevel::default()), ".br"),
        "lz4" => (Compression::LZ4, ".lz4hadoop"),
        "lz4_raw" => (Compression::LZ4_RAW, ".lz4raw"),
        "zstd" => (Compression::ZSTD(ZstdLevel::default()), ".zstd"),
        _ => return Err(no_such_codec(name, KNOWN)),
    })
}

#[derive(Debug)]
struct ParquetWriter {
    schema: SchemaRef,
    properties: WriterProperties,
    extension: String,
}

impl FileWriter for ParquetWriter {
    fn extension(&self) -> &str {
        &self.extension
    }

    fn start(&self) -> Result<Box<dyn FileEncoder>> {
        // Arrow's own schema in the footer would name arrow types; Spark and everyone else reads Parquet's.
        let options = ArrowWriterOptions::new().with_properties(self.properties.clone()).with_skip_arrow_metadata(true);
        let writer = ArrowWriter::try_new_with_options(Vec::new(), self.schema.clone(), options)
            .map_err(|error| encoding_failed("Parquet")(error.into()))?;
        Ok(Box::new(ParquetEncoder { schema: self.schema.clone(), writer }))
    }
}

struct ParquetEncoder {
    schema: SchemaRef,
    writer: ArrowWriter<Vec<u8>>,
}

impl FileEncoder for ParquetEncoder {
    fn write(&mut self, rows: &RecordBatch) -> Result<()> {
        let rows = canonical_batch(rows, &self.schema)?;
        self.writer.write(&rows).map_err(|error| encoding_failed("Parquet")(error.into()))
    }

    fn take(&mut self) -> Vec<u8> {
        std::mem::take(self.writer.inner_mut())
    }

    fn finish(self: Box<Self>) -> Result<Vec<u8>> {
        self.writer.into_inner().map_err(|error| encoding_failed("Parquet")(error.into()))
    }
}
