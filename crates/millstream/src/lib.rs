//! Millstream: Spark Structured Streaming without a JVM, for embedding in Rust programs and as the `millstream` command.
//!
//! ```no_run
//! # async fn example() -> millstream::Result<()> {
//! let session = millstream::session()?;
//! let plan = session.plan_sql("SELECT 1 AS one").await?;
//! let (_schema, rows) = session.collect(plan).await?;
//! # drop(rows);
//! # Ok(())
//! # }
//! ```

pub mod drill;
pub mod memory;
pub mod serve;
pub mod system;
pub mod wiring;

pub use millstream_core::{Error, ErrorKind, QueryProgress, Result, Trigger};
pub use millstream_engine::{QueryEvent, QueryListener, QueryRequest, QuerySettings, Session, SessionOptions, StreamingQuery};
pub use wiring::session;
