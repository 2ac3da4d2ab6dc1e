//! Decoding of messages from clients. Plans nest: how deep is found out before anything recurses, so that no message can overflow a stack.

use std::marker::PhantomData;
use std::sync::Arc;

use millstream_core::{Error, Result};
use prost::Message;
use prost::bytes::{Buf, Bytes};
use tonic::Status;
use tonic::codec::{Codec, DecodeBuf, Decoder};
use tonic_prost::ProstEncoder;

use super::errors::{self, Fault};

/// The deepest nesting of messages that is taken: an expression takes two levels. Spark's own limit is 1024.
const MOST_DEPTH: usize = 4_096;

/// The deepest nesting of protobuf's old groups, which no message here has and which are skipped.
const MOST_GROUPS: usize = 1 << 20;

/// Depth up to which any thread's stack is large enough.
const SHALLOW: Nesting = Nesting { messages: 64, groups: 64 };

/// Stack for a level of messages and of groups, bytes: several times what a level takes without optimisation.
const STACK_PER_MESSAGE: usize = 16 << 10;
const STACK_PER_GROUP: usize = 512;

/// Encodes as usual and decodes carefully.
#[derive(Debug)]
pub(crate) struct PlanCodec<T, U>(PhantomData<(T, U)>);

impl<T, U> Default for PlanCodec<T, U> {
    fn default() -> Self {
        PlanCodec(PhantomData)
    }
}

impl<T: Message + Send + 'static, U: Message + Default + Send + 'static> Codec for PlanCodec<T, U> {
    type Encode = T;
    type Decode = U;
    type Encoder = ProstEncoder<T>;
    type Decoder = PlanDecoder<U>;

    fn encoder(&mut self) -> Self::Encoder {
        ProstEncoder::default()
    }

    fn decoder(&mut self) -> Self::Decoder {
        PlanDecoder(PhantomData)
    }
}

/// The decoder of a [`PlanCodec`].
#[derive(Debug)]
pub(crate) struct PlanDecoder<U>(PhantomData<U>);

impl<U: Message + Default + Send> Decoder for PlanDecoder<U> {
    type Item = U;
    type Error = Status;

    fn decode(&mut self, buf: &mut DecodeBuf<'_>) -> Result<Option<U>, Status> {
        let bytes = buf.copy_to_bytes(buf.remaining());
        decode(bytes).map(Some).map_err(|error| errors::status(None, &Arc::new(Fault::of(&error))))
    }
}

/// Decodes a message.
///
/// # Errors
/// `CONNECT_INVALID_PLAN.TOO_DEEP` and `.CANNOT_PARSE`.
pub(super) fn decode<M: Message + Default + Send>(bytes: Bytes) -> Result<M> {
    let nesting = Nesting::of(&bytes);
    if nesting.messages > MOST_DEPTH || nesting.groups > MOST_GROUPS {
        let message = format!(
            "the plan is nested {} levels deep and at most {MOST_DEPTH} are taken: write long chains of one operator as a function over an \
             array, or many columns in one select",
            nesting.messages
        );
        return Err(Error::invalid("CONNECT_INVALID_PLAN.TOO_DEEP", message).with_sqlstate("56K00"));
    }
    let run = || M::decode(bytes);
    let decoded = if nesting.messages <= SHALLOW.messages && nesting.groups <= SHALLOW.groups {
        run()
    } else {
        stacker::grow((1 << 20) + nesting.messages * STACK_PER_MESSAGE + nesting.groups * STACK_PER_GROUP, run)
    };
    decoded.map_err(|error| {
        Error::invalid("CONNECT_INVALID_PLAN.CANNOT_PARSE", "The Spark Connect plan is invalid. It cannot be parsed")
            .with_sqlstate("56K00")
            .caused_by(error)
    })
}

/// How deep a message may be nested at most. Bytes of texts that look like messages count as such, which never comes near the limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Nesting {
    messages: usize,
    groups: usize,
}

impl Nesting {
    /// Looks at every byte once.
    fn of(bytes: &[u8]) -> Self {
        let mut deepest = Nesting { messages: 1, groups: 0 };
        // The end of each message around the position, and the groups open in it.
        let mut around: Vec<(usize, usize)> = vec![(bytes.len(), 0)];
        let mut position = 0;
        while let Some((end, groups)) = around.last_mut() {
            if position >= *end {
                around.pop();
                continue;
            }
            match Field::read(bytes, position, *end) {
                Some(Field::Scalar { next }) => position = next,
                Some(Field::Group { next }) => {
                    *groups += 1;
                    deepest.groups = deepest.groups.max(*groups);
                    position = next;
                }
                Some(Field::GroupEnd { next }) => {
                    *groups = groups.saturating_sub(1);
                    position = next;
                }
                Some(Field::Nested { start, end }) => {
                    position = start;
                    around.push((end, 0));
                    deepest.messages = deepest.messages.max(around.len());
                }
                None => {
                    position = *end;
                    around.pop();
                }
            }
        }
        deepest
    }
}

enum Field {
    Scalar { next: usize },
    Group { next: usize },
    GroupEnd { next: usize },
    Nested { start: usize, end: usize },
}

impl Field {
    /// The field at a position of a message that ends at `end`; `None` if these bytes are no field.
    fn read(bytes: &[u8], position: usize, end: usize) -> Option<Field> {
        let (tag, next) = varint(bytes, position, end)?;
        if tag >> 3 == 0 {
            return None;
        }
        let scalar = |next: usize| (next <= end).then_some(Field::Scalar { next });
        match tag & 7 {
            0 => scalar(varint(bytes, next, end)?.1),
            1 => scalar(next + 8),
            2 => {
                let (length, start) = varint(bytes, next, end)?;
                let stop = start.checked_add(usize::try_from(length).ok()?)?;
                match stop <= end {
                    true if stop == start => Some(Field::Scalar { next: stop }),
                    true => Some(Field::Nested { start, end: stop }),
                    false => None,
                }
            }
            3 => Some(Field::Group { next }),
            4 => Some(Field::GroupEnd { next }),
            5 => scalar(next + 4),
            _ => None,
        }
    }
}

fn varint(bytes: &[u8], position: usize, end: usize) -> Option<(u64, usize)> {
    let mut value = 0_u64;
    for (index, byte) in bytes.get(position..end)?.iter().take(10).enumerate() {
        value |= u64::from(byte & 0x7f).checked_shl(7 * u32::try_from(index).ok()?)?;
        if byte & 0x80 == 0 {
            return Some((value, position + index + 1));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use spark_connect_proto::{Limit, Relation, relation::RelType};

    use super::*;

    fn nested(depth: usize) -> Vec<u8> {
        // The bytes of Relation { limit { input { limit { … } } } }, written from the inside out.
        let mut bytes = Vec::new();
        for _ in 0..depth {
            let inner = wrap(1, bytes);
            bytes = wrap(8, inner);
        }
        bytes
    }

    fn wrap(field: u8, inner: Vec<u8>) -> Vec<u8> {
        let mut bytes = vec![field << 3 | 2];
        let mut length = inner.len();
        while length >= 0x80 {
            bytes.push(u8::try_from(length & 0x7f).unwrap() | 0x80);
            length >>= 7;
        }
        bytes.push(u8::try_from(length).unwrap());
        bytes.extend(inner);
        bytes
    }

    #[test]
    fn depth_is_found_before_decoding() {
        for depth in [1, 10, 40] {
            assert_eq!(Nesting::of(&nested(depth)).messages, 2 * depth);
            let relation: Relation = decode(nested(depth).into()).unwrap();
            let Some(RelType::Limit(limit)) = relation.rel_type else { panic!("a limit") };
            assert_eq!(limit.encoded_len(), Limit::encoded_len(&limit));
        }
        let deep = decode::<Relation>(nested(3_000).into()).unwrap_err();
        assert_eq!(deep.code(), "CONNECT_INVALID_PLAN.TOO_DEEP");
    }

    #[test]
    fn groups_are_counted_and_texts_do_no_harm() {
        assert_eq!(Nesting::of(&[0x0b; 100]).groups, 100);
        assert!(decode::<Relation>(vec![0x0b; MOST_GROUPS + 1].into()).is_err());
        let text = wrap(1, b"kkkkkkkk{{{{{{ssss an ordinary text of a user".to_vec());
        assert!(Nesting::of(&text).messages < 10);
        assert_eq!(Nesting::of(&[]), Nesting { messages: 1, groups: 0 });
    }

    #[test]
    fn what_is_no_message_is_refused() {
        assert_eq!(decode::<Relation>(Bytes::from_static(&[0x0a, 0x05])).unwrap_err().code(), "CONNECT_INVALID_PLAN.CANNOT_PARSE");
    }
}
