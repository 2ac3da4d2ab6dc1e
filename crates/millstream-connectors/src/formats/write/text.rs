//! Text files: one string column, one line a row.

use std::sync::Arc;

use arrow::array::{AsArray, RecordBatch};
use arrow::datatypes::{DataType, Schema, SchemaRef};
use millstream_core::options::OptionKind;
use millstream_core::{Error, OptionSpec, Options, Result, raw_text};

use super::canonical::{canonical_batch, canonical_schema, unsupported};
use super::compression::{Codec, Compressor};
use super::{FileEncoder, FileWriteFormat, FileWriter, option};

/// The format `text`.
#[derive(Debug)]
pub(super) struct Text;

impl FileWriteFormat for Text {
    fn names(&self) -> &'static [&'static str] {
        &["text"]
    }

    fn options(&self) -> Vec<OptionSpec> {
        vec![
            option("compression", OptionKind::Text, Some("none"), "none, gzip, bzip2, deflate, snappy or lz4."),
            option("lineSep", OptionKind::Text, Some("\\n"), "What ends each line."),
        ]
    }

    fn writer(&self, schema: &Schema, options: &Options) -> Result<Arc<dyn FileWriter>> {
        let schema = canonical_schema("Text", schema)?;
        if let Some(field) = schema.fields().iter().find(|field| *field.data_type() != DataType::Utf8) {
            return Err(unsupported("Text", field));
        }
        if schema.fields().len() != 1 {
            let what = format!("Text data source supports only a single column, and you have {} columns.", schema.fields().len());
            return Err(Error::invalid("_LEGACY_ERROR_TEMP_1290", what));
        }
        let codec = Codec::from_options(options)?;
        let line_end = options.get("lineSep").unwrap_or("\n").to_owned();
        Ok(Arc::new(TextWriter { schema, codec, line_end, extension: format!(".txt{}", codec.extension()) }))
    }
}

#[derive(Debug)]
struct TextWriter {
    schema: SchemaRef,
    codec: Codec,
    line_end: String,
    extension: String,
}

impl FileWriter for TextWriter {
    fn extension(&self) -> &str {
        &self.extension
    }

    fn start(&self) -> Result<Box<dyn FileEncoder>> {
        Ok(Box::new(TextEncoder { schema: self.schema.clone(), line_end: self.line_end.clone(), out: self.codec.start() }))
    }
}

struct TextEncoder {
    schema: SchemaRef,
    line_end: String,
    out: Compressor,
}

impl FileEncoder for TextEncoder {
    fn write(&mut self, rows: &RecordBatch) -> Result<()> {
        let rows = canonical_batch(rows, &self.schema)?;
        let mut lines = Vec::new();
        for row in rows.column(0).as_string::<i32>() {
            lines.extend_from_slice(&raw_text::to_bytes(row.unwrap_or_default()));
            lines.extend_from_slice(self.line_end.as_bytes());
        }
        self.out.write(&lines)
    }

    fn take(&mut self) -> Vec<u8> {
        self.out.take()
    }

    fn finish(self: Box<Self>) -> Result<Vec<u8>> {
        self.out.finish()
    }
}
