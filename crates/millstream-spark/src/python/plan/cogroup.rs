//! Cogrouped functions: from the frames of a group on two sides to a frame.

use std::cmp::Ordering;
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use datafusion::logical_expr::LogicalPlan;
use datafusion::physical_plan::SendableRecordBatchStream;
use futures::StreamExt;
use futures::stream;
use millstream_core::{Error, Result};

use super::frames::operation;
use super::groups::{Group, NO_MORE};
use super::replies::frame;
use super::sorted::{Groups, Key, Piece};
use super::{Grouping, Layout, Place, Program, Rows, plain_node};
use crate::python::arrow::{Encoder, sent_schema};
use crate::python::function::{described, kind, together};
use crate::python::task::{Task, TaskContext};
use crate::python::{Input, PythonFunction, PythonRuntime, converse};

/// The two sides of a cogrouped function.
pub(crate) struct CoGroup {
    /// The side of the first frame.
    pub(crate) left: Group,
    /// The side of the second.
    pub(crate) right: Group,
}

/// The frames that a function makes of the groups of two plans. `result` names its columns in the engine.
///
/// # Errors
/// `INVALID_PLAN_INPUT` for a function that does not give frames.
pub(crate) fn cogroup(runtime: PythonRuntime, of: CoGroup, function: &PythonFunction, result: SchemaRef) -> Result<LogicalPlan> {
    let CoGroup { left, right } = of;
    let sent = [sent_schema(&left.given, runtime.time_zone()), sent_schema(&right.given, runtime.time_zone())];
    let places = left.places().into_iter().chain(right.places()).map(|place| (place, None));
    let functions = together([described(&places.collect::<Vec<_>>(), &[function])].into_iter());
    let program = CoGroupFrames {
        task: Arc::new(runtime.task(&function.version, function.kind, functions)),
        kind: function.kind,
        name: function.name.clone(),
        sent,
        groupings: [left.grouping(), right.grouping()],
        schema: result,
        runtime,
    };
    plain_node(vec![left.input, right.input], Arc::new(program))
}

#[derive(Debug)]
struct CoGroupFrames {
    runtime: PythonRuntime,
    task: Arc<Task>,
    kind: i32,
    name: String,
    sent: [SchemaRef; 2],
    groupings: [Grouping; 2],
    schema: SchemaRef,
}

impl Program for CoGroupFrames {
    fn label(&self) -> String {
        let pandas = self.kind == kind::COGROUP_PANDAS;
        format!("{}: {}", if pandas { "FlatMapCoGroupsInPandas" } else { "FlatMapCoGroupsInArrow" }, self.name)
    }

    fn layout(&self) -> Layout {
        Layout::Grouped(self.groupings.to_vec())
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

impl CoGroupFrames {
    async fn begin(self: Arc<Self>, inputs: Vec<SendableRecordBatchStream>, place: &Place) -> Result<Rows> {
        let most = self.runtime.rows_per_batch();
        let mut sides = Vec::with_capacity(2);
        for (input, grouping) in inputs.into_iter().zip(&self.groupings) {
            sides.push(SideGroups::new(grouping.groups(input, most)?).await?);
        }
        let (Some(right), Some(left)) = (sides.pop(), sides.pop()) else { return Err(Error::internal("a cogroup has two sides")) };
        if left.key.is_none() && right.key.is_none() {
            return Ok(stream::empty().boxed());
        }
        let input = Pairs { sent: self.sent.clone(), left, right }.input();
        let context = TaskContext::of_partition(place.partition);
        let replies = converse(self.runtime.clone(), self.task.clone(), context, input);
        Ok(replies.map(move |reply| frame(reply?, &self.schema, operation(self.kind))).boxed())
    }
}

/// One side, before the group of a key.
struct SideGroups {
    groups: Groups,
    /// The key of the group that comes next; `None` after the last.
    key: Option<Key>,
}

impl SideGroups {
    async fn new(groups: Groups) -> Result<Self> {
        let mut side = SideGroups { groups, key: None };
        side.forward().await?;
        Ok(side)
    }

    async fn forward(&mut self) -> Result<()> {
        self.key = match self.groups.next().await? {
            Some(Piece::Begin(key)) => Some(key),
            Some(Piece::Rows(_) | Piece::End) => return Err(Error::internal("a group goes on after its end")),
            None => None,
        };
        Ok(())
    }

    /// The rows of the group, and on to the next.
    async fn take(&mut self) -> Result<Vec<RecordBatch>> {
        let mut rows = Vec::new();
        loop {
            match self.groups.next().await? {
                Some(Piece::Rows(batch)) => rows.push(batch),
                Some(Piece::End) => break,
                _ => return Err(Error::internal("a group has no end")),
            }
        }
        self.forward().await?;
        Ok(rows)
    }
}

/// Two sides that are walked together.
struct Pairs {
    sent: [SchemaRef; 2],
    left: SideGroups,
    right: SideGroups,
}

/// What stands before the two frames of a group.
const TWO_FRAMES: i32 = 2;

impl Pairs {
    fn input(self) -> Input {
        stream::try_unfold(Some(self), |pairs| async move {
            let Some(mut pairs) = pairs else { return Ok(None) };
            match pairs.next().await? {
                Some(bytes) => Ok(Some((bytes, Some(pairs)))),
                None => Ok(Some((NO_MORE.to_be_bytes().to_vec(), None))),
            }
        })
        .boxed()
    }

    async fn next(&mut self) -> Result<Option<Vec<u8>>> {
        let order = match (&self.left.key, &self.right.key) {
            (None, None) => return Ok(None),
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (Some(left), Some(right)) => left.order(right),
        };
        let left = if order.is_le() { self.left.take().await? } else { Vec::new() };
        let right = if order.is_ge() { self.right.take().await? } else { Vec::new() };
        let mut bytes = TWO_FRAMES.to_be_bytes().to_vec();
        for (rows, sent) in [left, right].iter().zip(&self.sent) {
            let mut encoder = Encoder::new(sent)?;
            if rows.is_empty() {
                bytes.extend(encoder.nothing()?);
            }
            for batch in rows {
                bytes.extend(encoder.rows(batch.columns(), batch.num_rows())?);
            }
            bytes.extend(encoder.end()?);
        }
        Ok(Some(bytes))
    }
}
