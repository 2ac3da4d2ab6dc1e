//! SQL text that may be a statement: it runs at once, and its rows are the answer. A query stays a relation.

use millstream_core::Result;
use spark_connect_proto::execute_plan_response::SqlCommandResult;
use spark_connect_proto::relation::RelType;
use spark_connect_proto::{Relation, Sql, SqlCommand};

use super::Session;
use crate::connect::errors::incomplete;
use crate::connect::execute::local_relation;
use crate::connect::pipelines::Loading;
use crate::connect::statement;

/// Runs `spark.sql(…)`: a statement now, a query when the client uses the relation that it is given.
///
/// # Errors
/// Those of the statement; of a query those of its analysis.
pub(super) async fn run(session: &Session, command: SqlCommand, loading: Option<Loading>) -> Result<SqlCommandResult> {
    let relation = input(command)?;
    // The query of a flow is resolved with its graph.
    if loading == Some(Loading::QueryFunction) {
        return Ok(SqlCommandResult { relation: Some(relation) });
    }
    let relation = match statement::run(session, &relation).await? {
        Some(rows) => local_relation(&rows)?,
        None => {
            // As in Spark, what is wrong with a query is told now.
            session.analyze(&relation).await?;
            relation
        }
    };
    Ok(SqlCommandResult { relation: Some(relation) })
}

#[expect(deprecated, reason = "clients before 4.0 send the text itself")]
fn input(command: SqlCommand) -> Result<Relation> {
    if let Some(input) = command.input {
        return Ok(input);
    }
    if command.sql.is_empty() {
        return Err(incomplete("SqlCommand.input"));
    }
    let sql = Sql {
        query: command.sql,
        args: command.args,
        pos_args: command.pos_args,
        named_arguments: command.named_arguments,
        pos_arguments: command.pos_arguments,
    };
    Ok(Relation { common: None, rel_type: Some(RelType::Sql(sql)) })
}
