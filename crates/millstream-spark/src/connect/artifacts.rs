//! What a client sent ahead of its plans: local relations (`cache/<hash>`), Python modules (`pyfiles/…`), files and archives.

use std::collections::BTreeMap;
use std::sync::Arc;

use millstream_core::{Error, Result};
use parking_lot::RwLock;

/// The most bytes that one session may keep here.
const MOST_BYTES: usize = 1 << 30;

/// The artifacts of a session by name. Their bytes are shared with copies of the session.
#[derive(Debug, Default)]
pub struct Artifacts(RwLock<BTreeMap<String, Arc<[u8]>>>);

impl Clone for Artifacts {
    fn clone(&self) -> Self {
        Artifacts(RwLock::new(self.0.read().clone()))
    }
}

impl Artifacts {
    /// The bytes of an artifact.
    pub fn get(&self, name: &str) -> Option<Arc<[u8]>> {
        self.0.read().get(name).cloned()
    }

    /// Whether there is an artifact of that name.
    pub fn contains(&self, name: &str) -> bool {
        self.0.read().contains_key(name)
    }

    /// The names below a folder such as `pyfiles/`, in order.
    pub fn names(&self, folder: &str) -> Vec<String> {
        self.0.read().keys().filter(|name| name.starts_with(folder)).cloned().collect()
    }

    /// Keeps an artifact over an earlier one of that name.
    ///
    /// # Errors
    /// `ARTIFACTS_TOO_LARGE` when the session's share is used up.
    pub fn put(&self, name: &str, bytes: Vec<u8>) -> Result<()> {
        let mut artifacts = self.0.write();
        let others: usize = artifacts.iter().filter(|(known, _)| *known != name).map(|(_, bytes)| bytes.len()).sum();
        if others.saturating_add(bytes.len()) > MOST_BYTES {
            return Err(Error::invalid(
                "ARTIFACTS_TOO_LARGE",
                format!("the artifacts of this session would exceed {MOST_BYTES} bytes with '{name}': read large data from files instead"),
            ));
        }
        artifacts.insert(name.to_owned(), bytes.into());
        Ok(())
    }
}
