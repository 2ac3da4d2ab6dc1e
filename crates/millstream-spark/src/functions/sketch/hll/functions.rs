//! `hll_sketch_estimate` and `hll_union`.

use arrow::array::{Array, ArrayRef};
use arrow::datatypes::{DataType, Int64Type};
use millstream_core::{Error, Result};

use super::super::HLL;
use super::HllSketch;
use crate::functions::rows::Rows;
use crate::functions::{Arguments, Call, Functions, Kernel, Typed, downcast, faults, scalar};

pub(in super::super) fn register(functions: &mut Functions) {
    functions.add("hll_sketch_estimate", |call| {
        call.arity(1..=1)?;
        let sketch = call.exactly(0, &[DataType::Binary])?;
        let nullable = sketch.nullable;
        Ok(scalar("hll_sketch_estimate", Estimate, vec![sketch], DataType::Int64, nullable))
    });
    functions.add("hll_union", union);
}

fn union(call: &Call<'_>) -> Result<Typed> {
    call.arity(2..=3)?;
    let different = if call.len() == 3 { call.exactly(2, &[DataType::Boolean])? } else { Typed::literal(false.into()) };
    let arguments = vec![call.exactly(0, &[DataType::Binary])?, call.exactly(1, &[DataType::Binary])?, different];
    let nullable = arguments.iter().any(|argument| argument.nullable);
    Ok(scalar("hll_union", Union, arguments, DataType::Binary, nullable))
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Estimate;

impl Kernel for Estimate {
    fn evaluate(&self, arguments: &Arguments<'_>) -> Result<ArrayRef> {
        Rows::of(arguments)?.numbers::<Int64Type>(|row| {
            let sketch = HLL.read("hll_sketch_estimate", HllSketch::from_bytes(row.bytes(0)))?;
            Ok(Some(sketch.estimate().round() as i64))
        })
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Union;

impl Kernel for Union {
    fn evaluate(&self, arguments: &Arguments<'_>) -> Result<ArrayRef> {
        let different = arguments.array(2)?;
        let different = downcast::booleans(&different)?;
        Rows::of(arguments)?.bytes(|row, out| {
            let read = |index| HLL.read("hll_union", HllSketch::from_bytes(row.bytes(index)));
            let (left, right) = (read(0)?, read(1)?);
            if !(different.is_valid(row.at()) && different.value(row.at())) {
                same_size("hll_union", &left, &right)?;
            }
            let mut union = HllSketch::new(left.lg_k().min(right.lg_k()));
            union.union(&left);
            union.union(&right);
            out.extend(union.to_bytes());
            Ok(true)
        })
    }
}

/// Refuses sketches with different numbers of registers.
///
/// # Errors
/// `HLL_UNION_DIFFERENT_LG_K`.
pub(crate) fn same_size(function: &str, left: &HllSketch, right: &HllSketch) -> Result<()> {
    if left.lg_k() == right.lg_k() {
        return Ok(());
    }
    Err(different(function, left.lg_k(), right.lg_k()))
}

fn different(function: &str, left: u8, right: u8) -> Error {
    let message = format!(
        "`{function}` got sketches with `lgConfigK` {left} and {right}: set `allowDifferentLgConfigK` to true to unite them all the same"
    );
    faults::row("HLL_UNION_DIFFERENT_LG_K", "22000", message)
}
