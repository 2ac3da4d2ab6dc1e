//! Writes the input of a drill while the drill runs: JSON files with ids that never repeat.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use super::Random;
use crate::process::Outcome;

/// Records per file.
const RECORDS: u64 = 25;

/// Every so many files end with a malformed record, which belongs into the quarantine.
const MALFORMED_EVERY: u32 = 5;

/// What was written: ids from 0 up to a number, each once, and malformed records.
#[derive(Clone, Copy)]
pub(super) struct Written {
    pub(super) ids: u64,
    pub(super) malformed: u64,
}

/// A thread that writes files in step with the kills.
pub(super) struct Feed {
    steps: Arc<AtomicU32>,
    thread: JoinHandle<Result<Written, String>>,
}

impl Feed {
    /// Starts writing `files` files into `dir`, spread over `steps` steps.
    pub(super) fn start(dir: &Path, files: u32, steps: u32, seed: u64) -> Outcome<Self> {
        std::fs::create_dir_all(dir).map_err(|error| format!("cannot make {}: {error}", dir.display()))?;
        let allowed = Arc::new(AtomicU32::new(1));
        let (dir, gate) = (dir.to_owned(), allowed.clone());
        let thread = std::thread::spawn(move || {
            let mut random = Random(seed);
            for file in 0..files {
                while u64::from(file) * u64::from(steps) >= u64::from(gate.load(Ordering::SeqCst)) * u64::from(files) {
                    std::thread::sleep(Duration::from_millis(5));
                }
                write(&dir, file, &mut random)?;
                std::thread::sleep(Duration::from_millis(random.below(30)));
            }
            Ok(Written { ids: u64::from(files) * RECORDS, malformed: u64::from(files.div_ceil(MALFORMED_EVERY)) })
        });
        Ok(Feed { steps: allowed, thread })
    }

    /// Lets the writer go on to the next step.
    pub(super) fn advance(&self) {
        self.steps.fetch_add(1, Ordering::SeqCst);
    }

    /// Lets the writer finish, and returns what it wrote.
    pub(super) fn finish(self) -> Outcome<Written> {
        self.steps.store(u32::MAX / 2, Ordering::SeqCst);
        self.thread.join().map_err(|_| "the writer of the drill's input panicked".to_owned())?
    }
}

/// Writes one file under a hidden name and renames it, as every careful producer does.
fn write(dir: &Path, file: u32, random: &mut Random) -> Result<(), String> {
    let mut text = String::new();
    for record in 0..RECORDS {
        let id = u64::from(file) * RECORDS + record;
        text.push_str(&format!("{{\"id\":{id},\"part\":\"p{}\",\"amount\":{}}}\n", id % 3, random.below(1_000)));
    }
    if file.is_multiple_of(MALFORMED_EVERY) {
        text.push_str(&format!("{{\"id\":-{file},\"part\":\n"));
    }
    let hidden: PathBuf = dir.join(format!(".{file:06}.tmp"));
    let shown = dir.join(format!("{file:06}.json"));
    std::fs::write(&hidden, text).and_then(|()| std::fs::rename(&hidden, &shown)).map_err(|error| format!("{}: {error}", shown.display()))
}
