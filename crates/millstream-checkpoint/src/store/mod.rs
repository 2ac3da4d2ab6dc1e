//! Durable storage: where checkpoints and tables are kept, and what an acknowledged write means.
//!
//! [`open`] turns a path or URL into an [`ObjectStore`](object_store::ObjectStore). On local disk that is a [`DurableStore`], whose
//! acknowledged writes survive a power cut; on S3, Google Cloud Storage and Azure a [`ConfirmedStore`], which finds out whether a create that
//! failed has happened after all. [`probe`] checks at start that a store lets one writer win. Two parts serve tests of everything above:
//! [`FaultStore`] makes requests fail in every known way, [`Recorder`] and [`images`] produce the disks that a power cut may leave behind.

mod confirmed;
mod directories;
mod durable;
mod failure;
mod fault;
mod file_ops;
mod image;
mod listing;
mod location;
mod open;
mod probe;
mod publish;
mod record;
mod stats;
mod sweep;
#[cfg(test)]
mod testing;
mod upload;

pub use confirmed::ConfirmedStore;
pub use durable::DurableStore;
pub use failure::to_error;
pub use fault::{Failure, Fault, FaultStore, Gate, Hit, Injected, Operation};
pub use file_ops::{FileOps, SystemFiles};
pub use image::{Image, images};
pub use open::{StoreOptions, open, settle};
pub use probe::probe;
pub use publish::Privacy;
pub use record::{FileOp, OpLog, Recorder};
pub use stats::{DurableCounts, DurableStats};
