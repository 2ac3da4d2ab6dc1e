//! Everything that goes wrong with files: what can be read arrives, the rest is in the quarantine with a reason, and nothing panics.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use super::scene::{Scene, Stage};
use super::{MEMORY_MIB, SCHEMA};
use crate::process::Outcome;

/// A document of 100 MB that is one record is in memory as text, as columns and as Parquet pages.
const DOCUMENT_MIB: u64 = 600;
/// Malformed records of up to 16 MB that are kept whole are in memory as text, as columns and as Parquet pages, in every task.
const KEPT_MIB: u64 = 600;
/// Exit code of a bad record, and of a bad file.
const BAD_RECORD: i32 = 14;
/// Exit code of a file that may be readable another time.
const UNAVAILABLE: i32 = 10;
/// What identifies a row of these scenes.
const COLUMNS: &str = "id, part, amount, _metadata.file_name AS file";

/// JSON files with every fault that was thought of, in every mode.
pub(super) fn json(stage: &Stage) -> Outcome {
    let folder = files(stage, "json")?;
    let input = folder.join("in");
    let expected = folder.join("expected.json");

    let scene = stage.scene("broken-json", &input, COLUMNS, SCHEMA, "format => 'json', mode => 'DROPMALFORMED'")?;
    scene.run()?.ended(0, MEMORY_MIB)?.report(None);
    verify(stage, &scene, &expected, &[])?;
    scene.run()?.ended(0, MEMORY_MIB)?.wrote(0)?;
    verify(stage, &scene, &expected, &[])?;

    let kept = format!("{SCHEMA}, _corrupt_record STRING");
    let columns = format!("{COLUMNS}, _corrupt_record");
    let scene = stage.scene("broken-json-kept", &input, &columns, &kept, "format => 'json', ignoreCorruptFiles => true")?;
    scene.run()?.ended(0, KEPT_MIB)?.report(None);
    verify(stage, &scene, &expected, &["--kept"])?;

    let scene = stage.scene("broken-json-failfast", &input, COLUMNS, SCHEMA, "format => 'json', mode => 'FAILFAST'")?;
    let run = scene.run()?.ended(BAD_RECORD, MEMORY_MIB)?.wrote(0)?;
    run.says("MALFORMED_RECORD_IN_PARSING")?.report(None);

    let noise = input.join("noise.json.gz");
    let scene = stage.scene("damaged-file-fails", &noise, COLUMNS, SCHEMA, "format => 'json'")?;
    let run = scene.run()?.ended(BAD_RECORD, MEMORY_MIB)?.wrote(0)?;
    run.says("FAILED_READ_FILE")?.says("noise.json.gz")?.report(None);
    clear(&folder)
}

/// Malformed records that are very many or very long: what is kept of them is bounded, and the rows behind them arrive.
pub(super) fn lines(stage: &Stage) -> Outcome {
    let folder = files(stage, "lines")?;
    let (input, expected) = (folder.join("in"), folder.join("expected.json"));
    let scene = stage.scene("garbage-lines", &input, COLUMNS, SCHEMA, "format => 'json', mode => 'DROPMALFORMED'")?;
    scene.run()?.ended(0, MEMORY_MIB)?.report(None);
    verify(stage, &scene, &expected, &[])?;

    let kept = format!("{SCHEMA}, _corrupt_record STRING");
    let scene = stage.scene("garbage-lines-kept", &input, &format!("{COLUMNS}, _corrupt_record"), &kept, "format => 'json'")?;
    scene.run()?.ended(0, KEPT_MIB)?.wrote(301_019)?.report(None);
    clear(&folder)
}

/// A file that this user may not read stops the query, which can go on when somebody has corrected that.
pub(super) fn locked_file(stage: &Stage) -> Outcome {
    let input = stage.folder("locked")?;
    let path = input.join("locked.json");
    let failed = |error: std::io::Error| format!("cannot lock {}: {error}", path.display());
    std::fs::write(&path, "{\"id\":1}\n").map_err(failed)?;
    std::fs::set_permissions(&path, Permissions::from_mode(0o000)).map_err(failed)?;
    if std::fs::File::open(&path).is_ok() {
        eprintln!("torture: locked-file is left out: this user may read every file");
        return Ok(());
    }
    let scene = stage.scene("locked-file", &input, COLUMNS, SCHEMA, "format => 'json', mode => 'DROPMALFORMED'")?;
    scene.run()?.ended(UNAVAILABLE, MEMORY_MIB)?.says("FAILED_READ_FILE")?.says("locked.json")?.report(None);
    std::fs::set_permissions(&path, Permissions::from_mode(0o600)).map_err(failed)?;
    scene.run()?.ended(0, MEMORY_MIB)?.wrote(1)?.report(None);
    Ok(())
}

/// A document of 100 MB that is one record.
pub(super) fn whole_document(stage: &Stage) -> Outcome {
    let input = stage.folder("document")?;
    let path = input.join("one.json");
    let text = format!("{{\n \"id\": 1,\n \"part\": \"{}\"\n}}\n", "x".repeat(100 << 20));
    std::fs::write(&path, &text).map_err(|error| format!("cannot write {}: {error}", path.display()))?;
    let scene = stage.scene("whole-document", &input, "id, length(part) AS length", SCHEMA, "format => 'json', multiLine => true")?;
    let run = scene.run()?.ended(0, DOCUMENT_MIB)?.wrote(1)?;
    run.report(Some(text.len() as u64));
    clear(&input)
}

/// Damaged files of another format, and real ones in which random bytes are wrong.
pub(super) fn format(stage: &Stage, format: &str) -> Outcome {
    let folder = files(stage, format)?;
    let lenient = match format {
        "csv" => "mode => 'DROPMALFORMED'",
        _ => "ignoreCorruptFiles => true",
    };
    let lenient = format!("format => '{format}', {lenient}");
    let scene = stage.scene(&format!("broken-{format}"), &folder.join("in"), COLUMNS, SCHEMA, &lenient)?;
    scene.run()?.ended(0, MEMORY_MIB)?.report(None);
    verify(stage, &scene, &folder.join("expected.json"), &[])?;
    scene.run()?.ended(0, MEMORY_MIB)?.wrote(0)?;

    // Wrong bytes may hit values only, which no format but a checksum notices.
    let fuzzed = stage.scene(&format!("fuzzed-{format}"), &folder.join("fuzzed"), COLUMNS, SCHEMA, &lenient)?;
    fuzzed.run()?.ended(0, MEMORY_MIB)?.report(None);

    if format != "csv" {
        let noise = folder.join("in").join(format!("noise.{format}"));
        let strict = stage.scene(&format!("strict-{format}"), &noise, COLUMNS, SCHEMA, &format!("format => '{format}'"))?;
        let run = strict.run()?.ended(BAD_RECORD, MEMORY_MIB)?.wrote(0)?;
        run.says("FAILED_READ_FILE")?.says(&format!("noise.{format}"))?.report(None);
    }
    clear(&folder)
}

/// Has the files made.
fn files(stage: &Stage, kind: &str) -> Outcome<PathBuf> {
    let folder = stage.folder(&format!("files-{kind}"))?;
    stage.script("torture_files.py", &[kind, &folder.to_string_lossy()])?;
    Ok(folder)
}

/// Fails unless the tables hold what is expected.
fn verify(stage: &Stage, scene: &Scene<'_>, expected: &Path, more: &[&str]) -> Outcome {
    let (tables, expected) = (scene.tables(), expected.to_string_lossy().into_owned());
    let tables = tables.to_string_lossy();
    let args: Vec<&str> = ["expected", &tables, &expected].into_iter().chain(more.iter().copied()).collect();
    stage.script("verify_torture.py", &args).map(drop)
}

fn clear(folder: &Path) -> Outcome {
    std::fs::remove_dir_all(folder).map_err(|error| format!("cannot clear {}: {error}", folder.display()))
}
