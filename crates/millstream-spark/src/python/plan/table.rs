//! Table functions: rows for each row, and some more at the end of a task.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch, UInt32Array, new_null_array};
use arrow::compute::{SortOptions, take_record_batch};
use arrow::datatypes::{DataType, Field, Fields, Schema, SchemaRef};
use datafusion::logical_expr::LogicalPlan;
use datafusion::physical_plan::SendableRecordBatchStream;
use futures::StreamExt;
use futures::stream::{self, BoxStream};
use millstream_core::{Error, Result};

use super::chunks::{chunks, rows};
use super::replies::{Waiting, batch};
use super::{Grouping, Layout, Place, Program, Rows, plain_node};
use crate::python::arrow::{Encoder, adopted, parts, sent_schema};
use crate::python::function::kind;
use crate::python::pickle::pieces;
use crate::python::protocol::Message;
use crate::python::table_function::TableFunction;
use crate::python::task::{Task, TaskContext};
use crate::python::unpickle::Results;
use crate::python::{Input, PythonRuntime, Reply, converse};
use crate::types::schema_to_json;

/// Rows of the batches that go on.
const ROWS: usize = 8_192;

/// A call of a table function over the rows of a plan: columns that pass, then arguments.
pub(crate) struct TableCall {
    pub(crate) function: TableFunction,
    /// The arguments, in the order of the input's columns after those that pass, with the names under which some are given.
    pub(crate) arguments: Vec<(Option<String>, Field)>,
    /// Which of them are tables.
    pub(crate) tables: Vec<usize>,
    /// The columns of the input before the arguments, which pass.
    pub(crate) given: usize,
    /// Whether a row for which there are none passes once, with nulls.
    pub(crate) outer: bool,
    /// How the rows of a table come to the tasks.
    pub(crate) spread: Spread,
    /// What the function said of the call, pickled.
    pub(crate) analysis: Option<Vec<u8>>,
    /// The declared columns of the result.
    pub(crate) columns: Fields,
}

/// How the rows of a table come to the tasks of a function.
pub(crate) enum Spread {
    /// As they are.
    AsTheyAre,
    /// Those of one partition to one; without keys all to one.
    By {
        /// The columns of the input that are the same in a partition.
        keys: Vec<String>,
        /// Its columns that give the order within a partition.
        order: Vec<(String, SortOptions)>,
        /// The places of the keys in the structure that is sent.
        places: Vec<usize>,
    },
}

/// The rows that a table function gives, after the columns that pass. `schema` names all of them in the engine.
///
/// # Errors
/// Those of its description.
pub(crate) fn table(runtime: PythonRuntime, input: LogicalPlan, call: TableCall, schema: SchemaRef) -> Result<LogicalPlan> {
    let TableCall { function, arguments, tables, given, outer, spread, analysis, columns } = call;
    let fields: Vec<Field> = arguments.iter().enumerate().map(|(place, (_, field))| field.clone().with_name(format!("_{place}"))).collect();
    let (keys, layout) = match spread {
        Spread::AsTheyAre => (Vec::new(), Layout::AsTheyAre { keeps_columns: given > 0 }),
        Spread::By { keys, order, places } => (places, Layout::Grouped(vec![Grouping { keys, order }])),
    };
    let mut message = Message::default();
    message.int(count(arguments.len()));
    for (place, (name, _)) in arguments.iter().enumerate() {
        message.int(count(place)).bool(name.is_some());
        if let Some(name) = name {
            message.text(name);
        }
    }
    message.int(count(keys.len()));
    for key in keys {
        message.int(count(key));
    }
    message.bool(analysis.is_some());
    if let Some(analysis) = analysis {
        message.bytes(&analysis);
    }
    let declared = Schema::new(columns.clone());
    message.bytes(&function.command).text(&schema_to_json(&declared)).text(&function.name);
    let mut task = runtime.task(&function.version, function.kind, message);
    let nullable = fields.iter().map(|field| field.clone().with_nullable(true)).collect::<Vec<_>>();
    task.described.push(("input_type", schema_to_json(&Schema::new(nullable))));
    let tables: Vec<String> = tables.iter().map(ToString::to_string).collect();
    task.described.push(("table_arg_offsets", tables.join(",")));
    let program = TableRows {
        task: Arc::new(task),
        name: function.name,
        kind: function.kind,
        given,
        sent: sent_schema(&fields, runtime.time_zone()),
        outer,
        layout,
        columns,
        schema,
        runtime,
    };
    plain_node(vec![input], Arc::new(program))
}

fn count(number: usize) -> i32 {
    i32::try_from(number).unwrap_or(i32::MAX)
}

/// Calls a table function for each row.
#[derive(Debug)]
struct TableRows {
    runtime: PythonRuntime,
    task: Arc<Task>,
    name: String,
    kind: i32,
    /// The first so many columns of the input pass; the arguments come after them.
    given: usize,
    /// The arguments as the worker is sent them.
    sent: SchemaRef,
    outer: bool,
    layout: Layout,
    /// The declared columns of the result.
    columns: Fields,
    schema: SchemaRef,
}

impl Program for TableRows {
    fn label(&self) -> String {
        format!("{}: {}", if self.kind == kind::TABLE { "BatchEvalPythonUDTF" } else { "ArrowEvalPythonUDTF" }, self.name)
    }

    fn layout(&self) -> Layout {
        self.layout.clone()
    }

    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    fn run(self: Arc<Self>, inputs: Vec<SendableRecordBatchStream>, place: Place) -> Rows {
        let begin = async move {
            let Some(input) = inputs.into_iter().next() else { return stream::empty().boxed() };
            let most = if self.kind == kind::TABLE_OF_ARROW && self.given > 0 { 1 } else { self.runtime.rows_per_batch() };
            let mut chunks = chunks(rows(input), most);
            match chunks.next().await {
                // Rows that pass have none at the end of no rows; a table may have some.
                None if self.given > 0 => stream::empty().boxed(),
                first => self.begin(stream::iter(first).chain(chunks).boxed(), &place),
            }
        };
        chunks(stream::once(begin).flatten().boxed(), ROWS)
    }
}

impl TableRows {
    fn begin(self: Arc<Self>, chunks: BoxStream<'static, Result<RecordBatch>>, place: &Place) -> Rows {
        let waiting = Waiting::new(&place.context);
        let input = match self.input(chunks, waiting.clone()) {
            Ok(input) => input,
            Err(error) => return stream::iter([Err(error)]).boxed(),
        };
        let context = TaskContext::of_partition(place.partition);
        let replies = converse(self.runtime.clone(), self.task.clone(), context, input);
        let mut last: Option<RecordBatch> = None;
        replies
            .filter_map(move |reply| {
                let rows = reply.and_then(|reply| self.rows(reply, &waiting, &mut last)).transpose();
                async move { rows }
            })
            .boxed()
    }

    /// What a worker is sent for the rows.
    fn input(&self, chunks: BoxStream<'static, Result<RecordBatch>>, waiting: Waiting) -> Result<Input> {
        let given = self.given;
        let sent = self.sent.clone();
        let mut encoder = if self.kind == kind::TABLE { None } else { Some(Encoder::new(&sent)?) };
        let pickled = self.kind == kind::TABLE;
        let send = move |chunk: Option<RecordBatch>| match (chunk, encoder.as_mut()) {
            (Some(chunk), encoder) => {
                let arguments = chunk.columns().get(given..).unwrap_or_default();
                if given > 0 {
                    waiting.push(chunk.project(&(0..given).collect::<Vec<_>>()).map_err(misfit)?)?;
                }
                match encoder {
                    Some(encoder) => encoder.rows(arguments, chunk.num_rows()),
                    None => pieces(&sent, arguments, chunk.num_rows()),
                }
            }
            (None, Some(_)) => encoder.take().map_or_else(|| Ok(Vec::new()), Encoder::end),
            (None, None) if pickled => Ok(crate::python::pickle::END.to_vec()),
            (None, None) => Ok(Vec::new()),
        };
        let all = chunks.map(|chunk| chunk.map(Some)).chain(stream::once(async { Ok(None) }));
        Ok(all
            .scan(send, |send, piece| {
                let sent = piece.and_then(&mut *send);
                async move { Some(sent) }
            })
            .boxed())
    }

    /// The rows of one reply, which are those for one row; or the last ones, which go with the last row.
    fn rows(&self, reply: Reply, waiting: &Waiting, last: &mut Option<RecordBatch>) -> Result<Option<RecordBatch>> {
        let mut columns = self.results(reply)?;
        let mut rows = columns.first().map_or(0, |column| column.len());
        let beside = if self.given > 0 {
            match waiting.next()? {
                Some(row) => {
                    *last = Some(row.clone());
                    Some((row, true))
                }
                None => last.clone().map(|row| (row, false)),
            }
        } else {
            None
        };
        if rows == 0 && self.outer && beside.as_ref().is_some_and(|(_, own)| *own) {
            columns = self.columns.iter().map(|field| new_null_array(field.data_type(), 1)).collect();
            rows = 1;
        }
        if rows == 0 {
            return Ok(None);
        }
        let mut all: Vec<ArrayRef> = Vec::with_capacity(self.given + columns.len());
        if let Some((row, _)) = beside {
            let repeated = take_record_batch(&row, &UInt32Array::from(vec![0; rows])).map_err(misfit)?;
            all.extend(repeated.columns().iter().cloned());
        }
        all.extend(columns);
        batch(&self.schema, all, rows).map(Some)
    }

    fn results(&self, reply: Reply) -> Result<Vec<ArrayRef>> {
        match reply {
            Reply::Rows(answer) => adopted(parts(&answer)?.columns(), &self.columns, "a Python table function"),
            Reply::Pickle(pickle) => {
                let results = Results::read_table(&pickle)?;
                let row = Fields::from(vec![Field::new("row", DataType::Struct(self.columns.clone()), true)]);
                let structs = results.columns(&row)?;
                let structs = structs.first().and_then(|column| column.as_struct_opt());
                let structs = structs.ok_or_else(|| Error::internal("the rows of a table function are no structures"))?;
                if structs.null_count() > 0 {
                    return Ok(structs.fields().iter().map(|field| new_null_array(field.data_type(), structs.len())).collect());
                }
                Ok(structs.columns().to_vec())
            }
        }
    }
}

fn misfit(error: arrow::error::ArrowError) -> Error {
    Error::internal("the rows of a table function do not fit together").caused_by(error)
}
