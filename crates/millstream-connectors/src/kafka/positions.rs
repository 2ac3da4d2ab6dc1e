//! Positions per partition, and their JSON text, which is Spark's: `{"topic":{"0":5,"1":7}}`.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use millstream_core::{Error, ErrorKind, Offset, Result};

/// A partition of a topic.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct TopicPartition {
    pub(super) topic: Arc<str>,
    pub(super) partition: i32,
}

impl TopicPartition {
    pub(super) fn new(topic: impl Into<Arc<str>>, partition: i32) -> Self {
        TopicPartition { topic: topic.into(), partition }
    }
}

impl fmt::Display for TopicPartition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.topic, self.partition)
    }
}

/// A number per partition: the offset of the next record to read, or a timestamp in milliseconds.
pub(super) type Positions = BTreeMap<TopicPartition, i64>;

/// Partitions as a message shows them: `t-0, t-1`.
pub(super) fn list<'a>(partitions: impl IntoIterator<Item = &'a TopicPartition>) -> String {
    partitions.into_iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

/// The positions as the offset of a checkpoint. Spark keeps both levels of the object in hash maps of Scala and writes them in the order of
/// their buckets; so that texts can be compared, this is that order.
pub(super) fn to_offset(positions: &Positions) -> Result<Offset> {
    let mut topics: BTreeMap<&str, Vec<(i32, i64)>> = BTreeMap::new();
    for (partition, position) in positions {
        topics.entry(&partition.topic).or_default().push((partition.partition, *position));
    }
    let mut text = String::from("{");
    let puts = topics.iter().flat_map(|(topic, partitions)| partitions.iter().map(move |_| *topic));
    let order = bucket_order(puts, java_hash);
    for (index, topic) in order.iter().enumerate() {
        text.push_str(if index == 0 { "" } else { "," });
        text.push_str(&serde_json::Value::from(*topic).to_string());
        text.push_str(":{");
        let partitions: BTreeMap<i32, i64> = topics.get(topic).into_iter().flatten().copied().collect();
        for (index, partition) in bucket_order(partitions.keys().copied(), |partition| *partition).iter().enumerate() {
            let position = partitions.get(partition).copied().unwrap_or_default();
            text.push_str(&format!("{}\"{partition}\":{position}", if index == 0 { "" } else { "," }));
        }
        text.push('}');
    }
    text.push('}');
    Offset::from_json(text)
}

/// The positions of an offset.
///
/// # Errors
/// `MALFORMED_OFFSET` when the checkpoint belongs to another kind of source.
pub(super) fn from_offset(offset: &Offset) -> Result<Positions> {
    parse(offset.as_json()).ok_or_else(|| {
        Error::new(
            ErrorKind::CheckpointIncompatible,
            "MALFORMED_OFFSET",
            format!("the checkpoint's offset {offset} does not belong to a Kafka source"),
        )
    })
}

/// Reads `{"topic":{"0":5}}`.
pub(super) fn parse(text: &str) -> Option<Positions> {
    let topics: BTreeMap<String, BTreeMap<i32, i64>> = serde_json::from_str(text).ok()?;
    let mut positions = Positions::new();
    for (topic, partitions) in topics {
        let topic: Arc<str> = topic.into();
        positions.extend(partitions.into_iter().map(|(partition, position)| (TopicPartition::new(topic.clone(), partition), position)));
    }
    Some(positions)
}

/// Reads `{"topic":[0,1]}`.
pub(super) fn parse_partitions(text: &str) -> Option<Vec<TopicPartition>> {
    let topics: BTreeMap<String, Vec<i32>> = serde_json::from_str(text).ok()?;
    let mut found: Vec<TopicPartition> = topics
        .into_iter()
        .flat_map(|(topic, partitions)| {
            let topic: Arc<str> = topic.into();
            partitions.into_iter().map(move |partition| TopicPartition::new(topic.clone(), partition))
        })
        .collect();
    found.sort_unstable();
    found.dedup();
    Some(found)
}

/// The hash of a string in Java.
fn java_hash(text: &&str) -> i32 {
    text.encode_utf16().fold(0_i32, |hash, unit| hash.wrapping_mul(31).wrapping_add(i32::from(unit)))
}

/// The order in which a mutable hash map of Scala 2.13 gives its keys after these were put one by one, repeated ones included: the table
/// begins with 16 buckets and doubles before a put that would fill three quarters of it; a bucket is sorted by hash.
fn bucket_order<K: Copy + PartialEq>(puts: impl Iterator<Item = K>, hash: impl Fn(&K) -> i32) -> Vec<K> {
    let mut buckets: i64 = 16;
    let mut keys: Vec<(i32, K)> = Vec::new();
    for key in puts {
        if (keys.len() as i64 + 1) * 4 >= buckets * 3 {
            buckets *= 2;
        }
        if keys.last().is_none_or(|(_, last)| *last != key) {
            let plain = hash(&key);
            keys.push((plain ^ plain.cast_unsigned().wrapping_shr(16).cast_signed(), key));
        }
    }
    keys.sort_by_key(|(hash, _)| (i64::from(*hash) & (buckets - 1), *hash));
    keys.into_iter().map(|(_, key)| key).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn positions(all: &[(&str, i32, i64)]) -> Positions {
        all.iter().map(|(topic, partition, position)| (TopicPartition::new(*topic, *partition), *position)).collect()
    }

    #[test]
    fn the_text_is_sparks_and_is_read_back() {
        let all = positions(&[("t1", 1, 10), ("t1", 0, 5), ("t2", 0, -1)]);
        let offset = to_offset(&all).unwrap();
        assert_eq!(offset.as_json(), r#"{"t1":{"0":5,"1":10},"t2":{"0":-1}}"#);
        assert_eq!(from_offset(&offset).unwrap(), all);
        assert_eq!(to_offset(&Positions::new()).unwrap().as_json(), "{}");
    }

    #[test]
    fn topics_come_in_the_order_of_their_buckets() {
        // "b" hashes to 98, "a" to 97 and "orders" to another bucket.
        let all = positions(&[("b", 0, 1), ("a", 0, 1), ("q", 0, 1)]);
        assert_eq!(to_offset(&all).unwrap().as_json(), r#"{"a":{"0":1},"q":{"0":1},"b":{"0":1}}"#);
        let many = (0..40).map(|partition| (TopicPartition::new("t", partition), 1)).collect();
        let text = to_offset(&many).unwrap();
        assert!(text.as_json().starts_with(r#"{"t":{"0":1,"1":1,"2":1"#), "{text}");
        assert_eq!(from_offset(&text).unwrap(), many);
    }

    #[test]
    fn what_is_not_an_object_of_objects_is_refused() {
        for text in ["", "[]", r#"{"logOffset":0}"#, r#"{"t":[0]}"#, r#"{"t":{"x":1}}"#] {
            assert_eq!(parse(text), None, "{text}");
        }
        assert_eq!(from_offset(&Offset::from_json(r#"{"logOffset":0}"#).unwrap()).unwrap_err().code(), "MALFORMED_OFFSET");
        assert_eq!(parse_partitions(r#"{"t":[1,0,1]}"#).unwrap().len(), 2);
        assert_eq!(parse_partitions("nope"), None);
    }
}
