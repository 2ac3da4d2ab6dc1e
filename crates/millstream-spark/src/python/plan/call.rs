//! Calls in expressions. They stand where they were written until [`super::extract`] takes them out; nothing ever computes them in place.

use std::sync::Arc;

use arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::tree_node::TreeNode;
use datafusion::error::{DataFusionError, Result as DfResult};
use datafusion::logical_expr::expr::{AggregateFunction, ScalarFunction};
use datafusion::logical_expr::function::AccumulatorArgs;
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, ColumnarValue, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl,
    Signature, TypeSignature, Volatility,
};
use millstream_core::{Error, Result};

use crate::functions::Typed;
use crate::python::{PythonFunction, PythonRuntime};

/// A function with the names under which arguments are given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Call {
    pub(super) function: Arc<PythonFunction>,
    /// For each argument its name, if it is given by name.
    pub(super) names: Vec<Option<String>>,
    /// For each argument its type, with what its column carries.
    pub(super) inputs: Vec<Field>,
    pub(super) runtime: PythonRuntime,
    /// Whether it is an aggregate over a stream.
    pub(super) on_stream: bool,
    /// The declared type under the function's name.
    output: FieldRef,
    signature: Signature,
}

impl std::hash::Hash for Call {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        (&self.function, &self.names).hash(state);
    }
}

impl Call {
    /// The same arguments by place and name.
    pub(super) fn arguments<'a>(&'a self, places: &[usize]) -> Vec<(usize, Option<&'a str>)> {
        places.iter().copied().zip(self.names.iter().map(Option::as_deref)).collect()
    }
}

/// Compiles a call of a function. Functions of groups become aggregates, which may be used over windows.
///
/// # Errors
/// `INVALID_PLAN_INPUT` for functions that are called in other ways, such as those of `mapInPandas`.
pub(crate) fn call(runtime: PythonRuntime, function: PythonFunction, arguments: Vec<(Option<String>, Typed)>) -> Result<Typed> {
    let inputs: Vec<Field> = arguments.iter().map(|(_, argument)| argument.to_field("")).collect();
    let (names, arguments): (Vec<_>, Vec<_>) = arguments.into_iter().map(|(name, argument)| (name, argument.expr)).unzip();
    let output = Arc::new(function.output.clone().with_name(&function.name).with_nullable(true));
    let (data_type, metadata) = (output.data_type().clone(), output.metadata().clone());
    // Computed as often as it is written and never while planning.
    let signature = Signature::one_of(vec![TypeSignature::VariadicAny, TypeSignature::Nullary], Volatility::Volatile);
    let (scalar, aggregate) = (function.is_scalar(), function.is_aggregate());
    let name = function.name.clone();
    let call = Call { function: Arc::new(function), names, inputs, runtime, on_stream: false, output, signature };
    let expr = if scalar {
        Expr::ScalarFunction(ScalarFunction { func: Arc::new(ScalarUDF::from(ScalarCall(call))), args: arguments })
    } else if aggregate {
        let function = Arc::new(AggregateUDF::from(AggregateCall(call)));
        Expr::AggregateFunction(AggregateFunction::new_udf(function, arguments, false, None, Vec::new(), None))
    } else {
        return Err(
            Error::invalid("INVALID_PLAN_INPUT", format!("the function '{name}' cannot be called in an expression")).with_sqlstate("42000")
        );
    };
    Ok(Typed::new(expr, data_type, true).with_metadata(metadata))
}

/// The call that an expression is, if it is one of a scalar function.
pub(super) fn scalar_call(expr: &Expr) -> Option<(&Call, &[Expr])> {
    match expr {
        Expr::ScalarFunction(function) => {
            function.func.inner().downcast_ref::<ScalarCall>().map(|call| (&call.0, function.args.as_slice()))
        }
        _ => None,
    }
}

/// Whether an expression is a call of a scalar function of a user.
pub(crate) fn is_call(expr: &Expr) -> bool {
    scalar_call(expr).is_some()
}

/// Whether an expression calls a function of a user that is not deterministic.
pub(crate) fn is_random(expr: &Expr) -> bool {
    expr.exists(|part| Ok(scalar_call(part).is_some_and(|(call, _)| !call.function.deterministic))).unwrap_or(false)
}

/// Whether an expression calls a function of a user that gives one value for a group.
pub(crate) fn has_aggregate(expr: &Expr) -> bool {
    let is_call = |part: &Expr| matches!(part, Expr::AggregateFunction(function) if aggregate_call(&function.func).is_some());
    expr.exists(|part| Ok(is_call(part))).unwrap_or(false)
}

/// An aggregate over a stream: a function of a user cannot go on from batch to batch, and the query that tries dies of that.
pub(crate) fn over_stream(expr: Expr) -> Expr {
    match expr {
        Expr::Alias(mut alias) => {
            alias.expr = Box::new(over_stream(*alias.expr));
            Expr::Alias(alias)
        }
        Expr::AggregateFunction(mut function) => {
            if let Some(call) = aggregate_call(&function.func) {
                function.func = Arc::new(AggregateUDF::from(AggregateCall(Call { on_stream: true, ..call.clone() })));
            }
            Expr::AggregateFunction(function)
        }
        other => other,
    }
}

/// The call behind an aggregate function, if it is a user's.
pub(super) fn aggregate_call(function: &AggregateUDF) -> Option<&Call> {
    function.inner().downcast_ref::<AggregateCall>().map(|call| &call.0)
}

fn never(name: &str) -> DataFusionError {
    DataFusionError::Internal(format!("the Python function '{name}' was left in an expression"))
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct ScalarCall(Call);

impl ScalarUDFImpl for ScalarCall {
    fn name(&self) -> &str {
        &self.0.function.name
    }

    fn signature(&self) -> &Signature {
        &self.0.signature
    }

    fn return_type(&self, _: &[DataType]) -> DfResult<DataType> {
        Ok(self.0.output.data_type().clone())
    }

    fn return_field_from_args(&self, _: ReturnFieldArgs<'_>) -> DfResult<FieldRef> {
        Ok(self.0.output.clone())
    }

    fn invoke_with_args(&self, _: ScalarFunctionArgs) -> DfResult<ColumnarValue> {
        Err(never(self.name()))
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct AggregateCall(Call);

impl AggregateUDFImpl for AggregateCall {
    fn name(&self) -> &str {
        &self.0.function.name
    }

    fn signature(&self) -> &Signature {
        &self.0.signature
    }

    fn return_type(&self, _: &[DataType]) -> DfResult<DataType> {
        Ok(self.0.output.data_type().clone())
    }

    fn return_field(&self, _: &[FieldRef]) -> DfResult<FieldRef> {
        Ok(self.0.output.clone())
    }

    fn accumulator(&self, _: AccumulatorArgs<'_>) -> DfResult<Box<dyn Accumulator>> {
        Err(never(self.name()))
    }
}
