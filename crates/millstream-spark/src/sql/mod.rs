//! Spark SQL text: its lexical rules, positions in files, and queries as unresolved plans.

mod cursor;
mod diagnostic;
mod fragment;
pub(crate) mod parse;
mod query;
mod relation;
mod source;
mod variables;

pub(crate) use cursor::Cursor;
pub use diagnostic::{Diagnostic, Diagnostics, Position};
pub use fragment::Fragment;
pub use query::{PreparedQuery, plan_over};
pub use relation::{Argument, Relation, RelationSource};
pub use source::SourceFile;
pub use variables::Variables;

pub(crate) use query::{Tables, no_client};
pub(crate) use relation::{LEAF, START, property_list};
pub(crate) use variables::closest;
