use std::sync::Arc;

use arrow::array::{Int64Array, RecordBatch, StringArray};
use async_trait::async_trait;
use futures::TryStreamExt;
use millstream_core::Result;
use millstream_core::conformance::sink::{SinkFactory, all, schema};
use millstream_core::quarantine::Discard;
use millstream_core::registry::{ReadRequest, SinkProvider, SourceProvider, WriteRequest};
use millstream_core::sink::{BatchInfo, OutputMode, Sink};
use millstream_core::source::{ReadContext, Table};
use uuid::Uuid;

use super::*;

fn named(name: &str) -> WriteRequest {
    WriteRequest { query_name: Some(name.to_owned()), ..WriteRequest::default() }
}

#[derive(Default)]
struct Factory(MemoryTables);

#[async_trait]
impl SinkFactory for Factory {
    async fn open(&self) -> Result<Arc<dyn Sink>> {
        MemoryProvider::new(self.0.clone()).sink(&named("out")).await
    }

    async fn visible(&self) -> Result<Vec<RecordBatch>> {
        Ok(self.0.get("out").map(|table| table.rows()).unwrap_or_default())
    }

    fn survives_restart(&self) -> bool {
        false
    }
}

#[tokio::test]
async fn conforms() {
    all(Factory::default).await.unwrap();
}

fn rows(pairs: &[(&str, i64)]) -> RecordBatch {
    let keys = Arc::new(pairs.iter().map(|(key, _)| Some(*key)).collect::<StringArray>());
    let values = Arc::new(pairs.iter().map(|(_, value)| Some(*value)).collect::<Int64Array>());
    RecordBatch::try_new(schema(), vec![keys, values]).unwrap()
}

async fn put(sink: &dyn Sink, batch_id: u64, mode: OutputMode, pairs: &[(&str, i64)]) {
    let batch = BatchInfo { query_id: Uuid::nil(), batch_id, mode, schema: schema(), timestamp_ms: 0 };
    let mut writer = sink.writer(&batch, 0).await.unwrap();
    writer.write(rows(pairs)).await.unwrap();
    let part = writer.finish().await.unwrap();
    assert_eq!(sink.commit(&batch, vec![part]).await.unwrap().rows, pairs.len() as u64);
}

fn count(table: &MemoryTable) -> usize {
    table.rows().iter().map(RecordBatch::num_rows).sum()
}

#[tokio::test]
async fn complete_replaces_and_update_adds() {
    let tables = MemoryTables::new();
    let sink = MemoryProvider::new(tables.clone()).sink(&named("Out")).await.unwrap();
    let table = tables.get("OUT").unwrap();
    put(sink.as_ref(), 0, OutputMode::Complete, &[("a", 1), ("b", 1)]).await;
    put(sink.as_ref(), 1, OutputMode::Complete, &[("a", 2)]).await;
    assert_eq!(table.rows(), [rows(&[("a", 2)])]);
    put(sink.as_ref(), 2, OutputMode::Update, &[("a", 3)]).await;
    assert_eq!(count(&table), 2);
    assert!(sink.resumes(OutputMode::Complete) && !sink.resumes(OutputMode::Append) && !sink.resumes(OutputMode::Update));
}

#[tokio::test]
async fn a_query_of_the_same_name_begins_an_empty_table() {
    let tables = MemoryTables::new();
    let provider = MemoryProvider::new(tables.clone());
    let first = provider.sink(&named("q")).await.unwrap();
    put(first.as_ref(), 0, OutputMode::Append, &[("a", 1)]).await;
    let second = provider.sink(&named("Q")).await.unwrap();
    second.prepare(&schema(), OutputMode::Append).await.unwrap();
    assert_eq!(tables.names(), ["q"]);
    assert_eq!(count(&tables.get("q").unwrap()), 0);
    assert_eq!(tables.get("q").unwrap().schema(), schema());
}

#[tokio::test]
async fn a_sink_without_a_name_is_refused() {
    let error = MemoryProvider::new(MemoryTables::new()).sink(&WriteRequest::default()).await.unwrap_err();
    assert_eq!(error.code(), "_LEGACY_ERROR_TEMP_1194");
}

#[tokio::test]
async fn the_table_reads_with_any_projection() {
    let tables = MemoryTables::new();
    let sink = MemoryProvider::new(tables.clone()).sink(&named("q")).await.unwrap();
    put(sink.as_ref(), 0, OutputMode::Append, &[("a", 1), ("b", 2)]).await;
    let splits = tables.get("q").unwrap().scan().await.unwrap();
    for projection in [vec![1, 0], vec![]] {
        let context = ReadContext { projection: projection.clone(), batch_size: 10, quarantine: Arc::new(Discard) };
        let batches: Vec<RecordBatch> = splits[0].read(context).try_collect().await.unwrap();
        assert_eq!(batches[0].num_rows(), 2);
        assert_eq!(batches[0].num_columns(), projection.len());
    }
}

#[tokio::test]
async fn tables_are_found_by_the_query_name() {
    let provider = MemoryProvider::new(MemoryTables::new());
    let sink = provider.sink(&named("out")).await.unwrap();
    sink.prepare(&schema(), OutputMode::Append).await.unwrap();
    let request = |name: &str| ReadRequest { paths: vec![name.to_owned()], ..ReadRequest::default() };
    assert_eq!(SourceProvider::schema(&provider, &request("OUT"), false).await.unwrap(), schema());
    assert_eq!(provider.table(&request("out")).await.unwrap().schema(), schema());
    assert_eq!(provider.table(&request("in")).await.unwrap_err().code(), "TABLE_OR_VIEW_NOT_FOUND");
}
