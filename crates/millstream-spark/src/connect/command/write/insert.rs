//! Rows added to a table that exists, or put in place of its rows.

use arrow::datatypes::{DataType, Field, Schema};
use datafusion::common::Column;
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder};
use millstream_core::versioned::AsOf;
use millstream_core::{Error, Options, Result};
use millstream_engine::from_datafusion;
use spark_connect_proto::write_operation::SaveMode;

use super::delta::{self, DeltaMode, DeltaWrite};
use super::{Session, Write, files, is_dynamic};
use crate::analyzer::{Analyzed, Attribute};
use crate::connect::catalog::{Stored, TableName, Warehouse, not_found};
use crate::connect::change::GENERATED;
use crate::connect::errors::unsupported;
use crate::connect::execute::named_plan;
use crate::functions::cast::{self, CastMode};
use crate::functions::{Settings, Typed};
use crate::types::ddl_type;

/// How columns of rows find columns of the table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::connect) enum By {
    /// By their names.
    Name,
    /// By their places.
    Position,
    /// The first of these columns gets the first column of the rows, and so on; the others get null.
    Columns(Vec<String>),
}

/// Adds rows to a table, or replaces its rows.
///
/// # Errors
/// `TABLE_OR_VIEW_NOT_FOUND`, `INSERT_COLUMN_ARITY_MISMATCH.*`, `INCOMPATIBLE_DATA_FOR_TABLE.*`, and those of the plan and the table.
pub(in crate::connect) async fn into_table(
    session: &Session,
    analyzed: Analyzed,
    name: &TableName,
    by: &By,
    mode: DeltaMode,
    options: &Options,
) -> Result<()> {
    let warehouse = Warehouse::open(session.host.as_ref())?;
    let missing = || not_found(&[name.database.clone(), name.table.clone()]);
    let stored = warehouse.table(name).await?.ok_or_else(missing)?;
    if stored.view.is_some() {
        return Err(unsupported("inserting into a view"));
    }
    let table = stored.columns(session).await?;
    let evolves = options.get("mergeSchema").or_else(|| options.get("overwriteSchema")).is_some_and(|value| value == "true");
    let evolves = evolves || (stored.format == "delta" && crate::connect::statement::change::evolves(session));
    let plan = if evolves && *by == By::Name {
        named_plan(analyzed, session.settings().case_sensitive)?
    } else {
        let generated = match stored.format.as_str() {
            "delta" => generated(session, &stored).await?,
            _ => Vec::new(),
        };
        fitted(&analyzed, &table, name, by, &generated, &session.settings())?
    };
    let all = merged(&stored, options);
    match stored.format.as_str() {
        "delta" => {
            let partitioned = matches!(mode, DeltaMode::Overwrite) && is_dynamic(session, &all);
            let mode = if partitioned { DeltaMode::OverwritePartitions } else { mode };
            let mut options = all;
            if evolves {
                options.set("mergeSchema", "true");
            }
            let location = stored.location().to_owned();
            let write = DeltaWrite { location, plan, mode, partition_by: Vec::new(), options, statement: None };
            delta::write(session, write).await
        }
        format if files::FORMATS.contains(&format) => {
            if matches!(mode, DeltaMode::ReplaceWhere(_)) {
                return Err(unsupported(&format!("replacing rows by a condition in tables of format {format}")));
            }
            // The plan has the table's columns under their names already.
            let write = Write {
                analyzed: as_analyzed(plan),
                format: stored.format.clone(),
                mode: if matches!(mode, DeltaMode::Append) { SaveMode::Append } else { SaveMode::Overwrite },
                partition_by: stored.partition_by.clone(),
                options: all,
                statement: None,
            };
            files::save(session, write, stored.location()).await
        }
        format => Err(unsupported(&format!("inserting into tables of format {format}"))),
    }
}

/// The columns that a Delta table computes where rows lack them.
async fn generated(session: &Session, stored: &Stored) -> Result<Vec<String>> {
    let Some(tables) = session.engine.registry().versioned(&stored.format) else { return Ok(Vec::new()) };
    let Some(table) = tables.open(stored.location(), &AsOf::Newest).await? else { return Ok(Vec::new()) };
    let schema = crate::types::schema_from_json(&table.facts().schema)?;
    let computed = schema.fields().iter().filter(|field| field.metadata().contains_key(GENERATED));
    Ok(computed.map(|field| field.name().clone()).collect())
}

fn merged(stored: &Stored, options: &Options) -> Options {
    let mut all: Options = stored.options.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    for (name, value) in options.iter() {
        all.set(name, value);
    }
    all
}

fn as_analyzed(plan: LogicalPlan) -> Analyzed {
    let columns = plan.schema().fields().iter().map(|field| Attribute {
        name: field.name().clone(),
        internal: field.name().clone(),
        data_type: field.data_type().clone(),
        nullable: field.is_nullable(),
        metadata: field.metadata().clone(),
        qualifier: Vec::new(),
        plan_ids: Vec::new(),
        hidden: false,
    });
    let columns = columns.collect();
    Analyzed { plan, columns }
}

/// The rows with the columns and types of a table.
fn fitted(
    analyzed: &Analyzed,
    table: &Schema,
    name: &TableName,
    by: &By,
    generated: &[String],
    settings: &Settings,
) -> Result<LogicalPlan> {
    let data: Vec<&Attribute> = analyzed.columns.iter().filter(|column| !column.hidden).collect();
    // Generated columns may be left out where columns are called by name.
    let left_out = |field: &Field| {
        *by == By::Name && generated.contains(field.name()) && !data.iter().any(|column| same(&column.name, field.name(), settings))
    };
    let wanted: Vec<&str> = match by {
        By::Columns(columns) => columns.iter().map(String::as_str).collect(),
        By::Name | By::Position => table.fields().iter().filter(|field| !left_out(field)).map(|field| field.name().as_str()).collect(),
    };
    check_arity(&data, &wanted, name)?;
    let mut columns: Vec<Expr> = Vec::with_capacity(data.len());
    for (index, field) in table.fields().iter().enumerate() {
        if left_out(field) {
            continue;
        }
        let column = match by {
            By::Position => data.get(index).copied(),
            By::Name => data.iter().copied().find(|column| same(&column.name, field.name(), settings)),
            By::Columns(names) => {
                let place = names.iter().position(|name| same(name, field.name(), settings));
                match place.and_then(|place| data.get(place).copied()) {
                    Some(column) => Some(column),
                    None if generated.contains(field.name()) => continue,
                    None => {
                        columns.push(Typed::null(field.data_type()).expr.alias(field.name()));
                        continue;
                    }
                }
            }
        };
        let column = column.ok_or_else(|| {
            let given: Vec<&str> = data.iter().map(|column| column.name.as_str()).collect();
            Error::invalid(
                "_LEGACY_ERROR_TEMP_1162",
                format!("Cannot resolve '{}' given input columns: [{}].", field.name(), given.join(", ")),
            )
        })?;
        columns.push(stored_as(column, field, name, settings)?.alias(field.name()));
    }
    if let By::Columns(names) = by
        && let Some(unknown) = names.iter().find(|name| !table.fields().iter().any(|field| same(name, field.name(), settings)))
    {
        let message = format!("A column with name `{unknown}` cannot be resolved: {name} has no such column.");
        return Err(Error::invalid("UNRESOLVED_COLUMN.WITHOUT_SUGGESTION", message).with_sqlstate("42703"));
    }
    LogicalPlanBuilder::from(analyzed.plan.clone()).project(columns).and_then(LogicalPlanBuilder::build).map_err(from_datafusion)
}

fn check_arity(data: &[&Attribute], wanted: &[&str], name: &TableName) -> Result<()> {
    let (what, words) = match data.len().cmp(&wanted.len()) {
        std::cmp::Ordering::Equal => return Ok(()),
        std::cmp::Ordering::Greater => ("TOO_MANY_DATA_COLUMNS", "too many data columns"),
        std::cmp::Ordering::Less => ("NOT_ENOUGH_DATA_COLUMNS", "not enough data columns"),
    };
    let shown = |names: Vec<&str>| names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
    let given = shown(data.iter().map(|column| column.name.as_str()).collect());
    let message =
        format!("Cannot write to {name}, the reason is {words}:\nTable columns: {}.\nData columns: {given}.", shown(wanted.to_vec()));
    Err(Error::invalid(format!("INSERT_COLUMN_ARITY_MISMATCH.{what}"), message).with_sqlstate("21S01"))
}

fn same(one: &str, other: &str, settings: &Settings) -> bool {
    if settings.case_sensitive { one == other } else { one.eq_ignore_ascii_case(other) }
}

/// A column under the type of the table's, by Spark's rules of assignment.
fn stored_as(column: &Attribute, field: &Field, table: &TableName, settings: &Settings) -> Result<Expr> {
    let expr = Expr::Column(Column::new_unqualified(&column.internal));
    if column.data_type == *field.data_type() {
        return Ok(expr);
    }
    if !assignable(&column.data_type, field.data_type()) {
        let message = format!(
            "Cannot write incompatible data for the table {table}: Cannot safely cast `{}` \"{}\" to \"{}\".",
            field.name(),
            ddl_type(&column.data_type),
            ddl_type(field.data_type())
        );
        return Err(Error::invalid("INCOMPATIBLE_DATA_FOR_TABLE.CANNOT_SAFELY_CAST", message).with_sqlstate("KD000"));
    }
    let value = Typed::new(expr, column.data_type.clone(), column.nullable).with_metadata(column.metadata.clone());
    Ok(cast::explicit_to(value, field, CastMode::Ansi, settings)?.expr)
}

/// Whether values of a type may be stored in a column of another one.
fn assignable(from: &DataType, to: &DataType) -> bool {
    let moment = |data_type: &DataType| matches!(data_type, DataType::Date32 | DataType::Timestamp(..));
    match (from, to) {
        (DataType::Null, _) => true,
        (DataType::List(from), DataType::List(to)) => assignable(from.data_type(), to.data_type()),
        (DataType::Map(from, _), DataType::Map(to, _)) => assignable(from.data_type(), to.data_type()),
        (DataType::Struct(from), DataType::Struct(to)) => {
            from.len() == to.len() && from.iter().zip(to).all(|(from, to)| assignable(from.data_type(), to.data_type()))
        }
        (DataType::List(_) | DataType::Map(..) | DataType::Struct(_) | DataType::Binary, DataType::Utf8) => false,
        (_, DataType::Utf8) => true,
        (from, to) => from == to || (from.is_numeric() && to.is_numeric()) || (moment(from) && moment(to)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn assignment_takes_what_casts_safely() {
        let stamp = crate::types::timestamp();
        let cases = [
            (DataType::Int64, DataType::Int32, true),
            (DataType::Utf8, DataType::Int32, false),
            (DataType::Int32, DataType::Utf8, true),
            (DataType::Date32, stamp.clone(), true),
            (stamp, DataType::Int64, false),
            (DataType::Null, DataType::Int32, true),
            (DataType::Boolean, DataType::Int32, false),
        ];
        for (from, to, expected) in cases {
            assert_eq!(assignable(&from, &to), expected, "{from} to {to}");
        }
    }
}
