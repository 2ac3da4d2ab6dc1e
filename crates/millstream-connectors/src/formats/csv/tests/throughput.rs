//! Not a test but a measurement: `cargo test -p millstream-connectors csv::tests::throughput -- --ignored --nocapture`.

use super::*;

/// Seconds that this thread has run, which other work on the machine does not add to.
fn processor_seconds() -> f64 {
    let statistics = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    statistics.split(' ').next().unwrap().parse::<f64>().unwrap() / 1e9
}

fn measure(what: &str, text: &str, schema: SchemaRef, projection: &[usize]) {
    let folder = tempfile::tempdir().unwrap();
    let file = local(folder.path(), "a.csv", text.as_bytes());
    let reader = Csv.reader(schema, &options(&[("header", "true")])).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let (mut best, mut rows) = (f64::MAX, 0);
    for _ in 0..5 {
        let start = processor_seconds();
        let outcome = runtime.block_on(read_with(&reader, file.clone(), projection, 8192));
        best = best.min(processor_seconds() - start);
        assert!(outcome.error.is_none() && outcome.bad.is_empty());
        rows = outcome.batches.iter().map(RecordBatch::num_rows).sum();
    }
    let megabytes = text.len() as f64 / 1e6;
    println!("{what}: {:.0} MB/s, {:.2} M rows/s ({rows} rows of {} bytes)", megabytes / best, rows as f64 / best / 1e6, text.len() / rows);
}

#[test]
#[ignore = "a measurement"]
fn throughput() {
    let (mut plain, mut quoted) = (String::from("id,key,value,ts,note\n"), String::from("id,key,value,ts,note\n"));
    for n in 0..400_000_u64 {
        let key = n.wrapping_mul(2_654_435_761) % 1000;
        let (seconds, whole, part, millis) = (n % 60, n % 997, n % 100, n % 1000);
        writeln!(plain, "{n},key-{key},{whole}.{part:02},2024-01-02T03:04:{seconds:02}.{millis:03}Z,lorem ipsum dolor").unwrap();
        writeln!(quoted, "{n},\"key-{key}\",{whole}.{part:02},2024-01-02T03:04:{seconds:02}.{millis:03}Z,\"lorem, \\\"ipsum\\\" dolor\"")
            .unwrap();
    }
    let bound = schema(&[
        ("id", DataType::Int64),
        ("key", DataType::Utf8),
        ("value", DataType::Float64),
        ("ts", timestamp(true)),
        ("note", DataType::Utf8),
    ]);
    let texts = schema(&[
        ("id", DataType::Utf8),
        ("key", DataType::Utf8),
        ("value", DataType::Utf8),
        ("ts", DataType::Utf8),
        ("note", DataType::Utf8),
    ]);
    measure("plain, all 5 columns", &plain, bound.clone(), &[0, 1, 2, 3, 4]);
    measure("plain, as text", &plain, texts, &[0, 1, 2, 3, 4]);
    measure("plain, key, value and ts", &plain, bound.clone(), &[1, 2, 3]);
    measure("plain, id and key", &plain, bound.clone(), &[0, 1]);
    measure("plain, only counted", &plain, bound.clone(), &[]);
    measure("quoted, all 5 columns", &quoted, bound, &[0, 1, 2, 3, 4]);
}
