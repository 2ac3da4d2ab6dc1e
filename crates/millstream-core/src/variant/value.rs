//! Reads variants. Bytes that are no variant read as nothing.

/// The types of values without parts, by the numbers that the encoding gives them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Kind {
    Null = 0,
    True = 1,
    False = 2,
    Int8 = 3,
    Int16 = 4,
    Int32 = 5,
    Int64 = 6,
    Double = 7,
    Decimal4 = 8,
    Decimal8 = 9,
    Decimal16 = 10,
    Date = 11,
    Timestamp = 12,
    TimestampNtz = 13,
    Float = 14,
    Binary = 15,
    LongString = 16,
}

/// A variant: the bytes of a value, and of the dictionary of names.
#[derive(Clone, Copy, Debug)]
pub struct Variant<'a> {
    value: &'a [u8],
    metadata: &'a [u8],
}

/// A value.
#[derive(Clone, Copy, Debug)]
pub enum Value<'a> {
    /// A null that is a value.
    Null,
    /// A truth value.
    Boolean(bool),
    /// A whole number.
    Long(i64),
    /// A floating-point number.
    Double(f64),
    /// A floating-point number of 32 bits.
    Float(f32),
    /// Unscaled value and scale, without zeros at the end.
    Decimal(i128, i8),
    /// Days since 1970.
    Date(i32),
    /// An instant in microseconds since 1970.
    Timestamp(i64),
    /// A wall clock in microseconds since 1970.
    TimestampNtz(i64),
    /// Bytes.
    Binary(&'a [u8]),
    /// Text.
    String(&'a str),
    /// A UUID.
    Uuid(u128),
    /// Named values.
    Object(Object<'a>),
    /// Values in a row.
    Array(Array<'a>),
}

/// The fields of an object.
#[derive(Clone, Copy, Debug)]
pub struct Object<'a> {
    metadata: &'a [u8],
    ids: &'a [u8],
    id_bytes: usize,
    data: Array<'a>,
}

/// The elements of an array.
#[derive(Clone, Copy, Debug)]
pub struct Array<'a> {
    metadata: &'a [u8],
    offsets: &'a [u8],
    offset_bytes: usize,
    data: &'a [u8],
    length: usize,
}

impl<'a> Variant<'a> {
    /// A variant of these bytes.
    pub fn new(value: &'a [u8], metadata: &'a [u8]) -> Self {
        Variant { value, metadata }
    }

    /// The bytes of a value without parts.
    pub fn bytes(&self) -> &'a [u8] {
        let length = match self.value.first() {
            Some(header) if header & 3 == 1 => 1 + usize::from(header >> 2),
            Some(header) => match header >> 2 {
                0..=2 => 1,
                3 => 2,
                4 => 3,
                5 | 11 | 14 => 5,
                6 | 7 | 12 | 13 => 9,
                8 => 6,
                9 => 10,
                10 => 18,
                20 => 17,
                _ => 5 + self.value.get(1..).map_or(0, |rest| number(rest, 0, 4).unwrap_or(0)),
            },
            None => 0,
        };
        self.value.get(..length).unwrap_or(self.value)
    }

    /// The value, `None` if it cannot be read.
    pub fn value(&self) -> Option<Value<'a>> {
        let (header, rest) = self.value.split_first()?;
        match header & 3 {
            0 => self.primitive(header >> 2, rest),
            1 => Some(Value::String(std::str::from_utf8(rest.get(..usize::from(header >> 2))?).ok()?)),
            2 => {
                let (id_bytes, offset_bytes) = (usize::from(header >> 4 & 3) + 1, usize::from(header >> 2 & 3) + 1);
                let (length, rest) = length(rest, header >> 6 & 1 == 1)?;
                let (ids, rest) = rest.split_at_checked(length * id_bytes)?;
                let data = Array::new(self.metadata, rest, length, offset_bytes)?;
                Some(Value::Object(Object { metadata: self.metadata, ids, id_bytes, data }))
            }
            _ => {
                let (length, rest) = length(rest, header >> 4 & 1 == 1)?;
                Array::new(self.metadata, rest, length, usize::from(header >> 2 & 3) + 1).map(Value::Array)
            }
        }
    }

    fn primitive(&self, kind: u8, rest: &'a [u8]) -> Option<Value<'a>> {
        let decimal = |unscaled: i128| Some(strip(unscaled, i8::try_from(*rest.first()?).ok()?));
        let behind = || rest.get(1..);
        Some(match kind {
            0 => Value::Null,
            1 => Value::Boolean(true),
            2 => Value::Boolean(false),
            3 => Value::Long(i8::from_le_bytes(*rest.first_chunk()?).into()),
            4 => Value::Long(i16::from_le_bytes(*rest.first_chunk()?).into()),
            5 => Value::Long(i32::from_le_bytes(*rest.first_chunk()?).into()),
            6 => Value::Long(i64::from_le_bytes(*rest.first_chunk()?)),
            7 => Value::Double(f64::from_le_bytes(*rest.first_chunk()?)),
            8 => decimal(i32::from_le_bytes(*behind()?.first_chunk()?).into())?,
            9 => decimal(i64::from_le_bytes(*behind()?.first_chunk()?).into())?,
            10 => decimal(i128::from_le_bytes(*behind()?.first_chunk()?))?,
            11 => Value::Date(i32::from_le_bytes(*rest.first_chunk()?)),
            12 => Value::Timestamp(i64::from_le_bytes(*rest.first_chunk()?)),
            13 => Value::TimestampNtz(i64::from_le_bytes(*rest.first_chunk()?)),
            14 => Value::Float(f32::from_le_bytes(*rest.first_chunk()?)),
            15 => Value::Binary(rest.get(4..)?.get(..number(rest, 0, 4)?)?),
            16 => Value::String(std::str::from_utf8(rest.get(4..)?.get(..number(rest, 0, 4)?)?).ok()?),
            20 => Value::Uuid(u128::from_be_bytes(*rest.first_chunk()?)),
            _ => return None,
        })
    }
}

/// A decimal without zeros at its end.
fn strip<'a>(mut unscaled: i128, mut scale: i8) -> Value<'a> {
    if unscaled == 0 {
        return Value::Decimal(0, 0);
    }
    while scale > 0 && unscaled % 10 == 0 {
        (unscaled, scale) = (unscaled / 10, scale - 1);
    }
    Value::Decimal(unscaled, scale)
}

impl<'a> Object<'a> {
    /// The fields in the order of their names.
    pub fn members(self) -> impl Iterator<Item = (&'a str, Variant<'a>)> {
        (0..self.data.length).filter_map(move |at| Some((self.name(at)?, self.data.get(at)?)))
    }

    fn name(&self, at: usize) -> Option<&'a str> {
        let id = number(self.ids, at * self.id_bytes, self.id_bytes)?;
        let (header, rest) = self.metadata.split_first()?;
        let bytes = usize::from(header >> 6) + 1;
        let names = number(rest, 0, bytes)?;
        let offset = |at: usize| number(rest, (1 + at) * bytes, bytes);
        let strings = rest.get((2 + names) * bytes..)?;
        std::str::from_utf8(strings.get(offset(id)?..offset(id + 1)?)?).ok()
    }

    /// The value of a field.
    pub fn get(self, name: &str) -> Option<Variant<'a>> {
        self.members().find(|(known, _)| *known == name).map(|(_, value)| value)
    }
}

impl<'a> Array<'a> {
    fn new(metadata: &'a [u8], rest: &'a [u8], length: usize, offset_bytes: usize) -> Option<Self> {
        let (offsets, data) = rest.split_at_checked((length + 1) * offset_bytes)?;
        Some(Array { metadata, offsets, offset_bytes, data, length })
    }

    /// An element.
    pub fn get(&self, at: usize) -> Option<Variant<'a>> {
        if at >= self.length {
            return None;
        }
        let start = number(self.offsets, at * self.offset_bytes, self.offset_bytes)?;
        Some(Variant::new(self.data.get(start..)?, self.metadata))
    }

    /// The elements in order.
    pub fn elements(self) -> impl Iterator<Item = Variant<'a>> {
        (0..self.length).filter_map(move |at| self.get(at))
    }
}

/// How many elements follow, and what is behind the number.
fn length(bytes: &[u8], large: bool) -> Option<(usize, &[u8])> {
    let width = if large { 4 } else { 1 };
    Some((number(bytes, 0, width)?, bytes.get(width..)?))
}

/// The number in so many bytes at a place.
fn number(bytes: &[u8], at: usize, width: usize) -> Option<usize> {
    let bytes = bytes.get(at..at.checked_add(width)?)?;
    Some(bytes.iter().rev().fold(0, |number, byte| number << 8 | usize::from(*byte)))
}
