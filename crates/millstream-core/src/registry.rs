//! How connectors are found by name. A connector is one provider and one line in the binary's registry.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use async_trait::async_trait;

use crate::clock::{Clock, Ids};
use crate::error::{Error, Result};
use crate::options::{OptionSpec, Options};
use crate::sink::Sink;
use crate::source::{Source, Table};
use crate::source_log::SourceLog;
use crate::versioned::VersionedTables;

/// What a user asked to read.
#[derive(Clone, Debug, Default)]
pub struct ReadRequest {
    /// The schema that the user gave.
    pub schema: Option<SchemaRef>,
    /// Paths, table locations or topics, as far as they are not options.
    pub paths: Vec<String>,
    /// Options, among them `path`.
    pub options: Options,
}

/// What a user asked to write.
#[derive(Clone, Debug, Default)]
pub struct WriteRequest {
    /// Path or table location, if the sink has one.
    pub path: Option<String>,
    /// Columns to partition by.
    pub partition_by: Vec<String>,
    /// Options.
    pub options: Options,
    /// The query's name, if it has one (the memory sink's table name).
    pub query_name: Option<String>,
}

/// Where a source of one query lives.
#[derive(Clone, Debug)]
pub struct SourceContext {
    /// The source's log inside the checkpoint.
    pub log: Arc<dyn SourceLog>,
    /// The clock.
    pub clock: Arc<dyn Clock>,
}

/// Makes sources, and tables read as a batch, of one format.
#[async_trait]
pub trait SourceProvider: Debug + Send + Sync {
    /// The names under which `format(…)` finds it; the first is the canonical one.
    fn names(&self) -> &'static [&'static str];

    /// Every option it understands.
    fn options(&self) -> Vec<OptionSpec>;

    /// The schema that rows will have, inferring it where the format allows. `streaming` tells which rules apply.
    async fn schema(&self, request: &ReadRequest, streaming: bool) -> Result<SchemaRef>;

    /// A source for one query. `request.schema` is the schema that [`SourceProvider::schema`] returned.
    async fn source(&self, request: &ReadRequest, context: SourceContext) -> Result<Arc<dyn Source>>;

    /// The same data read as a table. `request.schema` is the schema that [`SourceProvider::schema`] returned.
    ///
    /// # Errors
    /// `UNSUPPORTED_BATCH_READ` where the format has no batch side.
    async fn table(&self, request: &ReadRequest) -> Result<Arc<dyn Table>>;
}

/// What makes a sink of one format.
#[async_trait]
pub trait SinkProvider: Debug + Send + Sync {
    /// The names under which `format(…)` finds it; the first is the canonical one.
    fn names(&self) -> &'static [&'static str];

    /// Every option it understands.
    fn options(&self) -> Vec<OptionSpec>;

    /// A sink for one query.
    async fn sink(&self, request: &WriteRequest) -> Result<Arc<dyn Sink>>;
}

/// The sources, sinks and versioned tables that a process knows, and the seams that they use.
#[derive(Clone, Debug)]
pub struct Registry {
    sources: BTreeMap<&'static str, Arc<dyn SourceProvider>>,
    sinks: BTreeMap<&'static str, Arc<dyn SinkProvider>>,
    versioned: BTreeMap<&'static str, Arc<dyn VersionedTables>>,
    /// The clock of the process.
    pub clock: Arc<dyn Clock>,
    /// The identifiers of the process.
    pub ids: Arc<dyn Ids>,
}

impl Registry {
    /// A registry without connectors.
    pub fn new(clock: Arc<dyn Clock>, ids: Arc<dyn Ids>) -> Self {
        Registry { sources: BTreeMap::new(), sinks: BTreeMap::new(), versioned: BTreeMap::new(), clock, ids }
    }

    /// Adds a source under all its names.
    pub fn add_source(&mut self, provider: Arc<dyn SourceProvider>) {
        for name in provider.names() {
            self.sources.insert(name, provider.clone());
        }
    }

    /// Adds a sink under all its names.
    pub fn add_sink(&mut self, provider: Arc<dyn SinkProvider>) {
        for name in provider.names() {
            self.sinks.insert(name, provider.clone());
        }
    }

    /// Adds a format whose tables can be changed row by row.
    pub fn add_versioned(&mut self, tables: Arc<dyn VersionedTables>) {
        self.versioned.insert(tables.name(), tables);
    }

    /// The format of that name, whatever its case, if its tables can be changed row by row.
    pub fn versioned(&self, name: &str) -> Option<&Arc<dyn VersionedTables>> {
        self.versioned.get(name.to_lowercase().as_str())
    }

    /// The source of that name, whatever its case.
    ///
    /// # Errors
    /// `DATA_SOURCE_NOT_FOUND`, naming what there is.
    pub fn source(&self, name: &str) -> Result<&Arc<dyn SourceProvider>> {
        find(&self.sources, name)
    }

    /// The sink of that name, whatever its case.
    ///
    /// # Errors
    /// `DATA_SOURCE_NOT_FOUND`, naming what there is.
    pub fn sink(&self, name: &str) -> Result<&Arc<dyn SinkProvider>> {
        find(&self.sinks, name)
    }

    /// Every source once, by canonical name.
    pub fn sources(&self) -> impl Iterator<Item = &Arc<dyn SourceProvider>> {
        self.sources.iter().filter(|(name, provider)| provider.names().first() == Some(*name)).map(|(_, provider)| provider)
    }

    /// Every sink once, by canonical name.
    pub fn sinks(&self) -> impl Iterator<Item = &Arc<dyn SinkProvider>> {
        self.sinks.iter().filter(|(name, provider)| provider.names().first() == Some(*name)).map(|(_, provider)| provider)
    }
}

fn find<'a, P: ?Sized>(providers: &'a BTreeMap<&'static str, Arc<P>>, name: &str) -> Result<&'a Arc<P>> {
    let exact = providers.get(name.to_lowercase().as_str());
    let found = exact.or_else(|| providers.iter().find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, provider)| provider));
    found.ok_or_else(|| {
        let known: Vec<&str> = providers.keys().copied().collect();
        Error::invalid("DATA_SOURCE_NOT_FOUND", format!("there is no format '{name}': use one of {}", known.join(", ")))
            .with_sqlstate("42K02")
    })
}
