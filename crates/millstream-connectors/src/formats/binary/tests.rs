use super::super::reading::{local, read_with, remote};
use super::*;

fn reader() -> Arc<dyn FileReader> {
    BinaryFile.reader(BinaryFile.fixed_schema().unwrap(), &Options::new()).unwrap()
}

#[tokio::test]
async fn a_file_is_one_row() {
    let file = FileRef { modified_ms: 1_704_164_645_678, ..remote("x y.bin", &[0, 1, 255]).await };
    let outcome = read_with(&reader(), file, &[0, 1, 2, 3], 1000).await;
    assert_eq!(outcome.all_rows(), ["memory:///x y.bin | 2024-01-02T03:04:05.678Z | 3 | 0001ff"]);
}

#[tokio::test]
async fn what_is_not_asked_for_is_not_read() {
    let folder = tempfile::tempdir().unwrap();
    let file = local(folder.path(), "a.bin", b"12345");
    std::fs::remove_file(folder.path().join("a.bin")).unwrap();
    assert_eq!(read_with(&reader(), file.clone(), &[2], 1000).await.all_rows(), ["5"]);
    let counted = read_with(&reader(), file.clone(), &[], 1000).await;
    assert_eq!(counted.batches.iter().map(RecordBatch::num_rows).sum::<usize>(), 1);
    let outcome = read_with(&reader(), file, &[3], 1000).await;
    assert_eq!(outcome.error.unwrap().code(), "FAILED_READ_FILE.FILE_NOT_EXIST");
}

#[test]
fn another_schema_is_refused() {
    let fixed = BinaryFile.fixed_schema().unwrap();
    for columns in [vec![3], vec![0, 1, 2], vec![1, 0, 2, 3]] {
        let schema = Arc::new(fixed.project(&columns).unwrap());
        assert!(BinaryFile.reader(schema, &Options::new()).is_err(), "{columns:?}");
    }
}
