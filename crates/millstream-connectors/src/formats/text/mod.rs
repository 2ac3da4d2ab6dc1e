//! The format `text`: every line, or every whole file, is one row of one string column.

#[cfg(test)]
mod tests;

use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions, StringBuilder};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use async_trait::async_trait;
use futures::StreamExt;
use millstream_core::options::OptionKind;
use millstream_core::quarantine::BadRecord;
use millstream_core::source::{BatchStream, ReadContext};
use millstream_core::{Error, OptionSpec, Options, Result, raw_text};

use super::input::{self, Encoding, Input, InputOptions};
use super::lines::{LINE_SEP, Line, Lines, MAX_RECORD, MAX_RECORD_BYTES, Separator, max_record_bytes};
use super::{FileFormat, FileReader, FileRef};

/// A batch is handed out when its text has this many bytes, however few rows they make.
const BATCH_BYTES: usize = 16 * 1024 * 1024;
/// The limit of a file that is one row.
const MAX_FILE_BYTES: usize = 128 * 1024 * 1024;

const WHOLE_TEXT: OptionSpec =
    OptionSpec { name: "wholetext", kind: OptionKind::Bool, default: Some("false"), doc: "Makes every file one row." };

/// The format.
#[derive(Clone, Copy, Debug)]
pub struct Text;

#[async_trait]
impl FileFormat for Text {
    fn names(&self) -> &'static [&'static str] {
        &["text"]
    }

    fn options(&self) -> Vec<OptionSpec> {
        let mut options = vec![WHOLE_TEXT, LINE_SEP, MAX_RECORD];
        options.extend_from_slice(input::OPTIONS);
        options
    }

    fn fixed_schema(&self) -> Option<SchemaRef> {
        Some(Arc::new(Schema::new(vec![Field::new("value", DataType::Utf8, true)])))
    }

    async fn infer(&self, _files: &[FileRef], _options: &Options) -> Result<SchemaRef> {
        self.fixed_schema().ok_or_else(|| Error::internal("the format text has a schema"))
    }

    fn reader(&self, schema: SchemaRef, options: &Options) -> Result<Arc<dyn FileReader>> {
        // Spark looks at no encoding where it reads lines as they are.
        let known = options.get("encoding").is_none_or(|name| Encoding::named(name).is_ok());
        let mut options = options.clone();
        if !known {
            options.remove("encoding");
        }
        let options = &options;
        let input = InputOptions::from_options(options)?;
        options.check(&self.options())?;
        if schema.fields().len() > 1 {
            let message = format!("the format text has a single column, but the schema has {}", schema.fields().len());
            return Err(Error::invalid("TEXT_NEEDS_ONE_COLUMN", message));
        }
        for field in schema.fields() {
            if !matches!(field.data_type(), DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View) {
                return Err(Error::invalid(
                    "UNSUPPORTED_DATA_TYPE_FOR_DATASOURCE",
                    format!("the format text reads strings, but column '{}' is of type {}", field.name(), field.data_type()),
                )
                .with_sqlstate("0A000"));
            }
        }
        let whole = options.bool("wholetext", false)?;
        Ok(Arc::new(TextReader {
            schema,
            separator: if whole { Separator::Never } else { Separator::from_options(options)? },
            limit: max_record_bytes(options, if whole { MAX_FILE_BYTES } else { MAX_RECORD_BYTES })?,
            input,
        }))
    }
}

#[derive(Clone, Debug)]
struct TextReader {
    schema: SchemaRef,
    separator: Separator,
    limit: usize,
    input: InputOptions,
}

impl FileReader for TextReader {
    fn read(&self, file: FileRef, context: ReadContext) -> BatchStream {
        let lines = Lines::new(self.separator.clone(), self.limit, false);
        let state = Reading { reader: self.clone(), file, context, input: None, lines, fault: None };
        futures::stream::try_unfold(state, |mut state| async move { Ok(state.next_batch().await?.map(|batch| (batch, state))) }).boxed()
    }
}

struct Reading {
    reader: TextReader,
    file: FileRef,
    context: ReadContext,
    input: Option<Input>,
    lines: Lines,
    /// What stops the reading once the rows before it are out.
    fault: Option<Error>,
}

impl Reading {
    async fn next_batch(&mut self) -> Result<Option<RecordBatch>> {
        let mut rows = Rows { values: StringBuilder::new(), count: 0, wanted: !self.context.projection.is_empty() };
        while self.fault.is_none() {
            match self.lines.next_record() {
                Line::Record { bytes, position, .. } => {
                    if let Some(bad) = rows.push(bytes, position, &self.file.url) {
                        self.context.quarantine.put(bad);
                    }
                    if rows.count >= self.context.batch_size.max(1) || rows.values.values_slice().len() >= BATCH_BYTES {
                        return self.batch(rows).map(Some);
                    }
                }
                Line::TooLarge { position, length } => self.context.quarantine.put(BadRecord {
                    raw: None,
                    origin: self.file.url.clone(),
                    position: Some(position),
                    length: Some(length),
                    reason: "RECORD_TOO_LARGE".to_owned(),
                    detail: format!("the record has {length} bytes, the option maxRecordBytes allows {}", self.reader.limit),
                }),
                Line::Incomplete => {
                    if let Err(error) = self.read_more().await {
                        self.fault = Some(error);
                    }
                }
                Line::End => break,
            }
        }
        match self.fault.take() {
            Some(fault) if rows.count == 0 => Err(fault),
            fault => {
                self.fault = fault;
                if rows.count == 0 { Ok(None) } else { self.batch(rows).map(Some) }
            }
        }
    }

    async fn read_more(&mut self) -> Result<()> {
        let input = match &mut self.input {
            Some(input) => input,
            none => none.insert(Input::open(&self.file, &self.reader.input).await?),
        };
        match input.read(self.lines.space()).await? {
            0 => self.lines.finish(),
            _ => self.lines.filled(),
        }
        Ok(())
    }

    fn batch(&self, mut rows: Rows) -> Result<RecordBatch> {
        let schema =
            self.reader.schema.project(&self.context.projection).map_err(|error| Error::internal("bad projection").caused_by(error))?;
        let values: ArrayRef = Arc::new(rows.values.finish());
        let columns = schema.fields().iter().map(|field| cast(&values, field.data_type())).collect::<Result<Vec<_>, _>>();
        let options = RecordBatchOptions::new().with_row_count(Some(rows.count));
        columns
            .and_then(|columns| RecordBatch::try_new_with_options(Arc::new(schema), columns, &options))
            .map_err(|error| Error::internal("rows of text do not fit their schema").caused_by(error))
    }
}

struct Rows {
    values: StringBuilder,
    count: usize,
    /// Whether the text itself is asked for, not only the number of rows.
    wanted: bool,
}

impl Rows {
    /// Adds a row. Bytes that are no UTF-8 are kept in the row, and the record is also returned for the quarantine.
    fn push(&mut self, bytes: &[u8], position: u64, url: &str) -> Option<BadRecord> {
        self.count += 1;
        if !self.wanted {
            return None;
        }
        let error = match simdutf8::basic::from_utf8(bytes) {
            Ok(text) if !raw_text::has_raw_bytes(bytes) => {
                self.values.append_value(text);
                return None;
            }
            outcome => outcome.err(),
        };
        self.values.append_value(raw_text::from_bytes(bytes));
        let error = error?;
        Some(BadRecord {
            raw: Some(clip(&String::from_utf8_lossy(bytes)).to_owned()),
            origin: url.to_owned(),
            position: Some(position),
            length: Some(bytes.len() as u64),
            reason: "INVALID_UTF8".to_owned(),
            detail: format!("the record is not UTF-8 ({error}) and its bytes are kept as they are: set the option encoding if it is text"),
        })
    }
}

fn clip(text: &str) -> &str {
    text.get(..text.floor_char_boundary(BadRecord::MAX_RAW_BYTES)).unwrap_or_default()
}
