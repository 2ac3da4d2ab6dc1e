//! Joins.

use std::any::Any;
use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{JoinType, NullEquality};
use datafusion::datasource::{provider_as_source, source_as_provider};
use datafusion::logical_expr::{Expr, ExprSchemable, Join as JoinPlan, JoinConstraint, LogicalPlan, Operator, lit, when};
use datafusion::scalar::ScalarValue;
use millstream_core::{Error, Result};
use millstream_engine::from_datafusion;
use millstream_engine::relation::StreamRelation;
use spark_connect_proto::Join;
use spark_connect_proto::join::JoinType as ProtoJoinType;

use super::Attribute;
use super::columns::{item, project};
use super::expression::{Resolver, Scope};
use super::normalize::normalized;
use super::project::contains_aggregate;
use super::relation::{Analyzer, Node};
use crate::functions::{Typed, cast, coercion, faults};
use crate::types::ddl_type;

impl Analyzer<'_> {
    pub(super) fn join(&self, join: &Join, outer: Option<&Scope<'_>>) -> Result<Node> {
        let left = self.input(join.left.as_deref(), outer)?;
        let right = self.input(join.right.as_deref(), outer)?;
        let kind = kind_of(join.join_type())?;
        // The parser writes `NATURAL JOIN` as a join using the column `*`.
        if matches!(join.using_columns.as_slice(), [all] if all == "*") {
            let names = self.shared_names(&left, &right);
            if !names.is_empty() {
                return self.join_using(left, right, kind, &names);
            }
        } else if !join.using_columns.is_empty() {
            return self.join_using(left, right, kind, &join.using_columns);
        }
        let (left, right) = separated(left, right)?;
        let Some(condition) = &join.join_condition else {
            return joined(left, right, kind, None);
        };
        let columns: Vec<Attribute> = left.columns.iter().chain(&right.columns).cloned().collect();
        let scope = Scope { columns: &columns, outer, computed: &[] };
        let condition = self.value(condition, &scope)?;
        if !matches!(condition.data_type, arrow::datatypes::DataType::Boolean | arrow::datatypes::DataType::Null) {
            return Err(Error::invalid(
                "JOIN_CONDITION_IS_NOT_BOOLEAN_TYPE",
                format!("the condition of a join is a \"{}\" and not a boolean", ddl_type(&condition.data_type)),
            )
            .with_sqlstate("42K0E"));
        }
        if contains_aggregate(&condition.expr) {
            return Err(
                Error::invalid("INVALID_JOIN_CONDITION", "the condition of a join cannot have aggregate functions").with_sqlstate("42903")
            );
        }
        let condition = cast::implicit(condition, &arrow::datatypes::DataType::Boolean, self.settings)?;
        joined(left, right, kind, Some(condition.expr))
    }

    /// `JOIN … USING (…)`: the columns named come once and first.
    pub(super) fn join_using(&self, left: Node, right: Node, kind: JoinType, names: &[String]) -> Result<Node> {
        let (left, right) = separated(left, right)?;
        let mut pairs: Vec<(Attribute, Attribute)> = Vec::with_capacity(names.len());
        for name in names {
            let found = |side: &Node, which: &str| -> Result<Attribute> {
                let scope = Scope { columns: &side.columns, outer: None, computed: &[] };
                let place = Resolver::new(self.settings, &scope, self).place(std::slice::from_ref(name)).map_err(|error| {
                    if error.code().starts_with("UNRESOLVED_COLUMN") {
                        Error::invalid(
                            "UNRESOLVED_USING_COLUMN_FOR_JOIN",
                            format!("the column `{name}` to join by is not on the {which} side"),
                        )
                        .with_sqlstate("42703")
                    } else {
                        error
                    }
                })?;
                side.columns.get(place).cloned().ok_or_else(|| Error::internal("a column that was found is not there"))
            };
            pairs.push((found(&left, "left")?, found(&right, "right")?));
        }
        let mut condition: Option<Expr> = None;
        for (one, other) in &pairs {
            let equal = self.equal(one.typed(), other.typed())?;
            condition = Some(match condition {
                Some(condition) => condition.and(equal),
                None => equal,
            });
        }
        let is_left_key = |column: &Attribute| pairs.iter().any(|(key, _)| key.internal == column.internal);
        let is_right_key = |column: &Attribute| pairs.iter().any(|(_, key)| key.internal == column.internal);
        let rest: Vec<Attribute> = match kind {
            JoinType::LeftSemi | JoinType::LeftAnti => left.columns.iter().filter(|column| !is_left_key(column)).cloned().collect(),
            _ => {
                let lefts = left.columns.iter().filter(|column| !is_left_key(column));
                lefts.chain(right.columns.iter().filter(|column| !is_right_key(column))).cloned().collect()
            }
        };
        let joined = joined(left, right, kind, condition)?;
        let nullable = |column: Attribute| joined.columns.iter().find(|known| known.internal == column.internal).cloned().unwrap_or(column);
        let mut items: Vec<Expr> = Vec::new();
        let mut columns: Vec<Attribute> = Vec::new();
        let mut hidden: Vec<Attribute> = Vec::new();
        for (one, other) in pairs {
            let (one, other) = (nullable(one), nullable(other));
            let key = match kind {
                JoinType::Right => {
                    hidden.push(one.hidden());
                    Attribute { hidden: false, ..other }
                }
                JoinType::Full => {
                    let key = self.coalesced(&one, &other)?;
                    let attribute = Attribute::of(&one.name, &key);
                    items.push(item(&key, &attribute.internal, &joined.plan)?);
                    columns.push(attribute);
                    hidden.extend([one.hidden(), other.hidden()]);
                    continue;
                }
                JoinType::LeftSemi | JoinType::LeftAnti => Attribute { hidden: false, ..one },
                _ => {
                    hidden.push(other.hidden());
                    Attribute { hidden: false, ..one }
                }
            };
            items.push(key.column());
            columns.push(key);
        }
        // The other side's column of a key can still be called by its table.
        for column in rest.into_iter().map(nullable).chain(hidden) {
            items.push(column.column());
            columns.push(column);
        }
        Ok(Node::new(project(joined.plan, items)?, columns))
    }

    /// The columns of the same name on both sides, for `NATURAL JOIN`.
    fn shared_names(&self, left: &Node, right: &Node) -> Vec<String> {
        left.visible().filter(|one| right.visible().any(|other| self.same(&one.name, &other.name))).map(|one| one.name.clone()).collect()
    }

    /// Whether two values are equal, after their types were brought together.
    pub(super) fn equal(&self, one: Typed, other: Typed) -> Result<Expr> {
        let types = (ddl_type(&one.data_type), ddl_type(&other.data_type));
        let (_, both) = coercion::to_common_type("=", vec![one, other], self.settings)
            .map_err(|_| faults::mismatch("BINARY_OP_DIFF_TYPES", format!("\"{}\" and \"{}\" cannot be compared", types.0, types.1)))?;
        let mut both = both.into_iter().map(|value| normalized(&value).unwrap_or(value).expr);
        match (both.next(), both.next()) {
            (Some(one), Some(other)) => Ok(one.eq(other)),
            _ => Err(Error::internal("two values were brought together")),
        }
    }

    fn coalesced(&self, one: &Attribute, other: &Attribute) -> Result<Typed> {
        let (data_type, both) = coercion::to_common_type("coalesce", vec![one.typed(), other.typed()], self.settings)?;
        let mut both = both.into_iter();
        let (Some(first), Some(second)) = (both.next(), both.next()) else {
            return Err(Error::internal("two values were brought together"));
        };
        let expr = when(first.expr.clone().is_not_null(), first.expr).otherwise(second.expr).map_err(from_datafusion)?;
        Ok(Typed::new(expr, data_type, first.nullable && second.nullable))
    }
}

/// The planner's kind of a join.
pub(super) fn kind_of(kind: ProtoJoinType) -> Result<JoinType> {
    Ok(match kind {
        ProtoJoinType::Inner | ProtoJoinType::Cross => JoinType::Inner,
        ProtoJoinType::FullOuter => JoinType::Full,
        ProtoJoinType::LeftOuter => JoinType::Left,
        ProtoJoinType::RightOuter => JoinType::Right,
        ProtoJoinType::LeftAnti => JoinType::LeftAnti,
        ProtoJoinType::LeftSemi => JoinType::LeftSemi,
        ProtoJoinType::Unspecified => {
            return Err(Error::invalid("INVALID_PLAN_INPUT", "the kind of a join is missing").with_sqlstate("42000"));
        }
    })
}

/// A join; its columns are those of the left and, unless it only filters the left, of the right.
pub(super) fn joined(left: Node, right: Node, kind: JoinType, condition: Option<Expr>) -> Result<Node> {
    let of_left = |column: &str| left.columns.iter().any(|known| known.internal == column);
    let of_right = |column: &str| right.columns.iter().any(|known| known.internal == column);
    let mut on: Vec<(Expr, Expr)> = Vec::new();
    let mut rest: Vec<Expr> = Vec::new();
    for part in condition.map(conjuncts).unwrap_or_default() {
        let only = |expr: &Expr, side: &dyn Fn(&str) -> bool| {
            let columns = expr.column_refs();
            !columns.is_empty() && columns.iter().all(|column| side(&column.name)) && !expr.is_volatile() && !expr.contains_outer()
        };
        let pair = sides_of(&part).and_then(|(one, other, null_safe)| {
            if only(one, &of_left) && only(other, &of_right) {
                Some((one.clone(), other.clone(), null_safe))
            } else if only(one, &of_right) && only(other, &of_left) {
                Some((other.clone(), one.clone(), null_safe))
            } else {
                None
            }
        });
        match pair {
            Some((one, other, false)) => on.push((one, other)),
            Some((one, other, true)) => match null_safe_keys(&one, &other, &left, &right) {
                Some(keys) => on.extend(keys),
                None => rest.push(part),
            },
            None => rest.push(part),
        }
    }
    let mut filter = rest.into_iter().reduce(Expr::and);
    if on.is_empty() && filter.is_none() && kind != JoinType::Inner {
        filter = Some(lit(true));
    }
    let (left_nullable, right_nullable) = match kind {
        JoinType::Left => (false, true),
        JoinType::Right => (true, false),
        JoinType::Full => (true, true),
        _ => (false, false),
    };
    let side = |columns: Vec<Attribute>, nullable: bool| {
        columns.into_iter().map(move |column| Attribute { nullable: column.nullable || nullable, ..column })
    };
    let columns: Vec<Attribute> = match kind {
        JoinType::LeftSemi | JoinType::LeftAnti => left.columns,
        _ => side(left.columns, left_nullable).chain(side(right.columns, right_nullable)).collect(),
    };
    let join = JoinPlan::try_new(
        Arc::new(left.plan),
        Arc::new(right.plan),
        on,
        filter,
        kind,
        JoinConstraint::On,
        NullEquality::NullEqualsNothing,
        false,
    );
    Ok(Node::new(join.map(LogicalPlan::Join).map_err(from_datafusion)?, columns))
}

/// The two values that a condition says are equal, and whether nulls are equal to it. Comparisons of nested values are functions.
fn sides_of(condition: &Expr) -> Option<(&Expr, &Expr, bool)> {
    match condition {
        Expr::BinaryExpr(binary) if binary.op == Operator::Eq => Some((&binary.left, &binary.right, false)),
        Expr::BinaryExpr(binary) if binary.op == Operator::IsNotDistinctFrom => Some((&binary.left, &binary.right, true)),
        Expr::ScalarFunction(function) => match (function.func.name(), function.args.as_slice()) {
            ("=", [one, other]) => Some((one, other, false)),
            _ => None,
        },
        _ => None,
    }
}

/// Keys that are equal where two values are, nulls included: the values with nulls replaced, and whether they are null.
fn null_safe_keys(one: &Expr, other: &Expr, left: &Node, right: &Node) -> Option<[(Expr, Expr); 2]> {
    let data_type = one.get_type(left.plan.schema().as_ref()).ok()?;
    if other.get_type(right.plan.schema().as_ref()).ok()? != data_type {
        return None;
    }
    let default = ScalarValue::new_default(&data_type).ok()?;
    let filled = |value: &Expr| when(value.clone().is_not_null(), value.clone()).otherwise(lit(default.clone())).ok();
    Some([(filled(one)?, filled(other)?), (one.clone().is_null(), other.clone().is_null())])
}

/// The parts of a condition that must all hold.
pub(super) fn conjuncts(condition: Expr) -> Vec<Expr> {
    datafusion::logical_expr::utils::split_conjunction_owned(condition)
}

/// The sides of a join. When a column of one stream comes to both of them unchanged, the right side reads the stream once more, as in
/// Spark.
pub(super) fn separated(left: Node, right: Node) -> Result<(Node, Node)> {
    let of_left: Vec<(usize, usize)> = left.columns.iter().filter_map(|column| origin(&left.plan, &column.internal)).collect();
    let again: Vec<usize> = right
        .columns
        .iter()
        .filter_map(|column| origin(&right.plan, &column.internal))
        .filter(|origin| of_left.contains(origin))
        .map(|(stream, _)| stream)
        .collect();
    if again.is_empty() {
        return Ok((left, right));
    }
    let mut copies: Vec<(usize, Arc<StreamRelation>)> = Vec::new();
    let plan = right.plan.clone().transform_up(|node| {
        let LogicalPlan::TableScan(mut scan) = node else { return Ok(Transformed::no(node)) };
        let Some((identity, stream)) = stream_of(&scan) else { return Ok(Transformed::no(LogicalPlan::TableScan(scan))) };
        if !again.contains(&identity) {
            return Ok(Transformed::no(LogicalPlan::TableScan(scan)));
        }
        let copy = match copies.iter().find(|(known, _)| *known == identity) {
            Some((_, copy)) => copy.clone(),
            None => {
                let copy = Arc::new(stream);
                copies.push((identity, copy.clone()));
                copy
            }
        };
        scan.source = provider_as_source(copy);
        Ok(Transformed::yes(LogicalPlan::TableScan(scan)))
    });
    let plan = plan.map_err(from_datafusion)?.data;
    Ok((left, right.over(plan)))
}

fn stream_of(scan: &datafusion::logical_expr::TableScan) -> Option<(usize, StreamRelation)> {
    let provider = source_as_provider(&scan.source).ok()?;
    let stream = (provider.as_ref() as &dyn Any).downcast_ref::<StreamRelation>()?.clone();
    Some((Arc::as_ptr(&provider).cast::<()>() as usize, stream))
}

/// The stream and the place of its column that a column is, unchanged.
fn origin(plan: &LogicalPlan, internal: &str) -> Option<(usize, usize)> {
    match plan {
        LogicalPlan::Projection(projection) => {
            let place = projection.schema.fields().iter().position(|field| field.name() == internal)?;
            match (projection.expr.get(place)?, projection.input.as_ref()) {
                (Expr::Column(column), input) => origin(input, &column.name),
                (Expr::Alias(alias), LogicalPlan::TableScan(scan)) => match alias.expr.as_ref() {
                    Expr::Column(column) => {
                        let (identity, _) = stream_of(scan)?;
                        Some((identity, scan.projected_schema.index_of_column(column).ok()?))
                    }
                    _ => None,
                },
                _ => None,
            }
        }
        LogicalPlan::TableScan(_) => None,
        other => other
            .inputs()
            .into_iter()
            .find(|input| input.schema().fields().iter().any(|field| field.name() == internal))
            .and_then(|input| origin(input, internal)),
    }
}
