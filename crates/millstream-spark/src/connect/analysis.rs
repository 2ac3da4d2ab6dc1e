//! The way into the analyzer.

use datafusion::execution::SessionState;
use millstream_core::{Error, Result};
use spark_connect_proto::Relation;

use crate::analyzer::{Analyzed, Leaves};
use crate::functions::Settings;

/// Resolves a plan.
///
/// # Errors
/// Spark's conditions of analysis.
pub(super) async fn analyze(relation: &Relation, leaves: &dyn Leaves, settings: &Settings, state: &SessionState) -> Result<Analyzed> {
    let _ = (relation, leaves, settings, state);
    Err(Error::internal("plans cannot be analyzed yet"))
}
