//! Rows and the windows that they are in.
//!
//! An aggregation over windows that overlap would work on each row many times. Where nothing but the aggregation looks at the window, the node
//! gives each row only the piece of time that it is in: rows are aggregated by piece, and the few partial results are handed to all windows of
//! their piece.

use std::fmt;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Int64Array, RecordBatch, RecordBatchOptions, StructArray, UInt32Array};
use arrow::compute::take;
use arrow::datatypes::{DataType, Int64Type, SchemaRef, TimestampMicrosecondType};
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::error::{DataFusionError, Result as DfResult};
use datafusion::execution::TaskContext;
use datafusion::physical_expr::utils::collect_columns;
use datafusion::physical_expr::{EquivalenceProperties, PhysicalExprRef};
use datafusion::physical_plan::aggregates::AggregateExec;
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    ChildrenPropertiesMode, DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties, PhysicalExpr, PlanProperties,
    ReplaceChildrenOptions, SendableRecordBatchStream,
};
use futures::StreamExt;
use millstream_core::Error;

use super::logical::Slide;
use super::planner::as_node;
use crate::to_datafusion;

/// What a node gives for the time of a row.
#[derive(Clone, Debug)]
enum Given {
    /// The windows that it is in; the time is an expression, the window a new last column.
    Windows(PhysicalExprRef),
    /// The windows that a piece is in; the piece is the column at this index, and the windows take its place.
    OfPiece(usize),
}

/// Gives each row once for every window.
#[derive(Debug)]
pub(crate) struct SlidingExec {
    input: Arc<dyn ExecutionPlan>,
    slide: Slide,
    given: Given,
    properties: Arc<PlanProperties>,
}

impl SlidingExec {
    /// A node that adds the windows of `time` as a last column; `schema` is that of its rows.
    pub(crate) fn new(input: Arc<dyn ExecutionPlan>, time: PhysicalExprRef, slide: Slide, schema: SchemaRef) -> Self {
        let properties = properties(&input, schema);
        SlidingExec { input, slide, given: Given::Windows(time), properties }
    }

    fn of_pieces(input: Arc<dyn ExecutionPlan>, column: usize, slide: Slide) -> Self {
        let properties = properties(&input, input.schema());
        SlidingExec { input, slide, given: Given::OfPiece(column), properties }
    }

    fn over(&self, input: Arc<dyn ExecutionPlan>) -> Self {
        let properties = properties(&input, self.schema());
        SlidingExec { input, slide: self.slide, given: self.given.clone(), properties }
    }
}

fn properties(input: &Arc<dyn ExecutionPlan>, schema: SchemaRef) -> Arc<PlanProperties> {
    let partitioning = datafusion::physical_plan::Partitioning::UnknownPartitioning(input.output_partitioning().partition_count());
    Arc::new(PlanProperties::new(EquivalenceProperties::new(schema), partitioning, input.pipeline_behavior(), input.boundedness()))
}

/// The rows in all their windows.
fn slid(rows: &RecordBatch, given: &Given, slide: Slide, schema: &SchemaRef) -> DfResult<RecordBatch> {
    let (times, replaced) = match given {
        Given::Windows(time) => (time.evaluate(rows)?.into_array(rows.num_rows())?, None),
        Given::OfPiece(column) => {
            let pieces = rows.columns().get(*column).and_then(|column| column.as_struct_opt());
            let starts = pieces.and_then(|pieces| pieces.column_by_name("start")).cloned();
            (starts.ok_or_else(|| to_datafusion(Error::internal("pieces of windows are not structs")))?, Some(*column))
        }
    };
    let data_type = times.data_type().clone();
    let instants = times.as_primitive_opt::<TimestampMicrosecondType>();
    let instants: Int64Array = instants
        .map(|instants| instants.reinterpret_cast::<Int64Type>())
        .ok_or_else(|| to_datafusion(Error::internal("windows over something that is not a timestamp in microseconds")))?;
    let (mut of, mut starts): (Vec<u32>, Vec<i64>) = (Vec::with_capacity(instants.len()), Vec::with_capacity(instants.len()));
    for row in 0..instants.len() {
        if instants.is_null(row) {
            continue;
        }
        let number = u32::try_from(row).map_err(|error| DataFusionError::External(Box::new(error)))?;
        for start in slide.begins(instants.value(row)) {
            of.push(number);
            starts.push(start);
        }
    }
    let of = UInt32Array::from(of);
    let window = windows(starts, slide.width, &data_type, schema, replaced)?;
    let mut columns = rows.columns().iter().map(|column| take(column, &of, None)).collect::<Result<Vec<_>, _>>()?;
    match replaced.and_then(|column| columns.get_mut(column)) {
        Some(column) => *column = window,
        None => columns.push(window),
    }
    let options = RecordBatchOptions::new().with_row_count(Some(of.len()));
    RecordBatch::try_new_with_options(schema.clone(), columns, &options).map_err(DataFusionError::from)
}

/// A column of windows that begin at `starts`.
fn windows(starts: Vec<i64>, width: i64, data_type: &DataType, schema: &SchemaRef, column: Option<usize>) -> DfResult<ArrayRef> {
    let index = column.unwrap_or_else(|| schema.fields().len().saturating_sub(1));
    let Some(DataType::Struct(bounds)) = schema.fields().get(index).map(|field| field.data_type()) else {
        return Err(to_datafusion(Error::internal("the column of a window is not a struct")));
    };
    let ends = Int64Array::from_iter_values(starts.iter().map(|start| start.saturating_add(width)));
    let time = |instants: Int64Array| -> ArrayRef {
        Arc::new(instants.reinterpret_cast::<TimestampMicrosecondType>().with_data_type(data_type.clone()))
    };
    let columns = vec![time(Int64Array::from(starts)), time(ends)];
    Ok(Arc::new(StructArray::try_new(bounds.clone(), columns, None)?))
}

/// The same partial aggregation, by pieces of windows and then handed to the windows, where nothing else looks at the windows.
pub(crate) fn by_pieces(partial: &Arc<dyn ExecutionPlan>) -> DfResult<Option<Arc<dyn ExecutionPlan>>> {
    let Some(aggregate) = as_node::<AggregateExec>(partial) else { return Ok(None) };
    let groups = aggregate.group_expr();
    if !groups.is_single() {
        return Ok(None);
    }
    let arguments = aggregate.aggr_expr().iter().flat_map(|function| function.expressions());
    let looked_at: Vec<PhysicalExprRef> = arguments.chain(aggregate.filter_expr().iter().flatten().cloned()).collect();
    for (position, (key, _)) in groups.expr().iter().enumerate() {
        let Some(column) = as_node_expr(key) else { continue };
        let others = groups.expr().iter().enumerate().filter(|(other, _)| *other != position).map(|(_, (other, _))| other);
        let used = others.chain(&looked_at).any(|expr| collect_columns(expr).iter().any(|used| used.index() == column));
        if used {
            continue;
        }
        if let Some((input, slide)) = pieced(aggregate.input(), column)? {
            let aggregated =
                partial.clone().replace_children(vec![input], ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute))?;
            return Ok(Some(Arc::new(SlidingExec::of_pieces(aggregated, position, slide))));
        }
    }
    Ok(None)
}

/// The plan with pieces in place of the windows in `column`, if it passes windows through untouched.
fn pieced(plan: &Arc<dyn ExecutionPlan>, column: usize) -> DfResult<Option<(Arc<dyn ExecutionPlan>, Slide)>> {
    if let Some(sliding) = as_node::<SlidingExec>(plan) {
        let is_window = matches!(sliding.given, Given::Windows(_)) && column + 1 == sliding.schema().fields().len();
        if !is_window || sliding.slide.width == sliding.slide.slide {
            return Ok(None);
        }
        let pieces = SlidingExec { slide: sliding.slide.pieces(), ..sliding.over(sliding.input.clone()) };
        return Ok(Some((Arc::new(pieces), sliding.slide)));
    }
    let below = if let Some(projection) = as_node::<ProjectionExec>(plan) {
        let Some(source) = projection.expr().get(column).and_then(|expr| as_node_expr(&expr.expr)) else { return Ok(None) };
        let others = projection.expr().iter().enumerate().filter(|(index, _)| *index != column);
        if others.map(|(_, expr)| collect_columns(&expr.expr)).any(|used| used.iter().any(|used| used.index() == source)) {
            return Ok(None);
        }
        source
    } else if let Some(filter) = as_node::<FilterExec>(plan) {
        if filter.projection().is_some() || collect_columns(filter.predicate()).iter().any(|used| used.index() == column) {
            return Ok(None);
        }
        column
    } else {
        return Ok(None);
    };
    let Some(input) = plan.children().first().map(|input| (*input).clone()) else { return Ok(None) };
    let Some((input, slide)) = pieced(&input, below)? else { return Ok(None) };
    let plan = plan.clone().replace_children(vec![input], ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute))?;
    Ok(Some((plan, slide)))
}

fn as_node_expr(expr: &PhysicalExprRef) -> Option<usize> {
    let any = expr.as_ref() as &dyn std::any::Any;
    any.downcast_ref::<datafusion::physical_expr::expressions::Column>().map(datafusion::physical_expr::expressions::Column::index)
}

impl DisplayAs for SlidingExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = if matches!(self.given, Given::Windows(_)) { "windows" } else { "windows of pieces" };
        write!(f, "SlidingExec: {what}, width={} slide={} start={}", self.slide.width, self.slide.slide, self.slide.start)
    }
}

impl ExecutionPlan for SlidingExec {
    fn name(&self) -> &'static str {
        "SlidingExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.input]
    }

    fn maintains_input_order(&self) -> Vec<bool> {
        vec![false]
    }

    fn benefits_from_input_partitioning(&self) -> Vec<bool> {
        vec![false]
    }

    fn apply_expressions(
        &self,
        visit: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> DfResult<TreeNodeRecursion>,
    ) -> DfResult<TreeNodeRecursion> {
        match &self.given {
            Given::Windows(time) => visit(time),
            Given::OfPiece(_) => Ok(TreeNodeRecursion::Continue),
        }
    }

    fn replace_children(
        self: Arc<Self>,
        mut inputs: Vec<Arc<dyn ExecutionPlan>>,
        _: ReplaceChildrenOptions,
    ) -> DfResult<Arc<dyn ExecutionPlan>> {
        match inputs.pop().filter(|_| inputs.is_empty()) {
            Some(input) => Ok(Arc::new(self.over(input))),
            None => Err(DataFusionError::Internal("SlidingExec has one child".to_owned())),
        }
    }

    fn with_new_children(self: Arc<Self>, inputs: Vec<Arc<dyn ExecutionPlan>>) -> DfResult<Arc<dyn ExecutionPlan>> {
        self.replace_children(inputs, ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute))
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> DfResult<SendableRecordBatchStream> {
        let rows = self.input.execute(partition, context)?;
        let (given, slide, schema) = (self.given.clone(), self.slide, self.schema());
        let rows = rows.map(move |rows| slid(&rows?, &given, slide, &schema));
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.schema(), rows)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_instant_is_in_the_windows_that_begin_at_or_before_it_and_end_after_it() {
        for (slide, instant, expected) in [
            (Slide { width: 10, slide: 5, start: 0 }, 12, vec![10, 5]),
            (Slide { width: 10, slide: 5, start: 0 }, 10, vec![10, 5]),
            (Slide { width: 10, slide: 5, start: 0 }, -3, vec![-5, -10]),
            (Slide { width: 10, slide: 4, start: 0 }, 1, vec![0, -4, -8]),
            (Slide { width: 10, slide: 4, start: 0 }, 3, vec![0, -4]),
            (Slide { width: 10, slide: 5, start: 2 }, 6, vec![2, -3]),
            (Slide { width: 10, slide: 10, start: -3 }, 6, vec![-3]),
        ] {
            assert_eq!(slide.begins(instant).collect::<Vec<_>>(), expected, "{slide:?} {instant}");
        }
    }

    #[test]
    fn all_instants_of_a_piece_are_in_the_same_windows() {
        for slide in
            [Slide { width: 10, slide: 4, start: 1 }, Slide { width: 60, slide: 1, start: 0 }, Slide { width: 9, slide: 6, start: -2 }]
        {
            for instant in -100..100 {
                let piece = slide.pieces().begins(instant).next().unwrap();
                assert!(slide.begins(piece).eq(slide.begins(instant)), "{slide:?} {instant}");
            }
        }
    }
}
