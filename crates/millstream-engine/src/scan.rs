//! The leaf of every physical plan: reads the splits that the batch loop put into its feed.

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arrow::array::{RecordBatch, UInt32Array};
use arrow::compute::filter_record_batch;
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::common::cast::as_boolean_array;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{Statistics, stats::Precision};
use datafusion::error::{DataFusionError, Result as DfResult};
use datafusion::execution::TaskContext;
use datafusion::physical_expr::EquivalenceProperties;
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType, SchedulingType};
use datafusion::physical_plan::statistics::StatisticsArgs;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    ChildrenPropertiesMode, DisplayAs, DisplayFormatType, ExecutionPlan, Partitioning, PhysicalExpr, PlanProperties,
    ReplaceChildrenOptions, SendableRecordBatchStream,
};
use futures::{StreamExt, TryStreamExt, stream};
use millstream_core::quarantine::Quarantine;
use millstream_core::source::{ReadContext, Split};
use parking_lot::Mutex;

use crate::to_datafusion;

/// The column that says which split a row is from, by a number that the split has in its batch.
pub(crate) const ORIGIN: &str = "__origin";

/// Hands the splits of one batch to the tasks of a scan. Every task takes the next one when it is done with its last, so that uneven
/// splits do not leave a core idle.
#[derive(Debug, Default)]
pub(crate) struct SplitFeed {
    /// With the number of each split.
    queue: Mutex<VecDeque<(u32, Arc<dyn Split>)>>,
    rows: AtomicU64,
    bytes: AtomicU64,
}

impl SplitFeed {
    /// Starts a batch: its splits, numbered from `first` on as they are given, largest first so that the last to finish is short.
    pub(crate) fn fill(&self, splits: Vec<Arc<dyn Split>>, first: u32) {
        let mut splits: Vec<(u32, Arc<dyn Split>)> = (first..).zip(splits).collect();
        splits.sort_by_key(|(_, split)| std::cmp::Reverse(split.size_bytes()));
        self.bytes.store(splits.iter().map(|(_, split)| split.size_bytes()).sum(), Ordering::Relaxed);
        self.rows.store(0, Ordering::Relaxed);
        *self.queue.lock() = splits.into();
    }

    /// Rows read so far in this batch.
    pub(crate) fn rows(&self) -> u64 {
        self.rows.load(Ordering::Relaxed)
    }

    fn next(&self) -> Option<(u32, Arc<dyn Split>)> {
        self.queue.lock().pop_front()
    }
}

/// Where the malformed records of the running batch go; set by the loop before the plan runs.
#[derive(Clone)]
pub(crate) struct QuarantineSlot(Arc<Mutex<Arc<dyn Quarantine>>>);

impl QuarantineSlot {
    pub(crate) fn new(quarantine: Arc<dyn Quarantine>) -> Self {
        QuarantineSlot(Arc::new(Mutex::new(quarantine)))
    }

    pub(crate) fn set(&self, quarantine: Arc<dyn Quarantine>) {
        *self.0.lock() = quarantine;
    }

    fn get(&self) -> Arc<dyn Quarantine> {
        self.0.lock().clone()
    }
}

impl fmt::Debug for QuarantineSlot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("QuarantineSlot")
    }
}

/// About how much a scan will give, which decides the sides of joins.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Volume {
    /// A stream, which the source at this index gives: always the larger side, which is probed and never held in memory.
    Unbounded(usize),
    /// A table of about this many bytes.
    Bytes(u64),
}

/// What a scan reads of its splits.
#[derive(Clone, Debug)]
pub(crate) struct Reading {
    /// The columns, by their places in the relation's schema: first those of the result.
    pub(crate) columns: Vec<usize>,
    /// How many of the columns are the result; the condition alone needs the others.
    pub(crate) kept: usize,
    /// The condition over these columns without which a row does not count as read.
    pub(crate) condition: Option<Arc<dyn PhysicalExpr>>,
}

impl Reading {
    /// The rows that count as read, with the columns of the result.
    fn counted(&self, batch: RecordBatch) -> DfResult<RecordBatch> {
        let Some(condition) = &self.condition else { return Ok(batch) };
        let matches = condition.evaluate(&batch)?.into_array(batch.num_rows())?;
        let matching = filter_record_batch(&batch, as_boolean_array(&matches)?)?;
        Ok(matching.project(&(0..self.kept).collect::<Vec<_>>())?)
    }
}

/// Reads splits from a feed.
#[derive(Debug)]
pub(crate) struct SplitScanExec {
    label: String,
    /// Whether the last column is [`ORIGIN`].
    origin: bool,
    feed: Arc<SplitFeed>,
    quarantine: QuarantineSlot,
    reading: Reading,
    volume: Volume,
    properties: Arc<PlanProperties>,
}

impl SplitScanExec {
    pub(crate) fn new(
        label: String,
        feed: Arc<SplitFeed>,
        quarantine: QuarantineSlot,
        projected_schema: SchemaRef,
        reading: Reading,
        partitions: usize,
        volume: Volume,
    ) -> Self {
        let properties = PlanProperties::new(
            EquivalenceProperties::new(projected_schema),
            Partitioning::UnknownPartitioning(partitions.max(1)),
            EmissionType::Incremental,
            Boundedness::Bounded,
        )
        .with_scheduling_type(SchedulingType::NonCooperative);
        SplitScanExec { label, origin: false, feed, quarantine, reading, volume, properties: Arc::new(properties) }
    }

    /// The same scan with [`ORIGIN`] as its last column.
    pub(crate) fn with_origin(&self) -> Self {
        let schema = self.properties.eq_properties.schema();
        let origin = Arc::new(Field::new(ORIGIN, DataType::UInt32, false));
        let fields: Vec<_> = schema.fields().iter().cloned().chain([origin]).collect();
        let schema = Arc::new(Schema::new_with_metadata(fields, schema.metadata().clone()));
        let properties = PlanProperties::new(
            EquivalenceProperties::new(schema),
            self.properties.partitioning.clone(),
            self.properties.emission_type,
            self.properties.boundedness,
        )
        .with_scheduling_type(SchedulingType::NonCooperative);
        SplitScanExec {
            label: self.label.clone(),
            origin: true,
            feed: self.feed.clone(),
            quarantine: self.quarantine.clone(),
            reading: self.reading.clone(),
            volume: self.volume,
            properties: Arc::new(properties),
        }
    }

    /// The number of the source, if it reads a stream.
    pub(crate) fn source(&self) -> Option<usize> {
        match self.volume {
            Volume::Unbounded(source) => Some(source),
            Volume::Bytes(_) => None,
        }
    }

    /// The condition without which a row does not count as read, as text.
    pub(crate) fn condition(&self) -> Option<String> {
        self.reading.condition.as_ref().map(ToString::to_string)
    }

    /// How the relation is called.
    pub(crate) fn label(&self) -> &str {
        &self.label
    }

    /// Whether there are splits that nobody has begun to read.
    pub(crate) fn is_unread(&self) -> bool {
        !self.feed.queue.lock().is_empty()
    }

    /// Whether it reads a stream, and not a table.
    pub(crate) fn is_stream(&self) -> bool {
        self.source().is_some()
    }
}

impl DisplayAs for SplitScanExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = self.properties.eq_properties.schema().fields().iter().map(|field| field.name().as_str()).collect();
        write!(f, "SplitScanExec: {} columns=[{}]", self.label, names.join(", "))?;
        match &self.reading.condition {
            Some(condition) => write!(f, " where {condition}"),
            None => Ok(()),
        }
    }
}

impl ExecutionPlan for SplitScanExec {
    fn name(&self) -> &'static str {
        "SplitScanExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![]
    }

    fn apply_expressions(&self, _: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> DfResult<TreeNodeRecursion>) -> DfResult<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn replace_children(self: Arc<Self>, _: Vec<Arc<dyn ExecutionPlan>>, _: ReplaceChildrenOptions) -> DfResult<Arc<dyn ExecutionPlan>> {
        Ok(self)
    }

    fn with_new_children(self: Arc<Self>, children: Vec<Arc<dyn ExecutionPlan>>) -> DfResult<Arc<dyn ExecutionPlan>> {
        self.replace_children(children, ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute))
    }

    fn execute(&self, _partition: usize, context: Arc<TaskContext>) -> DfResult<SendableRecordBatchStream> {
        let read = ReadContext {
            projection: self.reading.columns.clone(),
            batch_size: context.session_config().batch_size(),
            quarantine: self.quarantine.get(),
        };
        let feed = self.feed.clone();
        let splits = stream::iter(std::iter::from_fn({
            let feed = feed.clone();
            move || feed.next()
        }));
        let reading = self.reading.clone();
        let with_origin = self.origin.then(|| self.schema());
        let rows = splits
            .flat_map(move |(number, split)| split.read(read.clone()).map(move |batch| (number, batch)))
            .map(move |(number, batch)| {
                let batch = reading.counted(batch.map_err(to_datafusion)?)?;
                match &with_origin {
                    Some(schema) => originating(&batch, number, schema),
                    None => Ok(batch),
                }
            })
            .inspect_ok(move |batch| {
                feed.rows.fetch_add(batch.num_rows() as u64, Ordering::Relaxed);
            });
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.schema(), rows)))
    }

    fn statistics_from_inputs(&self, _: &[Arc<Statistics>], _: &StatisticsArgs) -> DfResult<Arc<Statistics>> {
        let mut statistics = Statistics::new_unknown(&self.schema());
        let bytes = match self.volume {
            Volume::Unbounded(_) => 1 << 50,
            Volume::Bytes(bytes) => usize::try_from(bytes).map_err(|error| DataFusionError::External(Box::new(error)))?,
        };
        statistics.total_byte_size = Precision::Inexact(bytes);
        statistics.num_rows = Precision::Inexact(bytes / 64);
        Ok(Arc::new(statistics))
    }
}

/// The rows with the number of their split as a last column.
fn originating(rows: &RecordBatch, number: u32, schema: &SchemaRef) -> DfResult<RecordBatch> {
    let origin = Arc::new(UInt32Array::from_value(number, rows.num_rows()));
    let columns = rows.columns().iter().cloned().chain([origin as _]).collect();
    RecordBatch::try_new(schema.clone(), columns).map_err(DataFusionError::from)
}
