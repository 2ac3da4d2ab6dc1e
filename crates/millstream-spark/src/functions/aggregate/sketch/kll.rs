//! `kll_sketch_agg_*` and `kll_merge_agg_*`.

use std::marker::PhantomData;

use arrow::array::{ArrayRef, AsArray};
use arrow::datatypes::{ArrowPrimitiveType, DataType};
use millstream_core::{Error, Result};

use super::{Aggregates, Clauses, Sketch, SketchFunction, constant_int, each, sketch};
use crate::functions::cast::implicit;
use crate::functions::sketch::KLL;
use crate::functions::sketch::kll::{Bigint, DEFAULT_K, Double, Float, KllSketch, LEAST_K, Native, Numbers};
use crate::functions::{Call, Typed, faults};

pub(super) fn register(aggregates: &mut Aggregates) {
    aggregates.add("kll_sketch_agg_bigint", |call, clauses| {
        let whole = [DataType::Int8, DataType::Int32, DataType::Int64, DataType::Int16];
        build::<Bigint>(call, clauses, "kll_sketch_agg_bigint", &whole)
    });
    aggregates.add("kll_sketch_agg_float", |call, clauses| build::<Float>(call, clauses, "kll_sketch_agg_float", &[DataType::Float32]));
    aggregates.add("kll_sketch_agg_double", |call, clauses| {
        build::<Double>(call, clauses, "kll_sketch_agg_double", &[DataType::Float32, DataType::Float64])
    });
    aggregates.add("kll_merge_agg_bigint", |call, clauses| merge::<Bigint>(call, clauses, "kll_merge_agg_bigint"));
    aggregates.add("kll_merge_agg_float", |call, clauses| merge::<Float>(call, clauses, "kll_merge_agg_float"));
    aggregates.add("kll_merge_agg_double", |call, clauses| merge::<Double>(call, clauses, "kll_merge_agg_double"));
}

fn build<T: Numbers>(call: &Call<'_>, clauses: &Clauses, name: &'static str, allowed: &[DataType]) -> Result<Typed> {
    call.arity(1..=2)?;
    let value = implicit(call.exactly(0, allowed)?, &T::Arrow::DATA_TYPE, call.settings)?;
    let k = size(call)?;
    Ok(sketch(name, Of::<T> { name, k, images: false, kind: PhantomData }, vec![value], clauses))
}

fn merge<T: Numbers>(call: &Call<'_>, clauses: &Clauses, name: &'static str) -> Result<Typed> {
    call.arity(1..=2)?;
    let image = call.exactly(0, &[DataType::Binary])?;
    let k = size(call)?;
    Ok(sketch(name, Of::<T> { name, k, images: true, kind: PhantomData }, vec![image], clauses))
}

/// The constant size, if there is one.
fn size(call: &Call<'_>) -> Result<Option<u16>> {
    if call.len() < 2 {
        return Ok(None);
    }
    let not_constant = || faults::not_foldable(call.name, 1);
    let Some(k) = constant_int(call, 1, not_constant)? else {
        return Err(faults::mismatch("UNEXPECTED_NULL", format!("the `k` of `{}` must not be null", call.name)));
    };
    match u16::try_from(k) {
        Ok(size) if k >= LEAST_K => Ok(Some(size)),
        _ => {
            let message = format!("the `k` of `{}` must be between {LEAST_K} and {}, not {k}", call.name, u16::MAX);
            Err(faults::mismatch("TYPE_CHECK_FAILURE_WITH_HINT", message))
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Of<T> {
    name: &'static str,
    k: Option<u16>,
    /// The rows are sketches.
    images: bool,
    kind: PhantomData<T>,
}

impl<T: Numbers> SketchFunction for Of<T> {
    type Sketch = Building<T>;

    fn start(&self) -> Building<T> {
        let sketch = if self.images { self.k.map(KllSketch::new) } else { Some(KllSketch::new(self.k.unwrap_or(DEFAULT_K))) };
        Building { name: self.name, images: self.images, sketch, kind: PhantomData }
    }
}

/// A sketch, which without a size of its own takes that of the first one that is merged into it.
#[derive(Debug)]
struct Building<T: Numbers> {
    name: &'static str,
    images: bool,
    sketch: Option<KllSketch<Native<T>>>,
    kind: PhantomData<T>,
}

impl<T: Numbers> Building<T> {
    /// Takes in the sketch of a row.
    fn unite(&mut self, image: &[u8]) -> Result<()> {
        let other = KLL.read(self.name, KllSketch::from_bytes(image))?;
        self.sketch.get_or_insert_with(|| KllSketch::new(other.k())).merge(&other);
        Ok(())
    }
}

impl<T: Numbers> Sketch for Building<T> {
    fn update(&mut self, values: &[ArrayRef]) -> Result<()> {
        if self.images {
            return each(values, |image| self.unite(image));
        }
        let numbers = values.first().and_then(|values| values.as_primitive_opt::<T::Arrow>());
        let numbers = numbers.ok_or_else(|| Error::internal("the numbers of a sketch are of another type"))?;
        if let Some(sketch) = &mut self.sketch {
            numbers.iter().flatten().for_each(|number| sketch.add(number));
        }
        Ok(())
    }

    /// The first state is taken as it is where the sketch has no size of its own; merging it would turn it round.
    fn merge(&mut self, state: &[u8]) -> Result<()> {
        let other = KLL.read(self.name, KllSketch::from_bytes(state))?;
        match &mut self.sketch {
            Some(sketch) => sketch.merge(&other),
            None => self.sketch = Some(other),
        }
        Ok(())
    }

    fn state(&self) -> Result<Vec<u8>> {
        Ok(self.sketch.as_ref().map(KllSketch::to_bytes).unwrap_or_default())
    }

    fn finish(&self) -> Result<Vec<u8>> {
        Ok(self.sketch.as_ref().map_or_else(|| KllSketch::<Native<T>>::new(DEFAULT_K).to_bytes(), KllSketch::to_bytes))
    }

    fn size(&self) -> usize {
        self.sketch.as_ref().map_or(0, |sketch| sketch.memory())
    }
}
