//! From Spark's unresolved plans, as Connect clients send them and the SQL parser makes them, to logical plans of the engine.
//!
//! Every column of an analyzed plan has a name of its own in the engine (`#7`), so that two columns of one name never meet there. What the
//! user calls a column, and which frames and aliases it came through, is kept beside the plan in [`Attribute`]s.
//!
//! First the plan is walked and what its leaves stand for is looked up, which may wait for storage ([`gather`]); then it is analyzed from
//! the leaves up, without waiting ([`relation`]).

mod aggregate;
pub(crate) mod apart;
mod arbitrary;
mod as_of;
mod call;
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
mod lateral;
mod leaves;
mod limit;
mod literal_rows;
mod missing_values;
mod naming;
mod normalize;
mod observe;
mod parse;
mod pivot;
mod project;
mod python;
mod range;
mod read;
mod relation;
mod reshape;
mod rows;
mod sample;
mod set_operation;
mod statistics;
mod table_function;
mod time_window;
pub(crate) mod visit;
mod watermark;

use arrow::record_batch::RecordBatch;
use datafusion::execution::SessionState;
use datafusion::execution::context::SessionContext;
use datafusion::logical_expr::LogicalPlan;
use millstream_core::Result;
use millstream_engine::from_datafusion;
use spark_connect_proto::Relation;

pub use columns::{Analyzed, Attribute};
pub(crate) use columns::{HIDDEN, fresh};
pub(crate) use expression::name_parts;
pub(crate) use gather::leaves_of;
pub use leaves::{Leaf, Leaves};
pub(crate) use naming::name_of;
use relation::{Answer, Question};
pub(crate) use visit::inputs;

use crate::functions::Settings;

/// Gives a session what the plans of this analyzer need.
pub(crate) fn set_up(context: &SessionContext) {
    context.add_optimizer_rule(crate::python::plan::extract());
    context.add_optimizer_rule(crate::functions::filter_guard());
    let state = context.state_ref();
    let mut state = state.write();
    // Rows keep the order in which they were given, as in Spark, unless something exchanges them by a key.
    state.config_mut().options_mut().optimizer.enable_round_robin_repartition = false;
}

/// Resolves the names, types and functions of a plan.
///
/// # Errors
/// Spark's conditions of analysis, and those of opening what the plan reads.
pub async fn analyze(relation: &Relation, leaves: &dyn Leaves, settings: &Settings, state: &SessionState) -> Result<Analyzed> {
    let gathered = gather::gather(relation, leaves).await?;
    let mut answers: Vec<Answer> = Vec::new();
    loop {
        let (outcome, question) = attempt(&gathered, leaves, settings, state, &answers);
        match question {
            None => return outcome,
            Some(Question::Rows(plan)) => answers.push(Answer::Rows(rows(&plan, state).await?)),
            Some(Question::Call(runtime, function, arguments)) => {
                answers.push(Answer::Call(crate::python::analyze(&runtime, &function, &arguments).await?));
            }
        }
    }
}

/// Analyzes as far as the answers known allow.
fn attempt(
    gathered: &gather::Gathered,
    leaves: &dyn Leaves,
    settings: &Settings,
    state: &SessionState,
    answers: &[Answer],
) -> (Result<Analyzed>, Option<Question>) {
    let analyzer = relation::Analyzer::new(gathered, leaves, settings, state, answers);
    let outcome = analyzer.analyze();
    (outcome, analyzer.into_question())
}

async fn rows(plan: &LogicalPlan, state: &SessionState) -> Result<Vec<RecordBatch>> {
    let physical = state.create_physical_plan(plan).await.map_err(from_datafusion)?;
    datafusion::physical_plan::collect(physical, state.task_ctx()).await.map_err(from_datafusion)
}

#[cfg(test)]
mod tests;
