//! Functions that take lambda functions: `transform`, `filter`, `aggregate`, `array_sort`.

mod aggregate;
mod array;
mod evaluation;
mod map;
mod sort;

use std::ops::RangeInclusive;
use std::sync::Arc;

use arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::logical_expr::Expr;
use datafusion::logical_expr::expr::Lambda;
use millstream_core::{Error, Result};

use super::{Argument, Call, Functions, Typed, cast, faults};
use crate::types;
use evaluation::{Elements, Evaluation, HigherOrder};

pub(super) fn register(functions: &mut Functions) {
    array::register(functions);
    aggregate::register(functions);
    map::register(functions);
    sort::register(functions);
}

/// A lambda with what it is called with and what it gives.
struct Body {
    expr: Expr,
    body: Typed,
    parameters: Vec<FieldRef>,
}

impl Body {
    /// The lambda at a place, for parameters of these types. A value that is no lambda stands for a lambda that always gives it.
    ///
    /// # Errors
    /// `INVALID_LAMBDA_FUNCTION_CALL.NUM_ARGS_MISMATCH`, and those of the body.
    fn resolve(call: &Call<'_>, index: usize, parameters: Vec<Field>, allowed: RangeInclusive<usize>) -> Result<Body> {
        if let Some(count) = call.lambda_parameters(index)
            && !allowed.contains(&count)
        {
            let message = format!("the lambda of `{}` has {count} parameters where {} are due", call.name, allowed.start());
            return Err(Error::invalid("INVALID_LAMBDA_FUNCTION_CALL.NUM_ARGS_MISMATCH", message).with_sqlstate("42K0D"));
        }
        let (expr, body) = match call.arguments.get(index) {
            Some(Argument::Value(value)) => (Expr::Lambda(Lambda::new(Vec::new(), value.expr.clone())), value.clone()),
            _ => call.lambda(index, &parameters)?,
        };
        Ok(Body { expr, body, parameters: parameters.into_iter().map(Arc::new).collect() })
    }

    /// The same lambda with a boolean body.
    ///
    /// # Errors
    /// `DATATYPE_MISMATCH.UNEXPECTED_INPUT_TYPE` when the body is anything but a boolean or null.
    fn predicate(self, call: &Call<'_>, index: usize) -> Result<Body> {
        match self.body.data_type {
            DataType::Boolean => Ok(self),
            DataType::Null => {
                let body = cast::implicit(self.body, &DataType::Boolean, call.settings)?;
                let expr = match self.expr {
                    Expr::Lambda(lambda) => Expr::Lambda(Lambda::new(lambda.params, body.expr.clone())),
                    other => other,
                };
                Ok(Body { expr, body, ..self })
            }
            ref other => Err(faults::unexpected_type(call.name, index, "\"BOOLEAN\"", other)),
        }
    }

    /// A field of the body's values.
    fn field(&self, name: &str) -> FieldRef {
        let mut metadata = self.body.metadata.clone();
        metadata.retain(|key, _| types::belongs_to_type(key));
        Arc::new(Field::new(name, self.body.data_type.clone(), self.body.nullable).with_metadata(metadata))
    }
}

/// A parameter that takes the values of a field.
fn parameter(name: &str, field: &Field) -> Field {
    Field::new(name, field.data_type().clone(), field.is_nullable()).with_metadata(field.metadata().clone())
}
