//! The scalar functions of sketches, of which there is one for each kind of number.

use std::marker::PhantomData;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, ListArray};
use arrow::buffer::OffsetBuffer;
use arrow::datatypes::{ArrowPrimitiveType, DataType, Float64Type, Int64Type};
use millstream_core::{Error, Result};

use super::super::KLL;
use super::{Bigint, Double, Float, KllSketch, Native, Numbers};
use crate::functions::rows::Rows;
use crate::functions::{Arguments, Call, Functions, Kernel, Typed, coercion, downcast, faults, nested, scalar};
use crate::types;

pub(in super::super) fn register(functions: &mut Functions) {
    functions.add("kll_sketch_get_n_bigint", |call| count::<Bigint>(call, "kll_sketch_get_n_bigint"));
    functions.add("kll_sketch_get_n_float", |call| count::<Float>(call, "kll_sketch_get_n_float"));
    functions.add("kll_sketch_get_n_double", |call| count::<Double>(call, "kll_sketch_get_n_double"));
    functions.add("kll_sketch_to_string_bigint", |call| text::<Bigint>(call, "kll_sketch_to_string_bigint"));
    functions.add("kll_sketch_to_string_float", |call| text::<Float>(call, "kll_sketch_to_string_float"));
    functions.add("kll_sketch_to_string_double", |call| text::<Double>(call, "kll_sketch_to_string_double"));
    functions.add("kll_sketch_merge_bigint", |call| merge::<Bigint>(call, "kll_sketch_merge_bigint"));
    functions.add("kll_sketch_merge_float", |call| merge::<Float>(call, "kll_sketch_merge_float"));
    functions.add("kll_sketch_merge_double", |call| merge::<Double>(call, "kll_sketch_merge_double"));
    functions.add("kll_sketch_get_quantile_bigint", |call| quantile::<Bigint>(call, "kll_sketch_get_quantile_bigint"));
    functions.add("kll_sketch_get_quantile_float", |call| quantile::<Float>(call, "kll_sketch_get_quantile_float"));
    functions.add("kll_sketch_get_quantile_double", |call| quantile::<Double>(call, "kll_sketch_get_quantile_double"));
    functions.add("kll_sketch_get_rank_bigint", |call| rank::<Bigint>(call, "kll_sketch_get_rank_bigint"));
    functions.add("kll_sketch_get_rank_float", |call| rank::<Float>(call, "kll_sketch_get_rank_float"));
    functions.add("kll_sketch_get_rank_double", |call| rank::<Double>(call, "kll_sketch_get_rank_double"));
}

/// What is computed of sketches of one kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Of<T> {
    name: &'static str,
    what: What,
    kind: PhantomData<T>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum What {
    Count,
    Text,
    Merge,
    Quantiles,
    Ranks,
}

fn of<T>(name: &'static str, what: What) -> Of<T> {
    Of { name, what, kind: PhantomData }
}

fn count<T: Numbers>(call: &Call<'_>, name: &'static str) -> Result<Typed> {
    call.arity(1..=1)?;
    let sketch = call.binary(0)?;
    let nullable = sketch.nullable;
    Ok(scalar(name, of::<T>(name, What::Count), vec![sketch], DataType::Int64, nullable))
}

fn text<T: Numbers>(call: &Call<'_>, name: &'static str) -> Result<Typed> {
    call.arity(1..=1)?;
    let sketch = call.binary(0)?;
    let nullable = sketch.nullable;
    Ok(scalar(name, of::<T>(name, What::Text), vec![sketch], DataType::Utf8, nullable))
}

fn merge<T: Numbers>(call: &Call<'_>, name: &'static str) -> Result<Typed> {
    call.arity(2..=2)?;
    let (left, right) = (call.binary(0)?, call.binary(1)?);
    let nullable = left.nullable || right.nullable;
    Ok(scalar(name, of::<T>(name, What::Merge), vec![left, right], DataType::Binary, nullable))
}

fn quantile<T: Numbers>(call: &Call<'_>, name: &'static str) -> Result<Typed> {
    looked_up(call, name, &DataType::Float64, &T::Arrow::DATA_TYPE, of::<T>(name, What::Quantiles))
}

fn rank<T: Numbers>(call: &Call<'_>, name: &'static str) -> Result<Typed> {
    looked_up(call, name, &T::Arrow::DATA_TYPE, &DataType::Float64, of::<T>(name, What::Ranks))
}

/// A function of a sketch and a number, or an array of numbers.
fn looked_up<T: Numbers>(call: &Call<'_>, name: &'static str, from: &DataType, to: &DataType, kernel: Of<T>) -> Result<Typed> {
    call.arity(2..=2)?;
    let sketch = call.binary(0)?;
    let array = types::array(from.clone(), false);
    let argument = call.value(1)?;
    let many = matches!(argument.data_type, DataType::List(_));
    let wanted = if many { &array } else { from };
    if !coercion::implicitly_castable(&argument.data_type, wanted, call.settings) {
        let expected = format!("(\"{}\" or \"{}\")", types::ddl_type(from), types::ddl_type(&array));
        return Err(faults::unexpected_type(name, 1, expected, &argument.data_type));
    }
    let argument = call.coerced(1, wanted)?;
    let nullable = sketch.nullable || argument.nullable;
    let result = if many { types::array(to.clone(), false) } else { to.clone() };
    Ok(scalar(name, kernel, vec![sketch, argument], result, nullable))
}

impl<T: Numbers> Kernel for Of<T> {
    fn evaluate(&self, arguments: &Arguments<'_>) -> Result<ArrayRef> {
        let read = |bytes: &[u8]| KLL.read(self.name, KllSketch::<Native<T>>::from_bytes(bytes));
        let rows = Rows::of(arguments)?;
        match self.what {
            What::Count => rows.numbers::<Int64Type>(|row| Ok(Some(read(row.bytes(0))?.n() as i64))),
            What::Text => rows.texts(|row, out| {
                out.push_str(&read(row.bytes(0))?.summary());
                Ok(true)
            }),
            What::Merge => rows.bytes(|row, out| {
                let mut left = read(row.bytes(0))?;
                left.merge(&read(row.bytes(1))?);
                out.extend(left.to_bytes());
                Ok(true)
            }),
            What::Quantiles => self.look_up::<Float64Type, T::Arrow>(arguments, |sketch, rank| {
                if !(0.0..=1.0).contains(&rank) {
                    return Err(out_of_range(self.name));
                }
                KLL.read(self.name, sketch.quantile(rank).ok_or_else(super::super::image::broken))
            }),
            What::Ranks => self.look_up::<T::Arrow, Float64Type>(arguments, |sketch, number| {
                KLL.read(self.name, sketch.rank(number).ok_or_else(super::super::image::broken))
            }),
        }
    }
}

impl<T: Numbers> Of<T> {
    /// Applies a function to the sketch and the number, or the numbers, of each row.
    fn look_up<I: ArrowPrimitiveType, O: ArrowPrimitiveType>(
        &self,
        arguments: &Arguments<'_>,
        find: impl Fn(&KllSketch<Native<T>>, I::Native) -> Result<O::Native>,
    ) -> Result<ArrayRef> {
        let rows = Rows::of(arguments)?;
        let asked = arguments.array(1)?;
        let read = |bytes: &[u8]| KLL.read(self.name, KllSketch::<Native<T>>::from_bytes(bytes));
        let DataType::List(_) = asked.data_type() else {
            let asked = downcast::primitive::<I>(&asked)?;
            return rows.numbers::<O>(|row| find(&read(row.bytes(0))?, asked.value(row.at())).map(Some));
        };
        let asked = downcast::lists(&asked)?;
        let numbers = asked.values().as_primitive_opt::<I>().ok_or_else(|| Error::internal("an array of other numbers"))?;
        let (mut found, mut lengths, mut valid) = (Vec::new(), Vec::with_capacity(rows.len()), Vec::with_capacity(rows.len()));
        for at in 0..rows.len() {
            let row = rows.row(at);
            let range = nested::range(asked, at).filter(|_| row.is_complete());
            valid.push(range.is_some());
            lengths.push(range.as_ref().map_or(0, std::ops::Range::len));
            let Some(range) = range else { continue };
            let sketch = read(row.bytes(0))?;
            for place in range {
                found.push(find(&sketch, numbers.value(place))?);
            }
        }
        let element = Arc::new(arrow::datatypes::Field::new("element", O::DATA_TYPE, false));
        let values: ArrayRef = Arc::new(arrow::array::PrimitiveArray::<O>::from_iter_values(found));
        let nulls = Some(arrow::buffer::NullBuffer::from(valid));
        let lists = ListArray::try_new(element, OffsetBuffer::from_lengths(lengths), values, nulls).map_err(downcast::arrow_error)?;
        Ok(Arc::new(lists))
    }
}

fn out_of_range(name: &str) -> Error {
    faults::row("KLL_SKETCH_INVALID_QUANTILE_RANGE", "22003", format!("the ranks of `{name}` must be between 0.0 and 1.0"))
}
