//! Makes the tables of a graph before its flows run: creates them, gives them new columns and properties, empties those that begin anew.
//!
//! What is to be done is found out for all tables first, so that a table that cannot become what was asked for leaves the others alone.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::datatypes::{DataType, Field, Schema};
use millstream_core::versioned::{self, Alteration, AsOf, Change, Operation, Removes, VersionedTable};
use millstream_core::{Error, Result};

use crate::connect::catalog::{NewTable, Stored, TableName, Warehouse, create_table, has_comments};
use crate::connect::change::{Constraints, write};
use crate::connect::command::{clear, no_rows};
use crate::connect::errors::text;
use crate::connect::session::ConnectSession;
use crate::pipelines::schema::{arranged, merged, nullable, same_columns};
use crate::types::{schema_from_json, schema_to_json};

/// The format of tables that ask for none.
pub(super) const DEFAULT_FORMAT: &str = "delta";

/// The format of tables whose columns Delta cannot store: names with blanks, values without a type.
const FALLBACK_FORMAT: &str = "parquet";

/// A table as the graph wants it.
#[derive(Clone, Debug)]
pub(super) struct Wanted {
    pub(super) name: TableName,
    pub(super) schema: Schema,
    /// The format that was asked for.
    pub(super) format: Option<String>,
    pub(super) partition_by: Vec<String>,
    pub(super) cluster_by: Vec<String>,
    pub(super) properties: BTreeMap<String, String>,
    pub(super) comment: Option<String>,
    pub(super) rows: RowsThere,
}

/// What becomes of a table that is there already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RowsThere {
    /// Its rows stay, and so do its columns; new ones are added.
    Stay,
    /// Its rows go, and its columns become those that are wanted.
    Go,
    /// Nothing.
    Untouched,
}

/// What is to be done about one table.
#[derive(Debug)]
pub(super) struct Plan {
    wanted: Wanted,
    there: There,
}

#[derive(Debug)]
enum There {
    Nothing,
    /// A table that cannot become what is wanted, and makes room.
    Unfit,
    Versioned(Arc<dyn VersionedTable>),
    Files(Box<Stored>),
}

/// Finds out what is to be done about a table.
///
/// # Errors
/// `TableMaterializationException` with the condition in its message: columns that do not fit, other partitions, something else under the
/// name.
pub(super) async fn plan(session: &Arc<ConnectSession>, wanted: Wanted) -> Result<Plan> {
    let name = wanted.name.to_string();
    planned(session, wanted).await.map_err(|error| materialization(&name, &error))
}

/// Whether Delta stores columns of that name and type.
fn is_storable(field: &Field) -> bool {
    let named = !field.name().contains([' ', ',', ';', '{', '}', '(', ')', '\n', '\t', '=']);
    named
        && match field.data_type() {
            DataType::Null => false,
            DataType::Struct(fields) => fields.iter().all(|field| is_storable(field)),
            DataType::List(element) => is_storable(element),
            DataType::Map(entries, _) => is_storable(entries),
            _ => true,
        }
}

/// An error of making a table.
fn materialization(table: &str, error: &Error) -> Error {
    Error::new(error.kind(), "TableMaterializationException", format!("table {table} cannot be made: {}", text(error)))
}

async fn planned(session: &Arc<ConnectSession>, mut wanted: Wanted) -> Result<Plan> {
    wanted.schema = nullable(&wanted.schema);
    let warehouse = Warehouse::open(session.host.as_ref())?;
    warehouse.require_database(&wanted.name.database).await?;
    let is_storable = wanted.schema.fields().iter().all(|field| is_storable(field));
    let Some(stored) = warehouse.table(&wanted.name).await? else {
        wanted.format.get_or_insert_with(|| if is_storable { DEFAULT_FORMAT } else { FALLBACK_FORMAT }.to_owned());
        return Ok(Plan { wanted, there: There::Nothing });
    };
    if stored.view.is_some() {
        let message = format!("{} is a view, and the pipeline wants a table of that name: drop the view", wanted.name);
        return Err(Error::invalid("EXPECT_TABLE_NOT_VIEW.NO_ALTERNATIVE", message).with_sqlstate("42809"));
    }
    if wanted.format.is_none() && stored.format == DEFAULT_FORMAT && !is_storable && wanted.rows == RowsThere::Go {
        wanted.format = Some(FALLBACK_FORMAT.to_owned());
        return Ok(Plan { wanted, there: There::Unfit });
    }
    if let Some(format) = wanted.format.as_ref().filter(|format| **format != stored.format) {
        let message =
            format!("{} is of format {}, and the pipeline wants it to be of format {format}: drop it", wanted.name, stored.format);
        return Err(Error::invalid("TABLE_OR_VIEW_ALREADY_EXISTS", message).with_sqlstate("42P07"));
    }
    let there = match session.engine.registry().versioned(&stored.format) {
        None => There::Files(Box::new(stored)),
        Some(tables) => match tables.open(stored.location(), &AsOf::Newest).await? {
            None => There::Nothing,
            Some(table) => There::Versioned(table),
        },
    };
    let (columns, partition_by, cluster_by) = match &there {
        There::Nothing | There::Unfit => return Ok(Plan { wanted, there }),
        There::Files(stored) => (stored.columns(session).await?, stored.partition_by.clone(), stored.clustering.clone()),
        There::Versioned(table) => {
            let facts = table.facts();
            (schema_from_json(&facts.schema)?, facts.partition_columns.clone(), facts.clustering_columns.clone())
        }
    };
    if wanted.rows == RowsThere::Untouched {
        return Ok(Plan { wanted, there });
    }
    let same = |one: &[String], other: &[String]| {
        one.len() == other.len() && one.iter().zip(other).all(|(one, other)| one.eq_ignore_ascii_case(other))
    };
    if !same(&partition_by, &wanted.partition_by) || !same(&cluster_by, &wanted.cluster_by) {
        let message = format!(
            "the columns by which {} is arranged cannot change from {partition_by:?}{cluster_by:?} to {:?}{:?}: drop it, and let the pipeline make \
             it again",
            wanted.name, wanted.partition_by, wanted.cluster_by
        );
        return Err(Error::invalid("CANNOT_UPDATE_PARTITION_COLUMNS", message).with_sqlstate("42000"));
    }
    wanted.schema = match wanted.rows {
        RowsThere::Stay => merged(&columns, &wanted.schema)?,
        RowsThere::Go | RowsThere::Untouched => arranged(&columns, &wanted.schema),
    };
    Ok(Plan { wanted, there })
}

impl Plan {
    /// Does what is to be done.
    ///
    /// # Errors
    /// Those of the catalog and of the table.
    pub(super) async fn apply(self, session: &Arc<ConnectSession>) -> Result<()> {
        let name = self.wanted.name.to_string();
        match &self.there {
            There::Nothing => create(session, self.wanted).await,
            There::Unfit => match Warehouse::open(session.host.as_ref())?.drop_table(&self.wanted.name).await {
                Ok(()) => create(session, self.wanted).await,
                Err(error) => Err(error),
            },
            _ if self.wanted.rows == RowsThere::Untouched => Ok(()),
            There::Versioned(table) => match change(session, &self.wanted, table).await {
                Ok(()) => note_comments(session, &self.wanted).await,
                Err(error) => Err(error),
            },
            There::Files(stored) => change_files(session, &self.wanted, stored).await,
        }
        .map_err(|error| materialization(&name, &error))
    }
}

async fn create(session: &Arc<ConnectSession>, wanted: Wanted) -> Result<()> {
    let Wanted { name, schema, format, partition_by, cluster_by, properties, comment, .. } = wanted;
    let schema = Some(schema);
    let new = NewTable { format, schema, partition_by, clustering: cluster_by, properties, comment, ..NewTable::default() };
    create_table(session, &name, new).await.map(drop)
}

async fn change(session: &Arc<ConnectSession>, wanted: &Wanted, table: &Arc<dyn VersionedTable>) -> Result<()> {
    let facts = table.facts();
    let mut properties = facts.properties.clone();
    properties.extend(wanted.properties.clone());
    let description = wanted.comment.clone().or_else(|| facts.description.clone());
    let known = schema_from_json(&facts.schema)?;
    if wanted.rows == RowsThere::Go {
        let operation = Operation::new("CREATE OR REPLACE TABLE").with("isManaged", "true");
        let replacement = versioned::NewTable {
            schema: schema_to_json(&wanted.schema),
            partition_columns: facts.partition_columns.clone(),
            clustering_columns: facts.clustering_columns.clone(),
            properties,
            description,
            operation: operation.clone(),
        };
        let change = Change {
            operation,
            removes: Removes::Everything,
            replacement: Some(replacement),
            checked: Constraints::features(),
            ..Change::default()
        };
        return write(session, no_rows(&wanted.schema)?, table.change(change).await?).await.map(drop);
    }
    let schema =
        (!same_columns(&known, &wanted.schema) || comments(&known) != comments(&wanted.schema)).then(|| schema_to_json(&wanted.schema));
    let alteration = Alteration {
        operation: Operation::new("SET TBLPROPERTIES").with("properties", serde_json::json!(wanted.properties).to_string()),
        schema,
        properties: (properties != facts.properties).then_some(properties),
        description: (description != facts.description).then_some(description),
        ..Alteration::default()
    };
    if alteration.schema.is_none() && alteration.properties.is_none() && alteration.description.is_none() {
        return Ok(());
    }
    table.alter(alteration).await.map(drop)
}

/// Lets readers know that there are comments.
async fn note_comments(session: &Arc<ConnectSession>, wanted: &Wanted) -> Result<()> {
    let warehouse = Warehouse::open(session.host.as_ref())?;
    match warehouse.table(&wanted.name).await? {
        Some(stored) if !stored.has_comments && has_comments(&wanted.schema) => {
            warehouse.record(&wanted.name, &Stored { has_comments: true, ..stored }).await
        }
        _ => Ok(()),
    }
}

fn comments(schema: &Schema) -> Vec<Option<&String>> {
    schema.fields().iter().map(|field| field.metadata().get(crate::types::COMMENT)).collect()
}

async fn change_files(session: &Arc<ConnectSession>, wanted: &Wanted, stored: &Stored) -> Result<()> {
    if wanted.rows == RowsThere::Go {
        clear(session, stored.location()).await?;
    }
    let mut changed = stored.clone().with_schema(&wanted.schema);
    changed.properties.extend(wanted.properties.clone());
    if wanted.comment.is_some() {
        changed.comment.clone_from(&wanted.comment);
    }
    match changed == *stored {
        true => Ok(()),
        false => Warehouse::open(session.host.as_ref())?.record(&wanted.name, &changed).await,
    }
}

/// Records a view in the catalog.
///
/// # Errors
/// `TABLE_OR_VIEW_ALREADY_EXISTS` where a table has the name.
pub(super) async fn record_view(
    session: &Arc<ConnectSession>,
    name: &TableName,
    text: &str,
    comment: Option<&String>,
    properties: &BTreeMap<String, String>,
) -> Result<()> {
    let warehouse = Warehouse::open(session.host.as_ref())?;
    warehouse.require_database(&name.database).await?;
    if warehouse.table(name).await?.is_some_and(|stored| stored.view.is_none()) {
        return Err(crate::connect::catalog::table_exists(name));
    }
    let stored = Stored {
        view: Some(text.to_owned()),
        view_database: Some(name.database.clone()),
        comment: comment.cloned(),
        properties: properties.clone(),
        ..Stored::of_format("view")
    };
    warehouse.record(name, &stored).await
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::parse_schema;

    #[test]
    fn names_and_types_that_delta_does_not_store() {
        for (ddl, expected) in [
            ("a INT, s STRUCT<x: ARRAY<INT>>, m MAP<STRING, INT>", true),
            ("`a b` INT", false),
            ("a VOID", false),
            ("s STRUCT<x: ARRAY<VOID>>", false),
        ] {
            assert_eq!(parse_schema(ddl).unwrap().fields().iter().all(|field| is_storable(field)), expected, "{ddl}");
        }
    }
}
