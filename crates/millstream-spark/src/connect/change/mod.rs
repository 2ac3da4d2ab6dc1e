//! `DELETE`, `UPDATE` and `MERGE`: rows of a table changed in place.
//!
//! A statement is planned twice over one version of the table. The first plan finds the files that have rows to change; the second one
//! gives all rows of these files, each with what becomes of it, and they are written as new files in one commit. Where another writer was
//! faster and changed what the statement has read, the statement is run again over the newer version.

mod assignment;
mod constraints;
mod delete;
mod merge;
mod source;
mod target;
mod update;

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array, RecordBatch, StructArray};
use arrow::datatypes::{DataType, Fields};
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::logical_expr::{Expr, LogicalPlan};
use millstream_core::sink::{OutputMode, Sink};
use millstream_core::{Error, Result};
use millstream_engine::from_datafusion;
use spark_connect_proto::Expression;

use super::session::ConnectSession;
use crate::analyzer::{Attribute, apart};
use crate::functions::{Arguments, Kernel, Typed, faults, scalar};

pub(in crate::connect) use assignment::stored;
pub(in crate::connect) use constraints::{CONSTRAINT, Constraints, GENERATED};
pub(in crate::connect) use delete::{Delete, delete};
pub(in crate::connect) use merge::{Action, Clause, Merge, merge};
pub(in crate::connect) use target::{Place, Scanned, Target, internal};
pub(in crate::connect) use update::{Update, update};

type Session = ConnectSession;

/// How often a statement is run before a conflict with other writers is its outcome.
const ATTEMPTS: u32 = 5;

/// Runs a statement again while other writers are faster.
async fn repeated<T, F: Future<Output = Result<T>>>(mut run: impl FnMut() -> F) -> Result<T> {
    let mut attempt = 1;
    loop {
        match run().await {
            Err(error) if is_conflict(&error) && attempt < ATTEMPTS => {
                tracing::info!(%error, attempt, "a statement meets another writer's and is run again");
                attempt += 1;
            }
            outcome => return outcome,
        }
    }
}

fn is_conflict(error: &Error) -> bool {
    error.code().starts_with("DELTA_CONCURRENT_") && error.code() != "DELTA_CONCURRENT_TRANSACTION"
        || ["DELTA_METADATA_CHANGED", "DELTA_PROTOCOL_CHANGED"].contains(&error.code())
}

/// Runs a plan into a sink of changes. Gives the sink's figures; `None` when it has this change already.
pub(in crate::connect) async fn write(session: &ConnectSession, plan: LogicalPlan, sink: Arc<dyn Sink>) -> Result<Option<Figures>> {
    let written = session.engine.write_batch(plan, sink.clone(), OutputMode::Append, &[], session.host.ids().next(), 0).await;
    sink.stop().await;
    Ok(written?.map(|written| Figures(written.committed.metrics)))
}

/// What a change did.
#[derive(Clone, Debug, Default)]
pub(in crate::connect) struct Figures(BTreeMap<String, String>);

impl Figures {
    /// A figure by its name; 0 without it.
    pub(in crate::connect) fn of(&self, name: &str) -> i64 {
        self.0.get(name).and_then(|text| text.parse().ok()).unwrap_or(0)
    }
}

/// What a statement answers: one row of figures.
fn answer(figures: &[(&str, i64)]) -> Result<RecordBatch> {
    let columns = figures.iter().map(|(name, value)| (*name, Arc::new(Int64Array::from(vec![*value])) as ArrayRef, true));
    RecordBatch::try_from_iter_with_nullable(columns).map_err(|error| Error::internal("figures do not form a row").caused_by(error))
}

/// A condition of a statement, over columns. `operation` says in messages where it is.
///
/// # Errors
/// `DELTA_UNSUPPORTED_SUBQUERY`, `DATATYPE_MISMATCH.FILTER_NOT_BOOLEAN`, those of aggregates and of functions that are not deterministic,
/// and those of names and types.
pub(in crate::connect) fn condition(session: &Session, expression: &Expression, columns: &[Attribute], operation: &str) -> Result<Expr> {
    let value = row_value(session, expression, columns, operation)?;
    match &value.data_type {
        DataType::Boolean => Ok(value.expr),
        DataType::Null => Ok(crate::functions::cast::implicit(value, &DataType::Boolean, &session.settings())?.expr),
        other => {
            let message = format!("the condition of {operation} is of type \"{}\" and not boolean", crate::types::ddl_type(other));
            Err(faults::mismatch("FILTER_NOT_BOOLEAN", message))
        }
    }
}

/// A value of one row, over columns.
fn row_value(session: &Session, expression: &Expression, columns: &[Attribute], operation: &str) -> Result<Typed> {
    refuse_subquery(expression, operation)?;
    let value = resolved(session, expression, columns, operation)?;
    if apart::is_aggregate(&value) {
        return Err(aggregation(operation, "condition"));
    }
    if value.expr.is_volatile() {
        let message =
            format!("non-deterministic functions are not supported in the condition of {operation}: compute the value in a column first");
        return Err(match operation {
            MERGE => Error::invalid("DELTA_NON_DETERMINISTIC_FUNCTION_NOT_SUPPORTED", message).with_sqlstate("0AKDC"),
            _ => Error::invalid("INVALID_NON_DETERMINISTIC_EXPRESSIONS", message).with_sqlstate("42K0E"),
        });
    }
    Ok(value)
}

/// A value that a statement assigns, over columns.
///
/// # Errors
/// As [`condition`].
fn value(session: &Session, expression: &Expression, columns: &[Attribute], operation: &str) -> Result<Typed> {
    refuse_subquery(expression, operation)?;
    let value = resolved(session, expression, columns, operation)?;
    if apart::is_aggregate(&value) {
        return Err(aggregation(operation, "assignment"));
    }
    Ok(value)
}

/// How a merge is called where others have conditions of their own.
const MERGE: &str = "MERGE";

fn resolved(session: &Session, expression: &Expression, columns: &[Attribute], operation: &str) -> Result<Typed> {
    let resolved = apart::resolved(expression, columns, session, &session.settings(), &session.engine.context().state());
    if operation == MERGE { resolved.map_err(unresolved_in_merge) } else { resolved }
}

/// Names that a merge does not know have a condition of their own.
fn unresolved_in_merge(error: Error) -> Error {
    match error.code().starts_with("UNRESOLVED_COLUMN") {
        true => Error::invalid("DELTA_MERGE_UNRESOLVED_EXPRESSION", error.message().to_owned()).with_sqlstate("42601"),
        false => error,
    }
}

fn refuse_subquery(expression: &Expression, operation: &str) -> Result<()> {
    if apart::has_subquery(expression) {
        let message = format!("subqueries are not supported in the {operation}: join the other table in a MERGE instead");
        return Err(Error::invalid("DELTA_UNSUPPORTED_SUBQUERY", message).with_sqlstate("0AKDC"));
    }
    Ok(())
}

fn aggregation(operation: &str, what: &str) -> Error {
    let message = format!("aggregate functions are not supported in the {what} of {operation}: compute the value in a column first");
    match operation {
        MERGE => Error::invalid("DELTA_AGGREGATION_NOT_SUPPORTED", message).with_sqlstate("42903"),
        _ => Error::invalid("UNSUPPORTED_EXPR_FOR_OPERATOR", message).with_sqlstate("42K0E"),
    }
}

/// `CASE WHEN … THEN … ELSE … END`; the fallback itself without branches.
pub(in crate::connect) fn case(branches: Vec<(Expr, Expr)>, fallback: Expr) -> Result<Expr> {
    let mut branches = branches.into_iter();
    let Some((condition, value)) = branches.next() else { return Ok(fallback) };
    let mut case = datafusion::logical_expr::when(condition, value);
    for (condition, value) in branches {
        case = case.when(condition, value);
    }
    case.otherwise(fallback).map_err(from_datafusion)
}

/// The columns of a table as one value, the row as it was.
pub(in crate::connect) fn before(columns: &[(Attribute, Typed)]) -> Result<Expr> {
    let fields: Fields = columns.iter().map(|(column, _)| column.to_field().with_nullable(true)).collect();
    let values = columns.iter().map(|(_, value)| value.clone()).collect();
    Ok(scalar("row_before", Pack { fields: fields.clone() }, values, DataType::Struct(fields), false).expr)
}

/// Columns as the fields of a struct, whatever their names.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Pack {
    fields: Fields,
}

impl Kernel for Pack {
    fn evaluate(&self, arguments: &Arguments<'_>) -> Result<ArrayRef> {
        let packed = StructArray::try_new_with_length(self.fields.clone(), arguments.arrays()?, None, arguments.rows());
        packed.map(|packed| Arc::new(packed) as ArrayRef).map_err(|error| Error::internal("columns do not form a row").caused_by(error))
    }
}

/// The expression with values in place of columns.
fn substituted(expr: &Expr, columns: &[Attribute], values: &[Typed]) -> Result<Expr> {
    let substituted = expr.clone().transform(|part| match &part {
        Expr::Column(column) => match columns.iter().position(|known| known.internal == column.name).and_then(|place| values.get(place)) {
            Some(value) if value.expr != part => Ok(Transformed::new(value.expr.clone(), true, TreeNodeRecursion::Jump)),
            _ => Ok(Transformed::no(part)),
        },
        _ => Ok(Transformed::no(part)),
    });
    substituted.map(|substituted| substituted.data).map_err(from_datafusion)
}

#[cfg(test)]
mod tests;
