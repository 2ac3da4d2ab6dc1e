//! Spark's languages: the SQL dialect with its types, and declarative pipelines.

pub mod analyzer;
pub mod conditions;
pub mod connect;
pub mod functions;
pub mod pipelines;
pub mod python;
pub mod sql;
pub mod types;
