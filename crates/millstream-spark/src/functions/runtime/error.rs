//! `raise_error`.

use arrow::array::{ArrayRef, new_null_array};
use arrow::datatypes::DataType;
use datafusion::logical_expr::Volatility;
use millstream_core::{Error, ErrorKind, Result};

use super::super::rows::Rows;
use super::super::{Arguments, Call, Functions, Kernel, Typed, call, faults};

pub(super) fn register(functions: &mut Functions) {
    functions.add("raise_error", build);
}

/// `raise_error(message)` or `raise_error(condition, parameters)`. It is never computed ahead, so that a branch not taken raises nothing.
fn build(call_site: &Call<'_>) -> Result<Typed> {
    call_site.arity(1..=2)?;
    let mut arguments = vec![call_site.string(0)?];
    if call_site.len() == 2 {
        let parameters = call_site.value(1)?;
        if !matches!(parameters.data_type, DataType::Map(..)) {
            return Err(faults::unexpected_type("raise_error", 1, "\"MAP<STRING, STRING>\"", &parameters.data_type));
        }
        arguments.push(parameters.clone());
    }
    Ok(call("raise_error", RaiseError, arguments, DataType::Null, true, Volatility::Volatile))
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct RaiseError;

impl Kernel for RaiseError {
    fn evaluate(&self, arguments: &Arguments<'_>) -> Result<ArrayRef> {
        if arguments.rows() == 0 {
            return Ok(new_null_array(&DataType::Null, 0));
        }
        let rows = Rows::of(arguments)?;
        let (condition, message) = match (arguments.len(), rows.row(0).text_opt(0)) {
            (1, message) => ("USER_RAISED_EXCEPTION", message.unwrap_or("null")),
            (_, condition) => (condition.unwrap_or("USER_RAISED_EXCEPTION"), "raised by the query"),
        };
        Err(Error::new(ErrorKind::BadRecord, condition.to_owned(), message.to_owned()).with_sqlstate("P0001"))
    }
}
