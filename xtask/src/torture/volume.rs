//! Very many files, and very big ones.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;

use super::scene::{Run, Scene, Stage};
use super::{MEMORY_MIB, SCHEMA};
use crate::process::{Outcome, fail};

/// Files of the scenes with many files.
const FILES: u64 = 20_000;
/// Records in each of them.
const RECORDS: u64 = 3;
/// Many files are read in this time on any machine that is not broken, in seconds.
const MANY_FILES_SECONDS: f64 = 30.0;

/// 20,000 small files, at once and in batches of 1,000, and restarts that have nothing to do.
pub(super) fn many_small_files(stage: &Stage) -> Outcome {
    let input = stage.folder("small")?;
    for file in 0..FILES {
        let mut out = create(&input.join(format!("{file:06}.json")))?;
        for id in file * RECORDS..(file + 1) * RECORDS {
            record(&mut out, id, "")?;
        }
        out.flush().map_err(unwritable)?;
    }
    let rows = FILES * RECORDS;
    for (name, options, batches) in
        [("small-files", "format => 'json'", 1), ("small-files-by-1000", "format => 'json', maxFilesPerTrigger => 1000", 20)]
    {
        let scene = stage.scene(name, &input, "id, part, amount", SCHEMA, options)?;
        let run = scene.run()?.ended(0, MEMORY_MIB)?.wrote(rows)?;
        if run.batches != batches {
            return fail(format!("{name}: {} batches instead of {batches}", run.batches));
        }
        in_time(&run)?;
        run.report(None);
        verify(stage, &scene, rows)?;
        for _ in 0..3 {
            let again = scene.run()?.ended(0, MEMORY_MIB)?.wrote(0)?;
            in_time(&again)?;
            again.report(None);
        }
        verify(stage, &scene, rows)?;
    }
    Ok(())
}

/// One file of about so many bytes.
pub(super) fn one_big_file(stage: &Stage, bytes: u64) -> Outcome {
    let input = stage.folder("big")?;
    let path = input.join("big.json");
    let mut out = create(&path)?;
    let (mut rows, mut written) = (0, 0);
    while written < bytes {
        written += record(&mut out, rows, "the quick brown fox jumps over the lazy dog and is not seen again")?;
        rows += 1;
    }
    out.flush().map_err(unwritable)?;
    let schema = format!("{SCHEMA}, note STRING");
    let scene = stage.scene("big-file", &input, "id, part, amount, note", &schema, "format => 'json'")?;
    let run = scene.run()?.ended(0, MEMORY_MIB)?.wrote(rows)?;
    run.report(Some(written));
    verify(stage, &scene, rows)?;
    std::fs::remove_file(&path).map_err(|error| format!("cannot remove {}: {error}", path.display()))
}

/// Fails unless the table and its history hold the ids 0 up to `rows`, each once.
fn verify(stage: &Stage, scene: &Scene<'_>, rows: u64) -> Outcome {
    let table = scene.tables().join("events");
    stage.script("verify_torture.py", &["numbered", &table.to_string_lossy(), &rows.to_string()]).map(drop)
}

fn in_time(run: &Run) -> Outcome {
    if run.seconds <= MANY_FILES_SECONDS { Ok(()) } else { fail(format!("many files took {:.1} s", run.seconds)) }
}

fn create(path: &Path) -> Outcome<BufWriter<File>> {
    let file = File::create(path).map_err(|error| format!("cannot write {}: {error}", path.display()))?;
    Ok(BufWriter::new(file))
}

/// Writes one record and returns its length.
fn record(out: &mut impl Write, id: u64, note: &str) -> Outcome<u64> {
    let mut line = format!("{{\"id\":{id},\"part\":\"p{}\",\"amount\":{}", id % 3, id % 1_000);
    if !note.is_empty() {
        line.push_str(&format!(",\"note\":\"{note}\""));
    }
    line.push_str("}\n");
    out.write_all(line.as_bytes()).map_err(unwritable)?;
    Ok(line.len() as u64)
}

fn unwritable(error: std::io::Error) -> String {
    format!("cannot write the input: {error}")
}
