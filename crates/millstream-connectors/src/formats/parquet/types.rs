//! Which Parquet values become which Spark values.

use arrow::datatypes::{DataType, IntervalUnit, TimeUnit};

use super::super::resolve::{Convert, cast, cast_by_int32, cast_by_int64, is_text_or_bytes, list_of, map_of, relabel_timestamp, same};
use super::super::resolve::{entries, timestamp};

/// Digits that a decimal needs before the point to take any 32-bit integer, as Spark counts.
const INT32_DIGITS: i16 = 10;
/// Digits that a decimal needs before the point to take any 64-bit integer, as Spark counts.
const INT64_DIGITS: i16 = 20;

/// Spark's conversions, tried against Spark 4.2 type by type. Where Spark would silently wrap a number that does not fit (an `INT32` read
/// as `tinyint`) the value is an error, and where it shows the bare bytes of a decimal the types do not match.
pub(super) fn rules(file: &DataType, bound: &DataType) -> Option<Convert> {
    use DataType::*;
    match (file, bound) {
        (file, bound) if file == bound && !matches!(file, Timestamp(TimeUnit::Nanosecond, _)) => Some(same),
        (Null, _) => Some(cast),
        (file, bound) if is_text_or_bytes(file) && is_text_or_bytes(bound) => Some(cast),
        (FixedSizeBinary(_), Binary | LargeBinary | BinaryView) => Some(cast),
        (Int8 | Int16 | Int32 | UInt8 | UInt16, Int8 | Int16 | Int32 | Int64 | Float64) => Some(cast),
        (UInt32, Int64) => Some(cast),
        (UInt64, Decimal128(20, 0)) => Some(cast),
        (Float32, Float64) => Some(cast),
        (Int8 | Int16 | Int32, Decimal128(precision, scale)) if i16::from(*precision) - i16::from(*scale) >= INT32_DIGITS => Some(cast),
        (Int64, Decimal128(precision, scale)) if i16::from(*precision) - i16::from(*scale) >= INT64_DIGITS => Some(cast),
        (Decimal128(p, s), Decimal128(q, t)) if t >= s && i16::from(*q) - i16::from(*p) >= i16::from(*t) - i16::from(*s) => Some(cast),
        (Int8 | Int16 | Int32, Date32 | Interval(IntervalUnit::YearMonth)) => Some(cast_by_int32),
        (Date32, Int8 | Int16 | Int32 | Int64 | Float64) => Some(cast_by_int32),
        (Date32, Timestamp(TimeUnit::Microsecond, None)) => Some(cast),
        (Timestamp(TimeUnit::Millisecond | TimeUnit::Microsecond, _), Timestamp(TimeUnit::Microsecond, _)) => Some(relabel_timestamp),
        (Timestamp(..) | Time64(_), Int64) => Some(cast),
        (Int64 | Timestamp(..) | Time64(_), Duration(TimeUnit::Microsecond)) => Some(cast_by_int64),
        _ => None,
    }
}

/// The Spark type of a Parquet type, everything nullable; an error says which type Spark has no counterpart for.
pub(super) fn spark_type(file: &DataType) -> Result<DataType, DataType> {
    use DataType::*;
    Ok(match file {
        Boolean | Int8 | Int16 | Int32 | Int64 | Float32 | Float64 | Utf8 | Binary | Date32 | Decimal128(..) => file.clone(),
        UInt8 => Int16,
        UInt16 | Null => Int32,
        UInt32 => Int64,
        UInt64 => Decimal128(20, 0),
        FixedSizeBinary(_) => Binary,
        Timestamp(TimeUnit::Millisecond | TimeUnit::Microsecond, zone) => timestamp(zone.is_some()),
        List(item) => list_of(spark_type(item.data_type())?),
        Struct(fields) => {
            let fields = fields.iter().map(|field| {
                let kind = spark_type(field.data_type())?;
                Ok(arrow::datatypes::Field::new(field.name(), kind, true))
            });
            Struct(fields.collect::<Result<_, DataType>>()?)
        }
        Map(field, _) => match entries(field) {
            Some((key, value)) => map_of(spark_type(key.data_type())?, spark_type(value.data_type())?),
            None => return Err(file.clone()),
        },
        other => return Err(other.clone()),
    })
}
