use std::sync::Arc;

use object_store::path::Path as ObjectPath;
use object_store::{ObjectStore, ObjectStoreExt, PutMode};
use tempfile::TempDir;

use super::super::testing::{durable, names, options};
use super::super::{DurableStore, FileOps, Privacy, Recorder};
use super::*;

fn path(text: &str) -> PathBuf {
    PathBuf::from(text)
}

fn file(image: &Image, name: &str) -> Option<Bytes> {
    image.files.get(Path::new(name)).cloned()
}

fn log(ops: Vec<FileOp>) -> OpLog {
    OpLog { base: Image::default(), ops }
}

#[test]
fn unsynced_content_is_old_new_zero_or_cut_and_unsynced_names_are_there_or_not() {
    let mut ops = vec![FileOp::Create(path("a")), FileOp::Write(path("a"), 0, "abcd".into())];
    let variants = |ops: &[FileOp]| images(&log(ops.to_vec()), ops.len(), 0).map(|image| file(&image, "a")).collect::<BTreeSet<_>>();
    let contents = ["", "ab", "abcd", "\0\0\0\0"].map(|text| Some(Bytes::from(text)));
    assert_eq!(variants(&ops), contents.iter().cloned().chain([None]).collect());
    ops.push(FileOp::SyncDir(path("")));
    assert_eq!(variants(&ops), contents.into_iter().collect());
    ops.push(FileOp::SyncFile(path("a")));
    assert_eq!(variants(&ops), [Some(Bytes::from("abcd"))].into());
    ops.push(FileOp::Write(path("a"), 4, "e".into()));
    assert_eq!(variants(&ops), ["abcd", "ab", "abcde", "\0\0\0\0\0"].map(|text| Some(Bytes::from(text))).into());
}

#[test]
fn names_persist_in_any_order_until_their_directory_is_synced() {
    let ops = vec![
        FileOp::MakeDir(path("d")),
        FileOp::Create(path("d/a")),
        FileOp::SyncFile(path("d/a")),
        FileOp::Link(path("d/a"), path("d/b")),
        FileOp::Unlink(path("d/a")),
        FileOp::SyncDir(path("d")),
        FileOp::Rename(path("d/b"), path("c")),
    ];
    let seen =
        |prefix| images(&log(ops.clone()), prefix, 0).map(|image| image.files.into_keys().collect::<Vec<_>>()).collect::<BTreeSet<_>>();
    let [a, b, c] = ["d/a", "d/b", "c"].map(path);
    assert_eq!(seen(5), [vec![], vec![a.clone()], vec![b.clone()], vec![a, b.clone()]].into());
    // The directory itself is not durable in its parent.
    assert_eq!(seen(6), [vec![], vec![b.clone()]].into());
    // A file that was moved is under at least one of its names, if its old one could be reached.
    assert_eq!(seen(7), [vec![], vec![c.clone()], vec![b.clone()], vec![c, b]].into());
}

#[test]
fn many_open_questions_are_sampled_the_same_way_for_the_same_seed() {
    let ops: Vec<_> = (0..40).map(|name| FileOp::Create(path(&name.to_string()))).collect();
    let of = |seed| images(&log(ops.clone()), 40, seed).collect::<Vec<_>>();
    assert_eq!(of(7), of(7));
    assert_ne!(of(7), of(8));
    assert!(of(7).len() > 60 && of(7).len() <= 64);
    assert!(of(7).iter().any(|image| image.files.is_empty()));
    assert!(of(7).iter().any(|image| image.files.len() == 40));
}

/// Every value that a test tried to give an object, in order; `None` for a deletion.
type History = BTreeMap<String, Vec<Option<String>>>;

/// A store over a fresh directory, recorded, and what was done to it.
struct Workload {
    _directory: TempDir,
    recorder: Arc<Recorder>,
    store: DurableStore,
    history: History,
}

impl Workload {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let recorder = Recorder::new(directory.path()).unwrap();
        let options = options().with_file_ops(Arc::clone(&recorder) as Arc<dyn FileOps>);
        let store = DurableStore::new(directory.path().canonicalize().unwrap(), Privacy::Private, &options);
        Workload { _directory: directory, recorder, store, history: History::new() }
    }

    fn begin(&mut self, name: &str, value: Option<&str>) {
        let tried = self.history.entry(name.to_owned()).or_default();
        tried.push(value.map(str::to_owned));
        self.recorder.mark(format!("begin {name}"));
    }

    fn acknowledge(&self, name: &str) {
        self.recorder.mark(format!("done {name}"));
    }

    async fn put(&mut self, name: &str, value: &str, mode: PutMode) {
        self.begin(name, Some(value));
        self.store.put_opts(&ObjectPath::from(name), value.to_owned().into(), mode.into()).await.unwrap();
        self.acknowledge(name);
    }

    async fn upload(&mut self, name: &str, parts: &[&str]) {
        self.begin(name, Some(&parts.concat()));
        let mut upload = self.store.put_multipart(&ObjectPath::from(name)).await.unwrap();
        for part in parts {
            upload.put_part((*part).to_owned().into()).await.unwrap();
        }
        upload.complete().await.unwrap();
        self.acknowledge(name);
    }

    /// Checks every image of every moment: an object has its last acknowledged value or one that was begun later, and never anything else.
    /// Returns the number of images, and what was wrong.
    fn check(&self, log: &OpLog) -> (usize, Vec<String>) {
        let (mut count, mut wrong) = (0, Vec::new());
        for prefix in 0..=log.ops.len() {
            let counted = |verb: &str, name: &str| {
                let mark = FileOp::Mark(format!("{verb} {name}"));
                log.ops.iter().take(prefix).filter(|op| **op == mark).count()
            };
            for image in images(log, prefix, 1) {
                count += 1;
                for (name, tried) in &self.history {
                    let (begun, done) = (counted("begin", name), counted("done", name));
                    let found = file(&image, name).map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
                    let legal = (done == 0 && found.is_none()) || tried[done.saturating_sub(1)..begun].contains(&found);
                    if !legal {
                        wrong.push(format!("after {prefix} operations, {name} is {found:?}"));
                    }
                }
            }
        }
        (count, wrong)
    }
}

async fn checkpoint_like() -> Workload {
    let mut work = Workload::new();
    work.put("metadata", "id", PutMode::Create).await;
    for batch in 0..3 {
        work.put(&format!("offsets/{batch}"), &format!("offsets of {batch}"), PutMode::Create).await;
        work.upload(&format!("state/0/{batch}.changes"), &["changes ", "of batch"]).await;
        work.put("_last", &format!("{batch}"), PutMode::Overwrite).await;
        work.put(&format!("commits/{batch}"), &format!("commit of {batch}"), PutMode::Create).await;
    }
    // Moved aside: under either name, whole.
    work.begin("torn/offsets/2", Some("offsets of 2"));
    work.begin("offsets/2", None);
    work.store.rename(&ObjectPath::from("offsets/2"), &ObjectPath::from("torn/offsets/2")).await.unwrap();
    work.acknowledge("torn/offsets/2");
    work.acknowledge("offsets/2");
    work.begin("copy", Some("id"));
    work.store.copy(&ObjectPath::from("metadata"), &ObjectPath::from("copy")).await.unwrap();
    work.acknowledge("copy");
    work
}

#[tokio::test]
async fn what_was_acknowledged_survives_every_power_cut_whole() {
    let work = checkpoint_like().await;
    let (count, wrong) = work.check(&work.recorder.log());
    assert!(wrong.is_empty(), "{} of {count}, such as {}", wrong.len(), wrong[0]);
    assert!(count > 250, "{count} images");
}

#[tokio::test]
async fn a_store_that_forgot_to_sync_would_be_caught() {
    let work = checkpoint_like().await;
    let without = |forgotten: fn(&FileOp) -> bool| {
        let mut log = work.recorder.log();
        log.ops.retain(|op| !forgotten(op));
        work.check(&log).1
    };
    assert!(!without(|op| matches!(op, FileOp::SyncFile(_))).is_empty());
    assert!(!without(|op| matches!(op, FileOp::SyncDir(_))).is_empty());
    // The parent of a new directory, and the directory of a log.
    assert!(!without(|op| *op == FileOp::SyncDir(path(""))).is_empty());
    assert!(!without(|op| *op == FileOp::SyncDir(path("commits"))).is_empty());
    assert!(!without(|op| *op == FileOp::SyncDir(path("torn"))).is_empty());
}

#[tokio::test]
async fn a_store_opened_on_an_image_shows_no_leftovers_and_goes_on() {
    let work = checkpoint_like().await;
    let log = work.recorder.log();
    for prefix in (0..=log.ops.len()).step_by(5) {
        for image in images(&log, prefix, 3).step_by(9) {
            let (directory, store, _) = durable(Privacy::Private);
            image.materialise(directory.path()).unwrap();
            assert_eq!(Image::read(directory.path()).unwrap(), image);
            let staged = |path: &&PathBuf| path.to_str().unwrap().contains(".millstream-");
            let visible: BTreeSet<_> =
                image.files.keys().filter(|path| !staged(path)).map(|path| path.to_str().unwrap().to_owned()).collect();
            assert_eq!(names(&store, None).await.into_iter().collect::<BTreeSet<_>>(), visible);
            store.put(&ObjectPath::from("offsets/2"), "again".into()).await.unwrap();
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn writers_that_share_a_directory_sync_are_all_safe() {
    let mut work = Workload::new();
    let names: Vec<_> = (0..12).map(|number| format!("d/{number}")).collect();
    for name in &names {
        work.history.insert(name.clone(), vec![Some(name.clone())]);
    }
    let writers = names.into_iter().map(|name| {
        let (store, recorder) = (work.store.clone(), Arc::clone(&work.recorder));
        tokio::spawn(async move {
            recorder.mark(format!("begin {name}"));
            store.put_opts(&ObjectPath::from(name.clone()), name.clone().into(), PutMode::Create.into()).await.unwrap();
            recorder.mark(format!("done {name}"));
        })
    });
    for writer in writers.collect::<Vec<_>>() {
        writer.await.unwrap();
    }
    let (count, wrong) = work.check(&work.recorder.log());
    assert!(wrong.is_empty() && count > 100, "{} of {count}: {wrong:?}", wrong.len());
}

#[test]
fn what_is_outside_or_was_there_before_is_not_in_question() {
    let directory = tempfile::tempdir().unwrap();
    let inside = directory.path().join("in");
    std::fs::create_dir_all(inside.join("old")).unwrap();
    std::fs::write(inside.join("old/file"), "kept").unwrap();
    let recorder = Recorder::new(&inside).unwrap();
    recorder.create(&directory.path().canonicalize().unwrap().join("outside"), 0o600).unwrap();
    recorder.mark("remark");
    let log = recorder.log();
    assert_eq!(log.ops, [FileOp::Mark("remark".into())]);
    let found: Vec<_> = images(&log, 1, 0).collect();
    assert_eq!(found, [Image::read(&inside).unwrap()]);
    assert_eq!(file(&found[0], "old/file").unwrap(), "kept");
    assert!(recorder.unlink(Path::new("/no/such")).is_err());
    assert_eq!(recorder.log().ops.len(), 1);
}
