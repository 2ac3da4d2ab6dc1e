//! Late rows as rows of a table, for people and for reading them again.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, Int64Array, RecordBatch, RecordBatchOptions, StringArray, TimestampMicrosecondArray};
use arrow::compute::{filter, filter_record_batch};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef, TimeUnit};
use arrow::json::LineDelimitedWriter;
use datafusion::error::{DataFusionError, Result as DfResult};
use millstream_core::Error;
use tokio::sync::mpsc;

use super::Origins;
use super::exec::{LateCounter, below};
use crate::stateful::micros;
use crate::to_datafusion;

/// The columns of a table of late rows: where and when a row was left out, and the row itself as a JSON object of the columns that the query
/// reads.
pub(crate) fn schema() -> SchemaRef {
    let text = |name| Field::new(name, DataType::Utf8, true);
    let instant = |name| Field::new(name, DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into())), true);
    Arc::new(Schema::new(vec![
        text("query_id"),
        Field::new("batch_id", DataType::Int64, true),
        text("source"),
        text("partition"),
        Field::new("operator", DataType::Int64, true),
        instant("event_time"),
        instant("watermark"),
        Field::new("behind_ms", DataType::Int64, true),
        text("row"),
    ]))
}

/// Sends the late rows of one batch to a table.
#[derive(Clone, Debug)]
pub(crate) struct LateRows {
    /// Rows of [`schema`]; who sends waits when it is full.
    pub(crate) queue: mpsc::Sender<RecordBatch>,
    pub(crate) origins: Arc<Origins>,
    /// How sources are called, by their numbers.
    pub(crate) sources: Arc<Vec<String>>,
    pub(crate) query_id: String,
    pub(crate) batch_id: u64,
}

impl LateRows {
    /// Sends those of the rows whose time (microseconds) is below `bound`.
    pub(super) fn send(
        &self,
        rows: &RecordBatch,
        times: &Int64Array,
        bound: i64,
        origin: Option<u32>,
        counter: &LateCounter,
        watermark_ms: i64,
    ) -> DfResult<()> {
        let late = below(times, bound);
        let rows = filter_record_batch(rows, &late)?;
        let times = filter(times, &late)?;
        let times = times.as_any().downcast_ref::<Int64Array>().cloned().unwrap_or_else(|| Int64Array::from(Vec::<i64>::new()));
        let rows = self.table(&rows, &times, origin, counter, watermark_ms)?;
        // A closed queue means that the writer failed, which the commit of the batch reports.
        if let Err(mpsc::error::TrySendError::Full(rows)) = self.queue.try_send(rows) {
            tokio::task::block_in_place(|| drop(self.queue.blocking_send(rows)));
        }
        Ok(())
    }

    fn table(
        &self,
        rows: &RecordBatch,
        times: &Int64Array,
        origin: Option<u32>,
        counter: &LateCounter,
        watermark_ms: i64,
    ) -> DfResult<RecordBatch> {
        let count = rows.num_rows();
        let known = origin.and_then(|origin| self.origins.get(origin));
        let source = match (&known, counter.sources.as_slice()) {
            (Some((source, _)), _) | (None, [source]) => self.sources.get(*source).cloned(),
            _ => None,
        };
        let text = |value: Option<String>| -> ArrayRef { Arc::new(StringArray::from(vec![value; count])) };
        let number = |value: u64| -> ArrayRef { Arc::new(Int64Array::from_value(i64::try_from(value).unwrap_or(i64::MAX), count)) };
        let utc = |instants: TimestampMicrosecondArray| -> ArrayRef { Arc::new(instants.with_timezone("UTC")) };
        let behind: Int64Array = times.iter().map(|time| time.map(|time| watermark_ms.saturating_sub(time.div_euclid(1_000)))).collect();
        let columns = vec![
            text(Some(self.query_id.clone())),
            number(self.batch_id),
            text(source),
            text(known.map(|(_, label)| label)),
            number(counter.operator as u64),
            utc(times.iter().collect()),
            utc(TimestampMicrosecondArray::from_value(micros(watermark_ms), count)),
            Arc::new(behind),
            Arc::new(StringArray::from(objects(rows, &counter.names)?)),
        ];
        RecordBatch::try_new(schema(), columns).map_err(DataFusionError::from)
    }
}

/// Each row as a JSON object of the columns that have a name.
fn objects(rows: &RecordBatch, names: &[Option<String>]) -> DfResult<Vec<String>> {
    let named = names.iter().zip(rows.schema_ref().fields()).zip(rows.columns());
    let (fields, columns): (Vec<Field>, Vec<ArrayRef>) = named
        .filter_map(|((name, field), column)| Some((Field::new(name.as_ref()?, field.data_type().clone(), true), column.clone())))
        .unzip();
    let options = RecordBatchOptions::new().with_row_count(Some(rows.num_rows()));
    let rows = RecordBatch::try_new_with_options(Arc::new(Schema::new(fields)), columns, &options)?;
    let mut writer = LineDelimitedWriter::new(Vec::new());
    writer.write(&rows)?;
    writer.finish()?;
    let text = String::from_utf8(writer.into_inner())
        .map_err(|error| to_datafusion(Error::internal("late rows are not text").caused_by(error)))?;
    let lines: Vec<String> = text.lines().map(str::to_owned).collect();
    // A row without columns has no line.
    Ok(if lines.len() == rows.num_rows() { lines } else { vec!["{}".to_owned(); rows.num_rows()] })
}
