//! What every sink and every source must do.

use millstream_core::ReadLimit;
use millstream_core::conformance::{sink, source};
use millstream_core::registry::SourceContext;
use millstream_core::source::Source;
use millstream_core::source_log::MemorySourceLog;

use super::*;

struct Written {
    bench: Bench,
    options: &'static [(&'static str, &'static str)],
}

#[async_trait]
impl sink::SinkFactory for Written {
    async fn open(&self) -> Result<Arc<dyn Sink>> {
        self.bench.try_sink(self.options).await
    }

    async fn visible(&self) -> Result<Vec<RecordBatch>> {
        if self.bench.versions().await == 0 {
            return Ok(Vec::new());
        }
        let rows = self.bench.read(&[]).await?;
        let columns = ["k", "v"].map(|name| rows.schema().index_of(name).unwrap());
        Ok(vec![rows.project(&columns).unwrap()])
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_sink_conforms() {
    for options in [&[][..], &[("partitionBy", "k")], &[("checkpointInterval", "1")]] {
        let outcome = sink::all(|| Written { bench: Bench::new(), options }).await;
        assert!(outcome.is_ok(), "{options:?}: {}", outcome.unwrap_err());
    }
}

struct Read {
    bench: Bench,
    options: &'static [(&'static str, &'static str)],
    fed: AtomicU64,
}

#[async_trait]
impl source::SourceFactory for Read {
    async fn open(&self) -> Result<Arc<dyn Source>> {
        // The table has to exist, and may be empty.
        run(self.bench.sink(&[("txnAppId", "creator")]).await.as_ref(), 0, OutputMode::Append, rows([])).await?;
        let provider = self.bench.sources();
        let context = SourceContext { log: Arc::new(MemorySourceLog::default()), clock: self.bench.clock.clone() };
        provider.source(&request(self.options), context).await
    }

    async fn feed(&self) -> Result<()> {
        let id = self.fed.fetch_add(1, Ordering::Relaxed);
        append(self.bench.sink(&[]).await.as_ref(), id, [id as i64 * 10, id as i64 * 10 + 1]).await.map(drop)
    }

    fn small_limit(&self) -> Option<ReadLimit> {
        Some(ReadLimit::MaxFiles(1))
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_source_conforms() {
    for options in [&[][..], &[("startingVersion", "0")], &[("startingTimestamp", "2001-01-01")]] {
        let outcome = source::all(|| Read { bench: Bench::new(), options, fed: AtomicU64::new(0) }).await;
        assert!(outcome.is_ok(), "{options:?}: {}", outcome.unwrap_err());
    }
}
