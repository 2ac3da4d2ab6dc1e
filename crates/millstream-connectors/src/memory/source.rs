//! Reading the tables of memory sinks, as a batch.

use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use async_trait::async_trait;
use millstream_core::registry::{ReadRequest, SourceContext, SourceProvider};
use millstream_core::source::{Source, Table};
use millstream_core::{Error, OptionSpec, Result};

use super::sink::MemoryProvider;
use super::table::MemoryTable;

impl MemoryProvider {
    fn find(&self, request: &ReadRequest) -> Result<Arc<MemoryTable>> {
        let name = request.paths.first().map(String::as_str).or_else(|| request.options.get("path")).unwrap_or_default();
        self.tables().get(name).ok_or_else(|| {
            let known = self.tables().names();
            let known = if known.is_empty() { "there is none yet".to_owned() } else { format!("there are {}", known.join(", ")) };
            Error::invalid("TABLE_OR_VIEW_NOT_FOUND", format!("no memory sink of this session has the query name '{name}': {known}"))
                .with_sqlstate("42P01")
        })
    }
}

/// The table that `path` names: the name of the query that fills it.
#[async_trait]
impl SourceProvider for MemoryProvider {
    fn names(&self) -> &'static [&'static str] {
        &["memory"]
    }

    fn options(&self) -> Vec<OptionSpec> {
        vec![]
    }

    async fn schema(&self, request: &ReadRequest, _streaming: bool) -> Result<SchemaRef> {
        self.find(request).map(|table| table.schema())
    }

    async fn source(&self, _request: &ReadRequest, _context: SourceContext) -> Result<Arc<dyn Source>> {
        Err(Error::invalid("_LEGACY_ERROR_TEMP_2049", "Data source memory does not support streamed reading: read it as a batch"))
    }

    async fn table(&self, request: &ReadRequest) -> Result<Arc<dyn Table>> {
        self.find(request).map(|table| table as Arc<dyn Table>)
    }
}
