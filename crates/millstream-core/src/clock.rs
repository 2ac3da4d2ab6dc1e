//! The two seams through which time and randomness enter.

use std::fmt::Debug;
use std::time::Duration;

use async_trait::async_trait;
use uuid::Uuid;

/// Where the current time comes from.
///
/// The binary installs the system clock; tests install one that they move by hand.
#[async_trait]
pub trait Clock: Debug + Send + Sync {
    /// Milliseconds since 1970-01-01T00:00:00Z.
    fn now_ms(&self) -> i64;

    /// Nanoseconds of a clock that never goes back; only differences have a meaning.
    fn monotonic_ns(&self) -> u64;

    /// Completes when `duration` has passed on this clock.
    async fn sleep(&self, duration: Duration);
}

/// Where new identifiers come from.
pub trait Ids: Debug + Send + Sync {
    /// A new identifier, never returned before.
    fn next(&self) -> Uuid;
}
