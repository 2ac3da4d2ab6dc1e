//! Reading the files of one split, one after the other.

use std::collections::VecDeque;
use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions, UInt32Array};
use arrow::compute::{concat_batches, take};
use arrow::datatypes::{Field, SchemaRef};
use futures::stream::{self, StreamExt};
use millstream_core::quarantine::{BadRecord, Quarantine};
use millstream_core::source::{BatchStream, ReadContext, Split};
use millstream_core::{Error, ErrorKind, Result};

use super::metadata;
use super::scan::{Column, PlannedFile, Scan};

/// Small batches are put together until they hold this many bytes, or the rows that were asked for.
const COALESCED_BYTES: usize = 8 << 20;

/// Files that one task reads.
#[derive(Debug)]
pub(crate) struct FileSplit {
    scan: Arc<Scan>,
    files: Arc<[PlannedFile]>,
}

impl FileSplit {
    pub(crate) fn new(scan: Arc<Scan>, files: Vec<PlannedFile>) -> Self {
        FileSplit { scan, files: files.into() }
    }
}

impl Split for FileSplit {
    fn label(&self) -> &str {
        self.files.first().map_or("", |file| &file.status.url)
    }

    fn size_bytes(&self) -> u64 {
        self.files.iter().map(|file| file.status.size).fold(0, u64::saturating_add)
    }

    fn read(&self, context: ReadContext) -> BatchStream {
        let schema = match self.scan.schema.project(&context.projection) {
            Ok(schema) => Arc::new(schema),
            Err(error) => {
                let error = Error::internal("the projection does not fit the source's schema").caused_by(error);
                return stream::iter([Err(error)]).boxed();
            }
        };
        let rows = context.batch_size.max(1);
        let (scan, output, files) = (self.scan.clone(), schema.clone(), self.files.clone());
        let batches = stream::iter(0..files.len()).flat_map(move |at| match files.get(at) {
            Some(file) => read_file(&scan, file, &context, output.clone()),
            None => stream::empty().boxed(),
        });
        coalesce(batches.boxed(), schema, rows)
    }
}

/// One column of the output.
#[derive(Debug)]
enum Part {
    /// This column of what the reader gives.
    Read(usize),
    Constant(ArrayRef),
    Metadata(Arc<Field>),
}

struct FileStream {
    batches: BatchStream,
    parts: Vec<Part>,
    output: SchemaRef,
    file: PlannedFile,
    rows: u64,
    done: bool,
    ignore_missing: bool,
    ignore_corrupt: bool,
    quarantine: Arc<dyn Quarantine>,
}

fn read_file(scan: &Scan, file: &PlannedFile, context: &ReadContext, output: SchemaRef) -> BatchStream {
    if file.missing {
        let detail = "planned for this batch and gone before the batch was run again";
        report(context.quarantine.as_ref(), file, "MISSING_FILE", detail.to_owned());
        return stream::empty().boxed();
    }
    let mut projection = Vec::with_capacity(context.projection.len());
    let mut parts = Vec::with_capacity(context.projection.len());
    for (at, field) in context.projection.iter().zip(output.fields()) {
        parts.push(match file.layout.columns.get(*at) {
            Some(Column::Data(data)) => Part::Read(projection.iter().position(|known| known == data).unwrap_or_else(|| {
                projection.push(*data);
                projection.len() - 1
            })),
            Some(Column::Constant(value)) => Part::Constant(value.clone()),
            Some(Column::Metadata) | None => Part::Metadata(field.clone()),
        });
    }
    let batches = file.layout.reader.read(file.file.clone(), ReadContext { projection, ..context.clone() });
    let state = FileStream {
        batches,
        parts,
        output,
        file: file.clone(),
        rows: 0,
        done: false,
        ignore_missing: scan.faults.ignore_missing,
        ignore_corrupt: scan.faults.ignore_corrupt,
        quarantine: context.quarantine.clone(),
    };
    stream::unfold(state, |mut state| async move { state.next().await.map(|item| (item, state)) }).boxed()
}

impl FileStream {
    async fn next(&mut self) -> Option<Result<RecordBatch>> {
        if self.done {
            return None;
        }
        match self.batches.next().await {
            None => None,
            Some(Ok(batch)) => {
                let batch = self.assemble(&batch);
                self.done = batch.is_err();
                Some(batch)
            }
            Some(Err(error)) => {
                self.done = true;
                self.fault(error).map(Err)
            }
        }
    }

    fn assemble(&mut self, batch: &RecordBatch) -> Result<RecordBatch> {
        let rows = batch.num_rows();
        let unfit = |error| Error::internal(format!("rows of {} do not fit the source's schema", self.file.status.url)).caused_by(error);
        let mut columns = Vec::with_capacity(self.parts.len());
        for part in &self.parts {
            columns.push(match part {
                Part::Read(at) => batch
                    .columns()
                    .get(*at)
                    .cloned()
                    .ok_or_else(|| Error::internal("the reader gave fewer columns than it was asked for"))?,
                Part::Constant(value) => take(value, &UInt32Array::from_value(0, rows), None).map_err(unfit)?,
                Part::Metadata(field) => metadata::column(field, &self.file.status, self.rows, rows)?,
            });
        }
        self.rows += rows as u64;
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        RecordBatch::try_new_with_options(self.output.clone(), columns, &options).map_err(unfit)
    }

    /// Decides about a fault: nothing when the rest of the file is to be left out, else the error that ends the batch.
    fn fault(&self, error: Error) -> Option<Error> {
        if is_missing(&error) {
            if self.ignore_missing {
                report(self.quarantine.as_ref(), &self.file, "MISSING_FILE", error.to_string());
                return None;
            }
        } else if self.ignore_corrupt && is_corrupt(&error) {
            let detail = format!("{error} (after {} rows, which are kept)", self.rows);
            report(self.quarantine.as_ref(), &self.file, "UNREADABLE_FILE", detail);
            return None;
        }
        if is_failfast(&error) {
            let what = format!("Encountered error while reading file {}", self.file.status.url);
            return Some(Error::new(error.kind(), "FAILED_READ_FILE.NO_HINT", what).with_sqlstate("KD001").caused_by(error));
        }
        let named = error.message().contains(&self.file.status.url);
        Some(if named { error } else { error.within(format_args!("file {}", self.file.status.url)) })
    }
}

fn report(quarantine: &dyn Quarantine, file: &PlannedFile, reason: &str, detail: String) {
    tracing::warn!(file = %file.status.url, reason, %detail, "a file was left out");
    quarantine.put(BadRecord {
        raw: None,
        origin: file.status.url.clone(),
        position: None,
        length: (file.status.size > 0).then_some(file.status.size),
        reason: reason.to_owned(),
        detail,
    });
}

/// Whether the file is not there.
fn is_missing(error: &Error) -> bool {
    if error.code() == "FAILED_READ_FILE.FILE_NOT_EXIST" {
        return true;
    }
    let mut cause = std::error::Error::source(error);
    while let Some(inner) = cause {
        if matches!(inner.downcast_ref(), Some(object_store::Error::NotFound { .. })) {
            return true;
        }
        cause = inner.source();
    }
    false
}

/// Whether the file's content is at fault. Errors of the store are not (they may pass), nor is a malformed record under `FAILFAST`.
fn is_corrupt(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::BadRecord | ErrorKind::SchemaMismatch) && !is_failfast(error)
}

/// Whether a malformed record ends the query because the mode says so.
fn is_failfast(error: &Error) -> bool {
    error.code().starts_with("MALFORMED_RECORD_IN_PARSING")
}

struct Coalesce {
    input: BatchStream,
    schema: SchemaRef,
    rows: usize,
    waiting: Vec<RecordBatch>,
    waiting_rows: usize,
    waiting_bytes: usize,
    ready: VecDeque<Result<RecordBatch>>,
    ended: bool,
}

/// Puts small batches together, so that a thousand files of ten rows do not cost a thousand batches downstream. Rows before an error are
/// given before it.
fn coalesce(input: BatchStream, schema: SchemaRef, rows: usize) -> BatchStream {
    let state = Coalesce { input, schema, rows, waiting: vec![], waiting_rows: 0, waiting_bytes: 0, ready: VecDeque::new(), ended: false };
    stream::unfold(state, |mut state| async move { state.next().await.map(|item| (item, state)) }).boxed()
}

impl Coalesce {
    async fn next(&mut self) -> Option<Result<RecordBatch>> {
        while self.ready.is_empty() && !self.ended {
            match self.input.next().await {
                Some(Ok(batch)) => self.push(batch),
                Some(Err(error)) => {
                    self.ended = true;
                    self.flush();
                    self.ready.push_back(Err(error));
                }
                None => {
                    self.ended = true;
                    self.flush();
                }
            }
        }
        self.ready.pop_front()
    }

    fn push(&mut self, batch: RecordBatch) {
        if batch.num_rows() == 0 {
            return;
        }
        if batch.num_rows() >= self.rows / 2 {
            self.flush();
            self.ready.push_back(Ok(batch));
            return;
        }
        self.waiting_rows += batch.num_rows();
        self.waiting_bytes += batch.get_array_memory_size();
        self.waiting.push(batch);
        if self.waiting_rows >= self.rows || self.waiting_bytes >= COALESCED_BYTES {
            self.flush();
        }
    }

    fn flush(&mut self) {
        self.waiting_rows = 0;
        self.waiting_bytes = 0;
        let batches = std::mem::take(&mut self.waiting);
        let together = match &batches[..] {
            [] => return,
            [one] => Ok(one.clone()),
            // Batches without columns still have rows.
            many if self.schema.fields().is_empty() => {
                let rows = many.iter().map(RecordBatch::num_rows).sum();
                RecordBatch::try_new_with_options(self.schema.clone(), vec![], &RecordBatchOptions::new().with_row_count(Some(rows)))
            }
            many => concat_batches(&self.schema, many),
        };
        self.ready.push_back(together.map_err(|error| Error::internal("batches of one split do not fit together").caused_by(error)));
    }
}
