//! A call of a function, as its builder sees it.

use std::ops::RangeInclusive;

use arrow::datatypes::{DataType, Field};
use datafusion::logical_expr::Expr;
use datafusion::scalar::ScalarValue;
use millstream_core::{Error, Result};

use super::{Settings, Typed, cast, coercion, faults};
use crate::types;

/// Resolves the body of a lambda function once the types of its parameters are known.
pub trait LambdaBody {
    /// How many parameters the lambda has.
    fn parameters(&self) -> usize;

    /// The lambda for parameters of these types: the planner's lambda expression, and its body with what is known of it.
    ///
    /// # Errors
    /// Those of resolving the body.
    fn resolve(&self, parameters: &[Field]) -> Result<(Expr, Typed)>;
}

/// One argument.
#[derive(Clone)]
pub enum Argument<'a> {
    /// A value.
    Value(Typed),
    /// A lambda function `(x, y) -> …`.
    Lambda(&'a dyn LambdaBody),
}

/// A function's name in lower case, its arguments, and what it is compiled for.
pub struct Call<'a> {
    /// The name, in lower case.
    pub name: &'a str,
    /// The arguments, in order.
    pub arguments: Vec<Argument<'a>>,
    /// The session's settings.
    pub settings: &'a Settings,
}

impl<'a> Call<'a> {
    /// How many arguments there are.
    pub fn len(&self) -> usize {
        self.arguments.len()
    }

    /// Whether there are no arguments.
    pub fn is_empty(&self) -> bool {
        self.arguments.is_empty()
    }

    /// Checks the number of arguments.
    ///
    /// # Errors
    /// `WRONG_NUM_ARGS.WITHOUT_SUGGESTION`.
    pub fn arity(&self, allowed: RangeInclusive<usize>) -> Result<()> {
        if allowed.contains(&self.len()) {
            return Ok(());
        }
        let expected = if allowed.start() == allowed.end() {
            allowed.start().to_string()
        } else if *allowed.end() == usize::MAX {
            format!("> {}", allowed.start().saturating_sub(1))
        } else {
            format!("[{}]", allowed.map(|n| n.to_string()).collect::<Vec<_>>().join(", "))
        };
        Err(faults::wrong_number(self.name, expected, self.len()))
    }

    /// An argument that is a value.
    ///
    /// # Errors
    /// `WRONG_NUM_ARGS` when it is not there, `INVALID_LAMBDA_FUNCTION_CALL.NON_HIGHER_ORDER_FUNCTION` when it is a lambda.
    pub fn value(&self, index: usize) -> Result<&Typed> {
        match self.arguments.get(index) {
            Some(Argument::Value(value)) => Ok(value),
            Some(Argument::Lambda(_)) => Err(Error::invalid(
                "INVALID_LAMBDA_FUNCTION_CALL.NON_HIGHER_ORDER_FUNCTION",
                format!("a lambda function is not an argument of `{}`", self.name),
            )
            .with_sqlstate("42K0D")),
            None => Err(faults::wrong_number(self.name, index + 1, self.len())),
        }
    }

    /// The values from an argument on.
    ///
    /// # Errors
    /// Those of [`Call::value`].
    pub fn values_from(&self, start: usize) -> Result<Vec<Typed>> {
        (start..self.len()).map(|index| self.value(index).cloned()).collect()
    }

    /// The lambda at a place, resolved for parameters of these types. A lambda may have fewer parameters than there are types.
    ///
    /// # Errors
    /// `DATATYPE_MISMATCH.UNEXPECTED_INPUT_TYPE` when the argument is not a lambda,
    /// `INVALID_LAMBDA_FUNCTION_CALL.NUM_ARGS_MISMATCH` when it has more parameters than `parameters`, and those of its body.
    pub fn lambda(&self, index: usize, parameters: &[Field]) -> Result<(Expr, Typed)> {
        match self.arguments.get(index) {
            Some(Argument::Lambda(lambda)) => match parameters.get(..lambda.parameters()) {
                Some(parameters) => lambda.resolve(parameters),
                None => Err(Error::invalid(
                    "INVALID_LAMBDA_FUNCTION_CALL.NUM_ARGS_MISMATCH",
                    format!("the lambda of `{}` has {} parameters but gets {}", self.name, lambda.parameters(), parameters.len()),
                )
                .with_sqlstate("42K0D")),
            },
            Some(Argument::Value(value)) => Err(faults::unexpected_type(self.name, index, "lambda function", &value.data_type)),
            None => Err(faults::wrong_number(self.name, index + 1, self.len())),
        }
    }

    /// How many parameters the lambda at a place has, if there is one.
    pub fn lambda_parameters(&self, index: usize) -> Option<usize> {
        match self.arguments.get(index) {
            Some(Argument::Lambda(lambda)) => Some(lambda.parameters()),
            _ => None,
        }
    }

    /// An argument, implicitly cast to a type as Spark casts the arguments of functions.
    ///
    /// # Errors
    /// `DATATYPE_MISMATCH.UNEXPECTED_INPUT_TYPE` when it cannot be.
    pub fn coerced(&self, index: usize, to: &DataType) -> Result<Typed> {
        let value = self.value(index)?;
        if !coercion::implicitly_castable(&value.data_type, to, self.settings) {
            return Err(faults::unexpected_type(self.name, index, format!("\"{}\"", types::ddl_type(to)), &value.data_type));
        }
        cast::implicit(value.clone(), to, self.settings)
    }

    /// An argument that must be of one of these types as it is; a null without a type becomes one of the first.
    ///
    /// # Errors
    /// `DATATYPE_MISMATCH.UNEXPECTED_INPUT_TYPE` when it is of another type.
    pub fn exactly(&self, index: usize, allowed: &[DataType]) -> Result<Typed> {
        let value = self.value(index)?;
        match (&value.data_type, allowed.first()) {
            (actual, _) if allowed.contains(actual) => Ok(value.clone()),
            (DataType::Null, Some(first)) => cast::implicit(value.clone(), first, self.settings),
            (actual, _) => {
                let names: Vec<String> = allowed.iter().map(|to| format!("\"{}\"", types::ddl_type(to))).collect();
                let expected = if names.len() == 1 { names.concat() } else { format!("({})", names.join(" or ")) };
                Err(faults::unexpected_type(self.name, index, expected, actual))
            }
        }
    }

    /// An argument as text.
    ///
    /// # Errors
    /// As [`Call::coerced`].
    pub fn string(&self, index: usize) -> Result<Typed> {
        self.coerced(index, &DataType::Utf8)
    }

    /// An argument as bytes.
    ///
    /// # Errors
    /// As [`Call::coerced`].
    pub fn binary(&self, index: usize) -> Result<Typed> {
        self.coerced(index, &DataType::Binary)
    }

    /// An argument as a 32-bit integer.
    ///
    /// # Errors
    /// As [`Call::coerced`].
    pub fn int(&self, index: usize) -> Result<Typed> {
        self.coerced(index, &DataType::Int32)
    }

    /// An argument as a 64-bit integer.
    ///
    /// # Errors
    /// As [`Call::coerced`].
    pub fn long(&self, index: usize) -> Result<Typed> {
        self.coerced(index, &DataType::Int64)
    }

    /// An argument as a double.
    ///
    /// # Errors
    /// As [`Call::coerced`].
    pub fn double(&self, index: usize) -> Result<Typed> {
        self.coerced(index, &DataType::Float64)
    }

    /// An argument as a boolean.
    ///
    /// # Errors
    /// As [`Call::coerced`].
    pub fn boolean(&self, index: usize) -> Result<Typed> {
        self.coerced(index, &DataType::Boolean)
    }

    /// An argument as a date.
    ///
    /// # Errors
    /// As [`Call::coerced`].
    pub fn date(&self, index: usize) -> Result<Typed> {
        self.coerced(index, &DataType::Date32)
    }

    /// An argument as an instant.
    ///
    /// # Errors
    /// As [`Call::coerced`].
    pub fn timestamp(&self, index: usize) -> Result<Typed> {
        self.coerced(index, &types::timestamp())
    }

    /// A constant argument.
    ///
    /// # Errors
    /// `DATATYPE_MISMATCH.NON_FOLDABLE_INPUT`, and those of computing it.
    pub fn constant(&self, index: usize) -> Result<ScalarValue> {
        self.folded(index, self.value(index)?)
    }

    /// The constant that an argument, as the function wants it, must be.
    ///
    /// # Errors
    /// As [`Call::constant`].
    pub fn folded(&self, index: usize, value: &Typed) -> Result<ScalarValue> {
        coercion::fold(value)?.ok_or_else(|| faults::not_foldable(self.name, index))
    }

    /// A constant argument as text; `None` when it is null.
    ///
    /// # Errors
    /// `DATATYPE_MISMATCH.NON_FOLDABLE_INPUT`, and those of [`Call::string`].
    pub fn constant_text(&self, index: usize) -> Result<Option<String>> {
        match self.folded(index, &self.string(index)?)? {
            ScalarValue::Utf8(text) | ScalarValue::LargeUtf8(text) | ScalarValue::Utf8View(text) => Ok(text),
            _ => Ok(None),
        }
    }

    /// The arguments from `start` on, cast to their common type.
    ///
    /// # Errors
    /// `DATATYPE_MISMATCH.DATA_DIFF_TYPES` when there is none.
    pub fn common(&self, start: usize) -> Result<(DataType, Vec<Typed>)> {
        let values = self.values_from(start)?;
        coercion::to_common_type(self.name, values, self.settings)
    }
}
