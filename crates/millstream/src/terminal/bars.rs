//! Progress bars while a run goes on, and a closing table, for people.

use std::collections::BTreeMap;
use std::io::Write;
use std::sync::Mutex;
use std::time::Duration;

use comfy_table::presets::UTF8_FULL_CONDENSED;
use comfy_table::{Cell, CellAlignment, Table};
use indicatif::{MultiProgress, ProgressBar, ProgressStyle};
use millstream_spark::pipelines::{FlowStatus, FlowSummary, PipelineEvent, RunSummary};

use super::Reporter;

/// One line per flow on standard error, drawn only on a terminal; the closing table goes to standard output.
pub(crate) struct Bars {
    bars: MultiProgress,
    flows: Mutex<BTreeMap<String, Line>>,
}

struct Line {
    bar: ProgressBar,
    rows: u64,
    splits: u64,
    quarantined: u64,
}

impl Bars {
    /// No flows yet.
    pub(crate) fn new() -> Self {
        Bars { bars: MultiProgress::new(), flows: Mutex::default() }
    }

    fn with_line(&self, flow: &str, show: impl FnOnce(&mut Line)) {
        let mut flows = self.flows.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let line = flows.entry(flow.to_owned()).or_insert_with(|| {
            let bar = self.bars.add(ProgressBar::new_spinner());
            if let Ok(style) = ProgressStyle::with_template("{spinner} {prefix:<32} {msg}") {
                bar.set_style(style);
            }
            bar.set_prefix(flow.to_owned());
            bar.enable_steady_tick(Duration::from_millis(120));
            Line { bar, rows: 0, splits: 0, quarantined: 0 }
        });
        show(line);
    }
}

impl Reporter for Bars {
    fn event(&self, event: &PipelineEvent) {
        match event {
            PipelineEvent::Started { flow } => self.with_line(flow, |line| line.bar.set_message("started")),
            PipelineEvent::Progress { flow, progress } => self.with_line(flow, |line| {
                line.rows += progress.num_input_rows;
                line.splits += progress.millstream.splits;
                line.quarantined += progress.millstream.quarantined;
                let mut message = format!(
                    "batch {}  {} rows  {} splits  {}/s",
                    progress.batch_id,
                    grouped(line.rows),
                    grouped(line.splits),
                    grouped(progress.processed_rows_per_second as u64)
                );
                if line.quarantined > 0 {
                    message.push_str(&format!("  {} quarantined", grouped(line.quarantined)));
                }
                line.bar.set_message(message);
            }),
            PipelineEvent::Retrying { flow, error, pause } => {
                let message = format!("failed, trying again in {} s: {error}", pause.as_secs());
                self.with_line(flow, |line| line.bar.set_message(message));
            }
            PipelineEvent::Refreshed { flow, rows } => {
                self.with_line(flow, |line| line.bar.set_message(format!("refreshed: {} rows", grouped(*rows))));
            }
            PipelineEvent::Finished(summary) => self.with_line(&summary.name, |line| {
                line.bar.finish_with_message(format!("{} in {:.1} s", status(summary.status), summary.elapsed.as_secs_f64()));
            }),
        }
    }

    fn summary(&self, summary: &RunSummary) -> std::io::Result<()> {
        drop(self.bars.clear());
        let mut out = std::io::stdout().lock();
        writeln!(out, "{}", closing_table(summary))?;
        for flow in &summary.flows {
            for (name, counts) in &flow.counts.expectations {
                let (passed, failed) = (grouped(counts.passed), grouped(counts.failed));
                writeln!(out, "{}: expectation {name}: {passed} passed, {failed} failed", flow.table)?;
            }
        }
        for flow in &summary.flows {
            if let Some(error) = &flow.error {
                writeln!(out, "{} failed: {error}", flow.name)?;
            }
        }
        out.flush()
    }
}

fn closing_table(summary: &RunSummary) -> Table {
    let mut table = Table::new();
    table.load_preset(UTF8_FULL_CONDENSED);
    table.set_header(["flow", "table", "status", "rows in", "rows out", "splits", "late", "quarantined", "batches", "seconds"]);
    for flow in &summary.flows {
        table.add_row(row(flow));
    }
    for column in table.column_iter_mut().skip(3) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}

fn row(flow: &FlowSummary) -> Vec<Cell> {
    let counts = &flow.counts;
    let numbers = [counts.input_rows, counts.output_rows, counts.splits, counts.late_rows, counts.quarantined, counts.batches];
    let mut cells = vec![Cell::new(&flow.name), Cell::new(&flow.table), Cell::new(status(flow.status))];
    cells.extend(numbers.map(|number| Cell::new(grouped(number))));
    cells.push(Cell::new(format!("{:.2}", flow.elapsed.as_secs_f64())));
    cells
}

fn status(status: FlowStatus) -> &'static str {
    match status {
        FlowStatus::Completed => "completed",
        FlowStatus::Unchanged => "unchanged",
        FlowStatus::Failed => "FAILED",
        FlowStatus::Skipped => "skipped",
        FlowStatus::Stopped => "stopped",
    }
}

/// A number with its thousands apart: `24,951`.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thousands_are_apart() {
        for (number, text) in [(0, "0"), (999, "999"), (1_000, "1,000"), (24_951, "24,951"), (1_234_567, "1,234,567")] {
            assert_eq!(grouped(number), text);
        }
    }
}
