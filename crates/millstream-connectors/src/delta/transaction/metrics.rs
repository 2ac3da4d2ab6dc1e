//! The figures of a change: those that the sink gives, and those that a commit records under the names that Spark uses.

use std::collections::BTreeMap;

use millstream_core::sink::Committed;
use millstream_core::versioned::RowChange;
use serde_json::Value;

use super::rows::StagedChange;
use crate::delta::actions::Add;

/// What a change did.
#[derive(Clone, Debug, Default)]
pub(super) struct Figures {
    rows: BTreeMap<i8, u64>,
    added: (u64, u64),
    removed: (u64, u64),
    removed_rows: Option<u64>,
    changes: (u64, u64),
}

impl Figures {
    pub(super) fn new(staged: &StagedChange, removed: &[&Add]) -> Self {
        let rows = RowChange::ALL.iter().map(|change| (change.code(), staged.count(*change))).collect();
        Figures {
            rows,
            added: (staged.adds.len() as u64, staged.adds.iter().map(|add| add.size).sum()),
            removed: (removed.len() as u64, removed.iter().map(|add| add.size).sum()),
            removed_rows: removed.iter().map(|add| add.rows()).sum(),
            changes: (staged.cdcs.len() as u64, staged.cdcs.iter().map(|cdc| cdc.size).sum()),
        }
    }

    fn rows(&self, change: RowChange) -> u64 {
        self.rows.get(&change.code()).copied().unwrap_or(0)
    }

    /// Rows that were removed together with their files, as far as statistics tell; otherwise those that went one by one.
    fn deleted(&self) -> u64 {
        let tagged = self.rows(RowChange::Deleted) + self.rows(RowChange::DeletedBySource);
        let rewritten: u64 = RowChange::ALL.iter().filter(|change| **change != RowChange::Inserted).map(|change| self.rows(*change)).sum();
        if rewritten == 0 { self.removed_rows.unwrap_or(0) } else { tagged }
    }

    /// What the sink answers.
    pub(super) fn committed(&self, version: Option<u64>) -> Committed {
        let mut metrics: BTreeMap<String, String> =
            RowChange::ALL.iter().map(|change| (change.metric().to_owned(), self.rows(*change).to_string())).collect();
        let mut put = |name: &str, value: u64| drop(metrics.insert(name.to_owned(), value.to_string()));
        if let Some(version) = version {
            put("deltaVersion", version);
        }
        put("numAddedFiles", self.added.0);
        put("numAddedBytes", self.added.1);
        put("numRemovedFiles", self.removed.0);
        put("numRemovedBytes", self.removed.1);
        put("numDeletedRows", self.deleted());
        let stays = RowChange::ALL.iter().filter(|change| change.stays()).map(|change| self.rows(*change)).sum();
        Committed { rows: stays, bytes: self.added.1, metrics }
    }

    /// What the commit records.
    pub(super) fn of_operation(&self, operation: &str, rows: u64, duration_ms: i64, more: &BTreeMap<String, String>) -> Value {
        use RowChange::{Copied, Deleted, DeletedBySource, Inserted, Updated, UpdatedBySource};
        let updated = self.rows(Updated) + self.rows(UpdatedBySource);
        let deleted = self.deleted();
        let figures: Vec<(&str, u64)> = match operation {
            "MERGE" => vec![
                ("numTargetRowsInserted", self.rows(Inserted)),
                ("numTargetRowsUpdated", updated),
                ("numTargetRowsDeleted", self.rows(Deleted) + self.rows(DeletedBySource)),
                ("numTargetRowsMatchedUpdated", self.rows(Updated)),
                ("numTargetRowsMatchedDeleted", self.rows(Deleted)),
                ("numTargetRowsNotMatchedBySourceUpdated", self.rows(UpdatedBySource)),
                ("numTargetRowsNotMatchedBySourceDeleted", self.rows(DeletedBySource)),
                ("numTargetRowsCopied", self.rows(Copied)),
                ("numOutputRows", rows),
                ("numTargetFilesAdded", self.added.0),
                ("numTargetFilesRemoved", self.removed.0),
                ("numTargetBytesAdded", self.added.1),
                ("numTargetBytesRemoved", self.removed.1),
                ("numTargetChangeFilesAdded", self.changes.0),
                ("numTargetChangeFileBytes", self.changes.1),
                ("numTargetDeletionVectorsAdded", 0),
                ("numTargetDeletionVectorsRemoved", 0),
                ("numTargetDeletionVectorsUpdated", 0),
            ],
            "UPDATE" | "DELETE" => {
                let own = if operation == "UPDATE" { ("numUpdatedRows", updated) } else { ("numDeletedRows", deleted) };
                vec![
                    own,
                    ("numCopiedRows", self.rows(Copied)),
                    ("numAddedFiles", self.added.0),
                    ("numAddedBytes", self.added.1),
                    ("numRemovedFiles", self.removed.0),
                    ("numRemovedBytes", self.removed.1),
                    ("numAddedChangeFiles", self.changes.0),
                    ("numDeletionVectorsAdded", 0),
                    ("numDeletionVectorsRemoved", 0),
                    ("numDeletionVectorsUpdated", 0),
                ]
            }
            "TRUNCATE" => vec![("numRemovedFiles", self.removed.0), ("numDeletedRows", deleted)],
            "OPTIMIZE" => vec![
                ("numAddedFiles", self.added.0),
                ("numAddedBytes", self.added.1),
                ("numRemovedFiles", self.removed.0),
                ("numRemovedBytes", self.removed.1),
                ("numDeletionVectorsRemoved", 0),
            ],
            _ if self.removed.0 > 0 => vec![
                ("numFiles", self.added.0),
                ("numOutputRows", rows),
                ("numOutputBytes", self.added.1),
                ("numRemovedFiles", self.removed.0),
                ("numRemovedBytes", self.removed.1),
            ],
            _ => vec![("numFiles", self.added.0), ("numOutputRows", rows), ("numOutputBytes", self.added.1)],
        };
        let mut out: serde_json::Map<String, Value> =
            figures.into_iter().map(|(name, value)| (name.to_owned(), Value::String(value.to_string()))).collect();
        if matches!(operation, "MERGE" | "UPDATE" | "DELETE" | "TRUNCATE") {
            out.insert("executionTimeMs".to_owned(), Value::String(duration_ms.max(0).to_string()));
        }
        out.extend(more.iter().map(|(name, value)| (name.clone(), Value::String(value.clone()))));
        Value::Object(out)
    }
}
