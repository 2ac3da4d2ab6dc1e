//! The source. Its offset is the number of whole seconds since the query was first started.

use std::sync::Arc;
use std::time::Duration;

use arrow::datatypes::SchemaRef;
use async_trait::async_trait;
use millstream_core::registry::SourceContext;
use millstream_core::source::{Source, Split};
use millstream_core::{Clock, Error, ErrorKind, Offset, ReadLimit, Result};
use parking_lot::Mutex;

use super::options::RateOptions;
use super::rows::{self, Times};

/// Makes rows as time goes by.
#[derive(Debug)]
pub struct RateSource {
    options: RateOptions,
    clock: Arc<dyn Clock>,
    /// When the query was first started, from the source's log.
    started_ms: i64,
    /// The newest second handed out, to tell whether another one has passed.
    newest: Mutex<Option<i64>>,
}

impl RateSource {
    /// Opens the source; a new query's start becomes entry 0 of the source's log, as in Spark.
    ///
    /// # Errors
    /// `SOURCE_LOG_MISMATCH` when that entry is no time; those of the log.
    pub(super) async fn open(options: RateOptions, context: SourceContext) -> Result<Self> {
        let started_ms = match context.log.get(0).await? {
            Some(entries) => entries.first().and_then(|entry| entry.trim().parse().ok()).ok_or_else(|| {
                Error::new(
                    ErrorKind::CheckpointIncompatible,
                    "SOURCE_LOG_MISMATCH",
                    "entry 0 of the rate source's log is no time: restore it, or start a new checkpoint",
                )
            })?,
            None => {
                let now = context.clock.now_ms();
                context.log.add(0, &[now.to_string()]).await?;
                now
            }
        };
        Ok(RateSource { options, clock: context.clock, started_ms, newest: Mutex::new(None) })
    }

    /// Whole seconds since the start; a clock that was set back counts as none.
    fn elapsed_seconds(&self) -> i64 {
        self.clock.now_ms().saturating_sub(self.started_ms).max(0) / 1000
    }

    /// How many rows there are before the given second: the rate grows evenly until the end of the ramp and is constant from there.
    ///
    /// # Errors
    /// `INCORRECT_END_OFFSET` beyond 64 bits.
    fn value_at(&self, second: i64) -> Result<i64> {
        let (second, rate, ramp) = (i128::from(second), i128::from(self.options.rows_per_second), i128::from(self.options.ramp_up_seconds));
        let growth = rate / (ramp + 1);
        let ramped = |seconds: i128| growth * (seconds * (seconds + 1) / 2);
        let value = if second <= ramp { ramped(second) } else { ramped(ramp) + (second - ramp) * rate };
        i64::try_from(value).map_err(|_| {
            Error::new(
                ErrorKind::Invalid,
                "INCORRECT_END_OFFSET",
                format!(
                    "{} rows per second are too many: after {second} seconds their number has more than 64 bits",
                    self.options.rows_per_second
                ),
            )
            .with_sqlstate("22003")
        })
    }
}

fn seconds(offset: Option<&Offset>) -> Result<i64> {
    offset.map_or(Ok(0), Offset::read)
}

#[async_trait]
impl Source for RateSource {
    fn description(&self) -> String {
        // Spark leaves the bracket open.
        format!(
            "RateStreamV2[rowsPerSecond={}, rampUpTimeSeconds={}, numPartitions={}",
            self.options.rows_per_second, self.options.ramp_up_seconds, self.options.partitions_text
        )
    }

    fn schema(&self) -> SchemaRef {
        rows::schema()
    }

    /// The first batch of a query ends at second 0 and has no rows, as in Spark.
    async fn latest_offset(&self, start: Option<&Offset>, _limit: &ReadLimit) -> Result<Option<Offset>> {
        let end = self.elapsed_seconds().max(seconds(start)?);
        self.value_at(end)?;
        *self.newest.lock() = Some(end);
        Offset::of(&end).map(Some)
    }

    fn reported_latest(&self) -> Option<Offset> {
        (*self.newest.lock()).and_then(|newest| Offset::of(&newest).ok())
    }

    #[expect(clippy::cast_precision_loss, reason = "Spark computes times in floating point")]
    async fn plan(&self, start: Option<&Offset>, end: &Offset) -> Result<Vec<Arc<dyn Split>>> {
        let (start, end) = (seconds(start)?, seconds(Some(end))?);
        let values = self.value_at(start)?..self.value_at(end)?;
        if values.is_empty() {
            return Ok(vec![]);
        }
        let span_ms = (end - start) as f64 * 1000.0;
        let start_ms = self.started_ms.saturating_add(start.saturating_mul(1000));
        let times = Times::Spread { start_ms, step_ms: span_ms / (values.end - values.start) as f64 };
        Ok(rows::deal(values, times, self.options.partitions, "rate"))
    }

    async fn changed(&self) {
        let elapsed = self.elapsed_seconds();
        if self.newest.lock().is_some_and(|newest| newest >= elapsed) {
            let next_ms = self.started_ms.saturating_add((elapsed + 1).saturating_mul(1000));
            let wait = u64::try_from(next_ms.saturating_sub(self.clock.now_ms())).unwrap_or(0);
            self.clock.sleep(Duration::from_millis(wait)).await;
        }
    }
}
