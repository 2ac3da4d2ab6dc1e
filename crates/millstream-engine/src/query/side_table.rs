//! A table beside the sink, such as the quarantine: in bounded memory and exactly once.

use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use millstream_core::sink::{Admission, BatchInfo, OutputMode, Part, Sink};
use millstream_core::{Error, Result, crash};
use tokio::sync::mpsc;
use tokio_util::task::AbortOnDropHandle;

/// Things waiting for the writer. Who is faster waits.
const QUEUE: usize = 1_024;
/// Things written as one record batch.
const AT_ONCE: usize = 512;

/// What one batch puts into a table beside its sink.
pub(super) struct SideTable {
    sink: Arc<dyn Sink>,
    batch: Arc<BatchInfo>,
    writer: AbortOnDropHandle<Result<Option<Part>>>,
    /// The crash points around its commit.
    points: [&'static str; 2],
}

impl SideTable {
    /// Begins to write what arrives in the queue, made into rows of `schema` by `rows`.
    pub(super) fn open<T: Send + 'static>(
        sink: Arc<dyn Sink>,
        batch: &BatchInfo,
        schema: SchemaRef,
        points: [&'static str; 2],
        rows: impl Fn(&[T]) -> Result<RecordBatch> + Send + Sync + 'static,
    ) -> (Self, mpsc::Sender<T>) {
        let batch = Arc::new(BatchInfo { mode: OutputMode::Append, schema, ..batch.clone() });
        let (queue, arriving) = mpsc::channel(QUEUE);
        let writer = AbortOnDropHandle::new(tokio::spawn(write(sink.clone(), batch.clone(), arriving, rows)));
        (SideTable { sink, batch, writer, points }, queue)
    }

    /// Makes the rows visible once every sender is gone. Must come before the commit of the batch's own sink: when that has the batch, so has
    /// this table.
    pub(super) async fn commit(self) -> Result<()> {
        let part = self.writer.await.map_err(|error| Error::internal("the writer of a side table ended early").caused_by(error))??;
        let Some(part) = part else { return Ok(()) };
        let [before, after] = self.points;
        crash::point(before);
        if self.sink.admit(&self.batch).await? == Admission::Write {
            self.sink.commit(&self.batch, vec![part]).await?;
        } else {
            self.sink.abort(&self.batch, vec![part]).await;
        }
        crash::point(after);
        Ok(())
    }
}

async fn write<T: Send>(
    sink: Arc<dyn Sink>,
    batch: Arc<BatchInfo>,
    mut arriving: mpsc::Receiver<T>,
    rows: impl Fn(&[T]) -> Result<RecordBatch> + Send,
) -> Result<Option<Part>> {
    let mut writer = None;
    let mut waiting = Vec::with_capacity(AT_ONCE);
    while arriving.recv_many(&mut waiting, AT_ONCE).await > 0 {
        let writer = match &mut writer {
            Some(writer) => writer,
            None => {
                sink.prepare(&batch.schema, OutputMode::Append).await?;
                writer.insert(sink.writer(&batch, 0).await?)
            }
        };
        writer.write(rows(&waiting)?).await?;
        waiting.clear();
    }
    match writer {
        Some(writer) => writer.finish().await.map(Some),
        None => Ok(None),
    }
}
