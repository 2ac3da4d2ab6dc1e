//! Panics. One in a decoder of bad data is caught and becomes the error of its record or file; whatever else panics is a fault of ours. Both
//! are told in the log, in its form, instead of as the language does it.

use std::any::Any;
use std::backtrace::{Backtrace, BacktraceStatus};
use std::panic::PanicHookInfo;

use millstream_core::Error;

/// Sends what panics say to the log from now on.
pub(super) fn report_panics() {
    std::panic::set_hook(Box::new(report));
}

fn report(panic: &PanicHookInfo<'_>) {
    let (file, line) = panic.location().map_or(("an unknown place", 0), |location| (location.file(), location.line()));
    let what = what(panic.payload());
    // Who calls a library that may panic on data catches it and tells the error.
    if is_library(file) {
        tracing::debug!(file, line, what, "a library gave up");
        return;
    }
    let backtrace = Backtrace::capture();
    match backtrace.status() {
        BacktraceStatus::Captured => tracing::error!(file, line, what, %backtrace, "a fault of Millstream: please report this"),
        _ => tracing::error!(file, line, what, "a fault of Millstream: please report this, with RUST_BACKTRACE=1 if it can be repeated"),
    }
}

/// Whether a source file belongs to a library: those are built from the registry of packages, and ours from the workspace.
fn is_library(file: &str) -> bool {
    file.contains("/registry/src/") || file.contains("/rustc/") || file.contains("/rustlib/")
}

fn what(payload: &(dyn Any + Send)) -> &str {
    let text = payload.downcast_ref::<&str>().copied();
    text.or_else(|| payload.downcast_ref::<String>().map(String::as_str)).unwrap_or("no reason was given")
}

/// The error for a panic that ended the command.
pub(super) fn fault(payload: &(dyn Any + Send)) -> Error {
    Error::internal(format!("the command broke off: {}. This is a fault of Millstream: please report it", what(payload)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_libraries_say_is_told_from_what_we_say() {
        for (file, library) in [
            ("/root/.cargo/registry/src/index.crates.io-1949cf8c6b5b557f/orc-rust-0.7.1/src/encoding.rs", true),
            ("/rustc/6b00bc3880198600130e1cf62b8f8a93494488cc/library/alloc/src/vec/mod.rs", true),
            ("crates/millstream-engine/src/session.rs", false),
        ] {
            assert_eq!(is_library(file), library, "{file}");
        }
        let payload = std::panic::catch_unwind(|| std::panic::panic_any("seven".to_owned())).unwrap_err();
        assert!(fault(payload.as_ref()).message().contains("seven"));
    }
}
