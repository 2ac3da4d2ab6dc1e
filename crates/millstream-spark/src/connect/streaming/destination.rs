//! Where the rows of a query go.

use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use async_trait::async_trait;
use millstream_core::registry::WriteRequest;
use millstream_core::sink::{Admission, BatchInfo, Committed, Guarantee, OutputMode, Part, PartWriter, Sink};
use millstream_core::{Error, ErrorKind, Options, Result};
use parking_lot::Mutex;

use crate::connect::foreign::{self, Use};
use crate::connect::session::ConnectSession;
use crate::python::PythonSink;

/// Formats whose sink writes files into a folder.
const FILES: [&str; 7] = ["parquet", "json", "csv", "orc", "text", "avro", "xml"];

/// The condition of a writer without a path.
const NO_PATH: &str = "_LEGACY_ERROR_TEMP_2047";

/// Formats whose rows end with the query, so that its checkpoint may.
const ONE_TIME: [&str; 3] = ["memory", "console", "noop"];

/// What was asked for besides the rows.
#[derive(Debug)]
pub(super) struct Wanted {
    /// The format, in lower case.
    pub(super) format: String,
    pub(super) options: Options,
    pub(super) partition_by: Vec<String>,
    pub(super) name: Option<String>,
    pub(super) mode: OutputMode,
}

impl Wanted {
    /// Whether the checkpoint may end with the query.
    pub(super) fn is_one_time(&self) -> bool {
        ONE_TIME.contains(&self.format.as_str())
    }
}

/// Opens the sink for rows of this schema.
///
/// # Errors
/// Spark's refusals of writers: `DATA_SOURCE_NOT_FOUND`, `_LEGACY_ERROR_TEMP_2049` for what can only be read, `_LEGACY_ERROR_TEMP_1196` for
/// a partition column that is not there, `STREAMING_OUTPUT_MODE.UNSUPPORTED_DATASOURCE`, and those of the sink.
pub(super) async fn open(session: &ConnectSession, wanted: &Wanted, schema: &SchemaRef) -> Result<Arc<dyn Sink>> {
    let registry = session.engine.registry();
    let format = wanted.format.as_str();
    if let Some(class) = session.python_source(format)? {
        return Ok(Arc::new(PythonSink::new(class, wanted.options.clone(), wanted.mode == OutputMode::Complete, true)));
    }
    let provider = match registry.sink(format) {
        Ok(provider) => provider.clone(),
        Err(error) if format == "socket" => return Err(foreign::refused(format, Use::WriteStream, error)),
        Err(_) if registry.source(format).is_ok() => {
            return Err(Error::invalid("_LEGACY_ERROR_TEMP_2049", format!("Data source {format} does not support streamed writing")));
        }
        Err(error) => return Err(foreign::refused(format, Use::WriteStream, error)),
    };
    let mut options = wanted.options.clone();
    if (FILES.contains(&format) || format == "console")
        && options.get("timeZone").is_none()
        && let Some(zone) = session.confs.get("spark.sql.session.timeZone")
    {
        options.set("timeZone", zone);
    }
    let codec = matches!(format, "parquet" | "orc" | "avro").then(|| session.confs.get(&format!("spark.sql.{format}.compression.codec")));
    if let (None, Some(codec)) = (options.get("compression"), codec.flatten()) {
        options.set("compression", codec);
    }
    let is_file = FILES.contains(&format);
    let request = WriteRequest {
        path: options.get("path").map(str::to_owned),
        // Console and noop take every row wherever it belongs.
        partition_by: if ONE_TIME.contains(&format) { Vec::new() } else { wanted.partition_by.clone() },
        options,
        query_name: wanted.name.clone(),
    };
    if is_file {
        check_partitions(&wanted.partition_by, schema)?;
    }
    if is_file && let Err(error) = request.options.duration("retention") {
        return Err(Error::invalid("NumberFormatException", error.message()));
    }
    let sink = match provider.sink(&request).await {
        Ok(sink) => sink,
        // As in Spark, the values of options are looked at when the query runs.
        Err(error) if error.kind() == ErrorKind::Invalid && error.code() != NO_PATH && (is_file || format == "console") => {
            Arc::new(LateRefusal {
                description: format!("FileSink[{}]", request.path.unwrap_or_default()),
                is_file,
                error: Mutex::new(Some(error)),
            })
        }
        Err(error) => return Err(error),
    };
    if !sink.supports(wanted.mode) {
        return Err(Error::invalid(
            "STREAMING_OUTPUT_MODE.UNSUPPORTED_DATASOURCE",
            format!("Invalid streaming output mode: {}. This output mode is not supported in Data Source {format}.", wanted.mode),
        )
        .with_sqlstate("42KDE"));
    }
    Ok(sink)
}

/// A sink whose options are wrong: the query that begins to write to it dies of that.
#[derive(Debug)]
struct LateRefusal {
    description: String,
    is_file: bool,
    error: Mutex<Option<Error>>,
}

impl LateRefusal {
    fn refuse<T>(&self) -> Result<T> {
        Err(self.error.lock().take().unwrap_or_else(|| Error::internal("a sink that was refused is used again")))
    }
}

#[async_trait]
impl Sink for LateRefusal {
    fn description(&self) -> String {
        self.description.clone()
    }

    fn guarantee(&self) -> Guarantee {
        Guarantee::None
    }

    fn supports(&self, mode: OutputMode) -> bool {
        !self.is_file || mode == OutputMode::Append
    }

    async fn prepare(&self, _schema: &SchemaRef, _mode: OutputMode) -> Result<()> {
        self.refuse()
    }

    async fn admit(&self, _batch: &BatchInfo) -> Result<Admission> {
        self.refuse()
    }

    async fn writer(&self, _batch: &BatchInfo, _partition: usize) -> Result<Box<dyn PartWriter>> {
        self.refuse()
    }

    async fn commit(&self, _batch: &BatchInfo, _parts: Vec<Part>) -> Result<Committed> {
        self.refuse()
    }
}

fn check_partitions(columns: &[String], schema: &SchemaRef) -> Result<()> {
    let known = |name: &str| schema.fields().iter().any(|field| field.name().eq_ignore_ascii_case(name));
    match columns.iter().find(|name| !known(name)) {
        None => Ok(()),
        Some(missing) => {
            let names: Vec<&str> = schema.fields().iter().map(|field| field.name().as_str()).collect();
            let what = format!("Partition column {missing} not found in existing columns ({}).", names.join(", "));
            Err(Error::invalid("_LEGACY_ERROR_TEMP_1196", what))
        }
    }
}

/// Refuses what these sinks cannot do: put rows into partitions.
pub(super) fn refuse_partitions(format: &str, partition_by: &[String]) -> Result<()> {
    if partition_by.is_empty() {
        return Ok(());
    }
    Err(Error::invalid("_LEGACY_ERROR_TEMP_1197", format!("'{format}' does not support partitioning.")))
}
