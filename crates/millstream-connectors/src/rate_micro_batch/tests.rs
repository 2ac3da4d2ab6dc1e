use millstream_core::conformance::source::{SourceFactory, all};
use millstream_core::source_log::MemorySourceLog;
use millstream_core::{Offset, ReadLimit};

use super::*;
use crate::rate::tests::{ManualClock, made};

struct Factory(&'static [(&'static str, &'static str)]);

impl Factory {
    async fn try_open(&self) -> Result<Arc<dyn Source>> {
        let request = ReadRequest { options: self.0.iter().copied().collect(), ..ReadRequest::default() };
        let context = SourceContext { log: Arc::new(MemorySourceLog::default()), clock: ManualClock::at(0) };
        RateMicroBatchProvider::with_partitions(2).source(&request, context).await
    }
}

#[async_trait]
impl SourceFactory for Factory {
    async fn open(&self) -> Result<Arc<dyn Source>> {
        self.try_open().await
    }

    async fn feed(&self) -> Result<()> {
        Ok(())
    }

    fn ranges_add_up(&self) -> bool {
        false
    }
}

#[tokio::test]
async fn conforms() {
    all(|| Factory(&[("rowsPerBatch", "5")])).await.unwrap();
    all(|| Factory(&[("rowsPerBatch", "11"), ("numPartitions", "4"), ("startTimestamp", "1704067200000")])).await.unwrap();
}

/// Recorded from Spark 4.2.
#[tokio::test]
async fn rows_and_times_are_those_of_spark() {
    let options = &[("rowsPerBatch", "3"), ("numPartitions", "1"), ("startTimestamp", "1704067200000"), ("advanceMillisPerBatch", "500")];
    let source = Factory(options).open().await.unwrap();
    let mut start = None;
    for batch in 0..3 {
        let end = source.latest_offset(start.as_ref(), &ReadLimit::AllAvailable).await.unwrap().unwrap();
        assert_eq!(end.as_json(), format!(r#"{{"offset":{},"timestamp":{}}}"#, (batch + 1) * 3, 1_704_067_200_000_i64 + (batch + 1) * 500));
        let rows = made(&source.plan(start.as_ref(), &end).await.unwrap()).await;
        assert_eq!(rows, (batch * 3..batch * 3 + 3).map(|value| (value, 1_704_067_200_000 + batch * 500)).collect::<Vec<_>>());
        start = Some(end);
    }
}

#[tokio::test]
async fn available_now_is_one_batch() {
    let source = Factory(&[("rowsPerBatch", "5")]).open().await.unwrap();
    assert_eq!(source.description(), "RatePerMicroBatchStream[rowsPerBatch=5, numPartitions=2, startTimestamp=0, advanceMsPerBatch=1000]");
    source.prepare_available_now().await.unwrap();
    let end = source.latest_offset(None, &ReadLimit::AllAvailable).await.unwrap().unwrap();
    assert_eq!(end.as_json(), r#"{"offset":5,"timestamp":1000}"#);
    assert_eq!(source.latest_offset(Some(&end), &ReadLimit::AllAvailable).await.unwrap(), Some(end));
}

#[tokio::test]
async fn ranges_that_run_backwards_are_malformed() {
    let source = Factory(&[("rowsPerBatch", "5")]).open().await.unwrap();
    let offset = |text: &str| Offset::from_json(text).unwrap();
    for (start, end, code) in [
        (r#"{"offset":6,"timestamp":0}"#, r#"{"offset":5,"timestamp":1000}"#, "INVALID_OFFSET"),
        (r#"{"offset":5,"timestamp":2000}"#, r#"{"offset":6,"timestamp":1000}"#, "INVALID_TIMESTAMP"),
    ] {
        let error = source.plan(Some(&offset(start)), &offset(end)).await.unwrap_err();
        assert_eq!(error.code(), format!("MALFORMED_STATE_IN_RATE_PER_MICRO_BATCH_SOURCE.{code}"));
        assert_eq!(error.sqlstate(), Some("22000"));
    }
}

#[tokio::test]
async fn bad_options_have_sparks_conditions() {
    let cases: &[(&'static [(&'static str, &'static str)], &str)] = &[
        (&[], "IllegalArgumentException"),
        (&[("rowsPerBatch", "0")], "IllegalArgumentException"),
        (&[("rowsPerBatch", "x")], "NumberFormatException"),
        (&[("rowsPerBatch", "1"), ("startTimestamp", "-1")], "IllegalArgumentException"),
        (&[("rowsPerBatch", "1"), ("advanceMillisPerBatch", "-1")], "IllegalArgumentException"),
    ];
    for (options, code) in cases {
        assert_eq!(Factory(options).try_open().await.unwrap_err().code(), *code, "{options:?}");
    }
}
