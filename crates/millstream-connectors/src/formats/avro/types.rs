//! Which Avro values become which Spark values.

use arrow::array::ArrayRef;
use arrow::datatypes::{DataType, Field, TimeUnit};
use arrow::error::ArrowError;

use super::super::resolve::{Convert, cast, cast_by_int32, is_text_or_bytes, list_of, map_of, relabel_timestamp, same, timestamp};
use super::schema::Type;

/// Spark's conversions, tried against Spark 4.2 type by type. A `long` without a logical type that is read as a timestamp counts
/// milliseconds.
pub(super) fn rules(file: &DataType, bound: &DataType) -> Option<Convert> {
    use DataType::*;
    match (file, bound) {
        (Timestamp(TimeUnit::Millisecond | TimeUnit::Microsecond, from), Timestamp(TimeUnit::Microsecond, to)) => {
            (from.is_some() == to.is_some()).then_some(relabel_timestamp)
        }
        (file, bound) if file == bound => Some(same),
        (Null, _) => Some(cast),
        (Dictionary(_, value), Utf8 | LargeUtf8 | Utf8View) if value.as_ref() == &Utf8 => Some(cast),
        (Utf8 | Utf8View, Utf8 | LargeUtf8 | Utf8View) => Some(cast),
        (Binary, Binary | LargeBinary | BinaryView) => Some(cast),
        (FixedSizeBinary(_), bound) if is_text_or_bytes(bound) && !matches!(bound, Utf8 | LargeUtf8 | Utf8View) => Some(cast),
        (Int32, Int64 | Float64) => Some(cast),
        (Int32, Date32) => Some(cast_by_int32),
        (Int64, Timestamp(TimeUnit::Microsecond, _)) => Some(millis),
        (Float32, Float64) => Some(cast),
        (Date32, Int32 | Int64 | Float64) => Some(cast_by_int32),
        (Date32, Timestamp(TimeUnit::Microsecond, None)) => Some(cast),
        (Timestamp(..), Int64) => Some(cast),
        (Decimal128(p, s) | Decimal64(p, s) | Decimal32(p, s), Decimal128(q, t)) => {
            let digits = |precision: &u8, scale: &i8| i16::from(*precision) - i16::from(*scale);
            (digits(q, t) >= digits(p, s)).then_some(cast)
        }
        _ => None,
    }
}

fn millis(array: &ArrayRef, to: &DataType) -> Result<ArrayRef, ArrowError> {
    relabel_timestamp(&cast(array, &DataType::Timestamp(TimeUnit::Millisecond, None))?, to)
}

/// The Spark type of an Avro type, everything nullable; an error names the type that Spark has no counterpart for.
pub(super) fn spark_type(avro: &Type) -> Result<DataType, &'static str> {
    Ok(match avro {
        Type::Null => DataType::Null,
        Type::Boolean => DataType::Boolean,
        Type::Int => DataType::Int32,
        Type::Long => DataType::Int64,
        Type::Float => DataType::Float32,
        Type::Double => DataType::Float64,
        Type::Bytes | Type::Fixed(_) => DataType::Binary,
        Type::String | Type::Enum => DataType::Utf8,
        Type::Date => DataType::Date32,
        Type::TimestampMillis(instant) | Type::TimestampMicros(instant) => timestamp(*instant),
        Type::Decimal { precision, scale, .. } => DataType::Decimal128(*precision, *scale),
        Type::TimeOfDay { .. } => return Err("time of day"),
        Type::Array(items) => list_of(spark_type(items)?),
        Type::Map(values) => map_of(DataType::Utf8, spark_type(values)?),
        Type::Record(fields) => {
            let fields = fields.iter().map(|(name, field)| spark_type(field).map(|kind| Field::new(name, kind, true)));
            DataType::Struct(fields.collect::<Result<_, _>>()?)
        }
        Type::Union(branches) => {
            let branches: Vec<&Type> = branches.iter().map(AsRef::as_ref).filter(|branch| **branch != Type::Null).collect();
            match branches.as_slice() {
                [] => DataType::Null,
                [only] => spark_type(only)?,
                [Type::Int, Type::Long] | [Type::Long, Type::Int] => DataType::Int64,
                [Type::Float, Type::Double] | [Type::Double, Type::Float] => DataType::Float64,
                several => {
                    let members = several
                        .iter()
                        .enumerate()
                        .map(|(i, branch)| spark_type(branch).map(|kind| Field::new(format!("member{i}"), kind, true)));
                    DataType::Struct(members.collect::<Result<_, _>>()?)
                }
            }
        }
    })
}
