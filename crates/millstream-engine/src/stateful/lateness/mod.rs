//! Which rows were late, and how late rows are: exact, before rows are aggregated, and by the split that each row is from.
//!
//! Where the plan between a scan and an operator allows it, rows carry the number of their split in a last column ([`origin`]), as far as the
//! operator's input. There a node counts the rows that the operator is about to leave out ([`LateRowsExec`]). Watermark nodes count all rows by
//! how far behind they are.

mod exec;
mod late_rows;
mod origin;

use std::collections::BTreeMap;

use arrow::array::{Array, Int64Array, RecordBatch, UInt32Array};
use arrow::compute::{max, min};
use millstream_core::lateness::Tally;
use millstream_core::progress::{LateOrigin, MAX_ORIGINS};
use parking_lot::Mutex;

pub(crate) use exec::{LateCounter, LateRowsExec, Rule};
pub(crate) use late_rows::{LateRows, schema as late_rows_schema};
pub(crate) use origin::originating;

use crate::scan::ORIGIN;

/// The splits of a batch, by the numbers that rows carry.
#[derive(Debug, Default)]
pub(crate) struct Origins(Mutex<Vec<(usize, String)>>);

impl Origins {
    /// Forgets the splits of the last batch.
    pub(crate) fn clear(&self) {
        self.0.lock().clear();
    }

    /// Adds the splits of a source, and returns the number of the first.
    pub(crate) fn add(&self, source: usize, labels: impl Iterator<Item = String>) -> u32 {
        let mut splits = self.0.lock();
        let first = u32::try_from(splits.len()).unwrap_or(u32::MAX);
        splits.extend(labels.map(|label| (source, label)));
        first
    }

    /// The source and the label of a split.
    pub(crate) fn get(&self, number: u32) -> Option<(usize, String)> {
        self.0.lock().get(usize::try_from(number).ok()?).cloned()
    }
}

/// Counts by split; what is of no known split is under `None`.
#[derive(Debug, Default)]
pub(crate) struct Tallies(Mutex<BTreeMap<Option<u32>, Tally>>);

impl Tallies {
    /// Starts a batch.
    pub(crate) fn begin(&self) {
        self.0.lock().clear();
    }

    /// Counts something of rows of one split.
    pub(crate) fn count(&self, origin: Option<u32>, count: impl FnOnce(&mut Tally)) {
        count(self.0.lock().entry(origin).or_default());
    }

    /// What was counted, by source and partition; `sources` are those below.
    pub(crate) fn resolve(&self, origins: &Origins, sources: &[usize]) -> Vec<(Option<usize>, Option<String>, Tally)> {
        let only = match sources {
            [only] => Some(*only),
            _ => None,
        };
        let resolve = |(number, tally): (&Option<u32>, &Tally)| match number.and_then(|number| origins.get(number)) {
            Some((source, label)) => (Some(source), Some(label), tally.clone()),
            None => (only, None, tally.clone()),
        };
        self.0.lock().iter().map(resolve).collect()
    }
}

/// The rows of each split in a batch of rows: the split, and from where to where. Rows of a split follow each other.
pub(crate) fn runs(rows: &RecordBatch) -> Vec<(Option<u32>, std::ops::Range<usize>)> {
    let Some(origins) = origins_of(rows) else { return vec![(None, 0..rows.num_rows())] };
    if min(origins) == max(origins) {
        return vec![(min(origins), 0..rows.num_rows())];
    }
    let mut runs: Vec<(Option<u32>, std::ops::Range<usize>)> = Vec::new();
    for (row, origin) in origins.values().iter().enumerate() {
        match runs.last_mut().filter(|(last, _)| *last == Some(*origin)) {
            Some((_, range)) => range.end = row + 1,
            None => runs.push((Some(*origin), row..row + 1)),
        }
    }
    runs
}

/// The column that says which split rows are from, where there is one.
fn origins_of(rows: &RecordBatch) -> Option<&UInt32Array> {
    let schema = rows.schema_ref();
    schema.fields().last().filter(|field| field.name() == ORIGIN)?;
    rows.columns().last()?.as_any().downcast_ref()
}

/// Counts rows by how far (milliseconds) their event times (microseconds) are behind `newest_ms`.
pub(crate) fn tally(rows: &RecordBatch, times: &Int64Array, newest_ms: i64, tallies: &Tallies) {
    let earliest_ms = min(times).map_or(i64::MAX, |time| time.div_euclid(1_000));
    for (origin, range) in runs(rows) {
        let part = times.slice(range.start, range.len());
        let count = (part.len() - part.null_count()) as u64;
        tallies.count(origin, |tally| {
            if earliest_ms >= newest_ms {
                tally.add(0, count);
            } else {
                tally.add_each(part.iter().flatten().map(|time| newest_ms.saturating_sub(time.div_euclid(1_000))));
            }
        });
    }
}

/// The origins of late rows for a report, most first.
pub(crate) fn late_origins(counted: &[(Option<usize>, Option<String>, Tally)]) -> Vec<LateOrigin> {
    let mut found: BTreeMap<(Option<usize>, Option<&str>), (u64, u64)> = BTreeMap::new();
    for (source, partition, tally) in counted.iter().filter(|(.., tally)| tally.late > 0 || tally.partly_late > 0) {
        let (late, partly) = found.entry((*source, partition.as_deref())).or_default();
        (*late, *partly) = (*late + tally.late, *partly + tally.partly_late);
    }
    let mut found: Vec<LateOrigin> = found
        .into_iter()
        .map(|((source, partition), (late_rows, partly_late_rows))| LateOrigin {
            source,
            partition: partition.map(str::to_owned),
            late_rows,
            partly_late_rows,
        })
        .collect();
    found.sort_by_key(|origin| std::cmp::Reverse((origin.late_rows, origin.partly_late_rows)));
    if found.len() > MAX_ORIGINS {
        let rest = found.split_off(MAX_ORIGINS - 1);
        found.push(LateOrigin {
            source: None,
            partition: None,
            late_rows: rest.iter().map(|origin| origin.late_rows).sum(),
            partly_late_rows: rest.iter().map(|origin| origin.partly_late_rows).sum(),
        });
    }
    found
}
