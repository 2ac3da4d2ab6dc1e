//! What the statements of a pipeline say.

use std::collections::BTreeMap;

use arrow::datatypes::Field;
use spark_connect_proto::Expression;

use crate::pipelines::name::{Namespace, TableName};
use crate::sql::{Fragment, Position};

/// One definition of a pipeline.
#[derive(Clone, Debug)]
pub enum Definition {
    /// A table or view.
    Dataset(Box<DatasetDefinition>),
    /// A flow into a streaming table that is defined elsewhere.
    Flow(Box<FlowDefinition>),
}

/// What a dataset is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DatasetKind {
    /// A table that flows append to.
    StreamingTable,
    /// A table that is the result of a query over whole tables.
    MaterializedView,
    /// A name for a query; nothing is stored.
    TemporaryView,
}

impl DatasetKind {
    /// The kind in words.
    pub fn name(self) -> &'static str {
        match self {
            DatasetKind::StreamingTable => "streaming table",
            DatasetKind::MaterializedView => "materialized view",
            DatasetKind::TemporaryView => "temporary view",
        }
    }
}

/// `CREATE STREAMING TABLE`, `CREATE MATERIALIZED VIEW` or `CREATE TEMPORARY VIEW`.
#[derive(Clone, Debug)]
pub struct DatasetDefinition {
    /// What it is.
    pub kind: DatasetKind,
    /// Its name.
    pub name: TableName,
    /// Where its name is.
    pub position: Position,
    /// Not to be shown outside of the pipeline.
    pub private: bool,
    /// Declared columns; empty where the query decides.
    pub columns: Vec<Column>,
    /// Expectations, in order.
    pub expectations: Vec<Expectation>,
    /// Columns to partition by, as written, and where.
    pub partition_by: Vec<(String, Position)>,
    /// How rows are to be clustered.
    pub clustering: Option<Clustering>,
    /// The comment.
    pub comment: Option<String>,
    /// Table properties.
    pub properties: BTreeMap<String, String>,
    /// Its query. A streaming table may have none, or flows beside it.
    pub query: Option<Fragment>,
    /// The query is to be appended once (`FLOW INSERT ONCE`).
    pub once: bool,
    /// What was set when it was defined.
    pub settings: Settings,
}

/// A declared column.
#[derive(Clone, Debug, PartialEq)]
pub struct Column {
    /// The name as written.
    pub name: String,
    /// Where it is.
    pub position: Position,
    /// Type, nullability and comment. `None` where only a name (and comment) was given.
    pub field: Option<Field>,
    /// The comment.
    pub comment: Option<String>,
}

/// What happens to a row that breaks an expectation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum OnViolation {
    /// It is kept, and counted.
    #[default]
    Keep,
    /// It is left out, and counted.
    DropRow,
    /// The flow fails.
    FailUpdate,
}

/// `CONSTRAINT name EXPECT (condition) …`.
#[derive(Clone, Debug)]
pub struct Expectation {
    /// The name.
    pub name: String,
    /// Where it is.
    pub position: Position,
    /// What must hold. A row for which it is null breaks it.
    pub condition: Expression,
    /// The condition as text.
    pub text: Fragment,
    /// What happens otherwise.
    pub on_violation: OnViolation,
}

/// `CLUSTER BY …`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Clustering {
    /// By these columns.
    Columns(Vec<String>),
    /// `AUTO`.
    Auto,
    /// `NONE`.
    None,
}

/// `CREATE FLOW name AS INSERT INTO [ONCE] target BY NAME query`.
#[derive(Clone, Debug)]
pub struct FlowDefinition {
    /// The flow's name.
    pub name: TableName,
    /// Where its name is.
    pub position: Position,
    /// The comment.
    pub comment: Option<String>,
    /// The streaming table that it appends to.
    pub target: TableName,
    /// Where the target is named.
    pub target_position: Position,
    /// The query is a batch query whose rows are appended once.
    pub once: bool,
    /// Its query.
    pub query: Fragment,
    /// What was set when it was defined.
    pub settings: Settings,
}

/// What `SET` and `USE` have said so far.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    /// Where names belong.
    pub namespace: Namespace,
    /// `SET key = value`, in effect for this definition.
    pub configuration: BTreeMap<String, String>,
}
