//! The order in which flows run, and the circles that have none.

use std::collections::{BTreeMap, BTreeSet};

use super::{Dataset, Diagnostic, Flow, Input, Pending, Reader, ViewQuery};
use crate::sql::Position;

type Ordered = (Vec<Flow>, Vec<(usize, ViewQuery)>);

/// Puts flows after everything they read. Flows that do not depend on each other stay in the order of the text.
///
/// # Errors
/// One fault per circle, naming every member and where it reads the next.
pub(super) fn order(datasets: &[Dataset], pending: Vec<Pending>) -> Result<Ordered, Vec<Diagnostic>> {
    let edges = edges(datasets.len(), &pending);
    let circles = circles(datasets, &edges);
    if !circles.is_empty() {
        return Err(circles);
    }
    let rank = ranks(&edges);
    let mut positions: Vec<usize> = (0..pending.len()).collect();
    positions.sort_by_key(|index| {
        let dataset = pending.get(*index).map_or(0, |pending| pending.reader.dataset());
        (rank.get(dataset).copied().unwrap_or(0), *index)
    });
    let components = components(datasets.len(), &pending);
    let mut slots: Vec<Option<Pending>> = pending.into_iter().map(Some).collect();
    let (mut flows, mut views): (Vec<Flow>, Vec<(usize, ViewQuery)>) = (Vec::new(), Vec::new());
    for index in positions {
        let Some(pending) = slots.get_mut(index).and_then(Option::take) else { continue };
        match pending.reader {
            Reader::View { dataset } => {
                views.push((dataset, ViewQuery { query: pending.query, inputs: pending.inputs, settings: pending.settings }));
            }
            Reader::Flow { target } => {
                let sources = tables_behind(&pending.inputs, &views);
                let upstream =
                    flows.iter().enumerate().filter(|(_, flow)| sources.contains(&flow.target)).map(|(index, _)| index).collect();
                flows.push(Flow {
                    name: pending.name,
                    position: pending.position,
                    target,
                    once: pending.once,
                    query: pending.query,
                    inputs: pending.inputs,
                    upstream,
                    component: components.get(target).copied().unwrap_or(0),
                    settings: pending.settings,
                });
            }
        }
    }
    renumber(&mut flows);
    Ok((flows, views))
}

/// For each dataset what its queries read, and where.
type Edges = Vec<BTreeMap<usize, Position>>;

fn edges(datasets: usize, pending: &[Pending]) -> Edges {
    let mut edges: Edges = vec![BTreeMap::new(); datasets];
    for pending in pending {
        let Some(reads) = edges.get_mut(pending.reader.dataset()) else { continue };
        for (relation, input) in pending.query.relations.iter().zip(&pending.inputs) {
            if let Input::Dataset(read) = input {
                reads.entry(*read).or_insert_with(|| relation.position.clone());
            }
        }
    }
    edges
}

/// The length of the longest way down to a dataset that reads nothing. Edges must have no circle.
fn ranks(edges: &Edges) -> Vec<usize> {
    let mut ranks = vec![0; edges.len()];
    // Without a circle, no way is longer than the number of datasets.
    for _ in 0..edges.len() {
        let mut changed = false;
        for (dataset, reads) in edges.iter().enumerate() {
            let rank = reads.keys().filter_map(|read| ranks.get(*read)).map(|rank| rank + 1).max().unwrap_or(0);
            if let Some(known) = ranks.get_mut(dataset)
                && *known != rank
            {
                (*known, changed) = (rank, true);
            }
        }
        if !changed {
            break;
        }
    }
    ranks
}

/// The tables that are read, looking through views. Views come before what reads them.
fn tables_behind(inputs: &[Input], views: &[(usize, ViewQuery)]) -> BTreeSet<usize> {
    let mut tables = BTreeSet::new();
    let mut open: Vec<usize> = inputs.iter().filter_map(dataset).collect();
    while let Some(next) = open.pop() {
        if tables.insert(next)
            && let Some((_, view)) = views.iter().find(|(dataset, _)| *dataset == next)
        {
            open.extend(view.inputs.iter().filter_map(dataset));
        }
    }
    tables
}

fn dataset(input: &Input) -> Option<usize> {
    match input {
        Input::Dataset(index) => Some(*index),
        _ => None,
    }
}

/// A number per dataset, the same for datasets that are connected in any way.
fn components(datasets: usize, pending: &[Pending]) -> Vec<usize> {
    let mut component: Vec<usize> = (0..datasets).collect();
    for pending in pending {
        for read in pending.inputs.iter().filter_map(dataset) {
            let (Some(a), Some(b)) = (component.get(pending.reader.dataset()).copied(), component.get(read).copied()) else { continue };
            for number in component.iter_mut().filter(|number| **number == a.max(b)) {
                *number = a.min(b);
            }
        }
    }
    component
}

/// Components count from 0 in the order of their first flow.
fn renumber(flows: &mut [Flow]) {
    let mut numbers: BTreeMap<usize, usize> = BTreeMap::new();
    for flow in flows {
        let next = numbers.len();
        flow.component = *numbers.entry(flow.component).or_insert(next);
    }
}

/// One fault per circle. A circle is found by walking on from its first dataset along what is read, staying inside of what leads back.
fn circles(datasets: &[Dataset], edges: &Edges) -> Vec<Diagnostic> {
    let reach: Vec<BTreeSet<usize>> = (0..datasets.len()).map(|start| reachable(start, edges)).collect();
    let mut reported = BTreeSet::new();
    let mut faults = Vec::new();
    for start in 0..datasets.len() {
        if reported.contains(&start) || !reach.get(start).is_some_and(|reach| reach.contains(&start)) {
            continue;
        }
        // Everything in a circle with `start` is reported with it, and not again.
        reported.extend((0..datasets.len()).filter(|other| {
            reach.get(start).is_some_and(|reach| reach.contains(other)) && reach.get(*other).is_some_and(|reach| reach.contains(&start))
        }));
        faults.extend(circle(start, datasets, edges));
    }
    faults
}

fn reachable(start: usize, edges: &Edges) -> BTreeSet<usize> {
    let mut seen = BTreeSet::new();
    let mut open = vec![start];
    while let Some(next) = open.pop() {
        for read in edges.get(next).into_iter().flat_map(BTreeMap::keys) {
            if seen.insert(*read) {
                open.push(*read);
            }
        }
    }
    seen
}

/// The shortest circle from `start` back to it.
fn circle(start: usize, datasets: &[Dataset], edges: &Edges) -> Option<Diagnostic> {
    let mut from: BTreeMap<usize, usize> = BTreeMap::new();
    let mut open = std::collections::VecDeque::from([start]);
    let mut last = None;
    'search: while let Some(next) = open.pop_front() {
        for read in edges.get(next)?.keys() {
            if *read == start {
                last = Some(next);
                break 'search;
            }
            if !from.contains_key(read) {
                from.insert(*read, next);
                open.push_back(*read);
            }
        }
    }
    let mut members = vec![last?];
    while let Some(member) = members.last().filter(|member| **member != start) {
        members.push(*from.get(member)?);
    }
    members.reverse();
    let name = |index: usize| datasets.get(index).map(|dataset| dataset.name.to_string()).unwrap_or_default();
    let mut steps = Vec::new();
    for (i, member) in members.iter().enumerate() {
        let read = members.get(i + 1).copied().unwrap_or(start);
        let position = edges.get(*member)?.get(&read)?;
        steps.push(format!("'{}' reads '{}' at {position}", name(*member), name(read)));
    }
    let position = edges.get(start)?.get(members.get(1).unwrap_or(&start))?.clone();
    let message = match steps.as_slice() {
        [_] => format!("'{}' reads itself", name(start)),
        _ => format!("datasets read each other in a circle: {}", steps.join(", ")),
    };
    Some(Diagnostic::new("PIPELINE_CIRCULAR_DEPENDENCY", "42000", position, message).with_hint("one of them must read something else"))
}
