//! The little of Protocol Buffers that ORC's footers need.

/// A message being built, fields in the order of the calls.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Message(Vec<u8>);

impl Message {
    /// A field of an integer or enumeration type.
    pub(super) fn number(mut self, field: u32, value: u64) -> Self {
        self.key(field, 0);
        varint(u128::from(value), &mut self.0);
        self
    }

    /// A packed field of integers.
    pub(super) fn numbers(self, field: u32, values: &[u64]) -> Self {
        let mut packed = Vec::new();
        values.iter().for_each(|value| varint(u128::from(*value), &mut packed));
        self.field(field, &packed)
    }

    /// A field of text.
    pub(super) fn text(self, field: u32, text: &str) -> Self {
        self.field(field, text.as_bytes())
    }

    /// A field that is a message.
    pub(super) fn message(self, field: u32, message: &Message) -> Self {
        self.field(field, &message.0)
    }

    /// The bytes so far.
    pub(super) fn bytes(&self) -> &[u8] {
        &self.0
    }

    fn field(mut self, field: u32, bytes: &[u8]) -> Self {
        self.key(field, 2);
        varint(bytes.len() as u128, &mut self.0);
        self.0.extend_from_slice(bytes);
        self
    }

    fn key(&mut self, field: u32, wire_type: u32) {
        varint(u128::from(field << 3 | wire_type), &mut self.0);
    }
}

/// Seven bits a byte, the lowest first; all but the last byte have the highest bit set.
pub(super) fn varint(mut value: u128, out: &mut Vec<u8>) {
    while value > 0x7F {
        out.push((value & 0x7F) as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// A signed number as an unsigned one: 0, −1, 1, −2 … become 0, 1, 2, 3 …
pub(super) fn zigzag(value: i128) -> u128 {
    (value << 1 ^ value >> 127).cast_unsigned()
}
