//! `if` and `CASE`.

use arrow::datatypes::DataType;
use datafusion::logical_expr::Expr;
use millstream_core::Result;

use super::logic::case;
use crate::functions::{Call, Functions, Typed, cast, coercion, faults};

pub(super) fn register(functions: &mut Functions) {
    functions.add("if", |call| {
        call.arity(3..=3)?;
        branches(call, 1)
    });
    functions.add("when", |call| {
        call.arity(2..=usize::MAX)?;
        branches(call, call.len() / 2)
    });
}

/// A condition and its value, `count` times, then perhaps the value for the other rows.
fn branches(call: &Call<'_>, count: usize) -> Result<Typed> {
    let conditions = (0..count).map(|number| condition(call, number * 2)).collect::<Result<Vec<_>>>()?;
    let mut values = (0..count).map(|number| call.value(number * 2 + 1).cloned()).collect::<Result<Vec<_>>>()?;
    let otherwise = call.len() > count * 2;
    if otherwise {
        values.push(call.value(count * 2)?.clone());
    }
    let name = if call.name == "when" { "case" } else { call.name };
    let (data_type, values) = coercion::to_common_type(name, values, call.settings)?;
    let nullable = !otherwise || values.iter().any(|value| value.nullable);
    let metadata = values.first().map(|value| value.metadata.clone()).filter(|_| coercion::common_units(&data_type, &values).is_some());
    let mut values = values.into_iter().map(|value| value.expr);
    let branches: Vec<(Expr, Expr)> = conditions.into_iter().map(|condition| condition.expr).zip(values.by_ref()).collect();
    let expr = case(branches, values.next(), data_type == DataType::Boolean);
    Ok(Typed::new(expr, data_type, nullable).with_metadata(metadata.unwrap_or_default()))
}

fn condition(call: &Call<'_>, index: usize) -> Result<Typed> {
    let value = call.value(index)?;
    match value.data_type {
        DataType::Boolean => Ok(value.clone()),
        DataType::Null if call.name != "when" => cast::implicit(value.clone(), &DataType::Boolean, call.settings),
        _ => Err(faults::unexpected_type(call.name, index, "\"BOOLEAN\"", &value.data_type)),
    }
}
