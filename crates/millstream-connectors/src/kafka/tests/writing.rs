use arrow::array::{Array, AsArray, Int32Array, Int64Array, RecordBatch, StringArray};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use millstream_core::conformance::sink::{SinkFactory, all as suite};
use millstream_core::registry::{SinkProvider, WriteRequest};
use millstream_core::sink::{BatchInfo, Guarantee, OutputMode, Sink};
use uuid::Uuid;

use super::super::*;
use super::world::{World, rows, texts};

impl World {
    async fn sink(&self, options: &[(&str, &str)]) -> Arc<dyn Sink> {
        let options = self.request(options).options;
        KafkaSinkProvider.sink(&WriteRequest { options, ..WriteRequest::default() }).await.unwrap()
    }

    async fn read(&self, topic: &str) -> Vec<RecordBatch> {
        let request = self.request(&[("subscribe", topic), ("startingOffsets", "earliest")]);
        let table = self.provider().table(&request).await.unwrap();
        rows(&table.scan().await.unwrap()).await.unwrap()
    }
}

/// The suite writes `k string, v long`: these become key and value.
#[derive(Debug)]
struct KeyAndValue(Arc<dyn Sink>);

fn as_record(batch: &RecordBatch) -> RecordBatch {
    let values = arrow::compute::cast(batch.column(1), &DataType::Utf8).unwrap();
    RecordBatch::try_new(record_schema(), vec![batch.column(0).clone(), values]).unwrap()
}

fn record_schema() -> SchemaRef {
    Arc::new(Schema::new(vec![Field::new("key", DataType::Utf8, true), Field::new("value", DataType::Utf8, true)]))
}

struct Mapped(Box<dyn millstream_core::sink::PartWriter>);

#[async_trait]
impl millstream_core::sink::PartWriter for Mapped {
    async fn write(&mut self, rows: RecordBatch) -> Result<()> {
        self.0.write(as_record(&rows)).await
    }

    async fn finish(self: Box<Self>) -> Result<millstream_core::sink::Part> {
        self.0.finish().await
    }

    async fn abort(self: Box<Self>) {
        self.0.abort().await;
    }
}

#[async_trait]
impl Sink for KeyAndValue {
    fn description(&self) -> String {
        self.0.description()
    }

    fn guarantee(&self) -> Guarantee {
        self.0.guarantee()
    }

    fn supports(&self, mode: OutputMode) -> bool {
        self.0.supports(mode)
    }

    async fn prepare(&self, _schema: &SchemaRef, mode: OutputMode) -> Result<()> {
        self.0.prepare(&record_schema(), mode).await
    }

    async fn admit(&self, batch: &BatchInfo) -> Result<millstream_core::sink::Admission> {
        self.0.admit(batch).await
    }

    async fn writer(&self, batch: &BatchInfo, partition: usize) -> Result<Box<dyn millstream_core::sink::PartWriter>> {
        let batch = BatchInfo { schema: record_schema(), ..batch.clone() };
        Ok(Box::new(Mapped(self.0.writer(&batch, partition).await?)))
    }

    async fn commit(&self, batch: &BatchInfo, parts: Vec<millstream_core::sink::Part>) -> Result<millstream_core::sink::Committed> {
        self.0.commit(batch, parts).await
    }

    async fn abort(&self, batch: &BatchInfo, parts: Vec<millstream_core::sink::Part>) {
        self.0.abort(batch, parts).await;
    }
}

struct Factory {
    world: World,
}

#[async_trait]
impl SinkFactory for Factory {
    async fn open(&self) -> Result<Arc<dyn Sink>> {
        Ok(Arc::new(KeyAndValue(self.world.sink(&[("topic", "out"), ("batchHeader", "batch")]).await)))
    }

    async fn visible(&self) -> Result<Vec<RecordBatch>> {
        let seen = self.world.read("out").await;
        let (keys, values) = (texts(&seen, "key"), texts(&seen, "value"));
        let values: Int64Array = values.iter().map(|value| value.as_ref().map(|value| value.parse().unwrap())).collect();
        Ok(vec![
            RecordBatch::try_new(millstream_core::conformance::sink::schema(), vec![Arc::new(StringArray::from(keys)), Arc::new(values)])
                .unwrap(),
        ])
    }

    /// Without transactions a new process cannot know what was sent.
    fn survives_restart(&self) -> bool {
        false
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn conforms() {
    suite(|| Factory { world: World::with(&[("out", 2)]) }).await.unwrap();
}

fn info(batch_id: u64, schema: &SchemaRef) -> BatchInfo {
    BatchInfo { query_id: Uuid::from_u128(7), batch_id, mode: OutputMode::Append, schema: schema.clone(), timestamp_ms: 0 }
}

async fn send(sink: &dyn Sink, batch_id: u64, rows: RecordBatch) -> Result<u64> {
    let batch = info(batch_id, &rows.schema());
    sink.prepare(&rows.schema(), OutputMode::Append).await?;
    let mut writer = sink.writer(&batch, 0).await?;
    writer.write(rows).await?;
    let part = writer.finish().await?;
    Ok(sink.commit(&batch, vec![part]).await?.rows)
}

#[tokio::test(flavor = "multi_thread")]
async fn columns_say_topic_partition_key_and_value_and_a_keys_partition_is_javas() {
    let world = World::with(&[("a", 4), ("b", 4)]);
    let sink = world.sink(&[]).await;
    let schema = Arc::new(Schema::new(vec![
        Field::new("topic", DataType::Utf8, true),
        Field::new("key", DataType::Utf8, true),
        Field::new("value", DataType::Utf8, true),
        Field::new("partition", DataType::Int32, true),
    ]));
    let rows = RecordBatch::try_new(
        schema,
        vec![
            Arc::new(StringArray::from(vec!["a", "a", "b"])),
            Arc::new(StringArray::from(vec![Some("key-1"), None, None])),
            Arc::new(StringArray::from(vec![Some("x"), Some("y"), None])),
            Arc::new(Int32Array::from(vec![None, Some(3), Some(1)])),
        ],
    )
    .unwrap();
    assert_eq!(send(sink.as_ref(), 0, rows).await.unwrap(), 3);
    let seen = world.read("a,b").await;
    let mut found: Vec<(String, i32, Option<String>, Option<String>)> = Vec::new();
    for batch in &seen {
        let one = std::slice::from_ref(batch);
        let (keys, values) = (texts(one, "key"), texts(one, "value"));
        for row in 0..batch.num_rows() {
            let topic = batch.column(2).as_string::<i32>().value(row).to_owned();
            let partition = batch.column(3).as_primitive::<arrow::datatypes::Int32Type>().value(row);
            found.push((topic, partition, keys[row].clone(), values[row].clone()));
        }
    }
    found.sort();
    let text = |text: &str| Some(text.to_owned());
    // Java's murmur2 of "key-1" is 0x…: partition 1 of 4, computed with Kafka's own producer.
    assert_eq!(found.len(), 3);
    assert!(found.contains(&("a".to_owned(), 3, None, text("y"))));
    assert!(found.contains(&("b".to_owned(), 1, None, None)));
    let keyed = found.iter().find(|(.., value)| *value == text("x")).unwrap();
    assert_eq!(keyed.1, java_partition(b"key-1", 4));
}

/// The partition that Kafka's Java client gives to a key.
fn java_partition(key: &[u8], partitions: i32) -> i32 {
    let (m, mut h) = (0x5bd1_e995_u32, 0x9747_b28c_u32 ^ u32::try_from(key.len()).unwrap());
    let mut chunks = key.chunks_exact(4);
    for chunk in &mut chunks {
        let mut k = u32::from_le_bytes(chunk.try_into().unwrap()).wrapping_mul(m);
        k ^= k >> 24;
        h = h.wrapping_mul(m) ^ k.wrapping_mul(m);
    }
    let rest = chunks.remainder();
    if !rest.is_empty() {
        for (index, byte) in rest.iter().enumerate() {
            h ^= u32::from(*byte) << (8 * index);
        }
        h = h.wrapping_mul(m);
    }
    h ^= h >> 13;
    h = h.wrapping_mul(m);
    h ^= h >> 15;
    i32::try_from(h & 0x7fff_ffff).unwrap() % partitions
}

#[tokio::test(flavor = "multi_thread")]
async fn a_row_without_a_topic_fails_before_anything_is_sent() {
    let world = World::with(&[("a", 1)]);
    let sink = world.sink(&[]).await;
    let schema = Arc::new(Schema::new(vec![Field::new("topic", DataType::Utf8, true), Field::new("value", DataType::Utf8, true)]));
    let topics = StringArray::from(vec![Some("a"), None]);
    let rows = RecordBatch::try_new(schema, vec![Arc::new(topics), Arc::new(StringArray::from(vec!["x", "y"]))]).unwrap();
    assert_eq!(send(sink.as_ref(), 0, rows).await.unwrap_err().code(), "KAFKA_NULL_TOPIC_IN_DATA");
    assert!(world.read("a").await.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn options_of_the_sink_are_refused_when_the_query_runs() {
    let world = World::with(&[("a", 1)]);
    let schema = record_schema();
    for (options, code) in [
        (vec![("topic", "a"), ("kafka.key.serializer", "x")], "IllegalArgumentException"),
        (vec![("topic", "a"), ("kafka.value.serializer", "x")], "IllegalArgumentException"),
        (vec![("topic", "a"), ("kafka.transactional.id", "x")], "IllegalArgumentException"),
        (vec![("transactional", "true")], "IllegalArgumentException"),
        (vec![("topic", "a"), ("kafka.bootstrap.servers", "")], "SparkException"),
        (vec![], "_LEGACY_ERROR_TEMP_3080"),
    ] {
        let sink = world.sink(&options).await;
        assert_eq!(sink.prepare(&schema, OutputMode::Update).await.unwrap_err().code(), code, "{options:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_batch_that_is_not_taken_is_an_error_and_another_attempt_can_succeed() {
    use rdkafka::types::{RDKafkaApiKey, RDKafkaRespErr};
    let world = World::with(&[("a", 1)]);
    let rows = || {
        let columns: Vec<Arc<dyn Array>> = vec![Arc::new(StringArray::from(vec!["k"])), Arc::new(StringArray::from(vec!["v"]))];
        RecordBatch::try_new(record_schema(), columns).unwrap()
    };
    let sink = world.sink(&[("topic", "a")]).await;
    const REFUSED: RDKafkaRespErr = RDKafkaRespErr::RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED;
    world.brokers.fail(RDKafkaApiKey::Produce, &[REFUSED, REFUSED]);
    let error = send(sink.as_ref(), 0, rows()).await.unwrap_err();
    assert_eq!((error.code(), error.kind()), ("TopicAuthorizationException", millstream_core::ErrorKind::SinkUnavailable));
    world.brokers.fail_no_more(RDKafkaApiKey::Produce);
    assert_eq!(send(sink.as_ref(), 0, rows()).await.unwrap(), 1);
    assert_eq!(texts(&world.read("a").await, "value"), [Some("v".to_owned())]);
}
