//! Mock brokers, and what tests do to them.

use std::time::Duration;

use arrow::array::{Array, AsArray, RecordBatch};
use arrow::datatypes::{Int32Type, Int64Type};
use futures::TryStreamExt;
use millstream_core::quarantine::Discard;
use millstream_core::source::{ReadContext, Split};
use millstream_core::source_log::MemorySourceLog;
use millstream_core::{Offset, ReadLimit};
use rdkafka::message::{Header, OwnedHeaders};
use rdkafka::mocking::MockCluster;
use rdkafka::producer::{BaseProducer, BaseRecord, DefaultProducerContext, Producer};
use rdkafka::types::{RDKafkaApiKey, RDKafkaRespErr};
use uuid::Uuid;

use super::super::*;

/// The time of the machine, because the client has its own.
#[derive(Debug)]
pub(super) struct TokioClock(tokio::time::Instant);

impl TokioClock {
    pub(super) fn new() -> Arc<Self> {
        Arc::new(TokioClock(tokio::time::Instant::now()))
    }
}

#[async_trait]
impl Clock for TokioClock {
    fn now_ms(&self) -> i64 {
        1_704_067_200_000 + i64::try_from(self.0.elapsed().as_millis()).unwrap()
    }

    fn monotonic_ns(&self) -> u64 {
        u64::try_from(self.0.elapsed().as_nanos()).unwrap()
    }

    async fn sleep(&self, duration: Duration) {
        tokio::time::sleep(duration).await;
    }
}

#[derive(Debug)]
pub(super) struct CountedIds(std::sync::atomic::AtomicU64);

impl Ids for CountedIds {
    fn next(&self) -> Uuid {
        Uuid::from_u128(u128::from(self.0.fetch_add(1, std::sync::atomic::Ordering::Relaxed)))
    }
}

/// What the thread of the brokers is to do.
type Order = Box<dyn FnOnce(&MockCluster<'static, DefaultProducerContext>) + Send>;

/// Mock brokers, on the one thread that may touch them. They end with this value.
pub(super) struct Brokers {
    pub(super) servers: String,
    orders: std::sync::mpsc::SyncSender<Order>,
}

impl Brokers {
    fn start() -> Self {
        let (orders, taken) = std::sync::mpsc::sync_channel::<Order>(0);
        let (tell, told) = std::sync::mpsc::sync_channel(1);
        std::thread::spawn(move || {
            let cluster = MockCluster::new(2).unwrap();
            tell.send(cluster.bootstrap_servers()).unwrap();
            taken.iter().for_each(|order| order(&cluster));
        });
        Brokers { servers: told.recv().unwrap(), orders }
    }

    fn order(&self, order: impl FnOnce(&MockCluster<'static, DefaultProducerContext>) + Send + 'static) {
        let (tell, told) = std::sync::mpsc::sync_channel(1);
        let order: Order = Box::new(move |cluster| {
            order(cluster);
            tell.send(()).unwrap();
        });
        self.orders.send(order).unwrap();
        told.recv().unwrap();
    }

    pub(super) fn create_topic(&self, topic: &str, partitions: i32) {
        let topic = topic.to_owned();
        self.order(move |cluster| cluster.create_topic(&topic, partitions, 1).unwrap());
    }

    /// The next requests of this kind fail with these errors.
    pub(super) fn fail(&self, kind: RDKafkaApiKey, errors: &'static [RDKafkaRespErr]) {
        self.order(move |cluster| cluster.request_errors(kind, errors));
    }

    pub(super) fn fail_no_more(&self, kind: RDKafkaApiKey) {
        self.order(move |cluster| cluster.clear_request_errors(kind));
    }
}

/// A cluster of mock brokers with a producer.
pub(super) struct World {
    pub(super) brokers: Brokers,
    producer: BaseProducer,
    pub(super) log: Arc<MemorySourceLog>,
    pub(super) clock: Arc<TokioClock>,
}

impl World {
    /// A cluster with these topics and numbers of partitions.
    pub(super) fn with(topics: &[(&str, i32)]) -> Self {
        let brokers = Brokers::start();
        for (topic, partitions) in topics {
            brokers.create_topic(topic, *partitions);
        }
        let mut config = rdkafka::ClientConfig::new();
        config.set("bootstrap.servers", &brokers.servers).set("linger.ms", "0").set("partitioner", "murmur2_random");
        World { producer: config.create().unwrap(), brokers, log: Arc::default(), clock: TokioClock::new() }
    }

    /// Sends a record: key, value, time in milliseconds.
    pub(super) fn send(&self, topic: &str, partition: i32, key: Option<&str>, value: Option<&str>, ms: i64) {
        let record = BaseRecord::<str, str> {
            topic,
            partition: Some(partition),
            payload: value,
            key,
            timestamp: Some(ms),
            headers: None,
            delivery_opaque: (),
        };
        self.producer.send(record).map_err(|(error, _)| error).unwrap();
        self.producer.flush(Duration::from_secs(10)).unwrap();
    }

    /// Sends a record with headers.
    pub(super) fn send_headers(&self, topic: &str, headers: &[(&str, Option<&[u8]>)]) {
        let mut owned = OwnedHeaders::new();
        for (key, value) in headers {
            owned = owned.insert(Header { key, value: *value });
        }
        let record = BaseRecord::<str, str>::to(topic).payload("v").partition(0).headers(owned);
        self.producer.send(record).map_err(|(error, _)| error).unwrap();
        self.producer.flush(Duration::from_secs(10)).unwrap();
    }

    /// `count` records in a partition, with values `p-0`, `p-1`, … and one second between them.
    pub(super) fn fill(&self, topic: &str, partition: i32, count: i64) {
        for number in 0..count {
            let value = format!("{partition}-{number}");
            let record = BaseRecord::<str, str>::to(topic).payload(&value).partition(partition).timestamp(1000 * (number + 1));
            self.producer.send(record).map_err(|(error, _)| error).unwrap();
        }
        self.producer.flush(Duration::from_secs(10)).unwrap();
    }

    pub(super) fn request(&self, options: &[(&str, &str)]) -> ReadRequest {
        let mut all: Options = options.iter().copied().collect();
        if all.get("kafka.bootstrap.servers").is_none() {
            all.set("kafka.bootstrap.servers", self.brokers.servers.as_str());
        }
        if all.get("kafka.default.api.timeout.ms").is_none() {
            all.set("kafka.default.api.timeout.ms", "5000");
        }
        ReadRequest { options: all, ..ReadRequest::default() }
    }

    pub(super) fn provider(&self) -> KafkaSourceProvider {
        KafkaSourceProvider::new(self.clock.clone(), Arc::new(CountedIds(1.into())))
    }

    /// Opens the source as a new process would.
    pub(super) async fn source(&self, options: &[(&str, &str)]) -> Result<Arc<dyn Source>> {
        let request = self.request(options);
        self.provider().schema(&request, true).await?;
        let context = SourceContext { log: self.log.clone(), clock: self.clock.clone() };
        self.provider().source(&request, context).await
    }

    /// Reads as a batch, as partition and offset of each row.
    pub(super) async fn batch(&self, options: &[(&str, &str)]) -> Result<Vec<(i32, i64)>> {
        let request = self.request(options);
        self.provider().schema(&request, false).await?;
        let table = self.provider().table(&request).await?;
        Ok(places(&rows(&table.scan().await?).await?))
    }
}

/// The newest offset, which there must be.
pub(super) async fn latest(source: &dyn Source, start: Option<&Offset>) -> Offset {
    source.latest_offset(start, &source.read_limit()).await.unwrap().unwrap()
}

/// All rows of a range.
pub(super) async fn range(source: &dyn Source, start: Option<&Offset>, end: &Offset) -> Result<Vec<(i32, i64)>> {
    Ok(places(&rows(&source.plan(start, end).await?).await?))
}

/// All rows of splits, all columns; the splits are read at once.
pub(super) async fn rows(splits: &[Arc<dyn Split>]) -> Result<Vec<RecordBatch>> {
    let reads = splits.iter().map(|split| {
        let context = ReadContext { projection: (0..7).collect(), batch_size: 4, quarantine: Arc::new(Discard) };
        split.read(context).try_collect::<Vec<_>>()
    });
    Ok(futures::future::try_join_all(reads).await?.concat())
}

/// Partition and offset of each row, sorted.
pub(super) fn places(batches: &[RecordBatch]) -> Vec<(i32, i64)> {
    let mut places = Vec::new();
    for batch in batches {
        let partitions = batch.column_by_name("partition").unwrap().as_primitive::<Int32Type>();
        let offsets = batch.column_by_name("offset").unwrap().as_primitive::<Int64Type>();
        places.extend(partitions.values().iter().copied().zip(offsets.values().iter().copied()));
    }
    places.sort_unstable();
    places
}

/// The values of a binary column as text.
pub(super) fn texts(batches: &[RecordBatch], column: &str) -> Vec<Option<String>> {
    let of = |batch: &RecordBatch| -> Vec<Option<String>> {
        let values = batch.column_by_name(column).unwrap().as_binary::<i32>().clone();
        (0..values.len()).map(|row| values.is_valid(row).then(|| String::from_utf8(values.value(row).to_vec()).unwrap())).collect()
    };
    batches.iter().flat_map(of).collect()
}

/// Partitions and offsets from `from` up to and without `until`.
pub(super) fn all(ranges: &[(i32, i64, i64)]) -> Vec<(i32, i64)> {
    ranges.iter().flat_map(|(partition, from, until)| (*from..*until).map(|offset| (*partition, offset))).collect()
}

/// Everything there is.
pub(super) const ALL: ReadLimit = ReadLimit::AllAvailable;
