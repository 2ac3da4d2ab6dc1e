//! The writer of sinks whose rows stay in this process.

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use async_trait::async_trait;
use millstream_core::sink::{Part, PartWriter};
use millstream_core::{Error, Result};

use super::staged;

/// Stages the first rows of a part, up to a limit, and counts the rest.
pub(crate) struct Rows {
    schema: SchemaRef,
    batches: Vec<RecordBatch>,
    room: usize,
    rows: u64,
}

impl Rows {
    /// A writer that keeps `limit` rows of this schema.
    pub(crate) fn new(schema: SchemaRef, limit: usize) -> Self {
        Rows { schema, batches: Vec::new(), room: limit, rows: 0 }
    }
}

#[async_trait]
impl PartWriter for Rows {
    async fn write(&mut self, rows: RecordBatch) -> Result<()> {
        self.rows += rows.num_rows() as u64;
        let kept = rows.num_rows().min(self.room);
        if kept > 0 {
            self.room -= kept;
            let rows = rows.slice(0, kept).with_schema(self.schema.clone());
            self.batches.push(rows.map_err(|error| Error::internal("rows do not have the schema of their batch").caused_by(error))?);
        }
        Ok(())
    }

    async fn finish(self: Box<Self>) -> Result<Part> {
        let staged = staged::encode(&self.schema, &self.batches)?;
        Ok(Part { rows: self.rows, bytes: 0, staged })
    }
}
