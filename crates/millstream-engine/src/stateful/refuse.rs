//! What a plan that cannot run is bound to, where only running it may say so.

use arrow::array::RecordBatch;
use datafusion::error::Result as DfResult;
use millstream_core::watermark::Watermarks;

use super::operator::{Core, Counts, refused};
use super::table::StateTable;

/// Fails.
#[derive(Clone, Debug)]
pub(crate) struct RefuseCore {
    pub(crate) code: &'static str,
    pub(crate) message: String,
}

impl Core for RefuseCore {
    fn push(&mut self, _: usize, _: &RecordBatch, _: Watermarks, _: &mut dyn FnMut(RecordBatch)) -> DfResult<()> {
        Err(refused(self.code, self.message.clone()))
    }

    fn finish(&mut self, _: Watermarks, _: &mut dyn FnMut(RecordBatch)) -> DfResult<()> {
        Err(refused(self.code, self.message.clone()))
    }

    fn counts(&self) -> Counts {
        Counts::default()
    }

    fn tables(&mut self) -> Vec<&mut StateTable> {
        Vec::new()
    }
}
