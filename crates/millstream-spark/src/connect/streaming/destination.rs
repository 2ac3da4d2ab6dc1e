//! Where the rows of a query go.

use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use millstream_core::registry::WriteRequest;
use millstream_core::sink::{OutputMode, Sink};
use millstream_core::{Error, Options, Result};

use crate::connect::session::ConnectSession;

/// Formats whose sink writes files into a folder.
const FILES: [&str; 6] = ["parquet", "json", "csv", "orc", "text", "avro"];

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
    let provider = match registry.sink(format) {
        Ok(provider) => provider.clone(),
        Err(_) if registry.source(format).is_ok() => {
            return Err(Error::invalid("_LEGACY_ERROR_TEMP_2049", format!("Data source {format} does not support streamed writing")));
        }
        Err(_) if format == "kafka" => {
            return Err(Error::invalid("_LEGACY_ERROR_TEMP_1140", "Failed to find data source: kafka. This build has no Kafka connector."));
        }
        Err(error) => return Err(error),
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
    let sink = provider.sink(&request).await?;
    if !sink.supports(wanted.mode) {
        return Err(Error::invalid(
            "STREAMING_OUTPUT_MODE.UNSUPPORTED_DATASOURCE",
            format!("Invalid streaming output mode: {}. This output mode is not supported in Data Source {format}.", wanted.mode),
        )
        .with_sqlstate("42KDE"));
    }
    Ok(sink)
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
