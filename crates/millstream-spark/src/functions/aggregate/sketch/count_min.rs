//! `count_min_sketch`: how often values occur, in the bytes of Spark's own sketch.

use std::hash::{Hash, Hasher};

use arrow::array::{Array, ArrayRef, ArrowPrimitiveType, AsArray};
use arrow::datatypes::{DataType, Int8Type, Int16Type, Int32Type, Int64Type};
use datafusion::scalar::ScalarValue;
use millstream_core::{Error, Result};

use super::{Aggregates, Clauses, Sketch, SketchFunction, sketch};
use crate::functions::hash::murmur3_bytes;
use crate::functions::random::JavaRandom;
use crate::functions::{Call, Typed, faults};

const VERSION: i32 = 1;
/// The prime 2^31 - 1, by which hashes of numbers are reduced.
const PRIME: i64 = (1 << 31) - 1;

pub(super) fn register(aggregates: &mut Aggregates) {
    aggregates.add("count_min_sketch", build);
}

fn build(call: &Call<'_>, clauses: &Clauses) -> Result<Typed> {
    call.arity(3..=4)?;
    let kinds = [DataType::Int64, DataType::Int8, DataType::Int16, DataType::Int32, DataType::Utf8, DataType::Binary];
    let value = call.exactly(0, &kinds)?;
    let error = number(call, 1)?;
    let confidence = number(call, 2)?;
    let seed = match call.len() {
        4 => constant(call, 3, &DataType::Int32)?,
        _ => return Err(faults::wrong_number(call.name, 4, call.len())),
    };
    let ScalarValue::Int32(Some(seed)) = seed else { return Err(null(call, "seed")) };
    if error <= 0.0 {
        return Err(out_of_range(call, "error", "(0.0, ∞)", error));
    }
    if !(confidence > 0.0 && confidence < 1.0) {
        return Err(out_of_range(call, "confidence", "(0.0, 1.0)", confidence));
    }
    let shape = Shape { error: error.to_bits(), confidence: confidence.to_bits(), seed };
    Ok(sketch("count_min_sketch", shape, vec![value], clauses))
}

fn constant(call: &Call<'_>, index: usize, data_type: &DataType) -> Result<ScalarValue> {
    call.folded(index, &call.exactly(index, std::slice::from_ref(data_type))?)
}

fn number(call: &Call<'_>, index: usize) -> Result<f64> {
    match constant(call, index, &DataType::Float64)? {
        ScalarValue::Float64(Some(number)) => Ok(number),
        _ => Err(null(call, if index == 1 { "error" } else { "confidence" })),
    }
}

fn null(call: &Call<'_>, what: &str) -> Error {
    faults::mismatch("UNEXPECTED_NULL", format!("the {what} of `{}` must not be null", call.name))
}

fn out_of_range(call: &Call<'_>, what: &str, range: &str, value: f64) -> Error {
    faults::mismatch("VALUE_OUT_OF_RANGE", format!("the {what} of `{}` must be in {range}, not {value}", call.name))
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Shape {
    error: u64,
    confidence: u64,
    seed: i32,
}

impl Hash for Shape {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (self.error, self.confidence, self.seed).hash(state);
    }
}

impl SketchFunction for Shape {
    type Sketch = CountMin;

    fn start(&self) -> CountMin {
        let width = (2.0 / f64::from_bits(self.error)).ceil() as usize;
        let depth = (-(1.0 - f64::from_bits(self.confidence)).ln() / 2_f64.ln()).ceil() as usize;
        let mut random = JavaRandom::new(i64::from(self.seed));
        let factors = (0..depth).map(|_| i64::from(random.next_below(i32::MAX))).collect();
        CountMin { factors, width, total: 0, counts: vec![0; width * depth] }
    }
}

/// A table of counts with a row for each hash.
#[derive(Debug)]
struct CountMin {
    factors: Vec<i64>,
    width: usize,
    total: i64,
    counts: Vec<i64>,
}

impl CountMin {
    fn count(&mut self, row: usize, place: usize) {
        if let Some(count) = self.counts.get_mut(row * self.width + place) {
            *count += 1;
        }
    }

    fn add_long(&mut self, value: i64) {
        for row in 0..self.factors.len() {
            let product = self.factors.get(row).copied().unwrap_or(0).wrapping_mul(value);
            let hash = product.wrapping_add(product >> 32) & PRIME;
            self.count(row, hash as usize % self.width);
        }
        self.total += 1;
    }

    fn add_bytes(&mut self, value: &[u8]) {
        let first = murmur3_bytes(value, 0);
        let second = murmur3_bytes(value, first);
        let width = i32::try_from(self.width).unwrap_or(i32::MAX);
        for row in 0..self.factors.len() {
            let hash = first.wrapping_add((row as u32).wrapping_mul(second)) as i32;
            self.count(row, (hash % width).unsigned_abs() as usize);
        }
        self.total += 1;
    }

    fn add_longs<T: ArrowPrimitiveType<Native: Into<i64>>>(&mut self, values: &ArrayRef) {
        for value in values.as_primitive::<T>().iter().flatten() {
            self.add_long(value.into());
        }
    }
}

impl Sketch for CountMin {
    fn update(&mut self, values: &[ArrayRef]) -> Result<()> {
        let Some(values) = values.first() else { return Ok(()) };
        match values.data_type() {
            DataType::Int8 => self.add_longs::<Int8Type>(values),
            DataType::Int16 => self.add_longs::<Int16Type>(values),
            DataType::Int32 => self.add_longs::<Int32Type>(values),
            DataType::Int64 => self.add_longs::<Int64Type>(values),
            DataType::Utf8 => values.as_string::<i32>().iter().flatten().for_each(|value| self.add_bytes(value.as_bytes())),
            DataType::Binary => values.as_binary::<i32>().iter().flatten().for_each(|value| self.add_bytes(value)),
            other => return Err(super::wrong_type(other)),
        }
        Ok(())
    }

    fn merge(&mut self, state: &[u8]) -> Result<()> {
        let start = 20 + 8 * self.factors.len();
        let word = |at: usize| state.get(at..at + 8).and_then(|bytes| bytes.try_into().ok()).map(i64::from_be_bytes);
        if state.len() != start + 8 * self.counts.len() {
            return Err(Error::internal("the state of count_min_sketch is of another size"));
        }
        self.total += word(4).unwrap_or(0);
        for (place, count) in self.counts.iter_mut().enumerate() {
            *count += word(start + 8 * place).unwrap_or(0);
        }
        Ok(())
    }

    fn state(&self) -> Result<Vec<u8>> {
        let mut out = VERSION.to_be_bytes().to_vec();
        out.extend(self.total.to_be_bytes());
        out.extend((self.factors.len() as i32).to_be_bytes());
        out.extend((self.width as i32).to_be_bytes());
        self.factors.iter().chain(&self.counts).for_each(|number| out.extend(number.to_be_bytes()));
        Ok(out)
    }

    fn size(&self) -> usize {
        self.counts.capacity() * size_of::<i64>()
    }
}
