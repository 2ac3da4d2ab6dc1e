//! `ALTER TABLE` and `COMMENT ON`.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::{Field, FieldRef, Schema};
use datafusion::logical_expr::{LogicalPlanBuilder, lit};
use millstream_core::versioned::{Alteration, Operation, Reads, VersionedTable};
use millstream_core::{Error, Result};
use millstream_engine::from_datafusion;
use spark_connect_proto::Expression;

use super::{Statements, table_operation};
use crate::connect::catalog::rows::done;
use crate::connect::catalog::{Stored, TableName, Warehouse, not_found};
use crate::connect::change::{CONSTRAINT, Place, Target, condition};
use crate::connect::errors::unsupported;
use crate::sql::parse::{AlterAction, ColumnChange, Name, ObjectKind};
use crate::types::{COMMENT, ddl_type, schema_from_json, schema_to_json};

impl Statements<'_> {
    pub(super) async fn alter(&self, kind: ObjectKind, name: &Name, action: AlterAction) -> Result<RecordBatch> {
        if kind == ObjectKind::Database {
            return Err(unsupported("ALTER DATABASE"));
        }
        if kind == ObjectKind::Table && self.is_versioned(name).await? {
            return self.alter_versioned(name, action).await;
        }
        let (warehouse, table, mut stored) = self.table(name).await?;
        match action {
            AlterAction::SetProperties(properties) => stored.properties.extend(properties),
            AlterAction::UnsetProperties(keys) => stored.properties.retain(|key, _| !keys.contains(key)),
            AlterAction::As { query, text } if kind == ObjectKind::View => {
                self.session.analyze(&self.query(*query)).await?;
                stored.view = Some(text);
            }
            AlterAction::Partitions => return done(),
            AlterAction::AddColumns(_) => return Err(table_operation(name, "ADD COLUMNS")),
            AlterAction::Rename(_) => return Err(table_operation(name, "RENAME: make a new table of its rows")),
            AlterAction::SetLocation(_) => return Err(table_operation(name, "SET LOCATION")),
            AlterAction::ClusterBy(_) => return Err(table_operation(name, "CLUSTER BY")),
            AlterAction::DropColumns { .. } => return Err(table_operation(name, "DROP COLUMNS")),
            AlterAction::RenameColumn { .. } => return Err(table_operation(name, "RENAME COLUMN")),
            AlterAction::AddConstraint { .. } => return Err(table_operation(name, "ADD CONSTRAINT")),
            AlterAction::DropConstraint { .. } => return Err(table_operation(name, "DROP CONSTRAINT")),
            AlterAction::AlterColumn { .. } | AlterAction::As { .. } => return Err(table_operation(name, "ALTER COLUMN")),
        }
        warehouse.record(&table, &stored).await?;
        done()
    }

    /// Whether a name means a table whose format keeps versions.
    async fn is_versioned(&self, name: &Name) -> Result<bool> {
        let registry = self.session.engine.registry();
        match name.as_slice() {
            [format, path] if path.contains('/') => Ok(registry.versioned(format).is_some()),
            _ => Ok(self.stored(name).await?.is_some_and(|(_, stored)| registry.versioned(&stored.format).is_some())),
        }
    }

    async fn alter_versioned(&self, name: &Name, action: AlterAction) -> Result<RecordBatch> {
        let place = Place::of_name(self.session, name, "ALTER TABLE").await?;
        let table = place.open(self.session).await?;
        let properties = table.facts().properties.clone();
        let alteration = match action {
            AlterAction::SetProperties(given) => set_properties(properties, given)?,
            AlterAction::UnsetProperties(keys) => unset_properties(properties, &keys),
            AlterAction::AddColumns(columns) => add_columns(table.as_ref(), columns)?,
            AlterAction::AlterColumn { column, change } => alter_column(table.as_ref(), &column, change)?,
            AlterAction::AddConstraint { name, check, text } => self.add_constraint(&place, &table, &name, &check, &text).await?,
            AlterAction::DropConstraint { name, if_exists } => match drop_constraint(properties, &place, &name, if_exists)? {
                Some(alteration) => alteration,
                None => return done(),
            },
            AlterAction::ClusterBy(columns) => cluster_by(table.as_ref(), columns)?,
            AlterAction::Partitions => return done(),
            AlterAction::DropColumns { .. } => return Err(needs_column_mapping("DROP COLUMN")),
            AlterAction::RenameColumn { .. } => return Err(needs_column_mapping("RENAME COLUMN")),
            AlterAction::Rename(_) => return Err(table_operation(name, "RENAME: make a new table of its rows")),
            AlterAction::SetLocation(_) => return Err(table_operation(name, "SET LOCATION")),
            AlterAction::As { .. } => return Err(table_operation(name, "ALTER VIEW")),
        };
        table.alter(alteration).await?;
        done()
    }

    /// A new condition, which the rows that are there have to satisfy.
    async fn add_constraint(
        &self,
        place: &Place,
        table: &Arc<dyn VersionedTable>,
        name: &str,
        check: &Expression,
        text: &str,
    ) -> Result<Alteration> {
        let mut properties = table.facts().properties.clone();
        let key = format!("{CONSTRAINT}{}", name.to_lowercase());
        if let Some(old) = properties.get(&key) {
            let message = format!("Constraint '{name}' already exists. Please delete the old constraint first. Old constraint: {old}");
            return Err(Error::invalid("DELTA_CONSTRAINT_ALREADY_EXISTS", message).with_sqlstate("42710"));
        }
        let target = Target { session: self.session, place, table: table.clone() };
        let scanned = target.scan(&target.all())?;
        let holds = condition(self.session, check, &scanned.columns, "CHECK constraint")?;
        let broken = LogicalPlanBuilder::from(scanned.rows.plan.clone())
            .filter(holds.is_not_true())
            .and_then(LogicalPlanBuilder::build)
            .map_err(from_datafusion)?;
        let rows: i64 = target.by_file(broken, &scanned.file, lit(1_i64)).await?.into_iter().map(|(_, rows)| rows).sum();
        if rows > 0 {
            let message = format!("{rows} rows in {} violate the new CHECK constraint ({text})", place.label);
            return Err(Error::invalid("DELTA_NEW_CHECK_CONSTRAINT_VIOLATION", message).with_sqlstate("23512"));
        }
        properties.insert(key, text.to_owned());
        Ok(Alteration {
            operation: Operation::new("ADD CONSTRAINT").with("name", name).with("expr", text),
            properties: Some(properties),
            reads: Reads::Table,
            ..Alteration::default()
        })
    }

    pub(super) async fn comment(&self, kind: ObjectKind, name: &Name, comment: Option<String>) -> Result<RecordBatch> {
        if kind == ObjectKind::Database {
            return Err(unsupported("comments of schemas"));
        }
        if kind == ObjectKind::Table && self.is_versioned(name).await? {
            let table = Place::of_name(self.session, name, "COMMENT ON").await?.open(self.session).await?;
            let operation = Operation::new("SET TBLPROPERTIES");
            table.alter(Alteration { operation, description: Some(comment), ..Alteration::default() }).await?;
            return done();
        }
        let (warehouse, table, stored) = self.table(name).await?;
        warehouse.record(&table, &Stored { comment, ..stored }).await?;
        done()
    }

    /// A table or stored view.
    ///
    /// # Errors
    /// `TABLE_OR_VIEW_NOT_FOUND`.
    pub(super) async fn table(&self, name: &Name) -> Result<(Warehouse, TableName, Stored)> {
        let warehouse = Warehouse::open(self.session.host.as_ref())?;
        let table = TableName::of(self.session, name).ok_or_else(|| not_found(name))?;
        let stored = warehouse.table(&table).await?.ok_or_else(|| not_found(name))?;
        Ok((warehouse, table, stored))
    }
}

fn set_properties(mut properties: BTreeMap<String, String>, mut given: BTreeMap<String, String>) -> Result<Alteration> {
    if let Some(key) = given.keys().find(|key| key.to_lowercase().starts_with(CONSTRAINT)) {
        let message = format!("'{key}' is a constraint: use ALTER TABLE … ADD CONSTRAINT, which checks the rows that are there");
        return Err(Error::invalid("DELTA_ADD_CONSTRAINTS", message).with_sqlstate("0A000"));
    }
    let operation = Operation::new("SET TBLPROPERTIES").with("properties", serde_json::json!(given).to_string());
    let comment = given.remove("comment");
    let version =
        |key: &str| given.iter().find(|(known, _)| known.eq_ignore_ascii_case(key)).and_then(|(_, value)| value.parse::<i32>().ok());
    let protocol = match (version("delta.minReaderVersion"), version("delta.minWriterVersion")) {
        (None, None) => None,
        (reader, writer) => Some((reader.unwrap_or(1), writer.unwrap_or(2))),
    };
    properties.extend(given);
    Ok(Alteration { operation, properties: Some(properties), protocol, description: comment.map(Some), ..Alteration::default() })
}

fn unset_properties(mut properties: BTreeMap<String, String>, keys: &[String]) -> Alteration {
    properties.retain(|known, _| !keys.iter().any(|key| key.eq_ignore_ascii_case(known)));
    let operation = Operation::new("UNSET TBLPROPERTIES").with("properties", serde_json::json!(keys).to_string()).with("ifExists", "true");
    let description = keys.iter().any(|key| key == "comment").then_some(None);
    Alteration { operation, properties: Some(properties), description, ..Alteration::default() }
}

/// New columns, at the end or where they were asked for. Rows that are there have nulls in them.
fn add_columns(table: &dyn VersionedTable, columns: Vec<(Field, Option<String>)>) -> Result<Alteration> {
    let schema = schema_from_json(&table.facts().schema)?;
    let mut fields: Vec<FieldRef> = schema.fields().to_vec();
    let described: Vec<String> = columns.iter().map(|(field, _)| field.name().clone()).collect();
    for (field, after) in columns {
        if field.name().contains('.') {
            return Err(unsupported("adding a field inside of a column: write rows that have it, with mergeSchema"));
        }
        if fields.iter().any(|known| known.name().eq_ignore_ascii_case(field.name())) {
            let message = format!("Cannot add column `{}`, because it already exists.", field.name());
            return Err(Error::invalid("FIELD_ALREADY_EXISTS", message).with_sqlstate("42710"));
        }
        if !field.is_nullable() {
            let message = format!("`{}` cannot be NOT NULL: the rows that are there have no value in it", field.name());
            return Err(Error::invalid("DELTA_ADDING_COLUMN_WITH_INTERNAL_NAME_FAILED", message).with_sqlstate("42000"));
        }
        let place = match after.as_deref() {
            None => fields.len(),
            Some("") => 0,
            Some(after) => {
                let found = fields.iter().position(|known| known.name().eq_ignore_ascii_case(after));
                found.map(|place| place + 1).ok_or_else(|| no_column(after))?
            }
        };
        fields.insert(place, Arc::new(field));
    }
    let operation = Operation::new("ADD COLUMNS").with("columns", serde_json::json!(described).to_string());
    Ok(Alteration { operation, schema: Some(schema_to_json(&Schema::new(fields))), ..Alteration::default() })
}

fn no_column(name: &str) -> Error {
    Error::invalid("DELTA_COLUMN_NOT_FOUND_IN_SCHEMA", format!("there is no column `{name}` in the table")).with_sqlstate("42703")
}

fn alter_column(table: &dyn VersionedTable, column: &Name, change: ColumnChange) -> Result<Alteration> {
    let schema = schema_from_json(&table.facts().schema)?;
    let [name] = column.as_slice() else { return Err(unsupported("changing a field inside of a column")) };
    let mut fields: Vec<FieldRef> = schema.fields().to_vec();
    let field = fields.iter_mut().find(|field| field.name().eq_ignore_ascii_case(name)).ok_or_else(|| no_column(name))?;
    let changed = match change {
        ColumnChange::Comment(comment) => {
            let mut metadata = field.metadata().clone();
            metadata.insert(COMMENT.to_owned(), comment);
            field.as_ref().clone().with_metadata(metadata)
        }
        ColumnChange::Nullable(true) => field.as_ref().clone().with_nullable(true),
        ColumnChange::Nullable(false) if !field.is_nullable() => field.as_ref().clone(),
        ColumnChange::Nullable(false) => {
            let message = format!("`{name}` cannot become NOT NULL: add a CHECK constraint ({name} IS NOT NULL)");
            return Err(Error::invalid("DELTA_UNSUPPORTED_ALTER_TABLE_CHANGE_COL_OP", message).with_sqlstate("0AKDC"));
        }
        ColumnChange::Type(to) if to.data_type() == field.data_type() => field.as_ref().clone(),
        ColumnChange::Type(to) => {
            let message = format!(
                "the type of `{name}` cannot change from \"{}\" to \"{}\": make a new table of its rows",
                ddl_type(field.data_type()),
                ddl_type(to.data_type())
            );
            return Err(Error::invalid("DELTA_UNSUPPORTED_ALTER_TABLE_CHANGE_COL_OP", message).with_sqlstate("0AKDC"));
        }
    };
    *field = Arc::new(changed);
    let operation = Operation::new("CHANGE COLUMN").with("column", name.as_str());
    Ok(Alteration { operation, schema: Some(schema_to_json(&Schema::new(fields))), ..Alteration::default() })
}

fn drop_constraint(mut properties: BTreeMap<String, String>, place: &Place, name: &str, if_exists: bool) -> Result<Option<Alteration>> {
    let key = format!("{CONSTRAINT}{}", name.to_lowercase());
    if properties.remove(&key).is_none() {
        if if_exists {
            return Ok(None);
        }
        let message = format!("Cannot drop nonexistent constraint {name} from table {}: check its name, or use IF EXISTS", place.label);
        return Err(Error::invalid("DELTA_CONSTRAINT_DOES_NOT_EXIST", message).with_sqlstate("42704"));
    }
    let operation = Operation::new("DROP CONSTRAINT").with("name", name).with("existed", "true");
    Ok(Some(Alteration { operation, properties: Some(properties), ..Alteration::default() }))
}

fn cluster_by(table: &dyn VersionedTable, columns: Vec<String>) -> Result<Alteration> {
    let facts = table.facts();
    if !facts.partition_columns.is_empty() {
        let message = "ALTER TABLE CLUSTER BY cannot be applied to a partitioned table.";
        return Err(Error::invalid("DELTA_ALTER_TABLE_CLUSTER_BY_ON_PARTITIONED_TABLE_NOT_ALLOWED", message).with_sqlstate("42000"));
    }
    if let Some(unknown) = columns.iter().find(|name| {
        let first = name.split('.').next().unwrap_or(name);
        !table.schema().fields().iter().any(|field| field.name().eq_ignore_ascii_case(first))
    }) {
        return Err(no_column(unknown));
    }
    let operation = Operation::new("CLUSTER BY")
        .with("oldClusteringColumns", facts.clustering_columns.join(","))
        .with("newClusteringColumns", columns.join(","));
    Ok(Alteration { operation, clustering_columns: Some(columns), ..Alteration::default() })
}

fn needs_column_mapping(what: &str) -> Error {
    let code = format!("DELTA_UNSUPPORTED_{}", what.replace(' ', "_"));
    let message =
        format!("{what} needs column mapping, which Millstream reads but does not write: make a new table of the columns that stay");
    Error::invalid(code, message).with_sqlstate("0AKDC")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn properties_are_told_from_versions_and_constraints() {
        let set = set_properties(map(&[("a", "1")]), map(&[("b", "2"), ("delta.minWriterVersion", "5"), ("comment", "c")])).unwrap();
        assert_eq!((set.protocol, set.description), (Some((1, 5)), Some(Some("c".to_owned()))));
        assert!(set.properties.unwrap().contains_key("a"));
        let error = set_properties(map(&[]), map(&[("delta.constraints.x", "a > 1")])).unwrap_err();
        assert_eq!(error.code(), "DELTA_ADD_CONSTRAINTS");
        let unset = unset_properties(map(&[("a", "1"), ("b", "2")]), &["A".to_owned()]);
        assert_eq!(unset.properties.unwrap(), map(&[("b", "2")]));
    }

    #[test]
    fn constraints_go_only_if_they_are_there() {
        let place = Place::of_path("/t");
        let properties = map(&[("delta.constraints.positive", "a > 0")]);
        assert!(drop_constraint(properties.clone(), &place, "Positive", false).unwrap().is_some());
        assert!(drop_constraint(properties.clone(), &place, "other", true).unwrap().is_none());
        assert_eq!(drop_constraint(properties, &place, "other", false).unwrap_err().code(), "DELTA_CONSTRAINT_DOES_NOT_EXIST");
    }
}
