//! The columns of a query against the columns that its table declares.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use arrow::datatypes::{Field, Schema, SchemaRef};
use millstream_core::{Error, Result};

use crate::analyzer::apart::{attribute, computed, value_of};
use crate::analyzer::{Analyzed, Attribute};
use crate::functions::Typed;
use crate::pipelines::graph::Dataset;
use crate::pipelines::parser::DatasetKind;
use crate::pipelines::schema::{self, same_type};
use crate::sql::{Diagnostic, Position};
use crate::types::simple_name;

/// A view with the names that it declares for its columns.
pub(super) fn view(analyzed: Analyzed, dataset: &Dataset) -> Result<Analyzed> {
    let mut columns = shown(&analyzed);
    if !dataset.columns.is_empty() && columns.len() != dataset.columns.len() {
        let message = format!("view '{}' names {} column(s) but its query has {}", dataset.name, dataset.columns.len(), columns.len());
        return Err(Error::invalid("CREATE_VIEW_COLUMN_ARITY_MISMATCH", message).with_sqlstate("21S01"));
    }
    for (column, declared) in columns.iter_mut().zip(&dataset.columns) {
        column.name.clone_from(&declared.name);
    }
    of_columns(analyzed, columns.into_iter().map(|column| (value_of(&column), column)))
}

/// The columns that are not hidden.
fn shown(analyzed: &Analyzed) -> Vec<Attribute> {
    analyzed.columns.iter().filter(|column| !column.hidden).cloned().collect()
}

/// A relation of these columns, each with what computes it.
fn of_columns(analyzed: Analyzed, columns: impl Iterator<Item = (Typed, Attribute)>) -> Result<Analyzed> {
    computed(analyzed.plan, columns.map(|(value, column)| (column, value)).collect())
}

/// The relation with exactly the columns that its table declares, in their order. Columns that a flow of a streaming table does not have are
/// null, because other flows may have them.
pub(super) fn aligned(analyzed: Analyzed, dataset: &Dataset) -> Result<Analyzed, Diagnostic> {
    let query = shown(&analyzed);
    if let Some(name) = twice(&query) {
        let message = format!("the query of '{}' has two columns '{name}'", dataset.name);
        return Err(
            Diagnostic::new("COLUMN_ALREADY_EXISTS", "42711", dataset.position.clone(), message).with_hint("name one of them with AS")
        );
    }
    let refuse = |position: &Position, message: String, hint: &str| {
        Err(Diagnostic::new("USER_SPECIFIED_AND_INFERRED_SCHEMA_NOT_COMPATIBLE", "42000", position.clone(), message).with_hint(hint))
    };
    let declares = !dataset.columns.is_empty();
    let names: HashSet<String> = dataset.columns.iter().map(|column| key(&column.name)).collect();
    if let Some(column) = query.iter().find(|column| declares && !names.contains(&key(&column.name))) {
        let message = format!("the query has a column '{}' that '{}' does not declare", column.name, dataset.name);
        return refuse(&dataset.position, message, "declare it, or leave it out of the query");
    }
    let given: HashMap<String, &Attribute> = query.iter().map(|column| (key(&column.name), column)).collect();
    let mut aligned: Vec<(Typed, Attribute)> = Vec::with_capacity(dataset.columns.len().max(query.len()));
    if !declares {
        aligned.extend(query.iter().map(|column| (value_of(column), column.clone())));
    }
    for declared in &dataset.columns {
        match (given.get(&key(&declared.name)).copied(), &declared.field) {
            (Some(column), Some(wanted)) if !same_type(&column.data_type, wanted.data_type()) => {
                let (is, wants) = (simple_name(&column.data_type), simple_name(wanted.data_type()));
                let message = format!("column '{}' is declared as {wants}, but the query gives {is}", declared.name);
                return refuse(&declared.position, message, &format!("cast it: CAST({} AS {})", declared.name, wants.to_uppercase()));
            }
            (Some(column), _) => aligned.push((value_of(column), Attribute { name: declared.name.clone(), ..column.clone() })),
            (None, Some(wanted)) if dataset.kind == DatasetKind::StreamingTable => {
                let null = Typed::null(wanted.data_type());
                let column = attribute(&declared.name, &null);
                aligned.push((null, column));
            }
            (None, _) => {
                let message = format!("column '{}' is declared, but the query does not give it", declared.name);
                return refuse(&declared.position, message, "add it to the query, or do not declare it");
            }
        }
    }
    of_columns(analyzed, aligned.into_iter()).map_err(|error| Diagnostic::of(&dataset.position, &error))
}

/// A name that two columns have.
fn twice(columns: &[Attribute]) -> Option<&str> {
    let mut known = HashSet::new();
    columns.iter().find(|column| !known.insert(key(&column.name))).map(|column| column.name.as_str())
}

/// What names that are the same have in common.
fn key(name: &str) -> String {
    name.to_lowercase()
}

/// The columns of two flows into one table.
///
/// # Errors
/// `CANNOT_MERGE_INCOMPATIBLE_DATA_TYPE` where a column has two types.
pub(super) fn merged(known: &SchemaRef, more: &SchemaRef, table: &str) -> Result<SchemaRef> {
    schema::merged(known, more).map(Arc::new).map_err(|error| error.within(format!("table '{table}'")))
}

/// What a table stores: the same columns, all of which may be null.
pub(super) fn stored(schema: &Schema) -> SchemaRef {
    Arc::new(Schema::new(schema.fields().iter().map(|field| field.as_ref().clone().with_nullable(true)).collect::<Vec<Field>>()))
}
