//! What names in the query of a flow stand for: datasets of the graph first, then what the session knows.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use millstream_core::{Error, Options, Result};
use parking_lot::Mutex;
use spark_connect_proto::{CommonInlineUserDefinedFunction, CommonInlineUserDefinedTableFunction, read};

use super::graph::OutputKind;
use super::name::Namespace;
use super::resolve::{Mode, Resolver};
use crate::analyzer::{Leaf, Leaves};
use crate::connect::catalog::Warehouse;
use crate::connect::session::ConnectSession;
use crate::python::PythonRuntime;

/// The leaves of one flow's query.
pub(super) struct GraphLeaves {
    resolver: Arc<Resolver>,
    session: Arc<ConnectSession>,
    namespace: Namespace,
    mode: Mode,
    inputs: Mutex<BTreeSet<usize>>,
}

impl fmt::Debug for GraphLeaves {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GraphLeaves").field("mode", &self.mode).finish_non_exhaustive()
    }
}

impl GraphLeaves {
    pub(super) fn new(resolver: Arc<Resolver>, session: Arc<ConnectSession>, namespace: Namespace, mode: Mode) -> Self {
        GraphLeaves { resolver, session, namespace, mode, inputs: Mutex::default() }
    }

    /// The outputs of the graph that were read so far, directly and through views.
    pub(super) fn inputs(&self) -> BTreeSet<usize> {
        self.inputs.lock().clone()
    }

    /// A table of the graph as it is in the catalog.
    async fn stored(&self, output: usize, streaming: bool, options: &Options) -> Result<Leaf> {
        let known = self.resolver.graph.outputs.get(output).ok_or_else(|| Error::internal("an output is not in its graph"))?;
        let missing = || {
            let message = format!("the table '{}' is not there yet: let the run make it, too", known.name);
            Error::invalid("NoSuchElementException", message)
        };
        let table = known.name.table().ok_or_else(missing)?;
        if Warehouse::open(self.session.host.as_ref())?.table(&table).await?.is_none() {
            return Err(missing());
        }
        let mut options = options.clone();
        // A stream of a table goes on when the pipeline itself empties it or writes it whole, and reads what is new in it.
        let follow: &[&str] = match &known.kind {
            OutputKind::MaterializedView(_) => &["ignoreChanges"],
            _ if self.resolver.is_changed_in_place(output) => &[],
            _ => &["ignoreDeletes", "ignoreChanges"],
        };
        let is_delta = known.table().is_some_and(|table| table.format.as_deref().is_none_or(|format| format.eq_ignore_ascii_case("delta")));
        for name in follow.iter().filter(|name| streaming && is_delta && options.get(name).is_none()).collect::<Vec<_>>() {
            options.set(*name, "true");
        }
        self.session.named(known.name.parts(), streaming, &options).await
    }
}

#[async_trait]
impl Leaves for GraphLeaves {
    async fn named(&self, parts: &[String], streaming: bool, options: &Options) -> Result<Leaf> {
        let Some(output) = self.resolver.graph.find(parts, &self.namespace)? else {
            return self.session.named(parts, streaming, options).await;
        };
        let (leaf, inputs) = self.resolver.leaf(output, streaming, self.mode).await?;
        self.inputs.lock().extend(inputs);
        match leaf {
            Some(leaf) => Ok(leaf),
            None => self.stored(output, streaming, options).await,
        }
    }

    async fn source(&self, source: &read::DataSource, streaming: bool) -> Result<Leaf> {
        self.session.source(source, streaming).await
    }

    async fn remote(&self, relation_id: &str) -> Result<Leaf> {
        self.resolver.client().remote(relation_id).await
    }

    async fn extension(&self, any: &prost_types::Any) -> Result<Leaf> {
        self.session.extension(any).await
    }

    async fn cached(&self, hash: &str) -> Result<Arc<[u8]>> {
        self.resolver.client().cached(hash).await
    }

    fn python(&self) -> Result<PythonRuntime> {
        self.session.python()
    }

    fn function(&self, name: &str) -> Option<CommonInlineUserDefinedFunction> {
        self.session.function(name)
    }

    fn table_function(&self, name: &str) -> Option<CommonInlineUserDefinedTableFunction> {
        self.session.table_function(name)
    }
}
