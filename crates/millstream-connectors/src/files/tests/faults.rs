//! Files that are missing, unreadable or hold bad records.

use arrow::array::StringArray;
use futures::StreamExt;
use millstream_core::source::BatchStream;
use millstream_core::{Error, ErrorKind, OptionSpec};

use super::*;
use crate::formats::{FileReader, FileRef};

/// Lines, until one says what goes wrong.
#[derive(Clone, Debug)]
struct Script;

#[async_trait]
impl FileFormat for Script {
    fn names(&self) -> &'static [&'static str] {
        &["script"]
    }

    fn options(&self) -> Vec<OptionSpec> {
        vec![]
    }

    async fn infer(&self, _: &[FileRef], _: &Options) -> Result<SchemaRef> {
        Ok(schema(&[]))
    }

    fn reader(&self, _: SchemaRef, _: &Options) -> Result<Arc<dyn FileReader>> {
        Ok(Arc::new(Script))
    }
}

impl FileReader for Script {
    fn read(&self, file: FileRef, _: ReadContext) -> BatchStream {
        let reading = async move {
            let gone = |error| Error::new(ErrorKind::SourceUnavailable, "READ_FAILED", "cannot open").caused_by(error);
            let bytes = file.store.get(&file.path).await.map_err(gone)?.bytes().await.map_err(gone)?;
            let lines: Vec<String> = String::from_utf8_lossy(&bytes).lines().map(str::to_owned).collect();
            Ok(futures::stream::iter(lines.into_iter().map(line)))
        };
        futures::stream::once(reading).try_flatten().boxed()
    }
}

fn line(line: String) -> Result<RecordBatch> {
    match line.as_str() {
        "corrupt" => Err(Error::new(ErrorKind::BadRecord, "FAILED_READ_FILE.NO_HINT", "no such magic")),
        "mismatch" => Err(Error::new(ErrorKind::SchemaMismatch, "FAILED_READ_FILE.PARQUET_COLUMN_DATA_TYPE_MISMATCH", "other types")),
        "io" => Err(Error::new(ErrorKind::SourceUnavailable, "FAILED_READ_FILE.NO_HINT", "the network is down")),
        "failfast" => Err(Error::new(ErrorKind::BadRecord, "MALFORMED_RECORD_IN_PARSING.WITHOUT_SUGGESTION", "a bad record")),
        text => Ok(RecordBatch::try_new(schema(&[]), vec![Arc::new(StringArray::from(vec![text]))]).unwrap()),
    }
}

fn script(text: &str) -> World {
    let world = World { format: Arc::new(Script), ..World::new() };
    world.put("0", "before", 0);
    world.put("1 bad", text, 1);
    world.put("2", "after", 2);
    world
}

async fn read(world: &World, options: &[(&str, &str)]) -> (Result<Vec<String>>, Vec<(String, String)>) {
    let mut request = world.request("in", options);
    request.schema = Some(schema(&[]));
    let mut query = Query::new(world.open_with(request, new_log()).await.unwrap());
    let rows = query.try_batch(&["value"]).await.map(Option::unwrap_or_default);
    (rows, query.quarantine.reasons())
}

#[tokio::test]
async fn an_unreadable_file_is_an_error_that_names_it() {
    for what in ["corrupt", "mismatch", "io"] {
        let (rows, reasons) = read(&script(&format!("kept\n{what}\nlost")), &[]).await;
        let error = rows.unwrap_err();
        assert!(error.message().contains("/in/1%20bad"), "{error}");
        assert!(reasons.is_empty());
    }
}

#[tokio::test]
async fn an_unreadable_file_may_go_to_the_quarantine() {
    for option in [("ignoreCorruptFiles", "true"), ("mode", "DROPMALFORMED")] {
        for what in ["corrupt", "mismatch"] {
            let (rows, reasons) = read(&script(&format!("kept\n{what}\nlost")), &[option]).await;
            assert_eq!(rows.unwrap(), ["before", "kept", "after"]);
            assert_eq!(reasons, [("UNREADABLE_FILE".to_owned(), "1%20bad".to_owned())]);
        }
    }
}

#[tokio::test]
async fn a_store_that_fails_and_a_record_that_fails_fast_are_not_ignored() {
    for what in ["io", "failfast"] {
        let (rows, reasons) = read(&script(what), &[("ignoreCorruptFiles", "true"), ("ignoreMissingFiles", "true")]).await;
        assert!(rows.is_err(), "{what}");
        assert!(reasons.is_empty());
    }
}

#[tokio::test]
async fn a_file_that_disappears_between_planning_and_reading() {
    for (ignore, lost) in [("true", false), ("false", true)] {
        let world = script("x");
        let source = world.source(&[("ignoreMissingFiles", ignore), ("schemaInference", "true")]).await;
        let end = source.latest_offset(None, &all()).await.unwrap().unwrap();
        let splits = source.plan(None, &end).await.unwrap();
        std::fs::remove_file(world.path("in/1 bad")).unwrap();
        let quarantine = Arc::new(Kept::default());
        let rows = rows_of(&splits, &source.schema(), &["value"], &quarantine).await;
        if lost {
            assert!(rows.unwrap_err().message().contains("1%20bad"));
        } else {
            assert_eq!(rows.unwrap(), ["before", "after"]);
            assert_eq!(quarantine.reasons(), [("MISSING_FILE".to_owned(), "1%20bad".to_owned())]);
        }
    }
}

#[tokio::test]
async fn empty_files_are_not_opened() {
    let (rows, _) = read(&script(""), &[]).await;
    assert_eq!(rows.unwrap(), ["before", "after"]);
}
