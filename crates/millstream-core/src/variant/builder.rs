//! Writes variants: the names of fields go into a dictionary, the metadata; values refer to it.

use std::collections::HashMap;

use super::value::{Kind, Value, Variant};

/// A variant under construction: values are appended, and what an object or array consists of is put together behind them.
#[derive(Debug, Default)]
pub struct Builder {
    value: Vec<u8>,
    names: Vec<String>,
    indexes: HashMap<String, usize>,
}

/// A field of an object that was written.
#[derive(Clone, Debug)]
pub struct Member {
    name: String,
    index: usize,
    offset: usize,
}

/// Why there is no variant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// An object has a name twice.
    DuplicateKey(String),
    /// A variant takes more than 128 MiB.
    TooLarge,
}

const MAX_SIZE: usize = 128 << 20;

/// The longest string whose length is in its header.
const MAX_SHORT: usize = 63;

impl Builder {
    /// Where the next value begins.
    pub fn position(&self) -> usize {
        self.value.len()
    }

    fn primitive(&mut self, kind: Kind) {
        self.value.push((kind as u8) << 2);
    }

    /// A null that is a value.
    pub fn null(&mut self) {
        self.primitive(Kind::Null);
    }

    /// A truth value.
    pub fn boolean(&mut self, value: bool) {
        self.primitive(if value { Kind::True } else { Kind::False });
    }

    /// A whole number, in as few bytes as hold it.
    pub fn long(&mut self, value: i64) {
        if let Ok(small) = i8::try_from(value) {
            self.primitive(Kind::Int8);
            self.value.extend(small.to_le_bytes());
        } else if let Ok(small) = i16::try_from(value) {
            self.primitive(Kind::Int16);
            self.value.extend(small.to_le_bytes());
        } else if let Ok(small) = i32::try_from(value) {
            self.primitive(Kind::Int32);
            self.value.extend(small.to_le_bytes());
        } else {
            self.primitive(Kind::Int64);
            self.value.extend(value.to_le_bytes());
        }
    }

    /// A floating-point number.
    pub fn double(&mut self, value: f64) {
        self.primitive(Kind::Double);
        self.value.extend(value.to_le_bytes());
    }

    /// A floating-point number of 32 bits.
    pub fn float(&mut self, value: f32) {
        self.primitive(Kind::Float);
        self.value.extend(value.to_le_bytes());
    }

    /// A decimal of a scale from 0 to 38, in as few bytes as hold it.
    pub fn decimal(&mut self, unscaled: i128, scale: u8) {
        let digits = unscaled.unsigned_abs().checked_ilog10().unwrap_or(0) + 1;
        match (i32::try_from(unscaled), i64::try_from(unscaled)) {
            (Ok(small), _) if digits <= 9 && scale <= 9 => {
                self.primitive(Kind::Decimal4);
                self.value.push(scale);
                self.value.extend(small.to_le_bytes());
            }
            (_, Ok(small)) if digits <= 18 && scale <= 18 => {
                self.primitive(Kind::Decimal8);
                self.value.push(scale);
                self.value.extend(small.to_le_bytes());
            }
            _ => {
                self.primitive(Kind::Decimal16);
                self.value.push(scale);
                self.value.extend(unscaled.to_le_bytes());
            }
        }
    }

    /// A date in days since 1970.
    pub fn date(&mut self, days: i32) {
        self.primitive(Kind::Date);
        self.value.extend(days.to_le_bytes());
    }

    /// An instant in microseconds since 1970.
    pub fn timestamp(&mut self, micros: i64) {
        self.primitive(Kind::Timestamp);
        self.value.extend(micros.to_le_bytes());
    }

    /// A wall clock in microseconds since 1970.
    pub fn timestamp_ntz(&mut self, micros: i64) {
        self.primitive(Kind::TimestampNtz);
        self.value.extend(micros.to_le_bytes());
    }

    /// Bytes.
    ///
    /// # Errors
    /// [`Fault::TooLarge`].
    pub fn binary(&mut self, bytes: &[u8]) -> Result<(), Fault> {
        let length = u32::try_from(bytes.len()).map_err(|_| Fault::TooLarge)?;
        self.primitive(Kind::Binary);
        self.value.extend(length.to_le_bytes());
        self.value.extend_from_slice(bytes);
        Ok(())
    }

    /// Text.
    ///
    /// # Errors
    /// [`Fault::TooLarge`].
    pub fn string(&mut self, text: &str) -> Result<(), Fault> {
        match u8::try_from(text.len()) {
            Ok(length) if text.len() <= MAX_SHORT => self.value.push(length << 2 | 1),
            _ => {
                let length = u32::try_from(text.len()).map_err(|_| Fault::TooLarge)?;
                self.primitive(Kind::LongString);
                self.value.extend(length.to_le_bytes());
            }
        }
        self.value.extend_from_slice(text.as_bytes());
        Ok(())
    }

    /// A field of the object that began at a place, whose value follows.
    pub fn member(&mut self, name: &str, start: usize) -> Member {
        let index = match self.indexes.get(name) {
            Some(index) => *index,
            None => {
                self.names.push(name.to_owned());
                self.indexes.insert(name.to_owned(), self.names.len() - 1);
                self.names.len() - 1
            }
        };
        Member { name: name.to_owned(), index, offset: self.value.len() - start }
    }

    /// Makes an object of the values since a place.
    ///
    /// # Errors
    /// [`Fault::DuplicateKey`], [`Fault::TooLarge`].
    pub fn object(&mut self, start: usize, mut members: Vec<Member>) -> Result<(), Fault> {
        // Java orders strings by their UTF-16 units.
        members.sort_by(|one, other| one.name.encode_utf16().cmp(other.name.encode_utf16()));
        if let Some(name) = members.windows(2).find_map(|pair| match pair {
            [one, other] if one.name == other.name => Some(one.name.clone()),
            _ => None,
        }) {
            return Err(Fault::DuplicateKey(name));
        }
        let size = self.value.len() - start;
        let id_bytes = width(members.iter().map(|member| member.index).max().unwrap_or(0));
        let offset_bytes = width(size);
        let large = members.len() > 0xff;
        let header = u8::from(large) << 6 | (id_bytes as u8 - 1) << 4 | (offset_bytes as u8 - 1) << 2 | 2;
        let mut head = vec![header];
        push(&mut head, members.len(), if large { 4 } else { 1 });
        members.iter().for_each(|member| push(&mut head, member.index, id_bytes));
        members.iter().for_each(|member| push(&mut head, member.offset, offset_bytes));
        push(&mut head, size, offset_bytes);
        self.value.splice(start..start, head);
        if self.value.len() > MAX_SIZE { Err(Fault::TooLarge) } else { Ok(()) }
    }

    /// Makes an array of the values since a place; `offsets` tells where each begins behind it.
    ///
    /// # Errors
    /// [`Fault::TooLarge`].
    pub fn array(&mut self, start: usize, offsets: &[usize]) -> Result<(), Fault> {
        let size = self.value.len() - start;
        let offset_bytes = width(size);
        let large = offsets.len() > 0xff;
        let header = u8::from(large) << 4 | (offset_bytes as u8 - 1) << 2 | 3;
        let mut head = vec![header];
        push(&mut head, offsets.len(), if large { 4 } else { 1 });
        offsets.iter().for_each(|offset| push(&mut head, *offset, offset_bytes));
        push(&mut head, size, offset_bytes);
        self.value.splice(start..start, head);
        if self.value.len() > MAX_SIZE { Err(Fault::TooLarge) } else { Ok(()) }
    }

    /// A copy of a variant, whose names go into the dictionary here.
    ///
    /// # Errors
    /// As [`Builder::object`].
    pub fn variant(&mut self, variant: Variant<'_>) -> Result<(), Fault> {
        match variant.value() {
            None => self.null(),
            Some(Value::Object(object)) => {
                let (start, mut members) = (self.position(), Vec::new());
                for (name, value) in object.members() {
                    members.push(self.member(name, start));
                    self.variant(value)?;
                }
                self.object(start, members)?;
            }
            Some(Value::Array(array)) => {
                let (start, mut offsets) = (self.position(), Vec::new());
                for element in array.elements() {
                    offsets.push(self.position() - start);
                    self.variant(element)?;
                }
                self.array(start, &offsets)?;
            }
            Some(_) => self.value.extend_from_slice(variant.bytes()),
        }
        Ok(())
    }

    /// Appends the value and its metadata.
    ///
    /// # Errors
    /// [`Fault::TooLarge`].
    pub fn finish(self, value: &mut Vec<u8>, metadata: &mut Vec<u8>) -> Result<(), Fault> {
        if self.value.len() > MAX_SIZE {
            return Err(Fault::TooLarge);
        }
        let size: usize = self.names.iter().map(String::len).sum();
        let offset_bytes = width(size.max(self.names.len()));
        metadata.push(1 | (offset_bytes as u8 - 1) << 6);
        push(metadata, self.names.len(), offset_bytes);
        let mut offset = 0;
        for name in &self.names {
            push(metadata, offset, offset_bytes);
            offset += name.len();
        }
        push(metadata, offset, offset_bytes);
        self.names.iter().for_each(|name| metadata.extend_from_slice(name.as_bytes()));
        value.extend_from_slice(&self.value);
        Ok(())
    }
}

/// How many bytes a number needs.
fn width(number: usize) -> usize {
    match number {
        0..=0xff => 1,
        0x100..=0xffff => 2,
        0x1_0000..=0xff_ffff => 3,
        _ => 4,
    }
}

/// Appends the lowest bytes of a number.
fn push(out: &mut Vec<u8>, number: usize, bytes: usize) {
    out.extend(number.to_le_bytes().iter().take(bytes));
}
