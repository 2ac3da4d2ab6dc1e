//! Tables that memory sinks fill.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::{Schema, SchemaRef};
use async_trait::async_trait;
use futures::{StreamExt, stream};
use millstream_core::sink::OutputMode;
use millstream_core::source::{BatchStream, ReadContext, Split, Table};
use millstream_core::{Error, ErrorKind, Result};
use parking_lot::Mutex;

/// The tables of one session's memory sinks, by query name whatever its case. Clones share the tables.
#[derive(Clone, Debug, Default)]
pub struct MemoryTables(Arc<Mutex<BTreeMap<String, Arc<MemoryTable>>>>);

impl MemoryTables {
    /// No tables.
    pub fn new() -> Self {
        Self::default()
    }

    /// The table that the newest query of this name fills.
    pub fn get(&self, name: &str) -> Option<Arc<MemoryTable>> {
        self.0.lock().get(&name.to_lowercase()).cloned()
    }

    /// The names of all tables, in lower case.
    pub fn names(&self) -> Vec<String> {
        self.0.lock().keys().cloned().collect()
    }

    /// Forgets a table, as `DROP VIEW` does. A query that still runs goes on filling it unseen.
    pub fn remove(&self, name: &str) -> Option<Arc<MemoryTable>> {
        self.0.lock().remove(&name.to_lowercase())
    }

    /// An empty table in place of an earlier one of this name.
    pub(super) fn create(&self, name: &str) -> Arc<MemoryTable> {
        let table = Arc::new(MemoryTable { name: name.to_owned(), contents: Mutex::default() });
        self.0.lock().insert(name.to_lowercase(), table.clone());
        table
    }
}

/// The rows that one run of a query has committed.
#[derive(Debug)]
pub struct MemoryTable {
    name: String,
    contents: Mutex<Contents>,
}

#[derive(Debug)]
struct Contents {
    schema: SchemaRef,
    newest: Option<u64>,
    rows: Vec<RecordBatch>,
}

impl Default for Contents {
    fn default() -> Self {
        Contents { schema: Arc::new(Schema::empty()), newest: None, rows: Vec::new() }
    }
}

impl MemoryTable {
    /// All rows, in the order in which they were committed.
    pub fn rows(&self) -> Vec<RecordBatch> {
        self.contents.lock().rows.clone()
    }

    /// The newest batch committed.
    pub fn newest_batch(&self) -> Option<u64> {
        self.contents.lock().newest
    }

    pub(super) fn set_schema(&self, schema: &SchemaRef) -> Result<()> {
        let mut contents = self.contents.lock();
        if !contents.rows.is_empty() && contents.schema.fields() != schema.fields() {
            return Err(Error::new(
                ErrorKind::SchemaMismatch,
                "MEMORY_TABLE_SCHEMA_CHANGED",
                format!("the rows of query '{}' changed their columns while it runs: restart the query", self.name),
            ));
        }
        contents.schema = schema.clone();
        Ok(())
    }

    /// Takes the rows of a batch unless it, or a later one, is here already.
    pub(super) fn commit(&self, batch_id: u64, mode: OutputMode, rows: Vec<RecordBatch>) {
        let mut contents = self.contents.lock();
        if contents.newest.is_some_and(|newest| newest >= batch_id) {
            return;
        }
        if mode == OutputMode::Complete {
            contents.rows.clear();
        }
        contents.rows.extend(rows.into_iter().filter(|batch| batch.num_rows() > 0));
        contents.newest = Some(batch_id);
    }
}

#[async_trait]
impl Table for MemoryTable {
    fn schema(&self) -> SchemaRef {
        self.contents.lock().schema.clone()
    }

    async fn scan(&self) -> Result<Vec<Arc<dyn Split>>> {
        Ok(vec![Arc::new(MemorySplit { name: self.name.clone(), rows: self.rows() })])
    }
}

#[derive(Debug)]
struct MemorySplit {
    name: String,
    rows: Vec<RecordBatch>,
}

impl Split for MemorySplit {
    fn label(&self) -> &str {
        &self.name
    }

    fn size_bytes(&self) -> u64 {
        self.rows.iter().map(|batch| batch.get_array_memory_size() as u64).sum()
    }

    fn read(&self, context: ReadContext) -> BatchStream {
        stream::iter(self.rows.clone())
            .map(move |batch| {
                batch.project(&context.projection).map_err(|error| Error::internal("a projection does not fit the table").caused_by(error))
            })
            .boxed()
    }
}
