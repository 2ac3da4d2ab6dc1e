//! Not a test but a measurement: `cargo test -p millstream-connectors json::tests::throughput -- --ignored --nocapture`.

use std::fmt::Write;

use object_store::local::LocalFileSystem;

use super::*;

/// Seconds that this thread has run, which other work on the machine does not add to.
fn processor_seconds() -> f64 {
    let statistics = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    statistics.split(' ').next().unwrap().parse::<f64>().unwrap() / 1e9
}

fn measure(what: &str, text: &str, fields: Vec<Field>, projection: Vec<usize>) {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("a.json"), text).unwrap();
    let store: Arc<dyn ObjectStore> = Arc::new(LocalFileSystem::new_with_prefix(folder.path()).unwrap());
    let reader = Json.reader(Arc::new(Schema::new(fields)), &Options::new()).unwrap();
    let (mut best, mut rows) = (f64::MAX, 0);
    for _ in 0..5 {
        let file = FileRef {
            store: store.clone(),
            path: Path::from("a.json"),
            url: "file:///a.json".to_owned(),
            size: text.len() as u64,
            modified_ms: 0,
        };
        let context = ReadContext { projection: projection.clone(), batch_size: 8192, quarantine: Arc::new(Kept::default()) };
        let start = processor_seconds();
        rows = run(reader.read(file, context).try_fold(0, |sum, batch| async move { Ok(sum + batch.num_rows()) })).unwrap();
        best = best.min(processor_seconds() - start);
    }
    let megabytes = text.len() as f64 / 1e6;
    println!("{what}: {:.0} MB/s, {:.2} M rows/s ({rows} rows of {} bytes)", megabytes / best, rows as f64 / best / 1e6, text.len() / rows);
}

#[test]
#[ignore = "a measurement"]
fn throughput() {
    let mut flat = String::new();
    for n in 0..300_000_u64 {
        let seconds = n % 60;
        let key = n.wrapping_mul(2_654_435_761) % 1000;
        writeln!(
            flat,
            r#"{{"id":{n},"key":"key-{key}","value":{}.{:02},"ts":"2024-01-02T03:04:{seconds:02}.{:03}Z","note":"lorem ipsum dolor"}}"#,
            n % 997,
            n % 100,
            n % 1000
        )
        .unwrap();
    }
    let fields = vec![
        field("id", DataType::Int64),
        field("key", DataType::Utf8),
        field("value", DataType::Float64),
        field("ts", timestamp()),
        field("note", DataType::Utf8),
    ];
    measure("flat, all 5 fields", &flat, fields.clone(), vec![0, 1, 2, 3, 4]);
    measure("flat, key, value and ts", &flat, fields.clone(), vec![1, 2, 3]);
    measure("flat, id and key", &flat, fields.clone(), vec![0, 1]);
    measure("flat, only counted", &flat, fields, vec![]);

    let mut nested = String::new();
    for n in 0..100_000_u64 {
        writeln!(
            nested,
            r#"{{"id": {n}, "user": {{"name": "user {n}", "tags": ["a", "b", "c"]}}, "points": [1.5, 2.25, {n}], "text": "{}"}}"#,
            "words with spaces and a \\\"quote\\\" ".repeat(4)
        )
        .unwrap();
    }
    let user = DataType::Struct(vec![field("name", DataType::Utf8), field("tags", list(DataType::Utf8))].into());
    let fields =
        vec![field("id", DataType::Int64), field("user", user), field("points", list(DataType::Float64)), field("text", DataType::Utf8)];
    measure("nested, all fields", &nested, fields.clone(), vec![0, 1, 2, 3]);
    measure("nested, id", &nested, fields, vec![0]);
}
