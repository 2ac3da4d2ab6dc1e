//! Batch writes: `df.write` and `df.writeTo`.

pub(super) mod delta;
mod files;
mod insert;
mod table;

use std::collections::HashMap;
use std::sync::Arc;

use arrow::datatypes::Schema;
use datafusion::logical_expr::LogicalPlan;
use millstream_core::registry::WriteRequest;
use millstream_core::sink::{OutputMode, Sink};
use millstream_core::{Error, Options, Result};
use spark_connect_proto::expression::ExprType;
use spark_connect_proto::write_operation::save_table::TableSaveMethod;
use spark_connect_proto::write_operation::{SaveMode, SaveType};
use spark_connect_proto::write_operation_v2::Mode;
use spark_connect_proto::{Expression, Relation, WriteOperation, WriteOperationV2};

use super::Session;
use crate::analyzer::Analyzed;
use crate::connect::analyze::refuse_streaming;
use crate::connect::catalog::TableName;
use crate::connect::errors::{incomplete, unsupported};
use crate::connect::execute::named_plan;
use crate::connect::foreign::{self, Use};
use crate::python::{DataSourceClass, PythonSink};
use files::FORMATS;

pub(in crate::connect) use delta::{Definition, DeltaMode, no_rows};
pub(in crate::connect) use files::clear;
pub(in crate::connect) use insert::{By, into_table};
pub(in crate::connect) use table::{create_as, replace_as};

/// What to write and how.
#[derive(Debug)]
pub(in crate::connect) struct Write {
    pub(in crate::connect) analyzed: Analyzed,
    /// The format, in lower case; empty for the default.
    pub(in crate::connect) format: String,
    pub(in crate::connect) mode: SaveMode,
    pub(in crate::connect) partition_by: Vec<String>,
    pub(in crate::connect) options: Options,
    /// The statement that makes or replaces a table of these rows.
    pub(in crate::connect) statement: Option<Definition>,
}

impl Write {
    async fn new(session: &Session, input: Option<&Relation>, format: Option<String>, mode: SaveMode) -> Result<Self> {
        let input = input.ok_or_else(|| incomplete("WriteOperation.input"))?;
        let analyzed = session.analyze(input).await?.stored();
        refuse_streaming(&analyzed.plan, "write")?;
        let format = format.filter(|format| !format.is_empty()).unwrap_or_default().to_lowercase();
        let mode = if mode == SaveMode::Unspecified { SaveMode::ErrorIfExists } else { mode };
        Ok(Write { analyzed, format, mode, partition_by: Vec::new(), options: Options::new(), statement: None })
    }

    pub(super) fn schema(&self) -> Schema {
        self.analyzed.schema()
    }
}

/// Runs `df.write…save()`, `saveAsTable()` and `insertInto()`.
///
/// # Errors
/// Spark's refusals of writers, and those of the plan and the destination.
pub(super) async fn run(session: &Session, command: WriteOperation) -> Result<()> {
    let mode = command.mode();
    let mut write = Write::new(session, command.input.as_ref(), command.source, mode).await?;
    write.partition_by = command.partitioning_columns;
    write.options = options(command.options);
    if command.with_schema_evolution {
        write.options.set("mergeSchema", "true");
    }
    if command.bucket_by.is_some() {
        return Err(unsupported("bucketBy: partition the table instead"));
    }
    if !command.sort_column_names.is_empty() {
        return Err(Error::invalid("SORT_BY_WITHOUT_BUCKETING", "sortBy must be used together with bucketBy").with_sqlstate("42601"));
    }
    if !command.clustering_columns.is_empty() {
        write.statement = Some(Definition { clustering: command.clustering_columns, ..Definition::default() });
    }
    match command.save_type {
        Some(SaveType::Table(table)) => {
            let name = TableName::parse(session, &table.table_name)?;
            match table.save_method() {
                TableSaveMethod::InsertInto => {
                    let mode = if write.mode == SaveMode::Overwrite { DeltaMode::Overwrite } else { DeltaMode::Append };
                    into_table(session, write.analyzed, &name, &By::Position, mode, &write.options).await
                }
                TableSaveMethod::SaveAsTable | TableSaveMethod::Unspecified => table::save_as(session, write, &name).await,
            }
        }
        Some(SaveType::Path(path)) => {
            if write.options.get("path").is_some() {
                let message = "There is a 'path' option set and save() is called with a path parameter: remove one of the two";
                return Err(Error::invalid("_LEGACY_ERROR_TEMP_1187", message));
            }
            save(session, write, Some(path)).await
        }
        None => {
            let path = write.options.get("path").map(str::to_owned);
            save(session, write, path).await
        }
    }
}

/// Runs `df.writeTo(…)`.
///
/// # Errors
/// Those of [`run`].
pub(super) async fn run_v2(session: &Session, command: WriteOperationV2) -> Result<()> {
    let mode = command.mode();
    let mut write = Write::new(session, command.input.as_ref(), command.provider, SaveMode::ErrorIfExists).await?;
    write.partition_by = command.partitioning_columns.iter().map(partition_column).collect::<Result<_>>()?;
    write.options = options(command.options);
    if command.with_schema_evolution {
        write.options.set("mergeSchema", "true");
    }
    let name = TableName::parse(session, &command.table_name)?;
    let properties = command.table_properties;
    if !command.clustering_columns.is_empty() {
        write.statement = Some(Definition { clustering: command.clustering_columns, ..Definition::default() });
    }
    match mode {
        Mode::Create => table::create_as(session, write, &name, properties).await,
        Mode::Replace => table::replace_as(session, write, &name, properties, false).await,
        Mode::CreateOrReplace => table::replace_as(session, write, &name, properties, true).await,
        Mode::Append => into_table(session, write.analyzed, &name, &By::Name, DeltaMode::Append, &write.options).await,
        Mode::OverwritePartitions => table::overwrite_partitions(session, write, &name).await,
        Mode::Overwrite => {
            let mode = match command.overwrite_condition {
                Some(condition) if !is_true(Some(&condition)) => DeltaMode::ReplaceWhere(Box::new(condition)),
                _ => DeltaMode::Overwrite,
            };
            into_table(session, write.analyzed, &name, &By::Name, mode, &write.options).await
        }
        Mode::Unspecified => Err(incomplete("WriteOperationV2.mode")),
    }
}

fn is_true(condition: Option<&Expression>) -> bool {
    use spark_connect_proto::expression::literal::LiteralType;
    match condition.and_then(|condition| condition.expr_type.as_ref()) {
        Some(ExprType::Literal(literal)) => literal.literal_type == Some(LiteralType::Boolean(true)),
        _ => false,
    }
}

/// The column that a partitioning expression names.
///
/// # Errors
/// `UNSUPPORTED_FEATURE.*` for an expression that is no column.
pub(in crate::connect) fn partition_column(expression: &Expression) -> Result<String> {
    match &expression.expr_type {
        Some(ExprType::UnresolvedAttribute(attribute)) => Ok(attribute.unparsed_identifier.trim_matches('`').to_owned()),
        _ => Err(unsupported("partitioning by an expression: partition by a column that holds its value")),
    }
}

fn options(given: HashMap<String, String>) -> Options {
    given.into_iter().collect()
}

/// Writes to a path.
///
/// # Errors
/// Those of [`run`].
pub(in crate::connect) async fn save(session: &Session, mut write: Write, path: Option<String>) -> Result<()> {
    if write.format.is_empty() {
        write.format = session.confs.default_source();
    }
    if let Some(class) = session.python_source(&write.format)? {
        return save_python(session, write, class, path).await;
    }
    let registry = session.engine.registry();
    registry.sink(&write.format).map_err(|error| foreign::refused(&write.format, Use::Write, error))?;
    if matches!(write.format.as_str(), "noop" | "console") {
        let sink = open(session, &write, None).await?;
        let plan = named_plan(write.analyzed, session.settings().case_sensitive)?;
        return write_rows(session, plan, sink, OutputMode::Append).await;
    }
    if write.format == "kafka" {
        return save_kafka(session, write).await;
    }
    if matches!(write.format.as_str(), "csv" | "json") {
        write.analyzed = write.analyzed.with_intervals_as_text(&session.settings())?;
    }
    let path = match path {
        Some(path) if !path.is_empty() => path,
        Some(_) => return Err(Error::invalid("IllegalArgumentException", "Can not create a Path from an empty string")),
        None => return Err(Error::invalid("IllegalArgumentException", "'path' is not specified: name the folder to write to")),
    };
    match write.format.as_str() {
        "delta" => table::save_delta(session, write, &path).await,
        format if FORMATS.contains(&format) => files::save(session, write, &path).await,
        format => Err(unsupported(&format!("batch writing of format {format}"))),
    }
}

/// Sends rows to topics, which can only grow.
async fn save_kafka(session: &Session, write: Write) -> Result<()> {
    if let SaveMode::Overwrite | SaveMode::Ignore = write.mode {
        let mode = if write.mode == SaveMode::Ignore { "Ignore" } else { "Overwrite" };
        let message = format!("Save mode {mode} not allowed for Kafka. Allowed save modes are Append and ErrorIfExists (default).");
        return Err(Error::invalid("_LEGACY_ERROR_TEMP_3081", message));
    }
    let sink = open(session, &write, None).await?;
    let plan = named_plan(write.analyzed, session.settings().case_sensitive)?;
    write_rows(session, plan, sink, OutputMode::Append).await
}

/// Writes with a class that the client has registered. There is nothing to look at beforehand: it either appends or overwrites.
async fn save_python(session: &Session, write: Write, class: DataSourceClass, path: Option<String>) -> Result<()> {
    let overwrite = match write.mode {
        SaveMode::Append => false,
        SaveMode::Overwrite => true,
        SaveMode::ErrorIfExists | SaveMode::Ignore | SaveMode::Unspecified => {
            let mode = if write.mode == SaveMode::Ignore { "ignore" } else { "default" };
            let message = format!("{} source can not be written with {mode} mode. Use \"append\" or \"overwrite\".", write.format);
            return Err(Error::invalid("UNSUPPORTED_DATA_SOURCE_SAVE_MODE", message).with_sqlstate("0A000"));
        }
    };
    let mut options = write.options.clone();
    if let Some(path) = path {
        options.set("path", path);
    }
    let plan = named_plan(write.analyzed, session.settings().case_sensitive)?;
    let mode = if overwrite { OutputMode::Complete } else { OutputMode::Append };
    write_rows(session, plan, Arc::new(PythonSink::new(class, options, overwrite, false)), mode).await
}

/// Opens the sink of a batch write, with the session's settings where no option says otherwise.
async fn open(session: &Session, write: &Write, path: Option<&str>) -> Result<Arc<dyn Sink>> {
    let mut options = write.options.clone();
    options.remove("path");
    options.remove(OVERWRITE_MODE);
    let format = write.format.as_str();
    if format != "delta" && options.get("timeZone").is_none() {
        options.set("timeZone", session.confs.time_zone());
    }
    if matches!(format, "parquet" | "orc" | "avro")
        && options.get("compression").is_none()
        && let Some(codec) = session.confs.get(&format!("spark.sql.{format}.compression.codec"))
    {
        options.set("compression", codec);
    }
    let request = WriteRequest { path: path.map(str::to_owned), partition_by: write.partition_by.clone(), options, query_name: None };
    session.engine.registry().sink(format)?.sink(&request).await
}

/// The option, and the end of the setting, that says whether only partitions that get rows are replaced.
const OVERWRITE_MODE: &str = "partitionOverwriteMode";

/// Whether only the partitions that get rows are replaced.
fn is_dynamic(session: &Session, options: &Options) -> bool {
    let mode = options.get(OVERWRITE_MODE).map(str::to_owned);
    let mode = mode.or_else(|| session.confs.get("spark.sql.sources.partitionOverwriteMode"));
    mode.is_some_and(|mode| mode.eq_ignore_ascii_case("dynamic"))
}

/// Runs a plan once into a sink.
async fn write_rows(session: &Session, plan: LogicalPlan, sink: Arc<dyn Sink>, mode: OutputMode) -> Result<()> {
    let written = session.engine.write_batch(plan, sink.clone(), mode, &[], session.host.ids().next(), 0).await;
    sink.stop().await;
    written.map(drop)
}

/// Refuses partition columns that are not there, and partitions of nothing else.
fn check_partitions(partition_by: &[String], schema: &Schema) -> Result<()> {
    let known = |name: &String| schema.fields().iter().any(|field| field.name().eq_ignore_ascii_case(name));
    if let Some(missing) = partition_by.iter().find(|name| !known(name)) {
        let columns: Vec<String> =
            schema.fields().iter().map(|field| format!("{}:{}", field.name(), crate::types::simple_name(field.data_type()))).collect();
        let message = format!("Partition column `{missing}` not found in schema struct<{}>.", columns.join(","));
        return Err(Error::invalid("_LEGACY_ERROR_TEMP_1155", message));
    }
    if !partition_by.is_empty() && partition_by.len() == schema.fields().len() {
        return Err(
            Error::invalid("ALL_PARTITION_COLUMNS_NOT_ALLOWED", "Cannot use all columns for partition columns.").with_sqlstate("KD005")
        );
    }
    Ok(())
}
