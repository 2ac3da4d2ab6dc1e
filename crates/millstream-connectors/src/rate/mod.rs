//! The source `rate`: so many rows per second, each with the time it belongs to and a number that counts from 0.

mod options;
pub(crate) mod rows;
mod source;

#[cfg(test)]
pub(crate) mod tests;

use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use async_trait::async_trait;
use millstream_core::options::OptionKind;
use millstream_core::registry::{ReadRequest, SourceContext, SourceProvider};
use millstream_core::source::{Source, Table};
use millstream_core::{Error, OptionSpec, Result};

pub(crate) use options::{count, illegal_argument, no_batch_side, no_user_schema};
pub use source::RateSource;

use options::RateOptions;

/// Makes [`RateSource`]s.
#[derive(Debug)]
pub struct RateProvider {
    parallelism: usize,
}

impl RateProvider {
    /// Sources that have a partition per core of this machine unless the option `numPartitions` says otherwise.
    pub fn new() -> Self {
        Self::with_partitions(std::thread::available_parallelism().map_or(1, usize::from))
    }

    /// Sources that have `partitions` partitions unless the option `numPartitions` says otherwise.
    pub fn with_partitions(partitions: usize) -> Self {
        RateProvider { parallelism: partitions.max(1) }
    }
}

impl Default for RateProvider {
    fn default() -> Self {
        Self::new()
    }
}

#[async_trait]
impl SourceProvider for RateProvider {
    fn names(&self) -> &'static [&'static str] {
        &["rate"]
    }

    fn options(&self) -> Vec<OptionSpec> {
        vec![
            OptionSpec {
                name: "rowsPerSecond",
                kind: OptionKind::Integer { min: 1 },
                default: Some("1"),
                doc: "How many rows there are for each second.",
            },
            OptionSpec {
                name: "rampUpTime",
                kind: OptionKind::Text,
                default: Some("0s"),
                doc: "How long the rate grows until it reaches rowsPerSecond; a number without a unit counts seconds.",
            },
            OptionSpec {
                name: "numPartitions",
                kind: OptionKind::Integer { min: 1 },
                default: None,
                doc: "How many partitions the rows are dealt to; by default as many as there are cores.",
            },
        ]
    }

    async fn schema(&self, request: &ReadRequest, _streaming: bool) -> Result<SchemaRef> {
        if request.schema.as_ref().is_some_and(|schema| *schema != rows::schema()) {
            return Err(no_user_schema("rate"));
        }
        RateOptions::from(&request.options, self.parallelism)?;
        Ok(rows::schema())
    }

    async fn source(&self, request: &ReadRequest, context: SourceContext) -> Result<Arc<dyn Source>> {
        let options = RateOptions::from(&request.options, self.parallelism)?;
        Ok(Arc::new(RateSource::open(options, context).await?))
    }

    async fn table(&self, _request: &ReadRequest) -> Result<Arc<dyn Table>> {
        Err::<Arc<dyn Table>, Error>(no_batch_side("rate"))
    }
}
