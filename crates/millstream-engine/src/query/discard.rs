//! A sink that forgets: for rows that are computed for what they do to state and time.

use arrow::array::RecordBatch;
use async_trait::async_trait;
use millstream_core::Result;
use millstream_core::sink::{Admission, BatchInfo, Committed, Guarantee, OutputMode, Part, PartWriter, Sink};

/// Takes rows and keeps none.
#[derive(Debug)]
pub(super) struct Discard;

#[async_trait]
impl Sink for Discard {
    fn description(&self) -> String {
        "Discard".to_owned()
    }

    fn guarantee(&self) -> Guarantee {
        Guarantee::None
    }

    fn supports(&self, _: OutputMode) -> bool {
        true
    }

    async fn admit(&self, _: &BatchInfo) -> Result<Admission> {
        Ok(Admission::Write)
    }

    async fn writer(&self, _: &BatchInfo, _: usize) -> Result<Box<dyn PartWriter>> {
        Ok(Box::new(Discarding(0)))
    }

    async fn commit(&self, _: &BatchInfo, _: Vec<Part>) -> Result<Committed> {
        Ok(Committed::default())
    }
}

struct Discarding(u64);

#[async_trait]
impl PartWriter for Discarding {
    async fn write(&mut self, rows: RecordBatch) -> Result<()> {
        self.0 += rows.num_rows() as u64;
        Ok(())
    }

    async fn finish(self: Box<Self>) -> Result<Part> {
        Ok(Part { rows: self.0, bytes: 0, staged: Default::default() })
    }
}
