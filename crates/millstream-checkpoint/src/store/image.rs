//! The disks that a power cut may leave behind.
//!
//! What POSIX promises is little: content is there after the file was synced, a name after its directory was. Everything else may be there or
//! not, in any combination: that is what these images are, as far as 64 per moment go.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use bytes::Bytes;

use super::record::{FileOp, OpLog};

/// Images per moment at most; with up to six open yes-or-no questions all combinations.
const LIMIT: u64 = 64;

/// The content of a directory: files and directories by path relative to it.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Image {
    /// Files and their content.
    pub files: BTreeMap<PathBuf, Bytes>,
    /// Directories, the outermost left out.
    pub directories: BTreeSet<PathBuf>,
}

impl Image {
    /// Reads a directory with everything below it.
    ///
    /// # Errors
    /// Those of the file system.
    pub fn read(root: &Path) -> io::Result<Image> {
        let mut image = Image::default();
        let mut pending = vec![PathBuf::new()];
        while let Some(directory) = pending.pop() {
            for entry in fs::read_dir(root.join(&directory))? {
                let entry = entry?;
                let path = directory.join(entry.file_name());
                if entry.file_type()?.is_dir() {
                    image.directories.insert(path.clone());
                    pending.push(path);
                } else {
                    image.files.insert(path, fs::read(entry.path())?.into());
                }
            }
        }
        Ok(image)
    }

    /// Writes the image into a directory, which is made and should be empty.
    ///
    /// # Errors
    /// Those of the file system.
    pub fn materialise(&self, root: &Path) -> io::Result<()> {
        fs::create_dir_all(root)?;
        for directory in &self.directories {
            fs::create_dir_all(root.join(directory))?;
        }
        for (path, content) in &self.files {
            fs::write(root.join(path), content)?;
        }
        Ok(())
    }
}

/// The different disks that a power cut after the first `prefix` operations of `log` may leave behind.
///
/// A file with content that was not synced since it was written is as written, or as when last synced, or full of zeros, or cut in half. Each
/// name made, moved or removed since its directory was synced is or is not; a file moved between directories is under at least one name.
/// Names below a directory that is not there are not there. All combinations up to 64; beyond that 64 of them, among which are everything
/// and nothing, chosen by `seed`.
pub fn images(log: &OpLog, prefix: usize, seed: u64) -> impl Iterator<Item = Image> + use<> {
    let mut disk = Disk::new(&log.base);
    for op in log.ops.iter().take(prefix) {
        disk.apply(op);
    }
    let questions = disk.questions();
    let combinations = questions.iter().fold(1_u64, |product, answers| product.saturating_mul(*answers));
    let mut seen = BTreeSet::new();
    (0..combinations.min(LIMIT)).filter_map(move |index| {
        let answers = if combinations <= LIMIT { count(&questions, index) } else { sample(&questions, index, seed ^ prefix as u64) };
        let image = disk.image(&answers);
        seen.insert(image.clone()).then_some(image)
    })
}

/// The answers that make up the number `index`.
fn count(questions: &[u64], mut index: u64) -> Vec<u64> {
    let digit = |answers: &u64| {
        let digit = index % answers;
        index /= answers;
        digit
    };
    questions.iter().map(digit).collect()
}

/// Everything, nothing, then answers drawn from a sequence that `seed` begins (splitmix64).
fn sample(questions: &[u64], index: u64, seed: u64) -> Vec<u64> {
    if index < 2 {
        return questions.iter().map(|answers| index.min(answers - 1)).collect();
    }
    let mut state = seed.wrapping_mul(0x2545_f491_4f6c_dd1d).wrapping_add(index << 32);
    let draw = |answers: &u64| {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % answers
    };
    questions.iter().map(draw).collect()
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Node {
    File(usize),
    Directory,
}

#[derive(Clone, Debug, Default)]
struct Content {
    written: Vec<u8>,
    synced: Vec<u8>,
    dirty: bool,
}

/// A change of one directory that was not synced.
#[derive(Clone, Debug)]
enum Change {
    Add(PathBuf, Node),
    Remove(PathBuf),
    /// A move within one directory, which is one change of it.
    Move(PathBuf, PathBuf, Node),
    /// The second half of a move to another directory: only once the new name is there.
    RemoveMoved(PathBuf, PathBuf, Node),
}

impl Change {
    fn directory(&self) -> &Path {
        let (Change::Add(path, _) | Change::Remove(path) | Change::Move(path, ..) | Change::RemoveMoved(path, ..)) = self;
        path.parent().unwrap_or(Path::new(""))
    }

    fn apply(&self, names: &mut BTreeMap<PathBuf, Node>) {
        match self {
            Change::Add(path, node) => {
                names.insert(path.clone(), *node);
            }
            Change::Remove(path) => {
                names.remove(path);
            }
            Change::Move(from, to, node) => {
                names.remove(from);
                names.insert(to.clone(), *node);
            }
            Change::RemoveMoved(from, to, node) => {
                if names.get(to) == Some(node) {
                    names.remove(from);
                }
            }
        }
    }
}

/// A file system as the kernel sees it (`names`) and as the disk has it for certain (`durable`, and what is synced of the contents).
#[derive(Debug)]
struct Disk {
    names: BTreeMap<PathBuf, Node>,
    durable: BTreeMap<PathBuf, Node>,
    pending: Vec<Change>,
    contents: Vec<Content>,
}

impl Disk {
    fn new(base: &Image) -> Self {
        let mut names: BTreeMap<_, _> = base.directories.iter().map(|path| (path.clone(), Node::Directory)).collect();
        let mut contents = Vec::new();
        for (path, bytes) in &base.files {
            names.insert(path.clone(), Node::File(contents.len()));
            contents.push(Content { written: bytes.to_vec(), synced: bytes.to_vec(), dirty: false });
        }
        Disk { durable: names.clone(), names, pending: Vec::new(), contents }
    }

    fn content(&mut self, path: &Path) -> Option<&mut Content> {
        match self.names.get(path) {
            Some(Node::File(file)) => self.contents.get_mut(*file),
            _ => None,
        }
    }

    fn change(&mut self, change: Change) {
        change.apply(&mut self.names);
        self.pending.push(change);
    }

    fn apply(&mut self, op: &FileOp) {
        match op {
            FileOp::Create(path) => {
                self.change(Change::Add(path.clone(), Node::File(self.contents.len())));
                self.contents.push(Content::default());
            }
            FileOp::Write(path, offset, data) => {
                let Some(content) = self.content(path) else { return };
                let start = usize::try_from(*offset).unwrap_or(usize::MAX);
                let end = start.saturating_add(data.len());
                if content.written.len() < end {
                    content.written.resize(end, 0);
                }
                content.written[start..end].copy_from_slice(data);
                content.dirty = true;
            }
            FileOp::SyncFile(path) => {
                let Some(content) = self.content(path) else { return };
                content.synced.clone_from(&content.written);
                content.dirty = false;
            }
            FileOp::Link(from, to) => {
                if let Some(node) = self.names.get(from).copied() {
                    self.change(Change::Add(to.clone(), node));
                }
            }
            FileOp::Rename(from, to) => {
                let Some(node) = self.names.get(from).copied() else { return };
                if from.parent() == to.parent() {
                    self.change(Change::Move(from.clone(), to.clone(), node));
                } else {
                    self.change(Change::Add(to.clone(), node));
                    self.change(Change::RemoveMoved(from.clone(), to.clone(), node));
                }
            }
            FileOp::Unlink(path) => self.change(Change::Remove(path.clone())),
            FileOp::MakeDir(path) => self.change(Change::Add(path.clone(), Node::Directory)),
            FileOp::SyncDir(path) => {
                let durable = &mut self.durable;
                self.pending.retain(|change| {
                    let synced = change.directory() == path;
                    if synced {
                        change.apply(durable);
                    }
                    !synced
                });
            }
            FileOp::Mark(_) => {}
        }
    }

    /// How many answers each open question has: first the pending changes, then the dirty contents.
    fn questions(&self) -> Vec<u64> {
        let contents = self.contents.iter().filter(|content| content.dirty).map(|_| 4);
        self.pending.iter().map(|_| 2).chain(contents).collect()
    }

    fn image(&self, answers: &[u64]) -> Image {
        let mut names = self.durable.clone();
        for (change, _) in self.pending.iter().zip(answers).filter(|(_, answer)| **answer == 1) {
            change.apply(&mut names);
        }
        let mut dirty_answers = answers.iter().skip(self.pending.len());
        let contents: Vec<Bytes> = self
            .contents
            .iter()
            .map(|content| {
                let answer = if content.dirty { dirty_answers.next() } else { None };
                match answer {
                    None | Some(0) => content.synced.clone(),
                    Some(1) => content.written.clone(),
                    Some(2) => vec![0; content.written.len()],
                    Some(_) => content.written[..content.written.len() / 2].to_vec(),
                }
            })
            .map(Bytes::from)
            .collect();
        let is_there = |path: &Path| path.ancestors().skip(1).all(|up| up == Path::new("") || names.get(up) == Some(&Node::Directory));
        let mut image = Image::default();
        for (path, node) in names.iter().filter(|(path, _)| is_there(path)) {
            match node {
                Node::Directory => {
                    image.directories.insert(path.clone());
                }
                Node::File(file) => {
                    image.files.insert(path.clone(), contents.get(*file).cloned().unwrap_or_default());
                }
            }
        }
        image
    }
}

#[cfg(test)]
mod tests;
