//! Constants.

#![expect(deprecated, reason = "older clients send the types of constants in the places that are deprecated now")]

use std::collections::HashMap;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, ListArray, MapArray, StructArray, new_empty_array};
use arrow::buffer::OffsetBuffer;
use arrow::datatypes::{DataType, Field, Fields, IntervalMonthDayNano};
use datafusion::scalar::ScalarValue;
use millstream_core::{Error, Result};
use millstream_engine::from_datafusion;
use spark_connect_proto as proto;
use spark_connect_proto::data_type::Kind;
use spark_connect_proto::expression::Literal;
use spark_connect_proto::expression::literal::LiteralType;
use spark_connect_proto::expression::literal::specialized_array::ValueType;

use crate::functions::Typed;
use crate::types;

/// The value of a constant of the protocol.
///
/// # Errors
/// `INVALID_PLAN_INPUT` for a constant without a value, `UNSUPPORTED_LITERAL_TYPE` and `NUMERIC_VALUE_OUT_OF_RANGE` for values that have no
/// type here.
pub(crate) fn literal(literal: &Literal) -> Result<Typed> {
    let Some(value) = &literal.literal_type else { return Err(incomplete("a constant has no value")) };
    let declared = literal.data_type.as_ref();
    let scalar = match value {
        LiteralType::Null(data_type) => {
            let field = types::from_proto(declared.unwrap_or(data_type))?;
            return Ok(Typed::null(field.data_type()).with_metadata(field.metadata().clone()));
        }
        LiteralType::Binary(bytes) => ScalarValue::Binary(Some(bytes.to_vec())),
        LiteralType::Boolean(value) => ScalarValue::Boolean(Some(*value)),
        LiteralType::Byte(value) => ScalarValue::Int8(Some(i8::try_from(*value).map_err(|_| out_of_range(value, "TINYINT"))?)),
        LiteralType::Short(value) => ScalarValue::Int16(Some(i16::try_from(*value).map_err(|_| out_of_range(value, "SMALLINT"))?)),
        LiteralType::Integer(value) => ScalarValue::Int32(Some(*value)),
        LiteralType::Long(value) => ScalarValue::Int64(Some(*value)),
        LiteralType::Float(value) => ScalarValue::Float32(Some(*value)),
        LiteralType::Double(value) => ScalarValue::Float64(Some(*value)),
        LiteralType::Decimal(decimal) => decimal_value(&decimal.value, decimal.precision, decimal.scale)?,
        LiteralType::String(text) => ScalarValue::Utf8(Some(text.clone())),
        LiteralType::Date(days) => ScalarValue::Date32(Some(*days)),
        LiteralType::Timestamp(micros) => ScalarValue::TimestampMicrosecond(Some(*micros), Some("UTC".into())),
        LiteralType::TimestampNtz(micros) => ScalarValue::TimestampMicrosecond(Some(*micros), None),
        LiteralType::CalendarInterval(interval) => {
            let nanos = interval.microseconds.checked_mul(1_000).ok_or_else(|| out_of_range(interval.microseconds, "INTERVAL"))?;
            ScalarValue::IntervalMonthDayNano(Some(IntervalMonthDayNano::new(interval.months, interval.days, nanos)))
        }
        LiteralType::YearMonthInterval(months) => return Ok(interval(ScalarValue::IntervalYearMonth(Some(*months)), declared)),
        LiteralType::DayTimeInterval(micros) => return Ok(interval(ScalarValue::DurationMicrosecond(Some(*micros)), declared)),
        LiteralType::Array(of) => {
            let declared = declared_array(declared).or(of.element_type.clone());
            let elements = of.elements.iter().map(self::literal).collect::<Result<Vec<_>>>()?;
            list(elements, declared.as_ref())?
        }
        LiteralType::SpecializedArray(of) => list(specialized(of.value_type.as_ref()), declared_array(declared).as_ref())?,
        LiteralType::Map(of) => {
            let (key, value) = declared_map(declared).unwrap_or((of.key_type.clone(), of.value_type.clone()));
            let keys = of.keys.iter().map(self::literal).collect::<Result<Vec<_>>>()?;
            let values = of.values.iter().map(self::literal).collect::<Result<Vec<_>>>()?;
            map(keys, values, key.as_ref(), value.as_ref())?
        }
        LiteralType::Struct(of) => structure(of, declared)?,
        LiteralType::Time(time) => ScalarValue::Time64Nanosecond(Some(time.nano)),
        LiteralType::TimestampNtzNanos(_) | LiteralType::TimestampLtzNanos(_) => {
            return Err(Error::invalid("UNSUPPORTED_LITERAL_TYPE", "timestamps with nanoseconds are not supported").with_sqlstate("0A000"));
        }
    };
    Ok(Typed::literal(scalar))
}

fn incomplete(what: &str) -> Error {
    Error::invalid("INVALID_PLAN_INPUT", format!("the plan is incomplete: {what}")).with_sqlstate("42000")
}

fn out_of_range(value: impl std::fmt::Display, name: &str) -> Error {
    Error::invalid("NUMERIC_VALUE_OUT_OF_RANGE", format!("{value} is not a {name}")).with_sqlstate("22003")
}

fn decimal_value(text: &str, precision: Option<i32>, scale: Option<i32>) -> Result<ScalarValue> {
    let invalid = || Error::invalid("INVALID_PLAN_INPUT", format!("'{text}' is not a decimal")).with_sqlstate("42000");
    let (mantissa, exponent) = match text.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, exponent.parse::<i32>().map_err(|_| invalid())?),
        None => (text, 0),
    };
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let mut digits: i128 = format!("{whole}{fraction}").parse().map_err(|_| invalid())?;
    let mut found = i32::try_from(fraction.len()).map_err(|_| invalid())? - exponent;
    let wanted = scale.unwrap_or(0).max(found).max(0);
    while found < wanted {
        digits = digits.checked_mul(10).ok_or_else(|| out_of_range(text, "DECIMAL(38)"))?;
        found += 1;
    }
    let length = i32::try_from(digits.unsigned_abs().to_string().len()).map_err(|_| invalid())?;
    let precision = precision.unwrap_or(1).max(length).max(wanted);
    match (u8::try_from(precision), i8::try_from(wanted)) {
        (Ok(precision @ 1..=38), Ok(scale)) => Ok(ScalarValue::Decimal128(Some(digits), precision, scale)),
        _ => Err(out_of_range(text, "DECIMAL(38)")),
    }
}

fn interval(value: ScalarValue, declared: Option<&proto::DataType>) -> Typed {
    let metadata = declared.and_then(|of| types::from_proto(of).ok()).map_or_else(HashMap::new, |field| field.metadata().clone());
    Typed::literal(value).with_metadata(metadata)
}

fn declared_array(declared: Option<&proto::DataType>) -> Option<proto::DataType> {
    match &declared?.kind {
        Some(Kind::Array(of)) => of.element_type.as_deref().cloned(),
        _ => None,
    }
}

fn declared_map(declared: Option<&proto::DataType>) -> Option<(Option<proto::DataType>, Option<proto::DataType>)> {
    match &declared?.kind {
        Some(Kind::Map(of)) => Some((of.key_type.as_deref().cloned(), of.value_type.as_deref().cloned())),
        _ => None,
    }
}

fn specialized(values: Option<&ValueType>) -> Vec<Typed> {
    match values {
        None => Vec::new(),
        Some(ValueType::Bools(of)) => of.values.iter().map(|value| Typed::literal(ScalarValue::Boolean(Some(*value)))).collect(),
        Some(ValueType::Ints(of)) => of.values.iter().map(|value| Typed::literal(ScalarValue::Int32(Some(*value)))).collect(),
        Some(ValueType::Longs(of)) => of.values.iter().map(|value| Typed::literal(ScalarValue::Int64(Some(*value)))).collect(),
        Some(ValueType::Floats(of)) => of.values.iter().map(|value| Typed::literal(ScalarValue::Float32(Some(*value)))).collect(),
        Some(ValueType::Doubles(of)) => of.values.iter().map(|value| Typed::literal(ScalarValue::Float64(Some(*value)))).collect(),
        Some(ValueType::Strings(of)) => of.values.iter().map(Typed::text).collect(),
    }
}

/// Constants of one type as an array of it; `declared` is the type if it is known.
fn column(values: &[Typed], declared: Option<&proto::DataType>) -> Result<ArrayRef> {
    let data_type = match declared.filter(|of| of.kind.is_some()) {
        Some(of) => types::from_proto(of)?.data_type().clone(),
        None => values.iter().map(|value| value.data_type.clone()).find(|data_type| *data_type != DataType::Null).unwrap_or(DataType::Null),
    };
    if values.is_empty() {
        return Ok(new_empty_array(&data_type));
    }
    let scalars = values
        .iter()
        .map(|value| match value.as_literal() {
            Some(scalar) if scalar.is_null() => ScalarValue::try_from(&data_type).map_err(from_datafusion),
            Some(scalar) if scalar.data_type() == data_type => Ok(scalar.clone()),
            Some(scalar) => scalar.cast_to(&data_type).map_err(from_datafusion),
            None => Err(Error::internal("a constant has no value")),
        })
        .collect::<Result<Vec<_>>>()?;
    ScalarValue::iter_to_array(scalars).map_err(from_datafusion)
}

fn arrow(error: arrow::error::ArrowError) -> Error {
    Error::internal("a constant does not fit its type").caused_by(error)
}

fn list(elements: Vec<Typed>, declared: Option<&proto::DataType>) -> Result<ScalarValue> {
    let values = column(&elements, declared)?;
    let field = Arc::new(Field::new("element", values.data_type().clone(), values.null_count() > 0 || declared.is_some()));
    let offsets = OffsetBuffer::from_lengths([values.len()]);
    ListArray::try_new(field, offsets, values, None).map(|list| ScalarValue::List(Arc::new(list))).map_err(arrow)
}

fn map(keys: Vec<Typed>, values: Vec<Typed>, key: Option<&proto::DataType>, value: Option<&proto::DataType>) -> Result<ScalarValue> {
    let (keys, values) = (column(&keys, key)?, column(&values, value)?);
    if keys.len() != values.len() {
        return Err(incomplete("a map constant has more keys than values"));
    }
    let data_type = types::map(keys.data_type().clone(), values.data_type().clone(), true);
    let DataType::Map(entries_field, sorted) = data_type else { return Err(Error::internal("a map type is a map")) };
    let DataType::Struct(fields) = entries_field.data_type().clone() else {
        return Err(Error::internal("the entries of a map are structs"));
    };
    let offsets = OffsetBuffer::from_lengths([keys.len()]);
    let entries = StructArray::try_new(fields, vec![keys, values], None).map_err(arrow)?;
    MapArray::try_new(entries_field, offsets, entries, None, sorted).map(|map| ScalarValue::Map(Arc::new(map))).map_err(arrow)
}

fn structure(of: &proto::expression::literal::Struct, declared: Option<&proto::DataType>) -> Result<ScalarValue> {
    let declared = declared.or(of.struct_type.as_ref()).ok_or_else(|| incomplete("a struct constant has no type"))?;
    let Some(Kind::Struct(struct_type)) = &declared.kind else { return Err(incomplete("the type of a struct constant is not a struct")) };
    let field = types::from_proto(declared)?;
    let DataType::Struct(fields) = field.data_type() else { return Err(incomplete("the type of a struct constant is not a struct")) };
    if fields.len() != of.elements.len() {
        return Err(incomplete("a struct constant has another number of values than its type"));
    }
    let columns = of
        .elements
        .iter()
        .zip(&struct_type.fields)
        .map(|(element, field)| column(&[literal(element)?], field.data_type.as_ref()))
        .collect::<Result<Vec<_>>>()?;
    if columns.is_empty() {
        return Ok(ScalarValue::Struct(Arc::new(StructArray::new_empty_fields(1, None))));
    }
    let fields: Fields =
        fields.iter().zip(&columns).map(|(field, column)| field.as_ref().clone().with_data_type(column.data_type().clone())).collect();
    StructArray::try_new(fields, columns, None).map(|array| ScalarValue::Struct(Arc::new(array))).map_err(arrow)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decimals_keep_their_digits() {
        for (text, precision, scale, expected) in [
            ("1.50", None, None, Some((150, 3, 2))),
            ("-0.001", None, None, Some((-1, 3, 3))),
            ("1E+3", None, None, Some((1000, 4, 0))),
            ("12", Some(10), Some(2), Some((1200, 10, 2))),
            ("1.50", Some(10), Some(0), Some((150, 10, 2))),
            ("12345678901", Some(10), Some(0), Some((12_345_678_901, 11, 0))),
            ("x", None, None, None),
        ] {
            let expected = expected.map(|(digits, precision, scale)| ScalarValue::Decimal128(Some(digits), precision, scale));
            assert_eq!(decimal_value(text, precision, scale).ok(), expected, "{text}");
        }
    }
}
