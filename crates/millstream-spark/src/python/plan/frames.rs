//! `mapInPandas` and `mapInArrow`: a function from the frames of a task to frames.

use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::{Field, SchemaRef};
use datafusion::logical_expr::LogicalPlan;
use datafusion::physical_plan::SendableRecordBatchStream;
use futures::StreamExt;
use futures::stream::{self, BoxStream};
use millstream_core::{Error, Result};

use super::chunks::{chunks, rows};
use super::replies::frame;
use super::{Layout, Place, Program, Rows, plain_node};
use crate::python::arrow::{Encoder, sent_schema, sent_struct};
use crate::python::function::{described, kind, together};
use crate::python::task::{Task, TaskContext};
use crate::python::{Input, PythonFunction, PythonRuntime, converse};

/// What users call a kind of function, for messages.
pub(super) fn operation(kind: i32) -> &'static str {
    match kind {
        kind::MAP_PANDAS => "mapInPandas()",
        kind::MAP_ARROW => "mapInArrow()",
        kind::GROUP_PANDAS | kind::GROUP_PANDAS_ITERATOR | kind::COGROUP_PANDAS => "applyInPandas()",
        kind::GROUP_ARROW | kind::GROUP_ARROW_ITERATOR | kind::COGROUP_ARROW => "applyInArrow()",
        _ => "a Python function",
    }
}

/// The frames that a function makes of the rows of each task. `given` are the columns of the plan as the function sees them, `result` names
/// its own columns in the engine.
///
/// # Errors
/// `INVALID_PLAN_INPUT` for a function that does not give frames.
pub(crate) fn map(
    runtime: PythonRuntime,
    input: LogicalPlan,
    given: &[Field],
    function: &PythonFunction,
    result: SchemaRef,
) -> Result<LogicalPlan> {
    let sent = sent_struct(&sent_schema(given, runtime.time_zone()));
    let task = runtime.task(&function.version, function.kind, together([described(&[(0, None)], &[function])].into_iter()));
    let program = MapFrames { task: Arc::new(task), kind: function.kind, name: function.name.clone(), sent, schema: result, runtime };
    plain_node(vec![input], Arc::new(program))
}

#[derive(Debug)]
struct MapFrames {
    runtime: PythonRuntime,
    task: Arc<Task>,
    kind: i32,
    name: String,
    sent: SchemaRef,
    schema: SchemaRef,
}

impl Program for MapFrames {
    fn label(&self) -> String {
        format!("{}: {}", if self.kind == kind::MAP_ARROW { "MapInArrow" } else { "MapInPandas" }, self.name)
    }

    fn layout(&self) -> Layout {
        Layout::AsTheyAre { keeps_columns: false }
    }

    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    fn run(self: Arc<Self>, inputs: Vec<SendableRecordBatchStream>, place: Place) -> Rows {
        let Some(input) = inputs.into_iter().next() else { return stream::empty().boxed() };
        let chunks = chunks(rows(input), self.runtime.rows_per_batch());
        let input = match Encoder::new(&self.sent) {
            Ok(encoder) => structs(chunks, encoder),
            Err(error) => return stream::iter([Err(error)]).boxed(),
        };
        // The function is called for no rows as well: it may give some.
        let context = TaskContext::of_partition(place.partition);
        let replies = converse(self.runtime.clone(), self.task.clone(), context, input);
        replies.map(move |reply| frame(reply?, &self.schema, operation(self.kind))).boxed()
    }
}

/// Rows as the structures of one Arrow stream.
fn structs(chunks: BoxStream<'static, Result<RecordBatch>>, encoder: Encoder) -> Input {
    let pieces = chunks.map(|chunk| chunk.map(Some)).chain(stream::once(async { Ok(None) }));
    let send = move |encoder: &mut Option<Encoder>, piece: Result<Option<RecordBatch>>| match (piece?, encoder.as_mut()) {
        (Some(chunk), Some(encoder)) => encoder.structs(chunk.columns(), chunk.num_rows()),
        (None, Some(_)) => encoder.take().map_or_else(|| Ok(Vec::new()), Encoder::end),
        (_, None) => Err(Error::internal("rows come after the end of a stream")),
    };
    pieces
        .scan(Some(encoder), move |encoder, piece| {
            let sent = send(encoder, piece);
            async move { Some(sent) }
        })
        .boxed()
}
