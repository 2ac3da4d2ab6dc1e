//! Spark Connect: the server of PySpark and other clients.

/// The service, generated over the official messages.
mod generated {
    #![allow(clippy::all, clippy::pedantic, missing_docs, reason = "generated")]
    include!(concat!(env!("OUT_DIR"), "/spark.connect.SparkConnectService.rs"));
}
