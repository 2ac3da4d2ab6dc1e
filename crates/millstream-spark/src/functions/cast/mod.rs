//! Casts between Spark's types.

pub(crate) mod decimal;
pub(crate) mod interval;
mod java_double;
mod nested;
mod number;
pub(crate) mod parse;
pub(crate) mod rules;
mod scalar_text;
mod temporal;
#[cfg(test)]
mod tests;
mod text;

use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, new_null_array};
use arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::logical_expr::Expr;
use millstream_core::{Error, Result};

use self::interval::Units;
use super::{Arguments, Kernel, Settings, TimeZone, Typed, coercion, datetime, kernel};
use crate::types;

pub use text::{TextStyle, text_of};
pub(crate) use text::{push_decimal, push_double, push_float};

/// What a cast does with a value that the target type cannot hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CastMode {
    /// Fails: `CAST_INVALID_INPUT`, `CAST_OVERFLOW`. `CAST` under ANSI rules.
    Ansi,
    /// Gives null, and wraps integers. `CAST` without ANSI rules.
    Legacy,
    /// Gives null. `TRY_CAST`.
    Try,
}

impl CastMode {
    /// How the session's `CAST` treats such values.
    pub fn of(settings: &Settings) -> Self {
        if settings.ansi { CastMode::Ansi } else { CastMode::Legacy }
    }
}

/// Casts as the session's `CAST` does. Intervals get their widest units, see [`explicit_to`].
///
/// # Errors
/// `DATATYPE_MISMATCH.CAST_WITHOUT_SUGGESTION` and its like when there is no such cast.
pub fn explicit(value: Typed, to: &DataType, mode: CastMode, settings: &Settings) -> Result<Typed> {
    explicit_to(value, &Field::new("value", to.clone(), true), mode, settings)
}

/// Casts to the type of a field with its metadata, which carries the units of intervals.
///
/// # Errors
/// Those of [`explicit`].
pub fn explicit_to(value: Typed, to: &Field, mode: CastMode, settings: &Settings) -> Result<Typed> {
    rules::check(&value.data_type, to.data_type(), mode)?;
    Ok(convert(value, to, mode, settings))
}

/// Casts where types are brought together without being asked to: as `CAST` under the session's rules, whether or not a user could write
/// it. The value itself when it is of that type. Constants stay constants.
///
/// # Errors
/// `DATATYPE_MISMATCH`.
pub fn implicit(value: Typed, to: &DataType, settings: &Settings) -> Result<Typed> {
    if value.data_type == *to {
        return Ok(value);
    }
    let constant = value.as_literal().is_some();
    let mut converted = convert(value, &Field::new("value", to.clone(), true), CastMode::of(settings), settings);
    // A constant that cannot be cast fails when it is computed, which may be never.
    if constant && let Some(literal) = coercion::constant_of(&converted) {
        converted.expr = Expr::Literal(literal, None);
    }
    Ok(converted)
}

fn convert(value: Typed, to: &Field, mode: CastMode, settings: &Settings) -> Typed {
    let units_stay = Units::of(&value.data_type, &value.metadata) == Units::of_field(to)
        && value.metadata.get(types::TIME) == to.metadata().get(types::TIME);
    if value.data_type == *to.data_type() && units_stay {
        return value.with_metadata(to.metadata().clone());
    }
    if value.data_type == DataType::Null && value.as_literal().is_some() {
        return Typed::null(to.data_type()).with_metadata(to.metadata().clone());
    }
    let nullable = value.nullable || rules::may_give_null(&value.data_type, to.data_type(), mode);
    let metadata = to.metadata().clone();
    if let Some(moment) = value.as_literal().and_then(|text| datetime::named_moment(text, to.data_type(), settings)) {
        return Typed { nullable, ..moment.with_metadata(metadata) };
    }
    if engine_casts(&value.data_type, to.data_type()) {
        let expr = datafusion::logical_expr::cast(value.expr, to.data_type().clone());
        return Typed::new(expr, to.data_type().clone(), nullable).with_metadata(metadata);
    }
    let cast = Cast {
        from: Arc::new(value.to_field("value").with_nullable(true)),
        to: Arc::new(to.clone().with_name("value").with_nullable(true)),
        mode,
        time_zone: settings.time_zone,
    };
    let name = match mode {
        _ if value.data_type == DataType::Binary && *to.data_type() == DataType::Utf8 => BYTES_AS_TEXT,
        CastMode::Try => "try_cast",
        CastMode::Ansi if !rules::is_up_cast(&value.data_type, to.data_type()) => "cast",
        _ => SAFE_CAST,
    };
    kernel::scalar(name, cast, vec![value], to.data_type().clone(), nullable).with_metadata(metadata)
}

/// The name in plans of casts that cannot fail.
pub(crate) const SAFE_CAST: &str = "convert";

/// The name in plans of casts of bytes to text, which replace what is no UTF-8.
pub(crate) const BYTES_AS_TEXT: &str = "bytes_as_text";

/// The bytes that were cast to text, if a value is that and nothing more.
pub(crate) fn bytes_of_text(value: &Typed) -> Option<Typed> {
    match &value.expr {
        Expr::ScalarFunction(call) if call.func.name() == BYTES_AS_TEXT => {
            let bytes = call.args.first()?;
            Some(Typed::new(bytes.clone(), DataType::Binary, value.nullable))
        }
        _ => None,
    }
}

/// Casts that keep every value and that the engine's optimizer understands.
fn engine_casts(from: &DataType, to: &DataType) -> bool {
    use DataType::{Decimal128, Float32, Float64, Int8, Int16, Int32, Int64};
    match (from, to) {
        (Int8, Int16 | Int32 | Int64) | (Int16, Int32 | Int64) | (Int32, Int64) => true,
        (Int8 | Int16 | Int32 | Float32, Float64) => true,
        (Int8 | Int16 | Int32 | Int64 | Decimal128(..), Decimal128(precision, scale)) => coercion::wide_enough(from, *precision, *scale),
        _ => false,
    }
}

/// The kernel of all casts.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Cast {
    from: FieldRef,
    to: FieldRef,
    mode: CastMode,
    time_zone: TimeZone,
}

impl Kernel for Cast {
    fn evaluate(&self, arguments: &Arguments<'_>) -> Result<ArrayRef> {
        let conversion = Conversion { mode: self.mode, time_zone: self.time_zone };
        conversion.convert(&arguments.array(0)?, &self.from, &self.to)
    }
}

/// How values are converted.
#[derive(Clone, Copy, Debug)]
struct Conversion {
    mode: CastMode,
    time_zone: TimeZone,
}

impl Conversion {
    /// The values as the type of `to`.
    fn convert(&self, values: &ArrayRef, from: &Field, to: &Field) -> Result<ArrayRef> {
        let converted = match (from.data_type(), to.data_type()) {
            (DataType::Null, _) => Some(new_null_array(to.data_type(), values.len())),
            (DataType::Time64(_), DataType::Time64(_)) => temporal::convert(self, values, from, to)?,
            (from_type, to_type) if from_type == to_type && Units::of_field(from) == Units::of_field(to) => Some(values.clone()),
            (DataType::Utf8, DataType::Utf8) => Some(values.clone()),
            (_, DataType::Utf8) => Some(Arc::new(text_of(values, from, &self.text_style())?) as ArrayRef),
            (DataType::List(_) | DataType::Map(..) | DataType::Struct(_), _) => nested::convert(self, values, from, to)?,
            (DataType::Utf8, _) => match values.as_string_opt::<i32>() {
                Some(strings) => scalar_text::convert(self, strings, from, to)?,
                None => None,
            },
            (DataType::Date32 | DataType::Timestamp(..) | DataType::Time64(_) | DataType::Duration(_) | DataType::Interval(_), _) => {
                temporal::convert(self, values, from, to)?
            }
            _ => number::convert(self, values, from, to)?,
        };
        converted.ok_or_else(|| Error::internal(format!("there is no cast from {} to {}", values.data_type(), to.data_type())))
    }

    fn text_style(&self) -> TextStyle {
        TextStyle { plain_decimals: self.mode == CastMode::Ansi, ..TextStyle::cast(self.time_zone) }
    }
}
