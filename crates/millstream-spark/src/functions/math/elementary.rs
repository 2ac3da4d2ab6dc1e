//! Roots, powers, logarithms, trigonometric and hyperbolic functions of doubles.

use std::f64::consts::{E, PI};
use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, Float64Array, Int64Array};
use arrow::datatypes::{DataType, Float64Type, Int32Type};
use datafusion::scalar::ScalarValue;
use millstream_core::{Error, Result};

use super::arithmetic::each_pair;
use crate::functions::{Arguments, Call, Functions, Kernel, Typed, cast, kernel};

pub(super) fn register(functions: &mut Functions) {
    functions.add("acos", |call| unary(call, Unary::Acos));
    functions.add("acosh", |call| unary(call, Unary::Acosh));
    functions.add("asin", |call| unary(call, Unary::Asin));
    functions.add("asinh", |call| unary(call, Unary::Asinh));
    functions.add("atan", |call| unary(call, Unary::Atan));
    functions.add("atanh", |call| unary(call, Unary::Atanh));
    functions.add("cbrt", |call| unary(call, Unary::Cbrt));
    functions.add("cos", |call| unary(call, Unary::Cos));
    functions.add("cosh", |call| unary(call, Unary::Cosh));
    functions.add("cot", |call| unary(call, Unary::Cot));
    functions.add("csc", |call| unary(call, Unary::Csc));
    functions.add("degrees", |call| unary(call, Unary::Degrees));
    functions.add("exp", |call| unary(call, Unary::Exp));
    functions.add("expm1", |call| unary(call, Unary::Expm1));
    functions.add("ln", |call| unary(call, Unary::Ln));
    functions.add("log10", |call| unary(call, Unary::Log10));
    functions.add("log1p", |call| unary(call, Unary::Log1p));
    functions.add("log2", |call| unary(call, Unary::Log2));
    functions.add("radians", |call| unary(call, Unary::Radians));
    functions.add("rint", |call| unary(call, Unary::Rint));
    functions.add("sec", |call| unary(call, Unary::Sec));
    functions.add_all(&["sign", "signum"], sign);
    functions.add("sin", |call| unary(call, Unary::Sin));
    functions.add("sinh", |call| unary(call, Unary::Sinh));
    functions.add("sqrt", |call| unary(call, Unary::Sqrt));
    functions.add("tan", |call| unary(call, Unary::Tan));
    functions.add("tanh", |call| unary(call, Unary::Tanh));
    functions.add("atan2", |call| binary(call, Binary::Atan2));
    functions.add("hypot", |call| binary(call, Binary::Hypot));
    functions.add_all(&["pow", "power"], |call| binary(call, Binary::Pow));
    functions.add("log", |call| if call.len() == 1 { unary(call, Unary::Ln) } else { binary(call, Binary::Log) });
    functions.add("pi", |call| constant(call, PI));
    functions.add("e", |call| constant(call, E));
    functions.add("factorial", |call| {
        call.arity(1..=1)?;
        Ok(kernel::scalar("factorial", Factorial, vec![call.int(0)?], DataType::Int64, true))
    });
}

fn constant(call: &Call<'_>, value: f64) -> Result<Typed> {
    call.arity(0..=0)?;
    Ok(Typed::literal(ScalarValue::Float64(Some(value))))
}

fn unary(call: &Call<'_>, function: Unary) -> Result<Typed> {
    call.arity(1..=1)?;
    // Spark takes all of them for nullable.
    Ok(kernel::scalar(function.name(), function, vec![call.double(0)?], DataType::Float64, true))
}

fn binary(call: &Call<'_>, function: Binary) -> Result<Typed> {
    call.arity(2..=2)?;
    let arguments = vec![call.double(0)?, call.double(1)?];
    let nullable = arguments.iter().any(|argument| argument.nullable) || function == Binary::Log;
    Ok(kernel::scalar(function.name(), function, arguments, DataType::Float64, nullable))
}

/// The sign of a number or an interval.
fn sign(call: &Call<'_>) -> Result<Typed> {
    call.arity(1..=1)?;
    let value = call.value(0)?.clone();
    let value = match &value.data_type {
        DataType::Duration(_) | DataType::Interval(arrow::datatypes::IntervalUnit::YearMonth) => {
            let to = if matches!(value.data_type, DataType::Duration(_)) { DataType::Int64 } else { DataType::Int32 };
            let counts = cast::implicit(value, &to, call.settings)?;
            cast::implicit(counts, &DataType::Float64, call.settings)?
        }
        _ => call.double(0)?,
    };
    Ok(kernel::scalar("signum", Unary::Signum, vec![value], DataType::Float64, true))
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Unary {
    Acos,
    Acosh,
    Asin,
    Asinh,
    Atan,
    Atanh,
    Cbrt,
    Cos,
    Cosh,
    Cot,
    Csc,
    Degrees,
    Exp,
    Expm1,
    Ln,
    Log10,
    Log1p,
    Log2,
    Radians,
    Rint,
    Sec,
    Signum,
    Sin,
    Sinh,
    Sqrt,
    Tan,
    Tanh,
}

impl Unary {
    fn name(self) -> &'static str {
        match self {
            Unary::Acos => "acos",
            Unary::Acosh => "acosh",
            Unary::Asin => "asin",
            Unary::Asinh => "asinh",
            Unary::Atan => "atan",
            Unary::Atanh => "atanh",
            Unary::Cbrt => "cbrt",
            Unary::Cos => "cos",
            Unary::Cosh => "cosh",
            Unary::Cot => "cot",
            Unary::Csc => "csc",
            Unary::Degrees => "degrees",
            Unary::Exp => "exp",
            Unary::Expm1 => "expm1",
            Unary::Ln => "ln",
            Unary::Log10 => "log10",
            Unary::Log1p => "log1p",
            Unary::Log2 => "log2",
            Unary::Radians => "radians",
            Unary::Rint => "rint",
            Unary::Sec => "sec",
            Unary::Signum => "signum",
            Unary::Sin => "sin",
            Unary::Sinh => "sinh",
            Unary::Sqrt => "sqrt",
            Unary::Tan => "tan",
            Unary::Tanh => "tanh",
        }
    }

    fn is_logarithm(self) -> bool {
        matches!(self, Unary::Ln | Unary::Log10 | Unary::Log1p | Unary::Log2)
    }

    /// Logarithms of what has none are null.
    fn compute(self, x: f64) -> Option<f64> {
        let asymptote = if self == Unary::Log1p { -1.0 } else { 0.0 };
        if self.is_logarithm() && x <= asymptote {
            return None;
        }
        Some(match self {
            Unary::Acos => x.acos(),
            Unary::Acosh => (x + (x * x - 1.0).sqrt()).ln(),
            Unary::Asin => x.asin(),
            Unary::Asinh if x == 0.0 => x,
            Unary::Asinh => (x.abs() + (x * x + 1.0).sqrt()).ln().copysign(x),
            Unary::Atan => x.atan(),
            Unary::Atanh => 0.5 * (x.ln_1p() - (-x).ln_1p()),
            Unary::Cbrt => x.cbrt(),
            Unary::Cos => x.cos(),
            Unary::Cosh => x.cosh(),
            Unary::Cot => 1.0 / x.tan(),
            Unary::Csc => 1.0 / x.sin(),
            Unary::Degrees => x.to_degrees(),
            Unary::Exp => x.exp(),
            Unary::Expm1 => x.exp_m1(),
            Unary::Ln => x.ln(),
            Unary::Log10 => x.log10(),
            Unary::Log1p => x.ln_1p(),
            Unary::Log2 => x.log2(),
            Unary::Radians => x.to_radians(),
            Unary::Rint => x.round_ties_even(),
            Unary::Sec => 1.0 / x.cos(),
            Unary::Signum if x == 0.0 || x.is_nan() => x,
            Unary::Signum => x.signum(),
            Unary::Sin => x.sin(),
            Unary::Sinh => x.sinh(),
            Unary::Sqrt => x.sqrt(),
            Unary::Tan => x.tan(),
            Unary::Tanh => x.tanh(),
        })
    }
}

impl Kernel for Unary {
    fn evaluate(&self, arguments: &Arguments<'_>) -> Result<ArrayRef> {
        let values = arguments.array(0)?;
        let values: &Float64Array = values.as_primitive_opt::<Float64Type>().ok_or_else(|| Error::internal("doubles are due"))?;
        if self.is_logarithm() {
            return Ok(Arc::new(values.unary_opt::<_, Float64Type>(|value| self.compute(value))));
        }
        Ok(Arc::new(values.unary::<_, Float64Type>(|value| self.compute(value).unwrap_or(f64::NAN))))
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Binary {
    Atan2,
    Hypot,
    Log,
    Pow,
}

impl Binary {
    fn name(self) -> &'static str {
        match self {
            Binary::Atan2 => "atan2",
            Binary::Hypot => "hypot",
            Binary::Log => "log",
            Binary::Pow => "pow",
        }
    }

    fn compute(self, left: f64, right: f64) -> Option<f64> {
        match self {
            // So that -0.0 counts as 0.0.
            Binary::Atan2 => Some((left + 0.0).atan2(right + 0.0)),
            Binary::Hypot => Some(left.hypot(right)),
            Binary::Log => (left > 0.0 && right > 0.0).then(|| right.ln() / left.ln()),
            // Java gives NaN where C gives 1.
            Binary::Pow if right.is_nan() || left.is_nan() && right != 0.0 || left.abs() == 1.0 && right.is_infinite() => Some(f64::NAN),
            Binary::Pow => Some(left.powf(right)),
        }
    }
}

impl Kernel for Binary {
    fn evaluate(&self, arguments: &Arguments<'_>) -> Result<ArrayRef> {
        let (left, right) = (arguments.array(0)?, arguments.array(1)?);
        each_pair::<Float64Type, Float64Type, Float64Type>(&left, &right, |left, right| Ok(self.compute(left, right)))
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Factorial;

impl Kernel for Factorial {
    fn evaluate(&self, arguments: &Arguments<'_>) -> Result<ArrayRef> {
        let values = arguments.array(0)?;
        let values = values.as_primitive_opt::<Int32Type>().ok_or_else(|| Error::internal("integers are due"))?;
        let factorial = |n: i32| (0..=20).contains(&n).then(|| (1..=i64::from(n)).product());
        Ok(Arc::new(values.iter().map(|value| value.and_then(factorial)).collect::<Int64Array>()))
    }
}
