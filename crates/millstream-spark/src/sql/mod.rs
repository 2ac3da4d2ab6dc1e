//! Spark SQL text: its lexical rules, positions in files, and queries made ready for the planner.

mod cursor;
mod diagnostic;
mod dialect;
mod division;
mod functions;
mod literals;
mod names;
pub(crate) mod parse;
mod planner;
mod query;
mod relation;
mod source;
mod stream;
mod variables;

pub(crate) use cursor::Cursor;
pub use diagnostic::{Diagnostic, Diagnostics, Position};
pub use dialect::Spark;
pub use query::PreparedQuery;
pub use relation::{Argument, Relation, RelationSource, Watermark};
pub use source::SourceFile;
pub use variables::Variables;

pub use functions::register;
pub(crate) use planner::Planner;
pub(crate) use query::{parse_expression, prepare, text};
pub(crate) use relation::{START, property_list};
pub(crate) use variables::closest;
