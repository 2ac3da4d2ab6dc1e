//! How the watermark reaches the operators of a plan, one above the other.
//!
//! Each watermark node starts with the query's watermark. Operators pass their input watermark on, or less (joins, whose rows can be older);
//! an operator over several inputs has the smallest of theirs. Rules: `reference/spark-semantics.md` §2.

use std::sync::Arc;

use millstream_core::lateness::Tally;
use millstream_core::watermark::Watermarks;
use millstream_core::{Error, Result};

use super::event_time::{EventTime, Seen};
use super::fingerprint::Fingerprint;
use super::lateness::{LateCounter, LateRows, Origins};
use super::operator::Operator;
use crate::from_datafusion;

/// A plan as the watermark sees it.
#[derive(Clone, Debug)]
pub(crate) enum Node {
    /// Neither watermark nor operator: the smallest of the inputs.
    Through(Vec<Node>),
    /// A watermark over an input that must have none.
    Origin(Box<Node>),
    /// The operator at this index.
    Operator(usize, Vec<Node>),
}

/// The event time of a query: its watermark nodes, its stateful operators, and how they are connected.
#[derive(Debug, Default)]
pub(crate) struct TimeFlow {
    root: Option<Node>,
    /// From the top of the plan down, inputs from left to right.
    pub(crate) operators: Vec<Arc<Operator>>,
    /// In the same order.
    pub(crate) event_times: Vec<Arc<EventTime>>,
    /// Late rows at the inputs of operators that read sources.
    late: Vec<Arc<LateCounter>>,
    /// What the query means.
    pub(crate) fingerprint: Fingerprint,
    /// The splits of the running batch.
    pub(crate) origins: Arc<Origins>,
    /// Whether operators have watermarks of their own.
    propagate: bool,
}

impl TimeFlow {
    pub(crate) fn new(
        root: Node,
        operators: Vec<Arc<Operator>>,
        event_times: Vec<Arc<EventTime>>,
        late: Vec<Arc<LateCounter>>,
        fingerprint: Fingerprint,
        propagate: bool,
    ) -> Self {
        TimeFlow { root: Some(root), operators, event_times, late, fingerprint, origins: Arc::default(), propagate }
    }

    /// Whether any batch depends on more than its own rows.
    pub(crate) fn is_stateless(&self) -> bool {
        self.operators.is_empty() && self.event_times.is_empty()
    }

    /// Starts the batch of this number, whose watermark is `evict_ms`, after one whose watermark was `late_ms`.
    ///
    /// # Errors
    /// `_LEGACY_ERROR_TEMP_3076` when the watermark is defined anew above another.
    pub(crate) fn begin(&self, time: Watermarks, batch: u64) -> Result<()> {
        let evict = self.inputs(time.evict_ms)?;
        let late = if self.propagate { self.inputs(time.late_ms)? } else { evict.clone() };
        for counter in &self.late {
            counter.begin(late.get(counter.operator).copied().unwrap_or(i64::MIN));
        }
        let passed_ms = if self.propagate { time.late_ms } else { time.evict_ms };
        self.event_times.iter().for_each(|event_time| event_time.begin(passed_ms));
        for ((operator, late_ms), evict_ms) in self.operators.iter().zip(late).zip(evict) {
            operator.begin(Watermarks { late_ms, evict_ms }, batch);
        }
        Ok(())
    }

    /// Waits for the tasks whose rows the plan did not take to the end.
    ///
    /// # Errors
    /// Those of the operators.
    pub(crate) async fn settle(&self) -> Result<()> {
        for operator in &self.operators {
            operator.settle_abandoned().await.map_err(from_datafusion)?;
        }
        Ok(())
    }

    /// Stops what still runs of a batch that failed.
    pub(crate) fn give_up(&self) {
        self.operators.iter().for_each(|operator| operator.give_up());
    }

    /// Whether rows are counted by the splits that they are from.
    pub(crate) fn counts_origins(&self) -> bool {
        !self.event_times.is_empty()
    }

    /// Where the late rows of the batch go.
    pub(crate) fn send_late_rows(&self, rows: Option<&LateRows>) {
        self.late.iter().for_each(|counter| counter.send_rows(rows.cloned()));
    }

    /// How many rows of sources the operator at this index left out because they were late; `None` where that is not counted.
    pub(crate) fn late_rows_of(&self, operator: usize) -> Option<u64> {
        let mut counters = self.late.iter().filter(|counter| counter.operator == operator).peekable();
        counters.peek()?;
        Some(counters.flat_map(|counter| counter.tallies.resolve(&self.origins, &counter.sources)).map(|(.., tally)| tally.late).sum())
    }

    /// What the batch counted of late rows, and of rows by how far behind they were: the source, the partition, the counts.
    pub(crate) fn lateness(&self) -> Vec<(Option<usize>, Option<String>, Tally)> {
        let behind = self.event_times.iter().flat_map(|event_time| event_time.behind.resolve(&self.origins, &event_time.sources));
        let late = self.late.iter().flat_map(|counter| counter.tallies.resolve(&self.origins, &counter.sources));
        behind.chain(late).collect()
    }

    /// Whether a batch without data would do something at this watermark.
    ///
    /// # Errors
    /// As [`TimeFlow::begin`].
    pub(crate) fn wants_another_batch(&self, watermark_ms: i64) -> Result<bool> {
        let inputs = self.inputs(watermark_ms)?;
        Ok(self.operators.iter().zip(inputs).any(|(operator, input_ms)| operator.wants_another_batch(input_ms)))
    }

    /// When a batch without data would do something because of the time of the batch, milliseconds.
    pub(crate) fn due_ms(&self) -> Option<i64> {
        self.operators.iter().filter_map(|operator| operator.due_ms()).min()
    }

    /// The largest event time (microseconds) that each watermark node saw in the batch.
    pub(crate) fn max_event_times(&self) -> Vec<Option<i64>> {
        let largest = |seen: Seen| (seen.rows > 0).then(|| seen.max_ms.saturating_mul(1_000));
        self.event_times.iter().map(|event_time| largest(event_time.seen())).collect()
    }

    /// The delays of the watermark nodes, milliseconds.
    pub(crate) fn delays_ms(&self) -> Vec<i64> {
        self.event_times.iter().map(|event_time| event_time.delay_ms).collect()
    }

    /// What the first watermark node that saw rows saw.
    pub(crate) fn seen(&self) -> Option<Seen> {
        self.event_times.iter().map(|event_time| event_time.seen()).find(|seen| seen.rows > 0)
    }

    /// The input watermark of every operator.
    fn inputs(&self, watermark_ms: i64) -> Result<Vec<i64>> {
        let mut inputs = vec![if self.propagate { 0 } else { watermark_ms }; self.operators.len()];
        // Before time passes for the first time, nothing is propagated and so nothing can be wrong.
        if self.propagate
            && watermark_ms != 0
            && let Some(root) = &self.root
        {
            self.visit(root, watermark_ms, &mut inputs)?;
        }
        Ok(inputs)
    }

    fn visit(&self, node: &Node, watermark_ms: i64, inputs: &mut [i64]) -> Result<Option<i64>> {
        match node {
            Node::Through(children) => self.smallest(children, watermark_ms, inputs),
            Node::Origin(input) => match self.visit(input, watermark_ms, inputs)? {
                None => Ok(Some(watermark_ms)),
                Some(_) => Err(Error::invalid(
                    "_LEGACY_ERROR_TEMP_3076",
                    "Redefining watermark is disallowed. You can set the config 'spark.sql.streaming.statefulOperator.allowMultiple' to \
                     'false' to restore the previous behavior. Note that multiple stateful operators will be disallowed.",
                )),
            },
            Node::Operator(index, children) => {
                let input = self.smallest(children, watermark_ms, inputs)?;
                if let Some(slot) = inputs.get_mut(*index) {
                    *slot = input.unwrap_or(0);
                }
                // Without event time below there is none above either, so that a watermark can be defined there.
                let Some(input) = input else { return Ok(None) };
                Ok(self.operators.get(*index).map_or(Some(input), |operator| operator.output_watermark(input)))
            }
        }
    }

    fn smallest(&self, children: &[Node], watermark_ms: i64, inputs: &mut [i64]) -> Result<Option<i64>> {
        let mut smallest: Option<i64> = None;
        for child in children {
            let output = self.visit(child, watermark_ms, inputs)?;
            smallest = [smallest, output].into_iter().flatten().min();
        }
        Ok(smallest)
    }
}
