//! The table of scalar functions.

use std::collections::HashMap;
use std::sync::OnceLock;

use millstream_core::Result;

use super::{Call, Typed, faults};
use super::{
    array, avro, bitwise, cipher, conditional, csv, datetime, geospatial, hash, interval, json, lambda, map, math, protobuf, runtime,
    sketch, string, structure, url, variant, xml,
};

/// Compiles a call.
pub type Builder = fn(&Call<'_>) -> Result<Typed>;

/// Scalar functions by lower-case name.
#[derive(Debug, Default)]
pub struct Functions {
    builders: HashMap<&'static str, Builder>,
}

impl Functions {
    /// All functions of this build.
    pub fn all() -> &'static Functions {
        static ALL: OnceLock<Functions> = OnceLock::new();
        ALL.get_or_init(|| {
            let mut functions = Functions::default();
            for register in GROUPS {
                register(&mut functions);
            }
            functions
        })
    }

    /// Adds a function.
    pub fn add(&mut self, name: &'static str, builder: Builder) {
        let earlier = self.builders.insert(name, builder);
        debug_assert!(earlier.is_none(), "function '{name}' is there twice");
    }

    /// Adds a function under several names.
    pub fn add_all(&mut self, names: &[&'static str], builder: Builder) {
        for name in names {
            self.add(name, builder);
        }
    }

    /// Whether there is a scalar function of that name, in lower case.
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
    pub fn build(&self, call: &Call<'_>) -> Result<Typed> {
        match self.builders.get(call.name) {
            Some(builder) => builder(call),
            None => Err(faults::unresolved_routine(call.name)),
        }
    }
}

/// What each group of functions adds.
const GROUPS: &[fn(&mut Functions)] = &[
    math::register,
    string::register,
    datetime::register,
    interval::register,
    array::register,
    map::register,
    structure::register,
    lambda::register,
    json::register,
    csv::register,
    avro::register,
    protobuf::register,
    variant::register,
    xml::register,
    geospatial::register,
    hash::register,
    url::register,
    conditional::register,
    bitwise::register,
    cipher::register,
    runtime::register,
    sketch::register,
];
