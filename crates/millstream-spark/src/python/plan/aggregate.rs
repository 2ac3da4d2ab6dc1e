//! Functions that give one value for each group, in aggregations.

use std::sync::Arc;

use arrow::array::{RecordBatch, UInt32Array};
use arrow::compute::take_record_batch;
use arrow::datatypes::{Field, Fields, Schema, SchemaRef};
use datafusion::error::Result as DfResult;
use datafusion::logical_expr::{Aggregate, Expr, LogicalPlan, LogicalPlanBuilder};
use datafusion::physical_plan::SendableRecordBatchStream;
use futures::StreamExt;
use futures::stream;
use millstream_core::{Error, Result};
use millstream_engine::to_datafusion;

use super::call::{Call, aggregate_call};
use super::groups::{Frames, input_of, started};
use super::replies::{Waiting, beside, columns};
use super::sorted::Piece;
use super::{Grouping, Layout, Place, Program, Rows, node};
use crate::analyzer::fresh;
use crate::python::arrow::sent_schema;
use crate::python::function::{described, kind, together};
use crate::python::task::{Task, TaskContext};
use crate::python::{PythonRuntime, converse};

/// Whether an aggregation calls functions of users.
pub(super) fn calls_python(aggregate: &Aggregate) -> bool {
    aggregate.aggr_expr.iter().any(|expr| call_of(expr).is_some())
}

fn call_of(expr: &Expr) -> Option<(&Call, &[Expr])> {
    match expr {
        Expr::Alias(alias) => call_of(&alias.expr),
        Expr::AggregateFunction(function) => aggregate_call(&function.func).map(|call| (call, function.params.args.as_slice())),
        _ => None,
    }
}

/// The aggregation as a node that sends its groups to a worker.
///
/// # Errors
/// `INVALID_PANDAS_UDF_PLACEMENT` when other aggregates are among them.
pub(super) fn aggregated(aggregate: Aggregate) -> DfResult<LogicalPlan> {
    if aggregate.aggr_expr.iter().filter_map(call_of).any(|(call, _)| call.on_stream) {
        let message = "Streaming aggregation doesn't support group aggregate pandas UDF";
        return Err(to_datafusion(Error::invalid("_LEGACY_ERROR_TEMP_3067", message)));
    }
    let calls: Option<Vec<(&Call, &[Expr])>> = aggregate.aggr_expr.iter().map(call_of).collect();
    let calls = calls.filter(|calls| {
        let kinds: Vec<i32> = calls.iter().map(|(call, _)| call.function.kind).collect();
        let alone = kinds.iter().any(|kind| matches!(*kind, kind::AGGREGATE_PANDAS_ITERATOR | kind::AGGREGATE_ARROW_ITERATOR));
        kinds.windows(2).all(|pair| pair.first() == pair.last()) && (!alone || kinds.len() == 1)
    });
    let calls = calls.ok_or_else(|| to_datafusion(misplaced(&aggregate)))?;
    let keys: Vec<String> = aggregate.group_expr.iter().map(|_| fresh()).collect();
    let mut items: Vec<Expr> = aggregate.group_expr.iter().zip(&keys).map(|(expr, key)| expr.clone().unalias().alias(key)).collect();
    let mut arguments: Vec<(Expr, Field)> = Vec::new();
    let mut functions = Vec::with_capacity(calls.len());
    for (call, given) in &calls {
        let mut places = Vec::with_capacity(given.len());
        for (argument, input) in given.iter().zip(&call.inputs) {
            let known = arguments.iter().position(|(known, field)| known == argument && field.metadata() == input.metadata());
            places.push(known.unwrap_or_else(|| {
                arguments.push((argument.clone(), input.clone()));
                arguments.len() - 1
            }));
        }
        functions.push(described(&call.arguments(&places), &[&call.function]));
    }
    items.extend(arguments.iter().map(|(argument, _)| argument.clone().alias(fresh())));
    let fields: Vec<Field> = arguments.iter().enumerate().map(|(place, (_, field))| field.clone().with_name(format!("_{place}"))).collect();
    let results = calls.iter().map(|(call, _)| call.function.output.clone().with_nullable(true)).collect();
    let names: Vec<&str> = calls.iter().map(|(call, _)| call.function.name.as_str()).collect();
    let label = format!("ArrowAggregatePython: [{}]", names.join(", "));
    let Some((first, _)) = calls.first() else { return Err(to_datafusion(Error::internal("no function is called"))) };
    let runtime = first.runtime.clone();
    let task = runtime.task(&first.function.version, first.function.kind, together(functions.into_iter()));
    let schema = aggregate.schema.clone();
    let program = AggregateGroups {
        task: Arc::new(task),
        label,
        sent: sent_schema(&fields, runtime.time_zone()),
        grouping: Grouping { keys, order: Vec::new() },
        results,
        schema: Arc::new(schema.as_arrow().clone()),
        runtime,
    };
    let below = LogicalPlanBuilder::from(Arc::unwrap_or_clone(aggregate.input)).project(items)?.build()?;
    Ok(node(vec![below], schema, Arc::new(program)))
}

fn misplaced(aggregate: &Aggregate) -> Error {
    let calls = aggregate.aggr_expr.iter().filter_map(call_of);
    let names: Vec<String> = calls.map(|(call, _)| format!("`{}`", call.function.name)).collect();
    let message = format!(
        "The group aggregate pandas UDF {} cannot be invoked together with as other, non-pandas aggregate functions.",
        names.join(", ")
    );
    Error::invalid("INVALID_PANDAS_UDF_PLACEMENT", message).with_sqlstate("0A000")
}

/// Sends the arguments of the rows of each group to a worker and puts the results beside the keys.
#[derive(Debug)]
struct AggregateGroups {
    runtime: PythonRuntime,
    task: Arc<Task>,
    label: String,
    /// The arguments as the worker is sent them; in the input they come after the keys.
    sent: SchemaRef,
    grouping: Grouping,
    /// The declared results.
    results: Fields,
    schema: SchemaRef,
}

impl Program for AggregateGroups {
    fn label(&self) -> String {
        self.label.clone()
    }

    fn layout(&self) -> Layout {
        Layout::Grouped(vec![self.grouping.clone()])
    }

    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    fn run(self: Arc<Self>, inputs: Vec<SendableRecordBatchStream>, place: Place) -> Rows {
        let begin = async move {
            match self.begin(inputs, &place).await {
                Ok(rows) => rows,
                Err(error) => stream::iter([Err(error)]).boxed(),
            }
        };
        stream::once(begin).flatten().boxed()
    }
}

impl AggregateGroups {
    async fn begin(self: Arc<Self>, inputs: Vec<SendableRecordBatchStream>, place: &Place) -> Result<Rows> {
        let Some(input) = inputs.into_iter().next() else { return Ok(stream::empty().boxed()) };
        let waiting = Waiting::new(&place.context);
        let width = self.grouping.keys.len();
        let mut frames = Frames { sent: self.sent.clone(), in_struct: false, skipped: width, encoder: None };
        let groups = self.grouping.groups(input, self.runtime.rows_per_batch());
        let input = match started(groups).await? {
            Some((first, groups)) => {
                let (waiting, mut begins) = (waiting.clone(), false);
                input_of(first, groups, move |piece| {
                    match &piece {
                        Piece::Begin(_) => begins = true,
                        Piece::Rows(batch) if std::mem::take(&mut begins) => waiting.push(key_of(batch, width)?)?,
                        _ => {}
                    }
                    frames.bytes(&piece)
                })
            }
            None => return Ok(stream::empty().boxed()),
        };
        let context = TaskContext::of_partition(place.partition);
        let replies = converse(self.runtime.clone(), self.task.clone(), context, input);
        let schema = self.schema.clone();
        let results = replies.map(move |reply| columns(reply?, &self.results, "Python UDF"));
        Ok(beside(results.boxed(), waiting, schema))
    }
}

/// The key of the first row, in memory of its own.
fn key_of(batch: &RecordBatch, width: usize) -> Result<RecordBatch> {
    if width == 0 {
        return super::replies::batch(&Arc::new(Schema::empty()), Vec::new(), 1);
    }
    let keys = batch.project(&(0..width).collect::<Vec<_>>());
    keys.and_then(|keys| take_record_batch(&keys.slice(0, 1), &UInt32Array::from(vec![0])))
        .map_err(|error| Error::internal("the key of a group cannot be taken").caused_by(error))
}
