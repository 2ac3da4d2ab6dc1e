//! Where reading begins and ends, from what the options say to offsets.

use std::collections::{BTreeMap, BTreeSet};

use millstream_core::{Error, Result};

use super::cluster::{Ask, Cluster, NO_MATCH};
use super::options::{Bound, EARLIEST, LATEST, SourceOptions};
use super::positions::{self, Positions, TopicPartition};
use crate::rate::illegal_argument;

/// Which end is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    Start,
    End,
}

/// The offsets of a bound for these partitions.
///
/// # Errors
/// `AssertionError`, `KAFKA_START_OFFSET_DOES_NOT_MATCH_ASSIGNED` and `KAFKA_TIMESTAMP_OFFSET_DOES_NOT_MATCH_ASSIGNED` when other partitions were named than there are,
/// `IllegalArgumentException` for a time that no record has, and those of the cluster.
pub(super) async fn bound<'a>(
    cluster: &Cluster,
    options: &SourceOptions,
    partitions: impl Iterator<Item = &'a TopicPartition>,
    end: End,
) -> Result<Positions> {
    let partitions: BTreeSet<TopicPartition> = partitions.cloned().collect();
    let bound = if end == End::Start { &options.start } else { &options.end };
    match bound {
        Bound::Earliest => cluster.offsets_of(&partitions, Ask::Earliest).await,
        Bound::Latest => cluster.offsets_of(&partitions, Ask::Latest).await,
        Bound::Offsets(given) => {
            same_partitions(given, &partitions, |given, there| {
                if !options.streaming {
                    let message = format!(
                        "Partitions specified for Kafka start offsets don't match what are assigned: name every partition, with -1 for latest \
                         and -2 for earliest. Specified: {given} Assigned: {there}"
                    );
                    return Error::invalid("KAFKA_START_OFFSET_DOES_NOT_MATCH_ASSIGNED", message);
                }
                Error::invalid(
                    "AssertionError",
                    format!(
                        "If startingOffsets contains specific offsets, you must specify all TopicPartitions. Use -1 for latest, -2 for earliest, \
                         if you don't care. Specified: {given} Assigned: {there}"
                    ),
                )
            })?;
            offsets(cluster, given).await
        }
        Bound::Timestamp(ms) => times(cluster, options, partitions.into_iter().map(|partition| (partition, *ms)).collect(), end).await,
        Bound::Timestamps(given) => {
            same_partitions(given, &partitions, |given, there| {
                let which = if end == End::Start { "start" } else { "end" };
                Error::invalid(
                    "KAFKA_TIMESTAMP_OFFSET_DOES_NOT_MATCH_ASSIGNED",
                    format!(
                        "Partitions specified for Kafka timestamp based {which} offsets don't match what are assigned: name every partition. \
                         Specified: {given} Assigned: {there}"
                    ),
                )
            })?;
            times(cluster, options, given.clone(), end).await
        }
    }
}

fn same_partitions(given: &Positions, there: &BTreeSet<TopicPartition>, error: impl Fn(&str, &str) -> Error) -> Result<()> {
    if given.len() == there.len() && given.keys().all(|partition| there.contains(partition)) {
        return Ok(());
    }
    Err(error(&format!("Set({})", positions::list(given.keys())), &format!("Set({})", positions::list(there))))
}

/// Offsets as given, with those that stand for the beginning and the end looked up.
async fn offsets(cluster: &Cluster, given: &Positions) -> Result<Positions> {
    let mut asked = BTreeMap::new();
    for (partition, offset) in given {
        match *offset {
            EARLIEST => drop(asked.insert(partition.clone(), Ask::Earliest)),
            LATEST => drop(asked.insert(partition.clone(), Ask::Latest)),
            offset if offset < EARLIEST => {
                return Err(illegal_argument(format!("offset {offset} of {partition} is negative: use -1 for latest and -2 for earliest")));
            }
            _ => {}
        }
    }
    let mut resolved = given.clone();
    resolved.extend(cluster.offsets(asked).await?);
    Ok(resolved)
}

/// The first records at or after times.
async fn times(cluster: &Cluster, options: &SourceOptions, given: Positions, end: End) -> Result<Positions> {
    // No record has such a time for Kafka, which means other things by negative numbers.
    let asked = given.iter().filter(|(_, ms)| **ms >= 0).map(|(partition, ms)| (partition.clone(), Ask::Since(*ms))).collect();
    let mut found = cluster.offsets(asked).await?;
    let unmatched: Vec<&TopicPartition> =
        given.keys().filter(|partition| found.get(*partition).is_none_or(|offset| *offset == NO_MATCH)).collect();
    if let Some(first) = unmatched.first()
        && end == End::Start
        && !options.latest_without_match
    {
        let ms = given.get(*first).copied().unwrap_or_default();
        return Err(illegal_argument(format!(
            "No offset matched from request of topic-partition {first} and timestamp {ms}. Set startingOffsetsByTimestampStrategy to latest to \
             begin at the end of such partitions."
        )));
    }
    let latest = cluster.offsets_of(unmatched, Ask::Latest).await?;
    found.extend(latest);
    Ok(found)
}
