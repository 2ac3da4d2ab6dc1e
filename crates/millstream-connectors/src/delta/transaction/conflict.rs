//! Whether a commit of another writer leaves room for a change that began before it.

use millstream_core::versioned::{Change, Reads, Removes};
use millstream_core::{Error, ErrorKind, Result};

use crate::delta::actions::Commit;

/// A commit that another writer made since the change began.
pub(super) struct Winner<'a> {
    pub version: u64,
    pub commit: &'a Commit,
    /// The table's URL.
    pub table: &'a str,
}

impl Winner<'_> {
    /// Refuses a change that the commit took the ground from. `ours` is what the change was about to commit.
    ///
    /// # Errors
    /// `DELTA_PROTOCOL_CHANGED`, `DELTA_METADATA_CHANGED`, `DELTA_CONCURRENT_TRANSACTION`, `DELTA_CONCURRENT_APPEND.WITHOUT_HINT`,
    /// `DELTA_CONCURRENT_DELETE_READ.WITHOUT_HINT`, `DELTA_CONCURRENT_DELETE_DELETE.WITHOUT_HINT`.
    pub(super) fn check(&self, change: &Change, existed: bool, ours: &Commit) -> Result<()> {
        if !existed {
            return Err(self.refused("DELTA_PROTOCOL_CHANGED", "made the table that this one was about to make"));
        }
        if self.commit.protocol.is_some() {
            return Err(self.refused("DELTA_PROTOCOL_CHANGED", "changed the table's protocol"));
        }
        if self.commit.metadata.is_some() {
            return Err(self.refused("DELTA_METADATA_CHANGED", "changed the table's schema or properties"));
        }
        let same_app = |txn: &crate::delta::actions::Txn| ours.txns.iter().any(|own| own.app_id == txn.app_id);
        if self.commit.txns.iter().any(same_app) {
            return Err(self.refused("DELTA_CONCURRENT_TRANSACTION", "wrote under the same application id"));
        }
        let theirs = |path: &str| self.commit.removes.iter().any(|remove| remove.path == path);
        if matches!(change.removes, Removes::Files(_)) && ours.removes.iter().any(|remove| theirs(&remove.path)) {
            return Err(self.refused("DELTA_CONCURRENT_DELETE_DELETE.WITHOUT_HINT", "removed rows that this one removes or rewrites"));
        }
        // Who only arranges rows anew, on either side, changes nothing that was read.
        if change.reads == Reads::Nothing || change.rearranges {
            return Ok(());
        }
        if self.commit.adds.iter().any(|add| add.data_change) {
            return Err(self.refused("DELTA_CONCURRENT_APPEND.WITHOUT_HINT", "added rows to the table"));
        }
        if self.commit.removes.iter().any(|remove| remove.data_change) {
            return Err(self.refused("DELTA_CONCURRENT_DELETE_READ.WITHOUT_HINT", "removed rows that this one had read"));
        }
        Ok(())
    }

    fn refused(&self, code: &'static str, what: &str) -> Error {
        let operation = self.commit.info.as_ref().and_then(|info| info.get("operation")).and_then(serde_json::Value::as_str);
        let operation = operation.unwrap_or("another writer");
        let message = format!(
            "a change of table {} met one made at the same time: {operation}, version {}, {what}. Run it again.",
            self.table, self.version
        );
        Error::new(ErrorKind::SinkUnavailable, code, message).with_sqlstate("2D521")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::delta::actions::{Add, Metadata, Protocol, Remove, Txn};

    #[test]
    fn a_change_stands_unless_its_ground_moved() {
        let add = |data_change| Commit { adds: vec![Add { path: "new".into(), data_change, ..Add::default() }], ..Commit::default() };
        let remove = |path: &str| Commit {
            removes: vec![Remove { path: path.into(), data_change: true, ..Remove::default() }],
            ..Commit::default()
        };
        let txn = Txn { app_id: "a".into(), version: 1, last_updated: None };
        let blind = Change::default();
        let reading = Change { reads: Reads::Table, removes: Removes::Files(vec![0]), ..Change::default() };
        let arranging = Change { reads: Reads::Table, removes: Removes::Files(vec![0]), rearranges: true, ..Change::default() };
        let ours = Commit { txns: vec![txn.clone()], ..remove("old") };
        let cases = [
            (&blind, add(true), None),
            (&blind, remove("other"), None),
            (&blind, Commit { protocol: Some(Protocol::default()), ..Commit::default() }, Some("DELTA_PROTOCOL_CHANGED")),
            (&blind, Commit { metadata: Some(Metadata::default()), ..Commit::default() }, Some("DELTA_METADATA_CHANGED")),
            (&blind, Commit { txns: vec![txn], ..Commit::default() }, Some("DELTA_CONCURRENT_TRANSACTION")),
            (&reading, add(true), Some("DELTA_CONCURRENT_APPEND.WITHOUT_HINT")),
            (&reading, add(false), None),
            (&reading, remove("other"), Some("DELTA_CONCURRENT_DELETE_READ.WITHOUT_HINT")),
            (&reading, remove("old"), Some("DELTA_CONCURRENT_DELETE_DELETE.WITHOUT_HINT")),
            (&arranging, add(true), None),
            (&arranging, remove("old"), Some("DELTA_CONCURRENT_DELETE_DELETE.WITHOUT_HINT")),
        ];
        for (change, commit, expected) in cases {
            let winner = Winner { version: 3, commit: &commit, table: "t" };
            let found = winner.check(change, true, &ours).err().map(|error| error.code().to_owned());
            assert_eq!(found.as_deref(), expected, "{commit:?}");
        }
    }
}
