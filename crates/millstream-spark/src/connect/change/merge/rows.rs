//! The rows that a merge writes.

use arrow::datatypes::DataType;
use datafusion::common::JoinType;
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder, lit};
use millstream_core::Result;
use millstream_core::versioned::{CHANGE, RowChange};
use millstream_engine::from_datafusion;

use super::clauses::{Conditions, Values};
use super::{Action, Run, named};
use crate::analyzer::{Analyzed, Attribute, apart};
use crate::connect::change::target::{Scanned, internal};
use crate::connect::change::{Constraints, before, case};
use crate::functions::Typed;

/// A row that is left as it is.
const KEPT: i8 = -1;
/// A row of the source that goes nowhere.
const IGNORED: i8 = -2;

/// What a clause does: the change that its rows show, and the values of the columns where they stay.
struct Effect {
    change: RowChange,
    values: Option<Vec<Typed>>,
}

impl Run<'_> {
    fn values<'b>(&'b self, scanned: &'b Scanned) -> Values<'b> {
        Values {
            session: self.session,
            table: &scanned.columns,
            source: &self.source.columns,
            evolved: self.evolved,
            evolves: self.merge.evolves,
        }
    }

    /// New rows only: those of the source that match nothing, without a word on what becomes of them.
    pub(super) fn inserts(&self, scanned: &Scanned) -> Result<LogicalPlan> {
        let unmatched = apart::joined(self.source.rows.clone(), scanned.rows.clone(), JoinType::LeftAnti, self.on(scanned)?)?;
        let (rows, action) = self.chosen(unmatched, scanned, &[], false)?;
        let effects = self.effects(scanned)?;
        let changed = self.changed(rows, scanned, &action, &effects, false)?;
        let plan = self.finished(changed, false)?;
        Ok(plan)
    }

    /// All rows of some files and the new rows, each with what becomes of it.
    pub(super) fn rows(&self, scanned: &Scanned) -> Result<LogicalPlan> {
        let kind = if self.merge.not_matched.is_empty() { JoinType::Left } else { JoinType::Full };
        let joined = self.joined(scanned, kind)?;
        let matched = [(internal(&scanned.file).is_not_null(), internal(&self.source.present).is_not_null())];
        let (rows, action) = self.chosen(joined, scanned, &matched, true)?;
        let effects = self.effects(scanned)?;
        let changed = self.changed(rows, scanned, &action, &effects, true)?;
        self.finished(changed, true)
    }

    /// The same where several rows of the source may match one of the table, which then goes: it must not come several times.
    pub(super) fn rows_of_deletes(&self, scanned: &Scanned) -> Result<LogicalPlan> {
        let joined = apart::joined(scanned.rows.clone(), self.source.rows.clone(), JoinType::LeftSemi, self.on(scanned)?)?;
        let gone = self.tagged_as(joined, scanned, lit(RowChange::Deleted.code()))?;
        let others = apart::joined(scanned.rows.clone(), self.source.rows.clone(), JoinType::LeftAnti, self.on(scanned)?)?;
        let conditions = Conditions::of(self.session, self.merge, &scanned.columns, &self.source.columns)?;
        let effects = self.effects(scanned)?;
        let offset = self.merge.matched.len() + self.merge.not_matched.len();
        let branches =
            conditions.by_source.iter().enumerate().map(|(place, condition)| (condition.clone(), lit(code(offset + place)))).collect();
        let (rows, action) = self.with_action(others, case(branches, lit(KEPT))?)?;
        let changed = self.changed(rows, scanned, &action, &effects, true)?;
        let others = self.finished(changed, true)?;
        let mut plan = LogicalPlanBuilder::from(gone).union(others).map_err(from_datafusion)?;
        if !self.merge.not_matched.is_empty() {
            let all = self.target.scan(&self.target.all())?;
            let unmatched = apart::joined(self.source.rows.clone(), all.rows.clone(), JoinType::LeftAnti, self.on(&all)?)?;
            let (rows, action) = self.chosen(unmatched, &all, &[], false)?;
            let changed = self.changed(rows, &all, &action, &self.effects(&all)?, false)?;
            plan = plan.union(self.finished(changed, true)?).map_err(from_datafusion)?;
        }
        plan.build().map_err(from_datafusion)
    }

    /// Rows of the table that all become the same.
    fn tagged_as(&self, rows: Analyzed, scanned: &Scanned, tag: Expr) -> Result<LogicalPlan> {
        let values = self.values(scanned);
        let mut columns: Vec<(Attribute, Typed)> = Vec::new();
        for (place, field) in self.evolved.fields().iter().enumerate() {
            columns.push(named(field.name(), values.old(place, field)?));
        }
        columns.push(named(CHANGE, Typed::new(tag, DataType::Int8, false)));
        if self.target.records_changes() {
            columns.push(named(millstream_core::versioned::BEFORE, self.as_it_was(scanned)?));
        }
        self.finished(apart::computed(rows.plan, columns)?, true)
    }

    /// The row as it was under the table's columns afterwards, for files of changes.
    fn as_it_was(&self, scanned: &Scanned) -> Result<Typed> {
        let values = self.values(scanned);
        let fields = self.evolved.fields().iter().enumerate();
        let old =
            fields.map(|(place, field)| values.old(place, field).map(|value| named(field.name(), value))).collect::<Result<Vec<_>>>()?;
        let data_type = DataType::Struct(old.iter().map(|(column, _)| column.to_field().with_nullable(true)).collect());
        Ok(Typed::new(before(&old)?, data_type, false))
    }

    /// What clauses do, in the order matched, not matched, not matched by source.
    fn effects(&self, scanned: &Scanned) -> Result<Vec<Effect>> {
        let values = self.values(scanned);
        let both = self.both(scanned);
        let mut effects = Vec::new();
        for clause in &self.merge.matched {
            let change = if matches!(clause.action, Action::Delete) { RowChange::Deleted } else { RowChange::Updated };
            effects.push(Effect { change, values: values.updated(clause, &both)? });
        }
        for clause in &self.merge.not_matched {
            effects.push(Effect { change: RowChange::Inserted, values: Some(values.inserted(clause)?) });
        }
        for clause in &self.merge.not_matched_by_source {
            let change = if matches!(clause.action, Action::Delete) { RowChange::DeletedBySource } else { RowChange::UpdatedBySource };
            effects.push(Effect { change, values: values.updated(clause, &scanned.columns)? });
        }
        Ok(effects)
    }

    /// Rows with the number of the clause that applies. `sides` tells whether a row has a part of the table and of the source; without it
    /// all rows are of the source alone.
    fn chosen(&self, rows: Analyzed, scanned: &Scanned, sides: &[(Expr, Expr)], from_table: bool) -> Result<(Analyzed, Attribute)> {
        let conditions = Conditions::of(self.session, self.merge, &scanned.columns, &self.source.columns)?;
        let numbered = |conditions: &[Expr], first: usize, fallback: i8| {
            let branches = conditions.iter().enumerate().map(|(place, condition)| (condition.clone(), lit(code(first + place)))).collect();
            case(branches, lit(fallback))
        };
        let new = numbered(&conditions.not_matched, self.merge.matched.len(), IGNORED)?;
        let action = match sides {
            [(in_table, in_source)] if from_table => {
                let matched = numbered(&conditions.matched, 0, KEPT)?;
                let offset = self.merge.matched.len() + self.merge.not_matched.len();
                let alone = numbered(&conditions.by_source, offset, KEPT)?;
                case(vec![(in_table.clone().and(in_source.clone()), matched), (in_table.clone(), alone)], new)?
            }
            _ => new,
        };
        let (rows, action) = self.with_action(rows, action)?;
        let plan = LogicalPlanBuilder::from(rows.plan)
            .filter(internal(&action).not_eq(lit(IGNORED)))
            .and_then(LogicalPlanBuilder::build)
            .map_err(from_datafusion)?;
        Ok((Analyzed { plan, columns: rows.columns }, action))
    }

    fn with_action(&self, rows: Analyzed, action: Expr) -> Result<(Analyzed, Attribute)> {
        let (attribute, value) = named("__millstream_action", Typed::new(action, DataType::Int8, false));
        let mut columns: Vec<(Attribute, Typed)> = rows.columns.iter().map(|column| (column.clone(), apart::value_of(column))).collect();
        columns.push((attribute.clone(), value));
        Ok((apart::computed(rows.plan, columns)?, attribute))
    }

    /// Rows with the values that their clause gives them, and what becomes of them.
    fn changed(&self, rows: Analyzed, scanned: &Scanned, action: &Attribute, effects: &[Effect], from_table: bool) -> Result<Analyzed> {
        let values = self.values(scanned);
        let is = |place: usize| internal(action).eq(lit(code(place)));
        let mut columns: Vec<(Attribute, Typed)> = Vec::with_capacity(self.evolved.fields().len() + 2);
        for (place, field) in self.evolved.fields().iter().enumerate() {
            let old = if from_table { values.old(place, field)? } else { Typed::null(field.data_type()) };
            let mut branches: Vec<(Expr, Expr)> = Vec::new();
            for (number, effect) in effects.iter().enumerate() {
                let is_new = effect.change == RowChange::Inserted;
                if !from_table && !is_new {
                    continue;
                }
                if let Some(value) = effect.values.as_ref().and_then(|values| values.get(place)).filter(|value| value.expr != old.expr) {
                    branches.push((is(number), value.expr.clone()));
                }
            }
            columns.push(named(field.name(), Typed::new(case(branches, old.expr)?, field.data_type().clone(), true)));
        }
        let tags = effects.iter().enumerate().map(|(number, effect)| (is(number), lit(effect.change.code()))).collect();
        columns.push(named(CHANGE, Typed::new(case(tags, lit(RowChange::Copied.code()))?, DataType::Int8, false)));
        if self.target.records_changes() {
            let old = match from_table {
                true => self.as_it_was(scanned)?,
                false => {
                    let none: Vec<(Attribute, Typed)> =
                        self.evolved.fields().iter().map(|field| named(field.name(), Typed::null(field.data_type()))).collect();
                    let data_type = DataType::Struct(none.iter().map(|(column, _)| column.to_field().with_nullable(true)).collect());
                    Typed::new(before(&none)?, data_type, false)
                }
            };
            columns.push(named(millstream_core::versioned::BEFORE, old));
        }
        apart::computed(rows.plan, columns)
    }

    /// The rows under the names that the sink expects, checked against the table's constraints.
    fn finished(&self, rows: Analyzed, tagged: bool) -> Result<LogicalPlan> {
        let own = self.evolved.fields().len();
        let columns: Vec<Attribute> = rows.columns.iter().take(own).cloned().collect();
        let tag = rows.columns.get(own);
        let affected = tag.map(|tag| {
            let changes = [RowChange::Inserted, RowChange::Updated, RowChange::UpdatedBySource];
            internal(tag).in_list(changes.iter().map(|change| lit(change.code())).collect(), false)
        });
        let plan = Constraints::of(self.target.table.facts())?.enforced(self.session, rows.plan, &columns, affected.as_ref())?;
        let shown = if tagged { rows.columns.len() } else { own };
        let out: Vec<Expr> = rows.columns.iter().take(shown).map(|column| internal(column).alias(&column.name)).collect();
        LogicalPlanBuilder::from(plan).project(out).and_then(LogicalPlanBuilder::build).map_err(from_datafusion)
    }
}

/// The number of a clause. There are never more of them than a statement has room for.
fn code(place: usize) -> i8 {
    i8::try_from(place).unwrap_or(i8::MAX)
}
