//! `MERGE INTO t USING s ON … WHEN …`.

mod clauses;
mod evolution;
mod rows;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use datafusion::common::JoinType;
use datafusion::functions_aggregate::expr_fn::{max, min, sum};
use datafusion::logical_expr::{Expr, LogicalPlanBuilder, col, lit};
use millstream_core::versioned::{Change, Operation, Reads, Removes, RowChange, Rows};
use millstream_core::{Error, Options, Result};
use millstream_engine::from_datafusion;
use spark_connect_proto::{Expression, Relation};

use super::source::Source;
use super::target::{Scanned, Target, internal};
use super::{Constraints, Figures, Place, Session, answer, case, repeated, write};
use crate::analyzer::{Analyzed, Attribute, apart};
use crate::functions::Typed;
use clauses::Conditions;

/// A merge.
#[derive(Clone, Debug)]
pub(in crate::connect) struct Merge {
    /// The table.
    pub(in crate::connect) place: Place,
    /// The rows that are merged into it.
    pub(in crate::connect) source: Relation,
    /// When a row of the source matches one of the table.
    pub(in crate::connect) condition: Expression,
    /// `WHEN MATCHED`.
    pub(in crate::connect) matched: Vec<Clause>,
    /// `WHEN NOT MATCHED`.
    pub(in crate::connect) not_matched: Vec<Clause>,
    /// `WHEN NOT MATCHED BY SOURCE`.
    pub(in crate::connect) not_matched_by_source: Vec<Clause>,
    /// Whether the table gets columns that the source has and it has not.
    pub(in crate::connect) evolves: bool,
}

/// One `WHEN`. The first whose condition holds decides about a row.
#[derive(Clone, Debug)]
pub(in crate::connect) struct Clause {
    /// `AND …`.
    pub(in crate::connect) condition: Option<Expression>,
    /// `THEN …`.
    pub(in crate::connect) action: Action,
}

/// What becomes of a row.
#[derive(Clone, Debug)]
pub(in crate::connect) enum Action {
    /// `DELETE`.
    Delete,
    /// `UPDATE SET a = …`.
    Update(Vec<(Expression, Expression)>),
    /// `UPDATE SET *`.
    UpdateAll,
    /// `INSERT (a, …) VALUES (…)`.
    Insert(Vec<(Expression, Expression)>),
    /// `INSERT *`.
    InsertAll,
}

impl Merge {
    /// Whether a row of the table that matches several of the source is no contradiction: it goes in any case.
    fn only_deletes(&self) -> bool {
        matches!(self.matched.as_slice(), [Clause { condition: None, action: Action::Delete }])
    }

    /// Whether rows of the table stay as they are.
    fn only_inserts(&self) -> bool {
        self.matched.is_empty() && self.not_matched_by_source.is_empty()
    }
}

/// Merges rows into a table. Gives Spark's four figures.
///
/// # Errors
/// `DELTA_MULTIPLE_SOURCE_ROW_MATCHING_TARGET_ROW_IN_MERGE`, and those of names, types and values, and of the table.
pub(in crate::connect) async fn merge(session: &Session, merge: &Merge) -> Result<RecordBatch> {
    check_clauses(merge)?;
    // What does not resolve is refused before the source is computed.
    let planned = session.analyze(&merge.source).await?;
    let target = Target::open(session, &merge.place).await?;
    let columns: Vec<Attribute> = planned.columns.iter().filter(|column| !column.hidden).cloned().collect();
    let scanned = target.scan(&target.all())?;
    let evolved = evolution::schema(session, merge, &target, &columns)?;
    clauses::check(session, merge, &scanned, &columns, &evolved)?;
    drop(target);
    let source = Source::compute(session, &merge.source).await?;
    let figures = repeated(|| once(session, merge, &source)).await?;
    let of = |changes: &[RowChange]| changes.iter().map(|change| figures.of(change.metric())).sum::<i64>();
    let (updated, deleted) = (of(&[RowChange::Updated, RowChange::UpdatedBySource]), of(&[RowChange::Deleted, RowChange::DeletedBySource]));
    let inserted = of(&[RowChange::Inserted]);
    answer(&[
        ("num_affected_rows", updated + deleted + inserted),
        ("num_updated_rows", updated),
        ("num_deleted_rows", deleted),
        ("num_inserted_rows", inserted),
    ])
}

/// Only the last clause of a kind may do without a condition.
fn check_clauses(merge: &Merge) -> Result<()> {
    for (clauses, kind) in
        [(&merge.matched, "MATCHED"), (&merge.not_matched, "NOT_MATCHED"), (&merge.not_matched_by_source, "NOT_MATCHED_BY_SOURCE")]
    {
        let before_last = clauses.len().saturating_sub(1);
        if clauses.iter().take(before_last).any(|clause| clause.condition.is_none()) {
            let code = format!("NON_LAST_{kind}_CLAUSE_OMIT_CONDITION");
            let message = format!(
                "When there are more than one {} clauses in a MERGE statement, only the last one can omit the condition.",
                kind.replace('_', " ")
            );
            return Err(Error::invalid(code, message).with_sqlstate("42613"));
        }
    }
    if merge.matched.is_empty() && merge.not_matched.is_empty() && merge.not_matched_by_source.is_empty() {
        return Err(Error::invalid("DELTA_MERGE_MISSING_WHEN", "a MERGE needs at least one WHEN clause").with_sqlstate("42601"));
    }
    Ok(())
}

async fn once(session: &Session, merge: &Merge, source: &Source) -> Result<Figures> {
    let target = Target::open(session, &merge.place).await?;
    let evolved = evolution::schema(session, merge, &target, &source.columns)?;
    let run = Run { session, merge, target: &target, source, evolved: &evolved };
    let all = target.scan(&target.all())?;
    let on = clauses::on(session, merge, &run.both(&all))?;
    let candidates = match merge.not_matched_by_source.is_empty() {
        true => run.candidates(&all, &on).await?,
        false => target.all(),
    };
    if merge.only_inserts() {
        let plan = run.inserts(&target.scan(&candidates)?)?;
        return run.write(plan, Vec::new(), Rows::Plain).await;
    }
    let Touched { files, several } = run.touched(&candidates).await?;
    if several && !merge.only_deletes() {
        let message = "several rows of the source match one row of the table, and it is not clear which of them counts: make the rows of the \
                       source unique by what the condition compares";
        return Err(Error::invalid("DELTA_MULTIPLE_SOURCE_ROW_MATCHING_TARGET_ROW_IN_MERGE", message).with_sqlstate("21506"));
    }
    if files.is_empty() && merge.not_matched.is_empty() {
        return Ok(Figures::default());
    }
    let scanned = target.scan(&files)?;
    let plan = if several { run.rows_of_deletes(&scanned)? } else { run.rows(&scanned)? };
    run.write(plan, files, Rows::Tagged).await
}

/// What the first plan of a merge finds.
struct Touched {
    files: Vec<usize>,
    several: bool,
}

/// One run of a merge over one version of the table.
struct Run<'a> {
    session: &'a Session,
    merge: &'a Merge,
    target: &'a Target<'a>,
    source: &'a Source,
    /// The table's columns afterwards.
    evolved: &'a SchemaRef,
}

impl Run<'_> {
    /// The columns of the table and of the source.
    fn both(&self, scanned: &Scanned) -> Vec<Attribute> {
        scanned.columns.iter().chain(&self.source.columns).cloned().collect()
    }

    fn on(&self, scanned: &Scanned) -> Result<Expr> {
        clauses::on(self.session, self.merge, &self.both(scanned))
    }

    fn joined(&self, scanned: &Scanned, kind: JoinType) -> Result<Analyzed> {
        apart::joined(scanned.rows.clone(), self.source.rows.clone(), kind, self.on(scanned)?)
    }

    /// The files in which rows may match: their bounds have to meet the bounds of the source's keys.
    async fn candidates(&self, all: &Scanned, on: &Expr) -> Result<Vec<usize>> {
        let mut conditions = on.clone();
        let keys = clauses::keys(on, &all.columns, &self.source.columns);
        if self.target.table.files().len() > 1 && !keys.is_empty() && self.source.count > 0 {
            let bounds = keys.iter().flat_map(|(_, value)| [min(value.clone()), max(value.clone())]).collect::<Vec<_>>();
            let named = bounds.into_iter().enumerate().map(|(place, bound)| bound.alias(format!("b{place}"))).collect::<Vec<_>>();
            let plan = LogicalPlanBuilder::from(self.source.rows.plan.clone())
                .aggregate(Vec::<Expr>::new(), named)
                .and_then(LogicalPlanBuilder::build)
                .map_err(from_datafusion)?;
            let rows: Vec<RecordBatch> = self.target.rows(plan).await?;
            let Some(row) = rows.iter().find(|batch| batch.num_rows() > 0) else { return self.target.candidates(all, Some(on)) };
            for (place, (key, _)) in keys.iter().enumerate() {
                let bound = |offset: usize| {
                    let column = row.columns().get(place * 2 + offset)?;
                    datafusion::scalar::ScalarValue::try_from_array(column, 0).ok().filter(|value| !value.is_null())
                };
                // A source whose keys are all null matches nothing, which the join finds out.
                let (Some(low), Some(high)) = (bound(0), bound(1)) else { continue };
                conditions = conditions.and(key.clone().gt_eq(lit(low))).and(key.clone().lt_eq(lit(high)));
            }
        }
        self.target.candidates(all, Some(&conditions))
    }

    /// The files that have rows to rewrite, and whether several rows of the source match one of the table.
    async fn touched(&self, candidates: &[usize]) -> Result<Touched> {
        let scanned = self.target.scan(candidates)?;
        let by_source = !self.merge.not_matched_by_source.is_empty();
        let joined = self.joined(&scanned, if by_source { JoinType::Left } else { JoinType::Inner })?;
        let conditions = Conditions::of(self.session, self.merge, &scanned.columns, &self.source.columns)?;
        let matched = internal(&self.source.present).is_not_null();
        // Where rows are inserted, a file with a match has to be read again, or the source's row would look new.
        let hit = if self.merge.not_matched.is_empty() { conditions.any_matched() } else { lit(true) };
        let hit = match by_source {
            true => matched.and(hit).or(internal(&self.source.present).is_null().and(conditions.any_by_source())),
            false => hit,
        };
        // Several matches of one row are a contradiction whether or not a clause applies to them, as in Delta.
        let hit = case(vec![(hit, lit(1_i64))], lit(0_i64))?;
        let (matches, hits) = (sum(lit(1_i64)).alias("matches"), max(hit).alias("hits"));
        let plan = LogicalPlanBuilder::from(joined.plan)
            .aggregate(vec![internal(&scanned.file), internal(&scanned.row)], vec![matches, hits])
            .and_then(|plan| {
                let (matches, hits) = (max(col("matches")).alias("most"), max(col("hits")).alias("any"));
                plan.aggregate(vec![internal(&scanned.file)], vec![matches, hits])
            })
            .and_then(LogicalPlanBuilder::build)
            .map_err(from_datafusion)?;
        let files = self.target.figures_by_file(plan).await?;
        let of = |figures: &[i64], place: usize| figures.get(place).copied().unwrap_or(0);
        let several = files.iter().any(|(_, figures)| of(figures, 0) > 1);
        Ok(Touched { files: files.iter().filter(|(_, figures)| of(figures, 1) > 0).map(|(file, _)| *file).collect(), several })
    }

    async fn write(&self, plan: datafusion::logical_expr::LogicalPlan, files: Vec<usize>, rows: Rows) -> Result<Figures> {
        let mut options = Options::new();
        if self.merge.evolves {
            options.set("mergeSchema", "true");
        }
        let mut operation = Operation::new("MERGE")
            .with("predicate", serde_json::json!([crate::analyzer::name_of(&self.merge.condition)]).to_string())
            .with("matchedPredicates", predicates(&self.merge.matched))
            .with("notMatchedPredicates", predicates(&self.merge.not_matched))
            .with("notMatchedBySourcePredicates", predicates(&self.merge.not_matched_by_source));
        operation.metrics.insert("numSourceRows".to_owned(), self.source.count.to_string());
        let change = Change {
            operation,
            removes: Removes::Files(files),
            reads: Reads::Table,
            rows,
            checked: Constraints::features(),
            options,
            ..Change::default()
        };
        let sink = self.target.table.change(change).await?;
        Ok(write(self.session, plan, sink).await?.unwrap_or_default())
    }
}

/// The clauses as the table's history has them.
fn predicates(clauses: &[Clause]) -> String {
    let described: Vec<serde_json::Value> = clauses
        .iter()
        .map(|clause| {
            let kind = match clause.action {
                Action::Delete => "delete",
                Action::Update(_) | Action::UpdateAll => "update",
                Action::Insert(_) | Action::InsertAll => "insert",
            };
            match &clause.condition {
                Some(condition) => serde_json::json!({"predicate": crate::analyzer::name_of(condition), "actionType": kind}),
                None => serde_json::json!({"actionType": kind}),
            }
        })
        .collect();
    serde_json::Value::Array(described).to_string()
}

/// A value under a new name.
fn named(name: &str, value: Typed) -> (Attribute, Typed) {
    (apart::attribute(name, &value), value)
}
