//! From Spark's unresolved plans, as Connect clients send them and the SQL parser makes them, to logical plans of the engine.
//!
//! Every column of an analyzed plan has a name of its own in the engine (`#7`), so that two columns of one name never meet there. What the
//! user calls a column, and which frames and aliases it came through, is kept beside the plan in [`Attribute`]s.
//!
//! First the plan is walked and what its leaves stand for is looked up, which may wait for storage ([`gather`]); then it is analyzed from
//! the leaves up, without waiting ([`relation`]).

mod aggregate;
mod columns;
mod deduplicate;
mod expression;
mod extend;
mod filter;
mod frame;
mod gather;
mod generate;
mod grouping_sets;
mod join;
mod leaves;
mod limit;
mod literal_rows;
mod naming;
mod normalize;
mod project;
mod range;
mod read;
mod relation;
mod rows;
mod sample;
mod set_operation;
mod time_window;
mod visit;
mod watermark;

use datafusion::execution::SessionState;
use millstream_core::Result;
use spark_connect_proto::Relation;

pub use columns::{Analyzed, Attribute};
pub use leaves::{Leaf, Leaves};

use crate::functions::Settings;

/// Resolves the names, types and functions of a plan.
///
/// # Errors
/// Spark's conditions of analysis, and those of opening what the plan reads.
pub async fn analyze(relation: &Relation, leaves: &dyn Leaves, settings: &Settings, state: &SessionState) -> Result<Analyzed> {
    let gathered = gather::gather(relation, leaves).await?;
    relation::Analyzer::new(&gathered, settings, state).analyze()
}
