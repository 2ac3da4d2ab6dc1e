//! A client's session: settings, views, cached plans, artifacts and whatever else lives as long as it.

use std::any::{Any, TypeId};
use std::collections::HashMap;
use std::sync::Arc;

use async_trait::async_trait;
use datafusion::catalog::TableProvider;
use millstream_core::registry::{ReadRequest, SourceProvider};
use millstream_core::versioned::AsOf;
use millstream_core::{Error, Options, Result};
use millstream_engine::Session;
use millstream_engine::relation::{StreamRelation, TableRelation};
use parking_lot::{Mutex, RwLock};
use spark_connect_proto::{CommonInlineUserDefinedFunction, CommonInlineUserDefinedTableFunction, Relation, read};

use super::artifacts::Artifacts;
use super::catalog::{Stored, TableName, Warehouse, not_found};
use super::command::Registered;
use super::config::Confs;
use super::foreign::{self, Use};
use super::host::Host;
use super::modules::Modules;
use super::persisted::Persisted;
use crate::analyzer::{Analyzed, Leaf, Leaves, apart};
use crate::functions::Settings;
use crate::python::{DataSourceClass, PythonCommand, PythonProvider, PythonRuntime, Workers};
use crate::types::{COMMENT, schema_from_json};

/// Which session: sessions of different users never meet.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct SessionKey {
    /// The user, as the client names itself.
    pub user_id: String,
    /// The client's UUID for the session.
    pub session_id: String,
}

/// The temporary views that all sessions of a server share (`global_temp.v`), by name in lower case.
pub type GlobalViews = Arc<RwLock<HashMap<String, Leaf>>>;

/// A session. Shared by the operations and queries that run in it.
#[derive(Debug)]
pub struct ConnectSession {
    /// Who the session belongs to.
    pub key: SessionKey,
    /// Our own id of it, which a client checks in every answer.
    pub server_side_session_id: String,
    /// The process around us.
    pub host: Arc<dyn Host>,
    /// The engine: plans, runs and keeps this session's streaming queries.
    pub engine: Session,
    /// Its settings (`spark.conf`).
    pub confs: Confs,
    /// Artifacts: local relations under `cache/<hash>`, Python files.
    pub artifacts: Artifacts,
    views: RwLock<HashMap<String, Leaf>>,
    global_views: GlobalViews,
    remote: RwLock<HashMap<String, Analyzed>>,
    database: RwLock<String>,
    parts: Mutex<HashMap<TypeId, Arc<dyn Any + Send + Sync>>>,
}

impl ConnectSession {
    /// An empty session.
    ///
    /// # Errors
    /// Those of the engine's set-up.
    pub fn new(key: SessionKey, host: Arc<dyn Host>, global_views: GlobalViews) -> Result<Arc<Self>> {
        let confs = Confs::new(&host.warehouse(), &host.time_zone());
        Self::build(key, host, global_views, confs, Artifacts::default())
    }

    fn build(key: SessionKey, host: Arc<dyn Host>, global_views: GlobalViews, confs: Confs, artifacts: Artifacts) -> Result<Arc<Self>> {
        let engine = host.session()?;
        crate::analyzer::set_up(engine.context());
        Ok(Arc::new(ConnectSession {
            key,
            server_side_session_id: host.ids().next().to_string(),
            engine,
            host,
            confs,
            artifacts,
            views: RwLock::default(),
            global_views,
            remote: RwLock::default(),
            database: RwLock::new(DEFAULT_DATABASE.to_owned()),
            parts: Mutex::default(),
        }))
    }

    /// A session that begins with what this one has: settings, views, artifacts, the current database. Its queries and operations stay here.
    ///
    /// # Errors
    /// Those of the engine's set-up.
    pub fn duplicate(&self, session_id: String) -> Result<Arc<Self>> {
        let key = SessionKey { user_id: self.key.user_id.clone(), session_id };
        let copy = Self::build(key, self.host.clone(), self.global_views.clone(), self.confs.clone(), self.artifacts.clone())?;
        copy.views.write().clone_from(&self.views.read());
        copy.database.write().clone_from(&self.database.read());
        copy.part::<Registered>().copy_from(&self.part::<Registered>());
        Ok(copy)
    }

    /// What expressions are compiled for, from `spark.sql.ansi.enabled`, `spark.sql.session.timeZone`, `spark.sql.caseSensitive` and
    /// `spark.sql.timestampType`.
    pub fn settings(&self) -> Settings {
        self.confs.settings()
    }

    /// Resolves a plan.
    ///
    /// # Errors
    /// Spark's conditions of analysis.
    pub async fn analyze(&self, relation: &Relation) -> Result<Analyzed> {
        let relation = self.part::<Persisted>().used_in(relation).into_owned();
        self.analyze_as_written(&relation).await
    }

    /// The same without kept rows in the place of persisted frames.
    ///
    /// # Errors
    /// As [`ConnectSession::analyze`].
    pub async fn analyze_as_written(&self, relation: &Relation) -> Result<Analyzed> {
        crate::analyzer::analyze(relation, self, &self.settings(), self.engine.state()).await
    }

    /// Spark's current database: `default` at first.
    pub fn database(&self) -> String {
        self.database.read().clone()
    }

    /// Makes another database the current one. It is not looked for.
    pub fn set_database(&self, name: &str) {
        name.clone_into(&mut self.database.write());
    }

    /// A temporary view of this session.
    pub fn view(&self, name: &str) -> Option<Leaf> {
        self.views.read().get(&name.to_lowercase()).cloned()
    }

    /// Names a relation. An earlier view of that name is replaced.
    pub fn set_view(&self, name: &str, relation: Leaf) {
        self.views.write().insert(name.to_lowercase(), relation);
    }

    /// Forgets a view; says whether there was one.
    pub fn drop_view(&self, name: &str) -> bool {
        self.views.write().remove(&name.to_lowercase()).is_some()
    }

    /// The names of the temporary views, in order.
    pub fn view_names(&self) -> Vec<String> {
        sorted(self.views.read().keys())
    }

    /// The views of `global_temp`.
    pub fn global_views(&self) -> &GlobalViews {
        &self.global_views
    }

    /// Keeps an analyzed plan, such as the rows of a batch for `foreachBatch`, until [`ConnectSession::forget`]. Gives the id by which a
    /// client's `CachedRemoteRelation` names it.
    pub fn remember(&self, plan: Analyzed) -> String {
        let id = self.host.ids().next().to_string();
        self.remote.write().insert(id.clone(), plan);
        id
    }

    /// Forgets a plan kept by [`ConnectSession::remember`]; says whether there was one.
    pub fn forget(&self, relation_id: &str) -> bool {
        self.remote.write().remove(relation_id).is_some()
    }

    /// What a part of the service keeps for this session, made on first use.
    pub fn part<T: Default + Send + Sync + 'static>(&self) -> Arc<T> {
        let mut parts = self.parts.lock();
        let part = parts.entry(TypeId::of::<T>()).or_insert_with(|| Arc::new(T::default())).clone();
        // The map is keyed by the type, so the fallback is never reached.
        part.downcast().unwrap_or_default()
    }

    /// The class that the client has registered for a format.
    ///
    /// # Errors
    /// `PYTHON_FUNCTIONS_DISABLED`.
    pub(super) fn python_source(&self, format: &str) -> Result<Option<DataSourceClass>> {
        match self.part::<Registered>().data_source(format) {
            Some(registered) => DataSourceClass::of(&registered, self.python()?).map(Some),
            None => Ok(None),
        }
    }

    /// A table with the comments that its columns have.
    async fn with_comments(&self, leaf: Leaf, stored: &Stored, parts: &[String]) -> Result<Leaf> {
        let Leaf::Table(provider) = &leaf else { return Ok(leaf) };
        let Some(tables) = self.engine.registry().versioned(&stored.format) else { return Ok(leaf) };
        let Some(table) = tables.open(stored.location(), &AsOf::Newest).await? else { return Ok(leaf) };
        let known = schema_from_json(&table.facts().schema)?;
        let mut analyzed = apart::scan(provider.clone(), parts)?;
        for column in &mut analyzed.columns {
            if let Some(comment) = known.field_with_name(&column.name).ok().and_then(|field| field.metadata().get(COMMENT)) {
                column.metadata.insert(COMMENT.to_owned(), comment.clone());
            }
        }
        Ok(Leaf::Analyzed(analyzed))
    }

    async fn read(&self, format: &str, request: ReadRequest, streaming: bool, name: Option<String>) -> Result<Leaf> {
        let provider: Arc<dyn TableProvider> = if streaming {
            let relation = self.engine.stream_relation(format, request).await;
            let mut relation = relation.map_err(|error| foreign::refused(format, Use::ReadStream, error))?;
            relation.name = name;
            Arc::new(relation)
        } else {
            let relation = self.engine.table_relation(format, request).await;
            Arc::new(relation.map_err(|error| foreign::refused(format, Use::Read, error))?)
        };
        Ok(Leaf::Table(provider))
    }
}

/// What a registered class reads.
async fn python_leaf(class: DataSourceClass, mut request: ReadRequest, streaming: bool, name: Option<String>) -> Result<Leaf> {
    let provider = Arc::new(PythonProvider::new(class));
    let schema = provider.schema(&request, streaming).await?;
    request.schema = Some(schema.clone());
    let relation: Arc<dyn TableProvider> = if streaming {
        Arc::new(StreamRelation { provider, request, schema, name })
    } else {
        Arc::new(TableRelation { table: provider.table(&request).await?, label: "python".to_owned(), size_bytes: 0 })
    };
    Ok(Leaf::Table(relation))
}

/// The database that always exists.
pub(super) const DEFAULT_DATABASE: &str = "default";

/// The database of the views that sessions share.
pub(super) const GLOBAL_TEMP: &str = "global_temp";

fn sorted<'a>(names: impl Iterator<Item = &'a String>) -> Vec<String> {
    let mut names: Vec<String> = names.cloned().collect();
    names.sort();
    names
}

#[async_trait]
impl Leaves for ConnectSession {
    async fn named(&self, parts: &[String], streaming: bool, options: &Options) -> Result<Leaf> {
        match parts {
            [view] => {
                if let Some(leaf) = self.view(view) {
                    return Ok(leaf);
                }
            }
            [database, view] if database.eq_ignore_ascii_case(GLOBAL_TEMP) => {
                return self.global_views.read().get(&view.to_lowercase()).cloned().ok_or_else(|| not_found(parts));
            }
            // Files called by their format and path: parquet.`/data/x`.
            [format, path] if self.engine.registry().source(format).is_ok() && path.contains('/') => {
                let request = ReadRequest { schema: None, paths: vec![path.clone()], options: options.clone() };
                return self.read(format, request, streaming, None).await;
            }
            _ => {}
        }
        let name = TableName::of(self, parts).ok_or_else(|| not_found(parts))?;
        let stored = Warehouse::open(self.host.as_ref())?.table(&name).await?.ok_or_else(|| not_found(parts))?;
        match &stored.view {
            Some(text) => {
                let query = crate::sql::parse::relation(text, &HashMap::new(), &[])?;
                match &stored.view_database {
                    Some(database) if *database != self.database() => {
                        let there = self.duplicate(self.key.session_id.clone())?;
                        there.set_database(database);
                        there.analyze(&query).await.map(Leaf::Analyzed)
                    }
                    _ => Ok(Leaf::View(query)),
                }
            }
            None => {
                let mut request = stored.request(options)?;
                if request.options.get("timeZone").is_none() {
                    request.options.set("timeZone", self.confs.time_zone());
                }
                let leaf = self.read(&stored.format, request, streaming, None).await?;
                if stored.has_comments && !streaming { self.with_comments(leaf, &stored, parts).await } else { Ok(leaf) }
            }
        }
    }

    async fn source(&self, source: &read::DataSource, streaming: bool) -> Result<Leaf> {
        let format = source.format.clone().filter(|format| !format.is_empty()).unwrap_or_else(|| self.confs.default_source());
        let request = super::streaming::request(&self.confs, &format, source, streaming)?;
        if let Some(class) = self.python_source(&format)? {
            return python_leaf(class, request, streaming, source.source_name.clone()).await;
        }
        self.read(&format, request, streaming, source.source_name.clone()).await
    }

    async fn remote(&self, relation_id: &str) -> Result<Leaf> {
        self.remote.read().get(relation_id).cloned().map(Leaf::Analyzed).ok_or_else(|| {
            Error::invalid(
                "DATAFRAME_NOT_FOUND",
                format!("no relation {relation_id} is kept in this session: it was released, or belongs to another session"),
            )
            .with_sqlstate("42704")
        })
    }

    fn python(&self) -> Result<PythonRuntime> {
        let python = PythonCommand::choose(&self.host.python(), self.confs.get("spark.sql.execution.pyspark.python"))?;
        let files = self.part::<Modules>().written(self)?;
        Ok(PythonRuntime::new(self.part::<Workers>(), python, self.host.ids(), files, |name| self.confs.get(name)))
    }

    fn function(&self, name: &str) -> Option<CommonInlineUserDefinedFunction> {
        self.part::<Registered>().function(name)
    }

    fn table_function(&self, name: &str) -> Option<CommonInlineUserDefinedTableFunction> {
        self.part::<Registered>().table_function(name)
    }

    async fn extension(&self, any: &prost_types::Any) -> Result<Leaf> {
        super::delta::leaf(self, any).await.map(Leaf::View)
    }

    async fn cached(&self, hash: &str) -> Result<Arc<[u8]>> {
        self.artifacts.get(&format!("cache/{hash}")).ok_or_else(|| {
            Error::invalid(
                "LOCAL_RELATION_NOT_FOUND",
                format!("the local relation {hash} is not in this session: send it again as an artifact"),
            )
            .with_sqlstate("42704")
        })
    }
}
