//! `distinct` and `dropDuplicates`.

use arrow::datatypes::DataType;
use datafusion::common::Column;
use datafusion::functions_aggregate::first_last::first_value_udaf;
use datafusion::logical_expr::expr::AggregateFunction;
use datafusion::logical_expr::{Aggregate, Expr, LogicalPlan};
use millstream_core::{Error, Result};
use millstream_engine::from_datafusion;
use millstream_engine::plan::is_streaming;
use millstream_engine::stateful::{Deduplicate as Streaming, WATERMARK_DELAY};
use spark_connect_proto::Deduplicate;
use std::sync::Arc;

use super::Attribute;
use super::columns::{fresh, item, project};
use super::expression::Scope;
use super::normalize::normalized;
use super::relation::{Analyzer, Node};
use crate::functions::Typed;

impl Analyzer<'_> {
    pub(super) fn deduplicate(&self, deduplicate: &Deduplicate, outer: Option<&Scope<'_>>) -> Result<Node> {
        let input = self.input(deduplicate.input.as_deref(), outer)?;
        let within = deduplicate.within_watermark();
        let mut keys: Vec<usize> = Vec::new();
        if deduplicate.all_columns_as_keys() || deduplicate.column_names.is_empty() {
            keys = input.columns.iter().enumerate().filter(|(_, column)| !column.hidden).map(|(index, _)| index).collect();
        } else {
            for name in &deduplicate.column_names {
                // A name may occur several times, and then all of them are keys.
                let found = input.columns.iter().enumerate().filter(|(_, column)| !column.hidden && self.same(&column.name, name));
                let before = keys.len();
                keys.extend(found.map(|(index, _)| index));
                if keys.len() == before {
                    return Err(unresolved_among(name, &input));
                }
            }
        }
        keys.sort_unstable();
        keys.dedup();
        let columns: Vec<&Attribute> = keys.iter().filter_map(|key| input.columns.get(*key)).collect();
        refuse_maps(columns.iter().copied())?;
        if is_streaming(&input.plan)? {
            return streaming(input.clone(), &columns, within);
        }
        if within {
            return Err(Error::invalid(
                "_LEGACY_ERROR_TEMP_3102",
                "dropDuplicatesWithinWatermark is not supported with batch DataFrames/DataSets",
            ));
        }
        batch(input.clone(), &columns)
    }
}

/// Sets of rows cannot have maps in them.
pub(super) fn refuse_maps<'a>(columns: impl IntoIterator<Item = &'a Attribute>) -> Result<()> {
    fn has_map(data_type: &DataType) -> bool {
        match data_type {
            DataType::Map(..) => true,
            DataType::List(element) => has_map(element.data_type()),
            DataType::Struct(fields) => fields.iter().any(|field| has_map(field.data_type())),
            _ => false,
        }
    }
    match columns.into_iter().find(|column| has_map(&column.data_type)) {
        Some(column) => Err(Error::invalid(
            "UNSUPPORTED_FEATURE.SET_OPERATION_ON_MAP_TYPE",
            format!("rows cannot be compared by the column `{}`: it is or has a map", column.name),
        )
        .with_sqlstate("0A000")),
        None => Ok(()),
    }
}

/// Keys under their normal form beside the columns.
fn with_keys(input: Node, keys: &[&Attribute]) -> Result<(LogicalPlan, Vec<Attribute>)> {
    let mut items: Vec<Expr> = input.columns.iter().map(Attribute::column).collect();
    let mut by: Vec<Attribute> = Vec::with_capacity(keys.len());
    let before = items.len();
    for key in keys {
        match normalized(&key.typed()) {
            Some(mut value) => {
                value.metadata.remove(WATERMARK_DELAY);
                let column = Attribute::of(&key.name, &value);
                items.push(item(&value, &column.internal, &input.plan)?);
                by.push(column);
            }
            None => by.push((*key).clone()),
        }
    }
    let plan = if items.len() == before { input.plan } else { project(input.plan, items)? };
    Ok((plan, by))
}

fn streaming(input: Node, keys: &[&Attribute], within: bool) -> Result<Node> {
    let columns = input.columns.clone();
    let (plan, by) = with_keys(input, keys)?;
    let by = by.iter().map(|key| Column::new_unqualified(key.internal.clone()));
    let plan = Streaming::try_new(plan, by, within)?.into_plan();
    Ok(Node::new(super::extend::restored(plan, &columns)?, columns))
}

/// The different rows.
pub(super) fn distinct_rows(input: Node) -> Result<Node> {
    refuse_maps(&input.columns)?;
    let columns = input.columns.clone();
    batch(input, &columns.iter().collect::<Vec<_>>())
}

/// The first row of each key.
fn batch(input: Node, keys: &[&Attribute]) -> Result<Node> {
    let columns = input.columns.clone();
    if keys.is_empty() {
        let plan = super::limit::limited(input.plan, 0, Some(1))?;
        return Ok(Node::new(plan, columns));
    }
    let (plan, by) = with_keys(input, keys)?;
    let group: Vec<Expr> = by.iter().map(Attribute::column).collect();
    let mut firsts: Vec<Expr> = Vec::new();
    let mut items: Vec<Expr> = Vec::with_capacity(columns.len());
    let mut shown: Vec<(Typed, String)> = Vec::with_capacity(columns.len());
    for column in &columns {
        // A key is shown in its normal form.
        let key = keys.iter().zip(&by).find(|(key, _)| key.internal == column.internal);
        if let Some((_, normal)) = key {
            shown.push((Typed { expr: normal.column(), ..column.typed() }, column.internal.clone()));
            continue;
        }
        let internal = fresh();
        let first = AggregateFunction::new_udf(first_value_udaf(), vec![column.column()], false, None, Vec::new(), None);
        firsts.push(Expr::AggregateFunction(first).alias(&internal));
        let value = Typed { expr: super::columns::column(&internal), ..column.typed() };
        shown.push((value, column.internal.clone()));
    }
    let plan = Aggregate::try_new(Arc::new(plan), group, firsts).map(LogicalPlan::Aggregate).map_err(from_datafusion)?;
    for (value, internal) in &shown {
        items.push(item(value, internal, &plan)?);
    }
    Ok(Node::new(project(plan, items)?, columns))
}

/// No column has that name.
pub(super) fn unresolved_among(name: &str, input: &Node) -> Error {
    let names: Vec<&str> = input.visible().map(|column| column.name.as_str()).take(20).collect();
    Error::invalid("UNRESOLVED_COLUMN_AMONG_FIELD_NAMES", format!("there is no column `{name}` among {}", names.join(", ")))
        .with_sqlstate("42703")
}
