//! Columns under construction: texts become values one by one, and these an arrow array. A near copy of what the file source has.

use std::sync::Arc;

use arrow::array::{ArrayRef, BinaryArray, BooleanArray, BooleanBufferBuilder, NullBufferBuilder, PrimitiveArray, StringArray};
use arrow::buffer::{Buffer, OffsetBuffer, ScalarBuffer};
use arrow::datatypes::{
    ArrowPrimitiveType, DataType, Date32Type, Decimal128Type, DurationMicrosecondType, Field, Float32Type, Float64Type, Int8Type,
    Int16Type, Int32Type, Int64Type, IntervalYearMonthType, TimestampMicrosecondType,
};
use arrow::error::ArrowError;

use super::super::cast::decimal::Digits;
use super::super::cast::interval::{Units, parse_day_time, parse_year_month};
use super::options::ValueOptions;

/// A column.
#[derive(Debug)]
pub(super) struct Column {
    values: Values,
    nulls: NullBufferBuilder,
}

/// The values of a column, by what they are read as.
#[derive(Debug)]
enum Values {
    Boolean(BooleanBufferBuilder),
    Int8(Vec<i8>),
    Int16(Vec<i16>),
    Int32(Vec<i32>),
    Int64(Vec<i64>),
    Float(Vec<f32>),
    Double(Vec<f64>),
    Decimal {
        values: Vec<i128>,
        precision: u8,
        scale: i8,
    },
    Date(Vec<i32>),
    DayTime(Vec<i64>, Units),
    YearMonth(Vec<i32>, Units),
    Timestamp(Vec<i64>),
    TimestampNtz(Vec<i64>),
    /// Text or bytes: where each value ends, and all of them one behind the other.
    Bytes {
        ends: Vec<i32>,
        bytes: Vec<u8>,
        text: bool,
    },
}

impl Column {
    /// An empty column of a supported type.
    pub(super) fn new(field: &Field) -> Self {
        let values = match field.data_type() {
            DataType::Boolean => Values::Boolean(BooleanBufferBuilder::new(0)),
            DataType::Int8 => Values::Int8(Vec::new()),
            DataType::Int16 => Values::Int16(Vec::new()),
            DataType::Int32 => Values::Int32(Vec::new()),
            DataType::Int64 => Values::Int64(Vec::new()),
            DataType::Float32 => Values::Float(Vec::new()),
            DataType::Float64 => Values::Double(Vec::new()),
            DataType::Decimal128(precision, scale) => Values::Decimal { values: Vec::new(), precision: *precision, scale: *scale },
            DataType::Date32 => Values::Date(Vec::new()),
            DataType::Timestamp(_, Some(_)) => Values::Timestamp(Vec::new()),
            DataType::Timestamp(_, None) => Values::TimestampNtz(Vec::new()),
            DataType::Duration(_) => Values::DayTime(Vec::new(), Units::of_field(field)),
            DataType::Interval(_) => Values::YearMonth(Vec::new(), Units::of_field(field)),
            DataType::Binary => Values::Bytes { ends: vec![0], bytes: Vec::new(), text: false },
            _ => Values::Bytes { ends: vec![0], bytes: Vec::new(), text: true },
        };
        Column { values, nulls: NullBufferBuilder::new(0) }
    }

    /// Adds the value that a text stands for, which is UTF-8, or null when it stands for none; returns whether it did.
    #[inline]
    pub(super) fn push(&mut self, text: &[u8], options: &ValueOptions) -> bool {
        let fits = match &mut self.values {
            Values::Bytes { ends, bytes, .. } => {
                bytes.extend_from_slice(text);
                ends.push(end(bytes));
                true
            }
            Values::Int32(values) => push(values, parse_long(text).and_then(|value| i32::try_from(value).ok())),
            Values::Int64(values) => push(values, parse_long(text)),
            Values::Double(values) => push(values, double(text, options)),
            Values::Boolean(values) => {
                let value = boolean(text);
                values.append(value.unwrap_or_default());
                value.is_some()
            }
            Values::Int8(values) => push(values, parse_long(text).and_then(|value| i8::try_from(value).ok())),
            Values::Int16(values) => push(values, parse_long(text).and_then(|value| i16::try_from(value).ok())),
            Values::Float(values) => push(values, float(text, options)),
            Values::Decimal { values, precision, scale } => push(values, decimal(text, *precision, *scale)),
            Values::Date(values) => push(values, as_str(text).and_then(|text| options.formats.date(text))),
            Values::DayTime(values, units) => push(values, as_str(text).and_then(|text| parse_day_time(text, *units))),
            Values::YearMonth(values, units) => push(values, as_str(text).and_then(|text| parse_year_month(text, *units))),
            Values::Timestamp(values) => push(values, as_str(text).and_then(|text| options.formats.timestamp(text))),
            Values::TimestampNtz(values) => push(values, as_str(text).and_then(|text| options.formats.timestamp_ntz(text))),
        };
        self.nulls.append(fits);
        fits
    }

    /// Adds null.
    #[inline]
    pub(super) fn push_null(&mut self) {
        match &mut self.values {
            Values::Boolean(values) => values.append(false),
            Values::Int8(values) => values.push(0),
            Values::Int16(values) => values.push(0),
            Values::Int32(values) | Values::Date(values) | Values::YearMonth(values, _) => values.push(0),
            Values::Int64(values) | Values::Timestamp(values) | Values::TimestampNtz(values) | Values::DayTime(values, _) => values.push(0),
            Values::Float(values) => values.push(0.0),
            Values::Double(values) => values.push(0.0),
            Values::Decimal { values, .. } => values.push(0),
            Values::Bytes { ends, bytes, .. } => ends.push(end(bytes)),
        }
        self.nulls.append(false);
    }

    /// The column as an array of the type `to`; it is empty afterwards.
    ///
    /// # Errors
    /// Text that is not UTF-8.
    pub(super) fn finish(&mut self, to: &DataType) -> Result<ArrayRef, ArrowError> {
        let nulls = self.nulls.finish();
        fn primitive<T: ArrowPrimitiveType>(
            values: &mut Vec<T::Native>,
            nulls: Option<arrow::buffer::NullBuffer>,
        ) -> Result<PrimitiveArray<T>, ArrowError> {
            let capacity = values.len();
            let values = std::mem::replace(values, Vec::with_capacity(capacity));
            PrimitiveArray::<T>::try_new(ScalarBuffer::from(values), nulls)
        }
        let array: ArrayRef = match &mut self.values {
            Values::Boolean(values) => Arc::new(BooleanArray::new(values.finish(), nulls)),
            Values::Int8(values) => Arc::new(primitive::<Int8Type>(values, nulls)?),
            Values::Int16(values) => Arc::new(primitive::<Int16Type>(values, nulls)?),
            Values::Int32(values) => Arc::new(primitive::<Int32Type>(values, nulls)?),
            Values::Int64(values) => Arc::new(primitive::<Int64Type>(values, nulls)?),
            Values::Float(values) => Arc::new(primitive::<Float32Type>(values, nulls)?),
            Values::Double(values) => Arc::new(primitive::<Float64Type>(values, nulls)?),
            Values::Decimal { values, precision, scale } => {
                Arc::new(primitive::<Decimal128Type>(values, nulls)?.with_precision_and_scale(*precision, *scale)?)
            }
            Values::Date(values) => Arc::new(primitive::<Date32Type>(values, nulls)?),
            Values::DayTime(values, _) => Arc::new(primitive::<DurationMicrosecondType>(values, nulls)?),
            Values::YearMonth(values, _) => Arc::new(primitive::<IntervalYearMonthType>(values, nulls)?),
            Values::Timestamp(values) | Values::TimestampNtz(values) => {
                let zone = if let DataType::Timestamp(_, zone) = to { zone.clone() } else { None };
                Arc::new(primitive::<TimestampMicrosecondType>(values, nulls)?.with_timezone_opt(zone))
            }
            Values::Bytes { ends, bytes, text } => {
                let offsets = std::mem::replace(ends, Vec::with_capacity(ends.len()));
                ends.push(0);
                let capacity = bytes.len();
                let values = Buffer::from(std::mem::replace(bytes, Vec::with_capacity(capacity)));
                let offsets = OffsetBuffer::new(ScalarBuffer::from(offsets));
                if *text {
                    Arc::new(StringArray::try_new(offsets, values, nulls)?)
                } else {
                    Arc::new(BinaryArray::try_new(offsets, values, nulls)?)
                }
            }
        };
        Ok(array)
    }
}

/// A batch is closed long before its text has 2 GiB.
#[inline]
fn end(bytes: &[u8]) -> i32 {
    i32::try_from(bytes.len()).unwrap_or(i32::MAX)
}

#[inline]
fn push<T: Default>(values: &mut Vec<T>, value: Option<T>) -> bool {
    let fits = value.is_some();
    values.push(value.unwrap_or_default());
    fits
}

fn as_str(text: &[u8]) -> Option<&str> {
    std::str::from_utf8(text).ok()
}

/// A truth value in any case.
pub(super) fn boolean(text: &[u8]) -> Option<bool> {
    if text.eq_ignore_ascii_case(b"true") {
        Some(true)
    } else if text.eq_ignore_ascii_case(b"false") {
        Some(false)
    } else {
        None
    }
}

/// A floating-point number, or one of the texts that the options name.
pub(super) fn double(text: &[u8], options: &ValueOptions) -> Option<f64> {
    if text == options.nan {
        Some(f64::NAN)
    } else if text == options.positive_infinity {
        Some(f64::INFINITY)
    } else if text == options.negative_infinity {
        Some(f64::NEG_INFINITY)
    } else {
        parse_double(as_str(text)?)
    }
}

fn float(text: &[u8], options: &ValueOptions) -> Option<f32> {
    if text == options.nan {
        Some(f32::NAN)
    } else if text == options.positive_infinity {
        Some(f32::INFINITY)
    } else if text == options.negative_infinity {
        Some(f32::NEG_INFINITY)
    } else {
        parse_float(as_str(text)?)
    }
}

/// A decimal; commas are taken for grouping, as in English.
fn decimal(text: &[u8], precision: u8, scale: i8) -> Option<i128> {
    Digits::parse(&as_str(text)?.replace(',', ""))?.to_decimal(precision, scale)
}

/// A whole number in decimal digits with an optional sign, as Java's `Long.parseLong` takes it.
pub(super) fn parse_long(text: &[u8]) -> Option<i64> {
    as_str(text)?.parse().ok()
}

/// A floating-point number as Java's `Double.parseDouble` takes it: surrounding spaces, a trailing `d` or `f`, `NaN` and `Infinity` are
/// allowed; hexadecimal forms are not supported.
pub(super) fn parse_double(text: &str) -> Option<f64> {
    let (negative, digits) = java_float(text)?;
    let value: f64 = match digits {
        "NaN" => f64::NAN,
        "Infinity" => f64::INFINITY,
        _ => digits.parse().ok()?,
    };
    Some(if negative { -value } else { value })
}

/// As [`parse_double`], rounding to the nearest 32-bit number.
fn parse_float(text: &str) -> Option<f32> {
    let (negative, digits) = java_float(text)?;
    let value: f32 = match digits {
        "NaN" => f32::NAN,
        "Infinity" => f32::INFINITY,
        _ => digits.parse().ok()?,
    };
    Some(if negative { -value } else { value })
}

/// Takes sign and Java's type suffix off a number and leaves only forms that Rust reads the same way.
fn java_float(text: &str) -> Option<(bool, &str)> {
    let text = text.trim_matches(|c: char| c <= ' ');
    let (negative, digits) = match text.as_bytes().first()? {
        b'-' => (true, text.get(1..)?),
        b'+' => (false, text.get(1..)?),
        _ => (false, text),
    };
    if digits == "NaN" || digits == "Infinity" {
        return Some((negative, digits));
    }
    let digits = digits.strip_suffix(['d', 'D', 'f', 'F']).unwrap_or(digits);
    let first = *digits.as_bytes().first()?;
    (first.is_ascii_digit() || first == b'.').then_some((negative, digits))
}
