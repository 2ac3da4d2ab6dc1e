//! Object stores: the same rules without a file system.

use super::*;

#[tokio::test]
async fn a_store_is_listed_by_the_same_rules() {
    let world = World::new();
    for name in ["in/p=1/a", "in/p=2/b c", "in/_temporary/x", "in/.y", "in/p=1/_z", "inside/no"] {
        world.store(name, name).await;
    }
    let mut query = Query::new(world.open(world.request("memory://store/in", &[])).await.unwrap());
    assert_eq!(query.source.description(), "FileStreamSource[memory://store/in]");
    let mut rows = query.batch(&["value", "p"]).await.unwrap();
    rows.sort();
    assert_eq!(rows, ["in/p=1/a|1", "in/p=2/b c|2"]);
    let lines = world.log.get(0).await.unwrap().unwrap();
    assert!(lines.iter().any(|line| line.starts_with(r#"{"path":"memory://store/in/p=2/b%20c","timestamp":"#)), "{lines:?}");

    let replay = world.open(world.request("memory://store/in", &[])).await.unwrap();
    let splits = replay.plan(None, query.at.as_ref().unwrap()).await.unwrap();
    assert_eq!(rows_of(&splits, &replay.schema(), &["value"], &query.quarantine).await.unwrap().len(), 2);
    world.memory.delete(&Path::from("in/p=1/a")).await.unwrap();
    let splits = replay.plan(None, query.at.as_ref().unwrap()).await.unwrap();
    assert_eq!(rows_of(&splits, &replay.schema(), &["value"], &query.quarantine).await.unwrap(), ["in/p=2/b c"]);
    assert_eq!(query.quarantine.reasons(), [("MISSING_FILE".to_owned(), "a".to_owned())]);
}

#[tokio::test]
async fn patterns_single_objects_and_missing_paths() {
    let world = World::new();
    for name in ["in/2024-01/a", "in/2024-02/deep/b", "in/2023-01/c", "in/2024-03"] {
        world.store(name, name).await;
    }
    let read = async |path: &str, options: &[(&str, &str)]| table_rows(&world, &world.request(path, options), &["value"]).await;
    let mut matched = read("memory://store/in/2024-*", &[]).await.unwrap();
    matched.sort();
    assert_eq!(matched, ["in/2024-01/a", "in/2024-03"]);
    assert_eq!(read("memory://store/in/2024-*", &[("recursiveFileLookup", "true")]).await.unwrap().len(), 3);
    assert_eq!(read("memory://store/in/2024-03", &[]).await.unwrap(), ["in/2024-03"]);
    assert_eq!(read("memory://store/in/2025", &[]).await.unwrap_err().code(), "PATH_NOT_FOUND");
}

#[tokio::test]
async fn objects_are_deleted_and_archived() {
    let world = World::new();
    world.store("in/a b", "a").await;
    let archive = [("cleanSource", "archive"), ("sourceArchiveDir", "memory://store/archive")];
    let mut query = Query::new(world.open(world.request("memory://store/in", &archive)).await.unwrap());
    query.batches().await;
    query.commit().await;
    assert!(world.memory.head(&Path::from("in/a b")).await.is_ok());
    world.store("in/later", "later").await;
    query.batches().await;
    query.commit().await;
    assert!(world.memory.head(&Path::from("in/a b")).await.is_err());
    assert!(world.memory.head(&Path::parse("archive/in/a b").unwrap()).await.is_ok());

    world.store("out/x", "x").await;
    let request = world.request("memory://store/out", &[("cleanSource", "delete")]);
    let mut query = Query::new(world.open_with(request, new_log()).await.unwrap());
    query.batches().await;
    query.commit().await;
    world.store("out/y", "y").await;
    query.batches().await;
    query.commit().await;
    assert!(world.memory.head(&Path::from("out/x")).await.is_err());
}
