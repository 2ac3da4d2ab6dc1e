//! The scalar functions of sketches, of which there is one for each kind of summary.

use std::marker::PhantomData;

use arrow::array::ArrayRef;
use arrow::datatypes::{ArrowPrimitiveType, DataType, Float64Type};
use millstream_core::{Error, Result};

use super::super::{DEFAULT_LG_ENTRIES, THETA, TUPLE, lg_entries};
use super::operations::difference;
use super::{Doubles, Integers, Intersection, Mode, Native, Numbers, TupleSketch, Union};
use crate::functions::rows::{Row, Rows};
use crate::functions::sketch::theta::ThetaSketch;
use crate::functions::{Arguments, Call, Functions, Kernel, Typed, coercion, faults, scalar};

/// What a pair of functions computes, and their names for doubles and for integers.
const TABLE: [(What, &str, &str); 9] = [
    (What::Estimate, "tuple_sketch_estimate_double", "tuple_sketch_estimate_integer"),
    (What::Theta, "tuple_sketch_theta_double", "tuple_sketch_theta_integer"),
    (What::Summary, "tuple_sketch_summary_double", "tuple_sketch_summary_integer"),
    (What::Union, "tuple_union_double", "tuple_union_integer"),
    (What::Intersection, "tuple_intersection_double", "tuple_intersection_integer"),
    (What::Difference, "tuple_difference_double", "tuple_difference_integer"),
    (What::ThetaUnion, "tuple_union_theta_double", "tuple_union_theta_integer"),
    (What::ThetaIntersection, "tuple_intersection_theta_double", "tuple_intersection_theta_integer"),
    (What::ThetaDifference, "tuple_difference_theta_double", "tuple_difference_theta_integer"),
];

pub(in super::super) fn register(functions: &mut Functions) {
    for (_, doubles, integers) in TABLE {
        functions.add(doubles, build::<Doubles>);
        functions.add(integers, build::<Integers>);
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum What {
    Estimate,
    Theta,
    Summary,
    Union,
    Intersection,
    Difference,
    ThetaUnion,
    ThetaIntersection,
    ThetaDifference,
}

impl What {
    /// The sketches that come first.
    fn sketches(self) -> usize {
        match self {
            What::Estimate | What::Theta | What::Summary => 1,
            _ => 2,
        }
    }

    fn has_size(self) -> bool {
        matches!(self, What::Union | What::ThetaUnion)
    }

    fn has_mode(self) -> bool {
        self.has_size() || matches!(self, What::Summary | What::Intersection | What::ThetaIntersection)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Of<T> {
    name: &'static str,
    what: What,
    mode: Mode,
    kind: PhantomData<T>,
}

fn build<T: Numbers>(call: &Call<'_>) -> Result<Typed> {
    let found = TABLE
        .iter()
        .find_map(|(what, doubles, integers)| [*doubles, *integers].into_iter().find(|name| *name == call.name).map(|name| (*what, name)));
    let Some((what, name)) = found else { return Err(faults::unresolved_routine(call.name)) };
    let sketches = what.sketches();
    call.arity(sketches..=sketches + usize::from(what.has_size()) + usize::from(what.has_mode()))?;
    let mut arguments = (0..sketches).map(|index| call.exactly(index, &[DataType::Binary])).collect::<Result<Vec<_>>>()?;
    let mut next = sketches;
    if what.has_size() {
        arguments.push(if call.len() > next { size(call, next)? } else { Typed::literal(i32::from(DEFAULT_LG_ENTRIES).into()) });
        next += 1;
    }
    let mode = if what.has_mode() && call.len() > next { mode(call, next)? } else { Mode::default() };
    let nullable = arguments.iter().any(|argument| argument.nullable);
    let result = match what {
        What::Estimate | What::Theta => DataType::Float64,
        What::Summary => T::Total::DATA_TYPE,
        _ => DataType::Binary,
    };
    Ok(scalar(name, Of::<T> { name, what, mode, kind: PhantomData }, arguments, result, nullable))
}

/// The constant logarithm of a number of entries.
///
/// # Errors
/// `DATATYPE_MISMATCH.NON_FOLDABLE_INPUT`, `DATATYPE_MISMATCH.UNEXPECTED_NULL`, `DATATYPE_MISMATCH.TYPE_CHECK_FAILURE_WITH_HINT` when it is
/// out of range.
pub(crate) fn size(call: &Call<'_>, index: usize) -> Result<Typed> {
    let size = call.exactly(index, &[DataType::Int32])?;
    match coercion::constant_of(&size) {
        Some(datafusion::scalar::ScalarValue::Int32(Some(lg))) => lg_entries(call.name, lg).map(|_| size).map_err(refused),
        Some(_) => Err(faults::mismatch("UNEXPECTED_NULL", format!("`lgNomEntries` of `{}` must not be null", call.name))),
        None => Err(faults::not_foldable(call.name, index)),
    }
}

/// The constant mode.
///
/// # Errors
/// `DATATYPE_MISMATCH.NON_FOLDABLE_INPUT`, `DATATYPE_MISMATCH.UNEXPECTED_NULL`, `DATATYPE_MISMATCH.TYPE_CHECK_FAILURE_WITH_HINT` when there is
/// no such mode.
pub(crate) fn mode(call: &Call<'_>, index: usize) -> Result<Mode> {
    match call.constant_text(index)? {
        Some(name) => Mode::of(call.name, &name).map_err(refused),
        None => Err(faults::mismatch("UNEXPECTED_NULL", format!("the mode of `{}` must not be null", call.name))),
    }
}

/// A constant that is out of range fails the check of types.
fn refused(error: Error) -> Error {
    faults::mismatch("TYPE_CHECK_FAILURE_WITH_HINT", error.message())
}

impl<T: Numbers> Of<T> {
    fn read(&self, row: Row<'_>, index: usize) -> Result<TupleSketch<Native<T>>> {
        TUPLE.read(self.name, TupleSketch::from_bytes(row.bytes(index)))
    }

    fn read_theta(&self, row: Row<'_>) -> Result<ThetaSketch> {
        THETA.read(self.name, ThetaSketch::from_bytes(row.bytes(1)))
    }

    fn combined(&self, row: Row<'_>) -> Result<TupleSketch<Native<T>>> {
        let left = self.read(row, 0)?;
        let empty = || TupleSketch { entries: Vec::new(), theta: super::ALL, empty: true };
        Ok(match self.what {
            What::Union | What::ThetaUnion => {
                let mut union = Union::new(lg_entries(self.name, row.int(2))?, self.mode);
                union.add(&left);
                if self.what == What::Union {
                    union.add(&self.read(row, 1)?)
                } else {
                    union.add_theta(&self.read_theta(row)?)
                }
                union.result()
            }
            What::Intersection | What::ThetaIntersection => {
                let mut common = Intersection::new(self.mode);
                common.add(&left);
                if self.what == What::Intersection {
                    common.add(&self.read(row, 1)?)
                } else {
                    common.add_theta(&self.read_theta(row)?)
                }
                common.result().unwrap_or_else(empty)
            }
            What::ThetaDifference => {
                let right = self.read_theta(row)?;
                difference(&left, right.empty, right.theta, &right.hashes)
            }
            _ => {
                let right = self.read(row, 1)?;
                let hashes: Vec<u64> = right.entries.iter().map(|(hash, _)| *hash).collect();
                difference(&left, right.empty, right.theta, &hashes)
            }
        })
    }
}

impl<T: Numbers> Kernel for Of<T> {
    fn evaluate(&self, arguments: &Arguments<'_>) -> Result<ArrayRef> {
        let rows = Rows::of(arguments)?;
        match self.what {
            What::Estimate => rows.numbers::<Float64Type>(|row| Ok(Some(self.read(row, 0)?.estimate()))),
            What::Theta => rows.numbers::<Float64Type>(|row| Ok(Some(self.read(row, 0)?.fraction()))),
            What::Summary => rows.numbers::<T::Total>(|row| {
                let sketch = self.read(row, 0)?;
                Ok(Some(T::total(sketch.entries.iter().map(|(_, summary)| summary.value), self.mode)))
            }),
            _ => rows.bytes(|row, out| {
                out.extend(self.combined(row)?.to_bytes());
                Ok(true)
            }),
        }
    }
}
