//! The rules of Millstream: what a stream processor must decide, and the traits through which it meets the outside world.
//!
//! This crate does no I/O, reads no clock and draws no random number. Everything time-dependent takes the time as an argument or through
//! [`Clock`]; identifiers come from [`Ids`]. Sources, sinks and stores are traits here and live elsewhere.

pub mod clock;
pub mod conformance;
pub mod crash;
pub mod error;
pub mod json;
pub mod lateness;
pub mod limit;
pub mod offset;
pub mod options;
pub mod progress;
pub mod quarantine;
pub mod raw_text;
pub mod recovery;
pub mod registry;
pub mod sink;
pub mod source;
pub mod source_log;
pub mod trigger;
pub mod variant;
pub mod versioned;
pub mod watermark;

pub use clock::{Clock, Ids};
pub use error::{Error, ErrorKind, Result};
pub use limit::ReadLimit;
pub use offset::Offset;
pub use options::{OptionSpec, Options};
pub use progress::QueryProgress;
pub use trigger::Trigger;
