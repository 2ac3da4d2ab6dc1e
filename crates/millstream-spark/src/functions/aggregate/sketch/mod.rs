//! Aggregate functions that build sketches, and those that unite the sketches of many rows.

mod count_min;
mod hll;
mod kll;
mod theta;
mod tuple;

use std::fmt::Debug;
use std::hash::Hash;

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::error::Result as DfResult;
use datafusion::logical_expr::Accumulator;
use datafusion::scalar::ScalarValue;
use millstream_core::Result;
use millstream_engine::to_datafusion;

use super::function::{Aggregation, aggregate};
use super::{Aggregates, Clauses};
use crate::functions::{Call, Typed, coercion};
use crate::types;

pub(super) fn register(aggregates: &mut Aggregates) {
    hll::register(aggregates);
    theta::register(aggregates);
    kll::register(aggregates);
    tuple::register(aggregates);
    count_min::register(aggregates);
}

/// A function whose partial state and whose result are a sketch. Its fields are what it was compiled for.
trait SketchFunction: Debug + Clone + PartialEq + Eq + Hash + Send + Sync + 'static {
    /// What it builds.
    type Sketch: Sketch;

    /// The sketch of no rows.
    fn start(&self) -> Self::Sketch;
}

/// A sketch under construction.
trait Sketch: Debug + Send + Sync + 'static {
    /// Takes in the values of a batch.
    fn update(&mut self, values: &[ArrayRef]) -> Result<()>;

    /// Takes in the state of another.
    fn merge(&mut self, state: &[u8]) -> Result<()>;

    /// The state, which is written to checkpoints: an image of the sketch, or nothing where there is none.
    fn state(&self) -> Result<Vec<u8>>;

    /// The result.
    fn finish(&self) -> Result<Vec<u8>> {
        self.state()
    }

    /// Bytes of memory.
    fn size(&self) -> usize;
}

/// A call of a function that gives a sketch.
fn sketch(name: &'static str, function: impl SketchFunction, arguments: Vec<Typed>, clauses: &Clauses) -> Typed {
    aggregate(name, Building(function), arguments, clauses, DataType::Binary, false)
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Building<F>(F);

impl<F: SketchFunction> Aggregation for Building<F> {
    fn state(&self, _: &[FieldRef], _: &DataType) -> Vec<Field> {
        vec![Field::new("sketch", DataType::Binary, true)]
    }

    fn accumulator(&self, _: &[FieldRef], _: &DataType) -> DfResult<Box<dyn Accumulator>> {
        Ok(Box::new(Builder { sketch: self.0.start(), function: self.0.clone(), merged: false }))
    }

    fn empty(&self, _: &DataType) -> DfResult<ScalarValue> {
        let image = self.0.start().finish().map_err(to_datafusion)?;
        Ok(ScalarValue::Binary(Some(image)))
    }
}

#[derive(Debug)]
struct Builder<F: SketchFunction> {
    function: F,
    sketch: F::Sketch,
    merged: bool,
}

impl<F: SketchFunction> Accumulator for Builder<F> {
    fn update_batch(&mut self, values: &[ArrayRef]) -> DfResult<()> {
        self.sketch.update(values).map_err(to_datafusion)
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> DfResult<()> {
        let states = states.first().and_then(|states| states.as_binary_opt::<i32>());
        self.merged = true;
        for state in states.into_iter().flatten().flatten().filter(|state| !state.is_empty()) {
            self.sketch.merge(state).map_err(to_datafusion)?;
        }
        Ok(())
    }

    fn state(&mut self) -> DfResult<Vec<ScalarValue>> {
        Ok(vec![ScalarValue::Binary(Some(self.sketch.state().map_err(to_datafusion)?))])
    }

    /// Spark always builds in two steps, so that every sketch has been merged once; that is visible in the order of what is in it.
    fn evaluate(&mut self) -> DfResult<ScalarValue> {
        let state = self.sketch.state().map_err(to_datafusion)?;
        let image = if self.merged || state.is_empty() {
            self.sketch.finish()
        } else {
            let mut merged = self.function.start();
            merged.merge(&state).and_then(|()| merged.finish())
        };
        Ok(ScalarValue::Binary(Some(image.map_err(to_datafusion)?)))
    }

    fn size(&self) -> usize {
        size_of_val(self) + self.sketch.size()
    }
}

/// Hands every sketch of a column on.
fn each(values: &[ArrayRef], mut add: impl FnMut(&[u8]) -> Result<()>) -> Result<()> {
    let images = values.first().and_then(|values| values.as_binary_opt::<i32>());
    let images = images.ok_or_else(|| millstream_core::Error::internal("sketches are not binary"))?;
    images.iter().flatten().try_for_each(&mut add)
}

/// A constant whole number; `None` when it is null.
fn constant_int(call: &Call<'_>, index: usize, not_constant: impl FnOnce() -> millstream_core::Error) -> Result<Option<i32>> {
    match coercion::constant_of(&call.exactly(index, &[DataType::Int32])?) {
        Some(ScalarValue::Int32(number)) => Ok(number),
        Some(_) => Ok(None),
        None => Err(not_constant()),
    }
}

/// Numbers, text and bytes as keys of a sketch.
trait Keys {
    /// Counts a whole number.
    fn add_long(&mut self, row: usize, key: i64);

    /// Counts a double.
    fn add_double(&mut self, row: usize, key: f64);

    /// Counts text or bytes, or the numbers of an array by their bytes.
    fn add_bytes(&mut self, row: usize, key: &[u8]);

    /// Counts a column; nulls do not count.
    fn add_all(&mut self, values: &ArrayRef) -> Result<()> {
        use arrow::datatypes::{Float32Type, Float64Type, Int32Type, Int64Type};
        let present = |row: &usize| values.is_valid(*row);
        let rows = (0..values.len()).filter(present);
        match values.data_type() {
            DataType::Int32 => rows.for_each(|row| self.add_long(row, i64::from(values.as_primitive::<Int32Type>().value(row)))),
            DataType::Int64 => rows.for_each(|row| self.add_long(row, values.as_primitive::<Int64Type>().value(row))),
            DataType::Float32 => rows.for_each(|row| self.add_double(row, f64::from(values.as_primitive::<Float32Type>().value(row)))),
            DataType::Float64 => rows.for_each(|row| self.add_double(row, values.as_primitive::<Float64Type>().value(row))),
            DataType::Utf8 => rows.for_each(|row| self.add_bytes(row, values.as_string::<i32>().value(row).as_bytes())),
            DataType::Binary => rows.for_each(|row| self.add_bytes(row, values.as_binary::<i32>().value(row))),
            DataType::List(_) => {
                for row in rows {
                    let list = values.as_list::<i32>().value(row);
                    let bytes: Vec<u8> = match list.data_type() {
                        DataType::Int32 => {
                            list.as_primitive::<Int32Type>().values().iter().flat_map(|number| number.to_le_bytes()).collect()
                        }
                        DataType::Int64 => {
                            list.as_primitive::<Int64Type>().values().iter().flat_map(|number| number.to_le_bytes()).collect()
                        }
                        _ => return Err(wrong_type(values.data_type())),
                    };
                    self.add_bytes(row, &bytes);
                }
            }
            other => return Err(wrong_type(other)),
        }
        Ok(())
    }
}

fn wrong_type(data_type: &DataType) -> millstream_core::Error {
    millstream_core::Error::internal(format!("a sketch does not count values of the type {data_type}"))
}

/// The types of keys that theta and tuple sketches count.
fn key_types() -> Vec<DataType> {
    let mut types: Vec<DataType> =
        vec![DataType::Int32, DataType::Int64, DataType::Float32, DataType::Float64, DataType::Utf8, DataType::Binary];
    types.extend([types::array(DataType::Int32, true), types::array(DataType::Int64, true)]);
    types
}

/// An argument that is a key of a theta or tuple sketch.
fn key(call: &Call<'_>, index: usize) -> Result<Typed> {
    let value = call.value(index)?;
    match &value.data_type {
        DataType::List(element) if matches!(element.data_type(), DataType::Int32 | DataType::Int64) => Ok(value.clone()),
        _ => call.exactly(index, &key_types()),
    }
}
