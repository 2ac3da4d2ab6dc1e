//! A file as a stream of batches.

use std::sync::Arc;

use arrow::array::RecordBatch;
use futures::StreamExt;
use millstream_core::source::{BatchStream, ReadContext};
use millstream_core::{Error, Result};

use super::super::FileRef;
use super::super::input::Input;
use super::super::lines::{Line, Lines};
use super::super::plan::Projection;
use super::Plan;
use super::decoder::Decoder;

/// A batch is handed out when its records have this many bytes, however few rows they make.
const BATCH_BYTES: usize = 16 * 1024 * 1024;
/// After this many bytes without a batch the thread is offered to others.
const YIELD_BYTES: usize = 4 * 1024 * 1024;

/// Reads a file. A fault of the file comes after the rows before it.
pub fn batches(plan: Arc<Plan>, projection: Projection, file: FileRef, context: ReadContext) -> BatchStream {
    let lines = Lines::new(plan.options.separator.clone(), plan.options.limit, true);
    let reading = Reading { plan, projection, file, context, lines, open: None, fault: None, left: Vec::new() };
    futures::stream::try_unfold(reading, |mut reading| async move { Ok(reading.next_batch().await?.map(|batch| (batch, reading))) }).boxed()
}

struct Reading {
    plan: Arc<Plan>,
    projection: Projection,
    file: FileRef,
    context: ReadContext,
    lines: Lines,
    open: Option<(Input, Decoder)>,
    /// What ends the reading once the rows before it are out.
    fault: Option<Error>,
    /// Parts of a batch that came out larger than asked for, last first.
    left: Vec<RecordBatch>,
}

impl Reading {
    async fn next_batch(&mut self) -> Result<Option<RecordBatch>> {
        if let Some(batch) = self.left.pop() {
            return Ok(Some(batch));
        }
        if self.fault.is_none()
            && let Err(fault) = self.fill().await
        {
            self.fault = Some(fault);
        }
        match &mut self.open {
            Some((_, decoder)) if decoder.rows() > 0 => {
                let batch = decoder.finish()?;
                self.left = parts(batch, self.context.batch_size.max(1));
                Ok(self.left.pop())
            }
            _ => self.fault.take().map_or(Ok(None), Err),
        }
    }

    /// Decodes records until there is a batch, or nothing more.
    async fn fill(&mut self) -> Result<()> {
        let (input, decoder) = match &mut self.open {
            Some(open) => open,
            none => {
                let options = &self.plan.options;
                let input = Input::open(&self.file, &options.input).await?;
                // Spark keeps the spelling of values in string columns where its parser has the bytes of the record or of the file.
                let verbatim = if options.multi_line { input.is_verbatim() } else { options.input.encoding.is_none() };
                let quarantine = self.context.quarantine.clone();
                let decoder = Decoder::new(self.plan.clone(), self.projection.clone(), self.file.url.clone(), quarantine, verbatim);
                none.insert((input, decoder))
            }
        };
        let (mut decoded, mut read) = (0, 0);
        loop {
            match self.lines.next_record() {
                Line::Record { bytes, position, utf8 } => {
                    decoded += bytes.len();
                    decoder.record(bytes, position, utf8)?;
                    // Without a row it would look like the end of the file, however many records were left out.
                    if decoder.rows() >= self.context.batch_size || decoded >= BATCH_BYTES && decoder.rows() > 0 {
                        return Ok(());
                    }
                }
                Line::TooLarge { position, length } => decoder.too_large(position, length)?,
                Line::Incomplete => {
                    if read >= YIELD_BYTES {
                        read = 0;
                        tokio::task::yield_now().await;
                    }
                    match input.read(self.lines.space()).await? {
                        0 => self.lines.finish(),
                        count => {
                            read += count;
                            self.lines.filled();
                        }
                    }
                }
                Line::End => return Ok(()),
            }
        }
    }
}

/// A batch in parts of at most `most` rows, the first one last. One record may hold any number of rows.
fn parts(batch: RecordBatch, most: usize) -> Vec<RecordBatch> {
    let rows = batch.num_rows();
    if rows <= most {
        return vec![batch];
    }
    (0..rows).step_by(most).rev().map(|start| batch.slice(start, most.min(rows - start))).collect()
}
