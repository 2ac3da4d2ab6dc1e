//! Reading values from bytes.

use std::collections::HashMap;

use millstream_core::raw_text;

use super::super::message::Value;
use super::resolve::{Constant, Read};

/// The most values without any bytes that an array may have.
const MAX_EMPTY: usize = 1 << 16;

/// Why a message cannot be read.
pub(super) type Fault = String;

const ENDS: &str = "it ends too early";

/// Reads the value at the beginning of a message. What follows it does not matter, as in Spark.
///
/// # Errors
/// What is wrong with the message.
pub(super) fn decode(read: &Read, message: &[u8]) -> Result<Value, Fault> {
    Message { rest: message, size: message.len() }.value(read)
}

struct Message<'a> {
    rest: &'a [u8],
    /// How many bytes there were.
    size: usize,
}

impl<'a> Message<'a> {
    fn value(&mut self, read: &Read) -> Result<Value, Fault> {
        Ok(match read {
            Read::Null => Value::Null,
            Read::Boolean => Value::Boolean(self.take(1)? == [1]),
            Read::Int => Value::Int(self.int()?),
            Read::Long => Value::Long(self.long()?),
            Read::Float => Value::Float(f32::from_le_bytes(self.array()?)),
            Read::Double => Value::Double(f64::from_le_bytes(self.array()?)),
            Read::Bytes => Value::Bytes(self.bytes()?.to_vec()),
            Read::Text => Value::Text(raw_text::from_bytes(self.bytes()?).into_owned()),
            Read::Fixed(size) => Value::Bytes(self.take(*size)?.to_vec()),
            Read::Symbol(symbols) => {
                let number = self.int()?;
                let symbol = usize::try_from(number).ok().and_then(|number| symbols.get(number)).cloned().flatten();
                Value::Text(symbol.ok_or_else(|| format!("it has the unknown symbol {number} of an enum"))?)
            }
            Read::Array(items) => {
                let mut values = Vec::new();
                self.blocks(|message, count| {
                    for _ in 0..count {
                        // Items without bytes could be any number of them.
                        if values.len() > MAX_EMPTY.max(message.size) {
                            return Err("an array has too many items without content".to_owned());
                        }
                        values.push(message.value(items)?);
                    }
                    Ok(())
                })?;
                Value::Array(values)
            }
            Read::Map(values) => self.map(values)?,
            Read::Record { fields, defaults, width } => {
                let mut record = vec![Value::Null; *width];
                for (place, read) in fields {
                    let value = self.value(read)?;
                    if let Some(slot) = place.and_then(|place| record.get_mut(place)) {
                        *slot = value;
                    }
                }
                for (place, Constant { written, read }) in defaults {
                    if let Some(slot) = record.get_mut(*place) {
                        *slot = decode(read, written)?;
                    }
                }
                Value::Record(record)
            }
            Read::Branch(branches) => {
                let number = self.int()?;
                let branch = usize::try_from(number).ok().and_then(|number| branches.get(number));
                self.value(branch.ok_or_else(|| format!("it has the unknown branch {number} of a union"))?)?
            }
            Read::Member(place, width, read) => {
                let mut record = vec![Value::Null; *width];
                let value = self.value(read)?;
                if let Some(slot) = record.get_mut(*place) {
                    *slot = value;
                }
                Value::Record(record)
            }
            Read::AsLong(read) => match self.value(read)? {
                Value::Int(value) => Value::Long(i64::from(value)),
                other => other,
            },
            Read::AsFloat(read) => as_float(self.value(read)?),
            Read::AsDouble(read) => as_double(self.value(read)?),
            Read::Millis(read) => match self.value(read)? {
                Value::Int(millis) => Value::Long(i64::from(millis) * 1000),
                Value::Long(millis) => Value::Long(millis.checked_mul(1000).ok_or("a timestamp is out of range")?),
                other => other,
            },
            Read::Decimal(precision, read) => match self.value(read)? {
                Value::Bytes(bytes) => decimal(&bytes, *precision)?,
                other => other,
            },
            Read::Never(why) => return Err(why.clone()),
        })
    }

    /// Keys that come again replace the value before them; the order is that of Java's hash tables, which is what Spark shows.
    fn map(&mut self, read: &Read) -> Result<Value, Fault> {
        let mut room = None;
        let (mut entries, mut places) = (Vec::<(Value, Value)>::new(), HashMap::<String, usize>::new());
        self.blocks(|message, count| {
            room.get_or_insert(count);
            for _ in 0..count {
                let key = raw_text::from_bytes(message.bytes()?).into_owned();
                let value = message.value(read)?;
                match places.get(&key).and_then(|place| entries.get_mut(*place)) {
                    Some(entry) => entry.1 = value,
                    None => {
                        places.insert(key.clone(), entries.len());
                        entries.push((Value::Text(key), value));
                    }
                }
            }
            Ok(())
        })?;
        java_order(&mut entries, room.unwrap_or(0), |(key, _)| match key {
            Value::Text(key) => key.bytes().fold(1, java_hash),
            _ => 0,
        });
        Ok(Value::Map(entries))
    }

    /// Reads the blocks of an array or a map: their numbers of items, which are followed by nothing else or by their bytes.
    fn blocks(&mut self, mut block: impl FnMut(&mut Self, usize) -> Result<(), Fault>) -> Result<(), Fault> {
        loop {
            let count = match self.long()? {
                0 => return Ok(()),
                negative @ ..0 => {
                    self.long()?;
                    negative.checked_neg().ok_or("a block has too many items")?
                }
                count => count,
            };
            block(self, usize::try_from(count).map_err(|_| "a block has too many items")?)?;
        }
    }

    fn take(&mut self, count: usize) -> Result<&'a [u8], Fault> {
        let (taken, rest) = self.rest.split_at_checked(count).ok_or(ENDS)?;
        self.rest = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Fault> {
        let (taken, rest) = self.rest.split_first_chunk::<N>().ok_or(ENDS)?;
        self.rest = rest;
        Ok(*taken)
    }

    fn bytes(&mut self) -> Result<&'a [u8], Fault> {
        let length = self.long()?;
        self.take(usize::try_from(length).map_err(|_| "a length is negative")?)
    }

    /// A number of 32 bits: bits beyond them are dropped, as Avro's library for Java does.
    #[expect(clippy::cast_possible_truncation, clippy::cast_possible_wrap, reason = "the bits of a number with its sign in the last one")]
    fn int(&mut self) -> Result<i32, Fault> {
        let bits = self.varint(5)? as u32;
        Ok((bits >> 1) as i32 ^ -((bits & 1) as i32))
    }

    #[expect(clippy::cast_possible_wrap, reason = "the bits of a number with its sign in the last one")]
    fn long(&mut self) -> Result<i64, Fault> {
        let bits = self.varint(10)?;
        Ok((bits >> 1) as i64 ^ -((bits & 1) as i64))
    }

    fn varint(&mut self, most: u32) -> Result<u64, Fault> {
        let mut bits = 0_u64;
        for place in 0..most {
            let [byte] = self.array::<1>()?;
            bits |= u64::from(byte & 0x7f).checked_shl(7 * place).unwrap_or(0);
            if byte & 0x80 == 0 {
                return Ok(bits);
            }
        }
        Err("a number has too many bytes".to_owned())
    }
}

#[expect(clippy::cast_precision_loss, reason = "Avro promotes integers to floating point")]
fn as_float(value: Value) -> Value {
    match value {
        Value::Int(value) => Value::Float(value as f32),
        Value::Long(value) => Value::Float(value as f32),
        other => other,
    }
}

#[expect(clippy::cast_precision_loss, reason = "Avro promotes integers to floating point")]
fn as_double(value: Value) -> Value {
    match value {
        Value::Int(value) => Value::Double(f64::from(value)),
        Value::Long(value) => Value::Double(value as f64),
        Value::Float(value) => Value::Double(f64::from(value)),
        other => other,
    }
}

/// The number of bytes, the highest first.
fn decimal(bytes: &[u8], precision: u32) -> Result<Value, Fault> {
    let Some(first) = bytes.first() else { return Err("a decimal has no bytes".to_owned()) };
    let fill: i128 = if first & 0x80 == 0 { 0 } else { -1 };
    let mut unscaled = fill;
    for (place, byte) in bytes.iter().enumerate() {
        let is_sign = bytes.len() - place > 16;
        if is_sign && i128::from(*byte) != fill & 0xff {
            return Err("a decimal has too many digits".to_owned());
        }
        unscaled = (unscaled << 8) | i128::from(*byte);
    }
    if (unscaled < 0) != (fill < 0) || unscaled.unsigned_abs() >= 10_u128.pow(precision.min(38)) {
        return Err("a decimal has more digits than its type".to_owned());
    }
    Ok(Value::Decimal(unscaled))
}

/// Adds a byte to a hash as Java does.
#[expect(clippy::cast_possible_wrap, reason = "Java's bytes have a sign")]
fn java_hash(hash: i32, byte: u8) -> i32 {
    hash.wrapping_mul(31).wrapping_add(i32::from(byte as i8))
}

/// Orders entries as one of Java's hash tables does that was made with this room.
#[expect(clippy::cast_sign_loss, clippy::cast_possible_truncation, reason = "a bucket is found from the bits of a hash")]
pub(super) fn java_order<T>(entries: &mut [T], room: usize, hash: impl Fn(&T) -> i32) {
    let mut buckets = room.clamp(1, 1 << 30).next_power_of_two();
    while entries.len() > buckets / 4 * 3 + buckets % 4 * 3 / 4 {
        buckets *= 2;
    }
    entries.sort_by_key(|entry| {
        let hash = hash(entry) as u32;
        (hash ^ (hash >> 16)) & (buckets as u32).wrapping_sub(1)
    });
}
