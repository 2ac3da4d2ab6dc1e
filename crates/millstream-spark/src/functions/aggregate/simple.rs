//! Functions that the engine computes: counts, extremes, conditions, bits.

use arrow::array::{Array, ArrayRef, AsArray, Float64Array, Int64Array, PrimitiveArray};
use arrow::datatypes::{DataType, Int64Type};
use datafusion::functions_aggregate::bit_and_or_xor::{bit_and_udaf, bit_or_udaf, bit_xor_udaf};
use datafusion::functions_aggregate::bool_and_or::{bool_and_udaf, bool_or_udaf};
use datafusion::functions_aggregate::count::count_udaf;
use datafusion::functions_aggregate::min_max::{max_udaf, min_udaf};
use datafusion::logical_expr::{AggregateUDF, Case, Expr, lit};
use datafusion::scalar::ScalarValue;
use millstream_core::{Error, Result};
use std::sync::Arc;

use super::function::call;
use super::{Aggregates, Clauses, positional};
use crate::functions::coercion::{is_integral, is_nested};
use crate::functions::conditional::require_orderable;
use crate::functions::{Arguments, Call, Kernel, Typed, cast, faults, kernel, normalized};

pub(super) fn register(aggregates: &mut Aggregates) {
    aggregates.add("count", count);
    aggregates.add("count_if", |call, clauses| {
        call.arity(1..=1)?;
        let condition = call.boolean(0)?;
        Ok(count_where(condition.expr, clauses))
    });
    aggregates.add("min", |call, clauses| extreme(call, clauses, false));
    aggregates.add("max", |call, clauses| extreme(call, clauses, true));
    aggregates.add_all(&["bool_and", "every"], |call, clauses| condition(call, clauses, bool_and_udaf()));
    aggregates.add_all(&["bool_or", "any", "some"], |call, clauses| condition(call, clauses, bool_or_udaf()));
    aggregates.add("bit_and", |call, clauses| bits(call, clauses, bit_and_udaf()));
    aggregates.add("bit_or", |call, clauses| bits(call, clauses, bit_or_udaf()));
    aggregates.add("bit_xor", |call, clauses| bits(call, clauses, bit_xor_udaf()));
}

/// `count(*)` is the count of a constant; of several values a row counts if none is null.
fn count(call: &Call<'_>, clauses: &Clauses) -> Result<Typed> {
    if call.is_empty() {
        let message = "`count` requires > 0 parameters: write `count(*)` to count rows";
        return Err(Error::invalid("WRONG_NUM_ARGS.WITH_SUGGESTION", message).with_sqlstate("42605"));
    }
    let mut values = call.values_from(0)?;
    if values.iter().any(|value| value.data_type == DataType::Null) {
        return Ok(count_where(lit(false), clauses));
    }
    if let ([value], true) = (values.as_slice(), clauses.distinct) {
        let value = normalized(value.clone());
        return Ok(counted(vec![value], clauses));
    }
    if values.iter().all(|value| !value.nullable) && !clauses.distinct {
        return Ok(counted(vec![Typed::literal(ScalarValue::Int64(Some(1)))], clauses));
    }
    if values.len() == 1 {
        return Ok(counted(values, clauses));
    }
    let present = values.iter().map(|value| Expr::IsNotNull(Box::new(value.expr.clone()))).reduce(Expr::and).unwrap_or_else(|| lit(true));
    if !clauses.distinct {
        return Ok(count_where(present, clauses));
    }
    // Distinct combinations are distinct structs.
    values = values.into_iter().map(normalized).collect();
    let fields = values.iter().enumerate().map(|(number, value)| value.to_field(&format!("c{number}"))).collect::<Vec<_>>();
    let arguments =
        values.into_iter().enumerate().flat_map(|(number, value)| [Typed::text(format!("c{number}")), value]).collect::<Vec<_>>();
    let data_type = DataType::Struct(fields.into());
    let combined = kernel::udf(datafusion::functions::core::named_struct(), arguments, data_type.clone(), false);
    let case = Case { expr: None, when_then_expr: vec![(Box::new(present), Box::new(combined.expr))], else_expr: None };
    Ok(counted(vec![Typed::new(Expr::Case(case), data_type, true)], clauses))
}

fn counted(values: Vec<Typed>, clauses: &Clauses) -> Typed {
    call(count_udaf(), values, clauses, DataType::Int64, false)
}

fn count_where(condition: Expr, clauses: &Clauses) -> Typed {
    let one = lit(ScalarValue::Int64(Some(1)));
    let case = Case { expr: None, when_then_expr: vec![(Box::new(condition), Box::new(one))], else_expr: None };
    counted(vec![Typed::new(Expr::Case(case), DataType::Int64, true)], clauses)
}

fn extreme(call: &Call<'_>, clauses: &Clauses, greatest: bool) -> Result<Typed> {
    call.arity(1..=1)?;
    let value = call.value(0)?.clone();
    require_orderable(call.name, &value.data_type)?;
    let udaf = || if greatest { max_udaf() } else { min_udaf() };
    let (data_type, metadata) = (value.data_type.clone(), value.metadata.clone());
    let result = match &data_type {
        DataType::Null => positional::nothing(value, clauses),
        nested if is_nested(nested) => positional::extreme_by(value.clone(), value, greatest, clauses)?,
        DataType::Float32 | DataType::Float64 => {
            // The engine does not order NaN as Spark does, so it compares whole numbers of the same order.
            let wide = cast::implicit(value, &DataType::Float64, call.settings)?;
            let key = kernel::scalar("order_key", OrderKey { back: false }, vec![wide], DataType::Int64, true);
            let key = self::call(udaf(), vec![key], clauses, DataType::Int64, true);
            let wide = kernel::scalar("order_value", OrderKey { back: true }, vec![key], DataType::Float64, true);
            if data_type == DataType::Float32 { cast::implicit(wide, &DataType::Float32, call.settings)? } else { wide }
        }
        _ => self::call(udaf(), vec![value], clauses, data_type.clone(), true),
    };
    Ok(Typed { nullable: true, ..result }.with_metadata(metadata))
}

fn condition(call: &Call<'_>, clauses: &Clauses, function: Arc<AggregateUDF>) -> Result<Typed> {
    call.arity(1..=1)?;
    let value = call.value(0)?;
    let text = value.data_type == DataType::Utf8 && call.settings.ansi;
    if !text && !matches!(value.data_type, DataType::Boolean | DataType::Null) {
        return Err(faults::unexpected_type(call.name, 0, "\"BOOLEAN\"", &value.data_type));
    }
    Ok(self::call(function, vec![call.boolean(0)?], clauses, DataType::Boolean, true))
}

fn bits(call: &Call<'_>, clauses: &Clauses, function: Arc<AggregateUDF>) -> Result<Typed> {
    call.arity(1..=1)?;
    let value = match &call.value(0)?.data_type {
        data_type if is_integral(data_type) => call.value(0)?.clone(),
        DataType::Null => call.int(0)?,
        other => return Err(faults::unexpected_type(call.name, 0, "\"INTEGRAL\"", other)),
    };
    let data_type = value.data_type.clone();
    Ok(self::call(function, vec![value], clauses, data_type, true))
}

/// Doubles as whole numbers in Spark's order, NaN last and -0.0 as 0.0, or back.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct OrderKey {
    back: bool,
}

impl Kernel for OrderKey {
    fn evaluate(&self, arguments: &Arguments<'_>) -> Result<ArrayRef> {
        let values = arguments.array(0)?;
        // Negative numbers have their bits in falling order.
        let flip = |bits: i64| if bits < 0 { bits ^ i64::MAX } else { bits };
        if let (true, Some(keys)) = (self.back, values.as_primitive_opt::<Int64Type>()) {
            let numbers: Float64Array = keys.unary(|key| f64::from_bits(flip(key) as u64));
            return Ok(Arc::new(numbers));
        }
        let values: &Float64Array =
            values.as_primitive_opt().ok_or_else(|| Error::internal(format!("{} have no order key", values.data_type())))?;
        let keys: Int64Array = PrimitiveArray::unary(values, |number| {
            let number = if number.is_nan() { f64::NAN } else { number + 0.0 };
            flip(number.to_bits() as i64)
        });
        Ok(Arc::new(keys))
    }
}
