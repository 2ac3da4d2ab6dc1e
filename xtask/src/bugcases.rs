//! `tests/bugcases.json`: faults that other systems had, and the tests that would find them here.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use crate::process::{Outcome, fail, root};

/// Where the faults are listed.
const FILE: &str = "tests/bugcases.json";

/// How many there are.
const CASES: usize = 102;

/// Says of every case that has neither a test that exists nor a reason what is wrong with it.
pub fn check(violations: &mut Vec<String>) -> Outcome {
    let text = std::fs::read_to_string(root().join(FILE)).map_err(|error| format!("cannot read {FILE}: {error}"))?;
    let parsed: Value = serde_json::from_str(&text).map_err(|error| format!("{FILE} is not JSON: {error}"))?;
    let Some(cases) = parsed.as_array() else { return fail(format!("{FILE} is not a list")) };
    let mut ids = BTreeSet::new();
    let mut sources = BTreeMap::new();
    for case in cases {
        let said = |key: &str| case[key].as_str().filter(|text| !text.trim().is_empty());
        let Some(id) = said("id") else {
            violations.push(format!("{FILE}: a case without an id"));
            continue;
        };
        if !ids.insert(id) {
            violations.push(format!("{FILE}: {id} is there twice"));
        }
        if said("area").is_none() || said("title").is_none() {
            violations.push(format!("{FILE}: {id} needs an area and a title"));
        }
        let tests = case["tests"].as_array().map(Vec::as_slice).unwrap_or_default();
        if tests.is_empty() && said("notApplicable").is_none() && said("open").is_none() {
            violations.push(format!("{FILE}: {id} has neither a test nor a reason"));
        }
        if let Some(path) = said("until").filter(|path| root().join(path).exists()) {
            violations.push(format!("{FILE}: {id} needs a test, now that {path} is there"));
        }
        for test in tests.iter().map(|test| test.as_str().unwrap_or_default()).filter(|test| !exists(test, &mut sources)) {
            violations.push(format!("{FILE}: {id} names the test {test}, which does not exist"));
        }
    }
    if ids.len() != CASES {
        violations.push(format!("{FILE}: {} cases instead of {CASES}", ids.len()));
    }
    Ok(())
}

/// Whether a test exists: `path/of/file.rs::function` (of a script `.py`, too), or `conformance:area.case`. Keeps the texts of files.
fn exists(test: &str, sources: &mut BTreeMap<String, String>) -> bool {
    let (path, definition) = if let Some(name) = test.strip_prefix("conformance:") {
        let Some((area, case)) = name.split_once('.') else { return false };
        (format!("tests/conformance/cases/{area}.py"), format!("def {case}("))
    } else {
        let Some((path, function)) = test.split_once("::") else { return false };
        let keyword = if path.ends_with(".py") { "def" } else { "fn" };
        (path.to_owned(), format!("{keyword} {function}("))
    };
    let text = sources.entry(path).or_insert_with_key(|path| std::fs::read_to_string(root().join(path)).unwrap_or_default());
    text.contains(&definition)
}
