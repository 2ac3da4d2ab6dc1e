//! Data sources of users in Python (`spark.dataSource.register`): tables, streams and sinks.
//!
//! The client's class lives in the worker processes only. One of them makes an object of it for the options of a query; what is needed of
//! the object comes back pickled and goes to the workers that read and write.

mod read;
mod stream;
mod write;

use std::io;

use arrow::datatypes::{Schema, SchemaRef};
use millstream_core::{Error, ErrorKind, Options, Result};
use prost::bytes::Bytes;
use spark_connect_proto::CommonInlineUserDefinedDataSource;
use spark_connect_proto::common_inline_user_defined_data_source::DataSource;
use tokio::io::{AsyncRead, AsyncReadExt};

use super::protocol::{EXCEPTION_THROWN, Message, read_bytes, read_text};
use super::runtime::PythonRuntime;
use super::worker::Worker;
use crate::types::{parse_schema, schema_from_json, schema_to_json};

pub(crate) use read::PythonProvider;
pub(crate) use write::PythonSink;

/// A class that a client has registered.
#[derive(Clone, Debug)]
pub(crate) struct DataSourceClass {
    pub(super) runtime: PythonRuntime,
    /// The name of its format.
    pub(super) name: String,
    /// The client's version of Python, `3.11`.
    pub(super) version: String,
    /// The pickle of the class.
    pub(super) command: Bytes,
}

/// An object of the class for some options.
#[derive(Clone, Debug)]
struct Created {
    /// Its pickle.
    instance: Vec<u8>,
    /// The schema of its rows.
    schema: SchemaRef,
}

impl DataSourceClass {
    /// The class that was registered.
    ///
    /// # Errors
    /// `INVALID_PLAN_INPUT` when it is not there.
    pub(crate) fn of(registered: &CommonInlineUserDefinedDataSource, runtime: PythonRuntime) -> Result<Self> {
        let Some(DataSource::PythonDataSource(source)) = &registered.data_source else {
            return Err(Error::invalid("INVALID_PLAN_INPUT", format!("the data source '{}' is not there", registered.name)));
        };
        Ok(DataSourceClass { runtime, name: registered.name.clone(), version: source.python_ver.clone(), command: source.command.clone() })
    }

    /// Makes an object for options; the schema is the user's, or else its own.
    ///
    /// # Errors
    /// `PYTHON_DATA_SOURCE_ERROR` with the client's own words.
    async fn create(&self, schema: Option<&SchemaRef>, options: &Options) -> Result<Created> {
        let mut message = self.planning();
        message.bytes(&self.command).text(&self.name).bool(schema.is_some());
        if let Some(schema) = schema {
            message.text(&schema_to_json(schema));
        }
        write_options(&mut message, options);
        let mut worker = self.runtime.start("pyspark.sql.worker.create_data_source", &[]).await?;
        worker.send(&message).await?;
        let answered = async {
            let instance = match bytes_or_words(worker.stream()).await? {
                Ok(instance) => instance,
                Err(words) => return Ok(Err(self.failed("create", &words))),
            };
            let is_text = worker.stream().read_i32().await? == 1;
            let schema = read_text(worker.stream()).await?;
            let parsed = if is_text { parse_schema(&schema) } else { schema_from_json(&schema) };
            Ok(parsed.map(|schema| Created { instance, schema: std::sync::Arc::new(schema) }))
        };
        settled(answered.await, &worker)
    }

    /// What every process that plans something is told first.
    fn planning(&self) -> Message {
        let mut message = self.runtime.preface(&self.version);
        // No broadcasts, no settings.
        message.bool(false).int(0).int(0);
        message
    }

    /// The error for something that the client's code failed to do.
    fn failed(&self, action: &str, words: &str) -> Error {
        let message = format!("Failed to {action} Python data source {}: {words}", self.name);
        Error::invalid("PYTHON_DATA_SOURCE_ERROR", message).with_sqlstate("38000")
    }

    /// The same while a stream runs.
    fn failed_running(&self, action: &str, words: &str) -> Error {
        let message = format!("Failed when Python streaming data source perform {action}: {words}");
        Error::new(ErrorKind::SourceUnavailable, "PYTHON_STREAMING_DATA_SOURCE_RUNTIME_ERROR", message).with_sqlstate("38000")
    }
}

fn write_options(message: &mut Message, options: &Options) {
    let options: Vec<(&str, &str)> = options.iter().collect();
    message.int(i32::try_from(options.len()).unwrap_or(i32::MAX));
    for (name, value) in options {
        message.text(name).text(value);
    }
}

/// An answer of bytes after their length, or the client's words where its code failed.
async fn bytes_or_words(from: &mut (impl AsyncRead + Unpin)) -> io::Result<Result<Vec<u8>, String>> {
    match from.read_i32().await? {
        EXCEPTION_THROWN => Ok(Err(read_text(from).await?)),
        length => super::protocol::read_exactly(from, length).await.map(Ok),
    }
}

/// The same for an answer of one integer.
async fn int_or_words(from: &mut (impl AsyncRead + Unpin)) -> io::Result<Result<i32, String>> {
    match from.read_i32().await? {
        EXCEPTION_THROWN => Ok(Err(read_text(from).await?)),
        value => Ok(Ok(value)),
    }
}

/// Pickles after their number.
async fn pickles(from: &mut (impl AsyncRead + Unpin), count: i32) -> io::Result<Vec<Vec<u8>>> {
    let mut found = Vec::new();
    for _ in 0..count.max(0) {
        found.push(read_bytes(from).await?);
    }
    Ok(found)
}

fn settled<T>(answer: io::Result<Result<T>>, worker: &Worker) -> Result<T> {
    answer.unwrap_or_else(|error| Err(worker.lost(error)))
}

/// The one column of pickles that reading and writing functions take or give.
fn column_of_pickles(name: &str) -> Schema {
    Schema::new(vec![arrow::datatypes::Field::new(name, arrow::datatypes::DataType::Binary, true)])
}
