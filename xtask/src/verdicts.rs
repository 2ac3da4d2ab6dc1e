//! What a runner of recorded cases reports.

use std::path::Path;

use crate::process::Outcome;

/// Every case of a report and whether it passed.
pub fn read(report: &Path) -> Outcome<Vec<(String, bool)>> {
    let text = std::fs::read_to_string(report).map_err(|error| format!("cannot read {}: {error}", report.display()))?;
    Ok(of(&text))
}

/// The same of its text, which is flat: a name, then its verdict.
pub fn of(report: &str) -> Vec<(String, bool)> {
    let mut verdicts = Vec::new();
    let mut name = None;
    for line in report.lines().map(str::trim) {
        if let Some(quoted) = line.strip_suffix(": {").filter(|quoted| quoted.starts_with('"')) {
            name = Some(quoted.trim_matches('"').to_owned());
        } else if let Some(verdict) = line.strip_prefix("\"verdict\": \"")
            && let Some(name) = name.take()
        {
            verdicts.push((name, verdict.starts_with("ok")));
        }
    }
    verdicts
}
