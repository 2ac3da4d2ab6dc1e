//! The columns that a table has after a merge with schema evolution.

use std::sync::Arc;

use arrow::datatypes::{DataType, Field, FieldRef, Schema, SchemaRef};
use datafusion::logical_expr::Expr;
use datafusion::scalar::ScalarValue;
use millstream_core::{Error, Result};

use super::{Action, Clause, Merge};
use crate::analyzer::Attribute;
use crate::connect::change::Session;
use crate::connect::change::assignment::{same, target_of};
use crate::connect::change::target::Target;
use crate::functions::{Argument, Call, Functions, Settings, Typed};

/// The table's columns afterwards: those that it has, then new ones of the source. Structs get new fields in the same way.
///
/// # Errors
/// `DELTA_MERGE_ADD_VOID_COLUMN`.
pub(super) fn schema(session: &Session, merge: &Merge, target: &Target<'_>, source: &[Attribute]) -> Result<SchemaRef> {
    let table = target.table.schema();
    if !merge.evolves {
        return Ok(table);
    }
    let settings = session.settings();
    let clauses: Vec<&Clause> = merge.matched.iter().chain(&merge.not_matched).collect();
    let takes_all = clauses.iter().any(|clause| matches!(clause.action, Action::UpdateAll | Action::InsertAll));
    let mut assigned: Vec<String> = Vec::new();
    for clause in &clauses {
        if let Action::Update(assignments) | Action::Insert(assignments) = &clause.action {
            for (key, _) in assignments {
                assigned.extend(target_of(key)?.last().cloned());
                assigned.extend(target_of(key)?.first().cloned());
            }
        }
    }
    let wanted = |name: &str| takes_all || assigned.iter().any(|known| same(known, name, &settings));
    let mut fields: Vec<FieldRef> = table.fields().to_vec();
    for column in source.iter().filter(|column| wanted(&column.name)) {
        match fields.iter_mut().find(|field| same(field.name(), &column.name, &settings)) {
            Some(field) => {
                let data_type = merged(field.data_type(), &column.data_type, &settings);
                *field = Arc::new(field.as_ref().clone().with_data_type(data_type));
            }
            None if column.data_type == DataType::Null => {
                let message = format!("the new column `{}` would be of type VOID: cast it", column.name);
                return Err(Error::invalid("DELTA_MERGE_ADD_VOID_COLUMN", message).with_sqlstate("42K09"));
            }
            None => fields.push(Arc::new(Field::new(&column.name, column.data_type.clone(), true))),
        }
    }
    Ok(Arc::new(Schema::new(fields)))
}

/// A type of the table with the fields that the source's type has besides.
fn merged(table: &DataType, source: &DataType, settings: &Settings) -> DataType {
    match (table, source) {
        (DataType::Struct(table), DataType::Struct(source)) => {
            let mut fields: Vec<FieldRef> = table.to_vec();
            for new in source {
                match fields.iter_mut().find(|field| same(field.name(), new.name(), settings)) {
                    Some(field) => {
                        let data_type = merged(field.data_type(), new.data_type(), settings);
                        *field = Arc::new(field.as_ref().clone().with_data_type(data_type));
                    }
                    None => fields.push(Arc::new(Field::new(new.name(), new.data_type().clone(), true))),
                }
            }
            DataType::Struct(fields.into())
        }
        (DataType::List(table), DataType::List(source)) => {
            let data_type = merged(table.data_type(), source.data_type(), settings);
            DataType::List(Arc::new(table.as_ref().clone().with_data_type(data_type)))
        }
        (table, _) => table.clone(),
    }
}

/// A value of the table as it was under a type with more fields, which are null.
///
/// # Errors
/// Those of building structs.
pub(super) fn widened(value: Typed, to: &DataType, settings: &Settings) -> Result<Typed> {
    let (DataType::Struct(from), DataType::Struct(fields)) = (&value.data_type, to) else {
        if value.data_type == *to {
            return Ok(value);
        }
        let cast = datafusion::logical_expr::cast(value.expr, to.clone());
        return Ok(Typed { expr: cast, data_type: to.clone(), ..value });
    };
    let call = |name: &str, arguments: Vec<Typed>| {
        let arguments = arguments.into_iter().map(Argument::Value).collect();
        Functions::all().build(&Call { name, arguments, settings })
    };
    let mut parts: Vec<Typed> = Vec::with_capacity(fields.len() * 2);
    for field in fields {
        parts.push(Typed::text(field.name()));
        parts.push(match from.iter().any(|known| known.name() == field.name()) {
            true => widened(call("extract_value", vec![value.clone(), Typed::text(field.name())])?, field.data_type(), settings)?,
            false => Typed::null(field.data_type()),
        });
    }
    let built = call("named_struct", parts)?;
    let null = Expr::Literal(ScalarValue::try_from(&built.data_type).unwrap_or(ScalarValue::Null), None);
    let expr = crate::connect::change::case(vec![(value.expr.clone().is_not_null(), built.expr)], null)?;
    Ok(Typed { expr, data_type: built.data_type, nullable: true, metadata: value.metadata })
}
