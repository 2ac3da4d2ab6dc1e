//! From Spark's unresolved plans, as Connect clients send them and the SQL parser makes them, to logical plans of the engine.
//!
//! Every column of an analyzed plan has a name of its own in the engine (`#7`), so that two columns of one name never meet there. What the
//! user calls a column, and which frames and aliases it came through, is kept beside the plan in [`Attribute`]s.

mod columns;
mod expression;
mod leaves;

pub use columns::{Analyzed, Attribute};
pub use leaves::{Leaf, Leaves};
