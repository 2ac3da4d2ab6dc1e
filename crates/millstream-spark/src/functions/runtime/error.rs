//! `raise_error`.

use arrow::array::{ArrayRef, new_null_array};
use arrow::datatypes::DataType;
use datafusion::logical_expr::Volatility;
use millstream_core::{Error, ErrorKind, Result};

use super::super::rows::Rows;
use super::super::{Arguments, Call, Functions, Kernel, Typed, call};

pub(super) fn register(functions: &mut Functions) {
    functions.add("raise_error", build);
}

/// `raise_error(message)`. It is never computed ahead, so that a branch not taken raises nothing.
fn build(call_site: &Call<'_>) -> Result<Typed> {
    call_site.arity(1..=1)?;
    Ok(call("raise_error", RaiseError, vec![call_site.string(0)?], DataType::Null, true, Volatility::Volatile))
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct RaiseError;

impl Kernel for RaiseError {
    fn evaluate(&self, arguments: &Arguments<'_>) -> Result<ArrayRef> {
        if arguments.rows() == 0 {
            return Ok(new_null_array(&DataType::Null, 0));
        }
        let rows = Rows::of(arguments)?;
        let message = rows.row(0).text_opt(0).unwrap_or("null");
        Err(Error::new(ErrorKind::BadRecord, "USER_RAISED_EXCEPTION", message.to_owned()).with_sqlstate("P0001"))
    }
}
