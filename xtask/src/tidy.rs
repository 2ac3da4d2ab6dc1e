//! `cargo xtask tidy`: rules about the source that the compiler does not check.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::process::{Outcome, cargo, fail, output, root};

/// The most lines that a source file may have.
const MAX_LINES: usize = 800;

/// Names that say nothing about what is inside.
const EMPTY_NAMES: &[&str] = &["utils", "util", "common", "helpers", "helper", "misc"];

/// Crates of which there is one version, because their types cross our interfaces.
const ONE_VERSION: &[&str] = &["arrow", "object_store", "datafusion", "parquet", "tonic", "prost", "sqlparser", "deltalake-core"];

/// Second versions that stay inside one dependency and reach no interface of ours: crate, version prefix, the only dependency that has it.
const TOLERATED: &[(&str, &str, &str)] = &[("prost", "0.13.", "orc-rust")];

/// What each crate may depend on, of our own crates and of those that only one crate may know.
const EDGES: &[(&str, &[&str])] = &[
    ("millstream-core", &[]),
    ("millstream-checkpoint", &["millstream-core"]),
    ("millstream-connectors", &["millstream-core"]),
    ("millstream-engine", &["millstream-core", "millstream-checkpoint"]),
    ("millstream-spark", &["millstream-core", "millstream-engine"]),
    ("millstream-cluster", &["millstream-core", "millstream-engine"]),
];

/// Dependencies that only these crates may name.
const OWNED: &[(&str, &[&str])] = &[
    ("deltalake", &["millstream-connectors"]),
    ("rdkafka", &["millstream-connectors"]),
    ("rocksdb", &["millstream-checkpoint"]),
    ("datafusion", &["millstream-engine", "millstream-spark", "millstream-cluster", "millstream"]),
    ("ballista", &["millstream-cluster"]),
    ("apache-spark-connect-proto", &["millstream-spark"]),
    (
        "tokio",
        &[
            "millstream-checkpoint",
            "millstream-connectors",
            "millstream-engine",
            "millstream-spark",
            "millstream-cluster",
            "millstream",
            "millstream-bench",
        ],
    ),
];

/// Checks every rule and lists every violation.
pub fn tidy() -> Outcome {
    let mut violations = Vec::new();
    files(&mut violations)?;
    edges(&mut violations)?;
    versions(&mut violations)?;
    crate::bugcases::check(&mut violations)?;
    if violations.is_empty() {
        eprintln!("tidy: ok");
        return Ok(());
    }
    violations.sort();
    fail(format!("tidy found {} violation(s):\n  {}", violations.len(), violations.join("\n  ")))
}

fn tracked() -> Outcome<Vec<PathBuf>> {
    let listed = output(std::process::Command::new("git").args(["ls-files", "--cached", "--others", "--exclude-standard"]))?;
    Ok(listed.lines().map(PathBuf::from).filter(|path| root().join(path).is_file()).collect())
}

fn files(violations: &mut Vec<String>) -> Outcome {
    for path in tracked()? {
        let shown = path.display();
        let stem = path.file_stem().map(|stem| stem.to_string_lossy().to_lowercase()).unwrap_or_default();
        let extension = path.extension().map(|extension| extension.to_string_lossy().into_owned()).unwrap_or_default();
        let in_folder = path.components().any(|part| EMPTY_NAMES.contains(&part.as_os_str().to_string_lossy().as_ref()));
        if in_folder || (["rs", "py", "ts"].contains(&extension.as_str()) && EMPTY_NAMES.contains(&stem.as_str())) {
            violations.push(format!("{shown}: the name says nothing about what is inside"));
        }
        if extension != "rs" {
            continue;
        }
        let text = std::fs::read_to_string(root().join(&path)).map_err(|error| format!("cannot read {shown}: {error}"))?;
        let lines = text.lines().count();
        if lines > MAX_LINES {
            violations.push(format!("{shown}: {lines} lines, more than {MAX_LINES}: split it by concept"));
        }
        source(&path, &text, violations);
    }
    Ok(())
}

fn source(path: &Path, text: &str, violations: &mut Vec<String>) {
    let shown = path.display();
    for (number, line) in text.lines().enumerate() {
        let number = number + 1;
        // A plain XXX is the zone of a datetime pattern.
        if path.starts_with("crates") && (line.contains("TODO") || line.contains("FIXME") || line.contains("XXX:")) {
            violations.push(format!("{shown}:{number}: unfinished work belongs into an issue"));
        }
        if line.ends_with(' ') || line.contains('\t') {
            violations.push(format!("{shown}:{number}: trailing space or tab"));
        }
    }
    let is_crate_root = path.file_name().is_some_and(|name| name == "lib.rs" || name == "main.rs");
    if is_crate_root && !text.starts_with("//!") {
        violations.push(format!("{shown}: a crate begins by saying what it is for"));
    }
}

fn edges(violations: &mut Vec<String>) -> Outcome {
    let metadata = output(cargo().args(["metadata", "--format-version", "1", "--no-deps", "--locked"]))?;
    let metadata: Value = serde_json::from_str(&metadata).map_err(|error| format!("cargo metadata is not JSON: {error}"))?;
    let packages = metadata["packages"].as_array().map(Vec::as_slice).unwrap_or_default();
    for package in packages {
        let name = package["name"].as_str().unwrap_or_default();
        let dependencies = package["dependencies"].as_array().map(Vec::as_slice).unwrap_or_default();
        for dependency in dependencies.iter().filter(|dependency| dependency["kind"].is_null()) {
            let dependency = dependency["name"].as_str().unwrap_or_default();
            if let Some((_, allowed)) = EDGES.iter().find(|(from, _)| *from == name)
                && dependency.starts_with("millstream")
                && !allowed.contains(&dependency)
            {
                violations.push(format!("{name} must not depend on {dependency}"));
            }
            if let Some((_, owners)) = OWNED.iter().find(|(owned, _)| *owned == dependency)
                && name.starts_with("millstream")
                && !owners.contains(&name)
            {
                violations.push(format!("{name} must not know {dependency}: only {} may", owners.join(", ")));
            }
        }
        if name.starts_with("millstream") && package["license"].as_str() != Some("Apache-2.0") {
            violations.push(format!("{name} does not say that it is Apache-2.0"));
        }
    }
    Ok(())
}

fn versions(violations: &mut Vec<String>) -> Outcome {
    let path = root().join("Cargo.lock");
    let lock = std::fs::read_to_string(&path).map_err(|error| format!("cannot read {}: {error}", path.display()))?;
    let mut found: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    let mut name = "";
    for line in lock.lines() {
        if let Some(value) = line.strip_prefix("name = ") {
            name = value.trim_matches('"');
        } else if let Some(version) = line.strip_prefix("version = ")
            && ONE_VERSION.contains(&name)
        {
            found.entry(name).or_default().push(version.trim_matches('"'));
        }
    }
    for (name, versions) in found {
        let strict: Vec<&&str> = versions
            .iter()
            .filter(|version| !TOLERATED.iter().any(|(tolerated, prefix, _)| *tolerated == name && version.starts_with(prefix)))
            .collect();
        if strict.len() > 1 {
            violations.push(format!("Cargo.lock has {} versions of {name}: {strict:?}", strict.len()));
        }
    }
    for (name, prefix, only) in TOLERATED {
        let users = lock
            .split("[[package]]")
            .filter(|package| package.lines().any(|line| line.trim().trim_matches(['"', ',']).starts_with(&format!("{name} {prefix}"))))
            .filter_map(|package| package.lines().find_map(|line| line.strip_prefix("name = ")))
            .map(|user| user.trim_matches('"'))
            .filter(|user| user != only && !user.starts_with(name));
        for user in users {
            violations.push(format!("{user} uses {name} {prefix}x, which only {only} may: its types could reach an interface"));
        }
    }
    Ok(())
}
