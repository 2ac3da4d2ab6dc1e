//! Power cuts: the disks that they may leave behind, rebuilt from a recorded run, each run on to the end.
//!
//! By default a seeded part of the disks is tried; `MILL_IMAGES=all` tries every disk that differs in what a reader can see.

use std::collections::HashSet;
use std::fs::{self, File};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use millstream_checkpoint::store::{FileOp, FileOps, Image, OpLog, Recorder, SystemFiles, images};
use millstream_connectors::delta::DeltaSinkProvider;
use tempfile::TempDir;

use crate::scenario::{self, Places, SEED, sampled};

/// Input files, and batches, of the recorded run.
const FILES: i64 = 6;

/// The system's files without waiting for the disk: that a process finds its own writes needs no sync, and power cuts are made by hand.
#[derive(Debug, Default)]
pub struct Unsynced;

impl FileOps for Unsynced {
    fn create(&self, path: &Path, mode: u32) -> io::Result<File> {
        SystemFiles.create(path, mode)
    }

    fn write_at(&self, file: &File, path: &Path, offset: u64, data: &[u8]) -> io::Result<()> {
        SystemFiles.write_at(file, path, offset, data)
    }

    fn sync_file(&self, _file: &File, _path: &Path) -> io::Result<()> {
        Ok(())
    }

    fn link(&self, from: &Path, to: &Path) -> io::Result<()> {
        SystemFiles.link(from, to)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        SystemFiles.rename(from, to)
    }

    fn unlink(&self, path: &Path) -> io::Result<()> {
        SystemFiles.unlink(path)
    }

    fn make_dir(&self, path: &Path, mode: u32) -> io::Result<()> {
        SystemFiles.make_dir(path, mode)
    }

    fn sync_dir(&self, _path: &Path) -> io::Result<()> {
        Ok(())
    }
}

/// A machine: input that stays, and a disk for everything that is written, which power cuts change. Paths stay the same, for checkpoints
/// know where they are.
struct Machine {
    directory: TempDir,
    places: Places,
}

impl Machine {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path().canonicalize().unwrap();
        fs::create_dir(root.join("in")).unwrap();
        fs::create_dir(root.join("disk")).unwrap();
        for file in 0..FILES {
            let (name, text) = scenario::input(file);
            fs::write(root.join("in").join(name), text).unwrap();
        }
        let places = Places::new(root.join("in").to_str().unwrap(), root.join("disk").to_str().unwrap());
        Machine { directory, places }
    }

    fn disk(&self) -> PathBuf {
        self.directory.path().canonicalize().unwrap().join("disk")
    }

    /// Puts another disk in.
    fn load(&self, image: &Image) {
        fs::remove_dir_all(self.disk()).unwrap();
        image.materialise(&self.disk()).unwrap();
    }

    /// Starts the query and lets it run to the end of its input. Returns what it did to the disk. The Delta sink of a run that `believes`
    /// takes what it finds in the table for durable.
    async fn run_as(&self, believes: bool) -> Result<OpLog, String> {
        let recorder = Recorder::over(self.disk(), Arc::new(Unsynced)).unwrap();
        let wiring = scenario::wiring().with_file_ops(recorder.clone());
        let mut registry = wiring.registry(io::sink());
        if believes {
            registry.add_sink(Arc::new(DeltaSinkProvider::new(wiring.storage(), wiring.clock.clone(), wiring.ids.clone())));
        }
        scenario::run_with(&wiring, &self.places, registry).await.map_err(|failed| failed.message)?;
        Ok(with_lock(recorder.log()))
    }

    /// Runs the query and proves that nothing is lost or there twice.
    async fn recover(&self) -> Result<OpLog, String> {
        let log = self.run_as(false).await?;
        let wiring = scenario::wiring().with_file_ops(Arc::new(Unsynced));
        scenario::verify(&wiring, &self.places, FILES).await?;
        Ok(log)
    }
}

/// The lock makes the checkpoint's directory by itself; without a record of that, nothing below it would be on any disk.
fn with_lock(mut log: OpLog) -> OpLog {
    let checkpoint = Path::new("cp");
    if !log.base.directories.contains(checkpoint) {
        let touches = |op: &FileOp| paths(op).iter().any(|path| path.starts_with(checkpoint));
        let first = log.ops.iter().position(touches).unwrap_or(log.ops.len());
        log.ops.insert(first, FileOp::MakeDir(checkpoint.to_owned()));
    }
    log
}

fn paths(op: &FileOp) -> Vec<&Path> {
    match op {
        FileOp::Create(path) | FileOp::Write(path, ..) | FileOp::SyncFile(path) | FileOp::Unlink(path) => vec![path],
        FileOp::MakeDir(path) | FileOp::SyncDir(path) => vec![path],
        FileOp::Link(from, to) | FileOp::Rename(from, to) => vec![from, to],
        FileOp::Mark(_) => vec![],
    }
}

/// The disk of a process that was killed after `count` operations: the kernel still has everything.
fn killed(log: &OpLog, count: usize, disk: &Path) {
    log.base.materialise(disk).unwrap();
    for op in &log.ops[..count] {
        match op {
            FileOp::Create(path) => drop(File::create_new(disk.join(path)).unwrap()),
            FileOp::Write(path, offset, data) => {
                File::options().write(true).open(disk.join(path)).unwrap().write_all_at(data, *offset).unwrap();
            }
            FileOp::Link(from, to) => fs::hard_link(disk.join(from), disk.join(to)).unwrap(),
            FileOp::Rename(from, to) => fs::rename(disk.join(from), disk.join(to)).unwrap(),
            FileOp::Unlink(path) => fs::remove_file(disk.join(path)).unwrap(),
            FileOp::MakeDir(path) => fs::create_dir_all(disk.join(path)).unwrap(),
            FileOp::SyncFile(_) | FileOp::SyncDir(_) | FileOp::Mark(_) => {}
        }
    }
}

/// What readers see of a disk: not the hidden files of writes that were under way.
fn visible(image: &Image) -> u64 {
    let mut hasher = DefaultHasher::new();
    let hidden = |path: &Path| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(".millstream-"));
    for (path, content) in image.files.iter().filter(|(path, _)| !hidden(path)) {
        (path, content).hash(&mut hasher);
    }
    image.directories.hash(&mut hasher);
    hasher.finish()
}

/// The disks after each of the operations in `moments`, those that look the same only once. Also how many there were before that.
fn disks(log: &OpLog, moments: impl Iterator<Item = usize>, seen: &mut HashSet<u64>) -> (Vec<(usize, Image)>, usize) {
    let mut count = 0;
    let mut found = Vec::new();
    for moment in moments {
        for image in images(log, moment, SEED) {
            count += 1;
            if seen.insert(visible(&image)) {
                found.push((moment, image));
            }
        }
    }
    (found, count)
}

fn everything() -> bool {
    std::env::var("MILL_IMAGES").is_ok_and(|value| value == "all")
}

/// Of the disks, one in so many is tried by default.
const ONE_IN: u64 = 2;
/// Of the recoveries from them, one in so many is cut off again.
const CUT_AGAIN: u64 = 6;
/// Disks of each recovery that is cut off.
const AGAIN: usize = 5;

/// Tries disks, and for some of them the disks that a second power cut leaves during recovery.
async fn try_all(machine: &Machine, found: Vec<(usize, Image)>, wrong: &mut Vec<String>) -> (usize, usize) {
    let (mut tried, mut nested) = (0, 0);
    for (number, (moment, image)) in found.into_iter().enumerate() {
        if !everything() && !sampled(number, ONE_IN) {
            continue;
        }
        tried += 1;
        machine.load(&image);
        let recovery = match machine.recover().await {
            Ok(recovery) => recovery,
            Err(error) => {
                wrong.push(format!("after operation {moment}: {error}"));
                continue;
            }
        };
        if !sampled(tried, CUT_AGAIN) {
            continue;
        }
        let (again, _) = disks(&recovery, 0..=recovery.ops.len(), &mut HashSet::from([visible(&image)]));
        let step = again.len() / AGAIN + 1;
        for (later, image) in again.into_iter().skip(number % step).step_by(step) {
            nested += 1;
            machine.load(&image);
            if let Err(error) = machine.recover().await {
                wrong.push(format!("after operation {moment}, then {later} of recovery: {error}"));
            }
        }
    }
    (tried, nested)
}

fn report(what: &str, wrong: &[String], tried: usize) {
    let such_as = wrong[..wrong.len().min(8)].join("\n");
    assert!(wrong.is_empty(), "{what}: {} of {tried} disks lost or doubled something, such as\n{such_as}", wrong.len());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whatever_a_power_cut_leaves_nothing_is_lost_or_doubled() {
    let machine = Machine::new();
    let log = machine.recover().await.unwrap();
    let (found, count) = disks(&log, 0..=log.ops.len(), &mut HashSet::new());
    let different = found.len();
    let mut wrong = Vec::new();
    let (tried, nested) = try_all(&machine, found, &mut wrong).await;
    println!("{} operations leave {count} disks, {different} of them different to readers", log.ops.len());
    println!("{tried} of these tried, and {nested} that a second cut left during recovery");
    report("power cuts", &wrong, tried + nested);
    assert!(tried > 20 && nested > 5, "{tried} and {nested} are too few");
}

/// What the disks after a kill, a restart and a power cut show: how many were tried, and what was wrong.
async fn kill_restart_cut(machine: &Machine, believes: bool) -> (usize, Vec<String>) {
    let log = machine.recover().await.unwrap();
    let (mut tried, mut wrong) = (0, Vec::new());
    for moment in 1..=log.ops.len() {
        let publishes = matches!(log.ops[moment - 1], FileOp::Link(..) | FileOp::Rename(..));
        if !everything() && !publishes {
            continue;
        }
        let at = format!("killed after operation {moment}, {}", short(&log.ops[moment - 1]));
        machine.load(&Image::default());
        killed(&log, moment, &machine.disk());
        let restarted = match machine.run_as(believes).await {
            Ok(restarted) => restarted,
            Err(error) => {
                wrong.push(format!("{at}: {error}"));
                continue;
            }
        };
        let both = OpLog { base: log.base.clone(), ops: log.ops[..moment].iter().chain(&restarted.ops).cloned().collect() };
        let (found, _) = disks(&both, moment..=both.ops.len(), &mut HashSet::new());
        let step = if everything() { 1 } else { found.len() / 3 + 1 };
        // The last disks are those on which the run has ended, so that nothing may be missing any more.
        for (later, image) in found.into_iter().rev().step_by(step) {
            tried += 1;
            machine.load(&image);
            if let Err(error) = machine.recover().await {
                wrong.push(format!("{at}, cut after {} more: {error}", later - moment));
            }
        }
    }
    (tried, wrong)
}

/// A process that is killed leaves everything to the kernel. What its successor sees and builds on may still not be on disk.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_power_cut_after_a_kill_and_a_restart_loses_nothing() {
    let (tried, wrong) = kill_restart_cut(&Machine::new(), false).await;
    println!("{tried} disks after a kill, a restart and a power cut");
    report("a kill, a restart, a power cut", &wrong, tried);
    assert!(tried > 10, "{tried} are too few");
}

/// The proof can fail: a sink that believes a commit in its table without making it durable loses batches.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sink_that_believes_what_is_not_on_disk_is_caught() {
    let (tried, wrong) = kill_restart_cut(&Machine::new(), true).await;
    println!("{} of {tried} disks show that the sink believed too early", wrong.len());
    assert!(!wrong.is_empty(), "{tried} disks did not show it");
}

fn short(op: &FileOp) -> String {
    format!("{op:?}").chars().take(160).collect()
}

/// File operations of a store that forgets to sync.
#[derive(Debug)]
struct Forgetful {
    recorder: Arc<Recorder>,
    directories: bool,
}

impl FileOps for Forgetful {
    fn create(&self, path: &Path, mode: u32) -> io::Result<File> {
        self.recorder.create(path, mode)
    }

    fn write_at(&self, file: &File, path: &Path, offset: u64, data: &[u8]) -> io::Result<()> {
        self.recorder.write_at(file, path, offset, data)
    }

    fn sync_file(&self, file: &File, path: &Path) -> io::Result<()> {
        if self.directories { self.recorder.sync_file(file, path) } else { Ok(()) }
    }

    fn link(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.recorder.link(from, to)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.recorder.rename(from, to)
    }

    fn unlink(&self, path: &Path) -> io::Result<()> {
        self.recorder.unlink(path)
    }

    fn make_dir(&self, path: &Path, mode: u32) -> io::Result<()> {
        self.recorder.make_dir(path, mode)
    }

    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        if self.directories { Ok(()) } else { self.recorder.sync_dir(path) }
    }
}

/// The proof can fail: a store that syncs no directories, or no files, does not pass it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_that_forgets_to_sync_is_caught() {
    for directories in [true, false] {
        let machine = Machine::new();
        let recorder = Recorder::over(machine.disk(), Arc::new(Unsynced)).unwrap();
        let wiring = scenario::wiring().with_file_ops(Arc::new(Forgetful { recorder: recorder.clone(), directories }));
        scenario::run(&wiring, &machine.places).await.unwrap();
        let log = with_lock(recorder.log());
        let (mut tried, mut caught) = (0, None);
        for (moment, image) in disks(&log, (0..=log.ops.len()).rev().step_by(7), &mut HashSet::new()).0.into_iter().step_by(3).take(60) {
            tried += 1;
            machine.load(&image);
            caught = machine.recover().await.err().map(|error| format!("after operation {moment}: {error}"));
            if caught.is_some() {
                break;
            }
        }
        println!("without syncs of {}, caught by disk {tried}: {caught:?}", if directories { "directories" } else { "files" });
        assert!(caught.is_some(), "{tried} disks did not show it");
    }
}
