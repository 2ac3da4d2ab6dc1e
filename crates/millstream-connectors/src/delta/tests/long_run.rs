//! Thousands of commits by one writer: time and memory per commit stay flat.

use super::*;

/// Prints commit times and memory over `MILL_DELTA_COMMITS` (5,000) commits of one row to the durable local store, with a checkpoint of the
/// log every `MILL_DELTA_INTERVAL` (100).
///
/// `cargo test -p millstream-connectors delta::tests::long_run -- --ignored --nocapture`
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "a measurement of minutes"]
#[expect(clippy::disallowed_methods, reason = "it measures real time")]
async fn five_thousand_commits() {
    let number = |name: &str, default: u64| std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default);
    let (commits, interval) = (number("MILL_DELTA_COMMITS", 5_000), number("MILL_DELTA_INTERVAL", 100).to_string());
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t").to_str().unwrap().to_owned();
    let clock = TestClock::start();
    let storage = durable_storage(clock.clone());
    let provider = DeltaSinkProvider::new(storage.clone(), clock, Arc::new(TestIds));
    let options = [("checkpointInterval", interval.as_str())].into_iter().collect();
    let sink = provider.sink(&WriteRequest { path: Some(path.clone()), options, ..WriteRequest::default() }).await.unwrap();
    sink.prepare(&schema(), OutputMode::Append).await.unwrap();
    let mut times = Vec::new();
    for id in 0..commits {
        let started = std::time::Instant::now();
        assert!(append(sink.as_ref(), id, [id as i64]).await.unwrap());
        times.push(started.elapsed().as_secs_f64() * 1e3);
        if (id + 1) % (commits / 10).max(1) == 0 {
            let last = &mut times[times.len().saturating_sub(100)..].to_vec();
            last.sort_by(f64::total_cmp);
            println!("{:>6} commits: median {:.2} ms, max {:.2} ms, RSS {} MiB", id + 1, last[last.len() / 2], last[last.len() - 1], rss());
        }
    }
    sink.stop().await;
    let mean = |part: &[f64]| part.iter().sum::<f64>() / part.len() as f64;
    let window = times.len().min(100);
    let (first, last) = (mean(&times[..window]), mean(&times[times.len() - window..]));
    println!("first {window}: {first:.2} ms, last {window}: {last:.2} ms, all: {:.2} ms", mean(&times));
    assert!(last < first * 2.0, "commits became slower: {first:.2} ms -> {last:.2} ms");
    let table = super::super::table_info(&storage, &path, None).await.unwrap().unwrap();
    assert_eq!((table.files, table.rows, table.version), (commits, Some(commits), commits - 1));
}

/// Resident memory in MiB.
fn rss() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    statm.split(' ').nth(1).and_then(|pages| pages.parse::<u64>().ok()).map_or(0, |pages| pages * 4096 / (1 << 20))
}
