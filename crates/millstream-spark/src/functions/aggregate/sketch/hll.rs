//! `hll_sketch_agg` and `hll_union_agg`.

use arrow::array::ArrayRef;
use arrow::datatypes::DataType;
use millstream_core::Result;

use super::{Aggregates, Clauses, Keys, Sketch, SketchFunction, constant_int, each, sketch};
use crate::functions::sketch::HLL;
use crate::functions::sketch::hll::{DEFAULT_LG_K, HllSketch, same_size};
use crate::functions::{Call, Typed, coercion, faults};

pub(super) fn register(aggregates: &mut Aggregates) {
    aggregates.add("hll_sketch_agg", build);
    aggregates.add("hll_union_agg", unite);
}

fn build(call: &Call<'_>, clauses: &Clauses) -> Result<Typed> {
    call.arity(1..=2)?;
    let value = call.exactly(0, &[DataType::Int32, DataType::Int64, DataType::Utf8, DataType::Binary])?;
    let not_constant = || faults::row("HLL_K_MUST_BE_CONSTANT", "42K0E", "the `lgConfigK` of `hll_sketch_agg` must be a constant");
    let lg_k = if call.len() == 2 { constant_int(call, 1, not_constant)?.unwrap_or(0) } else { i32::from(DEFAULT_LG_K) };
    let lg_k = match u8::try_from(lg_k) {
        Ok(lg_k) if (4..=21).contains(&lg_k) => lg_k,
        _ => {
            let message = format!("`lgConfigK` of `hll_sketch_agg` must be between 4 and 21, not {lg_k}");
            return Err(faults::row("HLL_INVALID_LG_K", "22546", message));
        }
    };
    Ok(sketch("hll_sketch_agg", Build { lg_k }, vec![value], clauses))
}

fn unite(call: &Call<'_>, clauses: &Clauses) -> Result<Typed> {
    call.arity(1..=2)?;
    let different = call.len() == 2
        && match coercion::constant_of(&call.exactly(1, &[DataType::Boolean])?) {
            Some(datafusion::scalar::ScalarValue::Boolean(different)) => different.unwrap_or(false),
            _ => return Err(faults::not_foldable("hll_union_agg", 1)),
        };
    Ok(sketch("hll_union_agg", Unite { different }, vec![call.exactly(0, &[DataType::Binary])?], clauses))
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Build {
    lg_k: u8,
}

impl SketchFunction for Build {
    type Sketch = HllSketch;

    fn start(&self) -> HllSketch {
        HllSketch::new(self.lg_k)
    }
}

impl Keys for HllSketch {
    fn add_long(&mut self, _: usize, key: i64) {
        HllSketch::add_long(self, key);
    }

    fn add_double(&mut self, _: usize, key: f64) {
        HllSketch::add_bytes(self, &key.to_le_bytes());
    }

    fn add_bytes(&mut self, _: usize, key: &[u8]) {
        HllSketch::add_bytes(self, key);
    }
}

impl Sketch for HllSketch {
    fn update(&mut self, values: &[ArrayRef]) -> Result<()> {
        values.first().map_or(Ok(()), |values| self.add_all(values))
    }

    fn merge(&mut self, state: &[u8]) -> Result<()> {
        let other = HLL.read("hll_sketch_agg", HllSketch::from_bytes(state))?;
        self.union(&other);
        Ok(())
    }

    fn state(&self) -> Result<Vec<u8>> {
        Ok(self.to_bytes())
    }

    fn size(&self) -> usize {
        self.memory()
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Unite {
    different: bool,
}

impl SketchFunction for Unite {
    type Sketch = United;

    fn start(&self) -> United {
        United { different: self.different, sketch: None }
    }
}

/// A union, which takes its size from the first sketch.
#[derive(Debug)]
struct United {
    different: bool,
    sketch: Option<HllSketch>,
}

impl United {
    fn add(&mut self, image: &[u8]) -> Result<()> {
        let other = HLL.read("hll_union_agg", HllSketch::from_bytes(image))?;
        let sketch = self.sketch.get_or_insert_with(|| HllSketch::new(other.lg_k()));
        if !self.different {
            same_size("hll_union_agg", sketch, &other)?;
        }
        sketch.union(&other);
        Ok(())
    }
}

impl Sketch for United {
    fn update(&mut self, values: &[ArrayRef]) -> Result<()> {
        each(values, |image| self.add(image))
    }

    fn merge(&mut self, state: &[u8]) -> Result<()> {
        self.add(state)
    }

    fn state(&self) -> Result<Vec<u8>> {
        Ok(self.sketch.as_ref().map(HllSketch::to_bytes).unwrap_or_default())
    }

    fn finish(&self) -> Result<Vec<u8>> {
        Ok(self.sketch.as_ref().map_or_else(|| HllSketch::new(DEFAULT_LG_K).to_bytes(), HllSketch::to_bytes))
    }

    fn size(&self) -> usize {
        self.sketch.as_ref().map_or(0, HllSketch::memory)
    }
}
