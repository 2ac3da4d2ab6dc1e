//! Rows that are made from their numbers: `timestamp timestamp, value long`.

use std::ops::Range;
use std::sync::{Arc, LazyLock};

use arrow::array::{Int64Array, RecordBatch, TimestampMicrosecondArray};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef, TimeUnit};
use futures::{StreamExt, stream};
use millstream_core::source::{BatchStream, ReadContext, Split};
use millstream_core::{Error, Result};

static SCHEMA: LazyLock<SchemaRef> = LazyLock::new(|| {
    Arc::new(Schema::new(vec![
        Field::new("timestamp", DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into())), true),
        Field::new("value", DataType::Int64, true),
    ]))
});

/// The schema of the rows.
pub(crate) fn schema() -> SchemaRef {
    SCHEMA.clone()
}

/// The time of each value of a range, milliseconds since the epoch.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Times {
    /// Every row has the same.
    At(i64),
    /// Values are spread evenly: `start_ms` and so many milliseconds more for each value behind the first, rounded.
    Spread {
        /// The time of the first value.
        start_ms: i64,
        /// Milliseconds from one value to the next.
        step_ms: f64,
    },
}

impl Times {
    #[expect(clippy::cast_precision_loss, clippy::cast_possible_truncation, reason = "Spark computes it in floating point")]
    fn micros(self, values_before: i64) -> i64 {
        let ms = match self {
            Times::At(ms) => ms,
            Times::Spread { start_ms, step_ms } => start_ms.saturating_add((values_before as f64 * step_ms + 0.5).floor() as i64),
        };
        ms.saturating_mul(1000)
    }
}

/// Deals the values of a range to partitions in turn, as Spark does.
pub(crate) fn deal(values: Range<i64>, times: Times, partitions: usize, name: &str) -> Vec<Arc<dyn Split>> {
    let partitions = i64::try_from(partitions).unwrap_or(i64::MAX).max(1);
    let dealt = (0..partitions).map(|partition| values.start.saturating_add(partition)).take_while(|first| *first < values.end);
    dealt
        .map(|first| {
            let split =
                MadeRows { label: format!("{name}-{}", first - values.start), values: values.clone(), first, step: partitions, times };
            Arc::new(split) as Arc<dyn Split>
        })
        .collect()
}

/// Every `step`-th value of a range, from `first` on.
#[derive(Clone, Debug)]
struct MadeRows {
    label: String,
    values: Range<i64>,
    first: i64,
    step: i64,
    times: Times,
}

impl MadeRows {
    fn batch(&self, from: i64, rows: usize, projection: &[usize]) -> Result<RecordBatch> {
        let values = || (0..rows).scan(from, |next, _| Some(std::mem::replace(next, next.saturating_add(self.step))));
        let times = values().map(|value| self.times.micros(value - self.values.start));
        let times = TimestampMicrosecondArray::from_iter_values(times).with_timezone("UTC");
        let batch = RecordBatch::try_new(schema(), vec![Arc::new(times), Arc::new(Int64Array::from_iter_values(values()))]);
        batch.and_then(|batch| batch.project(projection)).map_err(|error| Error::internal("made rows do not fit").caused_by(error))
    }
}

impl Split for MadeRows {
    fn label(&self) -> &str {
        &self.label
    }

    fn size_bytes(&self) -> u64 {
        u64::try_from((self.values.end - self.first) / self.step * 16).unwrap_or(0)
    }

    fn read(&self, context: ReadContext) -> BatchStream {
        let batch_size = context.batch_size.max(1);
        let (split, end) = (self.clone(), self.values.end);
        let stride = i64::try_from(batch_size).unwrap_or(i64::MAX).saturating_mul(self.step);
        let starts = std::iter::successors(Some(self.first), move |from| from.checked_add(stride)).take_while(move |from| *from < end);
        let batches = starts.map(move |from| {
            let left = (end - from).unsigned_abs().div_ceil(split.step.unsigned_abs());
            let rows = usize::try_from(left).unwrap_or(usize::MAX).min(batch_size);
            split.batch(from, rows, &context.projection)
        });
        stream::iter(batches).boxed()
    }
}
