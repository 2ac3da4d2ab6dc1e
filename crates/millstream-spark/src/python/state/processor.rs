//! Runs a processor whose code is in Python workers.

use std::ops::Range;
use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, StructArray, new_null_array};
use arrow::datatypes::{DataType, Field, Fields, Schema, SchemaRef};
use async_trait::async_trait;
use futures::{StreamExt, stream};
use millstream_core::{Error, ErrorKind, Result};
use millstream_engine::stateful::arbitrary::{Emit, ProcessorBatch, ProcessorRuntime, ProcessorState, StateVariable, TimeMode};
use tokio::io::BufStream;
use tokio::net::{TcpListener, TcpStream};

use super::described_schema;
use super::server::{Asker, StateServer};
use crate::python::arrow::{Encoder, adopted, parts, sent_schema};
use crate::python::function::{described, kind, together};
use crate::python::protocol::Message;
use crate::python::task::TaskContext;
use crate::python::{Input, PythonFunction, PythonRuntime, Reply, converse};

/// PySpark's worker that asks a processor for its state variables.
const DRIVER: &str = "pyspark.sql.streaming.transform_with_state_driver_worker";

/// The rows of one input as the worker gets them: its columns are the first of the input's.
#[derive(Clone, Debug)]
pub(crate) struct Frame {
    /// The columns under the user's names.
    pub(crate) given: Vec<Field>,
    /// How the worker finds keys and columns among them: how many places follow, how many of them are keys, and the places.
    pub(crate) places: Vec<usize>,
    /// The places of the keys.
    pub(crate) keys: Vec<usize>,
}

/// A processor in Python.
#[derive(Debug)]
pub(crate) struct PythonProcessor {
    runtime: PythonRuntime,
    function: PythonFunction,
    time_mode: TimeMode,
    rows: Frame,
    /// The initial state, where there is one.
    initial: Option<Frame>,
    /// The columns that the processor gives.
    result: Fields,
    output: SchemaRef,
}

impl PythonProcessor {
    /// A processor over `rows`; its rows leave under the names of `output`.
    ///
    /// # Errors
    /// `INVALID_PLAN_INPUT` for a function that does not give frames.
    pub(crate) fn new(
        runtime: PythonRuntime,
        function: PythonFunction,
        time_mode: TimeMode,
        rows: Frame,
        initial: Option<Frame>,
        output: SchemaRef,
    ) -> Result<Self> {
        let result = function.columns()?.clone();
        Ok(PythonProcessor { runtime, function, time_mode, rows, initial, result, output })
    }

    fn key_fields(&self) -> Fields {
        self.rows.keys.iter().filter_map(|key| self.rows.given.get(*key)).cloned().collect()
    }

    fn in_pandas(&self) -> bool {
        matches!(self.function.kind, kind::PROCESSOR_PANDAS | kind::PROCESSOR_PANDAS_INITIAL)
    }

    /// The columns that the worker is sent.
    fn sent(&self) -> SchemaRef {
        let columns = |frame: &Frame| sent_schema(&frame.given, self.runtime.time_zone());
        match &self.initial {
            None => columns(&self.rows),
            Some(initial) => {
                let part = |name: &str, frame: &Frame| Field::new(name, DataType::Struct(columns(frame).fields().clone()), true);
                Arc::new(Schema::new(vec![part("inputData", &self.rows), part("initState", initial)]))
            }
        }
    }

    fn functions(&self) -> Message {
        let places = self.rows.places.iter().chain(self.initial.iter().flat_map(|initial| &initial.places));
        let places: Vec<(usize, Option<&str>)> = places.map(|place| (*place, None)).collect();
        together([described(&places, &[&self.function])].into_iter())
    }

    /// The rows of a batch as an Arrow stream, in pieces.
    fn input(&self, batch: ProcessorBatch) -> Result<Input> {
        let most = self.runtime.rows_per_batch().max(1);
        let mut pieces: Vec<(bool, Range<usize>)> = Vec::new();
        if batch.initial.num_rows() == 0 {
            pieces.extend(chunks(0..batch.rows.num_rows(), most).map(|piece| (false, piece)));
        } else {
            for group in &batch.groups {
                pieces.extend(chunks(group.initial.clone(), most).map(|piece| (true, piece)));
                pieces.extend(chunks(group.rows.clone(), most).map(|piece| (false, piece)));
            }
        }
        let sent = self.sent();
        let mut encoder = Some(Encoder::new(&sent)?);
        let width = self.rows.given.len();
        let initial_width = self.initial.as_ref().map(|initial| initial.given.len());
        let encode = move |piece: Option<(bool, Range<usize>)>| {
            let Some((is_initial, range)) = piece else {
                return encoder.take().map_or_else(|| Ok(Vec::new()), Encoder::end);
            };
            let from = if is_initial { &batch.initial } else { &batch.rows };
            let rows = from.slice(range.start, range.len());
            let columns = match initial_width {
                None => rows.columns().iter().take(width).cloned().collect(),
                Some(initial_width) => beside(&sent, &rows, if is_initial { initial_width } else { width }, is_initial)?,
            };
            encoder.as_mut().map_or_else(|| Ok(Vec::new()), |encoder| encoder.rows(&columns, range.len()))
        };
        Ok(stream::iter(pieces.into_iter().map(Some).chain([None]).map(encode)).boxed())
    }

    fn rows_of(&self, reply: Reply) -> Result<RecordBatch> {
        let Reply::Rows(answer) = reply else { return Err(Error::internal("a processor answers with pickles")) };
        let operation = if self.in_pandas() { "transformWithStateInPandas()" } else { "transformWithState()" };
        let columns = adopted(parts(&answer)?.columns(), &self.result, operation)?;
        crate::python::plan::batch(&self.output, columns, answer.num_rows())
    }
}

/// The first columns of rows in one of the two structures, of which the other is null.
fn beside(sent: &Schema, rows: &RecordBatch, width: usize, is_initial: bool) -> Result<Vec<ArrayRef>> {
    let columns: Vec<ArrayRef> = rows.columns().iter().take(width).cloned().collect();
    let fields: Fields =
        rows.schema().fields().iter().take(width).map(|field| Arc::new(field.as_ref().clone().with_nullable(true))).collect();
    let own = StructArray::try_new_with_length(fields, columns, None, rows.num_rows())
        .map_err(|error| Error::internal("rows do not go into a structure").caused_by(error))?;
    let own: ArrayRef = Arc::new(own);
    let none = |index: usize| new_null_array(sent.field(index).data_type(), rows.num_rows());
    Ok(if is_initial { vec![none(0), own] } else { vec![own, none(1)] })
}

fn chunks(range: Range<usize>, most: usize) -> impl Iterator<Item = Range<usize>> {
    let end = range.end;
    range.step_by(most).map(move |start| start..end.min(start.saturating_add(most)))
}

/// A place for the worker's second connection, and the port.
async fn listen() -> Result<(TcpListener, u16)> {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.map_err(unreachable)?;
    let port = listener.local_addr().map_err(unreachable)?.port();
    Ok((listener, port))
}

fn unreachable(error: std::io::Error) -> Error {
    Error::new(ErrorKind::StoreUnavailable, "PYTHON_STATE_SERVER_FAILED", "the state server of a Python processor cannot listen")
        .caused_by(error)
}

/// Serves the one connection that comes.
async fn serve(listener: TcpListener, server: &mut StateServer<'_>) -> std::io::Result<()> {
    let (stream, _) = listener.accept().await?;
    // Nobody else is let in.
    drop(listener);
    stream.set_nodelay(true)?;
    let mut stream: BufStream<TcpStream> = BufStream::new(stream);
    server.serve(&mut stream).await
}

#[async_trait]
impl ProcessorRuntime for PythonProcessor {
    fn operator_name(&self) -> &'static str {
        if self.in_pandas() { "transformWithStateInPandasExec" } else { "transformWithStateInPySparkExec" }
    }

    async fn variables(&self) -> Result<Vec<StateVariable>> {
        let mut worker = self.runtime.start(DRIVER, &[]).await?;
        let mut message = Message::default();
        message.text(&self.function.version).bytes(&self.function.command);
        worker.send(&message).await?;
        worker.outcome("the processor cannot begin").await?;
        let (listener, port) = listen().await?;
        let mut message = Message::default();
        message.int(port.into()).text(&described_schema(self.key_fields().iter().map(AsRef::as_ref)));
        worker.send(&message).await?;
        let mut variables = Vec::new();
        {
            let mut server = StateServer::new(Asker::Driver(&mut variables), self.time_mode, self.key_fields(), self.runtime.state_rows());
            let mut served = std::pin::pin!(serve(listener, &mut server));
            let mut outcome = std::pin::pin!(worker.outcome("the processor cannot begin"));
            let mut serving = true;
            loop {
                tokio::select! {
                    outcome = &mut outcome => {
                        outcome?;
                        break;
                    }
                    // When the connection breaks, what the worker says of it is what counts.
                    _ = &mut served, if serving => serving = false,
                }
            }
        }
        Ok(variables)
    }

    async fn run(&self, batch: ProcessorBatch, state: &mut ProcessorState, emit: &mut Emit<'_>) -> Result<()> {
        let (listener, port) = listen().await?;
        let mut task = self.runtime.task(&self.function.version, self.function.kind, self.functions());
        task.described.push(("state_server_socket_port", port.to_string()));
        task.described.push(("grouping_key_schema", described_schema(self.key_fields().iter().map(AsRef::as_ref))));
        let context = TaskContext { partition: 0, properties: vec![("streaming.sql.batchId", batch.id.to_string())] };
        let mut replies = converse(self.runtime.clone(), Arc::new(task), context, self.input(batch)?);
        let mut server = StateServer::new(Asker::Task(state), self.time_mode, self.key_fields(), self.runtime.state_rows());
        let mut served = std::pin::pin!(serve(listener, &mut server));
        let mut serving = true;
        loop {
            tokio::select! {
                reply = replies.next() => match reply {
                    None => return Ok(()),
                    Some(reply) => emit(self.rows_of(reply?)?)?,
                },
                _ = &mut served, if serving => serving = false,
            }
        }
    }
}
