//! `rand`, `randn`, `uniform`: with a seed, the numbers that Spark gives for its first partition.

use std::hash::{Hash, Hasher};
use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, Float64Array};
use arrow::datatypes::{DataType, Float64Type};
use datafusion::logical_expr::Volatility;
use datafusion::scalar::ScalarValue;
use millstream_core::{Error, Result};
use millstream_engine::batch_time;
use parking_lot::Mutex;

use crate::functions::coercion::{self, is_integral, is_numeric};
use crate::functions::random::XorShift;
use crate::functions::{Arguments, Call, Functions, Kernel, Typed, cast, faults, kernel};
use crate::types;

pub(super) fn register(functions: &mut Functions) {
    functions.add_all(&["rand", "random"], |call| {
        call.arity(0..=1)?;
        numbers(call, 0, Distribution::Uniform)
    });
    functions.add("randn", |call| {
        call.arity(0..=1)?;
        numbers(call, 0, Distribution::Normal)
    });
    functions.add("uniform", uniform);
}

/// Random doubles; an argument from `index` on is the seed.
fn numbers(call: &Call<'_>, index: usize, distribution: Distribution) -> Result<Typed> {
    let name = if distribution == Distribution::Normal { "randn" } else { "rand" };
    if call.len() <= index {
        let one = || kernel::udf(datafusion::functions::math::random(), Vec::new(), DataType::Float64, false);
        return Ok(match distribution {
            Distribution::Uniform => one(),
            Distribution::Normal => kernel::call(name, Normal, vec![one(), one()], DataType::Float64, false, Volatility::Volatile),
        });
    }
    let seed = call.folded(index, &call.long(index)?)?;
    let seed = match seed {
        ScalarValue::Int64(Some(seed)) => seed,
        _ => 0,
    };
    // Each batch has a time of its own, at which the sequence starts again: a batch that runs again gives the same numbers.
    let now = kernel::udf(batch_time::current_timestamp(), Vec::new(), types::timestamp(), false);
    let sequence = Sequence { distribution, seed, state: Arc::default() };
    Ok(kernel::call(name, sequence, vec![now], DataType::Float64, false, Volatility::Volatile))
}

/// `uniform(from, to [, seed])`: numbers from `from` up to `to`, of the type of both.
fn uniform(call: &Call<'_>) -> Result<Typed> {
    call.arity(2..=3)?;
    for index in 0..2 {
        let value = call.value(index)?;
        if !is_numeric(&value.data_type) && value.data_type != DataType::Null {
            return Err(faults::unexpected_type(call.name, index, "\"NUMERIC\"", &value.data_type));
        }
        if coercion::constant_of(value).is_none() {
            return Err(faults::not_foldable(call.name, index));
        }
    }
    let (from, to) = (call.value(0)?.clone(), call.value(1)?.clone());
    let data_type = match (&from.data_type, &to.data_type) {
        (DataType::Null, _) | (_, DataType::Null) => return Ok(Typed::null(&DataType::Float64)),
        (left, right) if is_integral(left) && is_integral(right) => {
            coercion::common_type(left, right, call.settings).unwrap_or(DataType::Int64)
        }
        (DataType::Float64, _) | (_, DataType::Float64) => DataType::Float64,
        (DataType::Float32, _) | (_, DataType::Float32) => DataType::Float32,
        (decimal @ DataType::Decimal128(..), other) | (other, decimal @ DataType::Decimal128(..)) if is_integral(other) => decimal.clone(),
        (left, right) => coercion::common_type(left, right, call.settings).unwrap_or(DataType::Float64),
    };
    let from = cast::implicit(from, &DataType::Float64, call.settings)?;
    let to = cast::implicit(to, &DataType::Float64, call.settings)?;
    let random = numbers(call, 2, Distribution::Uniform)?;
    let scaled = kernel::call("uniform", Scaled, vec![from, to, random], DataType::Float64, false, Volatility::Volatile);
    let result = cast::implicit(scaled, &data_type, call.settings)?;
    Ok(Typed { nullable: false, ..result })
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Distribution {
    Uniform,
    Normal,
}

/// The numbers of a sequence, which starts again when the argument, the batch's time, changes.
#[derive(Clone, Debug)]
struct Sequence {
    distribution: Distribution,
    seed: i64,
    state: Arc<Mutex<Option<(ScalarValue, XorShift)>>>,
}

impl PartialEq for Sequence {
    fn eq(&self, other: &Self) -> bool {
        self.distribution == other.distribution && self.seed == other.seed && Arc::ptr_eq(&self.state, &other.state)
    }
}

impl Eq for Sequence {}

impl Hash for Sequence {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (self.distribution, self.seed).hash(state);
    }
}

impl Kernel for Sequence {
    fn evaluate(&self, arguments: &Arguments<'_>) -> Result<ArrayRef> {
        let now = match arguments.scalar(0) {
            Some(now) => now.clone(),
            None => {
                let times = arguments.array(0)?;
                if times.is_empty() {
                    ScalarValue::Null
                } else {
                    ScalarValue::try_from_array(&times, 0).map_err(millstream_engine::from_datafusion)?
                }
            }
        };
        let mut state = self.state.lock();
        if state.as_ref().is_none_or(|(then, _)| *then != now) {
            *state = Some((now, XorShift::seeded(self.seed)));
        }
        let Some((_, generator)) = state.as_mut() else { return Err(Error::internal("a sequence has no generator")) };
        let numbers = (0..arguments.rows()).map(|_| match self.distribution {
            Distribution::Uniform => generator.next_double(),
            Distribution::Normal => generator.next_gaussian(),
        });
        Ok(Arc::new(Float64Array::from_iter_values(numbers)))
    }
}

/// Normally distributed numbers from pairs of evenly distributed ones (Box and Muller).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Normal;

impl Kernel for Normal {
    fn evaluate(&self, arguments: &Arguments<'_>) -> Result<ArrayRef> {
        let (left, right) = (arguments.array(0)?, arguments.array(1)?);
        super::arithmetic::each_pair::<Float64Type, Float64Type, Float64Type>(&left, &right, |left, right| {
            Ok(Some((-2.0 * (1.0 - left).ln()).sqrt() * (std::f64::consts::TAU * right).cos()))
        })
    }
}

/// A number between the first two arguments, as far along as the third.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Scaled;

impl Kernel for Scaled {
    fn evaluate(&self, arguments: &Arguments<'_>) -> Result<ArrayRef> {
        let columns = arguments.arrays()?;
        let [from, to, share] = columns.as_slice() else { return Err(Error::internal("uniform takes three arguments")) };
        let doubles =
            |column: &ArrayRef| column.as_primitive_opt::<Float64Type>().cloned().ok_or_else(|| Error::internal("doubles are due"));
        let (from, to, share) = (doubles(from)?, doubles(to)?, doubles(share)?);
        let numbers = from.iter().zip(&to).zip(&share).map(|((from, to), share)| {
            let (from, to) = (from?, to?);
            Some(from + (to - from) * share?)
        });
        Ok(Arc::new(numbers.collect::<Float64Array>()))
    }
}
