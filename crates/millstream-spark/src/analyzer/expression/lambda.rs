//! Lambda functions and their variables.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arrow::datatypes::Field;
use datafusion::logical_expr::Expr;
use datafusion::logical_expr::expr::{Lambda, LambdaVariable};
use millstream_core::{Error, Result};
use spark_connect_proto::expression::LambdaFunction;

use super::{Resolver, required};
use crate::functions::{LambdaBody, Typed};

/// The variables of the lambdas around an expression, innermost first.
pub(super) struct Variables<'a> {
    variables: Vec<Variable>,
    outer: Option<&'a Variables<'a>>,
}

struct Variable {
    /// As the user wrote it.
    name: String,
    /// Under a name that no other variable has, so that nested lambdas cannot take each other's.
    field: Arc<Field>,
}

/// A lambda function before the types of its parameters are known.
pub(super) struct Body<'a> {
    pub(super) resolver: Resolver<'a>,
    pub(super) function: &'a LambdaFunction,
}

static NEXT: AtomicU64 = AtomicU64::new(0);

impl LambdaBody for Body<'_> {
    fn parameters(&self) -> usize {
        self.function.arguments.len()
    }

    fn resolve(&self, parameters: &[Field]) -> Result<(Expr, Typed)> {
        let mut variables: Vec<Variable> = Vec::with_capacity(parameters.len());
        for (argument, parameter) in self.function.arguments.iter().zip(parameters) {
            let name = argument.name_parts.join(".");
            if variables.iter().any(|known| self.resolver.same(&known.name, &name)) {
                return Err(Error::invalid(
                    "INVALID_LAMBDA_FUNCTION_CALL.DUPLICATE_ARG_NAMES",
                    format!("the lambda has two parameters named '{name}'"),
                )
                .with_sqlstate("42K0D"));
            }
            let unique = format!("{name}@{}", NEXT.fetch_add(1, Ordering::Relaxed));
            variables.push(Variable { name, field: Arc::new(parameter.clone().with_name(unique)) });
        }
        let names = variables.iter().map(|variable| variable.field.name().clone()).collect();
        let variables = Variables { variables, outer: self.resolver.variables };
        let resolver = Resolver { variables: Some(&variables), ..self.resolver };
        let body = resolver.value(required(self.function.function.as_deref(), "the body of a lambda")?)?;
        Ok((Expr::Lambda(Lambda::new(names, body.expr.clone())), body))
    }
}

impl Resolver<'_> {
    /// The variable of that name.
    pub(super) fn variable(&self, parts: &[String]) -> Result<Typed> {
        self.variable_of(parts)?.ok_or_else(|| {
            Error::invalid("UNRESOLVED_COLUMN.WITHOUT_SUGGESTION", format!("there is no lambda variable '{}'", parts.join(".")))
                .with_sqlstate("42703")
        })
    }

    /// The variable that the first part of a name names, and the fields that the others name in it.
    pub(super) fn variable_of(&self, parts: &[String]) -> Result<Option<Typed>> {
        let Some((name, fields)) = parts.split_first() else { return Ok(None) };
        let mut scope = self.variables;
        while let Some(variables) = scope {
            if let Some(variable) = variables.variables.iter().find(|variable| self.same(&variable.name, name)) {
                let field = variable.field.clone();
                let value = Typed::new(
                    Expr::LambdaVariable(LambdaVariable::new(field.name().clone(), Some(field.clone()))),
                    field.data_type().clone(),
                    field.is_nullable(),
                );
                return self.fields(value.with_metadata(field.metadata().clone()), fields.to_vec()).map(Some);
            }
            scope = variables.outer;
        }
        Ok(None)
    }
}
