//! `theta_sketch_estimate`, `theta_union`, `theta_intersection`, `theta_difference`.

use arrow::array::ArrayRef;
use arrow::datatypes::{DataType, Int64Type};
use millstream_core::Result;

use super::super::{DEFAULT_LG_ENTRIES, THETA, lg_entries};
use super::{Intersection, ThetaSketch, Union, difference};
use crate::functions::rows::{Row, Rows};
use crate::functions::{Arguments, Call, Functions, Kernel, Typed, scalar};

pub(in super::super) fn register(functions: &mut Functions) {
    functions.add("theta_sketch_estimate", |call| {
        call.arity(1..=1)?;
        let sketch = call.exactly(0, &[DataType::Binary])?;
        let nullable = sketch.nullable;
        Ok(scalar("theta_sketch_estimate", Estimate, vec![sketch], DataType::Int64, nullable))
    });
    functions.add("theta_union", |call| {
        call.arity(2..=3)?;
        let lg = if call.len() == 3 { call.exactly(2, &[DataType::Int32])? } else { Typed::literal(i32::from(DEFAULT_LG_ENTRIES).into()) };
        Ok(combined("theta_union", Combine::Union, vec![call.exactly(0, &[DataType::Binary])?, call.exactly(1, &[DataType::Binary])?, lg]))
    });
    functions.add("theta_intersection", |call| both(call, "theta_intersection", Combine::Intersection));
    functions.add("theta_difference", |call| both(call, "theta_difference", Combine::Difference));
}

fn both(call: &Call<'_>, name: &'static str, how: Combine) -> Result<Typed> {
    call.arity(2..=2)?;
    Ok(combined(name, how, vec![call.exactly(0, &[DataType::Binary])?, call.exactly(1, &[DataType::Binary])?]))
}

fn combined(name: &'static str, how: Combine, arguments: Vec<Typed>) -> Typed {
    let nullable = arguments.iter().any(|argument| argument.nullable);
    scalar(name, how, arguments, DataType::Binary, nullable)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Estimate;

impl Kernel for Estimate {
    fn evaluate(&self, arguments: &Arguments<'_>) -> Result<ArrayRef> {
        Rows::of(arguments)?.numbers::<Int64Type>(|row| {
            let sketch = THETA.read("theta_sketch_estimate", ThetaSketch::from_bytes(row.bytes(0)))?;
            Ok(Some(sketch.estimate().round() as i64))
        })
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Combine {
    Union,
    Intersection,
    Difference,
}

impl Combine {
    fn name(self) -> &'static str {
        match self {
            Combine::Union => "theta_union",
            Combine::Intersection => "theta_intersection",
            Combine::Difference => "theta_difference",
        }
    }

    fn of(self, row: Row<'_>) -> Result<ThetaSketch> {
        let lg = match self {
            Combine::Union => lg_entries(self.name(), row.int(2))?,
            _ => DEFAULT_LG_ENTRIES,
        };
        let read = |index| THETA.read(self.name(), ThetaSketch::from_bytes(row.bytes(index)));
        let (left, right) = (read(0)?, read(1)?);
        Ok(match self {
            Combine::Union => {
                let mut union = Union::new(lg);
                union.add(&left);
                union.add(&right);
                union.result()
            }
            Combine::Intersection => {
                let mut intersection = Intersection::default();
                intersection.add(&left);
                intersection.add(&right);
                intersection.result().cloned().unwrap_or_else(ThetaSketch::empty)
            }
            Combine::Difference => difference(&left, &right),
        })
    }
}

impl Kernel for Combine {
    fn evaluate(&self, arguments: &Arguments<'_>) -> Result<ArrayRef> {
        Rows::of(arguments)?.bytes(|row, out| {
            out.extend(self.of(row)?.to_bytes());
            Ok(true)
        })
    }
}
