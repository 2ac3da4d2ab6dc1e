use std::io::Write;

use arrow::array::AsArray;
use futures::TryStreamExt;
use millstream_core::quarantine::Quarantine;
use object_store::memory::InMemory;
use object_store::{ObjectStore, ObjectStoreExt};
use parking_lot::Mutex;

use super::*;

#[derive(Default)]
struct Kept(Mutex<Vec<BadRecord>>);

impl Quarantine for Kept {
    fn put(&self, record: BadRecord) {
        self.0.lock().push(record);
    }
}

async fn file(name: &str, content: Vec<u8>) -> FileRef {
    let store = Arc::new(InMemory::new());
    let path = object_store::path::Path::from(name);
    store.put(&path, content.clone().into()).await.unwrap();
    FileRef { store: store as Arc<dyn ObjectStore>, path, url: format!("memory:///{name}"), size: content.len() as u64, modified_ms: 0 }
}

async fn read(name: &str, content: &[u8], options: Options) -> (Vec<String>, Vec<BadRecord>) {
    let kept = Arc::new(Kept::default());
    let reader = Text.reader(Text.fixed_schema().unwrap(), &options).unwrap();
    let context = ReadContext { projection: vec![0], batch_size: 2, quarantine: kept.clone() };
    let batches: Vec<RecordBatch> = reader.read(file(name, content.to_vec()).await, context).try_collect().await.unwrap();
    let rows =
        batches.iter().flat_map(|batch| batch.column(0).as_string::<i32>().iter().map(|v| v.unwrap().to_owned()).collect::<Vec<_>>());
    (rows.collect(), std::mem::take(&mut kept.0.lock()))
}

#[tokio::test]
async fn lines_are_rows_and_the_last_needs_no_end() {
    let (rows, bad) = read("a.txt", b"one\r\n\ntwo\rthree", Options::new()).await;
    assert_eq!(rows, ["one", "", "two", "three"]);
    assert!(bad.is_empty());
    assert_eq!(read("a.txt", b"a|b|", Options::new().with("lineSep", "|")).await.0, ["a", "b"]);
    assert_eq!(read("a.txt", b"", Options::new()).await.0, [""; 0]);
}

#[tokio::test]
async fn whole_text_is_one_row_per_file() {
    assert_eq!(read("a.txt", b"one\ntwo\n", Options::new().with("wholetext", "true")).await.0, ["one\ntwo\n"]);
}

#[tokio::test]
async fn encodings_and_compression() {
    assert_eq!(read("a.txt", b"h\xe9\n", Options::new().with("encoding", "ISO-8859-1")).await.0, ["hé"]);
    assert_eq!(read("a.txt", b"\xff\xfea\0\n\0b\0", Options::new().with("encoding", "UTF-16")).await.0, ["a", "b"]);
    let mut gz = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gz.write_all(b"x\ny\n").unwrap();
    assert_eq!(read("a.txt.gz", &gz.finish().unwrap(), Options::new()).await.0, ["x", "y"]);
}

#[tokio::test]
async fn bytes_that_are_not_utf8_are_kept_and_reported() {
    let (rows, bad) = read("a.txt", b"ok\n\xff\xfe\nend\n", Options::new()).await;
    assert_eq!(rows, ["ok", "\u{10ffff}\u{10fffe}", "end"]);
    assert_eq!(millstream_core::raw_text::to_bytes(&rows[1]), b"\xff\xfe".as_slice());
    assert_eq!((bad[0].reason.as_str(), bad[0].position, bad[0].length), ("INVALID_UTF8", Some(3), Some(2)));
}

#[tokio::test]
async fn oversized_lines_are_skipped_and_reported() {
    let text = format!("a\n{}\nb\n", "x".repeat(100));
    let (rows, bad) = read("a.txt", text.as_bytes(), Options::new().with("maxRecordBytes", "10")).await;
    assert_eq!(rows, ["a", "b"]);
    assert_eq!((bad[0].reason.as_str(), bad[0].position, bad[0].length), ("RECORD_TOO_LARGE", Some(2), Some(100)));
}

#[tokio::test]
async fn an_empty_projection_still_counts_rows() {
    let reader = Text.reader(Text.fixed_schema().unwrap(), &Options::new()).unwrap();
    let context = ReadContext { projection: vec![], batch_size: 100, quarantine: Arc::new(Kept::default()) };
    let batches: Vec<RecordBatch> = reader.read(file("a.txt", b"a\nb\n".to_vec()).await, context).try_collect().await.unwrap();
    assert_eq!((batches.len(), batches[0].num_rows(), batches[0].num_columns()), (1, 2, 0));
}

#[test]
fn only_one_string_column_is_accepted() {
    let int = Schema::new(vec![Field::new("a", DataType::Int32, true)]);
    assert_eq!(Text.reader(Arc::new(int), &Options::new()).unwrap_err().code(), "UNSUPPORTED_DATA_TYPE_FOR_DATASOURCE");
    let two = Schema::new(vec![Field::new("a", DataType::Utf8, true), Field::new("b", DataType::Utf8, true)]);
    assert!(Text.reader(Arc::new(two), &Options::new()).is_err());
}
