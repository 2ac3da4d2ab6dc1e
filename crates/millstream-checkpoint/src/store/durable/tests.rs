use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

use futures::TryStreamExt;
use futures::future::join_all;
use millstream_core::ErrorKind;
use object_store::{GetRange, ObjectStoreExt};
use proptest::prelude::*;

use super::super::testing::{create, durable, names, options, overwrite, read};
use super::super::{FileOps, SystemFiles, to_error};
use super::*;

const ODD_NAMES: &[&str] = &[
    "with space",
    "per%cent",
    "20%25",
    "a%2Fb",
    "hash#tag",
    "hash#1",
    "glob*?[a-z]{x,y}",
    "žluť",
    "日本語",
    "q'uo\"te",
    "back\\slash",
    "a=b&c+d;e:f",
    "~tilde",
    "C|",
    "...",
    "|^<>`",
];

fn staged_files(directory: &FilePath) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(staged_files(&path));
        } else if is_staged(path.file_name().unwrap().to_str().unwrap()) {
            found.push(path);
        }
    }
    found
}

#[tokio::test]
async fn create_refuses_what_exists_and_overwrite_replaces_it() {
    let (_directory, store, _) = durable(Privacy::Shared);
    create(&store, "a/b/c", "one").await.unwrap();
    assert!(matches!(create(&store, "a/b/c", "two").await, Err(object_store::Error::AlreadyExists { .. })));
    assert_eq!(read(&store, "a/b/c").await.unwrap(), "one");
    overwrite(&store, "a/b/c", "three").await.unwrap();
    assert_eq!(read(&store, "a/b/c").await.unwrap(), "three");
    store.delete(&Path::from("a/b/c")).await.unwrap();
    assert!(matches!(read(&store, "a/b/c").await, Err(object_store::Error::NotFound { .. })));
    assert!(matches!(store.delete(&Path::from("a/b/c")).await, Err(object_store::Error::NotFound { .. })));
}

#[tokio::test]
async fn a_small_put_is_one_file_sync_and_one_directory_sync() {
    let (_directory, store, options) = durable(Privacy::Private);
    create(&store, "offsets/0", "x").await.unwrap();
    let before = options.stats().counts();
    create(&store, "offsets/1", "four").await.unwrap();
    overwrite(&store, "offsets/2", "five!").await.unwrap();
    let spent = options.stats().counts().since(&before);
    assert_eq!((spent.file_syncs, spent.dir_syncs, spent.files_published, spent.bytes_written), (2, 2, 2, 9));
    assert!(spent.sync_ns > 0);
}

#[tokio::test]
async fn directories_made_for_a_put_are_synced_with_it() {
    let (_directory, store, options) = durable(Privacy::Private);
    create(&store, "a/b/c/x", "x").await.unwrap();
    // a in the root, b in a, c in b, x in c.
    assert_eq!(options.stats().counts().dir_syncs, 4);
    create(&store, "a/b/y", "y").await.unwrap();
    assert_eq!(options.stats().counts().dir_syncs, 5);
}

#[tokio::test]
async fn private_stores_keep_others_out_and_shared_ones_follow_the_umask() {
    let mode = |path: PathBuf| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    let (directory, store, _) = durable(Privacy::Private);
    create(&store, "a/b/c", "x").await.unwrap();
    assert_eq!(mode(directory.path().join("a")), 0o700);
    assert_eq!(mode(directory.path().join("a/b")), 0o700);
    assert_eq!(mode(directory.path().join("a/b/c")), 0o600);
    let (directory, store, _) = durable(Privacy::Shared);
    create(&store, "a/c", "x").await.unwrap();
    fs::write(directory.path().join("a/as the umask wants"), "").unwrap();
    assert_eq!(mode(directory.path().join("a/c")), mode(directory.path().join("a/as the umask wants")));
}

#[tokio::test]
async fn names_are_taken_character_by_character() {
    let (directory, store, _) = durable(Privacy::Shared);
    for name in ODD_NAMES {
        fs::write(directory.path().join(name), format!("outside {name}")).unwrap();
        let location = Path::parse(format!("written/{name}/{name}")).unwrap();
        store.put_opts(&location, format!("inside {name}").into(), PutMode::Create.into()).await.unwrap();
        let file = directory.path().join("written").join(name).join(name);
        assert_eq!(fs::read_to_string(&file).unwrap(), format!("inside {name}"));
        assert_eq!(store.get(&location).await.unwrap().bytes().await.unwrap(), format!("inside {name}"));
    }
    let listed = names(&store, None).await;
    for name in ODD_NAMES {
        assert!(listed.contains(&name.to_string()), "{name} in {listed:?}");
        assert!(listed.contains(&format!("written/{name}/{name}")), "{name} in {listed:?}");
        assert_eq!(read(&store, name).await.unwrap(), format!("outside {name}"));
        assert_eq!(names(&store, Some(&format!("written/{name}"))).await, [format!("written/{name}/{name}")]);
    }
    assert_eq!(listed.len(), 2 * ODD_NAMES.len());
    let level = store.list_with_delimiter(Some(&Path::from("written"))).await.unwrap();
    assert_eq!(level.common_prefixes.len(), ODD_NAMES.len());
}

#[tokio::test]
async fn a_name_that_cannot_be_listed_is_an_error_that_names_it() {
    use std::os::unix::ffi::OsStrExt;
    let (directory, store, _) = durable(Privacy::Shared);
    fs::write(directory.path().join(std::ffi::OsStr::from_bytes(b"caf\xe9")), "").unwrap();
    fs::write(directory.path().join("fine"), "").unwrap();
    let listed: Vec<_> = store.list(None).collect().await;
    assert_eq!(listed.len(), 2);
    let error = listed.iter().find_map(|found| found.as_ref().err()).unwrap();
    assert!(error.to_string().contains("caf"), "{error}");
}

#[tokio::test]
async fn ranges_are_cut_at_the_end_and_refused_beyond_it() {
    let (_directory, store, _) = durable(Privacy::Shared);
    overwrite(&store, "x", "0123456789").await.unwrap();
    let x = Path::from("x");
    let get = async |range: GetRange| store.get_opts(&x, GetOptions::new().with_range(Some(range))).await?.bytes().await;
    assert_eq!(get(GetRange::Bounded(2..5)).await.unwrap(), "234");
    assert_eq!(get(GetRange::Bounded(8..50)).await.unwrap(), "89");
    assert_eq!(get(GetRange::Suffix(3)).await.unwrap(), "789");
    assert_eq!(get(GetRange::Offset(7)).await.unwrap(), "789");
    assert!(get(GetRange::Bounded(10..11)).await.is_err());
    assert_eq!(store.get_ranges(&x, &[0..2, 5..7]).await.unwrap(), ["01", "56"]);
    assert!(store.get_ranges(&x, std::slice::from_ref(&(20..30))).await.is_err());
    let big = "0123456789".repeat(100_000);
    store.put(&Path::from("big"), big.clone().into()).await.unwrap();
    assert_eq!(store.get_range(&Path::from("big"), 5..999_999).await.unwrap(), big[5..999_999]);
    let head = store.head(&x).await.unwrap();
    assert_eq!(head.size, 10);
    let unchanged = store.get_opts(&x, GetOptions::new().with_if_none_match(head.e_tag.clone())).await;
    assert!(matches!(unchanged, Err(object_store::Error::NotModified { .. })));
    overwrite(&store, "x", "0123456789").await.unwrap();
    assert_ne!(store.head(&x).await.unwrap().e_tag, head.e_tag);
}

#[tokio::test]
async fn listings_are_ordered_follow_links_and_take_an_offset() {
    let (directory, store, _) = durable(Privacy::Shared);
    for path in ["log/0", "log/1", "log/2", "log/sub/3", "logs/4"] {
        create(&store, path, "x").await.unwrap();
    }
    symlink(directory.path().join("logs"), directory.path().join("log/linked")).unwrap();
    symlink(directory.path(), directory.path().join("log/loop")).unwrap();
    symlink("nowhere", directory.path().join("log/broken")).unwrap();
    let log = Some("log");
    assert_eq!(names(&store, log).await, ["log/0", "log/1", "log/2", "log/linked/4", "log/loop/logs/4", "log/sub/3"]);
    let tail = store.list_with_offset(Some(&Path::from("log")), &Path::from("log/1"));
    let tail: Vec<_> = tail.map_ok(|meta| meta.location.to_string()).try_collect().await.unwrap();
    assert_eq!(tail, ["log/2", "log/linked/4", "log/loop/logs/4", "log/sub/3"]);
    assert!(names(&store, Some("absent")).await.is_empty());
    assert!(names(&store, Some("log/0")).await.is_empty());
    let level = store.list_with_delimiter(Some(&Path::from("log"))).await.unwrap();
    assert_eq!(level.objects.len(), 3);
    assert_eq!(level.common_prefixes, ["log/linked", "log/loop", "log/sub"].map(Path::from));
}

#[tokio::test]
async fn a_long_listing_is_whole() {
    let (directory, store, _) = durable(Privacy::Shared);
    for number in 0..2500 {
        fs::write(directory.path().join(format!("{number:04}")), "").unwrap();
    }
    let listed = names(&store, None).await;
    assert_eq!(listed.len(), 2500);
    assert!(listed.is_sorted());
}

#[tokio::test]
async fn an_upload_appears_whole_or_not_at_all() {
    let (directory, store, options) = durable(Privacy::Private);
    let location = Path::from("t/part-0.parquet");
    let mut upload = store.put_multipart(&location).await.unwrap();
    let (first, second) = (upload.put_part("hello ".into()), upload.put_part("world".into()));
    // In any order.
    second.await.unwrap();
    first.await.unwrap();
    assert!(names(&store, None).await.is_empty());
    let before = options.stats().counts();
    upload.complete().await.unwrap();
    let spent = options.stats().counts().since(&before);
    assert_eq!((spent.file_syncs, spent.dir_syncs), (1, 1));
    assert_eq!(read(&store, "t/part-0.parquet").await.unwrap(), "hello world");
    assert!(upload.complete().await.is_err());

    let mut aborted = store.put_multipart(&location).await.unwrap();
    aborted.put_part("other".into()).await.unwrap();
    aborted.abort().await.unwrap();
    assert!(aborted.complete().await.is_err());

    let mut holed = store.put_multipart(&location).await.unwrap();
    drop(holed.put_part("never sent".into()));
    holed.put_part("sent".into()).await.unwrap();
    assert!(holed.complete().await.unwrap_err().to_string().contains("4 of 14 bytes"));

    let mut dropped = store.put_multipart(&location).await.unwrap();
    dropped.put_part("x".into()).await.unwrap();
    drop(dropped);
    assert_eq!(read(&store, "t/part-0.parquet").await.unwrap(), "hello world");
    assert!(staged_files(directory.path()).is_empty());
}

#[tokio::test]
async fn copies_and_renames_with_and_without_replacing() {
    let (directory, store, _) = durable(Privacy::Shared);
    let [a, b, c] = ["x/a", "x/b", "y/z/c"].map(Path::from);
    overwrite(&store, "x/a", "one").await.unwrap();
    overwrite(&store, "x/b", "two").await.unwrap();
    assert!(matches!(store.copy_if_not_exists(&a, &b).await, Err(object_store::Error::AlreadyExists { .. })));
    store.copy_if_not_exists(&a, &c).await.unwrap();
    store.copy(&c, &b).await.unwrap();
    overwrite(&store, "x/a", "changed").await.unwrap();
    assert_eq!(read(&store, "x/b").await.unwrap(), "one");
    assert!(matches!(store.rename_if_not_exists(&a, &b).await, Err(object_store::Error::AlreadyExists { .. })));
    assert_eq!(read(&store, "x/a").await.unwrap(), "changed");
    store.rename(&a, &b).await.unwrap();
    store.rename_if_not_exists(&b, &Path::from("new/d")).await.unwrap();
    store.rename(&Path::from("new/d"), &c).await.unwrap();
    assert_eq!(names(&store, None).await, ["y/z/c"]);
    assert_eq!(read(&store, "y/z/c").await.unwrap(), "changed");
    assert!(matches!(store.rename(&a, &b).await, Err(object_store::Error::NotFound { .. })));
    assert!(matches!(store.copy(&a, &b).await, Err(object_store::Error::NotFound { .. })));
    assert!(staged_files(directory.path()).is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn of_many_creators_of_one_object_exactly_one_wins() {
    let (directory, first, options) = durable(Privacy::Shared);
    // Two stores stand for two processes: they share no lock.
    let second = DurableStore::new(directory.path().canonicalize().unwrap(), Privacy::Shared, &options);
    for round in 0..40 {
        let location = Path::from(format!("round/{round}/commit"));
        let racers = (0..8).map(|racer| {
            let (store, location) = (if racer % 2 == 0 { first.clone() } else { second.clone() }, location.clone());
            tokio::spawn(
                async move { store.put_opts(&location, format!("racer {racer}").into(), PutMode::Create.into()).await.map(|_| racer) },
            )
        });
        let mut winners = Vec::new();
        for outcome in join_all(racers).await {
            match outcome.unwrap() {
                Ok(racer) => winners.push(racer),
                Err(object_store::Error::AlreadyExists { .. }) => {}
                Err(error) => panic!("{error}"),
            }
        }
        assert_eq!(winners.len(), 1, "round {round}");
        assert_eq!(read(&first, location.as_ref()).await.unwrap(), format!("racer {}", winners[0]));
    }
    assert!(staged_files(directory.path()).is_empty());
}

#[tokio::test]
async fn writing_goes_on_after_someone_removed_the_directory() {
    let (directory, store, _) = durable(Privacy::Shared);
    create(&store, "a/b/x", "one").await.unwrap();
    fs::remove_dir_all(directory.path().join("a")).unwrap();
    create(&store, "a/b/x", "two").await.unwrap();
    assert_eq!(read(&store, "a/b/x").await.unwrap(), "two");
}

#[tokio::test]
async fn what_cannot_name_an_object_is_refused() {
    let (directory, store, _) = durable(Privacy::Shared);
    assert!(store.put(&Path::default(), "x".into()).await.is_err());
    assert!(store.put(&Path::from("a/.millstream-0-0.tmp"), "x".into()).await.is_err());
    fs::write(directory.path().join("file"), "").unwrap();
    assert!(create(&store, "file/below", "x").await.is_err());
    fs::create_dir(directory.path().join("folder")).unwrap();
    assert!(matches!(create(&store, "folder", "x").await, Err(object_store::Error::AlreadyExists { .. })));
    assert!(overwrite(&store, "folder", "x").await.is_err());
    assert!(matches!(read(&store, "folder").await, Err(object_store::Error::NotFound { .. })));
    let update = PutMode::Update(object_store::UpdateVersion { e_tag: None, version: None });
    assert!(matches!(store.put_opts(&Path::from("x"), "x".into(), update.into()).await, Err(object_store::Error::NotImplemented { .. })));
    assert!(staged_files(directory.path()).is_empty());
}

#[test]
fn works_without_a_runtime() {
    let (_directory, store, _) = durable(Privacy::Shared);
    futures::executor::block_on(async {
        create(&store, "x", "y").await.unwrap();
        assert_eq!(read(&store, "x").await.unwrap(), "y");
        assert_eq!(names(&store, None).await, ["x"]);
    });
}

/// Makes the nth call of one kind fail, counting calls to each file that was synced.
#[derive(Debug)]
struct Saboteur {
    call: &'static str,
    errno: rustix::io::Errno,
    countdown: AtomicU64,
}

impl Saboteur {
    fn check(&self, call: &str) -> io::Result<()> {
        if call == self.call && self.countdown.fetch_update(SeqCst, SeqCst, |left| Some(left.saturating_sub(1))).unwrap() == 1 {
            return Err(self.errno.into());
        }
        Ok(())
    }
}

impl FileOps for Saboteur {
    fn create(&self, path: &FilePath, mode: u32) -> io::Result<File> {
        self.check("create")?;
        SystemFiles.create(path, mode)
    }

    fn write_at(&self, file: &File, path: &FilePath, offset: u64, data: &[u8]) -> io::Result<()> {
        self.check("write")?;
        SystemFiles.write_at(file, path, offset, data)
    }

    fn sync_file(&self, file: &File, path: &FilePath) -> io::Result<()> {
        self.check("sync file")?;
        SystemFiles.sync_file(file, path)
    }

    fn link(&self, from: &FilePath, to: &FilePath) -> io::Result<()> {
        self.check("link")?;
        SystemFiles.link(from, to)
    }

    fn rename(&self, from: &FilePath, to: &FilePath) -> io::Result<()> {
        self.check("rename")?;
        SystemFiles.rename(from, to)
    }

    fn unlink(&self, path: &FilePath) -> io::Result<()> {
        self.check("unlink")?;
        SystemFiles.unlink(path)
    }

    fn make_dir(&self, path: &FilePath, mode: u32) -> io::Result<()> {
        self.check("make dir")?;
        SystemFiles.make_dir(path, mode)
    }

    fn sync_dir(&self, path: &FilePath) -> io::Result<()> {
        self.check("sync dir")?;
        SystemFiles.sync_dir(path)
    }
}

async fn sabotaged(call: &'static str, errno: rustix::io::Errno, nth: u64) -> (tempfile::TempDir, DurableStore, millstream_core::Error) {
    let directory = tempfile::tempdir().unwrap();
    let saboteur = Saboteur { call, errno, countdown: AtomicU64::new(nth) };
    let options = options().with_file_ops(Arc::new(saboteur));
    let store = DurableStore::new(directory.path().canonicalize().unwrap(), Privacy::Shared, &options);
    let error = create(&store, "a/x", "content").await.unwrap_err();
    (directory, store, to_error("cannot write a/x", error))
}

#[tokio::test]
async fn a_failed_sync_is_final_and_publishes_nothing() {
    let (directory, store, error) = sabotaged("sync file", rustix::io::Errno::IO, 1).await;
    assert_eq!((error.kind(), error.code()), (ErrorKind::StoreUnavailable, "STORE_SYNC_FAILED"));
    assert!(names(&store, None).await.is_empty());
    assert!(staged_files(directory.path()).is_empty());
    // Another attempt is another file.
    create(&store, "a/x", "content").await.unwrap();
}

#[tokio::test]
async fn a_failed_directory_sync_is_reported_though_the_file_is_there() {
    // The first is the root's, for the new directory.
    let (_directory, store, error) = sabotaged("sync dir", rustix::io::Errno::IO, 2).await;
    assert_eq!(error.code(), "STORE_SYNC_FAILED");
    assert_eq!(names(&store, None).await, ["a/x"]);
}

#[tokio::test]
async fn a_full_disk_and_a_file_system_without_links_have_their_own_codes() {
    let (directory, store, error) = sabotaged("write", rustix::io::Errno::NOSPC, 1).await;
    assert_eq!((error.kind(), error.code()), (ErrorKind::StoreUnavailable, "STORE_FULL"));
    assert!(staged_files(directory.path()).is_empty());
    assert!(names(&store, None).await.is_empty());
    for errno in [rustix::io::Errno::PERM, rustix::io::Errno::OPNOTSUPP, rustix::io::Errno::NOSYS] {
        let (directory, _, error) = sabotaged("link", errno, 1).await;
        assert_eq!((error.kind(), error.code()), (ErrorKind::Invalid, "STORE_WITHOUT_HARD_LINKS"));
        assert!(error.message().contains("a/x") && error.message().contains("ext4"), "{error}");
        assert!(staged_files(directory.path()).is_empty());
    }
    let (_, _, error) = sabotaged("create", rustix::io::Errno::ACCESS, 1).await;
    assert_eq!(error.code(), "STORE_PERMISSION_DENIED");
}

#[tokio::test]
async fn a_move_to_another_file_system_copies() {
    let directory = tempfile::tempdir().unwrap();
    for (call, replace) in [("rename", true), ("link", false)] {
        let saboteur = Saboteur { call, errno: rustix::io::Errno::XDEV, countdown: AtomicU64::new(0) };
        let options = options().with_file_ops(Arc::new(saboteur));
        let store = DurableStore::new(directory.path().canonicalize().unwrap(), Privacy::Shared, &options);
        let [from, to] = [format!("{call}/from"), format!("{call}/archive/to")].map(Path::from);
        fs::create_dir(directory.path().join(call)).unwrap();
        fs::write(store.file_path(&from), "content").unwrap();
        if replace { store.rename(&from, &to).await } else { store.rename_if_not_exists(&from, &to).await }.unwrap();
        assert_eq!(names(&store, Some(call)).await, [to.to_string()]);
    }
}

#[tokio::test]
async fn settling_removes_the_files_of_dead_writers_only() {
    let (directory, store, options) = durable(Privacy::Shared);
    let mut live = store.put_multipart(&Path::from("a/live")).await.unwrap();
    live.put_part("content".into()).await.unwrap();
    let dead = directory.path().join("a/.millstream-feed-0.tmp");
    fs::write(&dead, "half").unwrap();
    fs::write(directory.path().join("a/.millstream-is-not.tmp.json"), "").unwrap();
    let (root, age) = (Path::default(), Duration::from_secs(60));
    // The clock of the test is at the beginning of 1970: both files are from the future.
    assert_eq!(store.settle(&root, age).await.unwrap(), 0);
    let clock = super::super::testing::TestClock::default();
    clock.now_ms.store(1 << 43, SeqCst);
    let later = StoreOptions::new(Arc::new(clock), Arc::clone(options.ids()));
    let recovering = DurableStore::new(directory.path().canonicalize().unwrap(), Privacy::Shared, &later);
    assert_eq!(recovering.settle(&root, age).await.unwrap(), 1);
    assert!(!dead.exists());
    assert!(later.stats().counts().dir_syncs >= 2);
    live.complete().await.unwrap();
    assert_eq!(names(&store, None).await, ["a/.millstream-is-not.tmp.json", "a/live"]);
    assert_eq!(store.settle(&Path::from("absent"), age).await.unwrap(), 0);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Any sequence of requests leaves what it leaves in memory.
    #[test]
    fn behaves_like_the_store_in_memory(steps in prop::collection::vec((0..6_u8, 0..4_usize, 0..4_usize, "[a-z]{0,8}"), 1..24)) {
        let paths = ["a", "b/c", "b/d e", "f%/g/h"].map(|path| Path::parse(path).unwrap());
        let (_directory, store, _) = durable(Privacy::Shared);
        let model = object_store::memory::InMemory::new();
        futures::executor::block_on(async {
            for (step, first, second, content) in steps {
                let (first, second) = (&paths[first], &paths[second]);
                let act = async |store: &dyn ObjectStore| match step {
                    0 => store.put_opts(first, content.clone().into(), PutMode::Create.into()).await.is_ok(),
                    1 => store.put(first, content.clone().into()).await.is_ok(),
                    2 => { let _ = store.delete(first).await; true }
                    3 => store.copy(first, second).await.is_ok(),
                    4 => store.copy_if_not_exists(first, second).await.is_ok(),
                    _ if first == second => true,
                    _ => store.rename(first, second).await.is_ok(),
                };
                let (ours, theirs) = (act(&store).await, act(&model).await);
                assert_eq!(ours, theirs, "step {step} of {first} and {second}");
            }
            assert_eq!(names(&store, None).await.len(), names(&model, None).await.len());
            for name in names(&model, None).await {
                assert_eq!(read(&store, &name).await.unwrap(), read(&model, &name).await.unwrap());
            }
        });
    }
}
