//! Topics read as a batch.

use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use async_trait::async_trait;
use millstream_core::source::{Split, Table};
use millstream_core::{Error, Result};

use super::errors::Loss;
use super::options::{Bound, SourceOptions};
use super::positions::{Positions, TopicPartition};
use super::ranges::Range;
use super::resolve::{self, End};
use super::source::{check_beginnings, splits};
use super::split::Reading;

/// The records between two bounds, as they are when the table is scanned.
#[derive(Debug)]
pub struct KafkaTable {
    options: SourceOptions,
    reading: Arc<Reading>,
}

impl KafkaTable {
    pub(super) fn new(options: SourceOptions, reading: Reading) -> Self {
        KafkaTable { options, reading: Arc::new(reading) }
    }

    /// The range of one partition.
    fn range(&self, partition: &TopicPartition, from: i64, until: i64) -> Result<Range> {
        if from > until {
            let numbers = |bound: &Bound| match bound {
                Bound::Offsets(given) => given.get(partition).is_some_and(|offset| *offset >= 0),
                _ => false,
            };
            let (topic, number) = (&partition.topic, partition.partition);
            if numbers(&self.options.start) && numbers(&self.options.end) {
                let message = format!(
                    "The specified start offset {from} is greater than the end offset {until} for topic {topic} partition {number}."
                );
                return Err(Error::invalid("UNRESOLVED_START_OFFSET_GREATER_THAN_END_OFFSET", message));
            }
            let message = format!(
                "The resolved start offset {from} is greater than the resolved end offset {until} for topic {topic} partition {number}. The start \
                 is beyond the end of the partition, or the topic was made anew."
            );
            return Err(Error::invalid("RESOLVED_START_OFFSET_GREATER_THAN_END_OFFSET", message));
        }
        Ok(Range::new(partition.clone(), from, until))
    }

    /// Takes offsets that are beyond the end of a partition out of the ranges, or fails over them.
    async fn check_ends(&self, ranges: &mut [Range]) -> Result<()> {
        let Bound::Offsets(_) = &self.options.end else { return Ok(()) };
        let partitions = ranges.iter().map(|range| &range.partition);
        let latest: Positions = self.reading.cluster.offsets_of(partitions, super::cluster::Ask::Latest).await?;
        for range in ranges {
            let end = latest.get(&range.partition).copied().unwrap_or(range.until);
            if end < range.until {
                self.reading.report(&Loss::CutOff { partition: range.partition.clone(), end, until: range.until })?;
                range.until = end.max(range.from);
            }
        }
        Ok(())
    }
}

#[async_trait]
impl Table for KafkaTable {
    fn schema(&self) -> SchemaRef {
        self.reading.schema.clone()
    }

    async fn scan(&self) -> Result<Vec<Arc<dyn Split>>> {
        let partitions = self.reading.cluster.partitions(&self.options.subscription).await?;
        let start = resolve::bound(&self.reading.cluster, &self.options, partitions.keys(), End::Start).await?;
        let end = resolve::bound(&self.reading.cluster, &self.options, partitions.keys(), End::End).await?;
        let mut ranges = Vec::new();
        for (partition, from) in &start {
            ranges.push(self.range(partition, *from, end.get(partition).copied().unwrap_or(*from))?);
        }
        self.check_ends(&mut ranges).await?;
        ranges.retain(|range| range.len() > 0);
        check_beginnings(&self.reading, &start, &mut ranges).await?;
        Ok(splits(ranges, &self.options, &self.reading))
    }
}
