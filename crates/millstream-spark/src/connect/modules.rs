//! Python modules and files that a client sent as artifacts, on disk for the workers of its session.

use std::collections::BTreeMap;
use std::sync::Arc;

use millstream_core::{Error, ErrorKind, Result};
use parking_lot::Mutex;

use super::host::TemporaryDirectory;
use super::session::ConnectSession;
use crate::python::PythonFiles;

/// Modules, packed ones among them.
const MODULES: &str = "pyfiles/";

/// Files that functions open by their names.
const FILES: &str = "files/";

/// What is on disk. Everything is removed with the session.
#[derive(Debug, Default)]
pub(super) struct Modules(Mutex<Written>);

#[derive(Debug, Default)]
struct Written {
    directory: Option<Box<dyn TemporaryDirectory>>,
    /// By artifact.
    files: BTreeMap<String, Arc<[u8]>>,
}

impl Modules {
    /// Writes what is not there yet and says where workers find it.
    ///
    /// # Errors
    /// `STORE_UNAVAILABLE` when the disk does not take it.
    pub(super) fn written(&self, session: &ConnectSession) -> Result<PythonFiles> {
        let names: Vec<String> = [MODULES, FILES].iter().flat_map(|folder| session.artifacts.names(folder)).collect();
        if names.is_empty() {
            return Ok(PythonFiles::default());
        }
        let mut written = self.0.lock();
        let Written { directory, files } = &mut *written;
        let directory = match directory {
            Some(directory) => directory,
            None => directory.insert(session.host.temporary_directory("python")?),
        };
        let mut modules = Vec::new();
        for name in names {
            let Some(bytes) = session.artifacts.get(&name) else { continue };
            let file = plain(&name)?;
            if !files.get(&name).is_some_and(|known| Arc::ptr_eq(known, &bytes)) {
                std::fs::write(directory.path().join(file), &bytes).map_err(|error| {
                    Error::new(ErrorKind::StoreUnavailable, "STORE_UNAVAILABLE", format!("'{name}' cannot be kept on disk"))
                        .caused_by(error)
                })?;
                files.insert(name.clone(), bytes);
            }
            if name.starts_with(MODULES) {
                modules.push(file.to_owned());
            }
        }
        Ok(PythonFiles { directory: directory.path().display().to_string(), modules })
    }
}

/// The file's own name: folders in it are left out.
fn plain(name: &str) -> Result<&str> {
    let file = name.rsplit(['/', '\\']).next().unwrap_or_default();
    if file.is_empty() || file.starts_with('.') {
        return Err(Error::invalid("INVALID_ARTIFACT_PATH", format!("the artifact '{name}' has no name of a file")));
    }
    Ok(file)
}
