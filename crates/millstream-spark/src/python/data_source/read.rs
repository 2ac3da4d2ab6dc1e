//! Tables of a client's data source.

use std::sync::Arc;

use arrow::array::{ArrayRef, BinaryArray};
use arrow::datatypes::{Schema, SchemaRef};
use async_trait::async_trait;
use futures::StreamExt;
use futures::stream;
use millstream_core::options::OptionSpec;
use millstream_core::registry::{ReadRequest, SourceContext, SourceProvider};
use millstream_core::source::{BatchStream, ReadContext, Source, Split, Table};
use millstream_core::{Error, Options, Result};
use tokio::sync::OnceCell;

use super::stream::PythonStream;
use super::{Created, DataSourceClass, bytes_or_words, column_of_pickles, pickles, settled};
use crate::python::arrow::{Encoder, adopted, parts, sent_schema, sent_struct};
use crate::python::function::{described_bytes, kind, together};
use crate::python::task::TaskContext;
use crate::python::{PythonRuntime, Reply, Task, converse};
use crate::types::schema_to_json;

/// Rows of the record batches that a reading function gives.
const ROWS: i32 = 10_000;

/// Makes tables and streams of a registered class.
#[derive(Debug)]
pub(crate) struct PythonProvider {
    class: DataSourceClass,
    /// The object for the request, which is always the same.
    created: OnceCell<Created>,
}

impl PythonProvider {
    pub(crate) fn new(class: DataSourceClass) -> Self {
        PythonProvider { class, created: OnceCell::new() }
    }

    async fn created(&self, request: &ReadRequest) -> Result<&Created> {
        let options = options_of(request);
        self.created.get_or_try_init(|| self.class.create(request.schema.as_ref(), &options)).await
    }
}

/// The options of a request, its path among them.
fn options_of(request: &ReadRequest) -> Options {
    let mut options = request.options.clone();
    if let [path] = request.paths.as_slice() {
        options.set("path", path.clone());
    }
    options
}

#[async_trait]
impl SourceProvider for PythonProvider {
    fn names(&self) -> &'static [&'static str] {
        &["python"]
    }

    fn options(&self) -> Vec<OptionSpec> {
        Vec::new()
    }

    async fn schema(&self, request: &ReadRequest, _streaming: bool) -> Result<SchemaRef> {
        Ok(self.created(request).await?.schema.clone())
    }

    async fn source(&self, request: &ReadRequest, context: SourceContext) -> Result<Arc<dyn Source>> {
        let created = self.created(request).await?.clone();
        Ok(Arc::new(PythonStream::open(self.class.clone(), created, context.clock).await?))
    }

    async fn table(&self, request: &ReadRequest) -> Result<Arc<dyn Table>> {
        let created = self.created(request).await?.clone();
        Ok(Arc::new(PythonTable { class: self.class.clone(), created }))
    }
}

/// A table of a client's.
#[derive(Debug)]
struct PythonTable {
    class: DataSourceClass,
    created: Created,
}

#[async_trait]
impl Table for PythonTable {
    fn schema(&self) -> SchemaRef {
        self.created.schema.clone()
    }

    async fn scan(&self) -> Result<Vec<Arc<dyn Split>>> {
        let (reader, partitions) = Reader::plan(&self.class, &self.created, false).await?;
        Ok(reader.splits(partitions))
    }
}

/// A planned function that reads partitions.
#[derive(Debug)]
pub(super) struct Reader {
    runtime: PythonRuntime,
    task: Arc<Task>,
    schema: SchemaRef,
    name: String,
}

impl Reader {
    /// Plans a read: gives the function, and of a table its partitions.
    pub(super) async fn plan(class: &DataSourceClass, created: &Created, streaming: bool) -> Result<(Arc<Reader>, Vec<Vec<u8>>)> {
        let mut message = class.planning();
        message.bytes(&created.instance).text(&schema_to_json(&column_of_pickles("partition"))).text(&schema_to_json(&created.schema));
        message.int(ROWS).bool(false).bool(streaming).bool(true);
        let mut worker = class.runtime.start("pyspark.sql.worker.plan_data_source_read", &[]).await?;
        worker.send(&message).await?;
        let answered = async {
            let command = match bytes_or_words(worker.stream()).await? {
                Ok(command) => command,
                Err(words) => return Ok(Err(class.failed("plan", &words))),
            };
            match super::int_or_words(worker.stream()).await? {
                Ok(count) => Ok(Ok((command, pickles(worker.stream(), count).await?))),
                Err(words) => Ok(Err(class.failed("plan", &words))),
            }
        };
        let (command, partitions) = settled(answered.await, &worker)?;
        let functions = together([described_bytes(&[(0, None)], &command)].into_iter());
        let task = class.runtime.task(&class.version, kind::MAP_ARROW, functions);
        let reader =
            Reader { runtime: class.runtime.clone(), task: Arc::new(task), schema: created.schema.clone(), name: class.name.clone() };
        Ok((Arc::new(reader), partitions))
    }

    /// The work of reading partitions.
    pub(super) fn splits(self: &Arc<Self>, partitions: Vec<Vec<u8>>) -> Vec<Arc<dyn Split>> {
        let split = |(place, partition): (usize, Vec<u8>)| -> Arc<dyn Split> {
            Arc::new(Partition { reader: self.clone(), place, label: format!("{}-{place}", self.name), partition })
        };
        partitions.into_iter().enumerate().map(split).collect()
    }
}

/// A partition that one task reads.
#[derive(Debug)]
struct Partition {
    reader: Arc<Reader>,
    place: usize,
    label: String,
    /// Its pickle.
    partition: Vec<u8>,
}

impl Split for Partition {
    fn label(&self) -> &str {
        &self.label
    }

    fn read(&self, context: ReadContext) -> BatchStream {
        let input = match input(&self.partition) {
            Ok(bytes) => stream::iter([Ok(bytes)]).boxed(),
            Err(error) => return stream::iter([Err(error)]).boxed(),
        };
        let reader = self.reader.clone();
        let task = TaskContext::of_partition(self.place);
        let replies = converse(reader.runtime.clone(), reader.task.clone(), task, input);
        replies.map(move |reply| rows_of(reply?, &reader.schema, &context.projection)).boxed()
    }
}

/// A pickle as the one row that a reading function takes.
fn input(pickle: &[u8]) -> Result<Vec<u8>> {
    let schema = column_of_pickles("partition");
    let sent = sent_struct(&sent_schema(schema.fields().iter().map(AsRef::as_ref), "UTC"));
    let mut encoder = Encoder::new(&sent)?;
    let column: ArrayRef = Arc::new(BinaryArray::from_vec(vec![pickle]));
    let mut bytes = encoder.structs(&[column], 1)?;
    bytes.extend(encoder.end()?);
    Ok(bytes)
}

fn rows_of(reply: Reply, schema: &SchemaRef, projection: &[usize]) -> Result<arrow::array::RecordBatch> {
    let Reply::Rows(answer) = reply else { return Err(Error::internal("a data source answers with a pickle")) };
    projected(parts(&answer)?.columns(), answer.num_rows(), schema, projection)
}

/// Rows under the wanted columns of a schema.
pub(super) fn projected(columns: &[ArrayRef], rows: usize, schema: &SchemaRef, projection: &[usize]) -> Result<arrow::array::RecordBatch> {
    let columns = adopted(columns, schema.fields(), "a Python data source")?;
    let wanted: Vec<ArrayRef> = projection.iter().filter_map(|place| columns.get(*place)).cloned().collect();
    let fields: Vec<_> = projection.iter().filter_map(|place| schema.fields().get(*place)).cloned().collect();
    let options = arrow::array::RecordBatchOptions::new().with_row_count(Some(rows));
    arrow::array::RecordBatch::try_new_with_options(Arc::new(Schema::new(fields)), wanted, &options)
        .map_err(|error| Error::internal("the rows of a data source do not have its schema").caused_by(error))
}
