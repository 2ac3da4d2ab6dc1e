//! The rows of one batch, kept until the batch is done: in memory while they are few, else in files on local disk.

use std::collections::HashMap;
use std::fs::File;
use std::io::{BufReader, BufWriter};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arrow::array::RecordBatch;
use arrow::datatypes::{Field, Schema, SchemaRef};
use arrow::error::ArrowError;
use arrow::ipc::reader::StreamReader;
use arrow::ipc::writer::StreamWriter;
use async_trait::async_trait;
use datafusion::common::Column;
use datafusion::datasource::provider_as_source;
use datafusion::logical_expr::{Expr, LogicalPlanBuilder};
use futures::{StreamExt, stream};
use millstream_core::sink::{Admission, BatchInfo, Committed, Guarantee, OutputMode, Part, PartWriter, Sink};
use millstream_core::source::{BatchStream, ReadContext, Split, Table};
use millstream_core::{Error, ErrorKind, Result};
use millstream_engine::relation::TableRelation;
use parking_lot::Mutex;
use tokio::sync::mpsc;

use crate::analyzer::{Analyzed, Attribute};
use crate::connect::host::{Host, TemporaryDirectory};

/// Bytes of rows that one task of a batch keeps in memory.
const IN_MEMORY: usize = 64 << 20;

/// Record batches read ahead from a file. The reading thread waits when they are not taken.
const READ_AHEAD: usize = 2;

/// The rows that the tasks of batches have handed over.
#[derive(Debug)]
pub(in crate::connect) struct Spool {
    host: Arc<dyn Host>,
    in_memory: usize,
    next: AtomicU64,
    parts: Mutex<HashMap<u64, Spooled>>,
}

#[derive(Debug)]
enum Spooled {
    Rows(Vec<RecordBatch>),
    File(Arc<SpoolFile>),
}

/// A file of rows, removed with its directory when nobody reads it any more.
#[derive(Debug)]
struct SpoolFile {
    path: PathBuf,
    _directory: Box<dyn TemporaryDirectory>,
}

impl Spool {
    pub(in crate::connect) fn new(host: Arc<dyn Host>) -> Arc<Self> {
        Self::with_memory(host, IN_MEMORY)
    }

    fn with_memory(host: Arc<dyn Host>, in_memory: usize) -> Arc<Self> {
        Arc::new(Spool { host, in_memory, next: AtomicU64::new(0), parts: Mutex::default() })
    }

    /// A writer for one task.
    pub(in crate::connect) fn writer(self: &Arc<Self>, schema: SchemaRef) -> Box<dyn PartWriter> {
        Box::new(SpoolWriter { spool: self.clone(), schema, rows: 0, bytes: 0, held: Vec::new(), file: None })
    }

    /// The rows of these parts as a table, and no longer here.
    ///
    /// # Errors
    /// `INTERNAL_ERROR` for a part that is not here.
    pub(in crate::connect) fn take(&self, schema: SchemaRef, parts: &[Part]) -> Result<SpooledTable> {
        let splits = parts.iter().enumerate().map(|(number, part)| {
            let key = part.staged.as_ref().try_into().map(u64::from_be_bytes);
            let spooled = key.ok().and_then(|key| self.parts.lock().remove(&key));
            let spooled = spooled.ok_or_else(|| Error::internal("the rows of a task of a batch are not there"))?;
            let label = format!("rows of task {number}");
            Ok(Arc::new(SpoolSplit { label, spooled: Arc::new(spooled), bytes: part.bytes }) as Arc<dyn Split>)
        });
        Ok(SpooledTable { schema, splits: splits.collect::<Result<_>>()? })
    }

    /// Throws the rows of these parts away.
    pub(in crate::connect) fn forget(&self, parts: &[Part]) {
        for part in parts {
            if let Ok(key) = part.staged.as_ref().try_into().map(u64::from_be_bytes) {
                self.parts.lock().remove(&key);
            }
        }
    }
}

struct SpoolWriter {
    spool: Arc<Spool>,
    schema: SchemaRef,
    rows: u64,
    bytes: usize,
    held: Vec<RecordBatch>,
    file: Option<(SpoolFile, StreamWriter<BufWriter<File>>)>,
}

impl SpoolWriter {
    /// Goes over to a file, with what is in memory.
    fn spill(&mut self) -> Result<()> {
        let directory = self.spool.host.temporary_directory("batch")?;
        let path = directory.path().join("rows.arrow");
        let file = File::create_new(&path).map_err(|error| unwritable(&path, error.into()))?;
        let writer = StreamWriter::try_new(BufWriter::new(file), &self.schema);
        let mut writer = writer.map_err(|error| unwritable(&path, error))?;
        for batch in self.held.drain(..) {
            writer.write(&batch).map_err(|error| unwritable(&path, error))?;
        }
        self.file = Some((SpoolFile { path, _directory: directory }, writer));
        Ok(())
    }
}

fn unwritable(path: &std::path::Path, error: ArrowError) -> Error {
    let what = format!("cannot write the rows of a batch to {}: make room on the disk of the temporary directory", path.display());
    Error::new(ErrorKind::SinkUnavailable, "SPOOL_WRITE_FAILED", what).caused_by(error)
}

#[async_trait]
impl PartWriter for SpoolWriter {
    async fn write(&mut self, rows: RecordBatch) -> Result<()> {
        self.rows += rows.num_rows() as u64;
        self.bytes += rows.get_array_memory_size();
        match &mut self.file {
            Some((file, writer)) => writer.write(&rows).map_err(|error| unwritable(&file.path, error)),
            None => {
                self.held.push(rows);
                if self.bytes > self.spool.in_memory { self.spill() } else { Ok(()) }
            }
        }
    }

    async fn finish(mut self: Box<Self>) -> Result<Part> {
        let spooled = match self.file.take() {
            Some((file, mut writer)) => {
                writer.finish().map_err(|error| unwritable(&file.path, error))?;
                Spooled::File(Arc::new(file))
            }
            None => Spooled::Rows(std::mem::take(&mut self.held)),
        };
        let key = self.spool.next.fetch_add(1, Ordering::Relaxed);
        self.spool.parts.lock().insert(key, spooled);
        Ok(Part { rows: self.rows, bytes: self.bytes as u64, staged: key.to_be_bytes().to_vec().into() })
    }

    async fn abort(self: Box<Self>) {}
}

/// Puts the rows of one batch into a spool.
#[derive(Debug)]
pub(in crate::connect) struct SpoolSink {
    spool: Arc<Spool>,
    taken: Mutex<Option<SpooledTable>>,
}

impl SpoolSink {
    /// An empty one.
    pub(in crate::connect) fn new(host: Arc<dyn Host>) -> Arc<Self> {
        Arc::new(SpoolSink { spool: Spool::new(host), taken: Mutex::default() })
    }

    /// The rows, once they are there.
    pub(in crate::connect) fn take(&self) -> Option<SpooledTable> {
        self.taken.lock().take()
    }
}

#[async_trait]
impl Sink for SpoolSink {
    fn description(&self) -> String {
        "Spool".to_owned()
    }

    fn guarantee(&self) -> Guarantee {
        Guarantee::None
    }

    fn supports(&self, _mode: OutputMode) -> bool {
        true
    }

    async fn admit(&self, _batch: &BatchInfo) -> Result<Admission> {
        Ok(Admission::Write)
    }

    async fn writer(&self, batch: &BatchInfo, _partition: usize) -> Result<Box<dyn PartWriter>> {
        Ok(self.spool.writer(batch.schema.clone()))
    }

    async fn commit(&self, batch: &BatchInfo, parts: Vec<Part>) -> Result<Committed> {
        let rows = parts.iter().map(|part| part.rows).sum();
        *self.taken.lock() = Some(self.spool.take(batch.schema.clone(), &parts)?);
        Ok(Committed { rows, ..Committed::default() })
    }

    async fn abort(&self, _batch: &BatchInfo, parts: Vec<Part>) {
        self.spool.forget(&parts);
    }
}

/// The rows of a batch, to be read any number of times.
#[derive(Debug)]
pub(in crate::connect) struct SpooledTable {
    schema: SchemaRef,
    splits: Vec<Arc<dyn Split>>,
}

impl SpooledTable {
    /// The columns of the rows.
    pub(in crate::connect) fn schema_ref(&self) -> &SchemaRef {
        &self.schema
    }

    /// The rows as a plan of a session, with the columns of a schema. Their names in the engine begin with `prefix`.
    ///
    /// # Errors
    /// Those of the planner.
    pub(in crate::connect) fn analyzed(self, schema: &Schema, label: &str, prefix: &str) -> Result<Analyzed> {
        let internal = |number: usize| format!("#{prefix}.{number}");
        let fields = schema.fields().iter().enumerate().map(|(number, field)| {
            Field::new(internal(number), field.data_type().clone(), field.is_nullable()).with_metadata(field.metadata().clone())
        });
        let size_bytes = self.splits.iter().map(|split| split.size_bytes()).sum();
        let table = Arc::new(SpooledTable { schema: Arc::new(Schema::new(fields.collect::<Vec<_>>())), ..self });
        let relation = TableRelation { table, label: label.to_owned(), size_bytes };
        let columns =
            (0..schema.fields().len()).map(|number| Expr::Column(Column::new(Some("batch"), internal(number))).alias(internal(number)));
        let plan = LogicalPlanBuilder::scan("batch", provider_as_source(Arc::new(relation)), None)
            .and_then(|scan| scan.project(columns.collect::<Vec<_>>()))
            .and_then(LogicalPlanBuilder::build)
            .map_err(millstream_engine::from_datafusion)?;
        let columns = schema.fields().iter().enumerate().map(|(number, field)| Attribute {
            name: field.name().clone(),
            internal: internal(number),
            data_type: field.data_type().clone(),
            nullable: field.is_nullable(),
            metadata: field.metadata().clone(),
            qualifier: Vec::new(),
            plan_ids: Vec::new(),
            hidden: false,
        });
        Ok(Analyzed { plan, columns: columns.collect() })
    }
}

#[async_trait]
impl Table for SpooledTable {
    fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }

    async fn scan(&self) -> Result<Vec<Arc<dyn Split>>> {
        let relabelled =
            self.splits.iter().map(|split| Arc::new(Relabelled { split: split.clone(), schema: self.schema.clone() }) as Arc<dyn Split>);
        Ok(relabelled.collect())
    }
}

/// A split whose batches get the column names of a schema.
#[derive(Debug)]
struct Relabelled {
    split: Arc<dyn Split>,
    schema: SchemaRef,
}

impl Split for Relabelled {
    fn label(&self) -> &str {
        self.split.label()
    }

    fn size_bytes(&self) -> u64 {
        self.split.size_bytes()
    }

    fn read(&self, context: ReadContext) -> BatchStream {
        let schema = self.schema.project(&context.projection).map(Arc::new);
        let rows = self.split.read(context);
        rows.map(move |batch| {
            let (batch, schema) = (batch?, schema.as_ref().map_err(misfit)?.clone());
            let options = arrow::array::RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
            RecordBatch::try_new_with_options(schema, batch.columns().to_vec(), &options).map_err(|error| misfit(&error))
        })
        .boxed()
    }
}

fn misfit(error: &ArrowError) -> Error {
    Error::internal(format!("the rows of a batch do not fit their schema: {error}"))
}

#[derive(Debug)]
struct SpoolSplit {
    label: String,
    spooled: Arc<Spooled>,
    bytes: u64,
}

impl Split for SpoolSplit {
    fn label(&self) -> &str {
        &self.label
    }

    fn size_bytes(&self) -> u64 {
        self.bytes
    }

    fn read(&self, context: ReadContext) -> BatchStream {
        let batches: BatchStream = match self.spooled.as_ref() {
            Spooled::Rows(rows) => stream::iter(rows.clone().into_iter().map(Ok)).boxed(),
            Spooled::File(file) => from_file(file.clone()),
        };
        batches.map(move |batch| batch?.project(&context.projection).map_err(|error| misfit(&error))).boxed()
    }
}

/// The rows of a file, read by a thread of their own.
fn from_file(file: Arc<SpoolFile>) -> BatchStream {
    let (sender, receiver) = mpsc::channel(READ_AHEAD);
    tokio::task::spawn_blocking(move || {
        let opened = File::open(&file.path).map_err(ArrowError::from).and_then(|file| StreamReader::try_new(BufReader::new(file), None));
        let batches: Box<dyn Iterator<Item = Result<RecordBatch, ArrowError>>> = match opened {
            Ok(reader) => Box::new(reader),
            Err(error) => Box::new(std::iter::once(Err(error))),
        };
        for batch in batches {
            let batch = batch.map_err(|error| {
                Error::new(
                    ErrorKind::SinkUnavailable,
                    "SPOOL_READ_FAILED",
                    "cannot read the rows of a batch back from the temporary directory",
                )
                .caused_by(error)
            });
            if sender.blocking_send(batch).is_err() {
                break;
            }
        }
    });
    tokio_stream::wrappers::ReceiverStream::new(receiver).boxed()
}

#[cfg(test)]
mod tests {
    use arrow::array::Int64Array;
    use futures::TryStreamExt;
    use millstream_core::quarantine::Discard;

    use super::*;
    use crate::connect::streaming::tests::TestHost;

    #[tokio::test]
    async fn rows_come_back_from_memory_and_from_disk_any_number_of_times() {
        for in_memory in [usize::MAX, 0] {
            let spool = Spool::with_memory(Arc::new(TestHost::default()), in_memory);
            let rows = RecordBatch::try_from_iter([("v", Arc::new(Int64Array::from(vec![1, 2, 3])) as _)]).unwrap();
            let mut writer = spool.writer(rows.schema());
            writer.write(rows.clone()).await.unwrap();
            writer.write(rows.clone()).await.unwrap();
            let part = writer.finish().await.unwrap();
            assert_eq!(part.rows, 6);
            let table = spool.take(rows.schema(), std::slice::from_ref(&part)).unwrap();
            for _ in 0..2 {
                let context = ReadContext { projection: vec![0], batch_size: 10, quarantine: Arc::new(Discard) };
                let split = table.scan().await.unwrap().remove(0);
                let read: Vec<RecordBatch> = split.read(context).try_collect().await.unwrap();
                assert_eq!(read, [rows.clone(), rows.clone()]);
            }
            assert!(spool.take(rows.schema(), &[part]).is_err(), "a part is taken once");
        }
    }
}
