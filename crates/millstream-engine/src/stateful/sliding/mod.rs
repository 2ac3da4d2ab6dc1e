//! Rows and the windows that they are in.
//!
//! An aggregation over windows that overlap would work on each row many times. Where nothing but the aggregation looks at the window, rows are
//! aggregated by the slice of time that they are in ([`slices`]), state keeps slices, and a window is combined from them when it is emitted
//! ([`combine`]). The cost of a row does not depend on how many windows it is in.

mod combine;
mod runs;
mod slices;
#[cfg(test)]
mod tests;

use std::fmt;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Int64Array, RecordBatch, RecordBatchOptions, StructArray, UInt32Array};
use arrow::compute::{filter_record_batch, is_not_null, take};
use arrow::datatypes::{DataType, Field, Int64Type, Schema, SchemaRef, TimestampMicrosecondType};
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::error::{DataFusionError, Result as DfResult};
use datafusion::execution::TaskContext;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::{EquivalenceProperties, PhysicalExprRef};
use datafusion::physical_plan::projection::{ProjectionExec, ProjectionExpr};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    ChildrenPropertiesMode, DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties, Partitioning, PhysicalExpr,
    PlanProperties, ReplaceChildrenOptions, SendableRecordBatchStream,
};
use futures::StreamExt;
use millstream_core::Error;

pub(crate) use combine::{Sliding, SlidingCore};
pub(crate) use slices::{Slicing, slicing};

use super::logical::Slide;
use crate::to_datafusion;

/// What a node gives for the time of a row.
#[derive(Clone, Debug)]
enum Given {
    /// The windows that it is in; the time is an expression, the window a new last column.
    Windows(PhysicalExprRef),
    /// The begin of its slice, in place of the windows.
    Slice(PhysicalExprRef),
    /// The only window that a slice is in; the slice is the column at this index, and the window takes its place.
    WindowOfSlice(usize),
}

/// Gives each row once for every window, or once with its slice.
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

    /// Where windows begin and how long they are.
    pub(crate) fn slide(&self) -> Slide {
        self.slide
    }

    /// The time whose windows are given, where they are.
    pub(crate) fn time(&self) -> Option<&PhysicalExprRef> {
        match &self.given {
            Given::Windows(time) | Given::Slice(time) => Some(time),
            Given::WindowOfSlice(_) => None,
        }
    }

    /// What its times are over.
    pub(crate) fn input(&self) -> &Arc<dyn ExecutionPlan> {
        &self.input
    }

    /// Where its windows, or slices, are.
    pub(crate) fn windows_at(&self) -> Option<usize> {
        match &self.given {
            Given::Windows(_) | Given::Slice(_) => self.schema().fields().len().checked_sub(1),
            Given::WindowOfSlice(column) => Some(*column),
        }
    }

    /// The same node giving slices; `None` if it does not give windows.
    fn sliced(&self) -> DfResult<Option<Self>> {
        let Given::Windows(time) = &self.given else { return Ok(None) };
        let schema = self.schema();
        let Some((window, others)) = schema.fields().split_last() else { return Ok(None) };
        let instant = Field::new(window.name(), time.data_type(&self.input.schema())?, false);
        let fields: Vec<_> = others.iter().cloned().chain([Arc::new(instant)]).collect();
        let schema = Arc::new(Schema::new_with_metadata(fields, schema.metadata().clone()));
        let properties = properties(&self.input, schema);
        Ok(Some(SlidingExec { input: self.input.clone(), slide: self.slide, given: Given::Slice(time.clone()), properties }))
    }

    /// The same node over rows whose last column is the number of their split, which stays the last one.
    pub(crate) fn through_origin(&self, input: Arc<dyn ExecutionPlan>) -> DfResult<Arc<dyn ExecutionPlan>> {
        let (own, rows) = (self.schema(), input.schema());
        let inner = own.fields().len() - 1;
        let fields: Vec<_> = rows.fields().iter().cloned().chain(own.fields().last().cloned()).collect();
        let schema = Arc::new(Schema::new_with_metadata(fields, own.metadata().clone()));
        let properties = properties(&input, schema);
        let sliding: Arc<dyn ExecutionPlan> = Arc::new(SlidingExec { input, slide: self.slide, given: self.given.clone(), properties });
        let moved = (0..inner).chain([inner + 1, inner]).map(|index| {
            let name = sliding.schema().field(index).name().clone();
            ProjectionExpr { expr: Arc::new(Column::new(&name, index)), alias: name }
        });
        Ok(Arc::new(ProjectionExec::try_new(moved.collect::<Vec<_>>(), sliding)?))
    }

    /// A node that puts windows in the place of the slices in `column`; `schema` is that of its rows.
    fn of_slices(input: Arc<dyn ExecutionPlan>, column: usize, slide: Slide, schema: SchemaRef) -> Self {
        let properties = properties(&input, schema);
        SlidingExec { input, slide, given: Given::WindowOfSlice(column), properties }
    }

    fn over(&self, input: Arc<dyn ExecutionPlan>) -> Self {
        let properties = properties(&input, self.schema());
        SlidingExec { input, slide: self.slide, given: self.given.clone(), properties }
    }
}

fn properties(input: &Arc<dyn ExecutionPlan>, schema: SchemaRef) -> Arc<PlanProperties> {
    let partitioning = Partitioning::UnknownPartitioning(input.output_partitioning().partition_count());
    Arc::new(PlanProperties::new(EquivalenceProperties::new(schema), partitioning, input.pipeline_behavior(), input.boundedness()))
}

/// What the node gives for some rows.
fn given(rows: RecordBatch, given: &Given, slide: Slide, schema: &SchemaRef) -> DfResult<RecordBatch> {
    match given {
        Given::Windows(time) if slide.is_tumbling() => {
            let (rows, times) = timed(rows, time)?;
            let instants = instants(&times)?;
            let begins = instants.values().iter().map(|instant| slide.slice(*instant)).collect();
            let windows = windows(begins, slide.width, times.data_type(), schema.fields().last())?;
            with_column(&rows, windows, schema)
        }
        Given::Windows(time) => {
            let (rows, times) = timed(rows, time)?;
            let instants = instants(&times)?;
            let (mut of, mut begins): (Vec<u32>, Vec<i64>) = (Vec::with_capacity(instants.len()), Vec::with_capacity(instants.len()));
            for (row, instant) in instants.values().iter().enumerate() {
                let row = u32::try_from(row).map_err(|error| DataFusionError::External(Box::new(error)))?;
                for begin in slide.begins(*instant) {
                    of.push(row);
                    begins.push(begin);
                }
            }
            let of = UInt32Array::from(of);
            let windows = windows(begins, slide.width, times.data_type(), schema.fields().last())?;
            let columns = rows.columns().iter().map(|column| take(column, &of, None)).collect::<Result<Vec<_>, _>>()?;
            let options = RecordBatchOptions::new().with_row_count(Some(of.len()));
            let rows = RecordBatch::try_new_with_options(rows.schema(), columns, &options)?;
            with_column(&rows, windows, schema)
        }
        Given::Slice(time) => {
            let (rows, times) = timed(rows, time)?;
            let begins: Int64Array = instants(&times)?.unary(|instant| slide.slice(instant));
            with_column(&rows, instants_of(begins, times.data_type()), schema)
        }
        Given::WindowOfSlice(column) => {
            let slices =
                rows.columns().get(*column).cloned().ok_or_else(|| to_datafusion(Error::internal("a column of slices is gone")))?;
            let begins = instants(&slices)?.values().to_vec();
            let windows = windows(begins, slide.width, slices.data_type(), schema.fields().get(*column))?;
            let mut columns = rows.columns().to_vec();
            if let Some(place) = columns.get_mut(*column) {
                *place = windows;
            }
            RecordBatch::try_new(schema.clone(), columns).map_err(DataFusionError::from)
        }
    }
}

/// The rows that have a time, and the times.
fn timed(rows: RecordBatch, time: &PhysicalExprRef) -> DfResult<(RecordBatch, ArrayRef)> {
    let times = time.evaluate(&rows)?.into_array(rows.num_rows())?;
    if times.null_count() == 0 {
        return Ok((rows, times));
    }
    let present = is_not_null(&times)?;
    Ok((filter_record_batch(&rows, &present)?, arrow::compute::filter(&times, &present)?))
}

fn with_column(rows: &RecordBatch, column: ArrayRef, schema: &SchemaRef) -> DfResult<RecordBatch> {
    let columns = rows.columns().iter().cloned().chain([column]).collect();
    RecordBatch::try_new(schema.clone(), columns).map_err(DataFusionError::from)
}

/// A column of instants as microseconds.
fn instants(times: &ArrayRef) -> DfResult<Int64Array> {
    let instants = times.as_primitive_opt::<TimestampMicrosecondType>();
    instants
        .map(|instants| instants.reinterpret_cast::<Int64Type>())
        .ok_or_else(|| to_datafusion(Error::internal("windows over something that is not a timestamp in microseconds")))
}

/// Microseconds as a column of this type.
fn instants_of(micros: Int64Array, data_type: &DataType) -> ArrayRef {
    Arc::new(micros.reinterpret_cast::<TimestampMicrosecondType>().with_data_type(data_type.clone()))
}

/// A column of windows of one width that begin at `begins`; `field` is that of the column.
fn windows(begins: Vec<i64>, width: i64, data_type: &DataType, field: Option<&Arc<Field>>) -> DfResult<ArrayRef> {
    let ends = begins.iter().map(|begin| begin.saturating_add(width)).collect();
    bounds(begins, ends, data_type, field)
}

/// A column of windows with these bounds.
fn bounds(begins: Vec<i64>, ends: Vec<i64>, data_type: &DataType, field: Option<&Arc<Field>>) -> DfResult<ArrayRef> {
    let Some(DataType::Struct(fields)) = field.map(|field| field.data_type()) else {
        return Err(to_datafusion(Error::internal("the column of a window is not a struct")));
    };
    let columns = [begins, ends].map(|micros| instants_of(Int64Array::from(micros), data_type));
    Ok(Arc::new(StructArray::try_new(fields.clone(), columns.to_vec(), None)?))
}

impl DisplayAs for SlidingExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = match &self.given {
            Given::Windows(_) => "windows",
            Given::Slice(_) => "slices",
            Given::WindowOfSlice(_) => "windows of slices",
        };
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
            Given::Windows(time) | Given::Slice(time) => visit(time),
            Given::WindowOfSlice(_) => Ok(TreeNodeRecursion::Continue),
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
        let (what, slide, schema) = (self.given.clone(), self.slide, self.schema());
        let rows = rows.map(move |rows| given(rows?, &what, slide, &schema));
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.schema(), rows)))
    }
}
