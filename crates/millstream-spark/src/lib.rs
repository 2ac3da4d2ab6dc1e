//! Spark's languages: the SQL dialect with its types, and declarative pipelines.

pub mod pipelines;
pub mod sql;
pub mod types;
