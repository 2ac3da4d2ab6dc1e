//! Which types Spark brings together, and how (ANSI rules, `TypeCoercion` and `AnsiTypeCoercion` of Spark 4).

use std::sync::Arc;

use arrow::array::{RecordBatch, RecordBatchOptions};
use arrow::datatypes::{DataType, Field, Fields, IntervalUnit, Schema};
use datafusion::common::DFSchema;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::execution::context::ExecutionProps;
use datafusion::logical_expr::physical_planning_context::PhysicalPlanningContext;
use datafusion::logical_expr::{ColumnarValue, Expr, Volatility};
use datafusion::physical_expr::create_physical_expr;
use datafusion::scalar::ScalarValue;
use millstream_core::Result;
use millstream_engine::from_datafusion;

use super::cast::decimal::MAX_PRECISION;
use super::cast::interval::Units;
use super::{Settings, Typed, cast, faults};

/// Whether an argument of type `from` is cast to `to` without being asked to.
pub fn implicitly_castable(from: &DataType, to: &DataType, settings: &Settings) -> bool {
    use DataType::{Binary, Boolean, Date32, Decimal128, List, Map, Null, Struct, Timestamp, Utf8};
    let parts = |from: &Field, to: &Field| {
        (to.is_nullable() || !from.is_nullable()) && implicitly_castable(from.data_type(), to.data_type(), settings)
    };
    match (from, to) {
        (from, to) if from == to => true,
        (Null, _) => true,
        (List(from), List(to)) => parts(from, to),
        (Map(from, _), Map(to, _)) => match (from.data_type(), to.data_type()) {
            (Struct(from), Struct(to)) => from.len() == to.len() && from.iter().zip(to).all(|(from, to)| parts(from, to)),
            _ => false,
        },
        (Struct(from), Struct(to)) => from.len() == to.len() && from.iter().zip(to).all(|(from, to)| parts(from, to)),
        (from, to) if is_nested(from) || is_nested(to) => false,
        (from, to) if is_numeric(from) && is_numeric(to) => true,
        // Decimals of other lengths are among the numbers; that leaves text, dates and timestamps.
        (DataType::Interval(IntervalUnit::MonthDayNano), Utf8) => settings.ansi,
        (_, Utf8) => true,
        (Utf8, Boolean) => settings.ansi,
        (Utf8, to) => is_numeric(to) || matches!(to, Binary | Date32 | Timestamp(..) | Decimal128(..)),
        (Date32 | Timestamp(..), Date32 | Timestamp(..)) => true,
        _ => false,
    }
}

/// The tightest type that holds the values of both, or none: what `coalesce`, `CASE` and their like make of their arguments.
pub fn common_type(left: &DataType, right: &DataType, settings: &Settings) -> Option<DataType> {
    match (left, right) {
        (DataType::Utf8, other) | (other, DataType::Utf8) if *other != DataType::Utf8 => with_text(other, settings),
        _ => merge(left, right, settings, Merge::Named),
    }
}

/// The tightest type that holds the values of both where text is only text: what `greatest` and `least` make of their arguments.
pub(crate) fn common_type_without_text(left: &DataType, right: &DataType, settings: &Settings) -> Option<DataType> {
    merge(left, right, settings, Merge::Named)
}

/// The type in which two values are compared, or none. Structs may differ in the names of their fields.
pub(crate) fn comparison_type(left: &DataType, right: &DataType, settings: &Settings) -> Option<DataType> {
    use DataType::{Binary, Boolean, Decimal128, Utf8};
    match (left, right) {
        (Utf8, other) | (other, Utf8) if *other != Utf8 && !settings.ansi => match other {
            DataType::Null => Some(Utf8),
            Decimal128(..) => Some(DataType::Float64),
            DataType::Duration(_) | DataType::Interval(_) => None,
            other if is_nested(other) => None,
            Binary => Some(Binary),
            other => Some(other.clone()),
        },
        (Boolean, number) | (number, Boolean) if is_numeric(number) && !settings.ansi => Some(number.clone()),
        (Utf8, _) | (_, Utf8) => common_type(left, right, settings),
        _ => merge(left, right, settings, Merge::Named).or_else(|| merge(left, right, settings, Merge::Structural)),
    }
}

/// The common type of text and something else.
fn with_text(other: &DataType, settings: &Settings) -> Option<DataType> {
    use DataType::{Binary, Boolean, Date32, Duration, Interval, Null, Timestamp, Utf8};
    match other {
        Null => Some(Utf8),
        other if is_nested(other) => None,
        Boolean | Binary if !settings.ansi => None,
        Interval(IntervalUnit::MonthDayNano) => None,
        _ if !settings.ansi => Some(Utf8),
        other if is_integral(other) => Some(DataType::Int64),
        other if is_numeric(other) => Some(DataType::Float64),
        Duration(_) | Interval(_) => None,
        Boolean | Binary | Date32 | Timestamp(..) => Some(other.clone()),
        _ => None,
    }
}

/// Whether fields of structs must have the same names to be brought together.
#[derive(Clone, Copy, PartialEq)]
enum Merge {
    Named,
    /// The types must be equal but for names.
    Structural,
}

fn merge(left: &DataType, right: &DataType, settings: &Settings, how: Merge) -> Option<DataType> {
    use DataType::{Date32, Decimal128, Duration, Float32, Float64, List, Map, Null, Struct, Timestamp, Utf8};
    let parts = |left: &Field, right: &Field| -> Option<Field> {
        let data_type = match (left.data_type(), right.data_type()) {
            (left, right) if how == Merge::Structural && !is_nested(left) => (left == right).then(|| left.clone())?,
            (Utf8, other) | (other, Utf8) if *other != Utf8 => with_text(other, settings)?,
            (left, right) => merge(left, right, settings, how)?,
        };
        let nullable = left.is_nullable() || right.is_nullable();
        let metadata = Units::of_field(left).union(Units::of_field(right)).metadata();
        let field = left.clone().with_data_type(data_type.clone()).with_nullable(nullable);
        let interval = matches!(data_type, Duration(_) | DataType::Interval(IntervalUnit::YearMonth));
        Some(if interval { field.with_metadata(metadata) } else { field })
    };
    match (left, right) {
        (left, right) if left == right => Some(left.clone()),
        (Null, other) | (other, Null) => Some(other.clone()),
        (List(left), List(right)) => Some(List(Arc::new(parts(left, right)?))),
        (Map(left, sorted), Map(right, _)) => match (left.data_type(), right.data_type()) {
            (Struct(left_pair), Struct(right_pair)) => {
                let pair: Fields = left_pair.iter().zip(right_pair).map(|(left, right)| parts(left, right)).collect::<Option<_>>()?;
                Some(Map(Arc::new(left.as_ref().clone().with_data_type(Struct(pair))), *sorted))
            }
            _ => None,
        },
        (Struct(left), Struct(right)) if left.len() == right.len() => {
            let same = |left: &str, right: &str| {
                how == Merge::Structural
                    || if settings.case_sensitive { left == right } else { left.to_lowercase() == right.to_lowercase() }
            };
            let fields =
                left.iter().zip(right).map(|(left, right)| if same(left.name(), right.name()) { parts(left, right) } else { None });
            Some(Struct(fields.collect::<Option<_>>()?))
        }
        (Date32, Timestamp(..)) => Some(right.clone()),
        (Timestamp(..), Date32) => Some(left.clone()),
        (Timestamp(_, zone), Timestamp(..)) => Some(if zone.is_some() { left.clone() } else { right.clone() }),
        (Decimal128(p1, s1), Decimal128(p2, s2)) => Some(wider_decimal((*p1, *s1), (*p2, *s2))),
        (Decimal128(p1, s1), other) | (other, Decimal128(p1, s1)) => match other {
            Float32 | Float64 => Some(Float64),
            other if is_integral(other) => Some(wider_decimal((*p1, *s1), decimal_for(other)?)),
            _ => None,
        },
        (Float32, other) | (other, Float32) if is_integral(other) => Some(if settings.ansi { Float64 } else { Float32 }),
        (left, right) if is_numeric(left) && is_numeric(right) => Some(if rank(left) >= rank(right) { left } else { right }.clone()),
        _ => None,
    }
}

fn rank(data_type: &DataType) -> u8 {
    match data_type {
        DataType::Int8 => 1,
        DataType::Int16 => 2,
        DataType::Int32 => 3,
        DataType::Int64 => 4,
        DataType::Float32 => 5,
        _ => 6,
    }
}

/// A decimal that holds both; where there is none, digits behind the point go first.
fn wider_decimal(left: (u8, i8), right: (u8, i8)) -> DataType {
    let scale = left.1.max(right.1);
    let range = (i16::from(left.0) - i16::from(left.1)).max(i16::from(right.0) - i16::from(right.1));
    prefer_integral_digits(range + i16::from(scale), i16::from(scale))
}

fn prefer_integral_digits(precision: i16, scale: i16) -> DataType {
    let most = i16::from(MAX_PRECISION);
    let scale = if precision <= most { scale } else { (scale - (precision - most)).max(0) };
    DataType::Decimal128(u8::try_from(precision.min(most)).unwrap_or(MAX_PRECISION), i8::try_from(scale).unwrap_or(0))
}

/// Whether a type is a whole number.
pub(crate) fn is_integral(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Int8 | DataType::Int16 | DataType::Int32 | DataType::Int64)
}

/// Whether a type is a number.
pub(crate) fn is_numeric(data_type: &DataType) -> bool {
    is_integral(data_type) || matches!(data_type, DataType::Float32 | DataType::Float64 | DataType::Decimal128(..))
}

pub(crate) fn is_nested(data_type: &DataType) -> bool {
    matches!(data_type, DataType::List(_) | DataType::Map(..) | DataType::Struct(_))
}

/// Precision and scale of the decimal that stands for a type of numbers.
pub(crate) fn decimal_for(data_type: &DataType) -> Option<(u8, i8)> {
    Some(match data_type {
        DataType::Int8 => (3, 0),
        DataType::Int16 => (5, 0),
        DataType::Int32 => (10, 0),
        DataType::Int64 => (20, 0),
        DataType::Float32 => (14, 7),
        DataType::Float64 => (30, 15),
        DataType::Decimal128(precision, scale) => (*precision, *scale),
        _ => return None,
    })
}

/// Whether a decimal holds every value of a type exactly.
pub(crate) fn wide_enough(from: &DataType, precision: u8, scale: i8) -> bool {
    let digits = |precision: u8, scale: i8| i16::from(precision) - i16::from(scale);
    match from {
        DataType::Float32 | DataType::Float64 => false,
        from => decimal_for(from).is_some_and(|(p, s)| digits(precision, scale) >= digits(p, s) && scale >= s),
    }
}

/// Casts values to their common type.
///
/// # Errors
/// `DATATYPE_MISMATCH.DATA_DIFF_TYPES` when there is none; `name` is the function in its message.
pub fn to_common_type(name: &str, values: Vec<Typed>, settings: &Settings) -> Result<(DataType, Vec<Typed>)> {
    to_type(name, values, settings, common_type)
}

/// The same by another rule for the type of two values.
pub(crate) fn to_type(
    name: &str,
    values: Vec<Typed>,
    settings: &Settings,
    of_two: fn(&DataType, &DataType, &Settings) -> Option<DataType>,
) -> Result<(DataType, Vec<Typed>)> {
    let mut common = DataType::Null;
    for value in &values {
        common = match of_two(&common, &value.data_type, settings) {
            Some(data_type) => data_type,
            None => {
                let types: Vec<&DataType> = values.iter().map(|value| &value.data_type).collect();
                return Err(faults::different_types(name, &types));
            }
        };
    }
    let units = common_units(&common, &values);
    let values = values
        .into_iter()
        .map(|value| {
            let value = cast::implicit(value, &common, settings)?;
            Ok(match &units {
                Some(units) => value.with_metadata(units.metadata()),
                None => value,
            })
        })
        .collect::<Result<_>>()?;
    Ok((common, values))
}

/// The units that hold the intervals of all values, if they are year-month or day-time intervals.
pub(crate) fn common_units(common: &DataType, values: &[Typed]) -> Option<Units> {
    if !matches!(common, DataType::Duration(_) | DataType::Interval(IntervalUnit::YearMonth)) {
        return None;
    }
    let intervals = values.iter().filter(|value| value.data_type == *common);
    intervals.map(|value| Units::of(&value.data_type, &value.metadata)).reduce(Units::union)
}

/// The value of a constant expression, computed if need be. None when the expression depends on a row or the time, or fails.
pub fn constant_of(value: &Typed) -> Option<ScalarValue> {
    fold(value).ok().flatten()
}

/// The value of a constant expression, computed if need be. None when the expression depends on a row or the time.
///
/// # Errors
/// Those of computing it.
pub fn fold(value: &Typed) -> Result<Option<ScalarValue>> {
    if let Some(literal) = value.as_literal() {
        return Ok(Some(literal.clone()));
    }
    if !is_constant(&value.expr) {
        return Ok(None);
    }
    let computed = || -> datafusion::error::Result<ScalarValue> {
        let expression =
            create_physical_expr(&value.expr, &DFSchema::empty(), &ExecutionProps::new(), &PhysicalPlanningContext::default())?;
        let options = RecordBatchOptions::new().with_row_count(Some(1));
        let row = RecordBatch::try_new_with_options(Arc::new(Schema::empty()), Vec::new(), &options)?;
        match expression.evaluate(&row)? {
            ColumnarValue::Scalar(value) => Ok(value),
            ColumnarValue::Array(array) => ScalarValue::try_from_array(&array, 0),
        }
    };
    computed().map(Some).map_err(from_datafusion)
}

fn is_constant(expr: &Expr) -> bool {
    let mut constant = true;
    let walked = expr.apply(|part| {
        constant = match part {
            Expr::Column(_)
            | Expr::OuterReferenceColumn(..)
            | Expr::Placeholder(_)
            | Expr::AggregateFunction(_)
            | Expr::WindowFunction(_)
            | Expr::ScalarSubquery(_)
            | Expr::InSubquery(_)
            | Expr::Exists(_) => false,
            Expr::ScalarFunction(call) => call.func.signature().volatility == Volatility::Immutable,
            _ => true,
        };
        Ok(if constant { TreeNodeRecursion::Continue } else { TreeNodeRecursion::Stop })
    });
    constant && walked.is_ok()
}

#[cfg(test)]
mod tests;
