//! Lines that arrived and whose batch is not committed yet.

use std::collections::VecDeque;

use millstream_core::{Error, ErrorKind, Result};
use parking_lot::Mutex;
use tokio::sync::Notify;

/// What a line costs beyond its text.
const PER_LINE: u64 = 32;

/// A line and the time at which it arrived, milliseconds since the epoch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Line {
    pub(super) text: String,
    pub(super) arrived_ms: i64,
}

/// Numbered lines, bounded in bytes.
#[derive(Debug)]
pub(super) struct Buffer {
    lines: Mutex<Lines>,
    limit: u64,
    /// A line came since someone last waited.
    pub(super) grew: Notify,
    /// Lines left.
    shrank: Notify,
}

#[derive(Debug)]
struct Lines {
    /// The number of the first line that is held.
    first: i64,
    held: VecDeque<Line>,
    bytes: u64,
    failure: Option<String>,
}

fn cost(line: &Line) -> u64 {
    line.text.len() as u64 + PER_LINE
}

impl Buffer {
    pub(super) fn new(limit: u64) -> Self {
        let lines = Lines { first: 0, held: VecDeque::new(), bytes: 0, failure: None };
        Buffer { lines: Mutex::new(lines), limit, grew: Notify::new(), shrank: Notify::new() }
    }

    /// The number of the newest line, one less than that of the first when none is held.
    pub(super) fn newest(&self) -> i64 {
        let lines = self.lines.lock();
        lines.first + i64::try_from(lines.held.len()).unwrap_or(i64::MAX) - 1
    }

    /// The lines from here on are numbered behind `committed`; lines before it were in an earlier process.
    pub(super) fn continue_after(&self, committed: i64) {
        let mut lines = self.lines.lock();
        lines.first = lines.first.max(committed.saturating_add(1));
    }

    /// Takes a line as soon as there is room for it. A line larger than the whole buffer is let in alone.
    pub(super) async fn push(&self, line: Line) {
        let mut line = Some(line);
        loop {
            let left = self.shrank.notified();
            {
                let mut lines = self.lines.lock();
                let cost = line.as_ref().map_or(0, cost);
                if (lines.held.is_empty() || lines.bytes.saturating_add(cost) <= self.limit)
                    && let Some(line) = line.take()
                {
                    lines.bytes = lines.bytes.saturating_add(cost);
                    lines.held.push_back(line);
                }
            }
            if line.is_none() {
                self.grew.notify_one();
                return;
            }
            left.await;
        }
    }

    /// Keeps the reason for which no more lines come.
    pub(super) fn fail(&self, reason: String) {
        self.lines.lock().failure = Some(reason);
        self.grew.notify_one();
    }

    /// The reason for which no more lines come, if there is one.
    pub(super) fn failure(&self) -> Option<String> {
        self.lines.lock().failure.clone()
    }

    /// The lines numbered from `after + 1` to `last`.
    ///
    /// # Errors
    /// `SOCKET_NOT_REPLAYABLE` when some of them are not held, because another process read them or their batch was committed.
    pub(super) fn range(&self, after: i64, last: i64) -> Result<Vec<Line>> {
        let lines = self.lines.lock();
        let held = i64::try_from(lines.held.len()).unwrap_or(i64::MAX);
        let (from, to) = (after.saturating_add(1).saturating_sub(lines.first), last.saturating_add(1).saturating_sub(lines.first));
        if to <= from {
            return Ok(Vec::new());
        }
        match (usize::try_from(from), usize::try_from(to)) {
            (Ok(from), Ok(to)) if i64::try_from(to).is_ok_and(|to| to <= held) => {
                Ok(lines.held.iter().skip(from).take(to - from).cloned().collect())
            }
            _ => Err(Error::new(
                ErrorKind::DataLost,
                "SOCKET_NOT_REPLAYABLE",
                format!(
                    "lines {} to {last} of the socket were planned by an earlier run and cannot be read again: start a new checkpoint",
                    after.saturating_add(1)
                ),
            )),
        }
    }

    /// Forgets the lines up to the one numbered `last`.
    pub(super) fn forget(&self, last: i64) {
        {
            let mut lines = self.lines.lock();
            while lines.first <= last
                && let Some(line) = lines.held.pop_front()
            {
                lines.first += 1;
                lines.bytes = lines.bytes.saturating_sub(cost(&line));
            }
        }
        self.shrank.notify_waiters();
    }
}
