//! `union`, `unionByName`, `intersect` and `except`.

use std::sync::Arc;

use arrow::datatypes::DataType;
use datafusion::common::{JoinType, NullEquality};
use datafusion::logical_expr::{Expr, Join, JoinConstraint, LogicalPlan, LogicalPlanBuilder, Union, lit, when};
use datafusion::scalar::ScalarValue;
use millstream_core::{Error, Result};
use millstream_engine::from_datafusion;
use millstream_engine::plan::is_streaming;
use millstream_engine::stateful::ExceptAllRows;
use spark_connect_proto::SetOperation;
use spark_connect_proto::set_operation::SetOpType;

use super::Attribute;
use super::columns::{already_exists, column, fresh, item, project};
use super::deduplicate::{distinct_rows, refuse_maps, unresolved_among};
use super::expression::{Resolver, Scope};
use super::normalize::normalized;
use super::relation::{Analyzer, Node};
use super::rows;
use crate::functions::aggregate::{Aggregates, Clauses};
use crate::functions::{Argument, Call, Typed, cast, coercion};
use crate::types::ddl_type;

impl Analyzer<'_> {
    pub(super) fn set_operation(&self, operation: &SetOperation, outer: Option<&Scope<'_>>) -> Result<Node> {
        let left = self.input(operation.left_input.as_deref(), outer)?;
        let right = self.input(operation.right_input.as_deref(), outer)?;
        let left = restricted(left)?;
        let right = restricted(right)?;
        let (left, right) = if operation.by_name() { self.by_name(left, right, operation.allow_missing_columns())? } else { (left, right) };
        let all = operation.is_all();
        match operation.set_op_type() {
            SetOpType::Union => {
                let union = self.union(left, right)?;
                if all { Ok(union) } else { distinct_rows(union) }
            }
            kind @ (SetOpType::Intersect | SetOpType::Except) => self.compared(left, right, kind, all),
            SetOpType::Unspecified => {
                Err(Error::invalid("INVALID_PLAN_INPUT", "the kind of a set operation is missing").with_sqlstate("42000"))
            }
        }
    }

    /// Both sides with the same types, under internal names of their own.
    fn aligned(&self, left: Node, right: Node, operation: &str) -> Result<(Node, Node)> {
        if left.columns.len() != right.columns.len() {
            return Err(Error::invalid(
                "NUM_COLUMNS_MISMATCH",
                format!(
                    "{operation} needs the same number of columns on both sides, but there are {} and {}",
                    left.columns.len(),
                    right.columns.len()
                ),
            )
            .with_sqlstate("42826"));
        }
        let mut lefts: Vec<(Typed, Attribute)> = Vec::with_capacity(left.columns.len());
        let mut rights: Vec<(Typed, Attribute)> = Vec::with_capacity(left.columns.len());
        for (place, (one, other)) in left.columns.iter().zip(&right.columns).enumerate() {
            let common = coercion::common_type(&one.data_type, &other.data_type, self.settings).ok_or_else(|| {
                Error::invalid(
                    "INCOMPATIBLE_COLUMN_TYPE",
                    format!(
                        "column {} of {operation} is a \"{}\" on one side and a \"{}\" on the other",
                        place + 1,
                        ddl_type(&one.data_type),
                        ddl_type(&other.data_type)
                    ),
                )
                .with_sqlstate("42825")
            })?;
            // What a column of the left is, such as event time, the column of the union is.
            for (column, sides) in [(one, &mut lefts), (other, &mut rights)] {
                let value = cast::implicit(column.typed(), &common, self.settings)?;
                let value = Typed { nullable: one.nullable || other.nullable, metadata: one.metadata.clone(), ..value };
                let attribute = Attribute::of(&one.name, &value);
                sides.push((value, Attribute { qualifier: column.qualifier.clone(), plan_ids: column.plan_ids.clone(), ..attribute }));
            }
        }
        let left = aligned_side(left, lefts)?;
        let mut right = aligned_side(right, rights)?;
        for (one, other) in left.columns.iter().zip(&mut right.columns) {
            other.name.clone_from(&one.name);
        }
        Ok((left, right))
    }

    pub(super) fn union(&self, left: Node, right: Node) -> Result<Node> {
        let (left, right) = self.aligned(left, right, "UNION")?;
        // The columns of both sides get the names of the union's.
        let names: Vec<String> = left.columns.iter().map(|_| fresh()).collect();
        let renamed = |node: &Node| -> Result<LogicalPlan> {
            let items = node
                .columns
                .iter()
                .zip(&names)
                .map(|(column, name)| item(&column.typed(), name, &node.plan))
                .collect::<Result<Vec<Expr>>>()?;
            project(node.plan.clone(), items)
        };
        let inputs = vec![Arc::new(renamed(&left)?), Arc::new(renamed(&right)?)];
        let plan = Union::try_new(inputs).map(LogicalPlan::Union).map_err(from_datafusion)?;
        let columns = left.columns.into_iter().zip(names).map(|(column, internal)| Attribute { internal, ..column }).collect();
        Ok(Node::new(plan, columns))
    }

    /// The right side in the order of the left; with `missing` allowed, columns of one side only are null on the other.
    fn by_name(&self, left: Node, right: Node, missing: bool) -> Result<(Node, Node)> {
        for side in [&left, &right] {
            for (place, column) in side.columns.iter().enumerate() {
                if side.columns.iter().take(place).any(|known| self.same(&known.name, &column.name)) {
                    return Err(already_exists(&column.name));
                }
            }
        }
        let mut taken: Vec<&str> = Vec::new();
        let mut rights: Vec<(Typed, Attribute)> = Vec::new();
        for column in &left.columns {
            match right.columns.iter().find(|other| self.same(&other.name, &column.name)) {
                Some(other) => {
                    taken.push(&other.internal);
                    let value = if missing { self.widened(other.typed(), &column.data_type)? } else { other.typed() };
                    let attribute = if value.expr == other.column() { other.clone() } else { Attribute::of(&other.name, &value) };
                    rights.push((value, attribute));
                }
                None if missing => {
                    let value = Typed::null(&DataType::Null);
                    rights.push((value.clone(), Attribute::of(&column.name, &value)));
                }
                None => return Err(unresolved_among(&column.name, &right)),
            }
        }
        let extra: Vec<Attribute> = right.columns.iter().filter(|other| !taken.contains(&other.internal.as_str())).cloned().collect();
        let mut lefts: Vec<(Typed, Attribute)> = Vec::new();
        for (column, (other, _)) in left.columns.iter().zip(&rights) {
            let value = if missing { self.widened(column.typed(), &other.data_type)? } else { column.typed() };
            let attribute = if value.expr == column.column() {
                column.clone()
            } else {
                Attribute { internal: fresh(), data_type: value.data_type.clone(), nullable: value.nullable, ..column.clone() }
            };
            lefts.push((value, attribute));
        }
        if !extra.is_empty() && !missing {
            let count = format!("there are {} columns and {}", left.columns.len(), right.columns.len());
            return Err(Error::invalid("NUM_COLUMNS_MISMATCH", format!("UNION needs the same number of columns on both sides: {count}"))
                .with_sqlstate("42826"));
        }
        for column in extra {
            let value = Typed::null(&DataType::Null);
            lefts.push((value.clone(), Attribute::of(&column.name, &value)));
            rights.push((column.typed(), column));
        }
        Ok((aligned_side(left, lefts)?, aligned_side(right, rights)?))
    }

    /// A struct with the fields of another struct type in their order, null where it has none, and then with its own others.
    fn widened(&self, value: Typed, other: &DataType) -> Result<Typed> {
        let (DataType::Struct(own), DataType::Struct(wanted)) = (&value.data_type, other) else { return Ok(value) };
        if own == wanted {
            return Ok(value);
        }
        let scope = Scope::default();
        let resolver = Resolver::new(self.settings, &scope, self);
        let field = |name: &str| resolver.call("extract_value", vec![value.clone(), Typed::text(name)]);
        let mut parts: Vec<Typed> = Vec::with_capacity(2 * wanted.len());
        for wanted in wanted {
            let part = match own.iter().find(|own| self.same(own.name(), wanted.name())) {
                Some(own) => self.widened(field(own.name())?, wanted.data_type())?,
                None => Typed::null(wanted.data_type()),
            };
            parts.extend([Typed::text(wanted.name()), part]);
        }
        for own in own.iter().filter(|own| !wanted.iter().any(|wanted| self.same(own.name(), wanted.name()))) {
            parts.extend([Typed::text(own.name()), field(own.name())?]);
        }
        let widened = resolver.call("named_struct", parts)?;
        if !value.nullable {
            return Ok(widened);
        }
        let expr = when(value.expr.is_null(), Typed::null(&widened.data_type).expr).otherwise(widened.expr).map_err(from_datafusion)?;
        Ok(Typed::new(expr, widened.data_type, true))
    }

    /// `INTERSECT` and `EXCEPT`: rows are compared with nulls equal.
    fn compared(&self, left: Node, right: Node, kind: SetOpType, all: bool) -> Result<Node> {
        let name = if kind == SetOpType::Intersect { "INTERSECT" } else { "EXCEPT" };
        let (left, right) = self.aligned(left, right, name)?;
        refuse_maps(left.columns.iter().chain(&right.columns))?;
        if (is_streaming(&left.plan)? && kind == SetOpType::Intersect) || is_streaming(&right.plan)? {
            return Err(Error::invalid(
                "_LEGACY_ERROR_TEMP_3102",
                format!("{name} on a streaming DataFrame/Dataset on the right is not supported"),
            ));
        }
        if all && is_streaming(&left.plan)? {
            return self.except_all_counted(left, right);
        }
        let (left_plan, left_keys, columns) = keyed(left, all)?;
        let (right_plan, right_keys, _) = keyed(right, all)?;
        let on: Vec<(Expr, Expr)> = left_keys.into_iter().zip(right_keys).collect();
        let join_type = if kind == SetOpType::Intersect { JoinType::LeftSemi } else { JoinType::LeftAnti };
        let left_plan = if all {
            left_plan
        } else {
            LogicalPlanBuilder::from(left_plan).distinct().and_then(LogicalPlanBuilder::build).map_err(from_datafusion)?
        };
        let join = Join::try_new(
            Arc::new(left_plan),
            Arc::new(right_plan),
            on,
            None,
            join_type,
            JoinConstraint::On,
            NullEquality::NullEqualsNull,
            false,
        );
        let plan = join.map(LogicalPlan::Join).map_err(from_datafusion)?;
        Ok(Node::new(super::extend::restored(plan, &columns)?, columns))
    }
}

impl Analyzer<'_> {
    /// `EXCEPT ALL` as Spark computes it: the rows of the left count 1, those of the right -1, and each row stays as often as its sum says.
    fn except_all_counted(&self, left: Node, right: Node) -> Result<Node> {
        let names: Vec<String> = left.columns.iter().map(|_| fresh()).collect();
        let counts = fresh();
        let counted = |side: &Node, count: i64| -> Result<LogicalPlan> {
            let mut items: Vec<Expr> = Vec::with_capacity(names.len() + 1);
            for (column, name) in side.columns.iter().zip(&names) {
                let value = normalized(&column.typed()).unwrap_or_else(|| column.typed());
                items.push(item(&value, name, &side.plan)?);
            }
            items.push(lit(count).alias(&counts));
            project(side.plan.clone(), items)
        };
        let rows = ExceptAllRows::try_new(counted(&left, 1)?, counted(&right, -1)?)?.into_plan();
        let count = Typed::new(column(&counts), DataType::Int64, false);
        let call = Call { name: "sum", arguments: vec![Argument::Value(count)], settings: self.settings };
        let sum = Aggregates::all().build(&call, &Clauses::default())?;
        let total = fresh();
        let keys: Vec<Expr> = names.iter().map(|name| column(name)).collect();
        let aggregated = LogicalPlanBuilder::from(rows).aggregate(keys.clone(), vec![sum.expr.alias(&total)]);
        let kept = aggregated.and_then(|plan| plan.filter(column(&total).gt(lit(0_i64)))).and_then(LogicalPlanBuilder::build);
        let kept = kept.map_err(from_datafusion)?;
        let scope = Scope::default();
        let one = Typed::literal(ScalarValue::Int64(Some(1)));
        let copies =
            Resolver::new(self.settings, &scope, self).call("sequence", vec![one, Typed::new(column(&total), DataType::Int64, true)])?;
        let copy = fresh();
        let mut items = keys.clone();
        items.push(copies.expr.alias(&copy));
        let plan = project(super::generate::unnested(project(kept, items)?, &copy, false)?, keys)?;
        let columns = left.columns.into_iter().zip(names).map(|(column, internal)| Attribute { internal, ..column }).collect();
        Ok(Node::new(plan, columns))
    }
}

/// A side of a comparison in normal form; with `all`, equal rows are numbered, so that each is matched by one of the other side.
fn keyed(side: Node, all: bool) -> Result<(LogicalPlan, Vec<Expr>, Vec<Attribute>)> {
    let mut items: Vec<Expr> = Vec::with_capacity(side.columns.len());
    for column in &side.columns {
        let value = normalized(&column.typed()).unwrap_or_else(|| column.typed());
        items.push(if value.expr == column.column() { value.expr } else { item(&value, &column.internal, &side.plan)? });
    }
    let mut plan =
        if items.iter().zip(&side.columns).all(|(item, column)| *item == column.column()) { side.plan } else { project(side.plan, items)? };
    let mut keys: Vec<Expr> = side.columns.iter().map(Attribute::column).collect();
    if all {
        let number = fresh();
        plan = rows::with_window(plan, vec![rows::number(keys.clone(), Vec::new()).alias(&number)])?;
        keys.push(super::columns::column(&number));
    }
    Ok((plan, keys, side.columns))
}

fn aligned_side(side: Node, columns: Vec<(Typed, Attribute)>) -> Result<Node> {
    let same =
        columns.len() == side.columns.len() && columns.iter().zip(&side.columns).all(|((value, _), column)| value.expr == column.column());
    if same {
        let columns = side
            .columns
            .into_iter()
            .zip(columns)
            .map(|(column, (value, _))| Attribute { nullable: value.nullable, metadata: value.metadata, ..column })
            .collect();
        return Ok(Node::new(side.plan, columns));
    }
    let items = columns.iter().map(|(value, attribute)| item(value, &attribute.internal, &side.plan)).collect::<Result<Vec<Expr>>>()?;
    let columns = columns.into_iter().map(|(_, attribute)| attribute).collect();
    Ok(Node::new(project(side.plan, items)?, columns))
}

/// The relation without its hidden columns.
pub(super) fn restricted(node: Node) -> Result<Node> {
    if node.columns.iter().all(|column| !column.hidden) {
        return Ok(node.closed());
    }
    let columns: Vec<Attribute> = node.visible().cloned().collect();
    let plan = project(node.plan, columns.iter().map(Attribute::column).collect())?;
    Ok(Node::new(plan, columns))
}
