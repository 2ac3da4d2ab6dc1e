//! Rows in batches of the size that workers are sent.

use std::collections::VecDeque;

use arrow::array::RecordBatch;
use arrow::compute::concat_batches;
use datafusion::physical_plan::SendableRecordBatchStream;
use futures::stream::{self, BoxStream};
use futures::{Stream, StreamExt};
use millstream_core::{Error, Result};
use millstream_engine::from_datafusion;

use super::Rows;

/// A batch of about so many bytes is large enough, however few rows it has.
const BYTES: usize = 64 << 20;

/// The rows of a plan with our own errors; batches without rows are left out.
pub(super) fn rows(input: SendableRecordBatchStream) -> Rows {
    input
        .map(|batch| batch.map_err(from_datafusion))
        .filter(|batch| {
            let wanted = batch.as_ref().map_or(true, |batch| batch.num_rows() > 0);
            async move { wanted }
        })
        .boxed()
}

/// Brings rows together, and cuts them, into batches of `most` rows; the last has what is left.
pub(super) struct Chunks {
    most: usize,
    pending: VecDeque<RecordBatch>,
    rows: usize,
    bytes: usize,
}

impl Chunks {
    pub(super) fn new(most: usize) -> Self {
        Chunks { most: most.max(1), pending: VecDeque::new(), rows: 0, bytes: 0 }
    }

    /// Adds rows.
    pub(super) fn push(&mut self, batch: RecordBatch) {
        if batch.num_rows() > 0 {
            self.rows += batch.num_rows();
            self.bytes += size(&batch);
            self.pending.push_back(batch);
        }
    }

    /// The next full batch.
    ///
    /// # Errors
    /// `INTERNAL_ERROR`.
    pub(super) fn full(&mut self) -> Result<Option<RecordBatch>> {
        if self.rows < self.most && self.bytes < BYTES { Ok(None) } else { self.take(self.most) }
    }

    /// The next batch, full or not; `None` when all rows are taken.
    ///
    /// # Errors
    /// `INTERNAL_ERROR`.
    pub(super) fn rest(&mut self) -> Result<Option<RecordBatch>> {
        self.take(self.most)
    }

    fn take(&mut self, most: usize) -> Result<Option<RecordBatch>> {
        let mut parts = Vec::new();
        let mut wanted = most;
        while let Some(front) = self.pending.pop_front() {
            let rows = front.num_rows().min(wanted);
            if rows < front.num_rows() {
                self.pending.push_front(front.slice(rows, front.num_rows() - rows));
            }
            parts.push(front.slice(0, rows));
            wanted -= rows;
            if wanted == 0 {
                break;
            }
        }
        self.rows -= most - wanted;
        self.bytes = self.pending.iter().map(size).sum();
        together(parts)
    }
}

/// Batches as one; `None` for none.
///
/// # Errors
/// `INTERNAL_ERROR`.
pub(super) fn together(mut parts: Vec<RecordBatch>) -> Result<Option<RecordBatch>> {
    if parts.len() < 2 {
        return Ok(parts.pop());
    }
    let Some(schema) = parts.first().map(RecordBatch::schema) else { return Ok(None) };
    concat_batches(&schema, &parts).map(Some).map_err(|error| Error::internal("rows of one input do not fit together").caused_by(error))
}

/// The bytes of the rows of a batch, which may be a part of larger buffers.
pub(super) fn size(batch: &RecordBatch) -> usize {
    batch.columns().iter().map(|column| column.to_data().get_slice_memory_size().unwrap_or(0)).sum()
}

/// The rows in batches of `most` rows.
pub(super) fn chunks(
    input: impl Stream<Item = Result<RecordBatch>> + Send + Unpin + 'static,
    most: usize,
) -> BoxStream<'static, Result<RecordBatch>> {
    let state = (input, Chunks::new(most), false);
    stream::try_unfold(state, |(mut input, mut chunks, mut ended)| async move {
        loop {
            let next = if ended { chunks.rest()? } else { chunks.full()? };
            if let Some(next) = next {
                return Ok(Some((next, (input, chunks, ended))));
            }
            if ended {
                return Ok(None);
            }
            match input.next().await {
                Some(batch) => chunks.push(batch?),
                None => ended = true,
            }
        }
    })
    .boxed()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{ArrayRef, AsArray, Int64Array};
    use arrow::datatypes::Int64Type;

    use super::*;

    fn batch(values: std::ops::Range<i64>) -> RecordBatch {
        RecordBatch::try_from_iter([("v", Arc::new(Int64Array::from_iter_values(values)) as ArrayRef)]).unwrap()
    }

    #[tokio::test]
    async fn rows_are_brought_together_and_cut() {
        let cases: [(&[i64], usize, &[usize]); 5] =
            [(&[3, 3, 3], 4, &[4, 4, 1]), (&[10], 4, &[4, 4, 2]), (&[4, 4], 4, &[4, 4]), (&[1, 1], 10, &[2]), (&[], 4, &[])];
        for (given, most, expected) in cases {
            let mut next = 0;
            let mut input: Vec<Result<RecordBatch>> = Vec::new();
            for rows in given {
                input.push(Ok(batch(next..next + rows)));
                next += rows;
            }
            let cut: Vec<RecordBatch> = chunks(stream::iter(input), most).map(Result::unwrap).collect().await;
            assert_eq!(cut.iter().map(RecordBatch::num_rows).collect::<Vec<_>>(), expected, "{given:?} by {most}");
            let all: Vec<i64> = cut.iter().flat_map(|batch| batch.column(0).as_primitive::<Int64Type>().values().to_vec()).collect();
            assert_eq!(all, (0..next).collect::<Vec<_>>());
        }
    }
}
