//! Kills this process at a named place, so that a drill can show that restarting is boring.
//!
//! `MILL_CRASH_AT=sink.commit.after:3` kills the process, as SIGKILL does, when the place is reached for the third time. The places are
//! [`millstream_core::crash::POINTS`].

use std::sync::atomic::{AtomicU64, Ordering};

use millstream_core::crash::{self, POINTS};
use millstream_core::{Error, Result};

/// Arms the crash point that the environment names, if it names one.
///
/// # Errors
/// `INVALID_CRASH_POINT` for a place that does not exist, or a count that is not a positive number.
pub fn arm_from_environment() -> Result<()> {
    let Ok(wanted) = std::env::var("MILL_CRASH_AT") else { return Ok(()) };
    let (name, hit) = parse(&wanted)?;
    let reached = AtomicU64::new(0);
    crash::install(move |point| {
        if point == name && reached.fetch_add(1, Ordering::Relaxed) + 1 == hit {
            tracing::warn!(point, hit, "MILL_CRASH_AT: killing this process");
            kill();
        }
    });
    Ok(())
}

fn parse(wanted: &str) -> Result<(&'static str, u64)> {
    let bad = |what: &str| Error::invalid("INVALID_CRASH_POINT", format!("MILL_CRASH_AT is '{wanted}': {what}"));
    let (name, hit) = wanted.rsplit_once(':').unwrap_or((wanted, "1"));
    let name = POINTS.iter().find(|point| **point == name).ok_or_else(|| bad(&format!("the places are {}", POINTS.join(", "))))?;
    let hit = hit.parse().ok().filter(|hit| *hit > 0).ok_or_else(|| bad("the count after ':' must be a positive number"))?;
    Ok((name, hit))
}

/// Ends the process as abruptly as a power cut allows: no destructors, no flushing.
fn kill() -> ! {
    let this = rustix::process::getpid();
    // When even the signal fails, aborting is the next most abrupt end.
    let _ = rustix::process::kill_process(this, rustix::process::Signal::KILL);
    std::process::abort()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_and_counts() {
        assert_eq!(parse("sink.commit.after:3").unwrap(), ("sink.commit.after", 3));
        assert_eq!(parse("offsets.before").unwrap(), ("offsets.before", 1));
        for bad in ["nowhere", "offsets.before:0", "offsets.before:x"] {
            assert_eq!(parse(bad).unwrap_err().code(), "INVALID_CRASH_POINT", "{bad}");
        }
    }
}
