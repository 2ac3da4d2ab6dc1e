//! Sets of window numbers.

/// Numbers as runs, each apart from the next.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Runs(Vec<(i64, i64)>);

impl Runs {
    /// The numbers of spans, given in the order of their first numbers.
    pub(super) fn of(spans: impl IntoIterator<Item = (i64, i64)>) -> Runs {
        let mut runs = Runs::default();
        for (first, last) in spans {
            match runs.0.last_mut().filter(|run| first <= run.1.saturating_add(1)) {
                Some(run) => run.1 = run.1.max(last),
                None if first <= last => runs.0.push((first, last)),
                None => {}
            }
        }
        runs
    }

    /// Those of the numbers that are greater than `after` and at most `last`.
    pub(super) fn between(&self, after: i64, last: i64) -> Runs {
        let clipped = self.0.iter().map(|run| (run.0.max(after.saturating_add(1)), run.1.min(last)));
        Runs(clipped.filter(|run| run.0 <= run.1).collect())
    }

    /// How many numbers there are.
    pub(super) fn count(&self) -> u64 {
        self.0.iter().map(|run| run.1.abs_diff(run.0).saturating_add(1)).sum()
    }

    /// The numbers, in their order.
    pub(super) fn numbers(&self) -> impl Iterator<Item = i64> {
        self.0.iter().flat_map(|run| run.0..=run.1)
    }

    /// The smallest number.
    pub(super) fn first(&self) -> Option<i64> {
        self.0.first().map(|run| run.0)
    }
}
