//! Files that were read and committed: left, deleted, archived.

use super::*;

fn left(world: &World, below: &str) -> Vec<String> {
    let root = world.path(below);
    let mut names = Vec::new();
    let mut queue = vec![root.clone()];
    while let Some(directory) = queue.pop() {
        for entry in std::fs::read_dir(directory).into_iter().flatten() {
            let path = entry.unwrap().path();
            if path.is_dir() { queue.push(path) } else { names.push(path.strip_prefix(&root).unwrap().display().to_string()) }
        }
    }
    names.retain(|name| !name.ends_with("/later") && name != "later");
    names.sort();
    names
}

/// Commits the last batch, and runs and commits one more, over the file `later`: then the last batch is cleaned up.
async fn commit_and_go_on(world: &World, query: &mut Query) {
    query.commit().await;
    world.put("later", "later", 100);
    query.batches().await;
    query.commit().await;
}

#[tokio::test]
async fn off_leaves_files() {
    let world = World::new();
    world.put("a", "a", 0);
    let mut query = Query::new(world.source(&[("cleanSource", "OFF")]).await);
    query.batches().await;
    commit_and_go_on(&world, &mut query).await;
    assert_eq!(left(&world, "in"), ["a"]);
}

#[tokio::test]
async fn nothing_is_deleted_before_its_batch_is_committed() {
    let world = World::new();
    world.put("a", "a", 0);
    world.put("b", "b", 1);
    let mut query = Query::new(world.source(&[("cleanSource", "delete"), ("maxFilesPerTrigger", "1")]).await);
    query.batch(&["value"]).await;
    let first = query.at.clone().unwrap();
    query.batch(&["value"]).await;
    assert_eq!(left(&world, "in"), ["a", "b"]);
    query.source.commit(&first).await.unwrap();
    assert_eq!(left(&world, "in"), ["a", "b"]);
    query.commit().await;
    assert_eq!(left(&world, "in"), ["b"], "the batch before is cleaned up");
    commit_and_go_on(&world, &mut query).await;
    assert!(left(&world, "in").is_empty());
}

#[tokio::test]
async fn the_archive_keeps_the_whole_path() {
    let world = World::new();
    let archive = world.path("archive").display().to_string();
    let options = [("cleanSource", "archive"), ("sourceArchiveDir", archive.as_str())];
    world.put("p=0/a file", "a", 0);
    world.put("p=1/b", "b", 1);
    let mut query = Query::new(world.source(&options).await);
    query.batches().await;
    commit_and_go_on(&world, &mut query).await;
    assert!(left(&world, "in").is_empty());
    let inside = world.path("in").display().to_string();
    let inside = inside.trim_start_matches('/');
    assert_eq!(left(&world, "archive"), [format!("{inside}/p=0/a file"), format!("{inside}/p=1/b")]);
    query.commit().await; // a commit that is repeated changes nothing
    assert_eq!(left(&world, "archive").len(), 2);
}

#[tokio::test]
async fn batches_are_cleaned_up_after_a_restart_wherever_the_run_died() {
    for (first_committed, second_committed) in [(false, false), (true, false), (true, true)] {
        let world = World::new();
        let options = [("cleanSource", "delete")];
        let mut query = Query::new(world.source(&options).await);
        world.put("a", "a", 0);
        query.batches().await;
        if first_committed {
            query.commit().await;
        }
        let start = query.at.clone();
        if first_committed {
            world.put("b", "b", 1);
            query.batches().await;
        }
        if second_committed {
            query.commit().await;
        }
        let source = world.source(&options).await;
        source.restore(query.at.as_ref()).await.unwrap();
        if !second_committed {
            // The last batch is run again.
            source.plan(start.as_ref().filter(|_| first_committed), query.at.as_ref().unwrap()).await.unwrap();
            source.commit(query.at.as_ref().unwrap()).await.unwrap();
            assert!(!left(&world, "in").is_empty());
        }
        let mut query = Query { source, ..query };
        world.put("c", "c", 2);
        query.batches().await;
        query.commit().await;
        assert_eq!(left(&world, "in"), ["c"], "{first_committed} {second_committed}");
    }
}

#[tokio::test]
async fn a_file_that_was_written_again_is_not_deleted() {
    let world = World::new();
    world.put("a", "a", 0);
    let mut query = Query::new(world.source(&[("cleanSource", "delete")]).await);
    query.batches().await;
    world.put("a", "never read", 1);
    commit_and_go_on(&world, &mut query).await;
    assert_eq!(left(&world, "in"), ["a"]);
}

#[tokio::test]
async fn a_file_in_the_archive_is_never_replaced() {
    let world = World::new();
    let archive = world.path("archive");
    world.put("a", "a", 0);
    let taken = archive.join(world.path("in/a").strip_prefix("/").unwrap());
    std::fs::create_dir_all(taken.parent().unwrap()).unwrap();
    std::fs::write(&taken, "older").unwrap();
    let options = [("cleanSource", "archive"), ("sourceArchiveDir", archive.to_str().unwrap())];
    let mut query = Query::new(world.source(&options).await);
    query.batches().await;
    commit_and_go_on(&world, &mut query).await;
    assert_eq!((std::fs::read_to_string(&taken).unwrap().as_str(), left(&world, "in")), ("older", vec!["a".to_owned()]));
    std::fs::remove_file(&taken).unwrap();
    // Died between giving the new name and taking the old one.
    std::fs::hard_link(world.path("in/a"), &taken).unwrap();
    let source = world.source(&options).await;
    source.restore(query.at.as_ref()).await.unwrap();
    source.commit(query.at.as_ref().unwrap()).await.unwrap();
    assert!(left(&world, "in").is_empty());
    assert_eq!(std::fs::read_to_string(&taken).unwrap(), "a");
}

#[tokio::test]
async fn what_fails_is_tried_again_with_the_next_batch() {
    let world = World::new();
    let archive = world.path("archive");
    std::fs::write(&archive, "in the way").unwrap();
    world.put("a", "a", 0);
    let options = [("cleanSource", "archive"), ("sourceArchiveDir", archive.to_str().unwrap())];
    let mut query = Query::new(world.source(&options).await);
    query.batches().await;
    commit_and_go_on(&world, &mut query).await;
    assert_eq!(left(&world, "in"), ["a"]);
    std::fs::remove_file(&archive).unwrap();
    world.put("b", "b", 200);
    query.batches().await;
    query.commit().await;
    assert_eq!(left(&world, "in"), ["b"]);
    assert_eq!(left(&world, "archive").len(), 1);
}

#[tokio::test]
async fn an_archive_where_the_source_reads_is_refused() {
    let world = World::new();
    for (path, archive, refused) in [
        ("in", "in/old", true),
        ("in", "in", true),
        ("in", ".", true),
        ("in", "archive", false),
        ("in*", "inside/old", true),
        ("{in,out}/x", "out", true),
        ("{in,out}/x", "archive/x", false),
    ] {
        let archive = world.path(archive).components().collect::<PathBuf>().display().to_string();
        let options = [("cleanSource", "archive"), ("sourceArchiveDir", archive.as_str())];
        let opened = world.open(world.request(path, &options)).await;
        assert_eq!(opened.as_ref().err().map(|error| error.code()), refused.then_some("INVALID_OPTION_VALUE"), "{path} {archive}");
    }
    let memory = [("cleanSource", "archive"), ("sourceArchiveDir", "memory://store/archive")];
    assert_eq!(world.open(world.request("in", &memory)).await.unwrap_err().code(), "INVALID_OPTION_VALUE");
}
