//! Hashes of values and digests of bytes.

mod murmur;
mod values;
mod xx;

use arrow::array::{ArrayRef, PrimitiveArray};
use arrow::datatypes::{ArrowPrimitiveType, DataType, Int32Type, Int64Type};
use datafusion::functions::crypto;
use datafusion::logical_expr::cast;
use datafusion_spark::function::hash;
use millstream_core::Result;

use super::{Arguments, Call, Functions, Kernel, Typed, faults, scalar, udf};
use murmur::Murmur;
pub(super) use murmur::murmur3_bytes;
use values::{Algorithm, hasher};
use xx::Xx;

pub(super) fn register(functions: &mut Functions) {
    functions.add("md5", |call| {
        call.arity(1..=1)?;
        let bytes = call.binary(0)?;
        let nullable = bytes.nullable;
        let digest = udf(crypto::md5(), vec![bytes], DataType::Utf8View, nullable);
        Ok(Typed::new(cast(digest.expr, DataType::Utf8), DataType::Utf8, nullable))
    });
    functions.add_all(&["sha", "sha1"], |call| {
        call.arity(1..=1)?;
        let bytes = call.binary(0)?;
        let nullable = bytes.nullable;
        Ok(udf(hash::sha1(), vec![bytes], DataType::Utf8, nullable))
    });
    functions.add("sha2", |call| {
        call.arity(2..=2)?;
        // There are digests of some lengths only.
        Ok(udf(hash::sha2(), vec![call.binary(0)?, call.int(1)?], DataType::Utf8, true))
    });
    functions.add("crc32", |call| {
        call.arity(1..=1)?;
        let bytes = call.binary(0)?;
        let nullable = bytes.nullable;
        Ok(udf(hash::crc32(), vec![bytes], DataType::Int64, nullable))
    });
    functions.add("hash", |call| build(call, "hash", Hash32, DataType::Int32));
    functions.add("xxhash64", |call| build(call, "xxhash64", Hash64, DataType::Int64));
}

fn build(call: &Call<'_>, name: &'static str, kernel: impl Kernel, data_type: DataType) -> Result<Typed> {
    call.arity(1..=usize::MAX)?;
    let values = call.values_from(0)?;
    if values.iter().any(|value| has_map(&value.data_type)) {
        let message = format!("`{name}` does not take maps, because equal maps may be in different orders: hash their sorted entries");
        return Err(faults::mismatch("HASH_MAP_TYPE", message));
    }
    Ok(scalar(name, kernel, values, data_type, false))
}

fn has_map(data_type: &DataType) -> bool {
    match data_type {
        DataType::Map(..) => true,
        DataType::List(element) => has_map(element.data_type()),
        DataType::Struct(fields) => fields.iter().any(|field| has_map(field.data_type())),
        _ => false,
    }
}

/// Spark's Murmur3 with the seed 42.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Hash32;

impl Kernel for Hash32 {
    fn evaluate(&self, arguments: &Arguments<'_>) -> Result<ArrayRef> {
        hash_rows::<Murmur, Int32Type>(arguments, 42, |state| state as i32)
    }
}

/// xxHash64 with the seed 42.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Hash64;

impl Kernel for Hash64 {
    fn evaluate(&self, arguments: &Arguments<'_>) -> Result<ArrayRef> {
        hash_rows::<Xx, Int64Type>(arguments, 42, |state| state as i64)
    }
}

/// The hash of all arguments of a row: that of one is the seed of the next.
fn hash_rows<A: Algorithm, T: ArrowPrimitiveType>(
    arguments: &Arguments<'_>,
    seed: A::State,
    result: impl Fn(A::State) -> T::Native,
) -> Result<ArrayRef> {
    let mut states = vec![seed; arguments.rows()];
    for index in 0..arguments.len() {
        let array = arguments.array(index)?;
        let hash = hasher::<A>(&array)?;
        for (row, state) in states.iter_mut().enumerate() {
            *state = hash(row, *state);
        }
    }
    Ok(std::sync::Arc::new(PrimitiveArray::<T>::from_iter_values(states.into_iter().map(result))))
}
