//! Numbers: arithmetic, rounding, logarithms, trigonometry, number formats.

mod arithmetic;
mod bases;
mod elementary;
mod format_number;
mod number_format;
pub(super) mod operators;
mod random;
mod rounding;
mod sign;
#[cfg(test)]
mod tests;

pub(super) use number_format::number_to_char;

use super::Functions;

pub(super) fn register(functions: &mut Functions) {
    operators::register(functions);
    sign::register(functions);
    rounding::register(functions);
    elementary::register(functions);
    bases::register(functions);
    random::register(functions);
    format_number::register(functions);
    number_format::register(functions);
}
