//! Whether the state in a checkpoint is that of a query's operators. What Spark refuses is refused, with Spark's conditions.

use std::sync::Arc;

use arrow::datatypes::{DataType, Field, FieldRef};
use arrow::error::ArrowError;
use millstream_core::{Error, ErrorKind, Result};
use serde::{Deserialize, Serialize};
use url::Url;

use super::arbitrary::check_properties;
use super::operator::{Description, Operator};
use super::table::TableSchema;

/// What a commit record says about one operator.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct OperatorFacts {
    name: String,
    /// What else changes the meaning of its state: aggregates, the kind of a join.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    variant: String,
    tables: Vec<TableFacts>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct TableFacts {
    name: String,
    /// The types of the columns.
    key: Vec<String>,
    value: Vec<String>,
    /// The names of the columns, for people.
    #[serde(default)]
    key_names: Vec<String>,
    #[serde(default)]
    value_names: Vec<String>,
}

impl OperatorFacts {
    /// Spark's name of the operator.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Its tables: their names, and the columns of their keys and values.
    ///
    /// # Errors
    /// `CHECKPOINT_RECORD_DAMAGED` for a type that cannot be read.
    pub(crate) fn tables(&self) -> Result<Vec<(String, Vec<FieldRef>, Vec<FieldRef>)>> {
        let columns = |types: &[String], names: &[String], letter: &str| -> Result<Vec<FieldRef>> {
            let column = |(index, data_type): (usize, &String)| {
                let name = names.get(index).cloned().unwrap_or_else(|| format!("{letter}{index}"));
                let data_type: DataType = data_type.parse().map_err(|error: ArrowError| {
                    let message = format!("the type '{data_type}' of a column of state cannot be read; it was written by a newer version");
                    Error::new(ErrorKind::CheckpointIncompatible, "CHECKPOINT_RECORD_DAMAGED", message).caused_by(error)
                })?;
                Ok(Arc::new(Field::new(name, data_type, true)))
            };
            types.iter().enumerate().map(column).collect()
        };
        let table = |table: &TableFacts| {
            let key = columns(&table.key, &table.key_names, "key")?;
            Ok((table.name.clone(), key, columns(&table.value, &table.value_names, "value")?))
        };
        self.tables.iter().map(table).collect()
    }

    /// What else changes the meaning of its state.
    pub(crate) fn variant(&self) -> &str {
        &self.variant
    }

    /// Of an operator as the query has it.
    pub(crate) fn of(description: &Description) -> Self {
        let tables = description.tables.iter().map(TableFacts::of).collect();
        OperatorFacts { name: description.name.to_owned(), variant: description.variant.clone(), tables }
    }

    /// Of an operator with all that it keeps, which may be more than the query knows of.
    pub(crate) fn kept_by(operator: &Operator) -> Self {
        let mut tables: Vec<TableFacts> = Vec::new();
        operator.for_each_task(|_, core| {
            for table in core.tables() {
                if !tables.iter().any(|known| known.name == table.schema().name) {
                    tables.push(TableFacts::of(table.schema()));
                }
            }
        });
        OperatorFacts { tables, ..Self::of(&operator.description) }
    }
}

impl TableFacts {
    fn of(table: &TableSchema) -> Self {
        let types = |fields: &[FieldRef]| fields.iter().map(|field| field.data_type().to_string()).collect();
        let names = |fields: &[FieldRef]| fields.iter().map(|field| field.name().clone()).collect();
        TableFacts {
            name: table.name.to_string(),
            key: types(&table.key),
            value: types(&table.value),
            key_names: names(&table.key),
            value_names: names(&table.value),
        }
    }
}

/// Compares the operators of a checkpoint with those of a query, both from the top of the plan down. What Spark accepts although it changes
/// what state means is a matter of [`super::fingerprint`].
///
/// # Errors
/// `STREAMING_STATEFUL_OPERATOR_NOT_MATCH_IN_STATE_METADATA` for other operators, `STATE_STORE_KEY_SCHEMA_NOT_COMPATIBLE` and
/// `STATE_STORE_VALUE_SCHEMA_NOT_COMPATIBLE` for other columns. Names of columns do not matter.
pub(crate) fn check(stored: &[OperatorFacts], current: &[OperatorFacts]) -> Result<()> {
    let names = |operators: &[OperatorFacts]| operators.iter().map(|operator| operator.name.clone()).collect::<Vec<_>>();
    if names(stored) != names(current) {
        return Err(refused(
            "STREAMING_STATEFUL_OPERATOR_NOT_MATCH_IN_STATE_METADATA",
            "42K03",
            format!(
                "Streaming stateful operator name does not match with the operator in state metadata. This likely to happen when user adds, \
                 removes or changes stateful operators of an existing streaming query. Stateful operators in the metadata: {:?}; Stateful \
                 operators in current batch: {:?}. Restore the query, or start a new checkpoint.",
                names(stored),
                names(current)
            ),
        ));
    }
    for (old, new) in stored.iter().zip(current) {
        let processor = check_properties(&old.variant, &new.variant)?;
        for old_table in &old.tables {
            let Some(new_table) = new.tables.iter().find(|table| table.name == old_table.name) else {
                // A variable that is not declared any more is kept.
                if processor {
                    continue;
                }
                // Windows that overlap are kept in slices, and those cannot be read as anything else.
                return Err(changed("KEY", &new.name, &old_table.key, &[]));
            };
            if old_table.key != new_table.key {
                return Err(changed("KEY", &new.name, &old_table.key, &new_table.key));
            }
            // Spark's value schemas of joins differ by the columns that can be null, which depend on the kind of join.
            let joined_otherwise = new.name == "symmetricHashJoin" && old.variant != new.variant;
            if old_table.value != new_table.value || joined_otherwise {
                return Err(changed("VALUE", &new.name, &old_table.value, &new_table.value));
            }
        }
    }
    Ok(())
}

/// The error for a checkpoint without the state that a query needs.
pub(crate) fn missing(checkpoint: &Url) -> Error {
    refused(
        "STREAMING_STATEFUL_OPERATOR_MISSING_STATE_DIRECTORY",
        "42K03",
        format!(
            "Cannot restart streaming query with stateful operators because the state directory is empty or missing. {checkpoint} belongs to \
             a query without state, or its state was removed: restore it, or start a new checkpoint."
        ),
    )
}

fn changed(what: &str, operator: &str, old: &[String], new: &[String]) -> Error {
    let code = if what == "KEY" { "STATE_STORE_KEY_SCHEMA_NOT_COMPATIBLE" } else { "STATE_STORE_VALUE_SCHEMA_NOT_COMPATIBLE" };
    refused(
        code,
        "XXKST",
        format!(
            "Provided {} schema of the operator {operator} does not match existing state. Existing: {old:?}; provided: {new:?}. Restore the \
             query, or start a new checkpoint.",
            what.to_lowercase()
        ),
    )
}

fn refused(code: &'static str, sqlstate: &'static str, message: String) -> Error {
    Error::new(ErrorKind::CheckpointIncompatible, code, message).with_sqlstate(sqlstate)
}
