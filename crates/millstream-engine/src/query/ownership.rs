//! A query and its target that belong together: neither goes on without the other.

use millstream_core::{Error, ErrorKind};
use url::Url;
use uuid::Uuid;

/// Says that only this query writes its target, so that a target or a checkpoint that was removed is noticed.
#[derive(Clone, Debug)]
pub struct Ownership {
    /// The id of the query while its checkpoint is new: the same whenever the query begins with this target, and another for another target.
    pub query_id: Uuid,
    /// How to begin both anew, as the end of a sentence: `compute it again with --full-refresh silver`.
    pub begin_anew: String,
}

impl Ownership {
    /// The target is gone although `evidence` says that it was written.
    pub fn target_lost(&self, target: &str, evidence: &str) -> Error {
        Error::new(
            ErrorKind::DataLost,
            "SINK_TABLE_LOST",
            format!(
                "{target} does not exist, but {evidence}: going on would leave those rows out for ever. Restore the table, or {}",
                self.begin_anew
            ),
        )
    }

    /// The checkpoint is new although the target has batches of this query.
    pub(super) fn checkpoint_lost(&self, target: &str, checkpoint: &Url) -> Error {
        Error::new(
            ErrorKind::CheckpointIncompatible,
            "CHECKPOINT_LOST",
            format!(
                "{target} has rows of this query, but its checkpoint {checkpoint} is new: reading from the beginning would write those rows \
                 a second time. Restore the checkpoint, or {}",
                self.begin_anew
            ),
        )
    }
}

/// What a checkpoint says about its target.
pub(crate) fn committed_in(checkpoint: &Url, batch: u64) -> String {
    format!("its checkpoint {checkpoint} says that batches up to {batch} were committed to it")
}
