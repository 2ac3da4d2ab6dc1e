//! Takes the malformed records of one batch to the quarantine sink.

use std::collections::BTreeMap;
use std::sync::Arc;

use millstream_core::Result;
use millstream_core::quarantine::{self, BadRecord, Quarantine};
use millstream_core::sink::{BatchInfo, Sink};
use parking_lot::Mutex;
use tokio::sync::mpsc;

use super::side_table::SideTable;

type Entry = (String, BadRecord);

/// The quarantine of one batch.
pub(super) struct BatchQuarantine {
    counts: Arc<Mutex<BTreeMap<String, u64>>>,
    queue: Option<mpsc::Sender<Entry>>,
    table: Option<SideTable>,
}

impl BatchQuarantine {
    /// The quarantine of `batch`, writing to `sink` if there is one.
    pub(super) fn open(sink: Option<Arc<dyn Sink>>, batch: &BatchInfo) -> Self {
        let counts = Arc::default();
        let Some(sink) = sink else { return BatchQuarantine { counts, queue: None, table: None } };
        let (query, id) = (batch.query_id.to_string(), batch.batch_id);
        let points = ["quarantine.commit.before", "quarantine.commit.after"];
        let rows = move |entries: &[Entry]| quarantine::to_batch(&query, id, entries);
        let (table, queue) = SideTable::open(sink, batch, quarantine::schema(), points, rows);
        BatchQuarantine { counts, queue: Some(queue), table: Some(table) }
    }

    /// Where the reader of `source` puts its malformed records.
    pub(super) fn of_source(&self, source: &str) -> Arc<dyn Quarantine> {
        Arc::new(Collector { source: source.to_owned(), counts: self.counts.clone(), queue: self.queue.clone() })
    }

    /// Malformed records so far, by reason.
    pub(super) fn counts(&self) -> BTreeMap<String, u64> {
        self.counts.lock().clone()
    }

    /// Makes the records visible. Must come before the commit of the batch's own sink.
    pub(super) async fn commit(&mut self) -> Result<()> {
        self.queue = None;
        match self.table.take() {
            Some(table) => table.commit().await,
            None => Ok(()),
        }
    }
}

struct Collector {
    source: String,
    counts: Arc<Mutex<BTreeMap<String, u64>>>,
    queue: Option<mpsc::Sender<Entry>>,
}

impl Quarantine for Collector {
    fn put(&self, record: BadRecord) {
        *self.counts.lock().entry(record.reason.clone()).or_default() += 1;
        let Some(queue) = &self.queue else { return };
        // A closed queue means that the writer failed, which `commit` reports.
        if let Err(mpsc::error::TrySendError::Full(entry)) = queue.try_send((self.source.clone(), record)) {
            // Readers run on the CPU pool or on blocking threads, where waiting is allowed.
            tokio::task::block_in_place(|| drop(queue.blocking_send(entry)));
        }
    }
}
