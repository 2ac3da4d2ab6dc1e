//! Functions of groups over windows of rows.

use std::sync::Arc;

use arrow::array::{ArrayRef, Int32Array, RecordBatch};
use arrow::compute::SortOptions;
use arrow::datatypes::{DataType, Field, Fields, SchemaRef};
use datafusion::common::{DFSchema, TableReference};
use datafusion::error::Result as DfResult;
use datafusion::logical_expr::expr::WindowFunction;
use datafusion::logical_expr::window_state::WindowFrameContext;
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder, SortExpr, Window, WindowFrame, WindowFunctionDefinition};
use datafusion::physical_plan::SendableRecordBatchStream;
use futures::StreamExt;
use futures::stream;
use millstream_core::{Error, Result};
use millstream_engine::{from_datafusion, to_datafusion};

use super::call::{Call, aggregate_call};
use super::chunks::{Chunks, together as one};
use super::groups::{Frames, input_of, started};
use super::replies::{Waiting, batch, beside, columns};
use super::sorted::Piece;
use super::{Grouping, Layout, Place, Program, Rows, node};
use crate::analyzer::fresh;
use crate::python::arrow::sent_schema;
use crate::python::function::{described, kind, together};
use crate::python::task::{Task, TaskContext};
use crate::python::{PythonRuntime, converse};

/// Whether a node computes functions of users.
pub(super) fn calls_python(window: &Window) -> bool {
    window.window_expr.iter().any(|expr| call_of(expr).is_some())
}

fn call_of(expr: &Expr) -> Option<(&Call, &WindowFunction)> {
    match expr {
        Expr::Alias(alias) => call_of(&alias.expr),
        Expr::WindowFunction(function) => match &function.fun {
            WindowFunctionDefinition::AggregateUDF(udaf) => aggregate_call(udaf).map(|call| (call, function.as_ref())),
            WindowFunctionDefinition::WindowUDF(_) => None,
        },
        _ => None,
    }
}

/// The node with its functions of users computed by nodes of their own, one for each order of rows and kind of function.
///
/// # Errors
/// `UNSUPPORTED_FEATURE.PYTHON_UDF` for kinds that cannot be computed over windows.
pub(super) fn windowed(window: Window) -> DfResult<LogicalPlan> {
    let columns = window.schema.columns();
    let (python, own): (Vec<Expr>, Vec<Expr>) = window.window_expr.into_iter().partition(|expr| call_of(expr).is_some());
    let mut plan = Arc::unwrap_or_clone(window.input);
    if !own.is_empty() {
        plan = LogicalPlanBuilder::from(plan).window(own)?.build()?;
    }
    let mut sets: Vec<Vec<Expr>> = Vec::new();
    for expr in python {
        match sets.iter_mut().find(|set| set.first().is_some_and(|first| alike(first, &expr))) {
            Some(set) => set.push(expr),
            None => sets.push(vec![expr]),
        }
    }
    for set in sets {
        plan = over(plan, &set)?;
    }
    LogicalPlanBuilder::from(plan).project(columns.into_iter().map(Expr::Column))?.build()
}

/// Whether two functions see the same rows in the same order, in the same form.
fn alike(one: &Expr, other: &Expr) -> bool {
    match (call_of(one), call_of(other)) {
        (Some((call, function)), Some((other_call, other))) => {
            call.function.kind == other_call.function.kind
                && function.params.partition_by == other.params.partition_by
                && function.params.order_by == other.params.order_by
        }
        _ => false,
    }
}

/// The columns of the input, with those of functions over the same rows after them.
fn over(input: LogicalPlan, functions: &[Expr]) -> DfResult<LogicalPlan> {
    let own = input.schema().clone();
    let given = own.fields().len();
    let mut items: Vec<Expr> = own.columns().into_iter().map(Expr::Column).collect();
    let calls: Vec<(&Call, &WindowFunction)> = functions.iter().filter_map(call_of).collect();
    let Some((first, function)) = calls.first() else { return Err(to_datafusion(Error::internal("no function is called"))) };
    let kind = match first.function.kind {
        kind::AGGREGATE_PANDAS => kind::WINDOW_PANDAS,
        kind::AGGREGATE_ARROW => kind::WINDOW_ARROW,
        _ => return Err(to_datafusion(unsupported(&first.function.name))),
    };
    let mut named = |expr: &Expr| {
        let name = fresh();
        items.push(expr.clone().alias(&name));
        name
    };
    let keys: Vec<String> = function.params.partition_by.iter().map(&mut named).collect();
    let options = |sort: &SortExpr| SortOptions { descending: !sort.asc, nulls_first: sort.nulls_first };
    let order: Vec<(String, SortOptions)> = function.params.order_by.iter().map(|sort| (named(&sort.expr), options(sort))).collect();
    let skipped = given + keys.len() + order.len();
    // Columns are sent as the bounds of each frame that has some, and the arguments.
    let frames: Vec<Frame> = calls.iter().map(|(_, function)| Frame::of(&function.params.window_frame)).collect();
    let bounds = 2 * frames.iter().filter(|frame| frame.is_bounded()).count();
    let mut fields: Vec<Field> = (0..bounds).map(|place| Field::new(format!("_{place}"), DataType::Int32, false)).collect();
    let (mut described_functions, mut types, mut next_bound) = (Vec::new(), Vec::new(), 0);
    for ((call, function), frame) in calls.iter().zip(&frames) {
        let mut places: Vec<(usize, Option<&str>)> = Vec::new();
        types.push(if frame.is_bounded() { "bounded" } else { "unbounded" });
        if frame.is_bounded() {
            places.extend([(next_bound, None), (next_bound + 1, None)]);
            next_bound += 2;
        }
        let arguments: Vec<usize> = (fields.len()..fields.len() + function.params.args.len()).collect();
        for (argument, input) in function.params.args.iter().zip(&call.inputs) {
            fields.push(input.clone().with_name(format!("_{}", fields.len())));
            items.push(argument.clone().alias(fresh()));
        }
        places.extend(call.arguments(&arguments));
        described_functions.push(described(&places, &[&call.function]));
    }
    let runtime = first.runtime.clone();
    let mut task = runtime.task(&first.function.version, kind, together(described_functions.into_iter()));
    task.settings.push(("window_bound_types", types.join(",")));
    let names: Vec<&str> = calls.iter().map(|(call, _)| call.function.name.as_str()).collect();
    let results: Fields = calls.iter().map(|(call, _)| call.function.output.clone().with_nullable(true)).collect();
    let mut all: Vec<(Option<TableReference>, Arc<Field>)> =
        own.iter().map(|(qualifier, field)| (qualifier.cloned(), field.clone())).collect();
    for (expr, result) in functions.iter().zip(&results) {
        let (qualifier, name) = expr.qualified_name();
        all.push((qualifier, Arc::new(result.as_ref().clone().with_name(name))));
    }
    let schema = Arc::new(DFSchema::new_with_metadata(all, own.metadata().clone())?);
    let program = WindowFunctions {
        label: format!("ArrowWindowPython: [{}]", names.join(", ")),
        task: Arc::new(task),
        given,
        keys: keys.len(),
        skipped,
        sent: sent_schema(&fields, runtime.time_zone()),
        frames,
        order: order.iter().map(|(_, options)| *options).collect(),
        grouping: Grouping { keys, order },
        results,
        schema: Arc::new(schema.as_arrow().clone()),
        runtime,
    };
    let below = LogicalPlanBuilder::from(input).project(items)?.build()?;
    Ok(node(vec![below], schema, Arc::new(program)))
}

fn unsupported(name: &str) -> Error {
    Error::invalid("UNSUPPORTED_FEATURE.PYTHON_UDF", format!("the Python function `{name}` of iterators cannot be computed over a window"))
        .with_sqlstate("0A000")
}

/// The rows that a function over a window sees.
#[derive(Clone, Debug)]
struct Frame(Option<Arc<WindowFrame>>);

impl Frame {
    fn of(frame: &WindowFrame) -> Frame {
        let all = frame.start_bound.is_unbounded() && frame.end_bound.is_unbounded();
        Frame((!all).then(|| Arc::new(frame.clone())))
    }

    /// Whether it differs from row to row.
    fn is_bounded(&self) -> bool {
        self.0.is_some()
    }

    /// Where it begins and ends for each row, as two columns; none where it is all rows.
    fn bounds(&self, order: &[SortOptions], keys: &[ArrayRef], rows: usize) -> Result<Vec<ArrayRef>> {
        let Some(frame) = &self.0 else { return Ok(Vec::new()) };
        let mut context = WindowFrameContext::new(frame.clone(), order.to_vec());
        let (mut begins, mut ends) = (Vec::with_capacity(rows), Vec::with_capacity(rows));
        let mut last = 0..0;
        for row in 0..rows {
            last = context.calculate_range(keys, &last, rows, row).map_err(from_datafusion)?;
            begins.push(i32::try_from(last.start).unwrap_or(i32::MAX));
            ends.push(i32::try_from(last.end).unwrap_or(i32::MAX));
        }
        Ok(vec![Arc::new(Int32Array::from(begins)), Arc::new(Int32Array::from(ends))])
    }
}

/// Sends the rows of each partition with the bounds of their frames to a worker and puts the results beside the rows.
#[derive(Debug)]
struct WindowFunctions {
    runtime: PythonRuntime,
    task: Arc<Task>,
    label: String,
    /// The first so many columns of the input pass; after them come the keys of the partitions, those of the order, and the arguments.
    given: usize,
    /// How many keys the partitions have.
    keys: usize,
    /// The columns before the arguments.
    skipped: usize,
    /// The bounds of frames and the arguments as the worker is sent them.
    sent: SchemaRef,
    frames: Vec<Frame>,
    order: Vec<SortOptions>,
    grouping: Grouping,
    /// The declared results.
    results: Fields,
    schema: SchemaRef,
}

impl Program for WindowFunctions {
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

impl WindowFunctions {
    async fn begin(self: Arc<Self>, inputs: Vec<SendableRecordBatchStream>, place: &Place) -> Result<Rows> {
        let Some(input) = inputs.into_iter().next() else { return Ok(stream::empty().boxed()) };
        let most = self.runtime.rows_per_batch();
        let Some((first, groups)) = started(self.grouping.groups(input, most)).await? else { return Ok(stream::empty().boxed()) };
        let waiting = Waiting::new(&place.context);
        let mut frames = Frames { sent: self.sent.clone(), in_struct: false, skipped: 0, encoder: None };
        let mut partition: Vec<RecordBatch> = Vec::new();
        let (of_input, for_input) = (self.clone(), waiting.clone());
        let input = input_of(first, groups, move |piece| match piece {
            Piece::Begin(_) => frames.bytes(&piece),
            Piece::Rows(rows) => {
                partition.push(rows);
                Ok(Vec::new())
            }
            // The frames of rows are known when all of them are.
            Piece::End => {
                let mut bytes = Vec::new();
                if let Some(rows) = one(std::mem::take(&mut partition))? {
                    let mut chunks = Chunks::new(most);
                    chunks.push(of_input.arguments(&rows)?);
                    for_input.push(rows.project(&(0..of_input.given).collect::<Vec<_>>()).map_err(missing)?)?;
                    while let Some(chunk) = chunks.rest()? {
                        bytes.extend(frames.bytes(&Piece::Rows(chunk))?);
                    }
                }
                bytes.extend(frames.bytes(&Piece::End)?);
                Ok(bytes)
            }
        });
        let context = TaskContext::of_partition(place.partition);
        let replies = converse(self.runtime.clone(), self.task.clone(), context, input);
        let schema = self.schema.clone();
        let results = replies.map(move |reply| columns(reply?, &self.results, "Python UDF"));
        Ok(beside(results.boxed(), waiting, schema))
    }

    /// The bounds of the frames and the arguments of the rows of a partition.
    fn arguments(&self, rows: &RecordBatch) -> Result<RecordBatch> {
        let order = self.given + self.keys;
        let keys = rows.columns().get(order..order + self.order.len()).unwrap_or_default();
        let mut columns = Vec::new();
        for frame in &self.frames {
            columns.extend(frame.bounds(&self.order, keys, rows.num_rows())?);
        }
        columns.extend(rows.columns().iter().skip(self.skipped).cloned());
        let columns = columns.iter().zip(self.sent.fields()).map(|(column, field)| crate::types::retype(column, field.data_type()));
        batch(&self.sent, columns.collect::<Result<Vec<_>>>()?, rows.num_rows())
    }
}

fn missing(error: arrow::error::ArrowError) -> Error {
    Error::internal("the columns of a window are not there").caused_by(error)
}

#[cfg(test)]
mod tests {
    use arrow::array::AsArray;
    use arrow::datatypes::Int32Type;
    use datafusion::logical_expr::{WindowFrameBound, WindowFrameUnits};
    use datafusion::scalar::ScalarValue;

    use super::*;

    #[test]
    fn frames_are_ranges_of_rows() {
        let keys: ArrayRef = Arc::new(Int32Array::from(vec![1, 2, 2, 5]));
        let order = [SortOptions { descending: false, nulls_first: true }];
        let unbounded = || ScalarValue::UInt64(None);
        let (preceding, following, current) = (WindowFrameBound::Preceding, WindowFrameBound::Following, WindowFrameBound::CurrentRow);
        let cases = [
            (WindowFrameUnits::Rows, preceding(ScalarValue::UInt64(Some(1))), current.clone(), vec![0, 0, 1, 2], vec![1, 2, 3, 4]),
            (WindowFrameUnits::Rows, current.clone(), following(unbounded()), vec![0, 1, 2, 3], vec![4, 4, 4, 4]),
            (WindowFrameUnits::Range, preceding(ScalarValue::Int32(None)), current.clone(), vec![0, 0, 0, 0], vec![1, 3, 3, 4]),
            (WindowFrameUnits::Range, preceding(ScalarValue::Int32(Some(1))), current, vec![0, 0, 0, 3], vec![1, 3, 3, 4]),
        ];
        for (units, start, end, begins, ends) in cases {
            let frame = Frame::of(&WindowFrame::new_bounds(units, start, end));
            let bounds = frame.bounds(&order, std::slice::from_ref(&keys), 4).unwrap();
            let shown = |place: usize| bounds[place].as_primitive::<Int32Type>().values().to_vec();
            assert_eq!((shown(0), shown(1)), (begins, ends), "{frame:?}");
        }
        let all = WindowFrame::new_bounds(WindowFrameUnits::Rows, preceding(unbounded()), following(unbounded()));
        assert!(!Frame::of(&all).is_bounded());
    }
}
