//! `format_string`.

use arrow::array::{ArrayRef, AsArray};
use arrow::datatypes::{
    DataType, Date32Type, Decimal128Type, DurationMicrosecondType, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type,
    IntervalYearMonthType, TimestampMicrosecondType,
};
use millstream_core::{Error, ErrorKind, Result};

use super::super::rows::{Memo, Row, Rows};
use super::super::{Arguments, Call, Functions, Kernel, Typed, cast, scalar};
use super::formatter::{Format, Value};

pub(super) fn register(functions: &mut Functions) {
    functions.add_all(&["format_string", "printf"], build);
}

fn build(call: &Call<'_>) -> Result<Typed> {
    call.arity(1..=usize::MAX)?;
    let format = call.string(0)?;
    if let Some(text) = super::super::coercion::constant_of(&format).and_then(|value| value.try_as_str().flatten().map(str::to_owned))
        && text.contains("%0$")
    {
        let message = "arguments of `format_string` are numbered from 1, so that '%0$' is invalid: write '%1$'";
        return Err(Error::invalid("INVALID_PARAMETER_VALUE.ZERO_INDEX", message).with_sqlstate("22023"));
    }
    let nullable = format.nullable;
    let mut arguments = vec![format];
    arguments.extend(call.values_from(1)?);
    Ok(scalar("format_string", FormatString, arguments, DataType::Utf8, nullable))
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct FormatString;

impl Kernel for FormatString {
    fn evaluate(&self, arguments: &Arguments<'_>) -> Result<ArrayRef> {
        let mut formats = Memo::new();
        Rows::of(arguments)?.every_text(|row, out| {
            let Some(text) = row.text_opt(0) else { return Ok(false) };
            let format = formats.get(text, |text| Format::parse(text).map_err(|what| invalid(text, &what)))?;
            let values: Vec<Value<'_>> = (1..row.len()).map(|index| value(row, index)).collect();
            format.write(&values, out).map_err(|what| invalid(text, &what))?;
            Ok(true)
        })
    }
}

fn invalid(format: &str, what: &str) -> Error {
    Error::new(ErrorKind::BadRecord, "IllegalArgumentException", format!("the format '{format}' cannot be used: {what}"))
}

/// A value as Spark hands it to Java's formatter: dates and times as the numbers that they are kept as.
fn value(row: Row<'_>, index: usize) -> Value<'_> {
    let Some((array, at)) = row.array(index) else { return Value::Null };
    if row.is_null(index) {
        return Value::Null;
    }
    let array = array.as_ref();
    let found = match array.data_type() {
        DataType::Boolean => array.as_boolean_opt().map(|values| Value::Boolean(values.value(at))),
        DataType::Int8 => array.as_primitive_opt::<Int8Type>().map(|values| Value::Integer(values.value(at).into(), 8)),
        DataType::Int16 => array.as_primitive_opt::<Int16Type>().map(|values| Value::Integer(values.value(at).into(), 16)),
        DataType::Int32 => array.as_primitive_opt::<Int32Type>().map(|values| Value::Integer(values.value(at).into(), 32)),
        DataType::Int64 => array.as_primitive_opt::<Int64Type>().map(|values| Value::Integer(values.value(at), 64)),
        DataType::Date32 => array.as_primitive_opt::<Date32Type>().map(|values| Value::Integer(values.value(at).into(), 32)),
        DataType::Timestamp(..) => array.as_primitive_opt::<TimestampMicrosecondType>().map(|v| Value::Integer(v.value(at), 64)),
        DataType::Duration(_) => array.as_primitive_opt::<DurationMicrosecondType>().map(|v| Value::Integer(v.value(at), 64)),
        DataType::Interval(_) => array.as_primitive_opt::<IntervalYearMonthType>().map(|v| Value::Integer(v.value(at).into(), 32)),
        DataType::Float32 => array.as_primitive_opt::<Float32Type>().map(|values| Value::Float(values.value(at))),
        DataType::Float64 => array.as_primitive_opt::<Float64Type>().map(|values| Value::Double(values.value(at))),
        DataType::Utf8 => Some(Value::Text(row.text(index))),
        DataType::Decimal128(_, scale) => array.as_primitive_opt::<Decimal128Type>().map(|values| {
            let mut text = String::new();
            cast::push_decimal(&mut text, values.value(at), *scale, false);
            Value::Other(text)
        }),
        _ => None,
    };
    found.unwrap_or_else(|| Value::Other(format!("{array:?}")))
}
