//! Python's values as columns. What Spark does with a value of another kind than its type is in its `EvaluatePython`: null for most, the
//! lower bits for integers, Java's words for texts.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, BinaryBuilder, BooleanArray, Date32Array, Decimal128Array, DurationMicrosecondArray, Float32Array, Float64Array,
    Int8Array, Int16Array, Int32Array, Int64Array, IntervalYearMonthArray, ListArray, MapArray, StringArray, StructArray,
    Time64NanosecondArray, TimestampMicrosecondArray, new_null_array,
};
use arrow::buffer::{NullBuffer, OffsetBuffer};
use arrow::datatypes::{DataType, Field, Fields, IntervalUnit, TimeUnit};
use arrow::error::ArrowError;
use millstream_core::{Error, Result};

use super::{DEPTH, Id, Value};
use crate::functions::cast::decimal::Digits;
use crate::functions::cast::push_double;

/// Values under a type; those that are not there are null.
pub(super) fn column(values: &[Value], ids: &[Option<Id>], field: &Field) -> Result<ArrayRef> {
    Column { values, ids }.of(field, 0)
}

struct Column<'a> {
    values: &'a [Value],
    ids: &'a [Option<Id>],
}

impl<'a> Column<'a> {
    fn each(&self) -> impl Iterator<Item = Option<&'a Value>> {
        self.ids.iter().map(|id| id.and_then(|id| self.values.get(id)))
    }

    fn integers(&self) -> impl Iterator<Item = Option<i64>> {
        self.each().map(|value| match value {
            Some(Value::Int(value)) => Some(*value),
            _ => None,
        })
    }

    fn floats(&self) -> impl Iterator<Item = Option<f64>> {
        self.each().map(|value| match value {
            Some(Value::Float(value)) => Some(*value),
            _ => None,
        })
    }

    fn of(&self, field: &Field, depth: usize) -> Result<ArrayRef> {
        if depth > DEPTH {
            return Err(Error::internal("a value of a Python function is nested too deeply"));
        }
        Ok(match field.data_type() {
            DataType::Boolean => Arc::new(BooleanArray::from_iter(self.each().map(|value| match value {
                Some(Value::Bool(value)) => Some(*value),
                _ => None,
            }))),
            DataType::Int8 => Arc::new(Int8Array::from_iter(self.integers().map(|value| value.map(|value| value as i8)))),
            DataType::Int16 => Arc::new(Int16Array::from_iter(self.integers().map(|value| value.map(|value| value as i16)))),
            DataType::Int32 => Arc::new(Int32Array::from_iter(self.integers().map(|value| value.map(|value| value as i32)))),
            DataType::Int64 => Arc::new(Int64Array::from_iter(self.integers())),
            DataType::Float32 => Arc::new(Float32Array::from_iter(self.floats().map(|value| value.map(|value| value as f32)))),
            DataType::Float64 => Arc::new(Float64Array::from_iter(self.floats())),
            DataType::Date32 => Arc::new(Date32Array::from_iter(self.integers().map(|value| value.map(|value| value as i32)))),
            DataType::Timestamp(TimeUnit::Microsecond, zone) => {
                Arc::new(TimestampMicrosecondArray::from_iter(self.integers()).with_timezone_opt(zone.clone()))
            }
            DataType::Duration(TimeUnit::Microsecond) => Arc::new(DurationMicrosecondArray::from_iter(self.integers())),
            DataType::Time64(TimeUnit::Nanosecond) => Arc::new(Time64NanosecondArray::from_iter(self.integers())),
            DataType::Interval(IntervalUnit::YearMonth) => {
                Arc::new(IntervalYearMonthArray::from_iter(self.integers().map(|value| value.map(|value| value as i32))))
            }
            DataType::Decimal128(precision, scale) => self.decimals(*precision, *scale)?,
            DataType::Utf8 => Arc::new(StringArray::from_iter(self.each().map(|value| match value {
                None | Some(Value::None) => None,
                Some(Value::Text(text)) => Some(text.clone()),
                Some(other) => Some(self.text(other, 0)),
            }))),
            DataType::Binary => {
                let mut bytes = BinaryBuilder::new();
                for value in self.each() {
                    match value {
                        Some(Value::Bytes(value)) => bytes.append_value(value),
                        Some(Value::Text(value)) => bytes.append_value(value),
                        _ => bytes.append_null(),
                    }
                }
                Arc::new(bytes.finish())
            }
            DataType::List(element) => self.lists(element, depth)?,
            DataType::Map(entries, sorted) => self.maps(entries, *sorted, depth)?,
            DataType::Struct(fields) => self.structs(fields, depth)?,
            other => new_null_array(other, self.ids.len()),
        })
    }

    fn decimals(&self, precision: u8, scale: i8) -> Result<ArrayRef> {
        let mut unscaled = Vec::with_capacity(self.ids.len());
        for value in self.each() {
            let Some(Value::Decimal(text)) = value else {
                unscaled.push(None);
                continue;
            };
            let fits = Digits::parse(text).and_then(|digits| digits.to_decimal(precision, scale));
            unscaled.push(Some(fits.ok_or_else(|| {
                let message = format!("The {text} rounded half up from {text} cannot be represented as Decimal({precision}, {scale}).");
                Error::invalid("NUMERIC_VALUE_OUT_OF_RANGE.WITHOUT_SUGGESTION", message).with_sqlstate("22003")
            })?));
        }
        let decimals = Decimal128Array::from_iter(unscaled).with_precision_and_scale(precision, scale).map_err(misfit)?;
        Ok(Arc::new(decimals))
    }

    fn lists(&self, element: &Arc<Field>, depth: usize) -> Result<ArrayRef> {
        if self.each().any(|value| matches!(value, Some(Value::Bytes(_)))) {
            return self.bytes_as_lists(element, depth);
        }
        let (mut lengths, mut items, mut there) = (Vec::new(), Vec::new(), Vec::new());
        for value in self.each() {
            match value {
                Some(Value::List(list) | Value::Tuple(list)) => {
                    lengths.push(list.len());
                    items.extend(list.iter().copied().map(Some));
                    there.push(true);
                }
                _ => {
                    lengths.push(0);
                    there.push(false);
                }
            }
        }
        let values = Column { values: self.values, ids: &items }.of(element, depth + 1)?;
        let element = relaxed(element, &values);
        let list = ListArray::try_new(element, OffsetBuffer::from_lengths(lengths), values, nulls(there)).map_err(misfit)?;
        Ok(Arc::new(list))
    }

    /// Lists, where bytes are lists of numbers.
    fn bytes_as_lists(&self, element: &Arc<Field>, depth: usize) -> Result<ArrayRef> {
        let mut values = self.values.to_vec();
        let mut ids = Vec::with_capacity(self.ids.len());
        for (id, value) in self.ids.iter().zip(self.each()) {
            let Some(Value::Bytes(bytes)) = value else {
                ids.push(*id);
                continue;
            };
            let first = values.len();
            values.extend(bytes.iter().map(|byte| Value::Int(i64::from(byte.cast_signed()))));
            values.push(Value::List((first..first + bytes.len()).collect()));
            ids.push(Some(values.len() - 1));
        }
        Column { values: &values, ids: &ids }.lists(element, depth)
    }

    fn maps(&self, entries: &Arc<Field>, sorted: bool, depth: usize) -> Result<ArrayRef> {
        let DataType::Struct(pair) = entries.data_type() else { return Err(Error::internal("a map has no entries")) };
        let [key_field, value_field] = pair.as_ref() else { return Err(Error::internal("the entries of a map are pairs")) };
        let (mut lengths, mut keys, mut values, mut there) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        for value in self.each() {
            match value {
                Some(Value::Dict(dict)) => {
                    lengths.push(dict.len());
                    keys.extend(dict.iter().map(|(key, _)| Some(*key)));
                    values.extend(dict.iter().map(|(_, value)| Some(*value)));
                    there.push(true);
                }
                _ => {
                    lengths.push(0);
                    there.push(false);
                }
            }
        }
        let keys = Column { values: self.values, ids: &keys }.of(key_field, depth + 1)?;
        let values = Column { values: self.values, ids: &values }.of(value_field, depth + 1)?;
        let fields = Fields::from(vec![relaxed(key_field, &keys), relaxed(value_field, &values)]);
        let pairs = StructArray::try_new(fields, vec![keys, values], None).map_err(misfit)?;
        let entries = Arc::new(entries.as_ref().clone().with_data_type(pairs.data_type().clone()));
        let map = MapArray::try_new(entries, OffsetBuffer::from_lengths(lengths), pairs, nulls(there), sorted).map_err(misfit)?;
        Ok(Arc::new(map))
    }

    fn structs(&self, fields: &Fields, depth: usize) -> Result<ArrayRef> {
        let mut there = Vec::with_capacity(self.ids.len());
        let mut rows: Vec<Option<&[Id]>> = Vec::with_capacity(self.ids.len());
        for value in self.each() {
            let row = match value {
                Some(Value::Tuple(row)) if row.len() == fields.len() => Some(row.as_slice()),
                Some(Value::Tuple(row)) => {
                    return Err(Error::invalid(
                        "IllegalStateException",
                        format!(
                            "Input row doesn't have expected number of values required by the schema. {} fields are required while {} values \
                             are provided.",
                            fields.len(),
                            row.len()
                        ),
                    ));
                }
                _ => None,
            };
            there.push(row.is_some());
            rows.push(row);
        }
        if fields.is_empty() {
            return Ok(Arc::new(StructArray::new_empty_fields(self.ids.len(), nulls(there))));
        }
        let mut columns = Vec::with_capacity(fields.len());
        for (place, field) in fields.iter().enumerate() {
            let ids: Vec<Option<Id>> = rows.iter().map(|row| row.and_then(|row| row.get(place).copied())).collect();
            columns.push(Column { values: self.values, ids: &ids }.of(field, depth + 1)?);
        }
        let fields: Fields = fields.iter().zip(&columns).map(|(field, column)| relaxed(field, column)).collect();
        Ok(Arc::new(StructArray::try_new(fields, columns, nulls(there)).map_err(misfit)?))
    }

    /// A value as Java's `toString` shows what it becomes there.
    fn text(&self, value: &Value, depth: usize) -> String {
        let part = |id: &Id| self.values.get(*id).filter(|_| depth < DEPTH).map_or_else(String::new, |value| self.text(value, depth + 1));
        match value {
            Value::None => "null".to_owned(),
            Value::Bool(value) => value.to_string(),
            Value::Int(value) => value.to_string(),
            Value::Big(bytes) => big(bytes),
            Value::Float(value) => {
                let mut text = String::new();
                push_double(&mut text, *value);
                text
            }
            Value::Text(text) | Value::Decimal(text) => text.clone(),
            Value::List(items) => format!("[{}]", items.iter().map(part).collect::<Vec<_>>().join(", ")),
            Value::Dict(entries) => {
                let entries: Vec<String> = entries.iter().map(|(key, value)| format!("{}={}", part(key), part(value))).collect();
                format!("{{{}}}", entries.join(", "))
            }
            Value::Bytes(_) => "[B@0".to_owned(),
            Value::Tuple(_) => "[Ljava.lang.Object;@0".to_owned(),
            Value::Global(name) | Value::Object(name) => name.clone(),
        }
    }
}

/// A large integer in decimal digits, from little-endian two's complement.
fn big(bytes: &[u8]) -> String {
    let negative = bytes.last().is_some_and(|last| *last >= 0x80);
    // Digits in base 10^9, least significant first; for a negative number those of its complement.
    let mut digits: Vec<u64> = vec![0];
    for byte in bytes.iter().rev() {
        let mut carry = u64::from(if negative { !*byte } else { *byte });
        for digit in &mut digits {
            let value = *digit * 256 + carry;
            *digit = value % 1_000_000_000;
            carry = value / 1_000_000_000;
        }
        if carry > 0 {
            digits.push(carry);
        }
    }
    if negative {
        // −n = complement + 1.
        let mut carry = 1;
        for digit in &mut digits {
            *digit += carry;
            carry = *digit / 1_000_000_000;
            *digit %= 1_000_000_000;
        }
        if carry > 0 {
            digits.push(carry);
        }
    }
    let mut text = if negative { "-".to_owned() } else { String::new() };
    for (place, digit) in digits.iter().rev().enumerate() {
        text.push_str(&if place == 0 { digit.to_string() } else { format!("{digit:09}") });
    }
    text
}

fn nulls(there: Vec<bool>) -> Option<NullBuffer> {
    Some(NullBuffer::from(there)).filter(|nulls| nulls.null_count() > 0)
}

/// The field of the values, which may be null where it says that they are not.
fn relaxed(field: &Arc<Field>, values: &ArrayRef) -> Arc<Field> {
    let nullable = field.is_nullable() || values.null_count() > 0;
    Arc::new(field.as_ref().clone().with_data_type(values.data_type().clone()).with_nullable(nullable))
}

fn misfit(error: ArrowError) -> Error {
    Error::internal("values of a Python function do not fit together").caused_by(error)
}

#[cfg(test)]
mod tests {
    use arrow::util::display::array_value_to_string;

    use super::super::Results;
    use super::*;
    use crate::types::parse_data_type;

    /// `pickle.dumps([...], 5)` of Python 3.11.
    fn shown(pickle: &[u8], data_type: &str) -> Vec<String> {
        let fields = Fields::from(vec![Field::new("_0", parse_data_type(data_type).unwrap(), true)]);
        let column = Results::read(pickle, 1).unwrap().columns(&fields).unwrap().remove(0);
        (0..column.len())
            .map(|row| if column.is_null(row) { "-".to_owned() } else { array_value_to_string(&column, row).unwrap() })
            .collect()
    }

    #[test]
    fn values_of_another_kind_are_null_or_texts() {
        // [1, True, None, 2.5, 'x', b'ab']
        let mixed = b"\x80\x05\x95\x1b\x00\x00\x00\x00\x00\x00\x00]\x94(K\x01\x88NG@\x04\x00\x00\x00\x00\x00\x00\x8c\x01x\x94C\x02ab\x94e.";
        for (data_type, expected) in [
            ("int", ["1", "-", "-", "-", "-", "-"]),
            ("boolean", ["-", "true", "-", "-", "-", "-"]),
            ("double", ["-", "-", "-", "2.5", "-", "-"]),
            ("string", ["1", "true", "-", "2.5", "x", "[B@0"]),
            ("binary", ["-", "-", "-", "-", "78", "6162"]),
        ] {
            assert_eq!(shown(mixed, data_type), expected, "{data_type}");
        }
    }

    #[test]
    fn integers_lose_their_upper_bits_and_huge_ones_everything() {
        // [300, -1, 1 << 40, 1 << 70]
        let pickle = b"\x80\x05\x95\x20\x00\x00\x00\x00\x00\x00\x00]\x94(M,\x01J\xff\xff\xff\xff\x8a\x06\x00\x00\x00\x00\x00\x01\x8a\t\x00\x00\x00\x00\x00\x00\x00\x00@e.";
        assert_eq!(shown(pickle, "tinyint"), ["44", "-1", "0", "-"]);
        assert_eq!(shown(pickle, "bigint"), ["300", "-1", "1099511627776", "-"]);
        assert_eq!(shown(pickle, "string"), ["300", "-1", "1099511627776", "1180591620717411303424"]);
    }

    #[test]
    fn lists_that_occur_twice_are_the_same() {
        // x = [1, None]; [x, x, (2,), {'k': x}]
        let pickle = b"\x80\x05\x95\x1b\x00\x00\x00\x00\x00\x00\x00]\x94(]\x94(K\x01Neh\x01K\x02\x85\x94}\x94\x8c\x01k\x94h\x01se.";
        assert_eq!(shown(pickle, "array<int>"), ["[1, ]", "[1, ]", "[2]", "-"]);
        assert_eq!(shown(pickle, "string")[0], "[1, null]");
        assert_eq!(shown(pickle, "map<string,array<int>>")[3], "{k: [1, ]}");
    }

    #[test]
    fn decimals_are_rounded_and_must_fit() {
        // [Decimal('1.25'), 3]
        let pickle = b"\x80\x05\x95(\x00\x00\x00\x00\x00\x00\x00]\x94(\x8c\x07decimal\x94\x8c\x07Decimal\x94\x93\x94\x8c\x041.25\x94\x85\x94R\x94K\x03e.";
        assert_eq!(shown(pickle, "decimal(5,1)"), ["1.3", "-"]);
        let narrow = Fields::from(vec![Field::new("_0", DataType::Decimal128(2, 2), true)]);
        assert!(Results::read(pickle, 1).unwrap().columns(&narrow).is_err());
    }

    #[test]
    fn large_integers_have_all_their_digits() {
        for (bytes, expected) in [
            (vec![0, 0, 0, 0, 0, 0, 0, 0, 0x40], "1180591620717411303424"),
            (vec![0, 0, 0, 0, 0, 0, 0, 0, 0xc0], "-1180591620717411303424"),
            (vec![0xff; 9], "-1"),
        ] {
            assert_eq!(big(&bytes), expected);
        }
    }

    #[test]
    fn what_is_no_pickle_is_an_error() {
        for bytes in [&b""[..], b"\x80\x05", b"\x80\x05K\x01.", b"]e.", b"cos\nsystem\n(X\x02\x00\x00\x00lstR.", b"(((", b"h\x07."] {
            assert!(Results::read(bytes, 1).is_err(), "{bytes:?}");
        }
    }
}
