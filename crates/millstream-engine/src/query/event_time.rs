//! What a checkpoint remembers of event time beyond Spark: the watermark of every node, and how late rows were.

use millstream_checkpoint::facts;
use millstream_core::Result;
use millstream_core::lateness::{Lateness, Tally};
use millstream_core::recovery::CommitRecord;

/// The fact that has the watermarks of the nodes, milliseconds, in plan order.
const WATERMARKS: &str = "watermarks";
/// The fact that counts rows by how far behind they were, since the checkpoint began.
const LATENESS: &str = "lateness";

/// What is remembered.
#[derive(Clone, Debug, Default)]
pub(crate) struct EventTimeFacts {
    pub(crate) watermarks_ms: Vec<i64>,
    pub(crate) lateness: Lateness,
}

impl EventTimeFacts {
    /// What a commit record remembers.
    ///
    /// # Errors
    /// `CHECKPOINT_RECORD_DAMAGED`.
    pub(crate) fn of(record: &CommitRecord) -> Result<Self> {
        Ok(EventTimeFacts {
            watermarks_ms: facts::get(record, WATERMARKS)?.unwrap_or_default(),
            lateness: facts::get(record, LATENESS)?.unwrap_or_default(),
        })
    }

    /// Adds what a batch counted. What is of no known source is in the reports only.
    pub(crate) fn count(&mut self, counted: &[(Option<usize>, Option<String>, Tally)]) {
        for (source, partition, tally) in counted {
            if let Some(source) = source {
                self.lateness.add(*source, partition.as_deref(), tally);
            }
        }
    }

    /// Puts it into a commit record.
    ///
    /// # Errors
    /// `INTERNAL_ERROR`.
    pub(crate) fn put_into(&self, record: &mut CommitRecord) -> Result<()> {
        facts::put(record, WATERMARKS, &self.watermarks_ms)?;
        facts::put(record, LATENESS, &self.lateness)
    }
}
