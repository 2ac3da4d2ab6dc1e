//! The sink `memory`: keeps the rows of a query in this process, as a table under the query's name.

mod sink;
mod source;
pub(crate) mod staged;
pub(crate) mod staging;
mod table;

#[cfg(test)]
mod tests;

pub use sink::{MemoryProvider, MemorySink};
pub use table::{MemoryTable, MemoryTables};
