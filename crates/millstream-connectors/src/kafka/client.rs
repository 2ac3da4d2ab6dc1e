//! Clients of librdkafka: how they are set up, heard, and given up without blocking anybody.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use millstream_core::{Error, ErrorKind, Result};
use parking_lot::Mutex;
use rdkafka::client::ClientContext;
use rdkafka::config::{FromClientConfigAndContext, RDKafkaLogLevel};
use rdkafka::consumer::{BaseConsumer, ConsumerContext};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::{ClientConfig, Statistics};

/// Hears what a client says beside its answers.
#[derive(Debug, Default)]
pub(super) struct Listener {
    last_error: Mutex<Option<String>>,
}

impl Listener {
    /// The last complaint: a refused connection, a failed login. It tells why questions time out.
    pub(super) fn last_error(&self) -> Option<String> {
        self.last_error.lock().clone()
    }
}

impl ClientContext for Listener {
    fn log(&self, level: RDKafkaLogLevel, facility: &str, message: &str) {
        match level {
            RDKafkaLogLevel::Emerg | RDKafkaLogLevel::Alert | RDKafkaLogLevel::Critical | RDKafkaLogLevel::Error => {
                tracing::warn!(target: "millstream::kafka", "{facility}: {message}");
            }
            _ => tracing::debug!(target: "millstream::kafka", "{facility}: {message}"),
        }
    }

    fn stats(&self, _statistics: Statistics) {}

    fn error(&self, error: KafkaError, reason: &str) {
        tracing::debug!(target: "millstream::kafka", "{error}: {reason}");
        // That all brokers are down is the consequence of what was said before.
        if error.rdkafka_error_code() != Some(RDKafkaErrorCode::AllBrokersDown) {
            *self.last_error.lock() = Some(reason.to_owned());
        }
    }
}

impl ConsumerContext for Listener {}

/// A consumer with a thread of its own that hears its events and, in the end, closes it: closing waits for the client's own threads.
pub(super) struct Client {
    consumer: Arc<BaseConsumer<Listener>>,
    closing: Arc<AtomicBool>,
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Client")
    }
}

impl Client {
    /// Makes a client. Blocks for milliseconds.
    ///
    /// # Errors
    /// `ConfigException` when settings contradict each other, `INTERNAL_ERROR` when the system gives no thread.
    pub(super) fn open(config: &ClientConfig) -> Result<Self> {
        let consumer = BaseConsumer::from_config_and_context(config, Listener::default()).map_err(misconfigured)?;
        let (consumer, closing) = (Arc::new(consumer), Arc::new(AtomicBool::new(false)));
        let (held, told) = (consumer.clone(), closing.clone());
        let thread = std::thread::Builder::new().name("kafka-events".to_owned()).spawn(move || serve(&held, &told));
        thread.map_err(|error| Error::internal("the system gives no thread for a Kafka client").caused_by(error))?;
        Ok(Client { consumer, closing })
    }

    pub(super) fn consumer(&self) -> &Arc<BaseConsumer<Listener>> {
        &self.consumer
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        self.closing.store(true, Ordering::Release);
    }
}

/// Serves events until the client is given up and nobody else holds it; then its last owner is this thread.
fn serve(consumer: &Arc<BaseConsumer<Listener>>, closing: &AtomicBool) {
    loop {
        let is_closing = closing.load(Ordering::Acquire);
        if is_closing && Arc::strong_count(consumer) == 1 {
            return;
        }
        // Records come through the queues of partitions; here are only events, whose errors the listener has heard.
        drop(consumer.poll(Duration::from_millis(if is_closing { 5 } else { 200 })));
    }
}

/// Settings that the client refuses.
pub(super) fn misconfigured(error: KafkaError) -> Error {
    Error::new(ErrorKind::Invalid, "ConfigException", "the Kafka client refuses its settings: correct the options that begin with 'kafka.'")
        .caused_by(error)
}
