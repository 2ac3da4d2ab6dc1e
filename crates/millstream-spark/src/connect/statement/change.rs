//! `DELETE`, `UPDATE`, `MERGE` and `TRUNCATE`.

use arrow::array::RecordBatch;
use millstream_core::Result;
use spark_connect_proto::{Expression, MergeIntoTableCommand, Relation};

use super::{Session, Statements};
use crate::analyzer::name_of;
use crate::connect::catalog::parts;
use crate::connect::change::{self, Action, Clause, Delete, Merge, Place, Update};
use crate::connect::errors::incomplete;
use crate::connect::session::ConnectSession;
use crate::sql::parse::Name;

impl Statements<'_> {
    pub(super) async fn delete(&self, table: &Name, alias: Option<String>, condition: Option<Expression>) -> Result<RecordBatch> {
        let place = Place::of_name(self.session, table, "DELETE").await?.called(alias);
        let text = condition.as_ref().map(name_of);
        change::delete(self.session, &Delete { place, condition, text }).await
    }

    pub(super) async fn update(
        &self,
        table: &Name,
        alias: Option<String>,
        assignments: Vec<(Expression, Expression)>,
        condition: Option<Expression>,
    ) -> Result<RecordBatch> {
        let place = Place::of_name(self.session, table, "UPDATE TABLE").await?.called(alias);
        let text = condition.as_ref().map(name_of);
        change::update(self.session, &Update { place, assignments, condition, text }).await
    }

    pub(super) async fn merge(&self, alias: Option<String>, mut command: MergeIntoTableCommand) -> Result<RecordBatch> {
        command.source_table_plan = command.source_table_plan.map(|source| self.query(source));
        merge_into(self.session, alias, command).await
    }
}

/// Runs `MERGE INTO`, as text or as `df.mergeInto(…)` sends it.
///
/// # Errors
/// Those of [`change::merge`].
pub(in crate::connect) async fn merge_into(
    session: &Session,
    alias: Option<String>,
    command: MergeIntoTableCommand,
) -> Result<RecordBatch> {
    let name = parts(&command.target_table_name)?;
    let place = Place::of_name(session, &name, "MERGE INTO TABLE").await?.called(alias);
    let source: Relation = command.source_table_plan.ok_or_else(|| incomplete("MergeIntoTableCommand.source_table_plan"))?;
    let condition = command.merge_condition.ok_or_else(|| incomplete("MergeIntoTableCommand.merge_condition"))?;
    let clauses = |actions: Vec<Expression>| actions.into_iter().map(clause).collect::<Result<Vec<_>>>();
    let merge = Merge {
        place,
        source,
        condition,
        matched: clauses(command.match_actions)?,
        not_matched: clauses(command.not_matched_actions)?,
        not_matched_by_source: clauses(command.not_matched_by_source_actions)?,
        evolves: command.with_schema_evolution || evolves(session),
    };
    change::merge(session, &merge).await
}

/// Whether the session adds columns to tables of its own accord.
pub(in crate::connect) fn evolves(session: &ConnectSession) -> bool {
    session.confs.get("spark.databricks.delta.schema.autoMerge.enabled").is_some_and(|value| value.eq_ignore_ascii_case("true"))
}

fn clause(expression: Expression) -> Result<Clause> {
    use spark_connect_proto::expression::ExprType;
    use spark_connect_proto::merge_action::ActionType;
    let Some(ExprType::MergeAction(action)) = expression.expr_type else { return Err(incomplete("MergeAction")) };
    let kind = action.action_type();
    let assignments = action
        .assignments
        .into_iter()
        .map(|assignment| Ok((assignment.key.ok_or_else(missing_key)?, assignment.value.ok_or_else(missing_key)?)))
        .collect::<Result<Vec<_>>>()?;
    let action_of = match kind {
        ActionType::Delete => Action::Delete,
        ActionType::Update => Action::Update(assignments),
        ActionType::UpdateStar => Action::UpdateAll,
        ActionType::Insert => Action::Insert(assignments),
        ActionType::InsertStar => Action::InsertAll,
        ActionType::Invalid => return Err(incomplete("MergeAction.action_type")),
    };
    Ok(Clause { condition: action.condition.map(|condition| *condition), action: action_of })
}

fn missing_key() -> millstream_core::Error {
    incomplete("MergeAction.assignments")
}
