//! `withWatermark`.

use std::cmp::Ordering;
use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;

use arrow::datatypes::{DataType, Field, TimeUnit};
use datafusion::common::{Column, DFSchema, DFSchemaRef};
use datafusion::error::Result as DfResult;
use datafusion::logical_expr::{Expr, Extension, LogicalPlan, UserDefinedLogicalNodeCore};
use millstream_core::{Error, Result};

use super::{WATERMARK_DELAY, event_time_delay};
use crate::{from_datafusion, to_datafusion};

const DAY_MS: i64 = 86_400_000;
/// A month in a delay: as long as the longest there is, so that a watermark is never too early.
const MONTH_DAYS: i64 = 31;

/// The length in milliseconds of a watermark's delay given as an interval; microseconds below a millisecond are cut off.
///
/// # Errors
/// `IllegalArgumentException` for a negative delay, as in Spark, and `ARITHMETIC_OVERFLOW` for one beyond the range of milliseconds.
pub fn delay_ms(months: i32, days: i32, micros: i64) -> Result<i64> {
    let days = i64::from(months) * MONTH_DAYS + i64::from(days);
    let total_us = i128::from(days) * i128::from(DAY_MS) * 1_000 + i128::from(micros);
    if total_us < 0 {
        return Err(Error::invalid("IllegalArgumentException", "requirement failed: the delay threshold should not be negative."));
    }
    i64::try_from(total_us / 1_000)
        .map_err(|_| Error::invalid("ARITHMETIC_OVERFLOW", "the delay threshold is too long for milliseconds").with_sqlstate("22003"))
}

/// Marks a column as event time, whose watermark follows the largest value seen at a distance. The schema is that of the input, with the
/// delay in the column's metadata and in that of no other column. Rows pass unchanged.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Watermark {
    pub(crate) input: LogicalPlan,
    pub(crate) column: Expr,
    pub(crate) delay_ms: i64,
    schema: DFSchemaRef,
}

impl Watermark {
    /// A watermark on `column` of `input` that stays `delay_ms` behind.
    ///
    /// # Errors
    /// `EVENT_TIME_IS_NOT_ON_TIMESTAMP_TYPE` unless the column is a timestamp or a time window; `UNRESOLVED_COLUMN` when there is none.
    pub fn try_new(input: LogicalPlan, column: impl Into<Column>, delay_ms: i64) -> Result<Watermark> {
        Self::over(input, Expr::Column(column.into()), delay_ms).map_err(from_datafusion)
    }

    /// The node as a plan.
    pub fn into_plan(self) -> LogicalPlan {
        LogicalPlan::Extension(Extension { node: Arc::new(self) })
    }

    fn over(input: LogicalPlan, column: Expr, delay_ms: i64) -> DfResult<Watermark> {
        let index = index_of(input.schema(), &column)?;
        let field = input.schema().field(index);
        if !is_event_time(field.data_type()) {
            return Err(to_datafusion(
                Error::invalid(
                    "EVENT_TIME_IS_NOT_ON_TIMESTAMP_TYPE",
                    format!("The event time {} has the invalid type {}, but expected \"TIMESTAMP\".", field.name(), field.data_type()),
                )
                .with_sqlstate("42K09"),
            ));
        }
        let fields = input.schema().iter().enumerate().map(|(at, (qualifier, field))| {
            let field = if at == index {
                Arc::new(marked(field, Some(delay_ms)))
            } else if event_time_delay(field).is_some() {
                Arc::new(marked(field, None))
            } else {
                field.clone()
            };
            (qualifier.cloned(), field)
        });
        let schema = Arc::new(DFSchema::new_with_metadata(fields.collect(), input.schema().metadata().clone())?);
        Ok(Watermark { input, column, delay_ms, schema })
    }

    /// The position of the column in the schema.
    pub(crate) fn column_index(&self) -> DfResult<usize> {
        index_of(self.input.schema(), &self.column)
    }
}

/// The field with the delay in its metadata, or without any.
pub(crate) fn marked(field: &Field, delay_ms: Option<i64>) -> Field {
    let mut metadata = field.metadata().clone();
    match delay_ms {
        Some(delay) => drop(metadata.insert(WATERMARK_DELAY.to_owned(), delay.to_string())),
        None => drop(metadata.remove(WATERMARK_DELAY)),
    }
    field.clone().with_metadata(metadata)
}

fn index_of(schema: &DFSchema, column: &Expr) -> DfResult<usize> {
    match column {
        Expr::Column(column) => schema.index_of_column(column),
        other => Err(to_datafusion(Error::internal(format!("the event time {other} is not a column")))),
    }
}

/// Whether values of the type can be event time: instants, and windows of them. A wall clock cannot.
pub(super) fn is_event_time(data_type: &DataType) -> bool {
    let instant = |data_type: &DataType| matches!(data_type, DataType::Timestamp(TimeUnit::Microsecond, Some(_)));
    match data_type {
        DataType::Struct(fields) => fields.iter().any(|field| field.name() == "end" && instant(field.data_type())),
        other => instant(other),
    }
}

impl PartialOrd for Watermark {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        let keys = |node: &Self| (node.column.clone(), node.delay_ms);
        match self.input.partial_cmp(&other.input) {
            Some(Ordering::Equal) => keys(self).partial_cmp(&keys(other)),
            order => order,
        }
    }
}

impl UserDefinedLogicalNodeCore for Watermark {
    fn name(&self) -> &'static str {
        "Watermark"
    }

    fn inputs(&self) -> Vec<&LogicalPlan> {
        vec![&self.input]
    }

    fn schema(&self) -> &DFSchemaRef {
        &self.schema
    }

    fn expressions(&self) -> Vec<Expr> {
        vec![self.column.clone()]
    }

    /// A filter on event time stays above, so that the rows that it drops still let time pass; other filters move below.
    fn prevent_predicate_push_down_columns(&self) -> HashSet<String> {
        self.column.column_refs().into_iter().map(|column| column.name.clone()).collect()
    }

    fn fmt_for_explain(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "Watermark: {} delay={} ms", self.column, self.delay_ms)
    }

    fn with_exprs_and_inputs(&self, exprs: Vec<Expr>, inputs: Vec<LogicalPlan>) -> DfResult<Self> {
        let [column] = take(exprs)?;
        let [input] = take(inputs)?;
        Self::over(input, column, self.delay_ms)
    }

    fn necessary_children_exprs(&self, output_columns: &[usize]) -> Option<Vec<Vec<usize>>> {
        Some(vec![output_columns.to_vec()])
    }
}

/// The parts that DataFusion hands back to a node, in the number that the node gave.
pub(super) fn take<T, const N: usize>(parts: Vec<T>) -> DfResult<[T; N]> {
    let found = parts.len();
    parts.try_into().map_err(|_| to_datafusion(Error::internal(format!("a node with {N} parts was given {found}"))))
}
