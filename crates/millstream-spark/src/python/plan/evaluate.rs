//! Functions that give one value for each row.

use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::{Field, Fields, SchemaRef};
use datafusion::common::{DFSchema, TableReference};
use datafusion::error::Result as DfResult;
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder};
use datafusion::physical_plan::SendableRecordBatchStream;
use futures::StreamExt;
use futures::stream::{self, BoxStream};
use millstream_core::{Error, Result};
use millstream_engine::to_datafusion;

use super::call::Call;
use super::chunks::{chunks, rows};
use super::replies::{Waiting, beside, columns};
use super::{Layout, Place, Program, Rows, node};
use crate::analyzer::fresh;
use crate::python::arrow::{Encoder, sent_schema};
use crate::python::function::{described, kind, together};
use crate::python::pickle::{END, pieces};
use crate::python::task::{Task, TaskContext};
use crate::python::unpickle::Results;
use crate::python::{Input, PythonRuntime, Reply, converse};
use crate::types::schema_to_json;

/// Calls of functions of one kind over the same rows.
#[derive(Default)]
pub(super) struct Calls {
    chains: Vec<Chain>,
    /// The arguments of all of them, each once.
    arguments: Vec<(Expr, Field)>,
}

/// Functions of which each takes the result of the one before.
struct Chain {
    calls: Vec<Call>,
    /// The places of the arguments of the first.
    places: Vec<usize>,
    /// The column of the result of the last.
    result: String,
}

impl Calls {
    /// Adds functions, the innermost first, over the arguments of the first. Gives the name of the column of their result.
    pub(super) fn add(&mut self, calls: Vec<Call>, arguments: &[Expr]) -> String {
        let inputs = calls.first().map(|call| call.inputs.clone()).unwrap_or_default();
        let mut places = Vec::with_capacity(arguments.len());
        for (argument, input) in arguments.iter().zip(inputs) {
            let known = self.arguments.iter().position(|(known, field)| known == argument && field.metadata() == input.metadata());
            places.push(known.filter(|_| !argument.is_volatile()).unwrap_or_else(|| {
                self.arguments.push((argument.clone(), input));
                self.arguments.len() - 1
            }));
        }
        let result = fresh();
        self.chains.push(Chain { calls, places, result: result.clone() });
        result
    }

    /// The plan with the results after the columns of `input`.
    pub(super) fn over(self, input: LogicalPlan) -> DfResult<LogicalPlan> {
        let own = input.schema().clone();
        let given = own.fields().len();
        let mut items: Vec<Expr> = own.columns().into_iter().map(Expr::Column).collect();
        items.extend(self.arguments.iter().map(|(argument, _)| argument.clone().alias(fresh())));
        let below = LogicalPlanBuilder::from(input).project(items)?.build()?;
        let program = Evaluate::new(given, &self).map_err(to_datafusion)?;
        let results = program.results.iter().zip(&self.chains).map(|(field, chain)| field.as_ref().clone().with_name(&chain.result));
        let mut fields: Vec<(Option<TableReference>, Arc<Field>)> =
            own.iter().map(|(qualifier, field)| (qualifier.cloned(), field.clone())).collect();
        fields.extend(results.map(|field| (None, Arc::new(field))));
        let schema = Arc::new(DFSchema::new_with_metadata(fields, own.metadata().clone())?);
        let program = Evaluate { schema: Arc::new(schema.as_arrow().clone()), ..program };
        Ok(node(vec![below], schema, Arc::new(program)))
    }
}

/// Sends the arguments of each row to a worker and puts the results beside the row.
#[derive(Debug)]
struct Evaluate {
    runtime: PythonRuntime,
    task: Arc<Task>,
    label: String,
    kind: i32,
    /// The first so many columns of the input pass; the arguments come after them.
    given: usize,
    /// The arguments as the worker is sent them.
    sent: SchemaRef,
    /// The declared results.
    results: Fields,
    schema: SchemaRef,
}

impl Evaluate {
    fn new(given: usize, calls: &Calls) -> Result<Self> {
        let first = calls.chains.first().and_then(|chain| chain.calls.first());
        let first = first.ok_or_else(|| Error::internal("no function is called"))?;
        let runtime = first.runtime.clone();
        let arguments = calls.arguments.iter().enumerate();
        let arguments: Vec<Field> = arguments.map(|(place, (_, field))| field.clone().with_name(format!("_{place}"))).collect();
        let sent = sent_schema(&arguments, runtime.time_zone());
        let functions = calls.chains.iter().map(|chain| {
            let functions: Vec<_> = chain.calls.iter().map(|call| call.function.as_ref()).collect();
            let arguments = chain.calls.first().map(|call| call.arguments(&chain.places)).unwrap_or_default();
            described(&arguments, &functions)
        });
        let kind = first.function.kind;
        let mut task = runtime.task(&first.function.version, kind, together(functions));
        if kind == kind::ARROW_BATCHED {
            let fields = arguments.iter().map(|field| field.clone().with_nullable(true));
            task.described.push(("input_type", schema_to_json(&arrow::datatypes::Schema::new(fields.collect::<Vec<_>>()))));
        }
        let last = |chain: &Chain| chain.calls.last().map(|call| call.function.clone());
        let functions: Vec<_> = calls.chains.iter().filter_map(last).collect();
        let names: Vec<&str> = functions.iter().map(|function| function.name.as_str()).collect();
        Ok(Evaluate {
            label: format!("{}: [{}]", if kind == kind::BATCHED { "BatchEvalPython" } else { "ArrowEvalPython" }, names.join(", ")),
            task: Arc::new(task),
            kind,
            given,
            schema: sent.clone(),
            sent,
            results: functions.iter().map(|function| function.output.clone().with_nullable(true)).collect(),
            runtime,
        })
    }

    /// What a worker is sent for the rows.
    fn input(&self, chunks: BoxStream<'static, Result<RecordBatch>>, waiting: Waiting) -> Result<Input> {
        let given = self.given;
        let sent = self.sent.clone();
        let mut encoder = if self.kind == kind::BATCHED { None } else { Some(Encoder::new(&sent)?) };
        let pickled = self.kind == kind::BATCHED;
        let send = move |chunk: Option<RecordBatch>| match (chunk, encoder.as_mut()) {
            (Some(chunk), encoder) => {
                let (own, arguments) = chunk.columns().split_at(given.min(chunk.num_columns()));
                let rows = chunk.num_rows();
                waiting.push(chunk.project(&(0..own.len()).collect::<Vec<_>>()).map_err(unprojected)?)?;
                match encoder {
                    Some(encoder) => encoder.rows(arguments, rows),
                    None => pieces(&sent, arguments, rows),
                }
            }
            (None, Some(_)) => encoder.take().map_or_else(|| Ok(Vec::new()), Encoder::end),
            (None, None) if pickled => Ok(END.to_vec()),
            (None, None) => Ok(Vec::new()),
        };
        let pieces = chunks.map(|chunk| chunk.map(Some)).chain(stream::once(async { Ok(None) }));
        Ok(pieces
            .scan(send, |send, piece| {
                let sent = piece.and_then(&mut *send);
                async move { Some(sent) }
            })
            .boxed())
    }
}

fn unprojected(error: arrow::error::ArrowError) -> Error {
    Error::internal("the columns that pass a Python function are not there").caused_by(error)
}

impl Program for Evaluate {
    fn label(&self) -> String {
        self.label.clone()
    }

    fn layout(&self) -> Layout {
        Layout::AsTheyAre { keeps_columns: true }
    }

    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    fn run(self: Arc<Self>, inputs: Vec<SendableRecordBatchStream>, place: Place) -> Rows {
        // No worker is needed for no rows.
        let begin = async move {
            let Some(input) = inputs.into_iter().next() else { return stream::empty().boxed() };
            let mut chunks = chunks(rows(input), self.runtime.rows_per_batch());
            match chunks.next().await {
                None => stream::empty().boxed(),
                Some(first) => self.begin(stream::iter([first]).chain(chunks).boxed(), &place),
            }
        };
        stream::once(begin).flatten().boxed()
    }
}

impl Evaluate {
    fn begin(self: Arc<Self>, chunks: BoxStream<'static, Result<RecordBatch>>, place: &Place) -> Rows {
        let waiting = Waiting::new(&place.context);
        let input = match self.input(chunks, waiting.clone()) {
            Ok(input) => input,
            Err(error) => return stream::iter([Err(error)]).boxed(),
        };
        let context = TaskContext::of_partition(place.partition);
        let replies = converse(self.runtime.clone(), self.task.clone(), context, input);
        let schema = self.schema.clone();
        let results = replies.map(move |reply| match reply? {
            Reply::Pickle(pickle) => Results::read(&pickle, self.results.len())?.columns(&self.results),
            rows => columns(rows, &self.results, "Python UDF"),
        });
        beside(results.boxed(), waiting, schema)
    }
}
