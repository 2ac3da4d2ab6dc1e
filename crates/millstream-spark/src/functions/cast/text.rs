//! Values of every type as text: what `CAST(… AS STRING)` and `show` give.

use std::fmt::Write;

use arrow::array::{
    Array, ArrayRef, AsArray, BinaryArray, BooleanArray, Date32Array, Decimal128Array, DurationMicrosecondArray, Float32Array,
    Float64Array, Int64Array, IntervalMonthDayNanoArray, IntervalYearMonthArray, ListArray, MapArray, StringArray, StructArray,
    Time64NanosecondArray, TimestampMicrosecondArray,
};
use arrow::datatypes::{
    DataType, Date32Type, Decimal128Type, DurationMicrosecondType, Field, Float32Type, Float64Type, Int64Type, IntervalMonthDayNanoType,
    IntervalUnit, IntervalYearMonthType, Time64NanosecondType, TimeUnit, TimestampMicrosecondType,
};
use millstream_core::{Error, Result};

use super::interval::{Units, push_calendar, push_day_time, push_year_month};
use super::java_double::{digits_of_f32, digits_of_f64};
use crate::functions::TimeZone;
use crate::functions::datetime::format::{format_date, format_timestamp, format_timestamp_ntz, push_fraction};

/// How values are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TextStyle {
    /// The zone of instants.
    pub time_zone: TimeZone,
    /// What stands for null inside of arrays, maps and structs.
    pub null: &'static str,
    /// Binary values as `[61 62]` instead of the text that they are.
    pub hex: bool,
    /// Decimals always without exponent: `0.00000000` instead of `0E-8`.
    pub plain_decimals: bool,
}

impl TextStyle {
    /// As `CAST` under ANSI rules does.
    pub fn cast(time_zone: TimeZone) -> Self {
        TextStyle { time_zone, null: "null", hex: false, plain_decimals: true }
    }

    /// As `show` does.
    pub fn show(time_zone: TimeZone) -> Self {
        TextStyle { time_zone, null: "NULL", hex: true, plain_decimals: true }
    }
}

/// The text of every value; null stays null. `field` carries the units of intervals.
///
/// # Errors
/// `INTERNAL_ERROR` for an array that is not of the field's type or of a type that Spark does not have.
pub fn text_of(values: &ArrayRef, field: &Field, style: &TextStyle) -> Result<StringArray> {
    if let Some(strings) = values.as_string_opt::<i32>() {
        return Ok(strings.clone());
    }
    let column = Column::of(values, field)?;
    let mut builder = arrow::array::StringBuilder::with_capacity(values.len(), values.len() * 8);
    let mut text = String::new();
    for row in 0..values.len() {
        if values.is_null(row) || matches!(column, Column::Null) {
            builder.append_null();
        } else {
            text.clear();
            column.push(row, style, &mut text);
            builder.append_value(&text);
        }
    }
    Ok(builder.finish())
}

/// A column whose types are looked up once.
enum Column {
    Null,
    Boolean(BooleanArray),
    Integer(Int64Array),
    Float(Float32Array),
    Double(Float64Array),
    Decimal(Decimal128Array, i8),
    Date(Date32Array),
    Timestamp(TimestampMicrosecondArray),
    TimestampNtz(TimestampMicrosecondArray),
    Time(Time64NanosecondArray),
    String(StringArray),
    Binary(BinaryArray),
    DayTime(DurationMicrosecondArray, Units),
    YearMonth(IntervalYearMonthArray, Units),
    Calendar(IntervalMonthDayNanoArray),
    List(ListArray, Box<Column>),
    Map(MapArray, Box<(Column, Column)>),
    Struct(StructArray, Vec<Column>),
}

impl Column {
    fn of(values: &ArrayRef, field: &Field) -> Result<Column> {
        Self::try_of(values, field)?.ok_or_else(|| Error::internal(format!("values of the type {} have no text", values.data_type())))
    }

    fn try_of(values: &ArrayRef, field: &Field) -> Result<Option<Column>> {
        let column = match values.data_type() {
            DataType::Null => Some(Column::Null),
            DataType::Boolean => values.as_boolean_opt().cloned().map(Column::Boolean),
            DataType::Int8 | DataType::Int16 | DataType::Int32 | DataType::Int64 => {
                let wide = arrow::compute::cast(values, &DataType::Int64).map_err(|error| Error::internal(error.to_string()))?;
                wide.as_primitive_opt::<Int64Type>().cloned().map(Column::Integer)
            }
            DataType::Float32 => values.as_primitive_opt::<Float32Type>().cloned().map(Column::Float),
            DataType::Float64 => values.as_primitive_opt::<Float64Type>().cloned().map(Column::Double),
            DataType::Decimal128(_, scale) => {
                values.as_primitive_opt::<Decimal128Type>().cloned().map(|array| Column::Decimal(array, *scale))
            }
            DataType::Date32 => values.as_primitive_opt::<Date32Type>().cloned().map(Column::Date),
            DataType::Timestamp(TimeUnit::Microsecond, zone) => {
                let array = values.as_primitive_opt::<TimestampMicrosecondType>().cloned();
                array.map(if zone.is_some() { Column::Timestamp } else { Column::TimestampNtz })
            }
            DataType::Time64(TimeUnit::Nanosecond) => values.as_primitive_opt::<Time64NanosecondType>().cloned().map(Column::Time),
            DataType::Utf8 => values.as_string_opt().cloned().map(Column::String),
            DataType::Binary => values.as_binary_opt().cloned().map(Column::Binary),
            DataType::Duration(TimeUnit::Microsecond) => {
                values.as_primitive_opt::<DurationMicrosecondType>().cloned().map(|array| Column::DayTime(array, Units::of_field(field)))
            }
            DataType::Interval(IntervalUnit::YearMonth) => {
                values.as_primitive_opt::<IntervalYearMonthType>().cloned().map(|array| Column::YearMonth(array, Units::of_field(field)))
            }
            DataType::Interval(IntervalUnit::MonthDayNano) => {
                values.as_primitive_opt::<IntervalMonthDayNanoType>().cloned().map(Column::Calendar)
            }
            DataType::List(element) => match values.as_list_opt::<i32>() {
                Some(list) => Some(Column::List(list.clone(), Box::new(Column::of(list.values(), element)?))),
                None => None,
            },
            DataType::Map(entries, _) => match (values.as_map_opt(), entries.data_type()) {
                (Some(map), DataType::Struct(pair)) => match pair.as_ref() {
                    [key, value] => {
                        let pair = (Column::of(map.keys(), key)?, Column::of(map.values(), value)?);
                        Some(Column::Map(map.clone(), Box::new(pair)))
                    }
                    _ => None,
                },
                _ => None,
            },
            DataType::Struct(fields) => match values.as_struct_opt() {
                Some(array) => {
                    let columns = array.columns().iter().zip(fields).map(|(column, field)| Column::of(column, field));
                    Some(Column::Struct(array.clone(), columns.collect::<Result<_>>()?))
                }
                None => None,
            },
            _ => None,
        };
        Ok(column)
    }

    fn is_null(&self, row: usize) -> bool {
        match self {
            Column::Null => true,
            Column::Boolean(array) => array.is_null(row),
            Column::Integer(array) => array.is_null(row),
            Column::Float(array) => array.is_null(row),
            Column::Double(array) => array.is_null(row),
            Column::Decimal(array, _) => array.is_null(row),
            Column::Date(array) => array.is_null(row),
            Column::Timestamp(array) | Column::TimestampNtz(array) => array.is_null(row),
            Column::Time(array) => array.is_null(row),
            Column::String(array) => array.is_null(row),
            Column::Binary(array) => array.is_null(row),
            Column::DayTime(array, _) => array.is_null(row),
            Column::YearMonth(array, _) => array.is_null(row),
            Column::Calendar(array) => array.is_null(row),
            Column::List(array, _) => array.is_null(row),
            Column::Map(array, _) => array.is_null(row),
            Column::Struct(array, _) => array.is_null(row),
        }
    }

    fn push(&self, row: usize, style: &TextStyle, out: &mut String) {
        if self.is_null(row) {
            out.push_str(style.null);
            return;
        }
        match self {
            Column::Null => {}
            Column::Boolean(array) => out.push_str(if array.value(row) { "true" } else { "false" }),
            Column::Integer(array) => {
                // Writing to a string does not fail.
                let _ = write!(out, "{}", array.value(row));
            }
            Column::Float(array) => push_float(out, array.value(row)),
            Column::Double(array) => push_double(out, array.value(row)),
            Column::Decimal(array, scale) => push_decimal(out, array.value(row), *scale, style.plain_decimals),
            Column::Date(array) => out.push_str(&format_date(array.value(row))),
            Column::Timestamp(array) => out.push_str(&format_timestamp(array.value(row), style.time_zone)),
            Column::TimestampNtz(array) => out.push_str(&format_timestamp_ntz(array.value(row))),
            Column::Time(array) => push_time(out, array.value(row)),
            Column::String(array) => out.push_str(array.value(row)),
            Column::Binary(array) => push_binary(out, array.value(row), style.hex),
            Column::DayTime(array, units) => push_day_time(out, array.value(row), *units),
            Column::YearMonth(array, units) => push_year_month(out, array.value(row), *units),
            Column::Calendar(array) => push_calendar(out, array.value(row)),
            Column::List(array, elements) => {
                push_separated(out, '[', ']', range(array.value_offsets(), row), |out, element, space| {
                    elements.push_part(element, style, space, out);
                });
            }
            Column::Map(array, pair) => push_separated(out, '{', '}', range(array.value_offsets(), row), |out, entry, space| {
                pair.0.push_part(entry, style, space, out);
                out.push_str(" ->");
                pair.1.push_part(entry, style, true, out);
            }),
            Column::Struct(_, columns) => {
                push_separated(out, '{', '}', columns.iter(), |out, column, space| column.push_part(row, style, space, out));
            }
        }
    }

    /// A value inside of another, behind a space where one is due, which nulls without a text do not get.
    fn push_part(&self, row: usize, style: &TextStyle, space: bool, out: &mut String) {
        if space && !(style.null.is_empty() && self.is_null(row)) {
            out.push(' ');
        }
        self.push(row, style, out);
    }
}

fn range(offsets: &[i32], row: usize) -> std::ops::Range<usize> {
    let at = |index: usize| offsets.get(index).and_then(|offset| usize::try_from(*offset).ok()).unwrap_or(0);
    at(row)..at(row + 1)
}

fn push_separated<T>(
    out: &mut String,
    open: char,
    close: char,
    items: impl Iterator<Item = T>,
    mut push: impl FnMut(&mut String, T, bool),
) {
    out.push(open);
    for (number, item) in items.enumerate() {
        if number > 0 {
            out.push(',');
        }
        push(out, item, number > 0);
    }
    out.push(close);
}

/// A double as Java writes it: plain from 10⁻³ up to 10⁷, otherwise with one digit before the point and an exponent.
pub(crate) fn push_double(out: &mut String, value: f64) {
    push_floating(out, value, digits_of_f64);
}

/// A float as Java writes it.
pub(crate) fn push_float(out: &mut String, value: f32) {
    push_floating(out, f64::from(value), |_| digits_of_f32(value.abs()));
}

fn push_floating(out: &mut String, value: f64, digits_of: impl FnOnce(f64) -> (Vec<u8>, i32)) {
    if value.is_nan() {
        out.push_str("NaN");
        return;
    }
    if value.is_sign_negative() {
        out.push('-');
    }
    if value.is_infinite() {
        out.push_str("Infinity");
        return;
    }
    if value == 0.0 {
        out.push_str("0.0");
        return;
    }
    let (digits, before) = digits_of(value.abs());
    let digits: String = digits.into_iter().map(|digit| char::from(b'0' + digit)).collect();
    if (-2..8).contains(&before) {
        push_point(out, &digits, before);
    } else {
        push_point(out, &digits, 1);
        // Writing to a string does not fail.
        let _ = write!(out, "E{}", before - 1);
    }
}

/// Digits with the point behind the first `whole` of them, at least one digit on either side.
fn push_point(out: &mut String, digits: &str, whole: i32) {
    match usize::try_from(whole) {
        Err(_) | Ok(0) => {
            out.push_str("0.");
            out.extend(std::iter::repeat_n('0', whole.unsigned_abs() as usize));
            out.push_str(digits);
        }
        Ok(whole) => match digits.split_at_checked(whole) {
            Some((before, after)) if !after.is_empty() => {
                out.push_str(before);
                out.push('.');
                out.push_str(after);
            }
            _ => {
                out.push_str(digits);
                out.extend(std::iter::repeat_n('0', whole.saturating_sub(digits.len())));
                out.push_str(".0");
            }
        },
    }
}

/// A decimal as `BigDecimal.toPlainString` writes it, or as `BigDecimal.toString` does, which uses an exponent for small numbers.
pub(crate) fn push_decimal(out: &mut String, unscaled: i128, scale: i8, plain: bool) {
    if unscaled < 0 {
        out.push('-');
    }
    let digits = unscaled.unsigned_abs().to_string();
    let exponent = digits.len() as i64 - 1 - i64::from(scale);
    let fraction = usize::try_from(scale).unwrap_or(0);
    if !plain && (scale < 0 || exponent < -6) {
        let (first, rest) = digits.split_at_checked(1).unwrap_or((&digits, ""));
        out.push_str(first);
        if !rest.is_empty() {
            out.push('.');
            out.push_str(rest);
        }
        // Writing to a string does not fail.
        let _ = write!(out, "E{exponent:+}");
    } else if scale < 0 {
        out.push_str(&digits);
        if unscaled != 0 {
            out.extend(std::iter::repeat_n('0', usize::from(scale.unsigned_abs())));
        }
    } else if fraction == 0 {
        out.push_str(&digits);
    } else {
        let padded = format!("{digits:0>width$}", width = fraction + 1);
        let (before, after) = padded.split_at_checked(padded.len() - fraction).unwrap_or((&padded, ""));
        out.push_str(before);
        out.push('.');
        out.push_str(after);
    }
}

fn push_binary(out: &mut String, bytes: &[u8], hex: bool) {
    if !hex {
        out.push_str(&String::from_utf8_lossy(bytes));
        return;
    }
    out.push('[');
    for (number, byte) in bytes.iter().enumerate() {
        // Writing to a string does not fail.
        let _ = write!(out, "{}{byte:02X}", if number > 0 { " " } else { "" });
    }
    out.push(']');
}

fn push_time(out: &mut String, nanos: i64) {
    let (seconds, micros) = (nanos.div_euclid(1_000_000_000), nanos.rem_euclid(1_000_000_000) / 1000);
    // Writing to a string does not fail.
    let _ = write!(out, "{:02}:{:02}:{:02}", seconds / 3600, seconds / 60 % 60, seconds % 60);
    push_fraction(out, micros);
}
