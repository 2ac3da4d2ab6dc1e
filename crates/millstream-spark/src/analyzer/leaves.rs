//! What the leaves of a plan are: views, tables, files, what the session cached, and the functions that its client registered.

use std::sync::Arc;

use async_trait::async_trait;
use datafusion::catalog::TableProvider;
use millstream_core::{Options, Result};
use spark_connect_proto::{CommonInlineUserDefinedFunction, CommonInlineUserDefinedTableFunction, Relation, read};

use super::Analyzed;
use crate::python::PythonRuntime;

/// What a name stands for.
#[derive(Clone, Debug)]
pub enum Leaf {
    /// A temporary view: the unresolved plan that it was made from.
    View(Relation),
    /// A relation that the engine reads.
    Table(Arc<dyn TableProvider>),
    /// A plan analyzed before, such as the rows of a batch in `foreachBatch`.
    Analyzed(Analyzed),
}

/// Finds what the leaves of plans stand for. A session implements it.
#[async_trait]
pub trait Leaves: Send + Sync {
    /// A view or table of a name in one to three parts, read as a stream or as it is now.
    ///
    /// # Errors
    /// `TABLE_OR_VIEW_NOT_FOUND`, and those of opening it.
    async fn named(&self, parts: &[String], streaming: bool, options: &Options) -> Result<Leaf>;

    /// A data source: `spark.read.format(…).load(…)` and `readStream`.
    ///
    /// # Errors
    /// `DATA_SOURCE_NOT_FOUND`, and those of the source.
    async fn source(&self, source: &read::DataSource, streaming: bool) -> Result<Leaf>;

    /// A plan kept in the session under an id.
    ///
    /// # Errors
    /// `DATAFRAME_NOT_FOUND`.
    async fn remote(&self, relation_id: &str) -> Result<Leaf>;

    /// What an extension of the protocol stands for.
    ///
    /// # Errors
    /// `UNSUPPORTED_FEATURE` for one that nobody knows, and those of what it asks for.
    async fn extension(&self, any: &prost_types::Any) -> Result<Leaf> {
        let message = format!("the extension {} of the protocol is not supported", any.type_url);
        Err(millstream_core::Error::invalid("UNSUPPORTED_FEATURE", message).with_sqlstate("0A000"))
    }

    /// The bytes of an artifact `cache/<hash>`: a local relation sent ahead.
    ///
    /// # Errors
    /// `LOCAL_RELATION_NOT_FOUND`.
    async fn cached(&self, hash: &str) -> Result<Arc<[u8]>>;

    /// What calls the client's functions in Python.
    ///
    /// # Errors
    /// `PYTHON_FUNCTIONS_DISABLED`.
    fn python(&self) -> Result<PythonRuntime>;

    /// The function that the client has registered under a name, whatever its case.
    fn function(&self, _name: &str) -> Option<CommonInlineUserDefinedFunction> {
        None
    }

    /// The table function that the client has registered under a name, whatever its case.
    fn table_function(&self, _name: &str) -> Option<CommonInlineUserDefinedTableFunction> {
        None
    }
}
