//! Which bytes of a value are hashed: whole numbers as four or eight bytes, zeros of either sign alike, the parts of nested values one by
//! one. Nulls leave the hash as it is.

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::datatypes::{
    ArrowPrimitiveType, DataType, Date32Type, Decimal128Type, DurationMicrosecondType, Float32Type, Float64Type, Int8Type, Int16Type,
    Int32Type, Int64Type, IntervalMonthDayNanoType, IntervalUnit, IntervalYearMonthType, Time64NanosecondType, TimeUnit,
    TimestampMicrosecondType,
};
use millstream_core::{Error, Result};

/// A hash function over the values of Spark's types.
pub(super) trait Algorithm: 'static {
    /// A hash, and the seed of the next value.
    type State: Copy;

    fn int(value: i32, seed: Self::State) -> Self::State;
    fn long(value: i64, seed: Self::State) -> Self::State;
    fn bytes(value: &[u8], seed: Self::State) -> Self::State;
}

/// Hashes the value at a place onto a seed.
type Hasher<A> = Box<dyn Fn(usize, <A as Algorithm>::State) -> <A as Algorithm>::State>;

/// The largest precision of decimals that Spark keeps in 64 bits.
const MAX_LONG_DIGITS: u8 = 18;

/// Hashes the values of an array.
///
/// # Errors
/// `INTERNAL_ERROR` for types that Spark does not have.
pub(super) fn hasher<A: Algorithm>(array: &ArrayRef) -> Result<Hasher<A>> {
    let unknown = || Error::internal(format!("values of {} cannot be hashed", array.data_type()));
    Ok(match array.data_type() {
        DataType::Null => Box::new(|_, seed| seed),
        DataType::Boolean => {
            let values = array.as_boolean_opt().ok_or_else(unknown)?.clone();
            Box::new(move |at, seed| if values.is_null(at) { seed } else { A::int(values.value(at).into(), seed) })
        }
        DataType::Int8 => primitive::<A, Int8Type>(array, |value, seed| A::int(value.into(), seed)).ok_or_else(unknown)?,
        DataType::Int16 => primitive::<A, Int16Type>(array, |value, seed| A::int(value.into(), seed)).ok_or_else(unknown)?,
        DataType::Int32 => primitive::<A, Int32Type>(array, A::int).ok_or_else(unknown)?,
        DataType::Date32 => primitive::<A, Date32Type>(array, A::int).ok_or_else(unknown)?,
        DataType::Interval(IntervalUnit::YearMonth) => primitive::<A, IntervalYearMonthType>(array, A::int).ok_or_else(unknown)?,
        DataType::Int64 => primitive::<A, Int64Type>(array, A::long).ok_or_else(unknown)?,
        DataType::Timestamp(TimeUnit::Microsecond, _) => primitive::<A, TimestampMicrosecondType>(array, A::long).ok_or_else(unknown)?,
        DataType::Duration(TimeUnit::Microsecond) => primitive::<A, DurationMicrosecondType>(array, A::long).ok_or_else(unknown)?,
        DataType::Time64(TimeUnit::Nanosecond) => primitive::<A, Time64NanosecondType>(array, A::long).ok_or_else(unknown)?,
        DataType::Interval(IntervalUnit::MonthDayNano) => primitive::<A, IntervalMonthDayNanoType>(array, |value, seed| {
            A::int(value.months, A::int(value.days, A::long(value.nanoseconds / 1000, seed)))
        })
        .ok_or_else(unknown)?,
        DataType::Float32 => primitive::<A, Float32Type>(array, |value, seed| A::int(float_bits(value), seed)).ok_or_else(unknown)?,
        DataType::Float64 => primitive::<A, Float64Type>(array, |value, seed| A::long(double_bits(value), seed)).ok_or_else(unknown)?,
        DataType::Decimal128(precision, _) if *precision <= MAX_LONG_DIGITS => {
            primitive::<A, Decimal128Type>(array, |value, seed| A::long(value as i64, seed)).ok_or_else(unknown)?
        }
        DataType::Decimal128(..) => primitive::<A, Decimal128Type>(array, |value, seed| {
            let bytes = value.to_be_bytes();
            A::bytes(shortest(&bytes), seed)
        })
        .ok_or_else(unknown)?,
        DataType::Utf8 => {
            let values = array.as_string_opt::<i32>().ok_or_else(unknown)?.clone();
            Box::new(move |at, seed| if values.is_null(at) { seed } else { A::bytes(values.value(at).as_bytes(), seed) })
        }
        DataType::Binary => {
            let values = array.as_binary_opt::<i32>().ok_or_else(unknown)?.clone();
            Box::new(move |at, seed| if values.is_null(at) { seed } else { A::bytes(values.value(at), seed) })
        }
        DataType::LargeUtf8 | DataType::Utf8View | DataType::LargeBinary | DataType::BinaryView => {
            let target = if array.data_type().is_string() { DataType::Utf8 } else { DataType::Binary };
            let array = arrow::compute::cast(array, &target).map_err(super::super::rows::internal)?;
            hasher::<A>(&array)?
        }
        DataType::List(_) => {
            let lists = array.as_list_opt::<i32>().ok_or_else(unknown)?.clone();
            let element = hasher::<A>(lists.values())?;
            Box::new(move |at, seed| {
                if lists.is_null(at) {
                    return seed;
                }
                let offset = |at: usize| lists.offsets().get(at).map_or(0, |offset| *offset as usize);
                (offset(at)..offset(at + 1)).fold(seed, |seed, at| element(at, seed))
            })
        }
        DataType::Struct(_) => {
            let structs = array.as_struct_opt().ok_or_else(unknown)?.clone();
            let fields = structs.columns().iter().map(hasher::<A>).collect::<Result<Vec<_>>>()?;
            Box::new(move |at, seed| if structs.is_null(at) { seed } else { fields.iter().fold(seed, |seed, field| field(at, seed)) })
        }
        _ => return Err(unknown()),
    })
}

fn primitive<A: Algorithm, T: ArrowPrimitiveType>(
    array: &ArrayRef,
    hash: impl Fn(T::Native, A::State) -> A::State + 'static,
) -> Option<Hasher<A>> {
    let values = array.as_primitive_opt::<T>()?.clone();
    Some(Box::new(move |at, seed| if values.is_null(at) { seed } else { hash(values.value(at), seed) }))
}

/// The bits of a number; zeros and the values that are none have one form each.
fn float_bits(value: f32) -> i32 {
    if value == 0.0 {
        0
    } else if value.is_nan() {
        0x7fc0_0000
    } else {
        value.to_bits() as i32
    }
}

fn double_bits(value: f64) -> i64 {
    if value == 0.0 {
        0
    } else if value.is_nan() {
        0x7ff8_0000_0000_0000
    } else {
        value.to_bits() as i64
    }
}

/// The fewest bytes that hold a number in two's complement, as `BigInteger.toByteArray` gives them.
fn shortest(bytes: &[u8; 16]) -> &[u8] {
    let sign = if bytes.first().is_some_and(|first| *first >= 0x80) { 0xff } else { 0 };
    let extra =
        bytes.windows(2).take_while(|pair| matches!(pair, [first, second] if *first == sign && (second & 0x80) == (sign & 0x80))).count();
    bytes.get(extra..).unwrap_or(bytes)
}
