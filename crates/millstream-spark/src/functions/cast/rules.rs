//! Which casts there are, and which of them can give null.

use arrow::datatypes::{DataType, Field, IntervalUnit};
use millstream_core::{Error, Result};

use super::CastMode;
use crate::functions::coercion::{is_integral, is_numeric, wide_enough};
use crate::functions::faults;
use crate::types::ddl_type;

/// Refuses casts that there are not.
///
/// # Errors
/// `DATATYPE_MISMATCH.CAST_WITHOUT_SUGGESTION`, `CAST_WITH_CONF_SUGGESTION`, `CAST_WITH_FUNC_SUGGESTION`.
pub(super) fn check(from: &DataType, to: &DataType, mode: CastMode) -> Result<()> {
    if castable(from, to, mode != CastMode::Legacy) {
        return Ok(());
    }
    let what = format!("a value of the type \"{}\" cannot be cast to \"{}\"", ddl_type(from), ddl_type(to));
    let with_function = |function: &str| faults::mismatch("CAST_WITH_FUNC_SUGGESTION", format!("{what}: use the function {function}"));
    Err(match (from, to, mode) {
        (from, DataType::Date32, CastMode::Ansi | CastMode::Try) if is_numeric(from) => with_function("`date_from_unix_date`"),
        (DataType::Date32, to, CastMode::Ansi | CastMode::Try) if is_numeric(to) => with_function("`unix_date`"),
        (_, _, CastMode::Ansi) if castable(from, to, false) => faults::mismatch(
            "CAST_WITH_CONF_SUGGESTION",
            format!("{what} under ANSI rules: set spark.sql.ansi.enabled to false if the value of another meaning is wanted"),
        ),
        _ => no_cast(&what),
    })
}

fn no_cast(what: &str) -> Error {
    faults::mismatch("CAST_WITHOUT_SUGGESTION", what)
}

/// Whether the cast can be written.
pub(crate) fn castable(from: &DataType, to: &DataType, ansi: bool) -> bool {
    use DataType::{
        Binary, Boolean, Date32, Decimal128, Duration, Int32, Int64, Interval, List, Map, Null, Struct, Time64, Timestamp, Utf8,
    };
    if from == to || *from == Null {
        return true;
    }
    let interval = |data_type: &DataType| matches!(data_type, Duration(_) | Interval(IntervalUnit::YearMonth));
    let exact = |data_type: &DataType| is_integral(data_type) || matches!(data_type, Decimal128(..));
    match (from, to) {
        (_, Utf8) => true,
        (List(from), List(to)) => part_castable(from, to, ansi),
        (Map(from, _), Map(to, _)) => match (from.data_type(), to.data_type()) {
            (Struct(from), Struct(to)) => from.iter().zip(to).all(|(from, to)| part_castable(from, to, ansi)),
            _ => false,
        },
        (Struct(from), Struct(to)) => from.len() == to.len() && from.iter().zip(to).all(|(from, to)| part_castable(from, to, ansi)),
        (Utf8, to) => is_numeric(to) || matches!(to, Boolean | Binary | Date32 | Timestamp(..) | Time64(_) | Duration(_) | Interval(_)),
        (Time64(_), to) => is_integral(to) && ansi || matches!(to, Decimal128(..) | Int32 | Int64),
        (from, Boolean) => is_numeric(from) || !ansi && matches!(from, Date32 | Timestamp(_, Some(_))),
        (Boolean, to) => is_numeric(to) || !ansi && matches!(to, Timestamp(_, Some(_))),
        (from, to) if is_numeric(from) && is_numeric(to) => true,
        (from, Timestamp(_, Some(_))) if is_numeric(from) => true,
        (Timestamp(_, Some(_)), to) if is_numeric(to) => true,
        (Date32, to) if is_numeric(to) => !ansi,
        (Date32 | Timestamp(..), Date32 | Timestamp(..)) => true,
        (Duration(_), Duration(_)) | (Interval(IntervalUnit::YearMonth), Interval(IntervalUnit::YearMonth)) => true,
        (from, to) if exact(from) && interval(to) || interval(from) && exact(to) => true,
        (from, Binary) if is_integral(from) => !ansi,
        _ => false,
    }
}

fn part_castable(from: &Field, to: &Field, ansi: bool) -> bool {
    let nullable = from.is_nullable() || !ansi && gives_null(from.data_type(), to.data_type());
    castable(from.data_type(), to.data_type(), ansi) && (to.is_nullable() || !nullable)
}

/// Whether the cast is taken to give null for values that are not: what makes its result nullable.
pub(super) fn may_give_null(from: &DataType, to: &DataType, mode: CastMode) -> bool {
    if mode == CastMode::Try { !is_up_cast(from, to) } else { gives_null(from, to) }
}

fn gives_null(from: &DataType, to: &DataType) -> bool {
    use DataType::{Binary, Date32, Decimal128, Float32, Float64, Int8, Int16, Int32, Null, Timestamp, Utf8};
    match (from, to) {
        (Null, _) => true,
        (from, to) if from == to => false,
        (Utf8, to) => !matches!(to, Binary),
        (_, Utf8) => false,
        (Timestamp(_, Some(_)), Int8 | Int16 | Int32) => true,
        (Float32 | Float64, Timestamp(..)) => true,
        (Date32, Timestamp(_, None)) => true,
        (Timestamp(_, Some(_)), Date32) => false,
        (Date32, to) if is_numeric(to) || *to == DataType::Boolean => true,
        (_, Date32) => true,
        (Float32 | Float64 | Decimal128(..), to) if is_integral(to) => true,
        (DataType::Boolean, Decimal128(..)) => false,
        (from, Decimal128(precision, scale)) => !wide_enough(from, *precision, *scale),
        _ => false,
    }
}

/// Whether every value has an equal in the other type.
pub(crate) fn is_up_cast(from: &DataType, to: &DataType) -> bool {
    use DataType::{Binary, Date32, Decimal128, Float32, Float64, Int64, List, Map, Null, Struct, Timestamp, Utf8};
    match (from, to) {
        (from, to) if from == to => true,
        (Null, _) => true,
        (List(from), List(to)) => is_up_cast(from.data_type(), to.data_type()) && (to.is_nullable() || !from.is_nullable()),
        (Map(from, _), Map(to, _)) => is_up_cast(from.data_type(), to.data_type()),
        (Struct(from), Struct(to)) => {
            from.len() == to.len()
                && from
                    .iter()
                    .zip(to)
                    .all(|(from, to)| (to.is_nullable() || !from.is_nullable()) && is_up_cast(from.data_type(), to.data_type()))
        }
        (List(_) | Map(..) | Struct(_), _) | (_, List(_) | Map(..) | Struct(_)) => false,
        (_, Utf8) => true,
        (Utf8, Binary) => true,
        (Int64, Timestamp(_, Some(_))) | (Timestamp(_, Some(_)), Int64) => true,
        (Date32, Timestamp(..)) | (Timestamp(..), Timestamp(..)) => true,
        (from, Decimal128(precision, scale)) if is_numeric(from) => wide_enough(from, *precision, *scale),
        (from, Float32 | Float64) if is_integral(from) => true,
        (Float32, Float64) => true,
        (from, to) if is_integral(from) && is_integral(to) => from.primitive_width() <= to.primitive_width(),
        _ => false,
    }
}
