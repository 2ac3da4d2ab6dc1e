//! What the relations of a query are to the planner: tables of the pipeline, other stored tables, files and views.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use async_trait::async_trait;
use datafusion::catalog::TableProvider;
use datafusion::catalog::view::ViewTable;
use datafusion::logical_expr::LogicalPlan;
use futures::future::BoxFuture;
use millstream_core::registry::ReadRequest;
use millstream_core::source::{Split, Table};
use millstream_core::{Error, Options, Result};
use millstream_engine::relation::{StreamRelation, TableRelation};
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

use super::Pipeline;
use super::place::directory;
use crate::pipelines::graph::{Dataset, Input, ViewQuery};
use crate::pipelines::name::TableName;
use crate::pipelines::parser::{DatasetKind, OnViolation, Settings};
use crate::sql::{Argument, Diagnostic, Planner, Position, PreparedQuery, Relation, RelationSource, closest};
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

/// A table that is not there yet.
#[derive(Debug)]
struct Declared(SchemaRef);

#[async_trait]
impl Table for Declared {
    fn schema(&self) -> SchemaRef {
        self.0.clone()
    }

    async fn scan(&self) -> Result<Vec<Arc<dyn Split>>> {
        Err(Error::internal("a table was read that was only declared"))
    }
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

    /// A planner for queries under these settings.
    pub(super) fn planner(&self, settings: &Settings, position: &Position) -> Result<Planner, Diagnostic> {
        let zone = settings.configuration.iter().find(|(key, _)| key.eq_ignore_ascii_case("spark.sql.session.timeZone"));
        if let Some((_, zone)) = zone
            && !["UTC", "Etc/UTC", "Z", "GMT", "+00:00"].iter().any(|utc| utc.eq_ignore_ascii_case(zone))
        {
            let message = format!("spark.sql.session.timeZone is '{zone}': timestamps are shown and read in UTC only");
            return Err(Diagnostic::unsupported(position.clone(), message).with_hint("leave it out, and convert with from_utc_timestamp"));
        }
        Ok(Planner::new(self.pipeline.session.context().state()))
    }

    /// Plans a query. `flow` is whose query it is, which names what is remembered of files' schemas.
    pub(super) fn plan<'b>(
        &'b self,
        flow: &'b str,
        query: &'b PreparedQuery,
        inputs: &'b [Input],
        settings: &'b Settings,
    ) -> BoxFuture<'b, Result<LogicalPlan, Diagnostic>> {
        Box::pin(async move {
            let mut providers: Vec<Arc<dyn TableProvider>> = Vec::with_capacity(inputs.len());
            for (index, (relation, input)) in query.relations.iter().zip(inputs).enumerate() {
                let provider = self.provider(&format!("{flow}/{index}"), relation, input).await?;
                check_watermark(relation, &provider.schema())?;
                providers.push(provider);
            }
            self.planner(settings, &query.position)?.plan(query, providers).await
        })
    }

    async fn provider(&self, key: &str, relation: &Relation, input: &Input) -> Result<Arc<dyn TableProvider>, Diagnostic> {
        match input {
            Input::Dataset(index) => {
                let dataset = self.pipeline.dataset(*index).map_err(|error| Diagnostic::of(&relation.position, &error))?;
                match &dataset.view {
                    Some(view) => self.view(key, dataset, view).await,
                    None => self.table(relation, *index, dataset).await,
                }
            }
            Input::External(name) => self.stored(relation, name, &[]).await,
            Input::Files => self.files(key, relation).await,
        }
    }

    async fn view(&self, key: &str, dataset: &Dataset, view: &ViewQuery) -> Result<Arc<dyn TableProvider>, Diagnostic> {
        let plan = self.plan(key, &view.query, &view.inputs, &view.settings).await?;
        let plan = super::columns::view(plan, dataset).map_err(|error| Diagnostic::of(&dataset.position, &error))?;
        let schema = millstream_engine::plan::result_schema(&plan);
        let mut builder = datafusion::logical_expr::LogicalPlanBuilder::from(plan);
        for expectation in dataset.expectations.iter().filter(|expectation| expectation.on_violation == OnViolation::DropRow) {
            let planner = self.planner(&view.settings, &expectation.position)?;
            let condition = planner.condition(&expectation.condition, &schema, &expectation.position)?;
            builder = builder
                .filter(condition.is_true())
                .map_err(|error| Diagnostic::of(&expectation.position, &millstream_engine::from_datafusion(error)))?;
        }
        let plan = builder.build().map_err(|error| Diagnostic::of(&dataset.position, &millstream_engine::from_datafusion(error)))?;
        Ok(Arc::new(ViewTable::new(plan, None)))
    }

    async fn table(&self, relation: &Relation, index: usize, dataset: &Dataset) -> Result<Arc<dyn TableProvider>, Diagnostic> {
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
            return self.stored(relation, &dataset.name, follow).await;
        };
        let Some(schema) = schemas.get(&index).cloned() else {
            let message = format!("the columns of '{}' are not known, because its query has faults", dataset.name);
            return Err(Diagnostic::new(BLOCKED, "42000", relation.position.clone(), message));
        };
        if !relation.streaming {
            return Ok(Arc::new(TableRelation { table: Arc::new(Declared(schema)), label: dataset.name.to_string(), size_bytes: 0 }));
        }
        let provider =
            self.pipeline.session.registry().source("delta").map_err(|error| Diagnostic::of(&relation.position, &error))?.clone();
        let request = ReadRequest { schema: Some(schema.clone()), ..ReadRequest::default() };
        Ok(Arc::new(StreamRelation { provider, request, schema, name: None }))
    }

    /// A Delta table below the root.
    async fn stored(&self, relation: &Relation, name: &TableName, defaults: &[(&str, &str)]) -> Result<Arc<dyn TableProvider>, Diagnostic> {
        let mut options = relation.options.clone();
        for (key, value) in defaults.iter().filter(|_| relation.streaming) {
            if options.get(key).is_none() {
                options.set(*key, *value);
            }
        }
        self.read("delta", relation, ReadRequest { schema: None, paths: vec![self.pipeline.place.table(name)], options }).await
    }

    async fn read(&self, format: &str, relation: &Relation, request: ReadRequest) -> Result<Arc<dyn TableProvider>, Diagnostic> {
        let session = &self.pipeline.session;
        let fault = |error: Error| Diagnostic::of(&relation.position, &error);
        if relation.streaming {
            return Ok(Arc::new(session.stream_relation(format, request).await.map_err(fault)?));
        }
        let table = session.table_relation(format, request).await.map_err(fault)?;
        // Only the files of a Delta table never change under their names.
        self.read.lock().push((format == "delta").then(|| table.clone()));
        Ok(Arc::new(table))
    }

    async fn files(&self, key: &str, relation: &Relation) -> Result<Arc<dyn TableProvider>, Diagnostic> {
        let (format, mut request) = self.file_request(relation)?;
        let fault = |error: &Error| Diagnostic::of(&relation.position, error);
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

/// A watermark must be on a column of times.
fn check_watermark(relation: &Relation, schema: &SchemaRef) -> Result<(), Diagnostic> {
    let Some(watermark) = &relation.watermark else { return Ok(()) };
    let Some(field) = schema.fields().iter().find(|field| field.name().eq_ignore_ascii_case(&watermark.column)) else {
        return Ok(());
    };
    if matches!(field.data_type(), DataType::Timestamp(..)) {
        return Ok(());
    }
    let message = format!("the event time '{}' is a {} and not a timestamp", field.name(), crate::types::simple_name(field.data_type()));
    Err(Diagnostic::new("EVENT_TIME_IS_NOT_ON_TIMESTAMP_TYPE", "42K09", watermark.position.clone(), message))
}

/// Options as the connectors take them.
pub(super) fn options<const N: usize>(pairs: [(&str, &str); N]) -> Options {
    pairs.into_iter().collect()
}
