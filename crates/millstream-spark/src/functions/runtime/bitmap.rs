//! Bitmaps of 32,768 bits, by which distinct numbers are counted.

use arrow::datatypes::DataType;
use datafusion_spark::function::bitmap;

use super::super::{Functions, udf};

pub(super) fn register(functions: &mut Functions) {
    functions.add("bitmap_bit_position", |call| {
        call.arity(1..=1)?;
        let number = call.long(0)?;
        let nullable = number.nullable;
        Ok(udf(bitmap::bitmap_bit_position(), vec![number], DataType::Int64, nullable))
    });
    functions.add("bitmap_bucket_number", |call| {
        call.arity(1..=1)?;
        let number = call.long(0)?;
        let nullable = number.nullable;
        Ok(udf(bitmap::bitmap_bucket_number(), vec![number], DataType::Int64, nullable))
    });
    functions.add("bitmap_count", |call| {
        call.arity(1..=1)?;
        let bits = call.binary(0)?;
        let nullable = bits.nullable;
        Ok(udf(bitmap::bitmap_count(), vec![bits], DataType::Int64, nullable))
    });
}
