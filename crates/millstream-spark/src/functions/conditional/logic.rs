//! `and`, `or`, `not`, `in`, `between`.

use arrow::datatypes::DataType;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::logical_expr::expr::InList;
use datafusion::logical_expr::{Case, Expr, Operator, binary_expr, cast as engine_cast, lit};
use millstream_core::Result;

use super::comparison::{compare, require_orderable};
use super::floats::normalized;
use crate::functions::coercion::{self, is_nested};
use crate::functions::{Call, Functions, Settings, Typed, cast, faults};
use crate::python::plan::is_call;

pub(super) fn register(functions: &mut Functions) {
    functions.add("and", |call| fold(call, Operator::And));
    functions.add("or", |call| fold(call, Operator::Or));
    functions.add_all(&["not", "!"], |call| {
        call.arity(1..=1)?;
        let value = call.boolean(0)?;
        let nullable = value.nullable;
        Ok(Typed::new(Expr::Not(Box::new(value.expr)), DataType::Boolean, nullable))
    });
    functions.add("in", is_in);
    functions.add("between", |call| {
        call.arity(3..=3)?;
        let value = |index| call.value(index).cloned();
        let above = compare(Operator::GtEq, ">=", value(0)?, value(1)?, call.settings)?;
        let below = compare(Operator::LtEq, "<=", value(0)?, value(2)?, call.settings)?;
        Ok(connect(Operator::And, above, below))
    });
}

fn fold(call: &Call<'_>, operator: Operator) -> Result<Typed> {
    call.arity(2..=usize::MAX)?;
    let mut values = call.values_from(0)?.into_iter();
    let Some(mut result) = values.next() else { return Ok(Typed::null(&DataType::Boolean)) };
    for value in values {
        let (left, right) = booleans(call.name, result, value, call.settings)?;
        result = connect(operator, left, right);
    }
    Ok(result)
}

fn booleans(symbol: &str, left: Typed, right: Typed, settings: &Settings) -> Result<(Typed, Typed)> {
    use DataType::{Boolean, Null, Utf8};
    let fits = |value: &Typed, other: &Typed| match value.data_type {
        Boolean | Null => true,
        Utf8 => settings.ansi && other.data_type == Boolean,
        _ => false,
    };
    if !(fits(&left, &right) && fits(&right, &left)) {
        return Err(if left.data_type == right.data_type {
            faults::operands_wrong(symbol, "conditions", &left.data_type)
        } else {
            faults::operands_differ(symbol, &left.data_type, &right.data_type)
        });
    }
    Ok((cast::implicit(left, &Boolean, settings)?, cast::implicit(right, &Boolean, settings)?))
}

/// Two conditions by `AND` or `OR`.
fn connect(operator: Operator, left: Typed, right: Typed) -> Typed {
    let nullable = left.nullable || right.nullable;
    let expr =
        if left.as_literal().is_some() { binary_expr(left.expr, operator, right.expr) } else { connected(operator, left.expr, right.expr) };
    Typed::new(expr, DataType::Boolean, nullable)
}

/// Two conditions by `AND` or `OR`. The right one is not computed where the left one decides, if computing it could fail: the engine alone
/// computes it for whole batches.
pub(super) fn connected(operator: Operator, left: Expr, right: Expr) -> Expr {
    let both = binary_expr(left.clone(), operator, right.clone());
    if !may_fail(&right) {
        return both;
    }
    let decided = if operator == Operator::And { Expr::Not(Box::new(left)) } else { left };
    case(vec![(decided, lit(operator != Operator::And))], Some(both), true)
}

/// A `CASE` whose branches are computed only for their own rows. The engine's optimizer turns a `CASE` of conditions into `AND` and `OR`,
/// which compute more; so where that could fail, the branches are numbers on the way.
pub(super) fn case(branches: Vec<(Expr, Expr)>, otherwise: Option<Expr>, boolean: bool) -> Expr {
    let fails = |expr: &Expr| may_fail(expr);
    let guarded = boolean && (branches.iter().any(|(when, then)| fails(when) || fails(then)) || otherwise.as_ref().is_some_and(fails));
    let wrap = |expr: Expr| Box::new(if guarded { engine_cast(expr, DataType::Int8) } else { expr });
    let when_then_expr = branches.into_iter().map(|(when, then)| (Box::new(when), wrap(then))).collect();
    let case = Expr::Case(Case { expr: None, when_then_expr, else_expr: otherwise.map(wrap) });
    if guarded { engine_cast(case, DataType::Boolean) } else { case }
}

/// Functions that give a value for every argument, besides the engine's own operators.
const SAFE: &[&str] = &[
    cast::SAFE_CAST,
    cast::BYTES_AS_TEXT,
    super::floats::NAME,
    "=",
    "<>",
    "<",
    "<=",
    ">",
    ">=",
    "<=>",
    "array_contains",
    "char_length",
    "coalesce",
    "concat",
    "contains",
    "day",
    "endswith",
    "get_field",
    "hour",
    "isnan",
    "length",
    "lower",
    "ltrim",
    "minute",
    "month",
    "named_struct",
    "rtrim",
    "second",
    "size",
    "startswith",
    "struct",
    "substr",
    "substring",
    "trim",
    "try_add",
    "try_cast",
    "try_divide",
    "try_element_at",
    "try_multiply",
    "try_subtract",
    "upper",
    "year",
];

/// Whether computing the expression for a row can fail.
pub(super) fn may_fail(expr: &Expr) -> bool {
    let mut fails = false;
    let walked = expr.apply(|part| {
        // Functions of users are computed before the expressions that they are in.
        if is_call(part) {
            return Ok(TreeNodeRecursion::Jump);
        }
        if let Expr::ScalarFunction(call) = part {
            fails |= !SAFE.contains(&call.func.name());
        }
        Ok(if fails { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    });
    fails || walked.is_err()
}

fn is_in(call: &Call<'_>) -> Result<Typed> {
    call.arity(1..=usize::MAX)?;
    let (common, values) = coercion::to_common_type(call.name, call.values_from(0)?, call.settings)?;
    require_orderable(call.name, &common)?;
    let nullable = values.iter().any(|value| value.nullable);
    let mut values = values.into_iter().map(normalized);
    let Some(needle) = values.next() else { return Ok(Typed::null(&DataType::Boolean)) };
    if is_nested(&common) {
        let mut result = Typed::literal(false.into());
        for value in values {
            let equal = compare(Operator::Eq, "in", needle.clone(), value, call.settings)?;
            result = connect(Operator::Or, result, equal);
        }
        return Ok(Typed { nullable, ..result });
    }
    if common == DataType::Null {
        return Ok(Typed::null(&DataType::Boolean));
    }
    let list: Vec<Expr> = values.map(|value| value.expr).collect();
    if list.is_empty() {
        return Ok(Typed::literal(false.into()));
    }
    let expr = Expr::InList(InList { expr: Box::new(needle.expr), list, negated: false });
    Ok(Typed::new(expr, DataType::Boolean, nullable))
}
