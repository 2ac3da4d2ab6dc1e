//! The columns of a query against the columns that its table declares.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder, cast, col, lit};
use datafusion::scalar::ScalarValue;
use millstream_core::{Error, ErrorKind, Result};
use millstream_engine::from_datafusion;
use millstream_engine::plan::result_schema;

use crate::pipelines::graph::Dataset;
use crate::pipelines::parser::DatasetKind;
use crate::sql::{Diagnostic, Position};
use crate::types::simple_name;

/// The plan of a view with the names that it declares for its columns.
pub(super) fn view(plan: LogicalPlan, dataset: &Dataset) -> Result<LogicalPlan> {
    if dataset.columns.is_empty() {
        return Ok(plan);
    }
    let schema = plan.schema().clone();
    if schema.fields().len() != dataset.columns.len() {
        let message =
            format!("view '{}' names {} column(s) but its query has {}", dataset.name, dataset.columns.len(), schema.fields().len());
        return Err(Error::invalid("CREATE_VIEW_COLUMN_ARITY_MISMATCH", message).with_sqlstate("21S01"));
    }
    let columns: Vec<Expr> =
        schema.columns().into_iter().zip(&dataset.columns).map(|(column, declared)| col(column).alias(declared.name.clone())).collect();
    LogicalPlanBuilder::from(plan).project(columns).and_then(LogicalPlanBuilder::build).map_err(from_datafusion)
}

/// The plan with exactly the columns that its table declares, in their order. Columns that a flow of a streaming table does not have are
/// null, because other flows may have them.
pub(super) fn aligned(plan: LogicalPlan, dataset: &Dataset) -> Result<LogicalPlan, Diagnostic> {
    let query = result_schema(&plan);
    if let Some((name, _)) = twice(&query) {
        let message = format!("the query of '{}' has two columns '{name}'", dataset.name);
        return Err(
            Diagnostic::new("COLUMN_ALREADY_EXISTS", "42711", dataset.position.clone(), message).with_hint("name one of them with AS")
        );
    }
    if dataset.columns.is_empty() {
        return Ok(plan);
    }
    let refuse = |position: &Position, message: String, hint: &str| {
        Err(Diagnostic::new("USER_SPECIFIED_AND_INFERRED_SCHEMA_NOT_COMPATIBLE", "42000", position.clone(), message).with_hint(hint))
    };
    let declared: HashSet<String> = dataset.columns.iter().map(|column| key(&column.name)).collect();
    for field in query.fields() {
        if !declared.contains(&key(field.name())) {
            let message = format!("the query has a column '{}' that '{}' does not declare", field.name(), dataset.name);
            return refuse(&dataset.position, message, "declare it, or leave it out of the query");
        }
    }
    let columns = plan.schema().columns();
    let given: HashMap<String, _> = query.fields().iter().zip(&columns).map(|given| (key(given.0.name()), given)).collect();
    let mut aligned: Vec<Expr> = Vec::with_capacity(dataset.columns.len());
    for declared in &dataset.columns {
        match (given.get(&key(&declared.name)), &declared.field) {
            (Some((field, _)), Some(wanted)) if !equal_types(field.data_type(), wanted.data_type()) => {
                let (is, wants) = (simple_name(field.data_type()), simple_name(wanted.data_type()));
                let message = format!("column '{}' is declared as {wants}, but the query gives {is}", declared.name);
                return refuse(&declared.position, message, &format!("cast it: CAST({} AS {})", declared.name, wants.to_uppercase()));
            }
            (Some((_, column)), _) => aligned.push(col((*column).clone()).alias(declared.name.clone())),
            (None, Some(wanted)) if dataset.kind == DatasetKind::StreamingTable => {
                aligned.push(cast(lit(ScalarValue::Null), wanted.data_type().clone()).alias(declared.name.clone()));
            }
            (None, _) => {
                let message = format!("column '{}' is declared, but the query does not give it", declared.name);
                return refuse(&declared.position, message, "add it to the query, or do not declare it");
            }
        }
    }
    LogicalPlanBuilder::from(plan)
        .project(aligned)
        .and_then(LogicalPlanBuilder::build)
        .map_err(|error| Diagnostic::of(&dataset.position, &from_datafusion(error)))
}

fn twice(schema: &Schema) -> Option<(&str, usize)> {
    let mut known = HashSet::new();
    schema
        .fields()
        .iter()
        .enumerate()
        .find(|(_, field)| !known.insert(key(field.name())))
        .map(|(index, field)| (field.name().as_str(), index))
}

/// What names that are the same have in common.
fn key(name: &str) -> String {
    name.to_lowercase()
}

/// Whether two types hold the same values: names of elements and nullability aside.
fn equal_types(left: &DataType, right: &DataType) -> bool {
    simple_name(left).to_lowercase() == simple_name(right).to_lowercase()
}

/// The columns of two flows into one table.
///
/// # Errors
/// `CANNOT_MERGE_INCOMPATIBLE_DATA_TYPE` where a column has two types.
pub(super) fn merged(known: &SchemaRef, more: &SchemaRef, table: &str) -> Result<SchemaRef> {
    let mut fields: Vec<Arc<Field>> = known.fields().iter().cloned().collect();
    let mut by_name: HashMap<String, Arc<Field>> = fields.iter().map(|field| (key(field.name()), field.clone())).collect();
    for field in more.fields() {
        match by_name.get(&key(field.name())) {
            Some(known) if equal_types(known.data_type(), field.data_type()) => {}
            Some(known) => {
                let message = format!(
                    "column '{}' of table '{table}' is {} and {}: cast it to one type, or refresh the table fully",
                    field.name(),
                    simple_name(known.data_type()),
                    simple_name(field.data_type()),
                );
                return Err(Error::new(ErrorKind::SchemaMismatch, "CANNOT_MERGE_INCOMPATIBLE_DATA_TYPE", message).with_sqlstate("42825"));
            }
            None => {
                by_name.insert(key(field.name()), field.clone());
                fields.push(field.clone());
            }
        }
    }
    Ok(Arc::new(Schema::new(fields)))
}

/// The same columns, all of which may be null: what a table stores.
pub(super) fn nullable(schema: &SchemaRef) -> SchemaRef {
    Arc::new(Schema::new(schema.fields().iter().map(|field| field.as_ref().clone().with_nullable(true)).collect::<Vec<_>>()))
}
