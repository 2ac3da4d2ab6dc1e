//! Numbers for values, the same in every version and on every machine: where a map keeps the row of a user's key.

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray};
use arrow::datatypes::DataType;
use datafusion::error::{DataFusionError, Result as DfResult};

/// FNV-1a with 64 bits.
#[derive(Clone, Copy)]
struct Fnv(u64);

impl Fnv {
    fn bytes(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
    }

    fn sized(&mut self, bytes: &[u8]) {
        self.bytes(&(bytes.len() as u64).to_le_bytes());
        self.bytes(bytes);
    }
}

/// The number of a row of these columns.
///
/// # Errors
/// When a column has a type that no key has.
pub(super) fn fingerprint(columns: &[ArrayRef], row: usize) -> DfResult<i64> {
    let mut hash = Fnv(0xcbf2_9ce4_8422_2325);
    for column in columns {
        add(column.as_ref(), row, &mut hash)?;
    }
    Ok(hash.0 as i64)
}

fn add(array: &dyn Array, row: usize, hash: &mut Fnv) -> DfResult<()> {
    if array.is_null(row) || array.data_type() == &DataType::Null {
        hash.bytes(&[0]);
        return Ok(());
    }
    hash.bytes(&[1]);
    match array.data_type() {
        DataType::Boolean => {
            let array: &BooleanArray = array.as_boolean();
            hash.bytes(&[u8::from(array.value(row))]);
        }
        DataType::Utf8 => hash.sized(array.as_string::<i32>().value(row).as_bytes()),
        DataType::Binary => hash.sized(array.as_binary::<i32>().value(row)),
        DataType::Struct(_) => {
            for column in array.as_struct().columns() {
                add(column.as_ref(), row, hash)?;
            }
        }
        DataType::List(_) => elements(array.as_list::<i32>().value(row).as_ref(), hash)?,
        DataType::Map(..) => elements(&array.as_map().value(row), hash)?,
        other => {
            let width = other.primitive_width().ok_or_else(|| unsupported(other))?;
            let data = array.to_data();
            let from = (data.offset() + row) * width;
            let bytes = data.buffers().first().and_then(|buffer| buffer.as_slice().get(from..from + width));
            hash.bytes(bytes.ok_or_else(|| unsupported(other))?);
        }
    }
    Ok(())
}

fn elements(array: &dyn Array, hash: &mut Fnv) -> DfResult<()> {
    hash.bytes(&(array.len() as u64).to_le_bytes());
    (0..array.len()).try_for_each(|row| add(array, row, hash))
}

fn unsupported(data_type: &DataType) -> DataFusionError {
    DataFusionError::NotImplemented(format!("keys of type {data_type} in a map of state"))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{Decimal128Array, Int64Array, StringArray};

    use super::*;

    #[test]
    fn numbers_never_change() {
        let keys: Vec<ArrayRef> = vec![
            Arc::new(Int64Array::from(vec![Some(1), None])),
            Arc::new(StringArray::from(vec![Some("a"), Some("")])),
            Arc::new(Decimal128Array::from(vec![Some(5), Some(5)])),
        ];
        assert_eq!([fingerprint(&keys, 0).unwrap(), fingerprint(&keys, 1).unwrap()], EXPECTED);
        let slices: Vec<ArrayRef> = keys.iter().map(|column| column.slice(1, 1)).collect();
        assert_eq!(fingerprint(&slices, 0).unwrap(), EXPECTED[1]);
    }

    const EXPECTED: [i64; 2] = [7_434_779_532_462_942_194, -8_082_600_552_061_973_244];
}
