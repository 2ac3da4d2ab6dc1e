//! The source `socket`: lines of text from a TCP connection, for trying things out. What was read once cannot be read again.

mod buffer;
mod source;

#[cfg(test)]
mod tests;

use std::sync::Arc;

use arrow::datatypes::{DataType, Field, Schema, SchemaRef, TimeUnit};
use async_trait::async_trait;
use millstream_core::options::OptionKind;
use millstream_core::registry::{ReadRequest, SourceContext, SourceProvider};
use millstream_core::source::{Source, Table};
use millstream_core::{Error, OptionSpec, Options, Result};

pub use source::SocketSource;

use crate::rate::{count, no_batch_side, no_user_schema};

/// Bytes of lines that are held until their batch is committed.
const DEFAULT_BUFFER: u64 = 64 * 1024 * 1024;

/// Makes [`SocketSource`]s.
#[derive(Debug)]
pub struct SocketProvider {
    parallelism: usize,
}

impl SocketProvider {
    /// Sources that have a partition per core of this machine unless the option `numPartitions` says otherwise.
    pub fn new() -> Self {
        Self::with_partitions(std::thread::available_parallelism().map_or(1, usize::from))
    }

    /// Sources that have `partitions` partitions unless the option `numPartitions` says otherwise.
    pub fn with_partitions(partitions: usize) -> Self {
        SocketProvider { parallelism: partitions.max(1) }
    }
}

impl Default for SocketProvider {
    fn default() -> Self {
        Self::new()
    }
}

/// What a source was asked for.
#[derive(Clone, Debug)]
struct SocketOptions {
    host: String,
    port: u16,
    include_timestamp: bool,
    partitions: usize,
    buffer_bytes: u64,
}

impl SocketOptions {
    fn from(options: &Options, parallelism: usize) -> Result<Self> {
        let missing =
            |code: &'static str, what: &str| Error::invalid(code, format!("Set a {what} to read from with option(\"{what}\", ...)."));
        let host = options.get("host").ok_or_else(|| missing("_LEGACY_ERROR_TEMP_1295", "host"))?.to_owned();
        let port = options.get("port").ok_or_else(|| missing("_LEGACY_ERROR_TEMP_1296", "port"))?;
        let port = port.trim().parse().map_err(|error| {
            Error::invalid("NumberFormatException", format!("option 'port' is '{port}' but takes a number from 0 to 65535"))
                .caused_by(error)
        })?;
        let include_timestamp = options.bool("includeTimestamp", false).map_err(|error| {
            Error::invalid("_LEGACY_ERROR_TEMP_1297", "includeTimestamp must be set to either \"true\" or \"false\".").caused_by(error)
        })?;
        let partitions = count(options, "numPartitions", 1)?.and_then(|partitions| usize::try_from(partitions).ok());
        Ok(SocketOptions {
            host,
            port,
            include_timestamp,
            partitions: partitions.unwrap_or(parallelism),
            buffer_bytes: options.bytes("maxBufferedBytes")?.unwrap_or(DEFAULT_BUFFER),
        })
    }

    fn schema(&self) -> SchemaRef {
        let mut fields = vec![Field::new("value", DataType::Utf8, true)];
        if self.include_timestamp {
            fields.push(Field::new("timestamp", DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into())), true));
        }
        Arc::new(Schema::new(fields))
    }
}

#[async_trait]
impl SourceProvider for SocketProvider {
    fn names(&self) -> &'static [&'static str] {
        &["socket"]
    }

    fn options(&self) -> Vec<OptionSpec> {
        let spec = |name, kind, default, doc| OptionSpec { name, kind, default, doc };
        vec![
            spec("host", OptionKind::Text, None, "The host to connect to."),
            spec("port", OptionKind::Integer { min: 0 }, None, "The port to connect to."),
            spec("includeTimestamp", OptionKind::Bool, Some("false"), "Whether each line comes with the time at which it arrived."),
            spec("numPartitions", OptionKind::Integer { min: 1 }, None, "How many partitions lines are dealt to; by default one per core."),
            spec(
                "maxBufferedBytes",
                OptionKind::Bytes,
                Some("64m"),
                "How much text may wait for its batch to be committed; beyond it nothing is read from the connection (not in Spark).",
            ),
        ]
    }

    async fn schema(&self, request: &ReadRequest, _streaming: bool) -> Result<SchemaRef> {
        let schema = SocketOptions::from(&request.options, self.parallelism)?.schema();
        if request.schema.as_ref().is_some_and(|given| *given != schema) {
            return Err(no_user_schema("socket"));
        }
        tracing::warn!("The socket source should not be used for production applications! It does not support recovery.");
        Ok(schema)
    }

    async fn source(&self, request: &ReadRequest, context: SourceContext) -> Result<Arc<dyn Source>> {
        let options = SocketOptions::from(&request.options, self.parallelism)?;
        Ok(Arc::new(SocketSource::connect(options, context.clock).await?))
    }

    async fn table(&self, _request: &ReadRequest) -> Result<Arc<dyn Table>> {
        Err::<Arc<dyn Table>, Error>(no_batch_side("socket"))
    }
}
