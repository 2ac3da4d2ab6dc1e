//! Leaves: tables, views, sources and cached plans.

use std::sync::Arc;

use arrow::datatypes::Field;
use datafusion::catalog::TableProvider;
use datafusion::common::{Column, TableReference};
use datafusion::datasource::provider_as_source;
use datafusion::logical_expr::{Expr, LogicalPlanBuilder, cast};
use millstream_core::{Error, Result};
use millstream_engine::from_datafusion;
use millstream_engine::plan::{is_streaming, result_schema};
use spark_connect_proto::CachedRemoteRelation;

use super::columns::{item, project};
use super::gather::Source;
use super::relation::{Analyzer, Node};
use super::{Analyzed, Attribute};

/// The metadata key of a column that `*` leaves out.
const HIDDEN: &str = "__metadata_col";

impl Analyzer<'_> {
    /// What a leaf stands for.
    pub(super) fn leaf(&self, leaf: &CachedRemoteRelation) -> Result<Node> {
        match self.gathered.source(leaf)? {
            Source::Plan { relation, qualifier, streaming } => {
                let node = self.relation(relation, None)?.closed();
                check_streaming(&node, *streaming, qualifier)?;
                Ok(if qualifier.is_empty() { node } else { called(node, qualifier) })
            }
            Source::Table { provider, qualifier } => {
                let node = scan(provider.clone(), qualifier)?;
                Ok(if qualifier.is_empty() { node } else { called(node, &completed(qualifier)) })
            }
            Source::Analyzed { analyzed, qualifier, streaming } => {
                let node = renewed(analyzed)?;
                check_streaming(&node, *streaming, qualifier)?;
                Ok(if qualifier.is_empty() { node } else { called(node, qualifier) })
            }
            Source::Local { data, schema } => {
                let data: Vec<&[u8]> = data.iter().map(AsRef::as_ref).collect();
                self.local_rows(&data, schema.as_deref())
            }
        }
    }
}

/// What is read as a stream must be one.
fn check_streaming(node: &Node, streaming: bool, name: &[String]) -> Result<()> {
    if !streaming || is_streaming(&node.plan)? {
        return Ok(());
    }
    let name = name.join(".");
    Err(Error::invalid(
        "_LEGACY_ERROR_TEMP_1008",
        format!("{name} is not a temp view of streaming logical plan, please use batch API such as `DataFrameReader.table` to read it."),
    ))
}

/// The name of a table with the default catalog and schema where they are left out.
fn completed(name: &[String]) -> Vec<String> {
    let defaults = ["spark_catalog", "default"];
    defaults.iter().take(3_usize.saturating_sub(name.len())).map(|part| (*part).to_owned()).chain(name.iter().cloned()).collect()
}

/// The relation under a name.
fn called(mut node: Node, qualifier: &[String]) -> Node {
    for column in &mut node.columns {
        column.qualifier = qualifier.to_vec();
        column.plan_ids.clear();
    }
    node
}

/// A relation that the engine reads, with Spark's types.
pub(super) fn scan(provider: Arc<dyn TableProvider>, qualifier: &[String]) -> Result<Node> {
    let name = TableReference::bare(qualifier.last().map_or("source", String::as_str));
    let source = provider_as_source(provider);
    let scan = LogicalPlanBuilder::scan(name, source, None).and_then(LogicalPlanBuilder::build).map_err(from_datafusion)?;
    let canonical = result_schema(&scan);
    let mut columns: Vec<Attribute> = Vec::with_capacity(canonical.fields().len());
    let mut items: Vec<Expr> = Vec::with_capacity(canonical.fields().len());
    for ((qualifier, field), canonical) in scan.schema().iter().zip(canonical.fields()) {
        let column = Expr::Column(Column::new(qualifier.cloned(), field.name()));
        let mut metadata = canonical.metadata().clone();
        let hidden = metadata.remove(HIDDEN).is_some();
        let seen = Field::clone(canonical).with_metadata(metadata);
        let attribute = Attribute { hidden, ..Attribute::of_field(&seen) };
        let value = if field.data_type() == canonical.data_type() { column } else { cast(column, canonical.data_type().clone()) };
        items.push(value.alias(&attribute.internal));
        columns.push(attribute);
    }
    Ok(Node::new(project(scan, items)?, columns))
}

/// A plan analyzed before, under new internal names: it may occur more than once in one plan.
fn renewed(analyzed: &Analyzed) -> Result<Node> {
    let mut columns: Vec<Attribute> = Vec::with_capacity(analyzed.columns.len());
    let mut items: Vec<Expr> = Vec::with_capacity(analyzed.columns.len());
    for column in &analyzed.columns {
        let value = column.typed();
        let renewed = Attribute { internal: super::columns::fresh(), ..column.clone() };
        items.push(item(&value, &renewed.internal, &analyzed.plan)?);
        columns.push(renewed);
    }
    Ok(Node::new(project(analyzed.plan.clone(), items)?, columns))
}
