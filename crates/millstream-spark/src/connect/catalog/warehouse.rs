//! The tables under the warehouse folder: `<root>/<table>` for the schema `default`, `<root>/<schema>.db/<table>` for others.
//!
//! A folder with a Delta log is a table. What else has to be known of a table (another format or place, the text of a view) is in a file
//! beside its data.

use std::collections::BTreeMap;

use arrow::datatypes::{Schema, SchemaRef};
use futures::TryStreamExt;
use millstream_core::registry::ReadRequest;
use millstream_core::versioned::AsOf;
use millstream_core::{Error, ErrorKind, Options, Result};
use millstream_engine::query::CheckpointLocation;
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt};
use serde::{Deserialize, Serialize};

use super::name::{CATALOG, TableName, check_word};
use crate::connect::host::Host;
use crate::connect::session::{ConnectSession, DEFAULT_DATABASE, GLOBAL_TEMP};
use crate::types::{schema_from_json, schema_to_json};

/// The file of what is known of a table.
const RECORD: &str = "_millstream_table.json";

/// The file that makes a folder a schema.
const SCHEMA: &str = "_millstream_schema.json";

/// The metadata key of columns that `*` leaves out.
const HIDDEN: &str = "__metadata_col";

/// What is known of a table or view.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(in crate::connect) struct Stored {
    /// The format of its data.
    pub(in crate::connect) format: String,
    /// The URL of its data, if that is elsewhere than the table's own folder.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::connect) external: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(in crate::connect) partition_by: Vec<String>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(in crate::connect) options: BTreeMap<String, String>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(in crate::connect) properties: BTreeMap<String, String>,
    /// The schema as Spark's JSON, where the data does not say it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::connect) schema: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::connect) comment: Option<String>,
    /// The query of a view.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::connect) view: Option<String>,
    /// The schema in which names in a view's query belong; that of the reader without it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::connect) view_database: Option<String>,
    /// Whether columns have comments, where the data says which.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(in crate::connect) has_comments: bool,
    /// The columns that a Delta table is clustered by.
    #[serde(skip)]
    pub(in crate::connect) clustering: Vec<String>,
    /// The URL of the table's own folder.
    #[serde(skip)]
    pub(in crate::connect) folder: String,
}

impl Stored {
    /// A table of a format.
    pub(in crate::connect) fn of_format(format: &str) -> Self {
        Stored { format: format.to_lowercase(), ..Stored::default() }
    }

    /// Keeps a schema, for formats whose data does not say it.
    pub(in crate::connect) fn with_schema(mut self, schema: &Schema) -> Self {
        self.schema = Some(schema_to_json(schema));
        self
    }

    /// The URL of its data.
    pub(in crate::connect) fn location(&self) -> &str {
        self.external.as_deref().unwrap_or(&self.folder)
    }

    /// Its columns, without those that a reader adds about its files.
    ///
    /// # Errors
    /// Those of opening it.
    pub(in crate::connect) async fn columns(&self, session: &ConnectSession) -> Result<Schema> {
        let relation = session.engine.table_relation(&self.format, self.request(&Options::new())?).await?;
        let schema = relation.table.schema();
        let own = schema.fields().iter().filter(|field| !field.metadata().contains_key(HIDDEN));
        Ok(Schema::new(own.cloned().collect::<Vec<_>>()))
    }

    /// The same with what the table itself says it is, where its format keeps that with the data.
    ///
    /// # Errors
    /// Those of opening it.
    pub(in crate::connect) async fn with_own_properties(mut self, session: &ConnectSession) -> Result<Self> {
        let Some(tables) = session.engine.registry().versioned(&self.format) else { return Ok(self) };
        let Some(table) = tables.open(self.location(), &AsOf::Newest).await? else { return Ok(self) };
        let facts = table.facts();
        self.properties.clone_from(&facts.properties);
        self.properties.insert("delta.minReaderVersion".to_owned(), facts.protocol.0.to_string());
        self.properties.insert("delta.minWriterVersion".to_owned(), facts.protocol.1.to_string());
        for feature in facts.features.iter().filter(|_| facts.protocol.1 >= 7) {
            self.properties.insert(format!("delta.feature.{feature}"), "supported".to_owned());
        }
        self.partition_by.clone_from(&facts.partition_columns);
        self.clustering.clone_from(&facts.clustering_columns);
        if facts.description.is_some() {
            self.comment.clone_from(&facts.description);
        }
        Ok(self)
    }

    /// How it is read, with further options.
    ///
    /// # Errors
    /// Those of a record that was damaged.
    pub(in crate::connect) fn request(&self, options: &Options) -> Result<ReadRequest> {
        let mut all: Options = self.options.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        for (name, value) in options.iter() {
            all.set(name, value);
        }
        let schema: Option<SchemaRef> = self.schema.as_deref().map(schema_from_json).transpose()?.map(Into::into);
        Ok(ReadRequest { schema, paths: vec![self.location().to_owned()], options: all })
    }
}

/// The tables of a server.
#[derive(Debug)]
pub(in crate::connect) struct Warehouse {
    root: CheckpointLocation,
}

impl Warehouse {
    /// The warehouse of a host.
    ///
    /// # Errors
    /// `INVALID_LOCATION`.
    pub(in crate::connect) fn open(host: &dyn Host) -> Result<Self> {
        Ok(Warehouse { root: host.open(&host.warehouse())? })
    }

    fn unavailable(&self, what: &str, error: object_store::Error) -> Error {
        Error::new(ErrorKind::StoreUnavailable, "STORE_UNAVAILABLE", format!("cannot {what} below {}", self.root.url)).caused_by(error)
    }

    fn store(&self) -> &dyn ObjectStore {
        self.root.store.as_ref()
    }

    /// The path of a schema's tables.
    fn schema_path(&self, database: &str) -> Path {
        match database {
            DEFAULT_DATABASE => self.root.root.clone(),
            other => self.root.root.clone().join(format!("{other}.db")),
        }
    }

    /// The URL of a schema's tables.
    pub(in crate::connect) fn schema_url(&self, database: &str) -> String {
        let root = self.root.url.as_str().trim_end_matches('/');
        match database {
            DEFAULT_DATABASE => root.to_owned(),
            other => format!("{root}/{other}.db"),
        }
    }

    /// The same as Spark shows it: `file:/data`.
    pub(in crate::connect) fn shown_url(&self, database: &str) -> String {
        self.schema_url(database).replacen("file:///", "file:/", 1)
    }

    /// The URL of a table's own folder.
    pub(in crate::connect) fn folder(&self, name: &TableName) -> String {
        format!("{}/{}", self.schema_url(&name.database), name.table)
    }

    fn path(&self, name: &TableName) -> Path {
        self.schema_path(&name.database).join(name.table.as_str())
    }

    /// The schemas, in order.
    ///
    /// # Errors
    /// `STORE_UNAVAILABLE`.
    pub(in crate::connect) async fn databases(&self) -> Result<Vec<String>> {
        let mut found = vec![DEFAULT_DATABASE.to_owned()];
        for folder in self.folders(&self.root.root).await? {
            if let Some(name) = folder.strip_suffix(".db")
                && self.exists(&self.schema_path(name).join(SCHEMA)).await?
            {
                found.push(name.to_owned());
            }
        }
        found.sort();
        Ok(found)
    }

    /// Whether there is a schema.
    ///
    /// # Errors
    /// `STORE_UNAVAILABLE`.
    pub(in crate::connect) async fn has_database(&self, name: &str) -> Result<bool> {
        if name == DEFAULT_DATABASE {
            return Ok(true);
        }
        if check_word(name).is_err() {
            return Ok(false);
        }
        self.exists(&self.schema_path(name).join(SCHEMA)).await
    }

    /// # Errors
    /// `SCHEMA_NOT_FOUND`.
    pub(in crate::connect) async fn require_database(&self, name: &str) -> Result<()> {
        match self.has_database(name).await? {
            true => Ok(()),
            false => Err(schema_not_found(name)),
        }
    }

    /// Makes a schema; says whether it is new.
    ///
    /// # Errors
    /// `INVALID_SCHEMA_OR_RELATION_NAME`, `STORE_UNAVAILABLE`.
    pub(in crate::connect) async fn create_database(&self, name: &str) -> Result<bool> {
        check_word(name)?;
        if name == GLOBAL_TEMP || self.has_database(name).await? {
            return Ok(false);
        }
        let path = self.schema_path(name).join(SCHEMA);
        self.store().put(&path, "{}\n".into()).await.map_err(|error| self.unavailable("make a schema", error))?;
        Ok(true)
    }

    /// Removes a schema with all its tables.
    ///
    /// # Errors
    /// `STORE_UNAVAILABLE`.
    pub(in crate::connect) async fn drop_database(&self, name: &str) -> Result<()> {
        self.remove(&self.schema_path(name)).await
    }

    /// The tables and views of a schema, in order.
    ///
    /// # Errors
    /// `STORE_UNAVAILABLE`.
    pub(in crate::connect) async fn tables(&self, database: &str) -> Result<Vec<(TableName, Stored)>> {
        let mut found = Vec::new();
        let mut folders = self.folders(&self.schema_path(database)).await?;
        folders.sort();
        for folder in folders.into_iter().filter(|folder| check_word(folder).is_ok()) {
            let name = TableName { database: database.to_owned(), table: folder };
            if let Some(stored) = self.table(&name).await? {
                found.push((name, stored));
            }
        }
        Ok(found)
    }

    /// A table or view.
    ///
    /// # Errors
    /// `STORE_UNAVAILABLE`.
    pub(in crate::connect) async fn table(&self, name: &TableName) -> Result<Option<Stored>> {
        if check_word(&name.table).is_err() || (name.database != DEFAULT_DATABASE && check_word(&name.database).is_err()) {
            return Ok(None);
        }
        let path = self.path(name);
        let folder = self.folder(name);
        match self.store().get(&path.clone().join(RECORD)).await {
            Ok(found) => {
                let bytes = found.bytes().await.map_err(|error| self.unavailable("read a table", error))?;
                let stored: Stored = serde_json::from_slice(&bytes)
                    .map_err(|error| Error::internal(format!("the record of table {name} is damaged")).caused_by(error))?;
                Ok(Some(Stored { folder, ..stored }))
            }
            Err(object_store::Error::NotFound { .. }) => {
                let has_log = self.any_below(&path.join("_delta_log")).await?;
                Ok(has_log.then(|| Stored { folder, ..Stored::of_format("delta") }))
            }
            Err(error) => Err(self.unavailable("read a table", error)),
        }
    }

    /// Keeps what is known of a table, over what was known before.
    ///
    /// # Errors
    /// `STORE_UNAVAILABLE`.
    pub(in crate::connect) async fn record(&self, name: &TableName, stored: &Stored) -> Result<()> {
        let bytes = serde_json::to_vec_pretty(stored).map_err(|error| Error::internal("a table does not serialise").caused_by(error))?;
        let path = self.path(name).join(RECORD);
        self.store().put(&path, bytes.into()).await.map(drop).map_err(|error| self.unavailable("record a table", error))
    }

    /// Removes a table with its data, unless that is elsewhere.
    ///
    /// # Errors
    /// `STORE_UNAVAILABLE`.
    pub(in crate::connect) async fn drop_table(&self, name: &TableName) -> Result<()> {
        self.remove(&self.path(name)).await
    }

    async fn exists(&self, path: &Path) -> Result<bool> {
        match self.store().head(path).await {
            Ok(_) => Ok(true),
            Err(object_store::Error::NotFound { .. }) => Ok(false),
            Err(error) => Err(self.unavailable("look for a table", error)),
        }
    }

    async fn any_below(&self, path: &Path) -> Result<bool> {
        let mut objects = self.store().list(Some(path));
        objects.try_next().await.map(|first| first.is_some()).map_err(|error| self.unavailable("look for a table", error))
    }

    async fn folders(&self, path: &Path) -> Result<Vec<String>> {
        let listed = self.store().list_with_delimiter(Some(path)).await.map_err(|error| self.unavailable("list tables", error))?;
        Ok(listed.common_prefixes.iter().filter_map(|path| path.filename().map(str::to_owned)).collect())
    }

    async fn remove(&self, path: &Path) -> Result<()> {
        let objects: Vec<_> = self.store().list(Some(path)).try_collect().await.map_err(|error| self.unavailable("list a table", error))?;
        // The log and the record go last: until then the table is whole, or is tried again.
        let (last, first): (Vec<_>, Vec<_>) = objects
            .into_iter()
            .partition(|object| object.location.filename() == Some(RECORD) || object.location.filename() == Some(SCHEMA));
        for object in first.into_iter().chain(last) {
            match self.store().delete(&object.location).await {
                Ok(()) | Err(object_store::Error::NotFound { .. }) => {}
                Err(error) => return Err(self.unavailable("remove a table", error)),
            }
        }
        Ok(())
    }
}

/// There is no schema of that name.
pub(in crate::connect) fn schema_not_found(name: &str) -> Error {
    let message =
        format!("The schema `{CATALOG}`.`{name}` cannot be found. Verify the spelling and correctness of the schema and catalog.");
    Error::invalid("SCHEMA_NOT_FOUND", message).with_sqlstate("42704")
}

/// A table of that name exists.
pub(in crate::connect) fn table_exists(name: &TableName) -> Error {
    let message = format!("Cannot create table or view {name} because it already exists: choose a different name, or drop it first.");
    Error::invalid("TABLE_OR_VIEW_ALREADY_EXISTS", message).with_sqlstate("42P07")
}
