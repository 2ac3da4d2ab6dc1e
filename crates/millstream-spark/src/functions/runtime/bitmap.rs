//! Bitmaps of 32,768 bits, by which distinct numbers are counted.

use arrow::datatypes::DataType;
use datafusion_spark::function::bitmap;

use super::super::{Functions, faults, udf};

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
        let bits = call.value(0)?.clone();
        if bits.data_type != DataType::Binary {
            return Err(faults::unexpected_type(call.name, 0, "\"BINARY\"", &bits.data_type));
        }
        let nullable = bits.nullable;
        Ok(udf(bitmap::bitmap_count(), vec![bits], DataType::Int64, nullable))
    });
}
