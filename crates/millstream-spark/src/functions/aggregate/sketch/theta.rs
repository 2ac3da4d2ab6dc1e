//! `theta_sketch_agg`, `theta_union_agg`, `theta_intersection_agg`.

use arrow::array::ArrayRef;
use arrow::datatypes::DataType;
use millstream_core::{Error, ErrorKind, Result};

use super::{Aggregates, Clauses, Keys, Sketch, SketchFunction, constant_int, each, key, sketch};
use crate::functions::sketch::theta::{Intersection, ThetaBuilder, ThetaSketch, Union};
use crate::functions::sketch::{DEFAULT_LG_ENTRIES, THETA, lg_entries};
use crate::functions::{Call, Typed, faults};

pub(super) fn register(aggregates: &mut Aggregates) {
    aggregates.add("theta_sketch_agg", |call, clauses| {
        call.arity(1..=2)?;
        let value = key(call, 0)?;
        Ok(sketch("theta_sketch_agg", Build { lg_entries: size(call)? }, vec![value], clauses))
    });
    aggregates.add("theta_union_agg", |call, clauses| {
        call.arity(1..=2)?;
        Ok(sketch("theta_union_agg", Unite { lg_entries: size(call)? }, vec![call.exactly(0, &[DataType::Binary])?], clauses))
    });
    aggregates.add("theta_intersection_agg", intersect);
}

fn intersect(call: &Call<'_>, clauses: &Clauses) -> Result<Typed> {
    call.arity(1..=1)?;
    Ok(sketch("theta_intersection_agg", Intersect, vec![call.exactly(0, &[DataType::Binary])?], clauses))
}

fn size(call: &Call<'_>) -> Result<u8> {
    if call.len() < 2 {
        return Ok(DEFAULT_LG_ENTRIES);
    }
    let not_constant = || {
        let message = format!("the `lgNomEntries` of `{}` must be a constant", call.name);
        faults::row("THETA_LG_NOM_ENTRIES_MUST_BE_CONSTANT", "42K0E", message)
    };
    lg_entries(call.name, constant_int(call, 1, not_constant)?.unwrap_or(0))
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Build {
    lg_entries: u8,
}

impl SketchFunction for Build {
    type Sketch = Building;

    fn start(&self) -> Building {
        Building { values: ThetaBuilder::new(self.lg_entries), others: Union::new(self.lg_entries) }
    }
}

/// What was counted, and what was merged.
#[derive(Debug)]
struct Building {
    values: ThetaBuilder,
    others: Union,
}

impl Keys for Building {
    fn add_long(&mut self, _: usize, key: i64) {
        self.values.add_long(key);
    }

    fn add_double(&mut self, _: usize, key: f64) {
        self.values.add_double(key);
    }

    fn add_bytes(&mut self, _: usize, key: &[u8]) {
        self.values.add_bytes(key);
    }
}

impl Sketch for Building {
    fn update(&mut self, values: &[ArrayRef]) -> Result<()> {
        values.first().map_or(Ok(()), |values| self.add_all(values))
    }

    fn merge(&mut self, state: &[u8]) -> Result<()> {
        self.others.add(&THETA.read("theta_sketch_agg", ThetaSketch::from_bytes(state))?);
        Ok(())
    }

    fn state(&self) -> Result<Vec<u8>> {
        let mut all = self.others.clone();
        all.add(&self.values.finish());
        Ok(all.result().to_bytes())
    }

    fn size(&self) -> usize {
        self.values.size() + self.others.size()
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Unite {
    lg_entries: u8,
}

impl SketchFunction for Unite {
    type Sketch = Union;

    fn start(&self) -> Union {
        Union::new(self.lg_entries)
    }
}

impl Sketch for Union {
    fn update(&mut self, values: &[ArrayRef]) -> Result<()> {
        each(values, |image| self.merge(image))
    }

    fn merge(&mut self, state: &[u8]) -> Result<()> {
        self.add(&THETA.read("theta_union_agg", ThetaSketch::from_bytes(state))?);
        Ok(())
    }

    fn state(&self) -> Result<Vec<u8>> {
        Ok(self.result().to_bytes())
    }

    fn size(&self) -> usize {
        Union::size(self)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Intersect;

impl SketchFunction for Intersect {
    type Sketch = Intersection;

    fn start(&self) -> Intersection {
        Intersection::default()
    }
}

impl Sketch for Intersection {
    fn update(&mut self, values: &[ArrayRef]) -> Result<()> {
        each(values, |image| self.merge(image))
    }

    fn merge(&mut self, state: &[u8]) -> Result<()> {
        self.add(&THETA.read("theta_intersection_agg", ThetaSketch::from_bytes(state))?);
        Ok(())
    }

    fn state(&self) -> Result<Vec<u8>> {
        Ok(self.result().map(ThetaSketch::to_bytes).unwrap_or_default())
    }

    /// # Errors
    /// The library's, which has no name in Spark: what no sketch was added to would be all values there are.
    fn finish(&self) -> Result<Vec<u8>> {
        let message = "`theta_intersection_agg` had no sketch to intersect: add a sketch of no values to get an empty one";
        let nothing = || Error::new(ErrorKind::BadRecord, "SparkException", message);
        self.result().map(ThetaSketch::to_bytes).ok_or_else(nothing)
    }

    fn size(&self) -> usize {
        Intersection::size(self)
    }
}
