//! `UPDATE t SET … WHERE …`.

use arrow::array::RecordBatch;
use datafusion::logical_expr::{Expr, LogicalPlanBuilder, lit};
use millstream_core::versioned::{BEFORE, CHANGE, Change, Operation, Reads, Removes, RowChange, Rows};
use millstream_core::{Error, Result};
use millstream_engine::from_datafusion;
use spark_connect_proto::Expression;

use super::assignment::{Assigned, assigned, place_of, target_of};
use super::target::{Scanned, Target, internal};
use super::{Constraints, Place, Session, answer, case, condition, repeated, value, write};
use crate::analyzer::{Attribute, apart};
use crate::functions::Typed;

/// Rows to give new values.
#[derive(Clone, Debug)]
pub(in crate::connect) struct Update {
    /// The table.
    pub(in crate::connect) place: Place,
    /// Columns, or fields inside of them, and their values.
    pub(in crate::connect) assignments: Vec<(Expression, Expression)>,
    /// Which rows; all of them without it.
    pub(in crate::connect) condition: Option<Expression>,
    /// The condition as text, for the table's history.
    pub(in crate::connect) text: Option<String>,
}

/// Gives rows new values. Gives `num_affected_rows`.
///
/// # Errors
/// Those of names, types and values, and of the table.
pub(in crate::connect) async fn update(session: &Session, update: &Update) -> Result<RecordBatch> {
    let affected = repeated(|| once(session, update)).await?;
    answer(&[("num_affected_rows", affected)])
}

async fn once(session: &Session, update: &Update) -> Result<i64> {
    let target = Target::open(session, &update.place).await?;
    let all = target.scan(&target.all())?;
    // What does not resolve is refused whether or not there are rows.
    values(session, update, &target, &all)?;
    let mut files = match &update.condition {
        None => target.all(),
        Some(wanted) => {
            let found = condition(session, wanted, &all.columns, "UPDATE")?;
            target.candidates(&all, Some(&found))?
        }
    };
    if let Some(wanted) = &update.condition {
        let scanned = target.scan(&files)?;
        let found = condition(session, wanted, &scanned.columns, "UPDATE")?;
        let plan =
            LogicalPlanBuilder::from(scanned.rows.plan).filter(found).and_then(LogicalPlanBuilder::build).map_err(from_datafusion)?;
        files = target.by_file(plan, &scanned.file, lit(1_i64)).await?.into_iter().map(|(file, _)| file).collect();
    }
    if files.is_empty() {
        return Ok(0);
    }
    let scanned = target.scan(&files)?;
    let hit = match &update.condition {
        None => lit(true),
        Some(wanted) => condition(session, wanted, &scanned.columns, "UPDATE")?.is_true(),
    };
    let hit = Typed::new(hit, arrow::datatypes::DataType::Boolean, false);
    let chosen = apart::attribute("__millstream_chosen", &hit);
    let mut columns: Vec<(Attribute, Typed)> = scanned.columns.iter().map(|column| (column.clone(), apart::value_of(column))).collect();
    columns.push((chosen.clone(), hit));
    let rows = apart::computed(scanned.rows.plan.clone(), columns)?;
    let mut new: Vec<(Attribute, Typed)> = Vec::with_capacity(scanned.columns.len());
    for (column, assigned) in scanned.columns.iter().zip(values(session, update, &target, &scanned)?) {
        let (data_type, nullable) = (assigned.data_type.clone(), assigned.nullable || column.nullable);
        let expr = if assigned.expr == internal(column) {
            assigned.expr
        } else {
            case(vec![(internal(&chosen), assigned.expr)], internal(column))?
        };
        let changed = Typed::new(expr, data_type, nullable);
        new.push((apart::attribute(&column.name, &changed), changed));
    }
    let after: Vec<Attribute> = new.iter().map(|(attribute, _)| attribute.clone()).collect();
    // The columns as they were pass on, for files of changes.
    new.push((chosen.clone(), apart::value_of(&chosen)));
    if target.records_changes() {
        new.extend(scanned.columns.iter().map(|column| (column.clone(), apart::value_of(column))));
    }
    let changed = apart::computed(rows.plan, new)?;
    let plan = Constraints::of(target.table.facts())?.enforced(session, changed.plan, &after, Some(&internal(&chosen)))?;
    let tag = case(vec![(internal(&chosen), lit(RowChange::Updated.code()))], lit(RowChange::Copied.code()))?;
    let mut out: Vec<Expr> = after.iter().map(|column| internal(column).alias(&column.name)).collect();
    out.push(tag.alias(CHANGE));
    if target.records_changes() {
        let old: Vec<(Attribute, Typed)> = scanned.columns.iter().map(|column| (column.clone(), apart::value_of(column))).collect();
        out.push(super::before(&old)?.alias(BEFORE));
    }
    let plan = LogicalPlanBuilder::from(plan).project(out).and_then(LogicalPlanBuilder::build).map_err(from_datafusion)?;
    let predicate = update.text.as_ref().map_or_else(|| "[]".to_owned(), |text| serde_json::json!([text]).to_string());
    let change = Change {
        operation: Operation::new("UPDATE").with("predicate", predicate),
        removes: Removes::Files(files),
        reads: Reads::Table,
        rows: Rows::Tagged,
        checked: Constraints::features(),
        ..Change::default()
    };
    let figures = write(session, plan, target.table.change(change).await?).await?;
    Ok(figures.map_or(0, |figures| figures.of(RowChange::Updated.metric())))
}

/// The value that each column gets in rows that are updated.
fn values(session: &Session, update: &Update, target: &Target<'_>, scanned: &Scanned) -> Result<Vec<Typed>> {
    let settings = session.settings();
    let mut by_column: Vec<Vec<Assigned>> = vec![Vec::new(); scanned.columns.len()];
    for (key, given) in &update.assignments {
        let (place, path) = place_of(&target_of(key)?, &scanned.columns, &settings)?;
        let given = value(session, given, &scanned.columns, "UPDATE")?;
        if let Some(column) = by_column.get_mut(place) {
            column.push(Assigned { path, value: given });
        }
    }
    let constraints = Constraints::of(target.table.facts())?;
    let schema = target.table.schema();
    let mut out = Vec::with_capacity(scanned.columns.len());
    for ((column, assignments), field) in scanned.columns.iter().zip(&by_column).zip(schema.fields()) {
        out.push(assigned(field, &apart::value_of(column), assignments, &settings)?);
    }
    // Generated columns follow the columns that they are computed from.
    for (place, column) in scanned.columns.iter().enumerate() {
        let is_assigned = by_column.get(place).is_some_and(|assignments| !assignments.is_empty());
        let Some(text) = constraints.generation(&column.name).filter(|_| !is_assigned) else { continue };
        let expression = crate::sql::parse::expression(text)?;
        let resolved = value(session, &expression, &scanned.columns, "UPDATE")?;
        let substituted = super::substituted(&resolved.expr, &scanned.columns, &out)?;
        let field = schema.fields().get(place).ok_or_else(|| Error::internal("a column has no field"))?;
        let generated = super::assignment::stored(Typed { expr: substituted, ..resolved }, field, &settings)?;
        if let Some(slot) = out.get_mut(place) {
            *slot = generated;
        }
    }
    Ok(out)
}
