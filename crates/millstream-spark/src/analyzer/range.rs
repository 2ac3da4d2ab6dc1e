//! `spark.range(…)` and `range(…)`.

use std::any::Any;
use std::fmt;
use std::sync::Arc;

use arrow::array::{Int64Array, RecordBatch};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use async_trait::async_trait;
use datafusion::catalog::{Session, TableProvider};
use datafusion::error::Result as DfResult;
use datafusion::logical_expr::{Expr, TableType};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::memory::{LazyBatchGenerator, LazyMemoryExec};
use millstream_core::{Error, Result};
use parking_lot::RwLock;
use spark_connect_proto::Range;

use super::read::scan;
use super::relation::{Analyzer, Node};

const BATCH: usize = 8_192;

impl Analyzer<'_> {
    pub(super) fn range(&self, range: &Range) -> Result<Node> {
        sequence(range.start.unwrap_or(0), range.end, range.step, range.num_partitions)
    }
}

/// The numbers from `start` on, `step` apart, before `end`.
pub(super) fn sequence(start: i64, end: i64, step: i64, partitions: Option<i32>) -> Result<Node> {
    if step == 0 {
        return Err(Error::invalid("INVALID_PARAMETER_VALUE", "the step of a range cannot be 0").with_sqlstate("22023"));
    }
    let partitions = usize::try_from(partitions.unwrap_or(1)).unwrap_or(1).clamp(1, 1_024);
    let table = RangeTable { schema: Arc::new(Schema::new(vec![Field::new("id", DataType::Int64, false)])), start, end, step, partitions };
    let mut node = scan(Arc::new(table), &["range".to_owned()])?;
    for column in &mut node.columns {
        column.qualifier.clear();
    }
    Ok(node)
}

#[derive(Clone, Debug)]
struct RangeTable {
    schema: SchemaRef,
    start: i64,
    end: i64,
    step: i64,
    partitions: usize,
}

impl RangeTable {
    /// How many numbers there are.
    fn len(&self) -> u128 {
        let span = i128::from(self.end) - i128::from(self.start);
        let step = i128::from(self.step);
        if span == 0 || (span > 0) != (step > 0) { 0 } else { span.unsigned_abs().div_ceil(step.unsigned_abs()) }
    }
}

#[async_trait]
impl TableProvider for RangeTable {
    fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }

    fn table_type(&self) -> TableType {
        TableType::Temporary
    }

    async fn scan(
        &self,
        _: &dyn Session,
        projection: Option<&Vec<usize>>,
        _: &[Expr],
        _: Option<usize>,
    ) -> DfResult<Arc<dyn ExecutionPlan>> {
        let length = self.len();
        let partitions = self.partitions as u128;
        let generators = (0..partitions)
            .map(|partition| {
                let (from, to) = (partition * length / partitions, (partition + 1) * length / partitions);
                let numbers = Numbers { schema: self.schema.clone(), start: self.start, step: self.step, first: from, next: from, end: to };
                Arc::new(RwLock::new(numbers)) as Arc<RwLock<dyn LazyBatchGenerator>>
            })
            .collect();
        Ok(Arc::new(LazyMemoryExec::try_new(self.schema.clone(), generators)?.with_projection(projection.cloned())))
    }
}

/// The numbers of a partition, by their place in the whole.
#[derive(Clone, Debug)]
struct Numbers {
    schema: SchemaRef,
    start: i64,
    step: i64,
    first: u128,
    next: u128,
    end: u128,
}

impl fmt::Display for Numbers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Range: start={}, step={}, numbers={}..{}", self.start, self.step, self.first, self.end)
    }
}

impl LazyBatchGenerator for Numbers {
    fn as_any(&self) -> &dyn Any {
        self
    }

    fn generate_next_batch(&mut self) -> DfResult<Option<RecordBatch>> {
        let until = self.end.min(self.next + BATCH as u128);
        if self.next >= until {
            return Ok(None);
        }
        // Within the bounds of the range every product and sum fits; wrapping keeps what cannot happen from panicking.
        let number = |place: u128| self.start.wrapping_add(self.step.wrapping_mul(place as i64));
        let values: Int64Array = (self.next..until).map(number).collect::<Vec<i64>>().into();
        self.next = until;
        Ok(Some(RecordBatch::try_new(self.schema.clone(), vec![Arc::new(values)])?))
    }

    fn reset_state(&self) -> Arc<RwLock<dyn LazyBatchGenerator>> {
        Arc::new(RwLock::new(Numbers { next: self.first, ..self.clone() }))
    }
}
