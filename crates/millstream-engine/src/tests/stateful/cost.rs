//! What a batch costs depends on its rows and not on how much state there is. Measured, not judged: times of a shared machine say little.

use std::sync::Arc;
use std::time::Duration;

use arrow::array::{ArrayRef, Int64Array, StringArray, TimestampMicrosecondArray};
use millstream_checkpoint::state::store::StoreKind;
use tokio::time::Instant;

use super::*;
use crate::StateSettings;

const BATCH: u64 = 1_000;

/// Rows of keys `from..from + rows`, spread by `step` over `keys`.
fn rows(events: &Events, from: u64, rows: u64, keys: u64, step: u64) {
    let numbers = (from..from + rows).map(|row| (row * step) % keys);
    let k: StringArray = numbers.map(|number| Some(format!("key-{number:012}"))).collect();
    let ts = TimestampMicrosecondArray::from_iter_values((0..rows).map(|_| 1_000_000_000)).with_timezone("UTC");
    let v = Int64Array::from_iter_values((0..rows).map(|row| row as i64));
    let columns: Vec<ArrayRef> = vec![Arc::new(k), Arc::new(ts), Arc::new(v)];
    events.add_columns(columns);
}

async fn median_of_batches(keys: u64, store: StoreKind, memory_limit: u64) -> (Duration, Duration, u64) {
    let directory = tempfile::tempdir().unwrap();
    let mut lab = Lab::new();
    lab.settings.state =
        StateSettings { store: Some(store), memory_limit, directory: directory.path().to_owned(), ..StateSettings::default() };
    let events = Events::new("");
    let query = lab.start(by_key(events.plan()), Update).await.unwrap();
    let began = Instant::now();
    for from in (0..keys).step_by(100_000) {
        rows(&events, from, 100_000.min(keys - from), keys, 1);
        query.process_all_available().await.unwrap();
    }
    let filling = began.elapsed();
    let mut times = Vec::new();
    for batch in 0..41 {
        rows(&events, batch * BATCH, BATCH, keys, 7_919);
        let began = Instant::now();
        query.process_all_available().await.unwrap();
        times.push(began.elapsed());
    }
    let bytes = query.last_progress().unwrap().state_operators[0].memory_used_bytes;
    query.stop().await;
    times.sort();
    (times[times.len() / 2], filling, bytes)
}

#[test]
#[ignore = "a measurement"]
fn batches_of_a_thousand_rows_over_more_and_more_keys() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    for (store, memory) in [(StoreKind::Memory, 4 << 30), (StoreKind::Memory, 64 << 20), (StoreKind::RocksDb, 256 << 20)] {
        for keys in [100_000, 1_000_000] {
            let (median, filling, bytes) = runtime.block_on(median_of_batches(keys, store, memory));
            println!("{store:?} with {} MiB, {keys} keys: {median:?} a batch of {BATCH}, {filling:?} to fill, {bytes} bytes", memory >> 20);
        }
    }
}
