//! Kafka: topics as streams, as tables, and as a sink.
//!
//! Guarantees are in `docs/kafka.md`, the reasons in `docs/adr/0012-kafka.md`. Begin at `source.rs`, and follow a range through `ranges.rs`
//! (which offsets), `readers.rs` (which consumer) and `split.rs` (reading it whole).

mod client;
mod cluster;
mod columns;
mod config;
mod errors;
mod options;
mod positions;
mod producer;
mod ranges;
mod readers;
mod resolve;
mod rows;
mod sink;
mod source;
mod split;
mod staging;
mod table;

#[cfg(test)]
mod tests;

use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use async_trait::async_trait;
use millstream_core::registry::{ReadRequest, SourceContext, SourceProvider};
use millstream_core::source::{Source, Table};
use millstream_core::{Clock, Error, Ids, OptionSpec, Options, Result};

use client::Client;
use cluster::Cluster;
use config::Settings;
use options::SourceOptions;
use readers::Readers;
pub use sink::{KafkaSink, KafkaSinkProvider};
pub use source::KafkaSource;
use split::Reading;
pub use table::KafkaTable;

/// Makes [`KafkaSource`]s and [`KafkaTable`]s.
#[derive(Debug)]
pub struct KafkaSourceProvider {
    clock: Arc<dyn Clock>,
    ids: Arc<dyn Ids>,
    parallelism: usize,
}

impl KafkaSourceProvider {
    /// Sources that deal partitions to as many consumers as this machine has cores, at most four. Batch reads use `clock`.
    pub fn new(clock: Arc<dyn Clock>, ids: Arc<dyn Ids>) -> Self {
        let parallelism = std::thread::available_parallelism().map_or(1, usize::from).min(4);
        KafkaSourceProvider { clock, ids, parallelism }
    }

    /// Opens the clients of one reader.
    async fn reading(&self, options: &SourceOptions, given: &Options, clock: Arc<dyn Clock>) -> Result<Reading> {
        let settings = Settings::from(given)?;
        let group = match settings.get("group.id") {
            Some(group) => {
                tracing::warn!(group, "kafka.group.id is set: use it for one query only, others of the same group interfere");
                group.to_owned()
            }
            None => format!("{}-{}", options.group_prefix, self.ids.next()),
        };
        let config = settings.over(&reader_defaults(&group));
        let cluster = cluster(config.clone(), clock.clone(), &settings, options).await?;
        Ok(Reading {
            schema: rows::schema(options.include_headers),
            cluster: Arc::new(cluster),
            readers: Arc::new(Readers::new(config, self.parallelism)),
            clock,
            fail_on_data_loss: options.fail_on_data_loss,
            poll_timeout: options.poll_timeout,
        })
    }
}

/// A client for questions.
async fn cluster(config: rdkafka::ClientConfig, clock: Arc<dyn Clock>, settings: &Settings, options: &SourceOptions) -> Result<Cluster> {
    let opening = tokio::task::spawn_blocking(move || Client::open(&config));
    let client = opening.await.map_err(|error| Error::internal("opening a Kafka client ended early").caused_by(error))??;
    Ok(Cluster::new(client, clock, settings.patience, (options.retries, options.retry_interval)))
}

/// What a reader needs. The first five differ from what librdkafka does by itself: it would skip to the end when an offset is gone, commit
/// offsets, hide records of open transactions and believe damaged ones.
fn reader_defaults(group: &str) -> [(&'static str, &str); 13] {
    [
        ("auto.offset.reset", "error"),
        ("enable.auto.commit", "false"),
        ("enable.auto.offset.store", "false"),
        ("isolation.level", "read_uncommitted"),
        ("check.crcs", "true"),
        ("enable.partition.eof", "true"),
        ("allow.auto.create.topics", "false"),
        ("group.id", group),
        // The end of a log is told with the answer to a fetch, and a reader that was full fetches again after a pause.
        ("fetch.wait.max.ms", "100"),
        ("fetch.queue.backoff.ms", "10"),
        ("fetch.error.backoff.ms", "50"),
        ("reconnect.backoff.max.ms", "1000"),
        ("queued.max.messages.kbytes", "16384"),
    ]
}

#[async_trait]
impl SourceProvider for KafkaSourceProvider {
    fn names(&self) -> &'static [&'static str] {
        &["kafka"]
    }

    fn options(&self) -> Vec<OptionSpec> {
        options::SOURCE.to_vec()
    }

    async fn schema(&self, request: &ReadRequest, streaming: bool) -> Result<SchemaRef> {
        options::check(&request.options, streaming)?;
        let headers = request.options.bool("includeHeaders", false);
        let schema = rows::schema(headers.map_err(|error| crate::rate::illegal_argument(error.message().to_owned()))?);
        match &request.schema {
            Some(given) if given.fields() != schema.fields() => Err(fixed_schema(streaming)),
            _ => Ok(schema),
        }
    }

    async fn source(&self, request: &ReadRequest, context: SourceContext) -> Result<Arc<dyn Source>> {
        let options = SourceOptions::from(&request.options, true)?;
        let reading = self.reading(&options, &request.options, context.clock.clone()).await?;
        let commits = match &options.commit_group {
            Some(group) => {
                let settings = Settings::from(&request.options)?;
                let mut config = settings.over(&reader_defaults(group));
                config.set("group.id", group);
                Some(cluster(config, context.clock.clone(), &settings, &options).await?)
            }
            None => None,
        };
        Ok(Arc::new(KafkaSource::new(options, reading, commits, context.log)))
    }

    async fn table(&self, request: &ReadRequest) -> Result<Arc<dyn Table>> {
        let options = SourceOptions::from(&request.options, false)?;
        let reading = self.reading(&options, &request.options, self.clock.clone()).await?;
        Ok(Arc::new(KafkaTable::new(options, reading)))
    }
}

fn fixed_schema(streaming: bool) -> Error {
    if streaming {
        let message = "requirement failed: Kafka source has a fixed schema and cannot be set with a custom one: leave the schema out";
        return crate::rate::illegal_argument(message);
    }
    let message = "The user-specified schema doesn't match the actual schema of Kafka's records: leave the schema out";
    Error::invalid("USER_SPECIFIED_AND_ACTUAL_SCHEMA_MISMATCH", message).with_sqlstate("42K03")
}
