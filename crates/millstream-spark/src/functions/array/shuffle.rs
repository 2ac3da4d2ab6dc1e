//! `shuffle`: a random order that a seed determines.

use std::sync::atomic::{AtomicU64, Ordering};

use arrow::array::{Array, ArrayRef};
use arrow::datatypes::FieldRef;
use datafusion::logical_expr::Volatility;
use datafusion::scalar::ScalarValue;
use millstream_core::Result;

use super::super::downcast;
use super::super::nested::ListBuilder;
use super::super::random::MersenneTwister;
use super::super::{Arguments, Call, Functions, Kernel, Typed, kernel, nested};
use super::array_or_null;

pub(super) fn register(functions: &mut Functions) {
    functions.add("shuffle", shuffle);
}

/// The seeds of calls without one: one after the other, so that two of them do not give the same order.
static NEXT_SEED: AtomicU64 = AtomicU64::new(0x5eed);

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Shuffle {
    seed: i64,
    element: FieldRef,
}

impl Kernel for Shuffle {
    fn evaluate(&self, arguments: &Arguments<'_>) -> Result<ArrayRef> {
        let arrays = arguments.array(0)?;
        let lists = downcast::lists(&arrays)?;
        let mut twister = MersenneTwister::seeded(self.seed);
        let mut builder = ListBuilder::new(self.element.clone(), &[lists.values()])?;
        for row in 0..lists.len() {
            match nested::range(lists, row) {
                Some(range) => {
                    twister.permutation(range.len()).into_iter().for_each(|place| builder.push(0, range.start + place));
                    builder.end()?;
                }
                None => builder.end_null()?,
            }
        }
        builder.finish()
    }
}

fn shuffle(call: &Call<'_>) -> Result<Typed> {
    call.arity(1..=2)?;
    let (array, element) = array_or_null(call, 0)?;
    let seed = if call.len() == 2 { call.constant(1)? } else { ScalarValue::Null };
    let seed = match seed.cast_to(&arrow::datatypes::DataType::Int64) {
        Ok(ScalarValue::Int64(Some(seed))) => seed,
        _ => NEXT_SEED.fetch_add(1, Ordering::Relaxed) as i64,
    };
    let (data_type, nullable) = (array.data_type.clone(), array.nullable);
    Ok(kernel::call("shuffle", Shuffle { seed, element }, vec![array], data_type, nullable, Volatility::Volatile))
}
