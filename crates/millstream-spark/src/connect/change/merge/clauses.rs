//! The conditions and values of a merge's clauses.

use arrow::datatypes::{DataType, Field, SchemaRef};
use datafusion::logical_expr::{BinaryExpr, Expr, Operator, lit};
use millstream_core::{Error, Result};
use spark_connect_proto::Expression;

use super::{Action, Clause, Merge};
use crate::analyzer::{Attribute, apart};
use crate::connect::change::assignment::{Assigned, assigned, missing, place_of, same, stored, target_of};
use crate::connect::change::target::Scanned;
use crate::connect::change::{MERGE, Session, condition, row_value, unresolved_in_merge, value};
use crate::functions::cast::{self, CastMode};
use crate::functions::{Settings, Typed};

/// The conditions of all clauses over the columns of the table and of the source.
pub(super) struct Conditions {
    pub(super) matched: Vec<Expr>,
    pub(super) not_matched: Vec<Expr>,
    pub(super) by_source: Vec<Expr>,
}

impl Conditions {
    pub(super) fn of(session: &Session, merge: &Merge, table: &[Attribute], source: &[Attribute]) -> Result<Self> {
        let both: Vec<Attribute> = table.iter().chain(source).cloned().collect();
        let of = |clauses: &[Clause], columns: &[Attribute]| -> Result<Vec<Expr>> {
            let condition = |clause: &Clause| match &clause.condition {
                Some(expression) => of_clause(session, expression, columns),
                None => Ok(lit(true)),
            };
            clauses.iter().map(condition).collect()
        };
        Ok(Conditions {
            matched: of(&merge.matched, &both)?,
            not_matched: of(&merge.not_matched, source)?,
            by_source: of(&merge.not_matched_by_source, table)?,
        })
    }

    /// Whether any clause about matched rows applies.
    pub(super) fn any_matched(&self) -> Expr {
        self.matched.iter().cloned().reduce(Expr::or).unwrap_or_else(|| lit(false))
    }

    /// Whether any clause about rows that nothing matches applies.
    pub(super) fn any_by_source(&self) -> Expr {
        self.by_source.iter().cloned().reduce(Expr::or).unwrap_or_else(|| lit(false))
    }
}

/// The condition of a clause, which is cast where it is no boolean.
fn of_clause(session: &Session, expression: &Expression, columns: &[Attribute]) -> Result<Expr> {
    let value = row_value(session, expression, columns, MERGE)?;
    let settings = session.settings();
    cast::explicit(value, &DataType::Boolean, CastMode::of(&settings), &settings).map(|value| value.expr.is_true())
}

/// What the rows of a merge are matched by.
///
/// # Errors
/// `JOIN_CONDITION_IS_NOT_BOOLEAN_TYPE`, and those of names.
pub(super) fn on(session: &Session, merge: &Merge, columns: &[Attribute]) -> Result<Expr> {
    condition(session, &merge.condition, columns, MERGE).map_err(|error| match error.code() {
        "DATATYPE_MISMATCH.FILTER_NOT_BOOLEAN" => {
            Error::invalid("JOIN_CONDITION_IS_NOT_BOOLEAN_TYPE", error.message().to_owned()).with_sqlstate("42K0E")
        }
        _ => error,
    })
}

/// Resolves everything once, so that what is wrong is told before anything runs.
///
/// # Errors
/// Those of names and types.
pub(super) fn check(session: &Session, merge: &Merge, scanned: &Scanned, source: &[Attribute], evolved: &SchemaRef) -> Result<()> {
    let both: Vec<Attribute> = scanned.columns.iter().chain(source).cloned().collect();
    on(session, merge, &both)?;
    Conditions::of(session, merge, &scanned.columns, source)?;
    let values = Values { session, table: &scanned.columns, source, evolved, evolves: merge.evolves };
    for clause in &merge.matched {
        values.updated(clause, &both)?;
    }
    for clause in &merge.not_matched_by_source {
        values.updated(clause, &scanned.columns)?;
    }
    for clause in &merge.not_matched {
        values.inserted(clause)?;
    }
    Ok(())
}

/// The values of clauses.
pub(super) struct Values<'a> {
    pub(super) session: &'a Session,
    /// The columns of the table.
    pub(super) table: &'a [Attribute],
    /// The columns of the source.
    pub(super) source: &'a [Attribute],
    /// The table's columns afterwards.
    pub(super) evolved: &'a SchemaRef,
    pub(super) evolves: bool,
}

impl Values<'_> {
    fn settings(&self) -> Settings {
        self.session.settings()
    }

    /// A column of the table as it was, or null for one that is new, under its type afterwards.
    pub(super) fn old(&self, place: usize, field: &Field) -> Result<Typed> {
        match self.table.get(place) {
            Some(column) => stored_wider(apart::value_of(column), field, &self.settings()),
            None => Ok(Typed::null(field.data_type())),
        }
    }

    /// The values of all columns in a row to which a clause about rows of the table applies; `None` where it goes. `columns` are those that
    /// its expressions see.
    pub(super) fn updated(&self, clause: &Clause, columns: &[Attribute]) -> Result<Option<Vec<Typed>>> {
        let assignments = match &clause.action {
            Action::Delete => return Ok(None),
            Action::Update(assignments) => self.assignments(assignments, columns)?,
            Action::UpdateAll => self.all("UPDATE")?,
            Action::Insert(_) | Action::InsertAll => return Err(Error::internal("rows of the table are not inserted")),
        };
        let mut out = Vec::with_capacity(self.evolved.fields().len());
        for (place, field) in self.evolved.fields().iter().enumerate() {
            let given = assignments.get(place).map_or(&[][..], Vec::as_slice);
            out.push(assigned(field, &self.old(place, field)?, given, &self.settings())?);
        }
        Ok(Some(out))
    }

    /// The values of all columns in a row that is new.
    pub(super) fn inserted(&self, clause: &Clause) -> Result<Vec<Typed>> {
        let assignments = match &clause.action {
            Action::Insert(assignments) => self.assignments(assignments, self.source)?,
            Action::InsertAll => self.all("INSERT")?,
            Action::Delete | Action::Update(_) | Action::UpdateAll => {
                return Err(Error::internal("rows of the source are only inserted"));
            }
        };
        let mut out = Vec::with_capacity(self.evolved.fields().len());
        for (place, field) in self.evolved.fields().iter().enumerate() {
            match assignments.get(place).map_or(&[][..], Vec::as_slice) {
                [] => out.push(missing(field)?),
                several if several.iter().filter(|one| one.path.is_empty()).count() > 1 => {
                    let message = format!("the column `{}` is named twice in an INSERT clause", field.name());
                    return Err(Error::invalid("DELTA_DUPLICATE_COLUMNS_ON_INSERT", message).with_sqlstate("42701"));
                }
                [one] if one.path.is_empty() => out.push(stored(one.value.clone(), field, &self.settings())?),
                several => out.push(assigned(field, &Typed::null(field.data_type()), several, &self.settings())?),
            }
        }
        Ok(out)
    }

    /// Assignments by the place of their column.
    fn assignments(&self, assignments: &[(Expression, Expression)], columns: &[Attribute]) -> Result<Vec<Vec<Assigned>>> {
        let settings = self.settings();
        let known = self.afterwards();
        let mut by_column: Vec<Vec<Assigned>> = vec![Vec::new(); known.len()];
        for (key, given) in assignments {
            let (place, path) = place_of(&target_of(key)?, &known, &settings).map_err(unresolved_in_merge)?;
            let given = value(self.session, given, columns, MERGE)?;
            if let Some(column) = by_column.get_mut(place) {
                column.push(Assigned { path, value: given });
            }
        }
        Ok(by_column)
    }

    /// The table's columns afterwards, for names.
    fn afterwards(&self) -> Vec<Attribute> {
        let qualifier = self.table.first().map(|column| column.qualifier.clone()).unwrap_or_default();
        let new = |field: &Field| {
            let mut column = apart::attribute(field.name(), &Typed::null(field.data_type()));
            column.qualifier.clone_from(&qualifier);
            column
        };
        let fields = self.evolved.fields().iter().enumerate();
        fields.map(|(place, field)| self.table.get(place).cloned().unwrap_or_else(|| new(field))).collect()
    }

    /// `*`: each column from the source's column of its name.
    fn all(&self, clause: &str) -> Result<Vec<Vec<Assigned>>> {
        let settings = self.settings();
        let mut out = Vec::with_capacity(self.evolved.fields().len());
        for field in self.evolved.fields() {
            let mut found = self.source.iter().filter(|column| same(&column.name, field.name(), &settings));
            match (found.next(), found.next()) {
                (Some(column), None) => out.push(vec![Assigned { path: Vec::new(), value: apart::value_of(column) }]),
                (Some(_), Some(_)) => {
                    let message = format!("the source has several columns `{}`: rename all but one", field.name());
                    return Err(Error::invalid("AMBIGUOUS_REFERENCE", message).with_sqlstate("42704"));
                }
                (None, _) if self.evolves => out.push(Vec::new()),
                (None, _) => {
                    let known: Vec<&str> = self.source.iter().map(|column| column.name.as_str()).collect();
                    let message = format!(
                        "Cannot resolve {} in {clause} clause given columns {}. A source for * needs every column of the table.",
                        field.name(),
                        known.join(", ")
                    );
                    return Err(Error::invalid("DELTA_MERGE_UNRESOLVED_EXPRESSION", message).with_sqlstate("42601"));
                }
            }
        }
        Ok(out)
    }
}

/// A value of the table under its type afterwards, in which structs may have more fields.
fn stored_wider(value: Typed, field: &Field, settings: &Settings) -> Result<Typed> {
    if value.data_type == *field.data_type() {
        return Ok(value);
    }
    super::evolution::widened(value, field.data_type(), settings)
}

/// Equalities between a plain column of the table and a value of the source alone, of types whose order is that of their bounds.
pub(super) fn keys(on: &Expr, table: &[Attribute], source: &[Attribute]) -> Vec<(Expr, Expr)> {
    let column_of = |expr: &Expr| match expr {
        Expr::Column(column) => {
            table.iter().find(|known| known.internal == column.name).filter(|known| is_ordered(&known.data_type)).cloned()
        }
        _ => None,
    };
    let of_source = |expr: &Expr| {
        let columns = expr.column_refs();
        !columns.is_empty() && columns.iter().all(|column| source.iter().any(|known| known.internal == column.name))
    };
    let pair = |part: &Expr| -> Option<(Expr, Expr)> {
        let Expr::BinaryExpr(BinaryExpr { left, op: Operator::Eq, right }) = part else { return None };
        if column_of(left).is_some() && of_source(right) {
            Some((left.as_ref().clone(), right.as_ref().clone()))
        } else if column_of(right).is_some() && of_source(left) {
            Some((right.as_ref().clone(), left.as_ref().clone()))
        } else {
            None
        }
    };
    datafusion::logical_expr::utils::split_conjunction(on).into_iter().filter_map(pair).collect()
}

fn is_ordered(data_type: &DataType) -> bool {
    data_type.is_integer() || matches!(data_type, DataType::Utf8 | DataType::Date32 | DataType::Timestamp(..) | DataType::Decimal128(..))
}
