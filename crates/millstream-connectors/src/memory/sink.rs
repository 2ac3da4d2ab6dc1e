//! The sink.

use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use async_trait::async_trait;
use millstream_core::registry::{SinkProvider, WriteRequest};
use millstream_core::sink::{Admission, BatchInfo, Committed, Guarantee, OutputMode, Part, PartWriter, Sink};
use millstream_core::{Error, OptionSpec, Result};

use super::staged;
use super::staging::Rows;
use super::table::{MemoryTable, MemoryTables};

/// Makes [`MemorySink`]s that fill one set of tables, and reads those tables.
#[derive(Debug)]
pub struct MemoryProvider(MemoryTables);

impl MemoryProvider {
    /// Sinks that fill `tables`.
    pub fn new(tables: MemoryTables) -> Self {
        MemoryProvider(tables)
    }

    pub(super) fn tables(&self) -> &MemoryTables {
        &self.0
    }
}

#[async_trait]
impl SinkProvider for MemoryProvider {
    fn names(&self) -> &'static [&'static str] {
        &["memory"]
    }

    fn options(&self) -> Vec<OptionSpec> {
        vec![]
    }

    /// A sink whose table replaces an earlier one under the query's name.
    ///
    /// # Errors
    /// `_LEGACY_ERROR_TEMP_1194` for a query without a name.
    async fn sink(&self, request: &WriteRequest) -> Result<Arc<dyn Sink>> {
        let name = request.query_name.as_deref().filter(|name| !name.is_empty()).ok_or_else(|| {
            Error::invalid("_LEGACY_ERROR_TEMP_1194", "queryName must be specified for memory sink: its rows become a table of that name")
        })?;
        Ok(Arc::new(MemorySink { table: self.0.create(name) }))
    }
}

/// Keeps the rows of one run of a query.
#[derive(Debug)]
pub struct MemorySink {
    table: Arc<MemoryTable>,
}

#[async_trait]
impl Sink for MemorySink {
    fn description(&self) -> String {
        "MemorySink".to_owned()
    }

    fn guarantee(&self) -> Guarantee {
        Guarantee::None
    }

    fn supports(&self, _mode: OutputMode) -> bool {
        true
    }

    /// Only a complete result can be made anew from a checkpoint; rows of earlier batches are gone with the process.
    fn resumes(&self, mode: OutputMode) -> bool {
        mode == OutputMode::Complete
    }

    async fn prepare(&self, schema: &SchemaRef, _mode: OutputMode) -> Result<()> {
        self.table.set_schema(schema)
    }

    async fn admit(&self, batch: &BatchInfo) -> Result<Admission> {
        let known = self.table.newest_batch().is_some_and(|newest| newest >= batch.batch_id);
        Ok(if known { Admission::AlreadyCommitted } else { Admission::Write })
    }

    async fn writer(&self, batch: &BatchInfo, _partition: usize) -> Result<Box<dyn PartWriter>> {
        Ok(Box::new(Rows::new(batch.schema.clone(), usize::MAX)))
    }

    async fn commit(&self, batch: &BatchInfo, parts: Vec<Part>) -> Result<Committed> {
        let mut batches = Vec::new();
        for part in &parts {
            batches.extend(staged::decode(&part.staged)?);
        }
        self.table.commit(batch.batch_id, batch.mode, batches);
        Ok(Committed { rows: parts.iter().map(|part| part.rows).sum(), ..Committed::default() })
    }
}
