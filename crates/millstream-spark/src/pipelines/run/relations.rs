//! What the relations of a query are to the analyzer: tables of the pipeline, other stored tables, files and views.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use async_trait::async_trait;
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder};
use futures::future::BoxFuture;
use millstream_core::registry::ReadRequest;
use millstream_core::{Error, Options, Result};
use millstream_engine::from_datafusion;
use millstream_engine::relation::TableRelation;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use spark_connect_proto::read;

use super::Pipeline;
use super::place::directory;
use crate::analyzer::{Analyzed, Attribute, Leaf, Leaves, analyze, apart};
use crate::connect::{Confs, read_request};
use crate::functions;
use crate::pipelines::declared;
use crate::pipelines::graph::{Dataset, Input, ViewQuery};
use crate::pipelines::name::TableName;
use crate::pipelines::parser::{DatasetKind, Expectation, OnViolation, Settings};
use crate::python::PythonRuntime;
use crate::sql::{Argument, Diagnostic, LEAF, PreparedQuery, Relation, RelationSource, Tables, closest, no_client};
use crate::types::{parse_schema, schema_from_json, schema_to_json};

/// Plans the queries of a pipeline.
pub(super) struct Lowering<'a> {
    pipeline: &'a Pipeline,
    /// What is known of the pipeline's tables before they exist; with `None` they are read as they are.
    declared: Option<&'a BTreeMap<usize, SchemaRef>>,
    /// The tables that were read, for telling whether anything changed. `None` stands for what cannot be compared.
    read: Mutex<Vec<Option<TableRelation>>>,
}

/// The schema of files, as it was when the flow first ran: a stream's schema must not change because a file did.
#[derive(Serialize, Deserialize)]
struct InferredSchema {
    relation: String,
    schema: String,
}

/// What the leaves of one query's plan stand for.
struct QueryLeaves<'a> {
    lowering: &'a Lowering<'a>,
    /// What is remembered of files' schemas is found under this name and the number of the relation.
    key: &'a str,
    query: &'a PreparedQuery,
    inputs: &'a [Input],
    confs: &'a Confs,
    /// The fault of a relation, with its place.
    fault: Mutex<Option<Diagnostic>>,
}

impl QueryLeaves<'_> {
    async fn leaf(&self, name: Option<&str>) -> Result<Leaf> {
        let found = self.query.relation_of(name).and_then(|(number, relation)| Some((number, relation, self.inputs.get(number)?)));
        let Some((number, relation, input)) = found else { return Err(Error::internal("a query reads something that it does not name")) };
        let leaf = self.lowering.leaf(&format!("{}/{number}", self.key), relation, input, self.confs).await;
        leaf.map_err(|fault| {
            let error = Error::from(fault.clone());
            self.fault.lock().get_or_insert(fault);
            error
        })
    }
}

#[async_trait]
impl Leaves for QueryLeaves<'_> {
    async fn named(&self, _parts: &[String], _streaming: bool, options: &Options) -> Result<Leaf> {
        self.leaf(options.get(LEAF)).await
    }

    async fn source(&self, source: &read::DataSource, _streaming: bool) -> Result<Leaf> {
        self.leaf(source.options.get(LEAF).map(String::as_str)).await
    }

    async fn remote(&self, _relation_id: &str) -> Result<Leaf> {
        Err(no_client("a plan that was kept"))
    }

    async fn cached(&self, _hash: &str) -> Result<Arc<[u8]>> {
        Err(no_client("an artifact"))
    }

    fn python(&self) -> Result<PythonRuntime> {
        Err(no_client("Python"))
    }
}

/// What a definition has set, over Spark's defaults; times are told in UTC without a setting.
fn confs(settings: &Settings) -> Result<Confs> {
    let confs = Confs::new("", "UTC");
    for (key, value) in &settings.configuration {
        confs.set(key, value)?;
    }
    Ok(confs)
}

impl<'a> Lowering<'a> {
    /// Plans against declared schemas, touching no table of the pipeline.
    pub(super) fn declared(pipeline: &'a Pipeline, schemas: &'a BTreeMap<usize, SchemaRef>) -> Self {
        Lowering { pipeline, declared: Some(schemas), read: Mutex::default() }
    }

    /// Plans against the tables as they are.
    pub(super) fn live(pipeline: &'a Pipeline) -> Self {
        Lowering { pipeline, declared: None, read: Mutex::default() }
    }

    /// The tables that the plans read so far.
    pub(super) fn tables_read(self) -> Vec<Option<TableRelation>> {
        self.read.into_inner()
    }

    /// Plans a query. `key` is whose query it is, which names what is remembered of files' schemas.
    pub(super) fn plan<'b>(
        &'b self,
        key: &'b str,
        query: &'b PreparedQuery,
        inputs: &'b [Input],
        settings: &'b Settings,
    ) -> BoxFuture<'b, Result<Analyzed, Diagnostic>> {
        Box::pin(async move {
            let confs = confs(settings).map_err(|error| Diagnostic::of(&query.position, &error))?;
            let leaves = QueryLeaves { lowering: self, key, query, inputs, confs: &confs, fault: Mutex::default() };
            let analyzed = analyze(&query.plan, &leaves, &confs.settings(), self.pipeline.session.state()).await;
            let analyzed = analyzed.map_err(|error| leaves.fault.lock().take().unwrap_or_else(|| query.text.located(&error)))?;
            Ok(analyzed.stored())
        })
    }

    /// The condition of an expectation over columns.
    pub(super) fn condition(&self, expectation: &Expectation, columns: &[Attribute], settings: &Settings) -> Result<Expr, Diagnostic> {
        let resolve = || {
            let (settings, what) = (confs(settings)?.settings(), format!("expectation '{}'", expectation.name));
            self.resolved(expectation, columns, &settings, &what)
        };
        resolve().map_err(|error| expectation.text.located(&error))
    }

    fn resolved(&self, expectation: &Expectation, columns: &[Attribute], settings: &functions::Settings, what: &str) -> Result<Expr> {
        apart::condition(&expectation.condition, columns, what, &Tables::default(), settings, self.pipeline.session.state())
    }

    async fn leaf(&self, key: &str, relation: &Relation, input: &Input, confs: &Confs) -> Result<Leaf, Diagnostic> {
        match input {
            Input::Dataset(index) => {
                let dataset = self.pipeline.dataset(*index).map_err(|error| Diagnostic::of(&relation.position, &error))?;
                match &dataset.view {
                    Some(view) => self.view(key, dataset, view).await.map(Leaf::Analyzed),
                    None => self.table(relation, *index, dataset, confs).await,
                }
            }
            Input::External(name) => self.stored(relation, name, &[], confs).await,
            Input::Files => self.files(key, relation, confs).await,
        }
    }

    /// The rows of a view, without those that its expectations drop.
    pub(super) async fn view(&self, key: &str, dataset: &Dataset, view: &ViewQuery) -> Result<Analyzed, Diagnostic> {
        let analyzed = self.plan(key, &view.query, &view.inputs, &view.settings).await?;
        let Analyzed { mut plan, columns } =
            super::columns::view(analyzed, dataset).map_err(|error| Diagnostic::of(&dataset.position, &error))?;
        for expectation in &dataset.expectations {
            let condition = self.condition(expectation, &columns, &view.settings)?;
            if expectation.on_violation == OnViolation::DropRow {
                plan = filtered(plan, condition).map_err(|error| Diagnostic::of(&expectation.position, &error))?;
            }
        }
        Ok(Analyzed { plan, columns })
    }

    async fn table(&self, relation: &Relation, index: usize, dataset: &Dataset, confs: &Confs) -> Result<Leaf, Diagnostic> {
        let Some(schemas) = self.declared else {
            // A stream of a table goes on when the pipeline itself empties the table or writes it whole, and reads what is new in it.
            // Changes by others stop it.
            let refreshes =
                self.pipeline.place.refreshes(&dataset.name).await.map_err(|error| Diagnostic::of(&relation.position, &error))?;
            let follow: &[(&str, &str)] = match dataset.kind {
                DatasetKind::MaterializedView => &[("ignoreChanges", "true")],
                _ if refreshes > 0 => &[("ignoreDeletes", "true")],
                _ => &[],
            };
            return self.stored(relation, &dataset.name, follow, confs).await;
        };
        match schemas.get(&index) {
            Some(schema) => Ok(declared::leaf(&dataset.name.to_string(), schema, relation.streaming)),
            None => {
                let message = format!("the columns of '{}' are not known, because its query has faults", dataset.name);
                Err(Diagnostic::new(BLOCKED, "42000", relation.position.clone(), message))
            }
        }
    }

    /// A Delta table below the root.
    async fn stored(&self, relation: &Relation, name: &TableName, defaults: &[(&str, &str)], confs: &Confs) -> Result<Leaf, Diagnostic> {
        let mut options = relation.options.clone();
        if options.get("timeZone").is_none() {
            options.set("timeZone", confs.time_zone());
        }
        for (key, value) in defaults.iter().filter(|_| relation.streaming) {
            if options.get(key).is_none() {
                options.set(*key, *value);
            }
        }
        self.read("delta", relation, ReadRequest { schema: None, paths: vec![self.pipeline.place.table(name)], options }).await
    }

    async fn read(&self, format: &str, relation: &Relation, request: ReadRequest) -> Result<Leaf, Diagnostic> {
        let session = &self.pipeline.session;
        let fault = |error: Error| Diagnostic::of(&relation.position, &error);
        if relation.streaming {
            return Ok(Leaf::Table(Arc::new(session.stream_relation(format, request).await.map_err(fault)?)));
        }
        let table = session.table_relation(format, request).await.map_err(fault)?;
        // Only the files of a Delta table never change under their names.
        self.read.lock().push((format == "delta").then(|| table.clone()));
        Ok(Leaf::Table(Arc::new(table)))
    }

    async fn files(&self, key: &str, relation: &Relation, confs: &Confs) -> Result<Leaf, Diagnostic> {
        let (format, request) = self.file_request(relation)?;
        let fault = |error: &Error| Diagnostic::of(&relation.position, error);
        let mut request = configured(request, &format, relation, confs).map_err(|error| fault(&error))?;
        let hints = relation.source.argument("schemaHints");
        let rescues = request.options.get("rescuedDataColumn").is_some_and(|column| !column.is_empty());
        if request.schema.is_none() && format != "delta" && (relation.streaming || rescues || hints.is_some()) {
            let schema = self.inferred(key, relation, &format, &request).await.map_err(|error| fault(&error))?;
            request.schema = Some(Arc::new(with_hints(schema, hints)?));
        }
        if let (Some(schema), Some(column)) =
            (&request.schema, request.options.get("rescuedDataColumn").filter(|column| !column.is_empty()))
            && schema.column_with_name(column).is_none()
        {
            let mut fields: Vec<Arc<Field>> = schema.fields().iter().cloned().collect();
            fields.push(Arc::new(Field::new(column, DataType::Utf8, true)));
            request.schema = Some(Arc::new(Schema::new(fields)));
        }
        self.read(&format, relation, request).await
    }

    /// The schema of files. That of a stream is inferred once, and remembered until the relation is written in another way or its table is
    /// fully refreshed.
    async fn inferred(&self, key: &str, relation: &Relation, format: &str, request: &ReadRequest) -> Result<Schema> {
        let (record, text) = (format!("schemas/{key}.json"), description(relation));
        if relation.streaming {
            let known: Option<InferredSchema> = self.pipeline.place.record(&record).await?;
            let known = known.filter(|known| known.relation == text).and_then(|known| schema_from_json(&known.schema).ok());
            if let Some(schema) = known {
                return Ok(schema);
            }
        }
        let provider = self.pipeline.session.registry().source(format)?;
        let inferred = provider.schema(request, false).await?;
        let hidden = |field: &&Arc<Field>| !field.metadata().contains_key("__metadata_col");
        let schema = Schema::new(inferred.fields().iter().filter(hidden).cloned().collect::<Vec<_>>());
        if relation.streaming && self.declared.is_none() {
            let inferred = InferredSchema { relation: text, schema: schema_to_json(&schema) };
            self.pipeline.place.set_record(&record, &inferred).await?;
        }
        Ok(schema)
    }

    /// Format, path and options of a relation over files.
    fn file_request(&self, relation: &Relation) -> Result<(String, ReadRequest), Diagnostic> {
        let (path, arguments): (&String, &[Argument]) = match &relation.source {
            RelationSource::Path { format, path } => {
                let request = ReadRequest { schema: None, paths: vec![path.clone()], options: relation.options.clone() };
                return Ok((format.clone(), request));
            }
            RelationSource::ReadFiles { path, arguments } => (path, arguments),
            RelationSource::Table(_) => {
                return Err(Diagnostic::of(&relation.position, &Error::internal("a table was taken for files")));
            }
        };
        let format = match relation.source.argument("format").and_then(|argument| argument.value.clone()) {
            Some(format) => format.to_lowercase(),
            None => format_of(path).ok_or_else(|| {
                let message = format!("the format of '{path}' cannot be told from its name");
                Diagnostic::new("CF_EMPTY_FORMAT", "42000", relation.position.clone(), message)
                    .with_hint("write format => 'json', 'csv', 'parquet', …")
            })?,
        };
        let provider = self.pipeline.session.registry().source(&format).map_err(|error| Diagnostic::of(&relation.position, &error))?;
        let specs = provider.options();
        let mut options = relation.options.clone();
        let mut schema = None;
        if format == "csv" {
            options.set("inferSchema", "true");
        }
        for argument in arguments {
            let Some(value) = &argument.value else { continue };
            let name = argument.name.strip_prefix("cloudFiles.").unwrap_or(&argument.name);
            match name.to_lowercase().as_str() {
                "format" | "schemahints" | "validateoptions" => {}
                "schema" => schema = Some(Arc::new(parse_schema(value).map_err(|error| Diagnostic::of(&argument.position, &error))?)),
                "filenamepattern" => options.set("pathGlobFilter", value.clone()),
                "infercolumntypes" if format == "csv" => options.set("inferSchema", value.clone()),
                "infercolumntypes" => options.set("primitivesAsString", (!value.eq_ignore_ascii_case("true")).to_string()),
                _ => {
                    if !specs.iter().any(|spec| spec.name.eq_ignore_ascii_case(name)) {
                        let known = specs.iter().map(|spec| spec.name);
                        let hint = match closest(name, known) {
                            Some(near) => format!("did you mean {near}?"),
                            None => "see the options of the format".to_owned(),
                        };
                        let message = format!("read_files with format '{format}' has no option '{name}'");
                        return Err(
                            Diagnostic::new("CF_UNKNOWN_OPTION_KEYS_ERROR", "42000", argument.position.clone(), message).with_hint(hint)
                        );
                    }
                    options.set(name, value.clone());
                }
            }
        }
        // Without a schema of the user's, what a later file has beyond the first ones must not be lost.
        if schema.is_none() && matches!(format.as_str(), "json" | "csv") && options.get("rescuedDataColumn").is_none() {
            options.set("rescuedDataColumn", "_rescued_data");
        }
        options.check(&specs).map_err(|error| Diagnostic::of(&relation.position, &error))?;
        Ok((format, ReadRequest { schema, paths: vec![path.clone()], options }))
    }
}

/// The code of faults that only follow from others.
pub(super) const BLOCKED: &str = "UNRESOLVED_UPSTREAM";

/// The key under which a flow's inferred schemas are remembered: a full refresh forgets them.
pub(super) fn schema_key(flow: &TableName, refresh: u64) -> String {
    format!("{}@{refresh}", directory(flow))
}

/// Everything that decides what files are read, as text.
fn description(relation: &Relation) -> String {
    let mut text = relation.source.display();
    if let RelationSource::ReadFiles { arguments, .. } = &relation.source {
        for argument in arguments {
            text.push_str(&format!(" {}={:?}", argument.name.to_lowercase(), argument.value));
        }
    }
    for (name, value) in relation.options.iter() {
        text.push_str(&format!(" {name}={value:?}"));
    }
    text
}

/// The columns of `hints` in place of the inferred ones; others are added.
fn with_hints(schema: Schema, hints: Option<&Argument>) -> Result<Schema, Diagnostic> {
    let Some((hints, text)) = hints.and_then(|hints| Some((hints, hints.value.as_ref()?))) else { return Ok(schema) };
    let wanted = parse_schema(text).map_err(|error| Diagnostic::of(&hints.position, &error))?;
    let mut fields: Vec<Arc<Field>> = schema.fields().iter().cloned().collect();
    for hint in wanted.fields() {
        match fields.iter_mut().find(|field| field.name().eq_ignore_ascii_case(hint.name())) {
            Some(field) => *field = Arc::new(Field::new(field.name(), hint.data_type().clone(), true)),
            None => fields.push(hint.clone()),
        }
    }
    Ok(Schema::new(fields))
}

/// The format that the ending of a path names, compression left aside.
fn format_of(path: &str) -> Option<String> {
    let name = path.rsplit('/').next()?.to_lowercase();
    let name =
        [".gz", ".gzip", ".zst", ".bz2", ".snappy", ".lz4", ".deflate"].iter().find_map(|end| name.strip_suffix(end)).unwrap_or(&name);
    let format = match name.rsplit_once('.')?.1 {
        "json" | "jsonl" | "ndjson" => "json",
        "csv" | "tsv" => "csv",
        "parquet" => "parquet",
        "avro" => "avro",
        "orc" => "orc",
        "txt" | "text" | "log" => "text",
        _ => return None,
    };
    Some(format.to_owned())
}

/// What is read, with the settings of the definition where the relation says nothing.
fn configured(request: ReadRequest, format: &str, relation: &Relation, confs: &Confs) -> Result<ReadRequest> {
    let options = request.options.iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
    let source = read::DataSource { options, ..read::DataSource::default() };
    let ReadRequest { options, .. } = read_request(confs, format, &source, relation.streaming)?;
    Ok(ReadRequest { options, ..request })
}

/// The rows for which a condition holds.
fn filtered(plan: LogicalPlan, condition: Expr) -> Result<LogicalPlan> {
    LogicalPlanBuilder::from(plan).filter(condition.is_true()).and_then(LogicalPlanBuilder::build).map_err(from_datafusion)
}

/// Options as the connectors take them.
pub(super) fn options<const N: usize>(pairs: [(&str, &str); N]) -> Options {
    pairs.into_iter().collect()
}
