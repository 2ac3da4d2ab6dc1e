//! Functions of users from frames to frames: `mapInPandas`, `applyInPandas`, cogroups, and the same with Arrow.

use std::sync::Arc;

use arrow::datatypes::{Field, Schema, SchemaRef};
use datafusion::logical_expr::Expr;
use millstream_core::{Error, Result};
use spark_connect_proto::{CoGroupMap, CommonInlineUserDefinedFunction, Expression, GroupMap, MapPartitions};

use super::Attribute;
use super::columns::{fresh, item, project};
use super::expression::{Output, Resolver, Scope, Surroundings};
use super::gather::incomplete;
use super::normalize::normalized;
use super::relation::{Analyzer, Node};
use crate::functions::Typed;
use crate::python::plan::{self, CoGroup, Group};
use crate::python::{PythonFunction, kind};

impl Analyzer<'_> {
    /// `mapInPandas` and `mapInArrow`.
    pub(super) fn map_partitions(&self, map: &MapPartitions, outer: Option<&Scope<'_>>) -> Result<Node> {
        let input = self.input(map.input.as_deref(), outer)?;
        let function = function_of(map.func.as_ref(), &[kind::MAP_PANDAS, kind::MAP_ARROW])?;
        let visible: Vec<Attribute> = input.visible().cloned().collect();
        let given: Vec<Field> = visible.iter().map(Attribute::to_field).collect();
        let below = project(input.plan, visible.iter().map(Attribute::column).collect())?;
        let (columns, schema) = results(&function)?;
        Ok(Node::new(plan::map(self.python()?, below, &given, &function, schema)?, columns))
    }

    /// `groupBy(…).applyInPandas(…)` and `applyInArrow`.
    pub(super) fn group_map(&self, group: &GroupMap, outer: Option<&Scope<'_>>) -> Result<Node> {
        if let Some(info) = &group.transform_with_state_info {
            return self.transform_with_state(group, info, outer);
        }
        let kinds = [kind::GROUP_PANDAS, kind::GROUP_PANDAS_ITERATOR, kind::GROUP_ARROW, kind::GROUP_ARROW_ITERATOR];
        let function = function_of(group.func.as_ref(), &kinds)?;
        let input = self.input(group.input.as_deref(), outer)?;
        let of = self.grouped_rows(input, &group.grouping_expressions, outer)?;
        let (columns, schema) = results(&function)?;
        Ok(Node::new(plan::group(self.python()?, of, &function, schema)?, columns))
    }

    /// `cogroup(…).applyInPandas(…)` and `applyInArrow`.
    pub(super) fn cogroup_map(&self, cogroup: &CoGroupMap, outer: Option<&Scope<'_>>) -> Result<Node> {
        let function = function_of(cogroup.func.as_ref(), &[kind::COGROUP_PANDAS, kind::COGROUP_ARROW])?;
        let (left_keys, right_keys) = (&cogroup.input_grouping_expressions, &cogroup.other_grouping_expressions);
        if left_keys.len() != right_keys.len() {
            let message = format!("a cogroup has {} keys on one side and {} on the other", left_keys.len(), right_keys.len());
            return Err(Error::invalid("IllegalArgumentException", message));
        }
        let left = self.grouped_rows(self.input(cogroup.input.as_deref(), outer)?, left_keys, outer)?;
        let right = self.grouped_rows(self.input(cogroup.other.as_deref(), outer)?, right_keys, outer)?;
        let (columns, schema) = results(&function)?;
        Ok(Node::new(plan::cogroup(self.python()?, CoGroup { left, right }, &function, schema)?, columns))
    }

    /// A relation as a grouped function sees it: its keys beside its columns.
    pub(super) fn grouped_rows(&self, input: Node, keys: &[Expression], outer: Option<&Scope<'_>>) -> Result<Group> {
        let scope = Scope { columns: &input.columns, outer, computed: &[] };
        let resolver = Resolver::new(self.settings, &scope, self);
        let visible: Vec<&Attribute> = input.visible().collect();
        let mut own: Vec<(String, Typed)> = Vec::new();
        let mut places: Vec<Result<usize, usize>> = Vec::new();
        let mut compared: Vec<Typed> = Vec::new();
        for key in keys {
            for output in resolver.named(key)? {
                let Output::Column { name, value, .. } = output else {
                    return Err(Error::invalid("UNSUPPORTED_GENERATOR.OUTSIDE_SELECT", "rows cannot be grouped by a generator")
                        .with_sqlstate("42K0E"));
                };
                // A key that is a column of the frame is not sent twice.
                places.push(visible.iter().position(|column| column.column() == value.expr).ok_or_else(|| {
                    own.push((name, value.clone()));
                    own.len() - 1
                }));
                compared.push(normalized(&value).unwrap_or(value));
            }
        }
        let keys = places.into_iter().map(|place| place.map_or_else(|own| own, |of_frame| own.len() + of_frame)).collect();
        let given: Vec<Field> =
            own.iter().map(|(name, value)| value.to_field(name)).chain(visible.iter().map(|column| column.to_field())).collect();
        let mut items: Vec<Expr> = Vec::with_capacity(given.len() + compared.len());
        for (_, value) in &own {
            items.push(item(value, &fresh(), &input.plan)?);
        }
        // Columns get names of their own, so that the two sides of a cogroup may have the same.
        for column in &visible {
            items.push(item(&column.typed(), &fresh(), &input.plan)?);
        }
        let names: Vec<String> = compared.iter().map(|_| fresh()).collect();
        for (value, name) in compared.iter().zip(&names) {
            items.push(item(value, name, &input.plan)?);
        }
        let frame = (own.len()..given.len()).collect();
        Ok(Group { input: project(input.plan.clone(), items)?, given, keys, frame, compared: names })
    }
}

/// The function of a relation, which must be of one of these kinds.
pub(super) fn function_of(function: Option<&CommonInlineUserDefinedFunction>, kinds: &[i32]) -> Result<PythonFunction> {
    let function = PythonFunction::of(function.ok_or_else(|| incomplete("the function"))?)?;
    if kinds.contains(&function.kind) {
        return Ok(function);
    }
    let message = format!("Function with EvalType: {} is not supported", function.kind);
    Err(Error::invalid("INVALID_PLAN_INPUT", message))
}

/// The columns that a function gives, for the user and for the engine.
fn results(function: &PythonFunction) -> Result<(Vec<Attribute>, SchemaRef)> {
    let columns: Vec<Attribute> = function.columns()?.iter().map(|field| Attribute::of_field(field)).collect();
    // Whether a column has nulls is for the function to keep.
    let fields = columns.iter().map(|column| column.to_field().with_name(&column.internal).with_nullable(true));
    let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
    Ok((columns, schema))
}
