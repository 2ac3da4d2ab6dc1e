//! How much memory the process may have, asked before something large is made.
//!
//! Joins, sorts and aggregations reserve what they use in DataFusion's pool. Functions cannot, and a text of a gigabyte is one call: for
//! large values they ask here.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use datafusion::execution::memory_pool::{FairSpillPool, MemoryPool};
use millstream_core::{Error, ErrorKind, Result};

/// The most bytes that the process may have; 0 for no limit.
static LIMIT: AtomicU64 = AtomicU64::new(0);

/// Sets the most bytes that the process may have from now on, for all that asks with [`admit`].
pub fn set_process_limit(bytes: u64) {
    LIMIT.store(bytes, Ordering::Relaxed);
}

/// Refuses to make something of that many bytes for which the process has no room.
///
/// # Errors
/// `OUT_OF_MEMORY`.
pub fn admit(bytes: u64) -> Result<()> {
    let limit = LIMIT.load(Ordering::Relaxed);
    if limit == 0 {
        return Ok(());
    }
    within(bytes, resident().unwrap_or(0), limit)
}

fn within(bytes: u64, used: u64, limit: u64) -> Result<()> {
    if used.saturating_add(bytes) <= limit {
        return Ok(());
    }
    let message = format!(
        "{bytes} bytes more do not fit: {used} of the {limit} that the process may have are in use. Make smaller values, or give a server \
         more with --memory"
    );
    Err(Error::new(ErrorKind::Invalid, "OUT_OF_MEMORY", message).with_sqlstate("53200"))
}

/// The bytes that the process has in memory; `None` where the system does not say.
fn resident() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok().map(|kilobytes| kilobytes << 10)
}

/// Memory for joins, sorts and aggregations that several sessions share.
#[derive(Clone, Debug)]
pub struct SharedMemory(Arc<dyn MemoryPool>);

impl SharedMemory {
    /// That many bytes, of which each operator that can spill may have an equal part.
    pub fn new(bytes: usize) -> Self {
        SharedMemory(Arc::new(FairSpillPool::new(bytes)))
    }

    pub(crate) fn pool(&self) -> Arc<dyn MemoryPool> {
        self.0.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_fit_beside_what_is_used_is_refused() {
        for (bytes, used, limit, fits) in [(10, 80, 100, true), (20, 80, 100, true), (21, 80, 100, false), (u64::MAX, 1, 100, false)] {
            let found = within(bytes, used, limit);
            assert_eq!(found.map_err(|error| error.code().to_owned()), if fits { Ok(()) } else { Err("OUT_OF_MEMORY".to_owned()) });
        }
        assert!(!cfg!(target_os = "linux") || resident().is_some_and(|bytes| bytes > 0));
    }
}
