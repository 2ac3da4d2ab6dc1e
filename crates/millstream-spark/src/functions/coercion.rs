//! Which types Spark brings together, and how (ANSI rules, `TypeCoercion` and `AnsiTypeCoercion` of Spark 4).

use arrow::datatypes::DataType;
use datafusion::scalar::ScalarValue;
use millstream_core::Result;

use super::{Settings, Typed, cast, faults};

/// Whether an argument of type `from` is cast to `to` without being asked to.
pub fn implicitly_castable(from: &DataType, to: &DataType, settings: &Settings) -> bool {
    let _ = settings;
    from == to || *from == DataType::Null
}

/// The tightest type that holds the values of both, or none.
pub fn common_type(left: &DataType, right: &DataType, settings: &Settings) -> Option<DataType> {
    let _ = settings;
    match (left, right) {
        (left, right) if left == right => Some(left.clone()),
        (DataType::Null, other) | (other, DataType::Null) => Some(other.clone()),
        _ => None,
    }
}

/// Casts values to their common type.
///
/// # Errors
/// `DATATYPE_MISMATCH.DATA_DIFF_TYPES` when there is none; `name` is the function in its message.
pub fn to_common_type(name: &str, values: Vec<Typed>, settings: &Settings) -> Result<(DataType, Vec<Typed>)> {
    let mut common = DataType::Null;
    for value in &values {
        common = match common_type(&common, &value.data_type, settings) {
            Some(data_type) => data_type,
            None => {
                let types: Vec<&DataType> = values.iter().map(|value| &value.data_type).collect();
                return Err(faults::different_types(name, &types));
            }
        };
    }
    let values = values.into_iter().map(|value| cast::implicit(value, &common, settings)).collect::<Result<_>>()?;
    Ok((common, values))
}

/// The value of a constant expression, computed if need be.
pub fn constant_of(value: &Typed) -> Option<ScalarValue> {
    value.as_literal().cloned()
}
