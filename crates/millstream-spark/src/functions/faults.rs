//! Spark's error conditions of expressions, at analysis and at run time.

use std::fmt::Display;

use arrow::datatypes::DataType;
use millstream_core::{Error, ErrorKind};

use crate::types::ddl_type;

/// A function was called with a number of arguments that it does not take.
pub fn wrong_number(name: &str, expected: impl Display, actual: usize) -> Error {
    Error::invalid(
        "WRONG_NUM_ARGS.WITHOUT_SUGGESTION",
        format!("`{name}` requires {expected} parameters but the actual number is {actual}"),
    )
    .with_sqlstate("42605")
}

/// There is no such function.
pub fn unresolved_routine(name: &str) -> Error {
    Error::invalid("UNRESOLVED_ROUTINE", format!("cannot resolve routine `{name}`: there is no function of that name"))
        .with_sqlstate("42883")
}

/// An argument is of a type that the function does not take. `index` counts from 0.
pub fn unexpected_type(name: &str, index: usize, expected: impl Display, actual: &DataType) -> Error {
    mismatch(
        "UNEXPECTED_INPUT_TYPE",
        format!("parameter {} of `{name}` requires the {expected} type, but it has the type \"{}\"", index + 1, ddl_type(actual)),
    )
}

/// An argument must be a constant. `index` counts from 0.
pub fn not_foldable(name: &str, index: usize) -> Error {
    mismatch("NON_FOLDABLE_INPUT", format!("parameter {} of `{name}` must be a constant", index + 1))
}

/// A parameter that decides what a function is must be a constant, and not null.
pub fn not_foldable_argument(name: &str, parameter: &str, expected: &str) -> Error {
    let message = format!("the parameter `{parameter}` of `{name}` must be a constant of the type \"{expected}\"");
    Error::invalid("NON_FOLDABLE_ARGUMENT", message).with_sqlstate("42K08")
}

/// The arguments of a function have types that do not fit together.
pub fn different_types(name: &str, types: &[&DataType]) -> Error {
    let types: Vec<String> = types.iter().map(|data_type| format!("\"{}\"", ddl_type(data_type))).collect();
    mismatch("DATA_DIFF_TYPES", format!("the arguments of `{name}` must be of one type but are {}", types.join(" and ")))
}

/// `DATATYPE_MISMATCH.<what>`, SQLSTATE 42K09.
pub fn mismatch(what: &str, message: impl Into<String>) -> Error {
    Error::invalid(format!("DATATYPE_MISMATCH.{what}"), message).with_sqlstate("42K09")
}

/// A failure of a row under ANSI rules or because of its value: the condition, its SQLSTATE, and a message.
pub fn row(condition: &'static str, sqlstate: &'static str, message: impl Into<String>) -> Error {
    Error::new(ErrorKind::BadRecord, condition, message).with_sqlstate(sqlstate)
}

/// A number left the range of its type.
pub fn overflow(what: impl Display) -> Error {
    row("ARITHMETIC_OVERFLOW", "22003", format!("{what}: use a wider type or the `try_` variant of the function"))
}

/// Division by zero.
pub fn divide_by_zero() -> Error {
    row("DIVIDE_BY_ZERO", "22012", "division by zero: use `try_divide` to get NULL instead")
}

/// A text that cannot be cast.
pub fn bad_cast(value: impl Display, from: &DataType, to: &DataType) -> Error {
    row(
        "CAST_INVALID_INPUT",
        "22018",
        format!(
            "the value '{value}' of type \"{}\" cannot be cast to \"{}\": use `try_cast` to get NULL instead",
            ddl_type(from),
            ddl_type(to)
        ),
    )
}

/// A number that does not fit the type it is cast to.
pub fn cast_overflow(value: impl Display, from: &DataType, to: &DataType) -> Error {
    row(
        "CAST_OVERFLOW",
        "22003",
        format!("the value {value} of type \"{}\" does not fit \"{}\": use `try_cast` to get NULL instead", ddl_type(from), ddl_type(to)),
    )
}

/// A number that does not fit the decimal that it should become.
pub fn out_of_range(value: impl Display, precision: u8, scale: i8) -> Error {
    row(
        "NUMERIC_VALUE_OUT_OF_RANGE.WITH_SUGGESTION",
        "22003",
        format!(
            "the number {value} does not fit DECIMAL({precision}, {scale}): use a wider decimal, or set spark.sql.ansi.enabled to false to get NULL"
        ),
    )
}

/// A remainder of a division by zero.
pub fn remainder_by_zero() -> Error {
    row("REMAINDER_BY_ZERO", "22012", "remainder by zero: use `try_mod` to get NULL instead")
}

/// A small integer left its range.
pub fn binary_overflow(left: impl Display, operator: &str, right: impl Display) -> Error {
    row("BINARY_ARITHMETIC_OVERFLOW", "22003", format!("{left} {operator} {right} leaves the range of the type: use a wider type"))
}

/// The two sides of an operator have types that do not fit together.
pub fn operands_differ(operator: &str, left: &DataType, right: &DataType) -> Error {
    mismatch(
        "BINARY_OP_DIFF_TYPES",
        format!(
            "the operands of `{operator}` have the types \"{}\" and \"{}\", which do not fit together",
            ddl_type(left),
            ddl_type(right)
        ),
    )
}

/// The two sides of an operator have one type, but not one that it takes.
pub fn operands_wrong(operator: &str, expected: &str, actual: &DataType) -> Error {
    mismatch("BINARY_OP_WRONG_TYPE", format!("`{operator}` takes {expected}, not \"{}\"", ddl_type(actual)))
}
