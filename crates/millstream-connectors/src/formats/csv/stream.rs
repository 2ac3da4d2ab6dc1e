//! A file as a stream of batches.

use std::sync::Arc;

use arrow::array::RecordBatch;
use futures::StreamExt;
use millstream_core::source::{BatchStream, ReadContext};
use millstream_core::{Error, Result};

use super::super::FileRef;
use super::decoder::Decoder;
use super::plan::{Plan, Projection};
use super::source::{Drained, Record, RecordSource};

/// A batch is handed out when its records have this many bytes, however few rows they make.
const BATCH_BYTES: usize = 16 * 1024 * 1024;
/// After this many bytes without a batch the thread is offered to others.
const YIELD_BYTES: usize = 4 * 1024 * 1024;

/// Reads a file. A fault of the file comes after the rows before it.
pub(super) fn batches(plan: Arc<Plan>, projection: Projection, file: FileRef, context: ReadContext) -> BatchStream {
    let decoder = Decoder::new(plan.clone(), projection, file.url.clone(), context.quarantine);
    let header = plan.options.header;
    let reading = Reading { plan, file, batch_size: context.batch_size.max(1), decoder, source: None, header, fault: None };
    futures::stream::try_unfold(reading, |mut reading| async move { Ok(reading.next_batch().await?.map(|batch| (batch, reading))) }).boxed()
}

struct Reading {
    plan: Arc<Plan>,
    file: FileRef,
    batch_size: usize,
    decoder: Decoder,
    source: Option<RecordSource>,
    /// Whether the header is still to come.
    header: bool,
    /// What ends the reading once the rows before it are out.
    fault: Option<Error>,
}

impl Reading {
    async fn next_batch(&mut self) -> Result<Option<RecordBatch>> {
        if self.fault.is_none()
            && let Err(fault) = self.decode().await
        {
            self.fault = Some(fault);
        }
        if self.decoder.rows() > 0 {
            return self.decoder.finish().map(Some);
        }
        self.fault.take().map_or(Ok(None), Err)
    }

    /// Decodes records until there is a batch, or nothing more.
    async fn decode(&mut self) -> Result<()> {
        let source = match &mut self.source {
            Some(source) => source,
            none => none.insert(RecordSource::open(&self.file, &self.plan.options).await?),
        };
        let (mut decoded, mut read) = (0, 0);
        loop {
            let decoder = &mut self.decoder;
            let header = &mut self.header;
            let drained = source.drain(|record| {
                match record {
                    Record::Text { bytes, .. } if *header => {
                        *header = false;
                        decoder.header(bytes)?;
                    }
                    Record::Text { bytes, position, utf8 } => {
                        decoded += bytes.len();
                        decoder.record(bytes, position, utf8)?;
                    }
                    Record::TooLarge { position, length } => {
                        *header = false;
                        decoder.too_large(position, length)?;
                    }
                }
                // Without a row it would look like the end of the file, however many records were left out.
                Ok(decoder.rows() < self.batch_size && (decoded < BATCH_BYTES || decoder.rows() == 0))
            })?;
            if drained != Drained::Empty {
                return Ok(());
            }
            if read >= YIELD_BYTES {
                read = 0;
                tokio::task::yield_now().await;
            }
            read += source.fill().await?;
        }
    }
}
