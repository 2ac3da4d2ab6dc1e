//! Spark Connect: the server of PySpark and other clients.
//!
//! A client has a session, which lives as long as requests name it. What it asks for runs as operations, whose answers wait in bounded
//! queues and can be asked for again; what it wants to know of plans is answered at once.

mod analyze;
mod artifacts;
mod catalog;
mod change;
mod codec;
mod command;
mod config;
mod delta;
mod errors;
mod execute;
mod foreign;
mod host;
mod modules;
mod persisted;
mod pipelines;
mod plan;
mod planner;
mod schema;
mod serve;
mod service;
mod session;
mod sessions;
mod show;
mod statement;
mod streaming;
mod upload;
mod versions;

pub use artifacts::Artifacts;
pub use config::Confs;
pub use host::{Host, TemporaryDirectory};
pub use serve::{ServeOptions, serve};
pub use session::{ConnectSession, GlobalViews, SessionKey};
pub use sessions::Timeouts;
pub use streaming::QUERY_OPTIONS;
pub(crate) use streaming::request as read_request;
#[cfg(test)]
pub(crate) use streaming::tests::TestHost;

/// The service, generated over the official messages.
mod generated {
    #![allow(clippy::all, clippy::pedantic, missing_docs, reason = "generated")]
    include!(concat!(env!("OUT_DIR"), "/spark.connect.SparkConnectService.rs"));
}

#[cfg(test)]
mod tests;
