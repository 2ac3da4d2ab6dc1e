//! Lateral joins, `LATERAL VIEW`, and table functions.

use std::sync::Arc;

use arrow::datatypes::DataType;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{JoinType, Spans};
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder, Subquery};
use datafusion::scalar::ScalarValue;
use millstream_core::{Error, Result};
use millstream_engine::from_datafusion;
use spark_connect_proto::relation::RelType;
use spark_connect_proto::{CommonInlineUserDefinedTableFunction, LateralJoin, Relation, UnresolvedTableValuedFunction};

use super::call::function;
use super::expression::{Output, Resolver, Scope};
use super::filter::filtered;
use super::gather::incomplete;
use super::join::{joined, kind_of};
use super::range::sequence;
use super::relation::{Analyzer, Node};
use super::{Attribute, columns};
use crate::functions::{Typed, cast, coercion, faults};

impl Analyzer<'_> {
    pub(super) fn lateral_join(&self, join: &LateralJoin, outer: Option<&Scope<'_>>) -> Result<Node> {
        let left = self.input(join.left.as_deref(), outer)?;
        let right = join.right.as_deref().ok_or_else(|| incomplete("the right side of a lateral join"))?;
        let kind = kind_of(join.join_type())?;
        if !matches!(kind, JoinType::Inner | JoinType::Left) {
            return Err(Error::invalid("UNSUPPORTED_JOIN_TYPE", format!("a lateral join is an inner, cross or left join, and not {kind}"))
                .with_sqlstate("0A000"));
        }
        let scope = Scope { columns: &left.columns, outer, computed: &[] };
        if let Some((function, qualifier, names)) = generator_of(right)
            && (kind == JoinType::Inner || join.join_condition.is_none())
        {
            let keeps = kind == JoinType::Left;
            let (node, generated) = match function {
                Generating::Builtin(function) => self.beside(left.clone(), function, &scope, names, keeps)?,
                Generating::User(call) => self.table_call(left.clone(), call, outer, &names, keeps)?,
            };
            let mut node = shown(node, &generated, &qualifier);
            if let Some(condition) = &join.join_condition {
                let scope = Scope { columns: &node.columns, outer, computed: &[] };
                let condition = self.condition(condition, &scope, "a lateral join")?;
                node.plan = filtered(node.plan.clone(), condition.expr)?;
            }
            return Ok(node);
        }
        let right = self.relation(right, Some(&scope))?;
        if let Some(plan) = over_row(&right.plan, &left.plan).filter(|_| kind == JoinType::Inner) {
            let columns: Vec<Attribute> = left.columns.into_iter().chain(right.columns).collect();
            let mut node = Node::new(columns::project(plan?, columns.iter().map(Attribute::column).collect())?, columns);
            if let Some(condition) = &join.join_condition {
                let scope = Scope { columns: &node.columns, outer, computed: &[] };
                let condition = self.condition(condition, &scope, "a lateral join")?;
                node.plan = filtered(node.plan.clone(), condition.expr)?;
            }
            return Ok(node);
        }
        let condition = match &join.join_condition {
            Some(condition) => {
                let columns: Vec<Attribute> = left.columns.iter().chain(&right.columns).cloned().collect();
                let scope = Scope { columns: &columns, outer, computed: &[] };
                Some(self.condition(condition, &scope, "a lateral join")?.expr)
            }
            None => None,
        };
        let outer_ref_columns = right.plan.all_out_ref_exprs();
        let plan = if outer_ref_columns.is_empty() {
            right.plan
        } else {
            LogicalPlan::Subquery(Subquery { subquery: Arc::new(right.plan), outer_ref_columns, spans: Spans::new() })
        };
        joined(left, Node::new(plan, right.columns), kind, condition)
    }

    /// A relation with the columns of a generator, which may refer to it, beside its own.
    fn beside(
        &self,
        input: Node,
        called: &UnresolvedTableValuedFunction,
        scope: &Scope<'_>,
        names: Vec<String>,
        outer: bool,
    ) -> Result<(Node, Vec<Attribute>)> {
        let call = function(&called.function_name, called.arguments.clone());
        let outputs = Resolver::new(self.settings, scope, self).named(&call)?;
        match outputs.into_iter().next() {
            Some(Output::Generator { function, outer: of_call, arguments, argument_names, .. }) => {
                self.generate(input, &function, arguments, &argument_names, names, outer || of_call)
            }
            _ => Err(not_a_table_function(&called.function_name)),
        }
    }

    /// `range(…)`, `explode(…)` and the like as relations.
    pub(super) fn table_function(&self, called: &UnresolvedTableValuedFunction, outer: Option<&Scope<'_>>) -> Result<Node> {
        let scope = Scope { columns: &[], outer, computed: &[] };
        if called.function_name.eq_ignore_ascii_case("range") {
            let values = called.arguments.iter().map(|argument| self.value(argument, &scope)).collect::<Result<Vec<_>>>()?;
            return self.range_of(&values);
        }
        let row = LogicalPlanBuilder::empty(true).build().map_err(from_datafusion)?;
        let (node, generated) = self.beside(Node::new(row, Vec::new()), called, &scope, Vec::new(), false)?;
        let columns: Vec<Attribute> = generated;
        let plan = columns::project(node.plan, columns.iter().map(Attribute::column).collect())?;
        Ok(Node::new(plan, columns))
    }

    fn range_of(&self, values: &[Typed]) -> Result<Node> {
        let number = |place: usize| -> Result<i64> {
            let value = values.get(place).ok_or_else(|| faults::wrong_number("range", place + 1, values.len()))?;
            let unexpected = || faults::unexpected_type("range", place, "\"BIGINT\"", &value.data_type);
            if !coercion::implicitly_castable(&value.data_type, &DataType::Int64, self.settings) && !value.data_type.is_integer() {
                return Err(unexpected());
            }
            match coercion::constant_of(&cast::implicit(value.clone(), &DataType::Int64, self.settings)?) {
                Some(ScalarValue::Int64(Some(number))) => Ok(number),
                _ => Err(faults::not_foldable("range", place)),
            }
        };
        match values.len() {
            1 => sequence(0, number(0)?, 1, None),
            2 => sequence(number(0)?, number(1)?, 1, None),
            3 => sequence(number(0)?, number(1)?, number(2)?, None),
            4 => sequence(number(0)?, number(1)?, number(2)?, i32::try_from(number(3)?).ok()),
            other => Err(faults::wrong_number("range", "[1, 2, 3, 4]", other)),
        }
    }
}

/// A plan that reads nothing but its one row, computed for each row of `left` instead, whose columns it then has as well; `None` for
/// plans that read something.
fn over_row(plan: &LogicalPlan, left: &LogicalPlan) -> Option<Result<LogicalPlan>> {
    match plan {
        LogicalPlan::EmptyRelation(row) if row.produce_one_row => Some(Ok(left.clone())),
        LogicalPlan::Projection(_) | LogicalPlan::Filter(_) | LogicalPlan::Unnest(_) => {
            let [input] = plan.inputs().try_into().ok()?;
            Some(over_row(input, left)?.and_then(|input| on_top(plan, input, left)))
        }
        _ => None,
    }
}

/// A node over another input, with the columns of `left` that its subqueries referred to as their outer ones.
fn on_top(node: &LogicalPlan, input: LogicalPlan, left: &LogicalPlan) -> Result<LogicalPlan> {
    let own = |expr: Expr| {
        expr.transform_up(|part| match part {
            Expr::OuterReferenceColumn(_, column) if left.schema().has_column(&column) => Ok(Transformed::yes(Expr::Column(column))),
            other => Ok(Transformed::no(other)),
        })
        .map(|own| own.data)
        .map_err(from_datafusion)
    };
    match node {
        LogicalPlan::Projection(projection) => {
            let mut items: Vec<Expr> = left.schema().fields().iter().map(|field| columns::column(field.name())).collect();
            for expr in &projection.expr {
                items.push(own(expr.clone())?);
            }
            columns::project(input, items)
        }
        LogicalPlan::Filter(filter) => filtered(input, own(filter.predicate.clone())?),
        other => other.with_new_exprs(Vec::new(), vec![input]).map_err(from_datafusion),
    }
}

/// A function that gives rows.
#[derive(Clone, Copy)]
enum Generating<'a> {
    Builtin(&'a UnresolvedTableValuedFunction),
    User(&'a CommonInlineUserDefinedTableFunction),
}

/// The generator that a relation is, the name that its columns are called by, and theirs.
fn generator_of(relation: &Relation) -> Option<(Generating<'_>, Vec<String>, Vec<String>)> {
    match relation.rel_type.as_ref()? {
        RelType::UnresolvedTableValuedFunction(function) if !function.function_name.eq_ignore_ascii_case("range") => {
            Some((Generating::Builtin(function), Vec::new(), Vec::new()))
        }
        RelType::CommonInlineUserDefinedTableFunction(call) => Some((Generating::User(call), Vec::new(), Vec::new())),
        RelType::SubqueryAlias(alias) => {
            let (function, _, names) = generator_of(alias.input.as_deref()?)?;
            Some((function, alias.qualifier.iter().cloned().chain([alias.alias.clone()]).collect(), names))
        }
        RelType::ToDf(to) => {
            let (function, qualifier, _) = generator_of(to.input.as_deref()?)?;
            Some((function, qualifier, to.column_names.clone()))
        }
        _ => None,
    }
}

/// The relation with the columns of a generator in sight, under a name.
fn shown(mut node: Node, generated: &[Attribute], qualifier: &[String]) -> Node {
    for column in &mut node.columns {
        if generated.iter().any(|known| known.internal == column.internal) {
            column.hidden = false;
            column.qualifier = qualifier.to_vec();
        }
    }
    node.closed()
}

fn not_a_table_function(name: &str) -> Error {
    Error::invalid("UNRESOLVABLE_TABLE_VALUED_FUNCTION", format!("there is no table function `{name}`")).with_sqlstate("42883")
}
