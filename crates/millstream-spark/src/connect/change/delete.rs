//! `DELETE FROM t WHERE …`.

use arrow::array::RecordBatch;
use datafusion::logical_expr::{Expr, LogicalPlanBuilder, lit};
use millstream_core::Result;
use millstream_core::versioned::{CHANGE, Change, Operation, Reads, Removes, RowChange, Rows};
use millstream_engine::from_datafusion;
use spark_connect_proto::Expression;

use super::target::{Scanned, Target, internal};
use super::{Constraints, Place, Session, answer, case, condition, repeated, write};

/// Rows to remove.
#[derive(Clone, Debug)]
pub(in crate::connect) struct Delete {
    /// The table.
    pub(in crate::connect) place: Place,
    /// Which rows; all of them without it.
    pub(in crate::connect) condition: Option<Expression>,
    /// The condition as text, for the table's history.
    pub(in crate::connect) text: Option<String>,
}

/// Removes rows. Gives `num_affected_rows`.
///
/// # Errors
/// Those of the condition and of the table.
pub(in crate::connect) async fn delete(session: &Session, delete: &Delete) -> Result<RecordBatch> {
    let affected = repeated(|| once(session, delete)).await?;
    answer(&[("num_affected_rows", affected)])
}

async fn once(session: &Session, delete: &Delete) -> Result<i64> {
    let target = Target::open(session, &delete.place).await?;
    let predicate = delete.text.as_ref().map_or_else(|| "[]".to_owned(), |text| serde_json::json!([text]).to_string());
    let operation = Operation::new("DELETE").with("predicate", predicate);
    let change = Change { operation, reads: Reads::Table, checked: Constraints::features(), ..Change::default() };
    let all = target.scan(&target.all())?;
    let Some(wanted) = &delete.condition else {
        return without_reading(&target, Change { removes: Removes::Files(target.all()), ..change }).await;
    };
    let found = condition(session, wanted, &all.columns, "DELETE")?;
    if let Some(files) = target.decided(&all, &found)? {
        return without_reading(&target, Change { removes: Removes::Files(files), ..change }).await;
    }
    let candidates = target.candidates(&all, Some(&found))?;
    let scanned = target.scan(&candidates)?;
    let found = condition(session, wanted, &scanned.columns, "DELETE")?;
    let plan =
        LogicalPlanBuilder::from(scanned.rows.plan.clone()).filter(found).and_then(LogicalPlanBuilder::build).map_err(from_datafusion)?;
    let touched = target.by_file(plan, &scanned.file, lit(1_i64)).await?;
    if touched.is_empty() {
        return Ok(0);
    }
    let affected = touched.iter().map(|(_, rows)| rows).sum();
    let files: Vec<usize> = touched.into_iter().map(|(file, _)| file).collect();
    let scanned = target.scan(&files)?;
    let found = condition(session, wanted, &scanned.columns, "DELETE")?;
    let deleted = lit(RowChange::Deleted.code());
    let tag = case(vec![(found.is_true(), deleted)], lit(RowChange::Copied.code()))?;
    let plan = tagged(&scanned, tag)?;
    let sink = target.table.change(Change { removes: Removes::Files(files), rows: Rows::Tagged, ..change }).await?;
    write(session, plan, sink).await?;
    Ok(affected)
}

/// Removes whole files.
async fn without_reading(target: &Target<'_>, change: Change) -> Result<i64> {
    if change.removes == Removes::Files(Vec::new()) {
        return Ok(0);
    }
    let sink = target.table.change(change).await?;
    let none = target.scan(&[])?;
    let columns: Vec<Expr> = none.columns.iter().map(|column| internal(column).alias(&column.name)).collect();
    let plan = LogicalPlanBuilder::from(none.rows.plan).project(columns).and_then(LogicalPlanBuilder::build).map_err(from_datafusion)?;
    Ok(write(target.session, plan, sink).await?.map_or(0, |figures| figures.of("numDeletedRows")))
}

/// All rows with what becomes of each.
fn tagged(scanned: &Scanned, tag: Expr) -> Result<datafusion::logical_expr::LogicalPlan> {
    let columns = scanned.columns.iter().map(|column| internal(column).alias(&column.name));
    let columns: Vec<Expr> = columns.chain([tag.alias(CHANGE)]).collect();
    LogicalPlanBuilder::from(scanned.rows.plan.clone()).project(columns).and_then(LogicalPlanBuilder::build).map_err(from_datafusion)
}
