//! What `SET a = …, b.c = …` and `INSERT (a, b) VALUES …` make of the columns of a table.

use arrow::array::{Array, ArrayRef};
use arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::logical_expr::Expr;
use datafusion::scalar::ScalarValue;
use millstream_core::{Error, Result};
use spark_connect_proto::Expression;
use spark_connect_proto::expression::ExprType;

use crate::analyzer::{Attribute, name_parts};
use crate::functions::cast::{self, CastMode};
use crate::functions::{Argument, Arguments, Call, Functions, Kernel, Settings, Typed, faults, scalar};
use crate::types::ddl_type;

/// A value for a column, or for a field inside of one.
#[derive(Clone, Debug)]
pub(super) struct Assigned {
    /// The names inside of the column, outermost first; empty for the column itself.
    pub(super) path: Vec<String>,
    /// The value.
    pub(super) value: Typed,
}

/// The parts of the name that an assignment sets.
///
/// # Errors
/// `DELTA_MERGE_UNEXPECTED_ASSIGNMENT_KEY` for something that is no name.
pub(super) fn target_of(key: &Expression) -> Result<Vec<String>> {
    match &key.expr_type {
        Some(ExprType::UnresolvedAttribute(attribute)) => name_parts(&attribute.unparsed_identifier),
        Some(ExprType::ExpressionString(text)) => target_of(&crate::sql::parse::expression(&text.expression)?),
        Some(ExprType::UnresolvedExtractValue(extract)) => {
            let mut parts = extract.child.as_deref().map(target_of).transpose()?.unwrap_or_default();
            match extract.extraction.as_deref().and_then(|extraction| extraction.expr_type.as_ref()) {
                Some(ExprType::Literal(literal)) => match &literal.literal_type {
                    Some(spark_connect_proto::expression::literal::LiteralType::String(name)) => parts.push(name.clone()),
                    _ => return Err(unexpected_key()),
                },
                _ => return Err(unexpected_key()),
            }
            Ok(parts)
        }
        _ => Err(unexpected_key()),
    }
}

fn unexpected_key() -> Error {
    Error::invalid("DELTA_MERGE_UNEXPECTED_ASSIGNMENT_KEY", "what is assigned to is neither a column nor a field of one")
        .with_sqlstate("22005")
}

/// The columns that names mean: the place of each among `columns`, and what is left of the name. A name may begin with the table's.
///
/// # Errors
/// `UNRESOLVED_COLUMN.WITH_SUGGESTION`.
pub(super) fn place_of(name: &[String], columns: &[Attribute], settings: &Settings) -> Result<(usize, Vec<String>)> {
    let found = |skipped: usize| {
        let (qualifier, rest) = name.split_at_checked(skipped)?;
        let (first, path) = rest.split_first()?;
        let place = columns.iter().position(|column| {
            let called = column.qualifier.len().checked_sub(qualifier.len()).and_then(|start| column.qualifier.get(start..));
            let called = called.is_some_and(|called| called.iter().zip(qualifier).all(|(one, other)| same(one, other, settings)));
            same(&column.name, first, settings) && called
        })?;
        Some((place, path.to_vec()))
    };
    (0..name.len()).rev().find_map(found).ok_or_else(|| unresolved(name, columns.iter().map(|column| column.name.as_str())))
}

/// There is no such column to assign to.
pub(super) fn unresolved<'a>(name: &[String], known: impl Iterator<Item = &'a str>) -> Error {
    let shown = name.iter().map(|part| format!("`{part}`")).collect::<Vec<_>>().join(".");
    let known: Vec<String> = known.map(|name| format!("`{name}`")).collect();
    let message = format!(
        "A column, variable, or function parameter with name {shown} cannot be resolved. Did you mean one of the following? [{}].",
        known.join(", ")
    );
    Error::invalid("UNRESOLVED_COLUMN.WITH_SUGGESTION", message).with_sqlstate("42703")
}

pub(super) fn same(one: &str, other: &str, settings: &Settings) -> bool {
    if settings.case_sensitive { one == other } else { one.to_lowercase() == other.to_lowercase() }
}

/// The value of a column after assignments to it or to its fields; `old` without any.
///
/// # Errors
/// `DELTA_CONFLICT_SET_COLUMN` when one assignment overlaps another, and those of [`stored`].
pub(super) fn assigned(field: &Field, old: &Typed, assignments: &[Assigned], settings: &Settings) -> Result<Typed> {
    let whole = assignments.iter().filter(|assigned| assigned.path.is_empty()).count();
    if whole > 1 || (whole == 1 && assignments.len() > 1) {
        let message = format!("there is a conflict from these SET columns: `{}` is set more than once", field.name());
        return Err(Error::invalid("DELTA_CONFLICT_SET_COLUMN", message).with_sqlstate("42701"));
    }
    match assignments {
        [] => Ok(old.clone()),
        [Assigned { path, value }] if path.is_empty() => stored(value.clone(), field, settings),
        _ => inside(field, old, assignments, settings),
    }
}

/// A struct with new values in some of its fields.
fn inside(field: &Field, old: &Typed, assignments: &[Assigned], settings: &Settings) -> Result<Typed> {
    let DataType::Struct(fields) = field.data_type() else {
        let message = format!(
            "fields can be set only inside of a struct, and `{}` is of type \"{}\": set the whole column",
            field.name(),
            ddl_type(field.data_type())
        );
        return Err(Error::invalid("_LEGACY_ERROR_TEMP_DELTA_0009", message));
    };
    for assigned in assignments {
        let Some(first) = assigned.path.first() else { continue };
        if !fields.iter().any(|field| same(field.name(), first, settings)) {
            let known: Vec<String> = fields.iter().map(|field| format!("`{}`", field.name())).collect();
            let message = format!("No such struct field `{first}` in {}.", known.join(", "));
            return Err(Error::invalid("FIELD_NOT_FOUND", message).with_sqlstate("42704"));
        }
    }
    let mut parts: Vec<Typed> = Vec::with_capacity(fields.len() * 2);
    for child in fields {
        let own: Vec<Assigned> = assignments
            .iter()
            .filter(|assigned| assigned.path.first().is_some_and(|first| same(first, child.name(), settings)))
            .map(|assigned| Assigned { path: assigned.path.iter().skip(1).cloned().collect(), value: assigned.value.clone() })
            .collect();
        let value = call("extract_value", vec![old.clone(), Typed::text(child.name())], settings)?;
        parts.push(Typed::text(child.name()));
        parts.push(assigned(child, &value, &own, settings)?);
    }
    call("named_struct", parts, settings)
}

fn call(name: &str, arguments: Vec<Typed>, settings: &Settings) -> Result<Typed> {
    let arguments = arguments.into_iter().map(Argument::Value).collect();
    Functions::all().build(&Call { name, arguments, settings })
}

/// A value under the type of a column, as Delta stores it: numbers that do not fit fail, fields of structs find their places by name.
///
/// # Errors
/// `DATATYPE_MISMATCH.CAST_WITHOUT_SUGGESTION`, `DELTA_UPDATE_SCHEMA_MISMATCH_EXPRESSION`.
pub(in crate::connect) fn stored(value: Typed, field: &Field, settings: &Settings) -> Result<Typed> {
    if value.data_type == *field.data_type() {
        return Ok(value);
    }
    if let (DataType::Struct(from), DataType::Struct(to)) = (&value.data_type, field.data_type()) {
        return by_name(&value, from, to, field, settings);
    }
    let to = Field::new(field.name(), field.data_type().clone(), true);
    let narrows = value.data_type.is_numeric() && to.data_type().is_numeric() && !cast::rules::is_up_cast(&value.data_type, to.data_type());
    if !narrows {
        return cast::explicit_to(value, &to, CastMode::Ansi, settings);
    }
    // The same cast with the error of a table that is written: null stands for what does not fit.
    let fitting = cast::explicit_to(value.clone(), &to, CastMode::Try, settings)?;
    let guard = Fitting { column: field.name().clone(), from: value.data_type.clone(), to: to.data_type().clone() };
    let (data_type, nullable, metadata) = (fitting.data_type.clone(), value.nullable, fitting.metadata.clone());
    Ok(scalar("stored", guard, vec![value, fitting], data_type, nullable).with_metadata(metadata))
}

/// Fails where a number has no value of the type that it is stored as.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Fitting {
    column: String,
    from: DataType,
    to: DataType,
}

impl Kernel for Fitting {
    fn evaluate(&self, arguments: &Arguments<'_>) -> Result<ArrayRef> {
        let (given, stored) = (arguments.array(0)?, arguments.array(1)?);
        if (0..given.len()).any(|row| given.is_valid(row) && stored.is_null(row)) {
            let message = format!(
                "Failed to write a value of \"{}\" type into the \"{}\" type column `{}` due to an overflow. Use `try_cast` on the input value \
                 to tolerate overflow and return NULL instead.",
                ddl_type(&self.from),
                ddl_type(&self.to),
                self.column
            );
            return Err(faults::row("DELTA_CAST_OVERFLOW_IN_TABLE_WRITE", "22003", message));
        }
        Ok(stored)
    }
}

fn by_name(value: &Typed, from: &[FieldRef], to: &[FieldRef], field: &Field, settings: &Settings) -> Result<Typed> {
    let mismatch = || {
        let message = format!(
            "Cannot cast \"{}\" to \"{}\" of column `{}`. All nested columns must match.",
            ddl_type(&value.data_type),
            ddl_type(field.data_type()),
            field.name()
        );
        Error::invalid("DELTA_UPDATE_SCHEMA_MISMATCH_EXPRESSION", message).with_sqlstate("42846")
    };
    if from.iter().any(|given| !to.iter().any(|wanted| same(given.name(), wanted.name(), settings))) {
        return Err(mismatch());
    }
    let mut parts: Vec<Typed> = Vec::with_capacity(to.len() * 2);
    for wanted in to {
        let given = from.iter().find(|given| same(given.name(), wanted.name(), settings)).ok_or_else(mismatch)?;
        let inner = call("extract_value", vec![value.clone(), Typed::text(given.name())], settings)?;
        parts.push(Typed::text(wanted.name()));
        parts.push(stored(inner, wanted, settings)?);
    }
    let built = call("named_struct", parts, settings)?;
    if !value.nullable {
        return Ok(built);
    }
    // A struct that is null stays null.
    let null = Expr::Literal(ScalarValue::try_from(&built.data_type).unwrap_or(ScalarValue::Null), None);
    let expr = super::case(vec![(value.expr.clone().is_not_null(), built.expr)], null)?;
    Ok(Typed { expr, data_type: built.data_type, nullable: true, metadata: built.metadata })
}

/// A value that is null, for a column that nothing is assigned to.
///
/// # Errors
/// `DELTA_NOT_NULL_CONSTRAINT_VIOLATED`.
pub(super) fn missing(field: &Field) -> Result<Typed> {
    if field.is_nullable() {
        return Ok(Typed::null(field.data_type()));
    }
    Err(faults::row("DELTA_NOT_NULL_CONSTRAINT_VIOLATED", "23502", format!("column `{}` is NOT NULL and gets no value", field.name())))
}
