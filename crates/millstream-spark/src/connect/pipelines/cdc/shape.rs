//! What the changes of an AUTO CDC flow and its tables look like.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::datatypes::{DataType, Field, Fields, Schema};
use millstream_core::{Error, Result};

use super::{AutoCdc, Columns, DELETED, METADATA, RESERVED, UPSERTED};
use crate::analyzer::{Analyzed, Attribute, Leaves, apart};
use crate::connect::catalog::TableName;
use crate::connect::session::ConnectSession;
use crate::functions::Typed;
use crate::functions::cast;

/// The property of a side table that names its keys, as JSON.
const KEYS: &str = "pipelines.autocdc.keyColumnNames";

/// The property of a side table that names the kind of history.
const KIND: &str = "pipelines.autocdc.scdType";

/// The column of a change's sequence on its way to the tables.
pub(super) const SEQUENCE: &str = "__spark_autocdc_sequence";

/// The column that tells whether a change removes its row.
pub(super) const DELETE: &str = "__spark_autocdc_delete";

/// The changes of a flow: the columns that the table has, then [`SEQUENCE`] and [`DELETE`].
///
/// # Errors
/// `AUTOCDC_*` for columns that are not there or whose names are taken; those of the two expressions.
pub(in crate::connect::pipelines) fn shaped(
    session: &ConnectSession,
    leaves: &dyn Leaves,
    flow: &str,
    cdc: &AutoCdc,
    changes: Analyzed,
) -> Result<Analyzed> {
    let settings = session.settings();
    let same = |one: &str, other: &str| if settings.case_sensitive { one == other } else { one.eq_ignore_ascii_case(other) };
    let all: Vec<Attribute> = changes.columns.iter().filter(|column| !column.hidden).cloned().collect();
    if let Some(taken) = all.iter().find(|column| column.name.to_lowercase().starts_with(RESERVED)) {
        let message =
            format!("the changes of AUTO CDC flow '{flow}' have the column `{}`: names that begin with {RESERVED} are taken", taken.name);
        return Err(Error::invalid("AUTOCDC_RESERVED_COLUMN_NAME_PREFIX_CONFLICT", message).with_sqlstate("42710"));
    }
    let listed = |names: &[String], column: &Attribute| names.iter().any(|name| same(name, &column.name));
    if let Columns::Only(names) | Columns::Except(names) = &cdc.columns
        && let Some(unknown) = names.iter().find(|name| !all.iter().any(|column| same(name, &column.name)))
    {
        let message = format!("the changes of AUTO CDC flow '{flow}' have no column `{unknown}`: they have {}", names_of(&all));
        return Err(Error::invalid("AUTOCDC_COLUMNS_NOT_FOUND_IN_SCHEMA", message).with_sqlstate("42703"));
    }
    let chosen: Vec<Attribute> = all
        .iter()
        .filter(|column| match &cdc.columns {
            Columns::All => true,
            Columns::Only(names) => listed(names, column),
            Columns::Except(names) => !listed(names, column),
        })
        .cloned()
        .collect();
    if let Some(key) = cdc.keys.iter().find(|key| !chosen.iter().any(|column| same(key, &column.name))) {
        let message = format!("the key `{key}` of AUTO CDC flow '{flow}' is not among the columns of its table: {}", names_of(&chosen));
        return Err(Error::invalid("AUTOCDC_KEY_NOT_IN_SELECTED_SCHEMA", message).with_sqlstate("22023"));
    }
    let state = session.engine.state();
    let sequence = apart::resolved(&cdc.sequence, &all, leaves, &settings, state)?;
    let deletes = match &cdc.deletes {
        None => Typed::literal(datafusion::scalar::ScalarValue::Boolean(Some(false))),
        Some(condition) => {
            let condition = apart::resolved(condition, &all, leaves, &settings, state)?;
            cast::implicit(condition, &DataType::Boolean, &settings)?
        }
    };
    let mut columns: Vec<(Attribute, Typed)> =
        chosen.iter().map(|column| (apart::attribute(&column.name, &apart::value_of(column)), apart::value_of(column))).collect();
    for (name, value) in [(SEQUENCE, sequence), (DELETE, deletes)] {
        columns.push((apart::attribute(name, &value), value));
    }
    apart::computed(changes.plan, columns)
}

fn names_of(columns: &[Attribute]) -> String {
    columns.iter().map(|column| format!("`{}`", column.name)).collect::<Vec<_>>().join(", ")
}

/// The columns of the table for changes of this shape: those chosen, then the sequences.
pub(super) fn target(changes: &Schema) -> Result<Schema> {
    let own = |field: &&Arc<Field>| field.name() != SEQUENCE && field.name() != DELETE;
    let mut fields: Vec<Arc<Field>> = changes.fields().iter().filter(own).cloned().collect();
    fields.push(Arc::new(Field::new(METADATA, metadata(changes)?, true)));
    Ok(Schema::new(fields))
}

fn metadata(changes: &Schema) -> Result<DataType> {
    let sequence = changes.field_with_name(SEQUENCE).map_err(|error| Error::internal("changes have no sequence").caused_by(error))?;
    let of = |name: &str| Field::new(name, sequence.data_type().clone(), true);
    Ok(DataType::Struct(Fields::from(vec![of(DELETED), of(UPSERTED)])))
}

/// The table beside the table of a flow.
#[derive(Clone, Debug)]
pub(in crate::connect::pipelines) struct SideTable {
    pub(in crate::connect::pipelines) name: TableName,
    pub(in crate::connect::pipelines) schema: Schema,
    pub(in crate::connect::pipelines) properties: BTreeMap<String, String>,
}

/// The columns of the table of a flow whose changes have this shape, and the table beside it.
///
/// # Errors
/// `INTERNAL_ERROR` for changes of another shape.
pub(in crate::connect::pipelines) fn side_table(target_name: &TableName, cdc: &AutoCdc, changes: &Schema) -> Result<(Schema, SideTable)> {
    let key = |name: &String| changes.fields().iter().find(|field| field.name().eq_ignore_ascii_case(name)).cloned();
    let mut fields: Vec<Arc<Field>> = cdc.keys.iter().filter_map(key).collect();
    let keys: Vec<String> = fields.iter().map(|field| field.name().clone()).collect();
    fields.push(Arc::new(Field::new(METADATA, metadata(changes)?, false)));
    let side = SideTable {
        name: TableName { database: target_name.database.clone(), table: format!("{RESERVED}aux_state_{}", target_name.table) },
        schema: Schema::new(fields),
        properties: [(KEYS.to_owned(), serde_json::json!(keys).to_string()), (KIND.to_owned(), "SCD1".to_owned())].into(),
    };
    Ok((target(changes)?, side))
}

/// Refuses a side table that was made for other keys.
///
/// # Errors
/// `AUTOCDC_INVALID_STATE.*`.
pub(in crate::connect::pipelines) fn check_side_table(
    flow: &str,
    wanted: &SideTable,
    schema: &Schema,
    properties: &BTreeMap<String, String>,
) -> Result<()> {
    let invalid = |what: &str, message: String| {
        Err(Error::invalid(format!("AUTOCDC_INVALID_STATE.{what}"), format!("AUTO CDC flow '{flow}': {message}")).with_sqlstate("42000"))
    };
    let Some(text) = properties.get(KEYS) else {
        return invalid(
            "AUXILIARY_TABLE_PROPERTY_MISSING",
            format!("its table {} does not tell its keys: refresh the target fully", wanted.name),
        );
    };
    let Ok(keys) = serde_json::from_str::<Vec<String>>(text) else {
        return invalid(
            "AUXILIARY_TABLE_PROPERTY_MALFORMED",
            format!("its table {} names its keys as '{text}': refresh the target fully", wanted.name),
        );
    };
    let type_of = |schema: &Schema, name: &str| {
        schema.fields().iter().find(|field| field.name().eq_ignore_ascii_case(name)).map(|field| field.data_type().clone())
    };
    if let Some(missing) = keys.iter().find(|key| type_of(schema, key).is_none()) {
        return invalid(
            "AUXILIARY_TABLE_KEY_COLUMN_MISSING",
            format!("its table {} lacks the key `{missing}`: refresh the target fully", wanted.name),
        );
    }
    let described = |schema: &Schema| {
        let mut keys: Vec<(String, Option<DataType>)> = schema
            .fields()
            .iter()
            .filter(|field| field.name() != METADATA)
            .map(|field| (field.name().to_lowercase(), Some(field.data_type().clone())))
            .collect();
        keys.sort_by(|one, other| one.0.cmp(&other.0));
        keys
    };
    let mut recorded: Vec<(String, Option<DataType>)> = keys.iter().map(|key| (key.to_lowercase(), type_of(schema, key))).collect();
    recorded.sort_by(|one, other| one.0.cmp(&other.0));
    if recorded != described(&wanted.schema) {
        let message = "its keys are not those that the table was made with: refresh the target fully".to_owned();
        return invalid("KEY_SCHEMA_DRIFT", message);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cdc(keys: &[&str]) -> AutoCdc {
        AutoCdc {
            source: Default::default(),
            keys: keys.iter().map(|key| (*key).to_owned()).collect(),
            sequence: Default::default(),
            deletes: None,
            columns: Columns::All,
        }
    }

    fn changes() -> Schema {
        let field = |name: &str, data_type| Field::new(name, data_type, true);
        Schema::new(vec![
            field("Plot", DataType::Int32),
            field("op", DataType::Utf8),
            field(SEQUENCE, DataType::Int64),
            field(DELETE, DataType::Boolean),
        ])
    }

    #[test]
    fn tables_have_the_sequences_beside_their_columns() {
        let name = TableName { database: "db".into(), table: "plots".into() };
        let (target, side) = side_table(&name, &cdc(&["plot"]), &changes()).unwrap();
        assert_eq!(target.fields().iter().map(|field| field.name().as_str()).collect::<Vec<_>>(), ["Plot", "op", METADATA]);
        assert_eq!(side.name.table, "__spark_autocdc_aux_state_plots");
        assert_eq!(side.schema.fields().len(), 2);
        assert_eq!(side.properties[KEYS], r#"["Plot"]"#);
        check_side_table("f", &side, &side.schema, &side.properties).unwrap();
        let (_, other) = side_table(&name, &cdc(&["plot", "op"]), &changes()).unwrap();
        let code =
            |properties: &BTreeMap<String, String>| check_side_table("f", &other, &side.schema, properties).unwrap_err().code().to_owned();
        assert_eq!(code(&side.properties), "AUTOCDC_INVALID_STATE.KEY_SCHEMA_DRIFT");
        assert_eq!(code(&other.properties), "AUTOCDC_INVALID_STATE.AUXILIARY_TABLE_KEY_COLUMN_MISSING");
        assert_eq!(code(&BTreeMap::new()), "AUTOCDC_INVALID_STATE.AUXILIARY_TABLE_PROPERTY_MISSING");
        let malformed = [(KEYS.to_owned(), "plot".to_owned())].into();
        assert_eq!(code(&malformed), "AUTOCDC_INVALID_STATE.AUXILIARY_TABLE_PROPERTY_MALFORMED");
    }
}
