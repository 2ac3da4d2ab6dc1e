//! `applyInPandas` and `applyInArrow`: a function from the frame of each group to a frame.

use std::sync::Arc;

use arrow::datatypes::{Field, SchemaRef};
use datafusion::logical_expr::LogicalPlan;
use datafusion::physical_plan::SendableRecordBatchStream;
use futures::StreamExt;
use futures::stream;
use millstream_core::{Error, Result};

use super::chunks::rows;
use super::frames::operation;
use super::replies::frame;
use super::sorted::{Groups, Piece};
use super::{Grouping, Layout, Place, Program, Rows, plain_node};
use crate::python::arrow::{Encoder, sent_schema, sent_struct};
use crate::python::function::{described, kind, together};
use crate::python::task::{Task, TaskContext};
use crate::python::{Input, PythonFunction, PythonRuntime, converse};

/// The rows of one side of a grouped function: a plan whose last columns are the keys in the form in which they are compared.
pub(crate) struct Group {
    /// The rows.
    pub(crate) input: LogicalPlan,
    /// The columns that the function may be sent: those of the frame, and before them keys that are not among them.
    pub(crate) given: Vec<Field>,
    /// The places of the keys among them.
    pub(crate) keys: Vec<usize>,
    /// The places of the frame's columns among them.
    pub(crate) frame: Vec<usize>,
    /// The columns of the plan that are the same in a group, by their names in the engine.
    pub(crate) compared: Vec<String>,
}

impl Group {
    /// How the worker finds keys and columns: how many places follow, how many of them are keys, and the places.
    pub(crate) fn places(&self) -> Vec<usize> {
        let mut places = vec![self.keys.len() + self.frame.len() + 1, self.keys.len()];
        places.extend(&self.keys);
        places.extend(&self.frame);
        places
    }

    pub(super) fn grouping(&self) -> Grouping {
        Grouping { keys: self.compared.clone(), order: Vec::new() }
    }
}

/// The frames that a function makes of the groups of a plan. `result` names its columns in the engine.
///
/// # Errors
/// `INVALID_PLAN_INPUT` for a function that does not give frames.
pub(crate) fn group(runtime: PythonRuntime, of: Group, function: &PythonFunction, result: SchemaRef) -> Result<LogicalPlan> {
    let sent = sent_schema(&of.given, runtime.time_zone());
    let in_struct = matches!(function.kind, kind::GROUP_ARROW | kind::GROUP_ARROW_ITERATOR);
    let places: Vec<(usize, Option<&str>)> = of.places().into_iter().map(|place| (place, None)).collect();
    let task = runtime.task(&function.version, function.kind, together([described(&places, &[function])].into_iter()));
    let program = GroupFrames {
        task: Arc::new(task),
        kind: function.kind,
        name: function.name.clone(),
        sent: if in_struct { sent_struct(&sent) } else { sent },
        in_struct,
        grouping: of.grouping(),
        schema: result,
        runtime,
    };
    plain_node(vec![of.input], Arc::new(program))
}

#[derive(Debug)]
struct GroupFrames {
    runtime: PythonRuntime,
    task: Arc<Task>,
    kind: i32,
    name: String,
    sent: SchemaRef,
    /// Whether rows are sent as structures.
    in_struct: bool,
    grouping: Grouping,
    schema: SchemaRef,
}

impl Program for GroupFrames {
    fn label(&self) -> String {
        let pandas = matches!(self.kind, kind::GROUP_PANDAS | kind::GROUP_PANDAS_ITERATOR);
        format!("{}: {}", if pandas { "FlatMapGroupsInPandas" } else { "FlatMapGroupsInArrow" }, self.name)
    }

    fn layout(&self) -> Layout {
        Layout::Grouped(vec![self.grouping.clone()])
    }

    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    fn run(self: Arc<Self>, inputs: Vec<SendableRecordBatchStream>, place: Place) -> Rows {
        let begin = async move {
            let groups = match inputs.into_iter().next() {
                Some(input) => self.grouping.groups(input, self.runtime.rows_per_batch()),
                None => return stream::empty().boxed(),
            };
            match started(groups).await {
                Ok(None) => stream::empty().boxed(),
                Ok(Some((first, groups))) => {
                    let mut frames = Frames { sent: self.sent.clone(), in_struct: self.in_struct, skipped: 0, encoder: None };
                    let input = input_of(first, groups, move |piece| frames.bytes(&piece));
                    let context = TaskContext::of_partition(place.partition);
                    let replies = converse(self.runtime.clone(), self.task.clone(), context, input);
                    replies.map(move |reply| frame(reply?, &self.schema, operation(self.kind))).boxed()
                }
                Err(error) => stream::iter([Err(error)]).boxed(),
            }
        };
        stream::once(begin).flatten().boxed()
    }
}

impl Grouping {
    /// The groups of the rows of a task.
    ///
    /// # Errors
    /// `INTERNAL_ERROR` when the columns of the keys are not there.
    pub(super) fn groups(&self, input: SendableRecordBatchStream, most: usize) -> Result<Groups> {
        let schema = input.schema();
        let place =
            |key: &String| schema.index_of(key).map_err(|error| Error::internal("the key of a group is not there").caused_by(error));
        let keys = self.keys.iter().map(place).collect::<Result<Vec<_>>>()?;
        Groups::new(rows(input), &schema, keys, most)
    }
}

/// Groups that have at least one, with their first piece: no worker is needed for none.
pub(super) async fn started(groups: Result<Groups>) -> Result<Option<(Piece, Groups)>> {
    let mut groups = groups?;
    Ok(groups.next().await?.map(|first| (first, groups)))
}

/// Writes groups as Arrow streams of one frame, each after the number of its frames.
pub(super) struct Frames {
    pub(super) sent: SchemaRef,
    /// Whether rows are sent as structures.
    pub(super) in_struct: bool,
    /// The columns before the first that is sent.
    pub(super) skipped: usize,
    pub(super) encoder: Option<Encoder>,
}

/// What stands before the one frame of a group.
const ONE_FRAME: i32 = 1;

/// What stands after the last group.
pub(super) const NO_MORE: i32 = 0;

impl Frames {
    /// The bytes of a piece.
    ///
    /// # Errors
    /// `INTERNAL_ERROR`.
    pub(super) fn bytes(&mut self, piece: &Piece) -> Result<Vec<u8>> {
        match piece {
            Piece::Begin(_) => {
                self.encoder = Some(Encoder::new(&self.sent)?);
                Ok(ONE_FRAME.to_be_bytes().to_vec())
            }
            Piece::Rows(batch) => {
                let encoder = self.encoder.as_mut().ok_or_else(|| Error::internal("rows are of no group"))?;
                let (rows, columns) = (batch.num_rows(), batch.columns().get(self.skipped..).unwrap_or_default());
                if self.in_struct { encoder.structs(columns, rows) } else { encoder.rows(columns, rows) }
            }
            Piece::End => self.encoder.take().map_or_else(|| Ok(Vec::new()), Encoder::end),
        }
    }
}

/// What a worker is sent for groups: what `write` makes of each piece, and the end.
pub(super) fn input_of(first: Piece, groups: Groups, write: impl FnMut(Piece) -> Result<Vec<u8>> + Send + 'static) -> Input {
    let state = (write, Some(first), groups, false);
    stream::try_unfold(state, |(mut write, first, mut groups, ended)| async move {
        if ended {
            return Ok(None);
        }
        let piece = match first {
            Some(piece) => Some(piece),
            None => groups.next().await?,
        };
        let (bytes, ended) = match piece {
            Some(piece) => (write(piece)?, false),
            None => (NO_MORE.to_be_bytes().to_vec(), true),
        };
        Ok(Some((bytes, (write, None, groups, ended))))
    })
    .boxed()
}
