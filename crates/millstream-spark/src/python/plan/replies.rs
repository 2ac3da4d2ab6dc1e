//! From what a worker answers to the rows of a node.

use std::collections::VecDeque;
use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions};
use arrow::datatypes::{Fields, SchemaRef};
use datafusion::execution::TaskContext;
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};
use futures::StreamExt;
use futures::stream::{self, BoxStream};
use millstream_core::{Error, Result};
use millstream_engine::from_datafusion;
use parking_lot::Mutex;

use super::Rows;
use super::chunks::{size, together};
use crate::python::Reply;
use crate::python::arrow::{adopted, parts};

/// Rows that were sent and wait for their results, which come in the same order. How many bytes they hold counts against the memory of the
/// session.
#[derive(Clone, Debug)]
pub(super) struct Waiting(Arc<Mutex<Queue>>);

#[derive(Debug)]
struct Queue {
    batches: VecDeque<RecordBatch>,
    reservation: MemoryReservation,
}

impl Waiting {
    pub(super) fn new(context: &TaskContext) -> Self {
        let reservation = MemoryConsumer::new("rows that wait for a Python function").register(context.memory_pool());
        Waiting(Arc::new(Mutex::new(Queue { batches: VecDeque::new(), reservation })))
    }

    /// Adds rows.
    ///
    /// # Errors
    /// `OUT_OF_MEMORY`.
    pub(super) fn push(&self, batch: RecordBatch) -> Result<()> {
        let mut queue = self.0.lock();
        queue.reservation.try_grow(size(&batch)).map_err(from_datafusion)?;
        queue.batches.push_back(batch);
        Ok(())
    }

    /// The next row; `None` when all are taken.
    ///
    /// # Errors
    /// `INTERNAL_ERROR`.
    pub(super) fn next(&self) -> Result<Option<RecordBatch>> {
        if self.is_empty() { Ok(None) } else { self.take(1).map(Some) }
    }

    /// The rows that so many results belong to.
    fn take(&self, rows: usize) -> Result<RecordBatch> {
        let mut queue = self.0.lock();
        let mut found = Vec::new();
        let mut wanted = rows;
        while wanted > 0 {
            let Some(front) = queue.batches.pop_front() else {
                return Err(Error::internal("a Python worker gives more results than it was sent rows"));
            };
            let taken = front.num_rows().min(wanted);
            if taken < front.num_rows() {
                queue.batches.push_front(front.slice(taken, front.num_rows() - taken));
            }
            wanted -= taken;
            found.push(front.slice(0, taken));
        }
        let freed = found.iter().map(size).sum::<usize>().min(queue.reservation.size());
        queue.reservation.shrink(freed);
        together(found)?.ok_or_else(|| Error::internal("a Python worker answers with no results"))
    }

    fn is_empty(&self) -> bool {
        self.0.lock().batches.is_empty()
    }
}

/// Rows that waited, with the columns of their results after their own. Where it is an error that some have none, there is one.
pub(super) fn beside(replies: BoxStream<'static, Result<Vec<ArrayRef>>>, waiting: Waiting, schema: SchemaRef) -> Rows {
    let end = waiting.clone();
    let rows = replies.filter_map(move |results| {
        let joined = results.and_then(|results| joined(results, &waiting, &schema)).transpose();
        async move { joined }
    });
    let missing = stream::once(async move {
        match end.is_empty() {
            true => None,
            false => Some(Err(Error::internal("a Python worker gives fewer results than it was sent rows"))),
        }
    });
    // Nothing after an error.
    let mut failed = false;
    let all = rows.chain(missing.filter_map(|missing| async move { missing }));
    all.take_while(move |next| {
        let go_on = !failed;
        failed |= next.is_err();
        async move { go_on }
    })
    .boxed()
}

fn joined(results: Vec<ArrayRef>, waiting: &Waiting, schema: &SchemaRef) -> Result<Option<RecordBatch>> {
    let rows = results.first().map_or(0, |column| column.len());
    if rows == 0 {
        return Ok(None);
    }
    let given = waiting.take(rows)?;
    let own = schema.fields().len().saturating_sub(results.len());
    let columns = given.columns().iter().take(own).cloned().chain(results).collect();
    batch(schema, columns, rows).map(Some)
}

/// A batch of a node.
pub(crate) fn batch(schema: &SchemaRef, columns: Vec<ArrayRef>, rows: usize) -> Result<RecordBatch> {
    let options = RecordBatchOptions::new().with_row_count(Some(rows));
    RecordBatch::try_new_with_options(schema.clone(), columns, &options).map_err(misfit)
}

fn misfit(error: arrow::error::ArrowError) -> Error {
    Error::invalid("PYTHON_RESULT_MISMATCH", format!("a Python function returned something else than it has declared: {error}"))
}

/// The columns of an answer in Arrow, as they were declared.
pub(super) fn columns(reply: Reply, declared: &Fields, operation: &str) -> Result<Vec<ArrayRef>> {
    adopted(arrow_of(reply)?.columns(), declared, operation)
}

/// The rows of an answer that is one structure.
pub(super) fn frame(reply: Reply, schema: &SchemaRef, operation: &str) -> Result<RecordBatch> {
    let answer = arrow_of(reply)?;
    let columns = adopted(parts(&answer)?.columns(), schema.fields(), operation)?;
    batch(schema, columns, answer.num_rows())
}

fn arrow_of(reply: Reply) -> Result<RecordBatch> {
    match reply {
        Reply::Rows(rows) => Ok(rows),
        Reply::Pickle(_) => Err(Error::internal("a Python worker answers Arrow with a pickle")),
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::{AsArray, Int64Array};
    use arrow::datatypes::{DataType, Field, Int64Type, Schema};

    use super::*;

    fn numbers(values: &[i64]) -> ArrayRef {
        Arc::new(Int64Array::from(values.to_vec()))
    }

    async fn run(sent: &[&[i64]], results: &[&[i64]]) -> Result<Vec<(i64, i64)>> {
        let waiting = Waiting::new(&TaskContext::default());
        for values in sent {
            waiting.push(RecordBatch::try_from_iter([("v", numbers(values))]).unwrap()).unwrap();
        }
        let schema = Arc::new(Schema::new(vec![Field::new("v", DataType::Int64, false), Field::new("r", DataType::Int64, true)]));
        let results: Vec<_> = results.iter().map(|values| Ok(vec![numbers(values)])).collect();
        let mut rows = beside(stream::iter(results).boxed(), waiting, schema);
        let mut pairs = Vec::new();
        while let Some(batch) = rows.next().await {
            let batch = batch?;
            let column = |index: usize| batch.column(index).as_primitive::<Int64Type>().values().to_vec();
            pairs.extend(column(0).into_iter().zip(column(1)));
        }
        Ok(pairs)
    }

    #[tokio::test]
    async fn results_meet_their_rows_whatever_the_batches() {
        let expected = vec![(1, 10), (2, 20), (3, 30)];
        let sent: &[&[i64]] = &[&[1, 2], &[3]];
        for results in [&[&[10_i64, 20][..], &[30]][..], &[&[10], &[20, 30]], &[&[10, 20, 30]], &[&[10], &[], &[20], &[30]]] {
            assert_eq!(run(sent, results).await.unwrap(), expected, "{results:?}");
        }
        assert!(run(sent, &[&[10, 20]]).await.is_err());
        assert!(run(sent, &[&[10, 20, 30, 40]]).await.is_err());
    }
}
