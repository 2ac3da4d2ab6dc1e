//! Aggregate functions.

mod bitmap;
mod cardinality;
mod collect;
mod function;
mod histogram;
mod mode;
mod moments;
mod percentiles;
mod positional;
mod quantiles;
mod simple;
mod sketch;
mod sliding;
#[cfg(test)]
mod tests;
mod top;
mod totals;
mod variant;

use std::collections::HashMap;
use std::sync::OnceLock;

use datafusion::logical_expr::SortExpr;
use millstream_core::Result;

use super::{Call, Typed, faults};

pub(super) use cardinality::values_of_raw_estimate;
pub(super) use quantiles::as_double as interval_as_double;

/// What may follow the arguments of an aggregate function.
#[derive(Clone, Debug, Default)]
pub struct Clauses {
    /// `DISTINCT`.
    pub distinct: bool,
    /// `FILTER (WHERE …)`.
    pub filter: Option<Typed>,
    /// `WITHIN GROUP (ORDER BY …)`.
    pub order_by: Vec<SortExpr>,
    /// The values that `order_by` orders by, with what is known of them.
    pub ordered: Vec<Typed>,
    /// `IGNORE NULLS`.
    pub ignore_nulls: bool,
}

/// Compiles a call. The expression contains aggregate functions of the planner, possibly below further expressions.
pub type AggregateBuilder = fn(&Call<'_>, &Clauses) -> Result<Typed>;

/// Aggregate functions by lower-case name.
#[derive(Debug, Default)]
pub struct Aggregates {
    builders: HashMap<&'static str, AggregateBuilder>,
}

impl Aggregates {
    /// All aggregate functions of this build.
    pub fn all() -> &'static Aggregates {
        static ALL: OnceLock<Aggregates> = OnceLock::new();
        ALL.get_or_init(|| {
            let mut aggregates = Aggregates::default();
            for register in GROUPS {
                register(&mut aggregates);
            }
            aggregates
        })
    }

    /// Adds a function.
    pub fn add(&mut self, name: &'static str, builder: AggregateBuilder) {
        let earlier = self.builders.insert(name, builder);
        debug_assert!(earlier.is_none(), "aggregate function '{name}' is there twice");
    }

    /// Adds a function under several names.
    pub fn add_all(&mut self, names: &[&'static str], builder: AggregateBuilder) {
        for name in names {
            self.add(name, builder);
        }
    }

    /// Whether there is an aggregate function of that name, in lower case.
    pub fn contains(&self, name: &str) -> bool {
        self.builders.contains_key(name)
    }

    /// The names, sorted.
    pub fn names(&self) -> Vec<&'static str> {
        let mut names: Vec<&'static str> = self.builders.keys().copied().collect();
        names.sort_unstable();
        names
    }

    /// Compiles a call.
    ///
    /// # Errors
    /// `UNRESOLVED_ROUTINE`, and those of the function's builder.
    pub fn build(&self, call: &Call<'_>, clauses: &Clauses) -> Result<Typed> {
        match self.builders.get(call.name) {
            Some(builder) => builder(call, clauses),
            None => Err(faults::unresolved_routine(call.name)),
        }
    }
}

/// What each group of functions adds.
const GROUPS: &[fn(&mut Aggregates)] = &[
    simple::register,
    totals::register,
    moments::register,
    positional::register,
    collect::register,
    percentiles::register,
    quantiles::register,
    cardinality::register,
    mode::register,
    histogram::register,
    bitmap::register,
    sketch::register,
    variant::register,
];
