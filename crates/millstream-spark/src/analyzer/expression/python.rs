//! Calls of functions of users.

use millstream_core::{Error, Result};
use spark_connect_proto::expression::ExprType;
use spark_connect_proto::{CommonInlineUserDefinedFunction, Expression};

use super::{Output, Resolver, required};
use crate::functions::Typed;
use crate::python::{PythonFunction, plan};

impl Resolver<'_> {
    pub(super) fn python_call(&self, call: &CommonInlineUserDefinedFunction) -> Result<Typed> {
        let function = PythonFunction::of(call)?;
        if self.variables.is_some() {
            return Err(Error::invalid(
                "UNSUPPORTED_FEATURE.LAMBDA_FUNCTION_WITH_PYTHON_UDF",
                format!("The feature is not supported: Lambda function with Python UDF \"{}\" in a higher order function.", function.name),
            )
            .with_sqlstate("0A000"));
        }
        if call.is_distinct && !function.is_aggregate() {
            return Err(Error::invalid(
                "INVALID_SQL_SYNTAX.FUNCTION_WITH_UNSUPPORTED_SYNTAX",
                format!("the function `{}` does not take DISTINCT", function.name),
            )
            .with_sqlstate("42000"));
        }
        let arguments = self.python_arguments(&call.arguments, &function.name)?;
        plan::call(self.surroundings.python()?, function, arguments)
    }

    /// Arguments of a function of a user, with the names under which some are given; those by position come first.
    pub(in crate::analyzer) fn python_arguments(&self, arguments: &[Expression], name: &str) -> Result<Vec<(Option<String>, Typed)>> {
        let mut resolved: Vec<(Option<String>, Typed)> = Vec::with_capacity(arguments.len());
        for argument in arguments {
            match &argument.expr_type {
                Some(ExprType::NamedArgumentExpression(named)) => {
                    if resolved.iter().any(|(known, _)| known.as_ref() == Some(&named.key)) {
                        return Err(Error::invalid(
                            "DUPLICATE_ROUTINE_PARAMETER_ASSIGNMENT.DOUBLE_NAMED_ARGUMENT_REFERENCE",
                            format!("the call of `{name}` gives the argument `{}` more than once", named.key),
                        )
                        .with_sqlstate("4274K"));
                    }
                    let value = self.value(required(named.value.as_deref(), "the value of an argument")?)?;
                    resolved.push((Some(named.key.clone()), value));
                }
                _ if resolved.iter().any(|(known, _)| known.is_some()) => {
                    return Err(Error::invalid(
                        "UNEXPECTED_POSITIONAL_ARGUMENT",
                        format!("in the call of `{name}` an argument by position comes after one by name"),
                    )
                    .with_sqlstate("4274K"));
                }
                Some(ExprType::UnresolvedStar(star)) => {
                    for output in self.star(star)? {
                        if let Output::Column { value, .. } = output {
                            resolved.push((None, value));
                        }
                    }
                }
                _ => resolved.push((None, self.value(argument)?)),
            }
        }
        Ok(resolved)
    }
}
