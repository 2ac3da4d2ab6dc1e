//! Many files.

use tokio::time::Instant;

use super::*;

const FILES: u64 = 20_000;

fn many(world: &World) {
    let time = SystemTime::UNIX_EPOCH + Duration::from_secs(T0);
    for at in 0..FILES {
        let path = world.path("in").join(format!("part-{at:05}.txt"));
        std::fs::write(&path, format!("row {at}\n")).unwrap();
        std::fs::File::options().write(true).open(&path).unwrap().set_modified(time).unwrap();
    }
}

#[tokio::test]
async fn twenty_thousand_small_files_are_one_quick_batch_of_few_splits() {
    let world = World::new();
    many(&world);
    let begun = Instant::now();
    let source = world.source(&[]).await;
    source.prepare_available_now().await.unwrap();
    let end = source.latest_offset(None, &all()).await.unwrap().unwrap();
    let planning = begun.elapsed();
    let splits = source.plan(None, &end).await.unwrap();
    assert!(splits.len() as u64 <= FILES / 32 + 1, "{}", splits.len());
    let mut query = Query::new(source);
    query.at = Some(end);
    let quarantine = Arc::new(Kept::default());
    let begun = Instant::now();
    let rows = rows_of(&splits, &query.source.schema(), &["value"], &quarantine).await.unwrap();
    let reading = begun.elapsed();
    assert_eq!(rows.len() as u64, FILES);
    assert_eq!(rows[..2], ["row 0", "row 1"]);
    println!("listed and logged in {planning:?}, read in {reading:?}, {} splits", splits.len());
    assert!(planning < Duration::from_secs(10) && reading < Duration::from_secs(30), "{planning:?} {reading:?}");
    // Small batches are put together.
    let context = ReadContext { projection: vec![0], batch_size: 8192, quarantine };
    let batches = splits[0].read(context).try_collect::<Vec<_>>().await.unwrap();
    assert_eq!(batches.len(), 1);
}

#[tokio::test]
async fn batches_of_a_long_backlog_do_not_list_again() {
    let world = World::new();
    many(&world);
    let source = world.source(&[("maxFilesPerTrigger", "10")]).await;
    source.prepare_available_now().await.unwrap();
    let begun = Instant::now();
    let mut at = None;
    let mut batches = 0;
    while let Some(end) = source.latest_offset(at.as_ref(), &source.read_limit()).await.unwrap().filter(|end| at.as_ref() != Some(end)) {
        at = Some(end);
        batches += 1;
    }
    assert_eq!(batches, FILES / 10);
    assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
}
