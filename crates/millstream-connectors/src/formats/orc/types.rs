//! Which ORC values become which Spark values.

use arrow::array::ArrayRef;
use arrow::compute::cast as lenient_cast;
use arrow::datatypes::{DataType, Field, TimeUnit};
use arrow::error::ArrowError;

use super::super::resolve::{Convert, cast, entries, is_text_or_bytes, list_of, map_of, relabel_timestamp, same, timestamp};

/// The conversions of ORC's schema evolution between numbers, decimals, text, dates and timestamps, tried against Spark 4.2. As there, a
/// value that the bound type cannot hold is null. Spark's stranger ones (numbers as seconds, bytes as hexadecimal text) do not match.
pub(super) fn rules(file: &DataType, bound: &DataType) -> Option<Convert> {
    use DataType::*;
    match (file, bound) {
        // ORC's TIMESTAMP is a wall clock, which Spark reads as an instant in the zone of its process: UTC here.
        (Timestamp(..), Timestamp(TimeUnit::Microsecond, zone)) => zone.as_ref().map(|_| relabel_timestamp as Convert),
        (file, bound) if file == bound => Some(same),
        (file, bound) if is_number(file) && is_number(bound) => Some(lenient),
        (Boolean, bound) if is_number(bound) => Some(lenient),
        (file, Boolean) if is_number(file) => Some(lenient),
        // Spark keeps timestamps without time zone as bare microseconds.
        (Int8 | Int16 | Int32 | Int64, Timestamp(TimeUnit::Microsecond, None)) => Some(bare_micros),
        (Utf8, bound) if is_number(bound) => Some(lenient),
        (Utf8, bound) if is_text_or_bytes(bound) => Some(cast),
        (Binary, LargeBinary | BinaryView) => Some(cast),
        (Int8 | Int16 | Int32 | Int64 | Decimal128(..) | Date32, Utf8 | LargeUtf8 | Utf8View) => Some(lenient),
        (Date32, Timestamp(TimeUnit::Microsecond, Some(_))) => Some(midnight),
        (Timestamp(..), Date32) => Some(lenient),
        _ => None,
    }
}

fn is_number(kind: &DataType) -> bool {
    use DataType::*;
    matches!(kind, Int8 | Int16 | Int32 | Int64 | Float32 | Float64 | Decimal128(..))
}

fn lenient(array: &ArrayRef, to: &DataType) -> Result<ArrayRef, ArrowError> {
    lenient_cast(array, to)
}

fn bare_micros(array: &ArrayRef, to: &DataType) -> Result<ArrayRef, ArrowError> {
    cast(&cast(array, &DataType::Int64)?, to)
}

fn midnight(array: &ArrayRef, to: &DataType) -> Result<ArrayRef, ArrowError> {
    relabel_timestamp(&cast(array, &DataType::Timestamp(TimeUnit::Microsecond, None))?, to)
}

/// The Spark type of an ORC type as the decoder shows it, everything nullable; an error names the type without counterpart.
pub(super) fn spark_type(file: &DataType) -> Result<DataType, DataType> {
    use DataType::*;
    Ok(match file {
        Boolean | Int8 | Int16 | Int32 | Int64 | Float32 | Float64 | Utf8 | Binary | Date32 | Decimal128(..) => file.clone(),
        Timestamp(..) => timestamp(true),
        List(item) => list_of(spark_type(item.data_type())?),
        Struct(fields) => {
            let fields = fields.iter().map(|field| Ok(Field::new(field.name(), spark_type(field.data_type())?, true)));
            Struct(fields.collect::<Result<_, DataType>>()?)
        }
        Map(field, _) => match entries(field) {
            Some((key, value)) => map_of(spark_type(key.data_type())?, spark_type(value.data_type())?),
            None => return Err(file.clone()),
        },
        other => return Err(other.clone()),
    })
}
