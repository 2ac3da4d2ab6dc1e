//! Numbers: arithmetic, rounding, logarithms, trigonometry, number formats.

mod arithmetic;
pub(super) mod operators;
mod sign;
#[cfg(test)]
mod tests;

use super::Functions;

pub(super) fn register(functions: &mut Functions) {
    operators::register(functions);
    sign::register(functions);
}

/// `to_char` of a number.
pub(super) fn number_to_char(call: &super::Call<'_>) -> millstream_core::Result<super::Typed> {
    Err(super::faults::unresolved_routine(call.name))
}
