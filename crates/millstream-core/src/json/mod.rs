//! JSON text: reading it value by value, the texts of strings and numbers, and what its values are to a schema.

mod cursor;
mod kind;
mod number;
mod text;

pub use cursor::{Cursor, Fault, Quoted, Syntax};
pub use kind::{Fields, Kind, decimal, merge};
pub use number::Number;
pub use text::{append_compact, non_number_text, quote, unescape};
