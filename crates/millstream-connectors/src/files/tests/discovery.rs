//! Which files are found, and in what order they are read.

use super::*;

#[tokio::test]
async fn one_file_a_batch_in_order_of_modification_time_then_name() {
    let world = World::new();
    world.put("z", "first", 0);
    world.put("m", "third", 2);
    world.put("b", "second b", 1);
    world.put("a", "second a", 1);
    let mut query = Query::new(world.source(&[("maxFilesPerTrigger", "1")]).await);
    assert_eq!(query.batches().await, [["first"], ["second a"], ["second b"], ["third"]]);
    assert_eq!(query.at.unwrap().as_json(), r#"{"logOffset":3}"#);
}

#[tokio::test]
async fn without_a_limit_everything_is_one_batch() {
    let world = World::new();
    for at in 0..3 {
        world.put(&format!("{at}"), &format!("row {at}"), at);
    }
    let mut query = Query::new(world.source(&[]).await);
    assert_eq!(query.batches().await, [["row 0", "row 1", "row 2"]]);
    world.put("later", "row 9", 9);
    assert_eq!(query.batches().await, [["row 9"]]);
}

#[tokio::test]
async fn bytes_are_limited_but_one_file_is_always_taken() {
    let world = World::new();
    for (at, text) in ["12345", "12345", "123456789012", "1"].iter().enumerate() {
        world.put(&format!("{at}"), text, at as u64);
    }
    let mut query = Query::new(world.source(&[("maxBytesPerTrigger", "10")]).await);
    assert_eq!(query.batches().await, [vec!["12345", "12345"], vec!["123456789012"], vec!["1"]]);
}

#[tokio::test]
async fn the_newest_first_takes_what_arrives_meanwhile_first() {
    let world = World::new();
    for at in 0..3 {
        world.put(&format!("{at}"), &format!("row {at}"), at);
    }
    let mut query = Query::new(world.source(&[("maxFilesPerTrigger", "1"), ("latestFirst", "true")]).await);
    assert_eq!(query.batch(&["value"]).await.unwrap(), ["row 2"]);
    world.put("new", "new", 9);
    assert_eq!(query.batches().await, [["new"], ["row 1"], ["row 0"]]);
}

#[tokio::test]
async fn hidden_files_and_directories_are_skipped() {
    let world = World::new();
    for name in ["_temporary/a", "_x", ".y", "ok", "a_b", "z._COPYING_", "_metadata", "p.tmp", ".hidden/b"] {
        world.put(name, name, 0);
    }
    let mut query = Query::new(world.source(&[]).await);
    assert_eq!(query.batches().await, [["a_b", "ok", "p.tmp"]]);
}

#[tokio::test]
async fn a_file_that_was_written_again_is_not_read_again() {
    let world = World::new();
    world.put("a", "once", 0);
    let mut query = Query::new(world.source(&[]).await);
    assert_eq!(query.batches().await, [["once"]]);
    world.put("a", "twice", 1);
    world.put("b", "other", 2);
    assert_eq!(query.batches().await, [["other"]]);
}

#[tokio::test]
async fn nested_directories_need_recursive_lookup() {
    let world = World::new();
    world.put("top", "top", 0);
    world.put("sub/deep/low", "low", 1);
    assert_eq!(Query::new(world.source(&[]).await).batches().await, [["top"]]);
    let mut recursive = Query::new(world.anew(&[("recursiveFileLookup", "true")]).await);
    assert_eq!(recursive.batches().await, [["top", "low"]]);
}

#[tokio::test]
async fn files_are_filtered_by_name() {
    let world = World::new();
    for (name, at) in [("a.json", 0), ("b.txt", 1), ("json-c.json.bak", 2), ("d.JSON", 3)] {
        world.put(name, name, at);
    }
    for (filter, names) in [("*.json", vec!["a.json"]), ("{a,b}.*", vec!["a.json", "b.txt"]), ("[!a].???", vec!["b.txt"])] {
        let rows = table_rows(&world, &world.request("in", &[("pathGlobFilter", filter)]), &["value"]).await.unwrap();
        assert_eq!(rows, names, "{filter}");
    }
}

#[tokio::test]
async fn a_path_may_be_a_pattern_and_then_need_not_exist() {
    let world = World::new();
    let mut query = Query::new(world.open(world.request("in/2024-*/{a,b/c}*", &[])).await.unwrap());
    assert!(query.batches().await.is_empty());
    assert!(query.source.description().ends_with("/in/2024-*/{a,b/c}*]"), "{}", query.source.description());
    for (name, at) in
        [("2024-01/a1", 0), ("2024-02/b/c1", 1), ("2024-02/b/x", 2), ("2023-01/a1", 3), ("2024-03/a/inside", 4), ("2024-03/.a", 5)]
    {
        world.put(name, name, at);
    }
    assert_eq!(query.batches().await, [["2024-01/a1", "2024-02/b/c1", "2024-03/a/inside"]]);
}

#[tokio::test]
async fn patterns_that_overlap_read_a_file_once_and_hidden_names_only_on_demand() {
    let world = World::new();
    for (name, at) in [("a/x", 0), ("a/b/y", 1), ("_h/z", 2)] {
        world.put(name, name, at);
    }
    let read = async |path: &str, recursive: &str| {
        let request = world.request(path, &[("recursiveFileLookup", recursive)]);
        table_rows(&world, &request, &["value"]).await.unwrap()
    };
    assert_eq!(read("in/{a,a/b}", "true").await, ["a/x", "a/b/y"]);
    assert_eq!(read("in/{a,a/b}", "false").await, ["a/x", "a/b/y"]);
    assert_eq!(read("in/*", "false").await, ["a/x"]);
    assert_eq!(read("in/_*", "false").await, ["_h/z"]);
}

#[tokio::test]
async fn a_path_that_exists_is_no_pattern() {
    let world = World::new();
    world.put("a[1]{x}/f", "literal", 0);
    world.put("a1x/f", "matched", 0);
    assert_eq!(Query::new(world.open(world.request("in/a[1]{x}", &[])).await.unwrap()).batches().await, [["literal"]]);
    let one = table_rows(&world, &world.request("in/a\\[1\\]\\{x\\}", &[]), &["value"]).await.unwrap();
    assert_eq!(one, ["literal"]);
}

#[tokio::test]
async fn a_single_file_can_be_read() {
    let world = World::new();
    world.put("p=1/only", "row", 0);
    world.put("p=1/other", "no", 0);
    assert_eq!(table_rows(&world, &world.request("in/p=1/only", &[]), &["value"]).await.unwrap(), ["row"]);
}

#[tokio::test]
async fn the_source_directory_may_go_and_come_back() {
    let world = World::new();
    let mut query = Query::new(world.source(&[]).await);
    world.put("a", "a", 0);
    assert_eq!(query.batches().await, [["a"]]);
    std::fs::remove_dir_all(world.path("in")).unwrap();
    assert!(query.batches().await.is_empty());
    world.put("b", "b", 1);
    assert_eq!(query.batches().await, [["b"]]);
}

#[tokio::test]
async fn names_alone_tell_files_apart_when_asked_for() {
    let world = World::new();
    world.put("p=1/a", "one", 0);
    let mut request = world.request("in", &[("fileNameOnly", "true")]);
    request.schema = Some(schema(&[("p", DataType::Int32)]));
    let mut query = Query::new(world.open(request).await.unwrap());
    assert_eq!(query.batch(&["value", "p"]).await.unwrap(), ["one|1"]);
    world.put("p=2/a", "two", 1);
    world.put("p=2/b", "three", 2);
    assert_eq!(query.batch(&["value", "p"]).await.unwrap(), ["three|2"]);
}

#[tokio::test]
async fn files_older_than_the_age_limit_are_ignored_after_the_first_listing() {
    let day = 86_400;
    let world = World::new();
    world.put("ancient", "ancient", 0);
    world.put("new", "new", 100 * day);
    let mut query = Query::new(world.source(&[]).await);
    assert_eq!(query.batches().await, [["ancient", "new"]]);
    world.put("late", "six days old", 94 * day);
    world.put("too late", "eight days old", 92 * day);
    assert_eq!(query.batches().await, [["six days old"]]);
}

#[tokio::test]
async fn every_name_that_a_file_can_have_is_read() {
    use std::os::unix::ffi::OsStrExt;
    let world = World::new();
    let odd: &[&[u8]] =
        &[b"not utf8 \xff\xfe", b"line\nbreak", b"part#1", b"trailing\n", "NFD z\u{30c}".as_bytes(), b"a%20b", b"*?[x]{y}", b"-"];
    for name in odd {
        std::fs::write(world.path("in").join(std::ffi::OsStr::from_bytes(name)), "row").unwrap();
    }
    let mut query = Query::new(world.source(&[]).await);
    let paths = query.batch(&["value"]).await.unwrap();
    assert_eq!(paths.len(), odd.len());
    assert!(query.quarantine.reasons().is_empty());
    let replay = world.source(&[]).await;
    let splits = replay.plan(None, query.at.as_ref().unwrap()).await.unwrap();
    assert_eq!(rows_of(&splits, &replay.schema(), &["value"], &query.quarantine).await.unwrap().len(), odd.len());
}

#[tokio::test]
async fn links_are_followed_but_not_in_circles() {
    let world = World::new();
    world.put("real/a", "a", 0);
    std::os::unix::fs::symlink(world.path("in"), world.path("in/real/loop")).unwrap();
    std::os::unix::fs::symlink(world.path("in/real"), world.path("in/again")).unwrap();
    std::os::unix::fs::symlink(world.path("nowhere"), world.path("in/broken")).unwrap();
    assert_eq!(Query::new(world.source(&[("recursiveFileLookup", "true")]).await).batches().await, [["a", "a"]]);
}

#[tokio::test]
async fn the_end_is_fixed_for_available_now() {
    let world = World::new();
    for at in 0..3 {
        world.put(&format!("{at}"), &format!("row {at}"), at);
    }
    let mut query = Query::new(world.source(&[("maxFilesPerTrigger", "2")]).await);
    query.source.prepare_available_now().await.unwrap();
    assert_eq!(query.source.metrics()["numFilesOutstanding"], "3");
    world.put("later", "later", 9);
    assert_eq!(query.batches().await, [vec!["row 0", "row 1"], vec!["row 2"]]);
}

#[tokio::test]
async fn what_waits_is_counted() {
    let world = World::new();
    for at in 0..5 {
        world.put(&format!("{at}"), "1234", at);
    }
    let mut query = Query::new(world.source(&[("maxFilesPerTrigger", "2")]).await);
    query.batch(&["value"]).await;
    let metrics = query.source.metrics();
    assert_eq!((metrics["numFilesOutstanding"].as_str(), metrics["numBytesOutstanding"].as_str()), ("3", "12"));
    query.batches().await;
    assert_eq!(query.source.metrics()["numFilesOutstanding"], "0");
}

#[tokio::test]
async fn a_new_file_wakes_the_source_and_reading_does_not() {
    let world = World::new();
    world.put("a", "a", 0);
    let mut query = Query::new(world.source(&[]).await);
    query.batches().await;
    query.source.changed().await; // the watch begins
    query.batches().await;
    let quiet = tokio::time::timeout(Duration::from_millis(300), query.source.changed()).await;
    assert!(quiet.is_err(), "listing and reading woke the source");
    let source = query.source.clone();
    let waiting = tokio::spawn(async move { source.changed().await });
    tokio::time::sleep(Duration::from_millis(50)).await;
    let before = tokio::time::Instant::now();
    world.put("b", "b", 1);
    waiting.await.unwrap();
    assert!(before.elapsed() < Duration::from_millis(700), "{:?}", before.elapsed());
    assert_eq!(query.batches().await, [["b"]]);
    query.source.stop().await;
}

#[tokio::test]
async fn a_store_that_does_not_notify_is_looked_at_less_and_less_often() {
    let clock = Arc::new(TestClock { instant: true, ..TestClock::default() });
    let world = World { clock: clock.clone(), ..World::new() };
    world.store("in/a", "a").await;
    let mut query = Query::new(world.open(world.request("memory://store/in", &[])).await.unwrap());
    query.batches().await;
    for _ in 0..6 {
        query.source.changed().await;
    }
    world.store("in/b", "b").await;
    assert_eq!(query.batches().await, [["b"]]);
    query.source.changed().await;
    assert_eq!(*clock.pauses.lock(), [1, 2, 4, 8, 10, 10, 1]);
}
