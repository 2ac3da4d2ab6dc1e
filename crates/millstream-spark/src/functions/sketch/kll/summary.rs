//! The text that describes a sketch.

use std::fmt::Write as _;

use super::{Item, KllSketch, M};

impl<T: Item> KllSketch<T> {
    /// Sizes, errors and the range, one a line.
    pub(super) fn summary(&self) -> String {
        let error = |factor: f64, exponent: f64| format!("{:.3}%", factor / f64::from(self.least_k).powf(exponent) * 100.0);
        let (low, high) = match self.range {
            Some((low, high)) => (low.text(), high.text()),
            None => ("NaN".to_owned(), "NaN".to_owned()),
        };
        let (capacity, retained, levels) = (self.capacity(), self.retained(), self.levels.len());
        let full = |numbers: usize, bounds: usize| 20 + 4 * bounds + T::BYTES * (2 + numbers);
        let compact = match self.n {
            0 => 8,
            1 => 8 + T::BYTES,
            _ => full(retained, levels),
        };
        let lines: [(&str, String); 17] = [
            ("K", self.k.to_string()),
            ("Dynamic min K", self.least_k.to_string()),
            ("M", M.to_string()),
            ("N", self.n.to_string()),
            ("Epsilon", error(2.296, 0.9723)),
            ("Epsilon PMF", error(2.446, 0.9433)),
            ("Empty", (self.n == 0).to_string()),
            ("Estimation Mode", (levels > 1).to_string()),
            ("Levels", levels.to_string()),
            ("Level 0 Sorted", self.first_level_sorted.to_string()),
            ("Capacity Items", capacity.to_string()),
            ("Retained Items", retained.to_string()),
            ("Free Space", (capacity - retained).to_string()),
            ("ReadOnly", "false".to_owned()),
            ("Updatable Storage Bytes", full(capacity, levels + 1).to_string()),
            ("Compact Storage Bytes", compact.to_string()),
            ("Min Item", low),
        ];
        let mut out = format!("\n### KllKll{}Sketch Summary:\n", T::WORD);
        for (name, value) in lines.iter().chain([&("Max Item", high)]) {
            let _ = writeln!(out, "   {name:<23}: {value}");
        }
        out.push_str("### End sketch summary\n");
        out
    }
}
