//! Percentiles, medians and ranges.

use serde_json::{Value, json};

/// The value below which a fraction `p` of the samples lies (nearest rank); zero without samples.
pub fn percentile(samples: &[f64], p: f64) -> f64 {
    let mut sorted = samples.to_vec();
    sorted.sort_by(f64::total_cmp);
    let rank = ((sorted.len() as f64 * p).ceil() as usize).clamp(1, sorted.len().max(1));
    sorted.get(rank - 1).copied().unwrap_or(0.0)
}

/// Median and 99th percentile, rounded to microseconds when the samples are milliseconds.
pub fn p50_p99(samples: &[f64]) -> Value {
    json!({"p50": rounded(percentile(samples, 0.5)), "p99": rounded(percentile(samples, 0.99))})
}

/// Median, least and greatest.
pub fn spread(samples: &[f64]) -> Value {
    json!({
        "median": rounded(percentile(samples, 0.5)),
        "min": rounded(percentile(samples, 0.0)),
        "max": rounded(percentile(samples, 1.0)),
    })
}

fn rounded(value: f64) -> f64 {
    (value * 1_000.0).round() / 1_000.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nearest_rank() {
        let samples: Vec<f64> = (1..=100).rev().map(f64::from).collect();
        assert_eq!(percentile(&samples, 0.5), 50.0);
        assert_eq!(percentile(&samples, 0.99), 99.0);
        assert_eq!(percentile(&samples, 0.0), 1.0);
        assert_eq!(percentile(&samples, 1.0), 100.0);
        assert_eq!(percentile(&[], 0.5), 0.0);
    }
}
