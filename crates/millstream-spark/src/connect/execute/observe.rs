//! Metrics that users observe on the way of rows (`df.observe`).

use std::sync::Arc;

use arrow::array::{Array, AsArray};
use arrow::datatypes::{
    DataType, Date32Type, Decimal128Type, DurationMicrosecondType, Field, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type,
    Int64Type, IntervalUnit, IntervalYearMonthType, TimeUnit, TimestampMicrosecondType,
};
use millstream_core::Result;
use millstream_engine::from_datafusion;
use millstream_engine::observe::Observed;
use spark_connect_proto::execute_plan_response::ObservedMetrics;
use spark_connect_proto::expression::Literal;
use spark_connect_proto::expression::literal::{Decimal, LiteralType};

use crate::functions::cast::{TextStyle, text_of};
use crate::types::to_proto;

/// What a plan observed, as clients take it.
///
/// # Errors
/// `INTERNAL_ERROR` for values that have no array.
pub(super) fn answer(observed: Vec<Observed>) -> Result<Vec<ObservedMetrics>> {
    let metrics = |Observed { name, fields, values }: Observed| {
        let literals = fields.iter().zip(&values).map(|(field, value)| literal(&value.to_array().map_err(from_datafusion)?, field));
        Ok(ObservedMetrics {
            name,
            keys: fields.iter().map(|field| field.name().clone()).collect(),
            values: literals.collect::<Result<_>>()?,
            ..ObservedMetrics::default()
        })
    };
    observed.into_iter().map(metrics).collect()
}

fn null(field: &Field) -> Literal {
    Literal { literal_type: Some(LiteralType::Null(to_proto(field))), ..Literal::default() }
}

/// The first value of a column. Values of types that literals do not have are sent as their text.
fn literal(column: &Arc<dyn Array>, field: &Field) -> Result<Literal> {
    if column.is_empty() || column.is_null(0) {
        return Ok(null(field));
    }
    let value = match column.data_type() {
        DataType::Boolean => column.as_boolean_opt().map(|values| LiteralType::Boolean(values.value(0))),
        DataType::Int8 => column.as_primitive_opt::<Int8Type>().map(|values| LiteralType::Byte(values.value(0).into())),
        DataType::Int16 => column.as_primitive_opt::<Int16Type>().map(|values| LiteralType::Short(values.value(0).into())),
        DataType::Int32 => column.as_primitive_opt::<Int32Type>().map(|values| LiteralType::Integer(values.value(0))),
        DataType::Int64 => column.as_primitive_opt::<Int64Type>().map(|values| LiteralType::Long(values.value(0))),
        DataType::Float32 => column.as_primitive_opt::<Float32Type>().map(|values| LiteralType::Float(values.value(0))),
        DataType::Float64 => column.as_primitive_opt::<Float64Type>().map(|values| LiteralType::Double(values.value(0))),
        DataType::Decimal128(precision, scale) => column.as_primitive_opt::<Decimal128Type>().map(|values| {
            LiteralType::Decimal(Decimal {
                value: values.value_as_string(0),
                precision: Some(i32::from(*precision)),
                scale: Some(i32::from(*scale)),
            })
        }),
        DataType::Date32 => column.as_primitive_opt::<Date32Type>().map(|values| LiteralType::Date(values.value(0))),
        DataType::Timestamp(TimeUnit::Microsecond, zone) => column.as_primitive_opt::<TimestampMicrosecondType>().map(|values| {
            let micros = values.value(0);
            if zone.is_some() { LiteralType::Timestamp(micros) } else { LiteralType::TimestampNtz(micros) }
        }),
        DataType::Duration(TimeUnit::Microsecond) => {
            column.as_primitive_opt::<DurationMicrosecondType>().map(|values| LiteralType::DayTimeInterval(values.value(0)))
        }
        DataType::Interval(IntervalUnit::YearMonth) => {
            column.as_primitive_opt::<IntervalYearMonthType>().map(|values| LiteralType::YearMonthInterval(values.value(0)))
        }
        DataType::Binary => column.as_binary_opt::<i32>().map(|values| LiteralType::Binary(values.value(0).to_vec().into())),
        _ => None,
    };
    let value = match value {
        Some(value) => value,
        None => {
            let texts = text_of(&column.slice(0, 1), field, &TextStyle::cast(crate::functions::TimeZone::Region(chrono_tz::UTC)))?;
            LiteralType::String(texts.value(0).to_owned())
        }
    };
    Ok(Literal { literal_type: Some(value), ..Literal::default() })
}

#[cfg(test)]
mod tests {
    use arrow::array::{ArrayRef, Decimal128Array, Int64Array, StringArray};

    use super::*;

    #[test]
    fn values_become_literals() {
        let cases: [(ArrayRef, LiteralType); 3] = [
            (Arc::new(Int64Array::from(vec![7])), LiteralType::Long(7)),
            (Arc::new(StringArray::from(vec!["x"])), LiteralType::String("x".into())),
            (
                Arc::new(Decimal128Array::from(vec![150]).with_precision_and_scale(10, 2).unwrap()),
                LiteralType::Decimal(Decimal { value: "1.50".into(), precision: Some(10), scale: Some(2) }),
            ),
        ];
        for (column, expected) in cases {
            let field = Field::new("m", column.data_type().clone(), true);
            assert_eq!(literal(&column, &field).unwrap().literal_type, Some(expected));
        }
    }
}
