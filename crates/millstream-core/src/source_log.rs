//! The log that a source keeps inside a checkpoint, as `sources/<i>/N`.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::Mutex;

use async_trait::async_trait;

use crate::error::{Error, Result};

/// Entries that a source recorded per batch of its own counting. The checkpoint stores them as lines; the source gives them meaning.
///
/// An entry is one line of text without a line break (Spark writes one JSON object per line).
#[async_trait]
pub trait SourceLog: Debug + Send + Sync {
    /// Makes `entries` durable as batch `id`. Repeating a call with the same entries succeeds.
    ///
    /// # Errors
    /// `CONCURRENT_STREAM_LOG_UPDATE` when batch `id` exists with other entries; store errors otherwise.
    async fn add(&self, id: u64, entries: &[String]) -> Result<()>;

    /// The entries of batch `id`, or `None` when there is no such batch.
    async fn get(&self, id: u64) -> Result<Option<Vec<String>>>;

    /// The newest batch, or `None` in a new log.
    async fn latest(&self) -> Result<Option<u64>>;

    /// Gives `visit` every entry with the batch that it belongs to, oldest first, compacted batches included. An entry may come again, when what
    /// is read went away meanwhile and reading begins anew.
    ///
    /// A log that compacts keeps entries whose batch must be told from the entry itself; `batch_of` reads it.
    ///
    /// # Errors
    /// Those of the store, and of `visit`.
    async fn each(&self, batch_of: &BatchOf, visit: &mut VisitEntry) -> Result<()>;
}

/// Tells the batch of an entry from the entry itself.
pub type BatchOf<'a> = dyn for<'e> Fn(&'e str) -> Option<u64> + Send + Sync + 'a;

/// Takes an entry and its batch.
pub type VisitEntry<'a> = dyn for<'e> FnMut(u64, &'e str) -> Result<()> + Send + 'a;

/// A log that lives as long as the process: for batch reads and tests.
#[derive(Debug, Default)]
pub struct MemorySourceLog(Mutex<BTreeMap<u64, Vec<String>>>);

impl MemorySourceLog {
    fn entries(&self) -> std::sync::MutexGuard<'_, BTreeMap<u64, Vec<String>>> {
        self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

#[async_trait]
impl SourceLog for MemorySourceLog {
    async fn add(&self, id: u64, entries: &[String]) -> Result<()> {
        let mut log = self.entries();
        match log.get(&id) {
            Some(known) if known == entries => Ok(()),
            Some(_) => Err(conflicting(id)),
            None => {
                log.insert(id, entries.to_vec());
                Ok(())
            }
        }
    }

    async fn get(&self, id: u64) -> Result<Option<Vec<String>>> {
        Ok(self.entries().get(&id).cloned())
    }

    async fn latest(&self) -> Result<Option<u64>> {
        Ok(self.entries().keys().next_back().copied())
    }

    async fn each(&self, _batch_of: &BatchOf, visit: &mut VisitEntry) -> Result<()> {
        self.entries().iter().try_for_each(|(id, lines)| lines.iter().try_for_each(|line| visit(*id, line)))
    }
}

/// The error for a batch of a log that exists with other contents (Spark's condition `CONCURRENT_STREAM_LOG_UPDATE`).
pub fn conflicting(id: u64) -> Error {
    Error::new(
        crate::error::ErrorKind::Fenced,
        "CONCURRENT_STREAM_LOG_UPDATE",
        format!("batch {id} of the log exists with other contents; another query uses the same checkpoint: stop one of them"),
    )
    .with_sqlstate("40000")
}
