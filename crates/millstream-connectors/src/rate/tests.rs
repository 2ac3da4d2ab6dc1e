use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use arrow::array::{AsArray, RecordBatch};
use arrow::datatypes::{Int64Type, TimestampMicrosecondType};
use futures::TryStreamExt;
use millstream_core::conformance::source::{SourceFactory, all};
use millstream_core::quarantine::Discard;
use millstream_core::source::{ReadContext, Split};
use millstream_core::source_log::{MemorySourceLog, SourceLog};
use millstream_core::{Clock, Offset, ReadLimit};
use tokio::sync::Notify;

use super::*;

/// A clock that stands until it is moved.
#[derive(Debug)]
pub(crate) struct ManualClock {
    ms: AtomicI64,
    moved: Notify,
}

impl ManualClock {
    pub(crate) fn at(ms: i64) -> Arc<Self> {
        Arc::new(ManualClock { ms: AtomicI64::new(ms), moved: Notify::new() })
    }

    pub(crate) fn advance(&self, ms: i64) {
        self.ms.fetch_add(ms, Ordering::SeqCst);
        self.moved.notify_waiters();
    }
}

#[async_trait]
impl Clock for ManualClock {
    fn now_ms(&self) -> i64 {
        self.ms.load(Ordering::SeqCst)
    }

    fn monotonic_ns(&self) -> u64 {
        u64::try_from(self.now_ms()).unwrap_or(0) * 1_000_000
    }

    async fn sleep(&self, duration: Duration) {
        let until = self.now_ms() + i64::try_from(duration.as_millis()).unwrap();
        loop {
            let moved = self.moved.notified();
            if self.now_ms() >= until {
                return;
            }
            moved.await;
        }
    }
}

pub(crate) async fn collect(splits: &[Arc<dyn Split>], projection: &[usize]) -> Vec<RecordBatch> {
    let mut batches = Vec::new();
    for split in splits {
        let context = ReadContext { projection: projection.to_vec(), batch_size: 4, quarantine: Arc::new(Discard) };
        batches.extend(split.read(context).try_collect::<Vec<_>>().await.unwrap());
    }
    batches
}

/// Value and time in milliseconds of each row, by value.
pub(crate) async fn made(splits: &[Arc<dyn Split>]) -> Vec<(i64, i64)> {
    let mut rows = Vec::new();
    for batch in collect(splits, &[0, 1]).await {
        let times = batch.column(0).as_primitive::<TimestampMicrosecondType>();
        let values = batch.column(1).as_primitive::<Int64Type>();
        rows.extend(values.values().iter().copied().zip(times.values().iter().map(|micros| micros / 1000)));
    }
    rows.sort_unstable();
    rows
}

struct Factory {
    options: Vec<(&'static str, &'static str)>,
    clock: Arc<ManualClock>,
    log: Arc<MemorySourceLog>,
}

impl Factory {
    fn new(options: &[(&'static str, &'static str)]) -> Self {
        Factory { options: options.to_vec(), clock: ManualClock::at(1_704_067_200_106), log: Arc::default() }
    }

    fn request(&self) -> ReadRequest {
        ReadRequest { options: self.options.iter().copied().collect(), ..ReadRequest::default() }
    }
}

#[async_trait]
impl SourceFactory for Factory {
    async fn open(&self) -> Result<Arc<dyn Source>> {
        let context = SourceContext { log: self.log.clone(), clock: self.clock.clone() };
        RateProvider::with_partitions(2).source(&self.request(), context).await
    }

    async fn feed(&self) -> Result<()> {
        self.clock.advance(1000);
        Ok(())
    }
}

#[tokio::test]
async fn conforms() {
    all(|| Factory::new(&[])).await.unwrap();
    all(|| Factory::new(&[("rowsPerSecond", "20"), ("numPartitions", "3")])).await.unwrap();
}

/// Recorded from Spark 4.2: seven rows per second after five seconds, three partitions.
#[tokio::test]
async fn the_rate_grows_as_in_spark() {
    let factory = Factory::new(&[("rowsPerSecond", "7"), ("rampUpTime", "5s"), ("numPartitions", "3")]);
    let source = factory.open().await.unwrap();
    assert_eq!(source.description(), "RateStreamV2[rowsPerSecond=7, rampUpTimeSeconds=5, numPartitions=3");
    let start = source.latest_offset(None, &ReadLimit::AllAvailable).await.unwrap().unwrap();
    assert_eq!(start.as_json(), "0");
    let mut times = Vec::new();
    for second in 1..=6 {
        factory.clock.advance(1000);
        let start = Offset::of(&(second - 1)).unwrap();
        let end = source.latest_offset(Some(&start), &ReadLimit::AllAvailable).await.unwrap().unwrap();
        let splits = source.plan(Some(&start), &end).await.unwrap();
        assert_eq!(splits.len(), usize::try_from(second).unwrap().min(3));
        times.extend(made(&splits).await.into_iter().map(|(value, ms)| (value, ms - 1_704_067_200_106)));
    }
    let expected_ms =
        [0, 1000, 1500, 2000, 2333, 2667, 3000, 3250, 3500, 3750, 4000, 4200, 4400, 4600, 4800, 5000, 5143, 5286, 5429, 5571, 5714, 5857];
    assert_eq!(times, (0..).zip(expected_ms).collect::<Vec<_>>());
}

#[tokio::test]
async fn the_start_is_kept_in_the_log_and_a_clock_set_back_stops_the_rows() {
    let factory = Factory::new(&[]);
    factory.open().await.unwrap();
    assert_eq!(factory.log.get(0).await.unwrap().unwrap(), ["1704067200106"]);
    factory.clock.advance(5_900);
    let source = factory.open().await.unwrap();
    let five = source.latest_offset(None, &ReadLimit::AllAvailable).await.unwrap().unwrap();
    assert_eq!(five.as_json(), "5");
    factory.clock.advance(-60_000);
    let source = factory.open().await.unwrap();
    assert_eq!(source.latest_offset(Some(&five), &ReadLimit::AllAvailable).await.unwrap(), Some(five));
}

#[tokio::test]
async fn waits_for_the_next_second_and_not_when_it_has_passed() {
    let factory = Factory::new(&[]);
    let source = factory.open().await.unwrap();
    source.latest_offset(None, &ReadLimit::AllAvailable).await.unwrap();
    let wait = source.changed();
    tokio::pin!(wait);
    factory.clock.advance(999);
    assert!(futures::poll!(wait.as_mut()).is_pending());
    factory.clock.advance(1);
    wait.await;
    // The second passed before anyone waited.
    source.changed().await;
}

#[tokio::test]
async fn bad_options_have_sparks_conditions() {
    let provider = RateProvider::with_partitions(2);
    for (option, value, code) in [
        ("rowsPerSecond", "0", "IllegalArgumentException"),
        ("rowsPerSecond", "-5", "IllegalArgumentException"),
        ("rowsPerSecond", "x", "NumberFormatException"),
        ("rampUpTime", "-1s", "IllegalArgumentException"),
        ("numPartitions", "0", "IllegalArgumentException"),
        ("rampUpTime", "9223372036854775807", "INCORRECT_RAMP_UP_RATE"),
    ] {
        let options = [("rowsPerSecond", "2"), (option, value)];
        let request = ReadRequest { options: options.into_iter().collect(), ..ReadRequest::default() };
        let context = SourceContext { log: Arc::new(MemorySourceLog::default()), clock: ManualClock::at(0) };
        assert_eq!(provider.source(&request, context).await.unwrap_err().code(), code, "{option}={value}");
    }
    let request = ReadRequest { schema: Some(millstream_core::conformance::sink::schema()), ..ReadRequest::default() };
    assert_eq!(provider.schema(&request, true).await.unwrap_err().code(), "_LEGACY_ERROR_TEMP_2242");
    assert_eq!(provider.table(&ReadRequest::default()).await.unwrap_err().code(), "_LEGACY_ERROR_TEMP_1135");
}

#[tokio::test]
async fn a_rate_beyond_64_bits_is_an_error_and_not_a_panic() {
    let factory = Factory::new(&[("rowsPerSecond", "9223372036854775807")]);
    let source = factory.open().await.unwrap();
    factory.clock.advance(2_000);
    assert_eq!(source.latest_offset(None, &ReadLimit::AllAvailable).await.unwrap_err().code(), "INCORRECT_END_OFFSET");
}
