//! Windows that overlap.

use std::cmp::Ordering;
use std::collections::{HashMap, HashSet};
use std::fmt;
use std::sync::Arc;

use arrow::datatypes::{DataType, Field, Fields};
use datafusion::common::{DFSchema, DFSchemaRef};
use datafusion::error::Result as DfResult;
use datafusion::logical_expr::{Expr, ExprSchemable, Extension, LogicalPlan, UserDefinedLogicalNodeCore};
use millstream_core::Result;

use super::WATERMARK_DELAY;
use super::watermark::take;
use crate::from_datafusion;

/// Where windows begin and how long they are, in microseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Slide {
    /// The length of a window, positive.
    pub width: i64,
    /// From the begin of a window to that of the next one, positive and at most `width`.
    pub slide: i64,
    /// Windows begin at multiples of `slide` after this.
    pub start: i64,
}

impl Slide {
    /// Whether no instant is in two windows.
    pub(crate) fn is_tumbling(self) -> bool {
        self.width == self.slide
    }

    /// The number of the last window that ends at or before `instant`; windows are numbered by their begins.
    pub(crate) fn last_closed(self, instant: i64) -> i64 {
        instant.saturating_sub(self.width).saturating_sub(self.start).div_euclid(self.slide)
    }

    /// The numbers of the first and the last window that `instant` is in.
    pub(crate) fn span(self, instant: i64) -> (i64, i64) {
        let last = instant.saturating_sub(self.start).div_euclid(self.slide);
        (self.last_closed(instant).saturating_add(1).min(last), last)
    }

    /// The begin of a window.
    pub(crate) fn begin(self, number: i64) -> i64 {
        self.start.saturating_add(number.saturating_mul(self.slide))
    }

    /// The end of a window.
    pub(crate) fn end(self, number: i64) -> i64 {
        self.begin(number).saturating_add(self.width)
    }

    /// The begins of the windows that `instant` is in, the latest first.
    pub(crate) fn begins(self, instant: i64) -> impl Iterator<Item = i64> {
        let (first, last) = self.span(instant);
        (first..=last).rev().map(move |number| self.begin(number))
    }

    /// The begin of the slice that `instant` is in. Slices lie between the edges of windows, so all instants of a slice are in the same
    /// windows; there are one or two for each slide.
    pub(crate) fn slice(self, instant: i64) -> i64 {
        let since = instant.saturating_sub(self.start).rem_euclid(self.slide);
        let edge = self.width.rem_euclid(self.slide);
        instant.saturating_sub(if edge > 0 && since >= edge { since - edge } else { since })
    }
}

/// Each row once for every window that its time is in. Rows without a time are in none.
///
/// The columns are those of the input and then the window, a struct `{start, end}` that is event time where the time is.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct SlidingWindow {
    pub(crate) input: LogicalPlan,
    pub(crate) time: Expr,
    pub(crate) slide: Slide,
    /// The name of the window's column.
    pub(crate) window: String,
    schema: DFSchemaRef,
}

impl SlidingWindow {
    /// Windows of `time`, a timestamp, in a column called `window`.
    ///
    /// # Errors
    /// Those of resolving `time` against the input.
    pub fn try_new(input: LogicalPlan, time: Expr, slide: Slide, window: impl Into<String>) -> Result<SlidingWindow> {
        Self::over(input, time, slide, window.into()).map_err(from_datafusion)
    }

    /// The node as a plan.
    pub fn into_plan(self) -> LogicalPlan {
        LogicalPlan::Extension(Extension { node: Arc::new(self) })
    }

    pub(crate) fn schema_ref(&self) -> &DFSchemaRef {
        &self.schema
    }

    fn over(input: LogicalPlan, time: Expr, slide: Slide, window: String) -> DfResult<SlidingWindow> {
        let field = window_field(&window, &time.to_field(input.schema())?.1);
        let fields = input.schema().iter().map(|(qualifier, field)| (qualifier.cloned(), field.clone()));
        let fields = fields.chain([(None, Arc::new(field))]).collect();
        let schema = Arc::new(DFSchema::new_with_metadata(fields, input.schema().metadata().clone())?);
        Ok(SlidingWindow { input, time, slide, window, schema })
    }
}

/// The column of windows over times of this field.
fn window_field(name: &str, time: &Field) -> Field {
    let bound = |name: &str| Field::new(name, time.data_type().clone(), true);
    let delay = time.metadata().get_key_value(WATERMARK_DELAY).map(|(key, delay)| (key.clone(), delay.clone()));
    let metadata: HashMap<String, String> = delay.into_iter().chain([("spark.timeWindow".to_owned(), "true".to_owned())]).collect();
    Field::new(name, DataType::Struct(Fields::from(vec![bound("start"), bound("end")])), false).with_metadata(metadata)
}

impl PartialOrd for SlidingWindow {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        match self.input.partial_cmp(&other.input) {
            Some(Ordering::Equal) => (&self.time, self.slide, &self.window).partial_cmp(&(&other.time, other.slide, &other.window)),
            order => order,
        }
    }
}

impl UserDefinedLogicalNodeCore for SlidingWindow {
    fn name(&self) -> &'static str {
        "SlidingWindow"
    }

    fn inputs(&self) -> Vec<&LogicalPlan> {
        vec![&self.input]
    }

    fn schema(&self) -> &DFSchemaRef {
        &self.schema
    }

    fn expressions(&self) -> Vec<Expr> {
        vec![self.time.clone()]
    }

    fn prevent_predicate_push_down_columns(&self) -> HashSet<String> {
        HashSet::from([self.window.clone()])
    }

    fn fmt_for_explain(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "SlidingWindow: {} {:?} AS {}", self.time, self.slide, self.window)
    }

    fn with_exprs_and_inputs(&self, exprs: Vec<Expr>, inputs: Vec<LogicalPlan>) -> DfResult<Self> {
        let [time] = take(exprs)?;
        let [input] = take(inputs)?;
        Self::over(input, time, self.slide, self.window.clone())
    }

    fn necessary_children_exprs(&self, output_columns: &[usize]) -> Option<Vec<Vec<usize>>> {
        let width = self.input.schema().fields().len();
        Some(vec![output_columns.iter().copied().filter(|index| *index < width).collect()])
    }
}
