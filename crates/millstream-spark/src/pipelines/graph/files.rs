//! Finds and reads the files of a pipeline.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use millstream_core::{Error, Result};

use crate::sql::SourceFile;

/// The largest file that is read as SQL.
const MAX_BYTES: u64 = 16 << 20;

/// Reads a file, or every `*.sql` file below a folder, sorted by path. Folders and files whose name begins with `.` are left out.
///
/// # Errors
/// `PATH_NOT_FOUND`, `PIPELINE_FILE_UNREADABLE` (also for text that is not UTF-8), or `RUN_EMPTY_PIPELINE` for a folder without such files.
pub fn read_files(path: &Path) -> Result<Vec<Arc<SourceFile>>> {
    let metadata = std::fs::metadata(path).map_err(|error| {
        Error::invalid("PATH_NOT_FOUND", format!("there is no pipeline '{}'", path.display())).with_sqlstate("42K03").caused_by(error)
    })?;
    if !metadata.is_dir() {
        return Ok(vec![read(path, path.display().to_string())?]);
    }
    let mut found = Vec::new();
    collect(path, &mut found, 0)?;
    found.sort();
    if found.is_empty() {
        return Err(
            Error::invalid("RUN_EMPTY_PIPELINE", format!("there is no .sql file below '{}'", path.display())).with_sqlstate("42617")
        );
    }
    found.iter().map(|file| read(file, file.strip_prefix(path).unwrap_or(file).display().to_string())).collect()
}

/// Deeper folders than this are taken for a circle of links.
const MAX_DEPTH: usize = 32;

fn collect(folder: &Path, found: &mut Vec<PathBuf>, depth: usize) -> Result<()> {
    let entries = std::fs::read_dir(folder).map_err(|error| unreadable(folder, error))?;
    for entry in entries {
        let path = entry.map_err(|error| unreadable(folder, error))?.path();
        if path.file_name().is_none_or(|name| name.to_string_lossy().starts_with('.')) {
            continue;
        }
        if path.is_dir() {
            if depth < MAX_DEPTH {
                collect(&path, found, depth + 1)?;
            }
        } else if path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("sql")) {
            found.push(path);
        }
    }
    Ok(())
}

fn read(path: &Path, name: String) -> Result<Arc<SourceFile>> {
    let size = std::fs::metadata(path).map_err(|error| unreadable(path, error))?.len();
    if size > MAX_BYTES {
        return Err(Error::invalid("PIPELINE_FILE_UNREADABLE", format!("'{}' has {size} bytes: that is no pipeline", path.display())));
    }
    let bytes = std::fs::read(path).map_err(|error| unreadable(path, error))?;
    let text = String::from_utf8(bytes).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        Error::invalid("PIPELINE_FILE_UNREADABLE", format!("'{}' is not UTF-8 at byte {at}: save it as UTF-8", path.display()))
    })?;
    // An editor may have put a byte order mark in front.
    let text = text.strip_prefix('\u{feff}').map_or(text.as_str(), |rest| rest).to_owned();
    Ok(Arc::new(SourceFile::new(name, text)))
}

fn unreadable(path: &Path, error: std::io::Error) -> Error {
    Error::invalid("PIPELINE_FILE_UNREADABLE", format!("cannot read '{}'", path.display())).caused_by(error)
}
