//! The sink `noop`: takes every row and keeps none, for tests and measurements.

use std::sync::Arc;

use arrow::array::RecordBatch;
use async_trait::async_trait;
use bytes::Bytes;
use millstream_core::registry::{SinkProvider, WriteRequest};
use millstream_core::sink::{Admission, BatchInfo, Committed, Guarantee, OutputMode, Part, PartWriter, Sink};
use millstream_core::{OptionSpec, Result};

/// Makes [`Noop`] sinks.
#[derive(Debug, Default)]
pub struct NoopProvider;

#[async_trait]
impl SinkProvider for NoopProvider {
    fn names(&self) -> &'static [&'static str] {
        &["noop"]
    }

    fn options(&self) -> Vec<OptionSpec> {
        vec![]
    }

    async fn sink(&self, _request: &WriteRequest) -> Result<Arc<dyn Sink>> {
        Ok(Arc::new(Noop))
    }
}

/// A sink that forgets.
#[derive(Debug)]
pub struct Noop;

#[async_trait]
impl Sink for Noop {
    fn description(&self) -> String {
        "NoopTable".to_owned()
    }

    fn guarantee(&self) -> Guarantee {
        Guarantee::None
    }

    fn supports(&self, _mode: OutputMode) -> bool {
        true
    }

    async fn admit(&self, _batch: &BatchInfo) -> Result<Admission> {
        Ok(Admission::Write)
    }

    async fn writer(&self, _batch: &BatchInfo, _partition: usize) -> Result<Box<dyn PartWriter>> {
        Ok(Box::new(Counter { rows: 0 }))
    }

    async fn commit(&self, _batch: &BatchInfo, parts: Vec<Part>) -> Result<Committed> {
        Ok(Committed { rows: parts.iter().map(|part| part.rows).sum(), ..Committed::default() })
    }
}

struct Counter {
    rows: u64,
}

#[async_trait]
impl PartWriter for Counter {
    async fn write(&mut self, rows: RecordBatch) -> Result<()> {
        self.rows += rows.num_rows() as u64;
        Ok(())
    }

    async fn finish(self: Box<Self>) -> Result<Part> {
        Ok(Part { rows: self.rows, bytes: 0, staged: Bytes::new() })
    }
}

#[cfg(test)]
mod tests {
    use millstream_core::conformance::sink::schema;
    use uuid::Uuid;

    use super::*;

    #[tokio::test]
    async fn counts_what_it_forgets_in_every_mode() {
        let sink = NoopProvider.sink(&WriteRequest::default()).await.unwrap();
        for mode in [OutputMode::Append, OutputMode::Update, OutputMode::Complete] {
            assert!(sink.supports(mode));
            let batch = BatchInfo { query_id: Uuid::nil(), batch_id: 0, mode, schema: schema(), timestamp_ms: 0 };
            let part = sink.writer(&batch, 0).await.unwrap().finish().await.unwrap();
            let full = Part { rows: 3, ..part.clone() };
            assert_eq!(sink.commit(&batch, vec![part, full]).await.unwrap().rows, 3);
        }
    }
}
