//! Named places at which a drill may kill the process.
//!
//! The rules of recovery are only as good as the places at which they were interrupted. Code calls [`point`] with a constant name before
//! and after each effect; without a hook that is one relaxed load. `millstream` installs a hook when `MILL_CRASH_AT` is set.

use std::sync::OnceLock;

type Hook = Box<dyn Fn(&'static str) + Send + Sync>;

static HOOK: OnceLock<Hook> = OnceLock::new();

/// Installs the hook that [`point`] calls. Returns `false` when one is installed already.
pub fn install(hook: impl Fn(&'static str) + Send + Sync + 'static) -> bool {
    HOOK.set(Box::new(hook)).is_ok()
}

/// Tells the hook, if there is one, that the named place was reached.
#[inline]
pub fn point(name: &'static str) {
    if let Some(hook) = HOOK.get() {
        hook(name);
    }
}

/// Every crash point of the product, in the order in which a batch reaches them.
pub const POINTS: &[&str] = &[
    "metadata.before",
    "metadata.after",
    "epoch.before",
    "epoch.after",
    "source.log.before",
    "source.log.after",
    "offsets.before",
    "offsets.after",
    "batch.planned",
    "batch.computed",
    "state.before",
    "state.after",
    "sink.data.before",
    "sink.data.after",
    "sink.commit.before",
    "sink.commit.after",
    "quarantine.commit.before",
    "quarantine.commit.after",
    "late_rows.commit.before",
    "late_rows.commit.after",
    "commit.before",
    "commit.after",
    "source.commit.before",
    "source.commit.after",
    "purge.before",
    "purge.after",
    "store.tmp.written",
    "store.synced",
    "store.linked",
];
