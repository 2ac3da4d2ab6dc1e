//! The values that `${name}` stands for.

use std::collections::BTreeMap;

/// Names and values of `${name}`. Names are compared exactly, as Spark's configuration keys are.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Variables(BTreeMap<String, String>);

/// Spark follows a value that itself contains `${…}` this many times.
const MAX_DEPTH: usize = 40;

/// Prefixes under which Spark looks a name up in the configuration.
const PREFIXES: &[&str] = &["spark:", "sparkconf:", "hivevar:", "hiveconf:"];

impl Variables {
    /// No variables.
    pub fn new() -> Self {
        Self::default()
    }

    /// Gives a name a value; an earlier value is replaced.
    pub fn set(&mut self, name: impl Into<String>, value: impl Into<String>) {
        self.0.insert(name.into(), value.into());
    }

    /// The value as given.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    /// Names and values.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }

    /// What `${name}` becomes, values inside the value included. `Err` says why there is nothing, and how to mend it.
    pub(crate) fn expand(&self, name: &str) -> Result<String, (String, String)> {
        self.expand_at(name, 0)
    }

    fn expand_at(&self, name: &str, depth: usize) -> Result<String, (String, String)> {
        let name = name.trim();
        if depth >= MAX_DEPTH {
            return Err((format!("variable '{name}' refers to itself"), "give one of the variables a plain value".to_owned()));
        }
        if let Some(kind) = ["env:", "system:"].iter().find(|kind| name.starts_with(**kind)) {
            return Err((
                format!(
                    "${{{name}}} is not supported: a pipeline does not read the {} of the process",
                    if *kind == "env:" { "environment" } else { "properties" }
                ),
                format!("pass the value with --var and write ${{{}}}", name.trim_start_matches(kind)),
            ));
        }
        let key = PREFIXES.iter().find_map(|prefix| name.strip_prefix(prefix)).unwrap_or(name);
        let Some(value) = self.0.get(key) else {
            let hint = match closest(key, self.0.keys().map(String::as_str)) {
                Some(near) => format!("did you mean '{near}'?"),
                None => format!("pass --var {key}=… or write SET {key} = …; before (Spark would put nothing in its place)"),
            };
            return Err((format!("variable '{key}' has no value"), hint));
        };
        let mut expanded = String::with_capacity(value.len());
        let mut rest = value.as_str();
        while let Some((before, after)) = rest.split_once("${") {
            let Some((inner, tail)) = after.split_once('}') else { break };
            expanded.push_str(before);
            expanded.push_str(&self.expand_at(inner, depth + 1)?);
            rest = tail;
        }
        expanded.push_str(rest);
        Ok(expanded)
    }
}

impl<N: Into<String>, V: Into<String>> FromIterator<(N, V)> for Variables {
    fn from_iter<I: IntoIterator<Item = (N, V)>>(pairs: I) -> Self {
        Variables(pairs.into_iter().map(|(name, value)| (name.into(), value.into())).collect())
    }
}

/// The candidate that `name` was most likely meant to be: compared without case, at most a third of its letters apart.
pub(crate) fn closest<'a>(name: &str, candidates: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let wanted = name.to_lowercase();
    candidates
        .map(|candidate| (datafusion::common::utils::datafusion_strsim::levenshtein(&wanted, &candidate.to_lowercase()), candidate))
        .filter(|(distance, candidate)| *distance * 3 <= wanted.chars().count().max(candidate.chars().count()).max(3))
        .min()
        .map(|(_, candidate)| candidate)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_inside_values_are_followed_and_circles_are_not() {
        let variables: Variables =
            [("root", "/data"), ("in", "${root}/in"), ("a", "${b}"), ("b", "x${a}"), ("open", "${root")].into_iter().collect();
        assert_eq!(variables.expand("in").unwrap(), "/data/in");
        assert_eq!(variables.expand(" sparkconf:in ").unwrap(), "/data/in");
        assert_eq!(variables.expand("open").unwrap(), "${root");
        assert!(variables.expand("a").unwrap_err().0.contains("refers to itself"));
        assert!(variables.expand("env:HOME").unwrap_err().0.contains("environment"));
        assert_eq!(variables.expand("rot").unwrap_err().1, "did you mean 'root'?");
    }

    #[test]
    fn the_closest_name_is_near_enough_or_none() {
        let names = ["orders", "customers", "bronze_flights"];
        for (name, near) in
            [("order", Some("orders")), ("ORDERS", Some("orders")), ("bronze_flight", Some("bronze_flights")), ("gold", None), ("x", None)]
        {
            assert_eq!(closest(name, names.into_iter()), near, "{name}");
        }
    }
}
