//! How far behind rows come: what a watermark's delay must allow for, and what it loses.
//!
//! A row is *behind* by what its event time is older than the newest event time that the late filter of its batch knows. With a delay of `d` it
//! is late if it is behind by `d` or more, so the counts answer what any other delay would have lost.

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Partitions of one source that are kept apart. A source with more (every file is one) is counted as a whole.
pub const MAX_PARTITIONS: usize = 32;

/// Parts that each doubling of the distance is counted in.
const PARTS: u32 = 4;

/// Buckets that there are.
const BUCKETS: usize = 1 + 63 * PARTS as usize;

/// Rows by how far they were behind, in steps of at most a quarter.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Histogram {
    /// Rows by the number of their bucket; bucket 0 is of rows that were not behind.
    buckets: BTreeMap<u32, u64>,
}

impl Histogram {
    /// Counts `rows` that were behind by `behind_ms` milliseconds; zero or less is not behind.
    pub fn add(&mut self, behind_ms: i64, rows: u64) {
        if rows > 0 {
            *self.buckets.entry(bucket(behind_ms)).or_default() += rows;
        }
    }

    /// Counts what another histogram counted.
    pub fn merge(&mut self, other: &Histogram) {
        for (bucket, rows) in &other.buckets {
            *self.buckets.entry(*bucket).or_default() += rows;
        }
    }

    /// Rows counted.
    pub fn rows(&self) -> u64 {
        self.buckets.values().sum()
    }

    /// At least, and at most, how many rows would have been late with a delay of `delay_ms` milliseconds, which is not negative.
    pub fn late_with(&self, delay_ms: i64) -> (u64, u64) {
        let at = bucket(delay_ms);
        let beyond = self.buckets.range(at.saturating_add(1)..).map(|(_, rows)| rows).sum();
        let within = self.buckets.get(&at).copied().unwrap_or(0);
        // All of a bucket is late with a delay at its lower edge.
        if delay_ms > 0 && delay_ms == lower_edge(at) { (beyond + within, beyond + within) } else { (beyond, beyond + within) }
    }

    /// A delay in milliseconds with which at least this part (0 to 1) of the rows would have been in time; `None` without rows.
    pub fn delay_for(&self, part: f64) -> Option<i64> {
        let rows = self.rows();
        let wanted = (part.clamp(0.0, 1.0) * rows as f64).ceil() as u64;
        let mut counted = 0;
        for (bucket, rows) in &self.buckets {
            counted += rows;
            if counted >= wanted {
                return Some(lower_edge(bucket + 1));
            }
        }
        None
    }

    /// The lower edges in milliseconds and the rows of buckets that have any, nearest first. Edge 0 is of rows that were not behind.
    pub fn buckets(&self) -> impl Iterator<Item = (i64, u64)> {
        self.buckets.iter().map(|(bucket, rows)| (lower_edge(*bucket), *rows))
    }
}

impl Serialize for Histogram {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.buckets())
    }
}

impl<'de> Deserialize<'de> for Histogram {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut histogram = Histogram::default();
        for (edge, rows) in Vec::<(i64, u64)>::deserialize(deserializer)? {
            histogram.add(edge, rows);
        }
        Ok(histogram)
    }
}

/// The number of the bucket of a distance.
fn bucket(behind_ms: i64) -> u32 {
    let Ok(distance) = u64::try_from(behind_ms) else { return 0 };
    let Some(octave) = distance.checked_ilog2() else { return 0 };
    // The two bits after the first one; the smallest distances have fewer.
    let part = if octave >= 2 { (distance >> (octave - 2)) & 3 } else { (distance << (2 - octave)) & 3 };
    1 + octave * PARTS + u32::try_from(part).unwrap_or(0)
}

/// The smallest distance of a bucket.
fn lower_edge(bucket: u32) -> i64 {
    let Some(number) = bucket.checked_sub(1) else { return 0 };
    let (octave, part) = (number / PARTS, u128::from(number % PARTS));
    let edge = (4 + part).checked_shl(octave).map_or(u128::MAX, |edge| edge.div_ceil(4));
    i64::try_from(edge).unwrap_or(i64::MAX)
}

/// What was counted of some rows.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Tally {
    /// Rows with an event time.
    pub rows: u64,
    /// Rows that an operator left out because they were late.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub late: u64,
    /// Rows that were late for some of the windows that they are in, and counted in the others.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub partly_late: u64,
    /// How far behind the farthest row was, milliseconds.
    #[serde(default, skip_serializing_if = "is_not_behind")]
    pub max_behind_ms: i64,
    /// How far behind rows were.
    #[serde(default)]
    pub behind: Histogram,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature that serde asks for")]
fn is_zero(number: &u64) -> bool {
    *number == 0
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature that serde asks for")]
fn is_not_behind(ms: &i64) -> bool {
    *ms <= 0
}

impl Tally {
    /// Counts `rows` that were behind by `behind_ms` milliseconds.
    pub fn add(&mut self, behind_ms: i64, rows: u64) {
        self.rows += rows;
        self.max_behind_ms = self.max_behind_ms.max(behind_ms);
        self.behind.add(behind_ms, rows);
    }

    /// Counts rows that were behind by these distances, milliseconds.
    pub fn add_each(&mut self, behind_ms: impl Iterator<Item = i64>) {
        let mut counts = [0_u64; BUCKETS];
        for distance in behind_ms {
            self.rows += 1;
            self.max_behind_ms = self.max_behind_ms.max(distance);
            if let Some(count) = counts.get_mut(bucket(distance) as usize) {
                *count += 1;
            }
        }
        for (bucket, rows) in (0..).zip(counts).filter(|(_, rows)| *rows > 0) {
            *self.behind.buckets.entry(bucket).or_default() += rows;
        }
    }

    /// Counts what was counted elsewhere.
    pub fn merge(&mut self, other: &Tally) {
        self.rows += other.rows;
        self.late += other.late;
        self.partly_late += other.partly_late;
        self.max_behind_ms = self.max_behind_ms.max(other.max_behind_ms);
        self.behind.merge(&other.behind);
    }
}

/// What was counted of one source since the checkpoint began.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SourceLateness {
    /// All of it.
    #[serde(flatten)]
    pub total: Tally,
    /// Its partitions, as long as there are at most [`MAX_PARTITIONS`].
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub partitions: BTreeMap<String, Tally>,
    /// Whether there were more partitions, so that they are no longer kept apart.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub many: bool,
}

impl SourceLateness {
    /// Counts what a partition gave; without a name, what cannot be told apart.
    pub fn add(&mut self, partition: Option<&str>, tally: &Tally) {
        self.total.merge(tally);
        let Some(partition) = partition.filter(|_| !self.many) else { return };
        self.partitions.entry(partition.to_owned()).or_default().merge(tally);
        if self.partitions.len() > MAX_PARTITIONS {
            self.partitions.clear();
            self.many = true;
        }
    }
}

/// What was counted of every source of a query, in plan order.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Lateness(pub Vec<SourceLateness>);

impl Lateness {
    /// Counts what a partition of the source at this index gave.
    pub fn add(&mut self, source: usize, partition: Option<&str>, tally: &Tally) {
        if self.0.len() <= source {
            self.0.resize_with(source + 1, SourceLateness::default);
        }
        if let Some(of_source) = self.0.get_mut(source) {
            of_source.add(partition, tally);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn edges_are_where_buckets_begin() {
        for number in 0..200 {
            let edge = lower_edge(number);
            // The smallest distances have less than four buckets a doubling.
            assert!(lower_edge(number + 1) >= edge);
            assert_eq!(lower_edge(bucket(edge)), edge, "bucket {number}");
        }
        let edges: Vec<i64> = (0..20).map(lower_edge).collect();
        assert_eq!(edges, [0, 1, 2, 2, 2, 2, 3, 3, 4, 4, 5, 6, 7, 8, 10, 12, 14, 16, 20, 24]);
    }

    #[test]
    fn a_delay_of_the_distance_is_not_enough() {
        let mut histogram = Histogram::default();
        histogram.add(-5, 90);
        histogram.add(1_000, 6);
        histogram.add(60_000, 4);
        assert_eq!(histogram.rows(), 100);
        assert_eq!(histogram.late_with(0), (10, 100));
        assert_eq!(histogram.late_with(1), (10, 10));
        assert_eq!(histogram.late_with(1_000), (4, 10));
        assert_eq!(histogram.late_with(1_024), (4, 4));
        assert_eq!(histogram.late_with(100_000), (0, 0));
        assert_eq!(histogram.delay_for(0.9), Some(1));
        assert_eq!(histogram.delay_for(0.96), Some(1_024));
        assert_eq!(histogram.delay_for(1.0), Some(65_536));
        assert_eq!(Histogram::default().delay_for(0.5), None);
    }

    #[test]
    fn partitions_are_kept_apart_as_long_as_they_are_few() {
        let mut lateness = Lateness::default();
        let tally = Tally { rows: 2, late: 1, ..Tally::default() };
        for partition in 0..MAX_PARTITIONS {
            lateness.add(1, Some(&format!("topic-{partition}")), &tally);
        }
        assert_eq!(lateness.0[0], SourceLateness::default());
        assert_eq!(lateness.0[1].partitions.len(), MAX_PARTITIONS);
        lateness.add(1, Some("one more"), &tally);
        lateness.add(1, None, &tally);
        assert!(lateness.0[1].many && lateness.0[1].partitions.is_empty());
        assert_eq!(lateness.0[1].total.rows, 2 * (MAX_PARTITIONS as u64 + 2));
    }

    #[test]
    fn the_text_is_fixed_and_goes_both_ways() {
        let mut lateness = Lateness::default();
        let mut tally = Tally::default();
        tally.add(0, 5);
        tally.add(700, 2);
        tally.late = 1;
        lateness.add(0, Some("topic-0"), &tally);
        let text = serde_json::to_string(&lateness).unwrap();
        let expected = r#"[{"rows":7,"late":1,"maxBehindMs":700,"behind":[[0,5],[640,2]],"partitions":{"topic-0":{"rows":7,"late":1,"maxBehindMs":700,"behind":[[0,5],[640,2]]}}}]"#;
        assert_eq!(text, expected);
        assert_eq!(serde_json::from_str::<Lateness>(&text).unwrap(), lateness);
    }

    proptest! {
        #[test]
        fn bounds_hold_for_every_delay(distances in prop::collection::vec(-100i64..1_000_000_000, 0..60), delay in 0i64..1_000_000_000) {
            let mut histogram = Histogram::default();
            distances.iter().for_each(|distance| histogram.add(*distance, 1));
            // Rows at the newest event time itself count as not behind.
            let late = distances.iter().filter(|distance| **distance >= delay.max(1)).count() as u64;
            let (least, most) = histogram.late_with(delay);
            prop_assert!(least <= late && late <= most, "{least} <= {late} <= {most}");
        }

        #[test]
        fn counting_many_is_counting_each(distances in prop::collection::vec(any::<i64>(), 0..60)) {
            let (mut many, mut each) = (Tally::default(), Tally::default());
            many.add_each(distances.iter().copied());
            distances.iter().for_each(|distance| each.add(*distance, 1));
            prop_assert_eq!(many, each);
        }

        #[test]
        fn a_bucket_is_at_most_a_quarter_wide(distance in 8i64..i64::MAX / 2) {
            let edge = lower_edge(bucket(distance));
            prop_assert!(edge <= distance && distance - edge <= edge / 4);
        }
    }
}
