//! The state in a checkpoint as tables: Spark's formats `statestore` and `state-metadata`, and the rows behind them for whoever looks into
//! checkpoints. Nothing of the checkpoint is touched, so that it may belong to a running query.

mod metadata;
mod options;
mod request;
mod stored;

use std::fmt;
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use async_trait::async_trait;
use futures::{StreamExt, stream};
use millstream_checkpoint::reader::CheckpointReader;
use millstream_core::registry::{ReadRequest, SourceContext, SourceProvider};
use millstream_core::source::{BatchStream, ReadContext, Source, Split, Table};
use millstream_core::{Error, OptionSpec, Result};

use request::Wanted;

pub use stored::{StoredRows, StoredTable, tables};

/// Opens the checkpoint at a place (path or URL) for looking at it.
pub type OpenReader = dyn Fn(&str) -> Result<CheckpointReader> + Send + Sync;

/// The format `statestore`: the rows of one operator's state.
#[derive(Clone)]
pub struct StateStoreProvider(Arc<OpenReader>);

/// The format `state-metadata`: which operators and stores there are.
#[derive(Clone)]
pub struct StateMetadataProvider(Arc<OpenReader>);

impl StateStoreProvider {
    /// Reads checkpoints that `open` opens.
    pub fn new(open: Arc<OpenReader>) -> Self {
        StateStoreProvider(open)
    }
}

impl StateMetadataProvider {
    /// Reads checkpoints that `open` opens.
    pub fn new(open: Arc<OpenReader>) -> Self {
        StateMetadataProvider(open)
    }
}

impl fmt::Debug for StateStoreProvider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("StateStoreProvider")
    }
}

impl fmt::Debug for StateMetadataProvider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("StateMetadataProvider")
    }
}

/// The checkpoint that a request names.
fn reader(open: &OpenReader, request: &ReadRequest) -> Result<CheckpointReader> {
    let path = request.options.get("path").or_else(|| request.paths.first().map(String::as_str));
    open(path.ok_or_else(|| options::unspecified("path"))?)
}

fn not_a_stream(format: &str) -> Error {
    Error::invalid("_LEGACY_ERROR_TEMP_2049", format!("Data source {format} does not support streamed reading"))
}

/// The columns of state are those of the query that made it.
fn refuse_schema(request: &ReadRequest, source: &str) -> Result<()> {
    match request.schema {
        None => Ok(()),
        Some(_) => Err(Error::invalid("_LEGACY_ERROR_TEMP_2242", format!("{source} source does not support user-specified schema."))),
    }
}

#[async_trait]
impl SourceProvider for StateStoreProvider {
    fn names(&self) -> &'static [&'static str] {
        &["statestore"]
    }

    fn options(&self) -> Vec<OptionSpec> {
        options::STATE_STORE.to_vec()
    }

    async fn schema(&self, request: &ReadRequest, streaming: bool) -> Result<SchemaRef> {
        if streaming {
            return Err(not_a_stream("statestore"));
        }
        refuse_schema(request, "StateDataSource")?;
        let reader = reader(self.0.as_ref(), request)?;
        Ok(Wanted::of(&reader, &request.options).await?.schema())
    }

    async fn source(&self, _: &ReadRequest, _: SourceContext) -> Result<Arc<dyn Source>> {
        Err(not_a_stream("statestore"))
    }

    async fn table(&self, request: &ReadRequest) -> Result<Arc<dyn Table>> {
        let reader = reader(self.0.as_ref(), request)?;
        let wanted = Wanted::of(&reader, &request.options).await?;
        Ok(Arc::new(Rows { schema: wanted.schema(), rows: wanted.rows(&reader).await? }))
    }
}

#[async_trait]
impl SourceProvider for StateMetadataProvider {
    fn names(&self) -> &'static [&'static str] {
        &["state-metadata"]
    }

    fn options(&self) -> Vec<OptionSpec> {
        options::STATE_METADATA.to_vec()
    }

    async fn schema(&self, request: &ReadRequest, streaming: bool) -> Result<SchemaRef> {
        if streaming {
            return Err(not_a_stream("state-metadata"));
        }
        refuse_schema(request, "StateMetadataSource")?;
        Ok(metadata::schema())
    }

    async fn source(&self, _: &ReadRequest, _: SourceContext) -> Result<Arc<dyn Source>> {
        Err(not_a_stream("state-metadata"))
    }

    async fn table(&self, request: &ReadRequest) -> Result<Arc<dyn Table>> {
        let reader = reader(self.0.as_ref(), request)?;
        Ok(Arc::new(Rows { schema: metadata::schema(), rows: vec![metadata::rows(&reader).await?] }))
    }
}

/// Rows that were read when the table was opened.
#[derive(Debug)]
struct Rows {
    schema: SchemaRef,
    rows: Vec<RecordBatch>,
}

#[async_trait]
impl Table for Rows {
    fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }

    async fn scan(&self) -> Result<Vec<Arc<dyn Split>>> {
        Ok(self.rows.iter().map(|rows| Arc::new(RowsSplit(rows.clone())) as Arc<dyn Split>).collect())
    }
}

#[derive(Debug)]
struct RowsSplit(RecordBatch);

impl Split for RowsSplit {
    fn label(&self) -> &'static str {
        "state"
    }

    fn size_bytes(&self) -> u64 {
        self.0.get_array_memory_size() as u64
    }

    fn read(&self, context: ReadContext) -> BatchStream {
        let projected = self.0.project(&context.projection);
        stream::iter([projected.map_err(|error| Error::internal("rows of state lack a column").caused_by(error))]).boxed()
    }
}
