//! What a query with state means, in words that stay the same from run to run, and how it differs from the query that made a checkpoint.
//!
//! Spark compares types only: a window of another width, or `min` in place of `max`, goes on with the old state and mixes results. Here a
//! difference is found and told, and refused where the user wishes ([`ChangePolicy`]).

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use datafusion::common::JoinSide;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::aggregates::AggregateExec;
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::joins::HashJoinExec;
use millstream_core::{Error, ErrorKind, Result};
use serde::{Deserialize, Serialize};

use super::bind::origins;
use super::lineage;
use super::planner::as_node;
use crate::scan::SplitScanExec;

/// Changes with the words of expressions: fingerprints of different versions are not compared.
const VERSION: u32 = 1;

/// What one part of a query is made of, by aspect.
pub(crate) type Aspects = BTreeMap<String, String>;

/// Aspects that may change without a change of meaning of what is in state.
const COMPATIBLE: [&str; 3] = ["delay", "filters", "limit"];

/// The changes of meaning that can be accepted by name, and the word for all of them.
pub const ACCEPTABLE_CHANGES: [&str; 8] = ["window", "keys", "aggregates", "session", "join", "event-time", "output-mode", "all"];

/// A query with state or event time.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Fingerprint {
    version: u32,
    /// What is of the whole query: its output mode, its filters.
    query: Aspects,
    /// Watermark nodes, in plan order.
    watermarks: Vec<Aspects>,
    /// Stateful operators, in plan order.
    operators: Vec<Aspects>,
}

impl Fingerprint {
    pub(crate) fn new(query: Aspects, watermarks: Vec<Aspects>, operators: Vec<Aspects>) -> Self {
        Fingerprint { version: VERSION, query, watermarks, operators }
    }

    /// How this query differs from the one that was written down.
    pub(crate) fn changes_since(&self, written: &Fingerprint) -> Vec<Change> {
        if self.version != written.version {
            return Vec::new();
        }
        let mut changes = Vec::new();
        differences("the query", &written.query, &self.query, &mut changes);
        let numbered = [("watermark", &written.watermarks, &self.watermarks), ("operator", &written.operators, &self.operators)];
        for (what, before, after) in numbered {
            for (number, (before, after)) in before.iter().zip(after).enumerate() {
                differences(&format!("{what} {number}"), before, after, &mut changes);
            }
        }
        changes
    }
}

fn differences(place: &str, before: &Aspects, after: &Aspects, changes: &mut Vec<Change>) {
    // An aspect that only one of them has was not known to the other's program.
    for (aspect, was) in before {
        if let Some(is) = after.get(aspect).filter(|is| *is != was) {
            changes.push(Change { place: place.to_owned(), aspect: aspect.clone(), was: was.clone(), is: is.clone() });
        }
    }
}

/// A difference between a query and the one that made its checkpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Change {
    place: String,
    aspect: String,
    was: String,
    is: String,
}

impl Change {
    /// Whether what is in state means something else to the query.
    fn is_of_meaning(&self) -> bool {
        !COMPATIBLE.contains(&self.aspect.as_str())
    }
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = if self.is_of_meaning() { "changes what state means" } else { "compatible" };
        write!(f, "{} of {} was {} and is {} ({kind})", self.aspect, self.place, shown(&self.was), shown(&self.is))
    }
}

fn shown(text: &str) -> &str {
    if text.is_empty() { "nothing" } else { text }
}

/// What happens when a query means something else than the one that made its checkpoint.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ChangePolicy {
    /// Whether such a query is refused before anything is touched; otherwise it runs as in Spark, with a warning.
    pub refuse: bool,
    /// Aspects that may change all the same: `window`, `keys`, `aggregates`, `session`, `join`, `event-time`, `output-mode`, or `all`.
    pub accepted: BTreeSet<String>,
}

impl ChangePolicy {
    /// Refuses changes of meaning that are not accepted, and gives the text of all others.
    ///
    /// # Errors
    /// `STREAMING_QUERY_CHANGED`, naming each change and how to accept it.
    pub(crate) fn judge(&self, changes: &[Change]) -> Result<Vec<String>> {
        let accepted = |change: &&Change| self.accepted.contains(&change.aspect) || self.accepted.contains("all");
        let refused: Vec<&Change> = changes.iter().filter(|change| change.is_of_meaning() && !accepted(change)).collect();
        if self.refuse && !refused.is_empty() {
            let told: Vec<String> = refused.iter().map(|change| change.to_string()).collect();
            let names: BTreeSet<&str> = refused.iter().map(|change| change.aspect.as_str()).collect();
            let names: Vec<&str> = names.into_iter().collect();
            return Err(Error::new(
                ErrorKind::CheckpointIncompatible,
                "STREAMING_QUERY_CHANGED",
                format!(
                    "the query computes something else than the one that made the checkpoint, and would mix old results with new ones: {}. \
                     Restore the query, start a new checkpoint, or accept the change by name: {}",
                    told.join("; "),
                    names.join(",")
                ),
            )
            .with_sqlstate("42K03"));
        }
        Ok(changes.iter().map(ToString::to_string).collect())
    }
}

/// The aspects of an aggregation, from its partial one.
pub(crate) fn aggregation(partial: &Arc<dyn ExecutionPlan>) -> Aspects {
    let Some(aggregate) = as_node::<AggregateExec>(partial) else { return Aspects::new() };
    let input = aggregate.input();
    let windows = (0..aggregate.group_expr().expr().len()).filter_map(|key| Some((key, lineage::windows_of(partial, key)?)));
    let windows: BTreeMap<usize, String> = windows.collect();
    let keys = aggregate.group_expr().expr().iter().enumerate().filter(|(index, _)| !windows.contains_key(index));
    let keys: Vec<String> = keys.map(|(_, (key, _))| lineage::text(key, input)).collect();
    let mut aspects = Aspects::from([("keys".to_owned(), keys.join(", ")), ("aggregates".to_owned(), functions(aggregate))]);
    if !windows.is_empty() {
        aspects.insert("window".to_owned(), windows.into_values().collect::<Vec<_>>().join(", "));
    }
    aspects
}

/// The aspects of an aggregation by session, from the partial one, whose last two keys are the bounds of each row's own session.
pub(crate) fn sessions(partial: &Arc<dyn ExecutionPlan>) -> Aspects {
    let Some(aggregate) = as_node::<AggregateExec>(partial) else { return Aspects::new() };
    let all: Vec<String> = aggregate.group_expr().expr().iter().map(|(key, _)| lineage::text(key, aggregate.input())).collect();
    let (keys, bounds) = all.split_at(all.len().saturating_sub(2));
    Aspects::from([
        ("keys".to_owned(), keys.join(", ")),
        ("session".to_owned(), bounds.join(" to ")),
        ("aggregates".to_owned(), functions(aggregate)),
    ])
}

fn functions(aggregate: &AggregateExec) -> String {
    let functions = aggregate.aggr_expr().iter().zip(aggregate.filter_expr()).map(|(function, filter)| {
        let arguments: Vec<String> = function.expressions().iter().map(|argument| lineage::text(argument, aggregate.input())).collect();
        let distinct = if function.is_distinct() { "distinct " } else { "" };
        let filter = filter.as_ref().map(|filter| format!(" filter {}", lineage::text(filter, aggregate.input()))).unwrap_or_default();
        format!("{}({distinct}{}){filter}", function.fun().name(), arguments.join(", "))
    });
    functions.collect::<Vec<_>>().join(", ")
}

/// The aspects of an operator by the columns at these places, such as a deduplication.
pub(crate) fn by_keys(input: &Arc<dyn ExecutionPlan>, keys: &[usize]) -> Aspects {
    let keys: Vec<String> = keys.iter().map(|key| lineage::column(input, *key)).collect();
    Aspects::from([("keys".to_owned(), keys.join(", "))])
}

/// The aspects of a join.
pub(crate) fn join(join: &HashJoinExec) -> Aspects {
    let keys =
        join.on().iter().map(|(left, right)| format!("{} = {}", lineage::text(left, join.left()), lineage::text(right, join.right())));
    let condition = join.filter().map(|filter| {
        let origins = origins(filter);
        lineage::render(filter.expression(), &|index| match origins.get(index) {
            Some((JoinSide::Left, index)) => lineage::column(join.left(), *index),
            Some((_, index)) => lineage::column(join.right(), *index),
            None => format!("column {index}"),
        })
    });
    let keys = keys.collect::<Vec<_>>().join(" and ");
    let condition = condition.map(|condition| format!(" where {condition}")).unwrap_or_default();
    Aspects::from([("join".to_owned(), format!("{} on {keys}{condition}", join.join_type()))])
}

/// The filters of a plan.
pub(crate) fn filters(plan: &Arc<dyn ExecutionPlan>) -> BTreeSet<String> {
    let mut found: BTreeSet<String> = plan.children().into_iter().flat_map(filters).collect();
    if let Some(filter) = as_node::<FilterExec>(plan) {
        found.insert(lineage::text(filter.predicate(), filter.input()));
    }
    if let Some(condition) = as_node::<SplitScanExec>(plan).and_then(|scan| scan.condition()) {
        found.insert(condition);
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn print(aspects: &[(&str, &str)]) -> Fingerprint {
        let aspects = aspects.iter().map(|(aspect, text)| ((*aspect).to_owned(), (*text).to_owned())).collect();
        Fingerprint::new(Aspects::from([("output-mode".to_owned(), "append".to_owned())]), vec![], vec![aspects])
    }

    #[test]
    fn table_of_changes() {
        let before = print(&[("keys", "k"), ("window", "window(ts, 10)"), ("aggregates", "max(v)"), ("delay", "5 ms")]);
        let policy =
            |refuse, accepted: &[&str]| ChangePolicy { refuse, accepted: accepted.iter().map(|name| (*name).to_owned()).collect() };
        let window = print(&[("keys", "k"), ("window", "window(ts, 20)"), ("aggregates", "max(v)"), ("delay", "5 ms")]);
        let delay = print(&[("keys", "k"), ("window", "window(ts, 10)"), ("aggregates", "max(v)"), ("delay", "9 ms")]);
        let two = print(&[("keys", "j"), ("window", "window(ts, 10)"), ("aggregates", "min(v)"), ("delay", "5 ms")]);
        let other = Fingerprint { version: VERSION + 1, ..two.clone() };
        let more = print(&[("keys", "k"), ("window", "window(ts, 10)"), ("aggregates", "max(v)"), ("delay", "5 ms"), ("shade", "blue")]);
        for (what, after, policy, expected) in [
            ("the same", &before, policy(true, &[]), Ok(0)),
            ("an aspect that was not known", &more, policy(true, &[]), Ok(0)),
            ("another version", &other, policy(true, &[]), Ok(0)),
            ("compatible", &delay, policy(true, &[]), Ok(1)),
            ("told", &window, policy(false, &[]), Ok(1)),
            ("refused", &window, policy(true, &[]), Err("window")),
            ("accepted", &window, policy(true, &["window"]), Ok(1)),
            ("accepted with everything", &two, policy(true, &["all"]), Ok(2)),
            ("one of two accepted", &two, policy(true, &["keys"]), Err("aggregates")),
        ] {
            match (policy.judge(&after.changes_since(&before)), expected) {
                (Ok(told), Ok(count)) => assert_eq!(told.len(), count, "{what}: {told:?}"),
                (Err(error), Err(name)) => {
                    assert_eq!(error.code(), "STREAMING_QUERY_CHANGED", "{what}");
                    assert!(error.message().ends_with(&format!("by name: {name}")), "{what}: {error}");
                }
                (judged, _) => panic!("{what}: {judged:?}"),
            }
        }
    }
}
