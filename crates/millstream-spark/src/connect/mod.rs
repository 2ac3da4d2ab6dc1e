//! Spark Connect: the server of PySpark and other clients.

mod analysis;
mod artifacts;
mod config;
mod host;
mod schema;
mod session;
mod streaming;

pub use artifacts::Artifacts;
pub use config::Confs;
pub use host::{Host, TemporaryDirectory};
pub use session::{ConnectSession, GlobalViews, SessionKey};

/// The service, generated over the official messages.
mod generated {
    #![allow(clippy::all, clippy::pedantic, missing_docs, reason = "generated")]
    include!(concat!(env!("OUT_DIR"), "/spark.connect.SparkConnectService.rs"));
}
