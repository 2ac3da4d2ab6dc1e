//! Walks over encoded records without decoding them. A block must hold exactly the records that it claims: a decoder that is handed a wrong
//! count loses rows, runs off the block's end, or waits for ever.

use super::schema::Type;

/// The most array and map items of a block that may take no bytes at all (`null`, records without fields): they cost memory, not input.
const MAX_EMPTY_ITEMS: u64 = 1 << 20;

/// Checks that `data` is exactly `count` records of `record`.
///
/// # Errors
/// What is wrong, for people.
pub(super) fn validate(record: &Type, count: u64, data: &[u8]) -> Result<(), &'static str> {
    let mut walk = Walk { rest: data, empty_items: 0 };
    for _ in 0..count {
        let before = walk.rest.len();
        walk.skip(record)?;
        walk.count_empty(before)?;
    }
    if walk.rest.is_empty() { Ok(()) } else { Err("a block has more bytes than its records take") }
}

struct Walk<'a> {
    rest: &'a [u8],
    empty_items: u64,
}

impl Walk<'_> {
    fn skip(&mut self, kind: &Type) -> Result<(), &'static str> {
        match kind {
            Type::Null => Ok(()),
            Type::Boolean => self.bytes(1),
            Type::Int | Type::Date | Type::Enum | Type::TimeOfDay { long: false } => self.int().map(|_| ()),
            Type::Long | Type::TimestampMillis(_) | Type::TimestampMicros(_) | Type::TimeOfDay { long: true } => self.long().map(|_| ()),
            Type::Float => self.bytes(4),
            Type::Double => self.bytes(8),
            Type::Bytes | Type::String | Type::Decimal { fixed: None, .. } => self.sized(),
            Type::Fixed(size) | Type::Decimal { fixed: Some(size), .. } => self.bytes(*size),
            Type::Array(items) => self.items(|walk| walk.skip(items)),
            Type::Map(values) => self.items(|walk| {
                walk.sized()?;
                walk.skip(values)
            }),
            Type::Record(fields) => fields.iter().try_for_each(|(_, field)| self.skip(field)),
            Type::Union(branches) => {
                let branch = self.long()?;
                let branch = usize::try_from(branch).ok().and_then(|branch| branches.get(branch));
                self.skip(branch.ok_or("a union has a branch that its schema lacks")?)
            }
        }
    }

    fn items(&mut self, mut item: impl FnMut(&mut Self) -> Result<(), &'static str>) -> Result<(), &'static str> {
        loop {
            let mut count = self.long()?;
            if count == 0 {
                return Ok(());
            }
            if count < 0 {
                count = count.checked_neg().ok_or("an array has an impossible number of items")?;
                self.long()?;
            }
            for _ in 0..count {
                let before = self.rest.len();
                item(self)?;
                self.count_empty(before)?;
            }
        }
    }

    fn count_empty(&mut self, before: usize) -> Result<(), &'static str> {
        if self.rest.len() == before {
            self.empty_items += 1;
            if self.empty_items > MAX_EMPTY_ITEMS {
                return Err("a block has too many values that take no bytes");
            }
        }
        Ok(())
    }

    fn sized(&mut self) -> Result<(), &'static str> {
        let size = usize::try_from(self.long()?).map_err(|_| "a text has a negative length")?;
        self.bytes(size)
    }

    fn bytes(&mut self, count: usize) -> Result<(), &'static str> {
        self.rest = self.rest.get(count..).ok_or("a record ends in the middle of a value")?;
        Ok(())
    }

    fn int(&mut self) -> Result<i32, &'static str> {
        i32::try_from(self.long()?).map_err(|_| "an int is out of range")
    }

    fn long(&mut self) -> Result<i64, &'static str> {
        let (value, size) = read_long(self.rest).ok_or("a record ends in the middle of a number, or one is too long")?;
        self.bytes(size)?;
        Ok(value)
    }
}

/// A zigzag variable-length number and how many bytes it took; `None` when it is incomplete or longer than 64 bits.
pub(super) fn read_long(bytes: &[u8]) -> Option<(i64, usize)> {
    let mut value = 0_u64;
    for (i, byte) in bytes.iter().take(10).enumerate() {
        let part = u64::from(byte & 0x7f);
        let shift = 7 * u32::try_from(i).ok()?;
        if shift == 63 && part > 1 {
            return None;
        }
        value |= part << shift;
        if byte & 0x80 == 0 {
            return Some(((value >> 1).cast_signed() ^ -(value & 1).cast_signed(), i + 1));
        }
    }
    None
}

/// The zigzag variable-length form of a number.
pub(super) fn write_long(value: u64, out: &mut Vec<u8>) {
    let mut rest = u128::from(value) << 1;
    while rest > 0x7f {
        out.push(0x80 | u8::try_from(rest & 0x7f).unwrap_or(0));
        rest >>= 7;
    }
    out.push(u8::try_from(rest).unwrap_or(0));
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn numbers_round_trip_and_bad_ones_are_refused() {
        for value in [0_u64, 1, 63, 64, 300, u64::from(u32::MAX), i64::MAX.cast_unsigned()] {
            let mut bytes = Vec::new();
            write_long(value, &mut bytes);
            assert_eq!(read_long(&bytes), Some((value.cast_signed(), bytes.len())));
        }
        assert_eq!(read_long(&[0x01]), Some((-1, 1)));
        assert_eq!(read_long(&[0x80]), None);
        assert_eq!(read_long(&[0xff; 11]), None);
    }

    #[test]
    fn a_block_must_hold_exactly_its_records() {
        let record = Type::Record(vec![("a".to_owned(), Arc::new(Type::Int)), ("s".to_owned(), Arc::new(Type::String))]);
        let data = [2, 2, b'x', 4, 0];
        assert_eq!(validate(&record, 2, &data), Ok(()));
        assert!(validate(&record, 1, &data).unwrap_err().contains("more bytes"));
        assert!(validate(&record, 3, &data).unwrap_err().contains("number"));
        assert!(validate(&record, 2, &data[..4]).is_err());
    }

    #[test]
    fn arrays_of_nothing_are_bounded() {
        let record = Type::Record(vec![("a".to_owned(), Arc::new(Type::Array(Arc::new(Type::Null))))]);
        let mut data = Vec::new();
        write_long(1 << 40, &mut data);
        assert!(validate(&record, 1, &data).unwrap_err().contains("no bytes"));
        assert!(validate(&Type::Record(vec![]), u64::MAX, &[]).unwrap_err().contains("no bytes"));
    }
}
