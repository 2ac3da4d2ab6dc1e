//! Takes the malformed records of one batch to the quarantine sink, in bounded memory and exactly once.

use std::collections::BTreeMap;
use std::sync::Arc;

use millstream_core::quarantine::{self, BadRecord, Quarantine};
use millstream_core::sink::{Admission, BatchInfo, OutputMode, Part, Sink};
use millstream_core::{Error, Result, crash};
use parking_lot::Mutex;
use tokio::sync::mpsc;
use tokio_util::task::AbortOnDropHandle;

/// Records waiting for the writer. Readers that are faster wait.
const QUEUE: usize = 1_024;
/// Records written as one record batch.
const ROWS: usize = 512;

type Entry = (String, BadRecord);

/// The quarantine of one batch.
pub(super) struct BatchQuarantine {
    counts: Arc<Mutex<BTreeMap<String, u64>>>,
    queue: Option<mpsc::Sender<Entry>>,
    writer: Option<AbortOnDropHandle<Result<Option<Part>>>>,
    sink: Option<Arc<dyn Sink>>,
    batch: Arc<BatchInfo>,
}

impl BatchQuarantine {
    /// The quarantine of `batch`, writing to `sink` if there is one that does not have the batch yet.
    pub(super) async fn open(sink: Option<Arc<dyn Sink>>, batch: &BatchInfo) -> Result<Self> {
        let batch = Arc::new(BatchInfo { mode: OutputMode::Append, schema: quarantine::schema(), ..batch.clone() });
        let counts = Arc::default();
        let Some(sink) = sink else { return Ok(BatchQuarantine { counts, queue: None, writer: None, sink: None, batch }) };
        let (queue, entries) = mpsc::channel(QUEUE);
        let writer = AbortOnDropHandle::new(tokio::spawn(write(sink.clone(), batch.clone(), entries)));
        Ok(BatchQuarantine { counts, queue: Some(queue), writer: Some(writer), sink: Some(sink), batch })
    }

    /// Where the reader of `source` puts its malformed records.
    pub(super) fn of_source(&self, source: &str) -> Arc<dyn Quarantine> {
        Arc::new(Collector { source: source.to_owned(), counts: self.counts.clone(), queue: self.queue.clone() })
    }

    /// Malformed records so far, by reason.
    pub(super) fn counts(&self) -> BTreeMap<String, u64> {
        self.counts.lock().clone()
    }

    /// Makes the records visible. Must come before the commit of the batch's own sink: when that has the batch, so has the quarantine.
    pub(super) async fn commit(&mut self) -> Result<()> {
        self.queue = None;
        let (Some(writer), Some(sink)) = (self.writer.take(), self.sink.take()) else { return Ok(()) };
        let part = writer.await.map_err(|error| Error::internal("the quarantine writer ended early").caused_by(error))??;
        let Some(part) = part else { return Ok(()) };
        crash::point("quarantine.commit.before");
        if sink.admit(&self.batch).await? == Admission::Write {
            sink.commit(&self.batch, vec![part]).await?;
        } else {
            sink.abort(&self.batch, vec![part]).await;
        }
        crash::point("quarantine.commit.after");
        Ok(())
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

async fn write(sink: Arc<dyn Sink>, batch: Arc<BatchInfo>, mut entries: mpsc::Receiver<Entry>) -> Result<Option<Part>> {
    let mut writer = None;
    let mut rows = Vec::with_capacity(ROWS);
    while entries.recv_many(&mut rows, ROWS).await > 0 {
        let writer = match &mut writer {
            Some(writer) => writer,
            None => {
                sink.prepare(&quarantine::schema(), OutputMode::Append).await?;
                writer.insert(sink.writer(&batch, 0).await?)
            }
        };
        writer.write(quarantine::to_batch(&batch.query_id.to_string(), batch.batch_id, &rows)?).await?;
        rows.clear();
    }
    match writer {
        Some(writer) => writer.finish().await.map(Some),
        None => Ok(None),
    }
}
