//! Which offsets a batch has, and how they are dealt to splits. Pure.

use std::collections::BTreeMap;

use super::errors::Loss;
use super::positions::{Positions, TopicPartition};

/// Offsets of one partition, from `from` up to and without `until`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Range {
    pub(super) partition: TopicPartition,
    pub(super) from: i64,
    pub(super) until: i64,
    /// Whether it is the last of its partition in the batch: the next batch goes on where it ends.
    pub(super) is_last: bool,
}

impl Range {
    pub(super) fn new(partition: TopicPartition, from: i64, until: i64) -> Self {
        Range { partition, from, until, is_last: true }
    }

    pub(super) fn len(&self) -> u64 {
        u64::try_from(self.until.saturating_sub(self.from)).unwrap_or(0)
    }
}

/// How many offsets there are from `start` to `end`. `earliest` is where partitions begin that `start` does not have.
pub(super) fn backlog(start: &Positions, earliest: &Positions, end: &Positions) -> u64 {
    sizes(start, earliest, end).values().map(|(_, size)| *size).sum()
}

fn sizes<'a>(start: &Positions, earliest: &Positions, end: &'a Positions) -> BTreeMap<&'a TopicPartition, (i64, u64)> {
    end.iter()
        .filter_map(|(partition, end)| {
            let begin = start.get(partition).or_else(|| earliest.get(partition)).copied().unwrap_or(0);
            let size = u64::try_from(end.saturating_sub(begin)).unwrap_or(0);
            (size > 0).then_some((partition, (begin, size)))
        })
        .collect()
}

/// The end of a batch of about `limit` offsets. Partitions get shares in proportion to what they have, at least one offset each, and so the
/// batch may have a few more; that is Spark's rule.
#[expect(clippy::cast_precision_loss, clippy::cast_possible_truncation, reason = "Spark computes shares in floating point")]
pub(super) fn prorate(limit: u64, start: &Positions, earliest: &Positions, end: &Positions) -> Positions {
    let sizes = sizes(start, earliest, end);
    let total: f64 = sizes.values().map(|(_, size)| *size as f64).sum();
    let limited = end.iter().map(|(partition, end)| {
        let Some((begin, size)) = sizes.get(partition) else { return (partition.clone(), *end) };
        let share = limit as f64 * (*size as f64 / total);
        let share = if share < 1.0 { share.ceil() } else { share.floor() };
        (partition.clone(), begin.saturating_add(share as i64).min(*end))
    });
    limited.collect()
}

/// The ranges between two positions, and what is wrong with them. `was_known` tells partitions that the query knew from those that appeared
/// later, which begin at 0.
pub(super) fn between(start: &Positions, end: &Positions) -> (Vec<Range>, Vec<Loss>) {
    let mut losses = Vec::new();
    let deleted: Vec<TopicPartition> = start.keys().filter(|partition| !end.contains_key(*partition)).cloned().collect();
    if !deleted.is_empty() {
        losses.push(Loss::Deleted(deleted));
    }
    let mut ranges = Vec::new();
    for (partition, until) in end {
        let from = start.get(partition).copied().unwrap_or(0);
        if *until < from {
            losses.push(Loss::WentBack { partition: partition.clone(), known: from, now: *until });
        } else if *until > from {
            ranges.push(Range::new(partition.clone(), from, *until));
        }
    }
    (ranges, losses)
}

/// Deals ranges to splits: none larger than `max_records`, and about `min_splits` of them. What is large is divided, in proportion.
#[expect(clippy::cast_precision_loss, clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "shares are fractions")]
pub(super) fn deal(ranges: Vec<Range>, min_splits: Option<u64>, max_records: Option<u64>) -> Vec<Range> {
    let mut dealt: Vec<Range> = match max_records {
        Some(most) => ranges.into_iter().flat_map(|range| divide(&range, range.len().div_ceil(most.max(1)))).collect(),
        None => ranges,
    };
    let Some(wanted) = min_splits.filter(|wanted| *wanted > dealt.len() as u64) else { return dealt };
    let share = |size: u64, total: u64, parts: u64| ((size as f64 / total.max(1) as f64 * parts as f64).round() as u64).max(1);
    let total: u64 = dealt.iter().map(Range::len).sum();
    // What stays whole is taken out first, so that it takes no share from what is divided.
    let (whole, large): (Vec<Range>, Vec<Range>) = dealt.drain(..).partition(|range| share(range.len(), total, wanted) == 1);
    let total: u64 = large.iter().map(Range::len).sum();
    let wanted = wanted.saturating_sub(whole.len() as u64).max(1);
    dealt.extend(whole);
    dealt.extend(large.iter().flat_map(|range| divide(range, share(range.len(), total, wanted))));
    dealt
}

/// `parts` ranges of nearly the same size; fewer where there are not as many offsets.
fn divide(range: &Range, parts: u64) -> Vec<Range> {
    let parts = i64::try_from(parts.clamp(1, range.len().max(1))).unwrap_or(i64::MAX);
    let mut from = range.from;
    (0..parts)
        .map(|part| {
            let until = from + (range.until - from) / (parts - part);
            let is_last = range.is_last && part == parts - 1;
            Range { partition: range.partition.clone(), from: std::mem::replace(&mut from, until), until, is_last }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(positions: &[i64]) -> Positions {
        (0..).zip(positions).map(|(partition, position)| (TopicPartition::new("t", partition), *position)).collect()
    }

    fn range(from: i64, until: i64) -> Range {
        Range::new(TopicPartition::new("t", 0), from, until)
    }

    /// Recorded from Spark 4.2: three partitions, seven offsets per trigger.
    #[test]
    fn shares_are_sparks() {
        let end = at(&[10, 10, 10]);
        let first = prorate(7, &at(&[1, 5, 9]), &Positions::new(), &end);
        assert_eq!(first, at(&[5, 7, 10]));
        let second = prorate(7, &first, &Positions::new(), &end);
        assert_eq!(second, at(&[9, 9, 10]));
        assert_eq!(prorate(7, &second, &Positions::new(), &end), end);
    }

    #[test]
    fn a_share_is_never_less_than_one_offset_and_new_partitions_count_from_their_beginning() {
        assert_eq!(prorate(1, &at(&[0, 0, 0]), &Positions::new(), &at(&[1_000_000, 1, 0])), at(&[1, 1, 0]));
        let earliest: Positions = [(TopicPartition::new("t", 1), 90)].into();
        assert_eq!(prorate(10, &at(&[0]), &earliest, &at(&[10, 100])), at(&[5, 95]));
        assert_eq!(backlog(&at(&[0]), &earliest, &at(&[10, 100])), 20);
        assert_eq!(prorate(u64::MAX, &at(&[0]), &Positions::new(), &at(&[i64::MAX])), at(&[i64::MAX]));
    }

    #[test]
    fn a_batch_is_what_lies_between_two_positions_and_what_does_not_fit_is_a_loss() {
        let (ranges, losses) = between(&at(&[3, 5]), &at(&[3, 9, 2]));
        assert_eq!(
            ranges.iter().map(|range| (range.partition.partition, range.from, range.until)).collect::<Vec<_>>(),
            [(1, 5, 9), (2, 0, 2)]
        );
        assert_eq!(losses, []);
        let (ranges, losses) = between(&at(&[7, 5]), &at(&[3]));
        assert_eq!(ranges, []);
        let codes: Vec<_> = losses.iter().map(|loss| loss.error().code().to_owned()).collect();
        assert_eq!(codes, ["KAFKA_DATA_LOSS.PARTITIONS_DELETED", "KAFKA_DATA_LOSS.PARTITION_OFFSET_CHANGED"]);
    }

    #[test]
    fn large_ranges_are_divided_and_every_offset_is_in_one_part() {
        let cases = [
            (vec![range(0, 10)], Some(3), None, vec![(0, 3), (3, 6), (6, 10)]),
            (vec![range(0, 10)], None, Some(4), vec![(0, 3), (3, 6), (6, 10)]),
            (vec![range(0, 2)], Some(7), None, vec![(0, 1), (1, 2)]),
            (vec![range(0, 100), range(5, 6)], Some(4), None, vec![(5, 6), (0, 33), (33, 66), (66, 100)]),
            (vec![range(0, 10), range(0, 10)], Some(2), None, vec![(0, 10), (0, 10)]),
            (vec![], Some(4), Some(1), vec![]),
        ];
        for (ranges, min, max, expected) in cases {
            let size: u64 = ranges.iter().map(Range::len).sum();
            let lasts = ranges.len();
            let dealt = deal(ranges, min, max);
            assert_eq!(dealt.iter().map(|range| (range.from, range.until)).collect::<Vec<_>>(), expected);
            assert_eq!(dealt.iter().map(Range::len).sum::<u64>(), size);
            assert_eq!(dealt.iter().filter(|range| range.is_last).count(), lasts);
        }
    }
}
