//! Rows of state as pickles, both ways.

use arrow::array::ArrayRef;
use arrow::datatypes::Fields;
use millstream_core::Result;
use millstream_engine::stateful::arbitrary::Rows;

use crate::python::pickle::pickle_row;
use crate::python::unpickle::Results;

/// A row as a pickle of a `Row`.
///
/// # Errors
/// Those of [`pickle_row`].
pub(super) fn pickled(fields: &Fields, columns: &[ArrayRef], row: usize) -> Result<Vec<u8>> {
    pickle_row(fields, columns, row)
}

/// Rows from pickles of tuples in the internal form of their types.
///
/// # Errors
/// Those of [`Results`].
pub(super) fn unpickled(fields: &Fields, rows: &[Vec<u8>]) -> Result<Rows> {
    let columns = Results::read_rows(rows, fields.len())?.columns(fields)?;
    Ok(Rows { columns, count: rows.len() })
}
