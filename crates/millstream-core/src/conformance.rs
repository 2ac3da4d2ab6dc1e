//! Conformance suites: what every source and sink must do, as functions that a connector's tests call.
//!
//! A connector hands a factory to [`source::all`] or [`sink::all`]; the factory opens the connector as a new process would, so that a check
//! can restart it. A check returns what went wrong instead of panicking, and runs on any executor.

use std::fmt;

use arrow::array::RecordBatch;
use arrow::util::display::{ArrayFormatter, FormatOptions};

use crate::error::Error;

pub mod sink;
pub mod source;

#[cfg(test)]
mod tests;

/// Every check that failed, with its name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Failures(Vec<(&'static str, String)>);

impl Failures {
    /// The names of the checks that failed.
    pub fn names(&self) -> Vec<&'static str> {
        self.0.iter().map(|(name, _)| *name).collect()
    }

    fn note(&mut self, name: &'static str, outcome: Result<(), String>) {
        if let Err(what) = outcome {
            self.0.push((name, what));
        }
    }

    fn into_result(self) -> Result<(), Failures> {
        if self.0.is_empty() { Ok(()) } else { Err(self) }
    }
}

impl fmt::Display for Failures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|(name, what)| writeln!(f, "{name}: {what}"))
    }
}

impl std::error::Error for Failures {}

/// An error as the text of a failed check, with what was being done.
fn during(what: &'static str) -> impl Fn(Error) -> String {
    move |error| format!("{what}: {error}")
}

/// A failed check unless `holds`.
fn ensure(holds: bool, what: impl FnOnce() -> String) -> Result<(), String> {
    if holds { Ok(()) } else { Err(what()) }
}

/// Rows as text, sorted, so that two reads can be compared whatever the order and the sizes of their batches.
fn rows(batches: &[RecordBatch]) -> Result<Vec<String>, String> {
    let mut rows = Vec::new();
    for batch in batches {
        let options = FormatOptions::new().with_null("null");
        let columns = batch
            .columns()
            .iter()
            .map(|column| ArrayFormatter::try_new(column.as_ref(), &options))
            .collect::<Result<Vec<_>, _>>()
            .map_err(|error| format!("cannot show rows: {error}"))?;
        rows.extend(
            (0..batch.num_rows()).map(|row| columns.iter().map(|column| column.value(row).to_string()).collect::<Vec<_>>().join("|")),
        );
    }
    rows.sort_unstable();
    Ok(rows)
}
