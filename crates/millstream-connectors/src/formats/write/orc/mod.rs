//! ORC files of every type that Spark writes, nested ones and decimals included.
//!
//! The layout is that of ORC's specification, version 0.12: integers in run-length encoding version 1, strings without dictionaries, no
//! indexes.

mod columns;
mod message;
mod streams;

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, RecordBatch, StructArray};
use arrow::datatypes::{DataType, Schema, SchemaRef};
use millstream_core::options::OptionKind;
use millstream_core::{OptionSpec, Options, Result};

use self::columns::{ColumnEncoder, ColumnType, types_of};
use self::message::Message;
use self::streams::Compression;
use super::canonical::{canonical_batch, canonical_schema, unsupported};
use super::{FileEncoder, FileWriteFormat, FileWriter, no_such_codec, option};

const KNOWN: &[&str] = &["none", "uncompressed", "snappy", "zlib", "lz4", "zstd"];

/// Bytes of values after which a stripe ends. Rows are buffered until then.
const STRIPE_BYTES: usize = 64 * 1024 * 1024;

/// Rows that are encoded at once.
const ROWS_AT_ONCE: usize = 8192;

/// The first bytes of a file, and the last but one of its fields.
const MAGIC: &str = "ORC";

/// The format `orc`.
#[derive(Debug)]
pub(super) struct Orc;

impl FileWriteFormat for Orc {
    fn names(&self) -> &'static [&'static str] {
        &["orc"]
    }

    fn options(&self) -> Vec<OptionSpec> {
        vec![option("compression", OptionKind::Text, Some("zstd"), "none, snappy, zlib, lz4 or zstd.")]
    }

    fn writer(&self, schema: &Schema, options: &Options) -> Result<Arc<dyn FileWriter>> {
        let schema = canonical_schema("ORC", schema)?;
        if let Some(field) = schema.fields().iter().find(|field| has_void(field.data_type())) {
            return Err(unsupported("ORC", field));
        }
        let name = options.get("compression").or_else(|| options.get("orc.compress")).unwrap_or("zstd");
        let compression = match name.to_ascii_lowercase().as_str() {
            "none" | "uncompressed" => Compression::None,
            "snappy" => Compression::Snappy,
            "zlib" => Compression::Zlib,
            "lz4" => Compression::Lz4,
            "zstd" => Compression::Zstd,
            _ => return Err(no_such_codec(name, KNOWN)),
        };
        Ok(Arc::new(OrcWriter { schema, compression, extension: format!("{}.orc", compression.extension()) }))
    }
}

fn has_void(data_type: &DataType) -> bool {
    match data_type {
        DataType::Null => true,
        DataType::List(item) | DataType::Map(item, _) => has_void(item.data_type()),
        DataType::Struct(fields) => fields.iter().any(|field| has_void(field.data_type())),
        _ => false,
    }
}

#[derive(Debug)]
struct OrcWriter {
    schema: SchemaRef,
    compression: Compression,
    extension: String,
}

impl FileWriter for OrcWriter {
    fn extension(&self) -> &str {
        &self.extension
    }

    fn start(&self) -> Result<Box<dyn FileEncoder>> {
        let root = DataType::Struct(self.schema.fields().clone());
        Ok(Box::new(OrcEncoder {
            schema: self.schema.clone(),
            compression: self.compression,
            types: types_of(&root),
            root: ColumnEncoder::new(&root),
            rows: 0,
            all_rows: 0,
            stripes: Vec::new(),
            ready: MAGIC.as_bytes().to_vec(),
            written: MAGIC.len() as u64,
        }))
    }
}

struct OrcEncoder {
    schema: SchemaRef,
    compression: Compression,
    types: Vec<ColumnType>,
    root: ColumnEncoder,
    /// Rows of the stripe so far.
    rows: u64,
    all_rows: u64,
    stripes: Vec<Message>,
    ready: Vec<u8>,
    /// Bytes of the file so far.
    written: u64,
}

impl OrcEncoder {
    fn put(&mut self, bytes: &[u8]) {
        self.ready.extend_from_slice(bytes);
        self.written += bytes.len() as u64;
    }

    fn end_stripe(&mut self) -> Result<()> {
        if self.rows == 0 {
            return Ok(());
        }
        let offset = self.written;
        let mut footer = Message::default();
        let mut streams = Vec::new();
        self.root.end_stripe(&mut streams);
        for stream in streams {
            let bytes = self.compression.compress(&stream.bytes)?;
            self.put(&bytes);
            let described = Message::default().number(1, stream.kind).number(2, stream.column).number(3, bytes.len() as u64);
            footer = footer.message(1, &described);
        }
        let data = self.written - offset;
        for _ in &self.types {
            // Every column has the encoding DIRECT.
            footer = footer.message(2, &Message::default().number(1, 0));
        }
        let footer = self.compression.compress(footer.text(3, "UTC").bytes())?;
        self.put(&footer);
        self.stripes
            .push(Message::default().number(1, offset).number(2, 0).number(3, data).number(4, footer.len() as u64).number(5, self.rows));
        self.all_rows += self.rows;
        self.rows = 0;
        Ok(())
    }

    fn end_file(&mut self) -> Result<()> {
        self.end_stripe()?;
        let mut footer = Message::default().number(1, MAGIC.len() as u64).number(2, self.written);
        for stripe in &self.stripes {
            footer = footer.message(3, stripe);
        }
        for column in &self.types {
            footer = footer.message(4, &column.message());
        }
        footer = footer.number(6, self.all_rows);
        for (values, has_null) in self.root.counts(self.all_rows) {
            footer = footer.message(7, &Message::default().number(1, values).number(10, u64::from(has_null)));
        }
        // No row index; a writer without a number of its own; the calendar that Spark uses, too.
        let footer = footer.number(8, 0).number(9, u64::from(u32::MAX)).number(11, 1 + 1);
        let footer = self.compression.compress(footer.bytes())?;
        self.put(&footer);
        let postscript = Message::default()
            .number(1, footer.len() as u64)
            .number(2, self.compression.number())
            .number(3, streams::BLOCK as u64)
            .numbers(4, &[0, 12])
            .number(5, 0)
            .number(6, u64::from(u32::MAX))
            .text(8000, MAGIC);
        self.put(postscript.bytes());
        // The last byte of a file is the length of its postscript, which is about 30 bytes.
        let length = u8::try_from(postscript.bytes().len()).unwrap_or(u8::MAX);
        self.put(&[length]);
        Ok(())
    }
}

impl FileEncoder for OrcEncoder {
    fn write(&mut self, rows: &RecordBatch) -> Result<()> {
        let rows = canonical_batch(rows, &self.schema)?;
        for from in (0..rows.num_rows()).step_by(ROWS_AT_ONCE) {
            let slice = rows.slice(from, ROWS_AT_ONCE.min(rows.num_rows() - from));
            let length = slice.num_rows();
            let column: ArrayRef = Arc::new(as_struct(&slice));
            debug_assert_eq!(column.len(), length);
            self.root.write(&super::column::Column::of(&column)?, &(0..length).collect::<Vec<_>>())?;
            self.rows += length as u64;
            if self.root.buffered() >= STRIPE_BYTES {
                self.end_stripe()?;
            }
        }
        Ok(())
    }

    fn take(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.ready)
    }

    fn finish(mut self: Box<Self>) -> Result<Vec<u8>> {
        self.end_file()?;
        Ok(self.take())
    }
}

/// The rows as values of one struct. A batch without columns keeps its number of rows.
fn as_struct(rows: &RecordBatch) -> StructArray {
    if rows.num_columns() == 0 { StructArray::new_empty_fields(rows.num_rows(), None) } else { StructArray::from(rows.clone()) }
}
