//! Declarative pipelines: files of `CREATE STREAMING TABLE …` and their relatives, in open Spark's dialect and in Databricks', as one
//! dataflow graph.

pub(crate) mod declared;
pub mod graph;
pub mod name;
pub mod parser;
pub mod run;
pub(crate) mod schema;

pub use graph::{Dataset, DatasetKind, Flow, Graph, Input};
pub use name::TableName;
pub use parser::{Column, Expectation, OnViolation};
pub use run::{Checked, FlowKind, FlowStatus, FlowSummary, Pipeline, PipelineEvent, Place, RunOptions, RunSummary};
