//! Avro object container files.

use std::io::{self, Write};
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::{Schema, SchemaRef};
use arrow_avro::compression::CompressionCodec;
use arrow_avro::writer::format::AvroOcfFormat;
use arrow_avro::writer::{Writer, WriterBuilder};
use millstream_core::options::OptionKind;
use millstream_core::{Error, OptionSpec, Options, Result};
use parking_lot::Mutex;

use super::canonical::{canonical_batch, canonical_schema, unsupported};
use super::parquet::has_interval;
use super::{FileEncoder, FileWriteFormat, FileWriter, encoding_failed, no_such_codec, option, refuse_duplicates};

const KNOWN: &[&str] = &["uncompressed", "snappy", "deflate", "bzip2", "xz", "zstandard"];

/// The format `avro`.
#[derive(Debug)]
pub(super) struct Avro;

impl FileWriteFormat for Avro {
    fn names(&self) -> &'static [&'static str] {
        &["avro"]
    }

    fn options(&self) -> Vec<OptionSpec> {
        vec![
            option("compression", OptionKind::Text, Some("snappy"), "uncompressed, snappy, deflate, bzip2, xz or zstandard."),
            option("recordName", OptionKind::Text, Some("topLevelRecord"), "The name of the record in the files' schema."),
            option("recordNamespace", OptionKind::Text, Some(""), "The namespace of the record in the files' schema."),
        ]
    }

    fn writer(&self, schema: &Schema, options: &Options) -> Result<Arc<dyn FileWriter>> {
        let schema = canonical_schema("Avro", schema)?;
        if let Some(field) = schema.fields().iter().find(|field| has_interval(field.data_type())) {
            return Err(unsupported("Avro", field));
        }
        refuse_duplicates("Avro", &schema)?;
        let codec = codec(options.get("compression").unwrap_or("snappy"))?;
        let mut named = schema.as_ref().clone();
        for (option, key) in [("recordName", "avro.name"), ("recordNamespace", "avro.namespace")] {
            if let Some(name) = options.get(option).filter(|name| !name.is_empty()) {
                named.metadata.insert(key.to_owned(), name.to_owned());
            }
        }
        let writer = AvroWriter { schema, named, codec };
        // A file that nobody sees finds out whether the names are those of Avro.
        writer.begin(Pipe::default()).map_err(|error| {
            Error::invalid("AVRO_SCHEMA_NOT_WRITABLE", "the columns have no Avro schema: rename or cast those it names").caused_by(error)
        })?;
        Ok(Arc::new(writer))
    }
}

fn codec(name: &str) -> Result<Option<CompressionCodec>> {
    Ok(match name.to_ascii_lowercase().as_str() {
        "uncompressed" => None,
        "snappy" => Some(CompressionCodec::Snappy),
        "deflate" => Some(CompressionCodec::Deflate),
        "bzip2" => Some(CompressionCodec::Bzip2),
        "xz" => Some(CompressionCodec::Xz),
        "zstandard" => Some(CompressionCodec::ZStandard),
        _ => return Err(no_such_codec(name, KNOWN)),
    })
}

#[derive(Debug)]
struct AvroWriter {
    schema: SchemaRef,
    /// The schema with the record's name in its metadata.
    named: Schema,
    codec: Option<CompressionCodec>,
}

impl AvroWriter {
    fn begin(&self, pipe: Pipe) -> Result<Writer<Pipe, AvroOcfFormat>> {
        WriterBuilder::new(self.named.clone())
            .with_compression(self.codec)
            .build::<Pipe, AvroOcfFormat>(pipe)
            .map_err(|error| encoding_failed("Avro")(error.into()))
    }
}

impl FileWriter for AvroWriter {
    fn extension(&self) -> &str {
        ".avro"
    }

    fn start(&self) -> Result<Box<dyn FileEncoder>> {
        let pipe = Pipe::default();
        let writer = self.begin(pipe.clone())?;
        Ok(Box::new(AvroEncoder { schema: self.schema.clone(), writer, pipe }))
    }
}

/// The bytes that the Avro library has written and nobody has taken; the library keeps its end to itself.
#[derive(Clone, Debug, Default)]
struct Pipe(Arc<Mutex<Vec<u8>>>);

impl Write for Pipe {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

struct AvroEncoder {
    schema: SchemaRef,
    writer: Writer<Pipe, AvroOcfFormat>,
    pipe: Pipe,
}

impl FileEncoder for AvroEncoder {
    fn write(&mut self, rows: &RecordBatch) -> Result<()> {
        if rows.num_rows() == 0 {
            return Ok(());
        }
        let rows = canonical_batch(rows, &self.schema)?;
        self.writer.write(&rows).map_err(|error| encoding_failed("Avro")(error.into()))
    }

    fn take(&mut self) -> Vec<u8> {
        std::mem::take(&mut *self.pipe.0.lock())
    }

    fn finish(mut self: Box<Self>) -> Result<Vec<u8>> {
        self.writer.finish().map_err(|error| encoding_failed("Avro")(error.into()))?;
        Ok(self.take())
    }
}
