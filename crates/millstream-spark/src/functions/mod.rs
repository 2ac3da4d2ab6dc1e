//! Spark's functions: what a name and its arguments compile to.
//!
//! A function is one builder: it checks and casts its arguments by Spark's rules and returns the expression that computes it, from a
//! [`Kernel`] of ours or from DataFusion's function where that gives Spark's result. Folders follow Spark's groups of functions.

pub mod aggregate;
mod array;
mod avro;
mod bitwise;
mod call;
pub mod cast;
mod cipher;
pub mod coercion;
mod conditional;
mod csv;
pub(crate) mod datetime;
mod downcast;
pub mod faults;
mod formats;
mod geospatial;
mod hash;
mod interval;
mod json;
mod kernel;
mod keys;
mod lambda;
mod map;
mod math;
mod message;
mod nested;
mod protobuf;
mod random;
#[cfg(test)]
mod recorded_calls;
#[cfg(test)]
mod recorded_expressions;
mod registry;
mod rows;
mod runtime;
mod settings;
mod sketch;
mod string;
mod structure;
#[cfg(test)]
pub(crate) mod testing;
mod time_zone;
mod typed;
mod url;
mod variant;
mod xml;

pub use call::{Argument, Call, LambdaBody};
pub(crate) use conditional::{filter_guard, normalized};
pub use json::json_tuple_values;
pub use kernel::{Arguments, Kernel, call, scalar, udf};
pub use registry::{Builder, Functions};
pub use settings::{Settings, TimeZone};
pub use typed::Typed;
pub use variant::variant_explode_values;
