//! Functions over windows of rows: `… OVER (PARTITION BY … ORDER BY … ROWS …)`.

use arrow::datatypes::DataType;
use datafusion::functions_window::{cume_dist, lead_lag, nth_value, ntile, rank, row_number};
use datafusion::logical_expr::expr::{NullTreatment, WindowFunction, WindowFunctionParams};
use datafusion::logical_expr::{Expr, SortExpr, WindowFrame, WindowFrameBound, WindowFrameUnits, WindowFunctionDefinition, WindowUDF};
use datafusion::scalar::ScalarValue;
use millstream_core::{Error, Result};
use spark_connect_proto::Expression;
use spark_connect_proto::expression::window::window_frame::FrameType;
use spark_connect_proto::expression::window::window_frame::frame_boundary::Boundary;
use spark_connect_proto::expression::window::{WindowFrame as ProtoFrame, window_frame::FrameBoundary};
use spark_connect_proto::expression::{ExprType, UnresolvedFunction, Window};

use super::function::plain_name;
use super::{Resolver, required};
use crate::functions::{Settings, Typed, cast, coercion, faults};

/// Functions that exist over windows only.
const FUNCTIONS: &[&str] = &["row_number", "rank", "dense_rank", "percent_rank", "cume_dist", "ntile", "lag", "lead", "nth_value"];

/// Whether a function needs an `OVER` clause.
pub(super) fn is_window_function(name: &str) -> bool {
    FUNCTIONS.contains(&name)
}

/// Functions whose frame is their own, whatever the window says.
const WITHOUT_FRAME: &[&str] = &["row_number", "rank", "dense_rank", "percent_rank", "cume_dist", "ntile", "lag", "lead"];

impl Resolver<'_> {
    pub(super) fn window(&self, window: &Window) -> Result<Typed> {
        let function = required(window.window_function.as_deref(), "the function of a window")?;
        let partition_by = window.partition_spec.iter().map(|key| Ok(self.value(key)?.expr)).collect::<Result<Vec<_>>>()?;
        let order_by = window.order_spec.iter().map(|order| self.sort(order)).collect::<Result<Vec<_>>>()?;
        let (call, ignore_nulls) = call_of(function)?;
        // A function of a user has a name of its own and is none of those below.
        let lower = call.map(|call| call.function_name.to_lowercase()).unwrap_or_default();
        let name = plain_name(&lower);
        let ordered = !order_by.is_empty();
        if is_window_function(name) && name != "nth_value" && !ordered {
            return Err(Error::invalid("WINDOW_FUNCTION_FRAME_NOT_ORDERED", format!("`{name}` needs an ORDER BY in its window"))
                .with_sqlstate("42601"));
        }
        let frame = match &window.frame_spec {
            Some(frame) if WITHOUT_FRAME.contains(&name) => {
                own_frame(name, &self.frame(frame, &window.order_spec, &order_by)?)?;
                WindowFrame::new(Some(true))
            }
            Some(frame) => self.frame(frame, &window.order_spec, &order_by)?,
            None => WindowFrame::new(ordered.then_some(false)),
        };
        if let Some(call) = call.filter(|_| is_window_function(name)) {
            let ignore_nulls = ignore_nulls || (name == "nth_value" && self.flag(name, 2, call.arguments.get(2))?);
            let (definition, arguments, data_type, nullable) = self.window_call(name, &call.arguments)?;
            let params = WindowFunctionParams {
                args: arguments,
                partition_by,
                order_by,
                window_frame: frame,
                filter: None,
                null_treatment: ignore_nulls.then_some(NullTreatment::IgnoreNulls),
                distinct: false,
            };
            let expr = Expr::WindowFunction(Box::new(WindowFunction { fun: definition, params }));
            return cast_back(Typed::new(expr, data_type, nullable), name, self.settings);
        }
        let aggregate = self.value(function)?;
        over(aggregate, &partition_by, &order_by, &frame)
    }

    /// A function that exists over windows only: what computes it, its arguments, its type.
    fn window_call(&self, name: &str, arguments: &[Expression]) -> Result<(WindowFunctionDefinition, Vec<Expr>, DataType, bool)> {
        let values = arguments.iter().map(|argument| self.value(argument)).collect::<Result<Vec<_>>>()?;
        let arity = |allowed: std::ops::RangeInclusive<usize>| {
            if allowed.contains(&values.len()) {
                Ok(())
            } else {
                Err(faults::wrong_number(name, format!("{} to {}", allowed.start(), allowed.end()), values.len()))
            }
        };
        let udf = |function: std::sync::Arc<WindowUDF>| WindowFunctionDefinition::WindowUDF(function);
        Ok(match name {
            "row_number" => (udf(row_number::row_number_udwf()), Vec::new(), DataType::UInt64, false),
            "rank" => (udf(rank::rank_udwf()), Vec::new(), DataType::UInt64, false),
            "dense_rank" => (udf(rank::dense_rank_udwf()), Vec::new(), DataType::UInt64, false),
            "percent_rank" => (udf(rank::percent_rank_udwf()), Vec::new(), DataType::Float64, false),
            "cume_dist" => (udf(cume_dist::cume_dist_udwf()), Vec::new(), DataType::Float64, false),
            "ntile" => {
                arity(0..=1)?;
                let buckets = match values.first() {
                    Some(value) => cast::implicit(value.clone(), &DataType::Int64, self.settings)?,
                    None => Typed::literal(ScalarValue::Int64(Some(1))),
                };
                (udf(ntile::ntile_udwf()), vec![positive(name, 0, &buckets)?], DataType::UInt64, false)
            }
            "lag" | "lead" => {
                arity(1..=3)?;
                let value = required(values.first(), "the value of lag or lead")?.clone();
                let offset = match values.get(1) {
                    Some(offset) => cast::implicit(offset.clone(), &DataType::Int64, self.settings)?,
                    None => Typed::literal(ScalarValue::Int64(Some(1))),
                };
                let (data_type, value, default) = match values.get(2) {
                    Some(default) => {
                        let (data_type, mut both) = coercion::to_common_type(name, vec![value, default.clone()], self.settings)?;
                        let default = both.pop().ok_or_else(|| Error::internal("two values were brought together"))?;
                        let value = both.pop().ok_or_else(|| Error::internal("two values were brought together"))?;
                        (data_type, value, constant(name, 2, &default)?)
                    }
                    None => (value.data_type.clone(), value.clone(), Typed::null(&value.data_type).expr),
                };
                let function = if name == "lag" { lead_lag::lag_udwf() } else { lead_lag::lead_udwf() };
                (udf(function), vec![value.expr, constant(name, 1, &offset)?, default], data_type, true)
            }
            "nth_value" => {
                arity(2..=3)?;
                let value = required(values.first(), "the value of nth_value")?.clone();
                let offset = cast::implicit(required(values.get(1), "the offset of nth_value")?.clone(), &DataType::Int64, self.settings)?;
                (udf(nth_value::nth_value_udwf()), vec![value.expr, positive(name, 1, &offset)?], value.data_type, true)
            }
            _ => return Err(faults::unresolved_routine(name)),
        })
    }

    /// A constant that is true or false; false where it is left out.
    fn flag(&self, name: &str, index: usize, argument: Option<&Expression>) -> Result<bool> {
        let Some(argument) = argument else { return Ok(false) };
        let value = self.value(argument)?;
        match coercion::fold(&value)? {
            Some(ScalarValue::Boolean(Some(flag))) => Ok(flag),
            Some(_) => Err(faults::unexpected_type(name, index, "\"BOOLEAN\"", &value.data_type)),
            None => Err(faults::not_foldable(name, index)),
        }
    }

    fn frame(
        &self,
        frame: &ProtoFrame,
        order_spec: &[spark_connect_proto::expression::SortOrder],
        order_by: &[SortExpr],
    ) -> Result<WindowFrame> {
        let units = match frame.frame_type() {
            FrameType::Row => WindowFrameUnits::Rows,
            FrameType::Range | FrameType::Undefined => WindowFrameUnits::Range,
        };
        let key_type = match order_spec.first().and_then(|order| order.child.as_deref()) {
            Some(key) => Some(self.value(key)?.data_type),
            None => None,
        };
        let start = self.bound(required(frame.lower.as_deref(), "the start of a frame")?, units, key_type.as_ref(), true)?;
        let end = self.bound(required(frame.upper.as_deref(), "the end of a frame")?, units, key_type.as_ref(), false)?;
        let valued = |bound: &WindowFrameBound| match bound {
            WindowFrameBound::Preceding(value) | WindowFrameBound::Following(value) => !value.is_null(),
            WindowFrameBound::CurrentRow => false,
        };
        if units == WindowFrameUnits::Range && (valued(&start) || valued(&end)) && order_by.len() != 1 {
            let what = if order_by.is_empty() { "RANGE_FRAME_WITHOUT_ORDER" } else { "RANGE_FRAME_MULTI_ORDER" };
            return Err(faults::mismatch(what, "a RANGE frame with values needs an ORDER BY of one expression"));
        }
        Ok(WindowFrame::new_bounds(units, start, end))
    }

    fn bound(&self, bound: &FrameBoundary, units: WindowFrameUnits, key_type: Option<&DataType>, start: bool) -> Result<WindowFrameBound> {
        let unbounded = match units {
            WindowFrameUnits::Rows => ScalarValue::UInt64(None),
            _ => key_type.and_then(|data_type| ScalarValue::try_from(data_type).ok()).unwrap_or(ScalarValue::Null),
        };
        match &bound.boundary {
            Some(Boundary::CurrentRow(_)) | None => Ok(WindowFrameBound::CurrentRow),
            Some(Boundary::Unbounded(_)) if start => Ok(WindowFrameBound::Preceding(unbounded)),
            Some(Boundary::Unbounded(_)) => Ok(WindowFrameBound::Following(unbounded)),
            Some(Boundary::Value(value)) => {
                let value = self.value(value)?;
                let not_a_constant = || {
                    faults::mismatch(
                        "SPECIFIED_WINDOW_FRAME_UNACCEPTED_TYPE",
                        "the bound of a frame must be a constant of the type of its order",
                    )
                };
                let target = match (units, key_type) {
                    (WindowFrameUnits::Rows, _) => DataType::Int64,
                    (_, Some(DataType::Date32)) if value.data_type.is_integer() => DataType::Int32,
                    (_, Some(data_type)) if data_type.is_numeric() => data_type.clone(),
                    _ => value.data_type.clone(),
                };
                let scalar = coercion::fold(&cast::implicit(value, &target, self.settings)?)?.ok_or_else(not_a_constant)?;
                let zero = ScalarValue::new_zero(&scalar.data_type()).map_err(millstream_engine::from_datafusion)?;
                if scalar == zero {
                    return Ok(WindowFrameBound::CurrentRow);
                }
                let (preceding, size) = if scalar < zero { (true, negated(&scalar)?) } else { (false, scalar) };
                let size = match (units, size) {
                    (WindowFrameUnits::Rows, ScalarValue::Int64(Some(size))) => ScalarValue::UInt64(u64::try_from(size).ok()),
                    (_, size) => size,
                };
                Ok(if preceding { WindowFrameBound::Preceding(size) } else { WindowFrameBound::Following(size) })
            }
        }
    }
}

/// The same distance in the other direction.
fn negated(distance: &ScalarValue) -> Result<ScalarValue> {
    Ok(match distance {
        ScalarValue::DurationMicrosecond(Some(micros)) => ScalarValue::DurationMicrosecond(micros.checked_neg()),
        ScalarValue::IntervalYearMonth(Some(months)) => ScalarValue::IntervalYearMonth(months.checked_neg()),
        number => number.arithmetic_negate().map_err(millstream_engine::from_datafusion)?,
    })
}

fn constant(name: &str, index: usize, value: &Typed) -> Result<Expr> {
    let scalar = coercion::fold(value)?.ok_or_else(|| faults::not_foldable(name, index))?;
    Ok(datafusion::logical_expr::lit(scalar))
}

/// A constant that counts from 1.
fn positive(name: &str, index: usize, value: &Typed) -> Result<Expr> {
    let expr = constant(name, index, value)?;
    match &expr {
        Expr::Literal(ScalarValue::Int64(Some(number)), _) if *number < 1 => {
            let message = format!("parameter {} of `{name}` must be at least 1, not {number}", index + 1);
            Err(faults::mismatch("VALUE_OUT_OF_RANGE", message))
        }
        _ => Ok(expr),
    }
}

/// Refuses a frame for a function that has its own, unless it is that one.
fn own_frame(name: &str, frame: &WindowFrame) -> Result<()> {
    if name == "lag" || name == "lead" {
        let message = format!("`{name}` looks at one row at a distance: leave the frame of its window out");
        return Err(Error::invalid("WINDOW_FUNCTION_AND_FRAME_MISMATCH", message).with_sqlstate("42K0E"));
    }
    let units = if name == "cume_dist" { WindowFrameUnits::Range } else { WindowFrameUnits::Rows };
    let all_before = matches!(&frame.start_bound, WindowFrameBound::Preceding(distance) if distance.is_null());
    if frame.units == units && all_before && frame.end_bound == WindowFrameBound::CurrentRow {
        return Ok(());
    }
    let message =
        format!("`{name}` is computed over {units} BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW: leave the frame of its window out");
    Err(Error::invalid("_LEGACY_ERROR_TEMP_1036", message))
}

/// Ranks are integers in Spark.
fn cast_back(value: Typed, name: &str, _settings: &Settings) -> Result<Typed> {
    match name {
        "row_number" | "rank" | "dense_rank" | "ntile" => {
            Ok(Typed::new(datafusion::logical_expr::cast(value.expr, DataType::Int32), DataType::Int32, false))
        }
        _ => Ok(value),
    }
}

/// The call inside of a window, `None` for a function of a user; and whether it ignores nulls.
fn call_of(function: &Expression) -> Result<(Option<&UnresolvedFunction>, bool)> {
    match &function.expr_type {
        Some(ExprType::UnresolvedFunction(call)) if call.function_name == "__ignore_nulls" => {
            let inner = required(call.arguments.first(), "the function that ignores nulls")?;
            Ok((call_of(inner)?.0, true))
        }
        Some(ExprType::UnresolvedFunction(call)) => Ok((Some(call), false)),
        Some(ExprType::CommonInlineUserDefinedFunction(_)) => Ok((None, false)),
        _ => Err(Error::invalid("UNSUPPORTED_EXPR_FOR_WINDOW", "only a function can be computed over a window").with_sqlstate("42P20")),
    }
}

/// Turns the aggregate functions of an expression into functions over a window.
fn over(value: Typed, partition_by: &[Expr], order_by: &[SortExpr], frame: &WindowFrame) -> Result<Typed> {
    use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
    let mut found = false;
    let expr = value
        .expr
        .transform_down(|expr| {
            Ok(match expr {
                Expr::AggregateFunction(aggregate) => {
                    found = true;
                    let params = WindowFunctionParams {
                        args: aggregate.params.args,
                        partition_by: partition_by.to_vec(),
                        order_by: order_by.to_vec(),
                        window_frame: frame.clone(),
                        filter: aggregate.params.filter,
                        null_treatment: aggregate.params.null_treatment,
                        distinct: aggregate.params.distinct,
                    };
                    let fun = WindowFunctionDefinition::AggregateUDF(aggregate.func);
                    Transformed::new(Expr::WindowFunction(Box::new(WindowFunction { fun, params })), true, TreeNodeRecursion::Jump)
                }
                other => Transformed::no(other),
            })
        })
        .map_err(millstream_engine::from_datafusion)?
        .data;
    if !found {
        return Err(Error::invalid("UNSUPPORTED_EXPR_FOR_WINDOW", "only an aggregate or window function can be computed over a window")
            .with_sqlstate("42P20"));
    }
    Ok(Typed { expr, ..value })
}
