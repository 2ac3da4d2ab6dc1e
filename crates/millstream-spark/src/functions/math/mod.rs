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
