//! `tuple_sketch_agg_*`, `tuple_union_agg_*`, `tuple_intersection_agg_*`.

use std::marker::PhantomData;

use arrow::array::{Array, ArrayRef, AsArray, PrimitiveArray};
use arrow::datatypes::{ArrowPrimitiveType, DataType};
use datafusion::scalar::ScalarValue;
use millstream_core::{Error, Result};

use super::{Aggregates, Clauses, Keys, Sketch, SketchFunction, each, key, sketch};
use crate::functions::cast::implicit;
use crate::functions::coercion::is_numeric;
use crate::functions::sketch::tuple::{
    Doubles, Integers, Intersection, Mode, Native, Number, Numbers, Table, TupleSketch, Union, mode, size,
};
use crate::functions::sketch::{DEFAULT_LG_ENTRIES, TUPLE};
use crate::functions::{Call, Typed, coercion};

pub(super) fn register(aggregates: &mut Aggregates) {
    aggregates.add("tuple_sketch_agg_double", |call, clauses| {
        build::<Doubles>(call, clauses, "tuple_sketch_agg_double", &[DataType::Float64, DataType::Float32])
    });
    aggregates
        .add("tuple_sketch_agg_integer", |call, clauses| build::<Integers>(call, clauses, "tuple_sketch_agg_integer", &[DataType::Int32]));
    aggregates.add("tuple_union_agg_double", |call, clauses| unite::<Doubles>(call, clauses, "tuple_union_agg_double"));
    aggregates.add("tuple_union_agg_integer", |call, clauses| unite::<Integers>(call, clauses, "tuple_union_agg_integer"));
    aggregates.add("tuple_intersection_agg_double", |call, clauses| intersect::<Doubles>(call, clauses, "tuple_intersection_agg_double"));
    aggregates
        .add("tuple_intersection_agg_integer", |call, clauses| intersect::<Integers>(call, clauses, "tuple_intersection_agg_integer"));
}

fn build<T: Numbers>(call: &Call<'_>, clauses: &Clauses, name: &'static str, allowed: &[DataType]) -> Result<Typed> {
    call.arity(2..=4)?;
    let key = match key(call, 0) {
        // What is no key is cast to one: other numbers to doubles, the rest to text.
        Err(_) if is_numeric(&call.value(0)?.data_type) => call.double(0)?,
        Err(_) => call.string(0)?,
        Ok(key) => key,
    };
    let summary = match call.exactly(1, allowed) {
        Ok(summary) => implicit(summary, &T::Arrow::DATA_TYPE, call.settings)?,
        Err(_) => call.coerced(1, &T::Arrow::DATA_TYPE)?,
    };
    let function = Build::<T> { name, lg_entries: entries(call, 2)?, mode: chosen_mode(call, 3)?, kind: PhantomData };
    Ok(sketch(name, function, vec![key, summary], clauses))
}

fn unite<T: Numbers>(call: &Call<'_>, clauses: &Clauses, name: &'static str) -> Result<Typed> {
    call.arity(1..=3)?;
    let image = call.exactly(0, &[DataType::Binary])?;
    let function = Unite::<T> { name, lg_entries: entries(call, 1)?, mode: chosen_mode(call, 2)?, kind: PhantomData };
    Ok(sketch(name, function, vec![image], clauses))
}

fn intersect<T: Numbers>(call: &Call<'_>, clauses: &Clauses, name: &'static str) -> Result<Typed> {
    call.arity(1..=2)?;
    let image = call.exactly(0, &[DataType::Binary])?;
    Ok(sketch(name, Intersect::<T> { name, mode: chosen_mode(call, 1)?, kind: PhantomData }, vec![image], clauses))
}

fn entries(call: &Call<'_>, index: usize) -> Result<u8> {
    if call.len() <= index {
        return Ok(DEFAULT_LG_ENTRIES);
    }
    match coercion::constant_of(&size(call, index)?) {
        Some(ScalarValue::Int32(Some(lg))) => Ok(u8::try_from(lg).unwrap_or(DEFAULT_LG_ENTRIES)),
        _ => Ok(DEFAULT_LG_ENTRIES),
    }
}

fn chosen_mode(call: &Call<'_>, index: usize) -> Result<Mode> {
    if call.len() > index { mode(call, index) } else { Ok(Mode::default()) }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Build<T> {
    name: &'static str,
    lg_entries: u8,
    mode: Mode,
    kind: PhantomData<T>,
}

impl<T: Numbers> SketchFunction for Build<T> {
    type Sketch = Building<T>;

    fn start(&self) -> Building<T> {
        Building { name: self.name, mode: self.mode, table: Table::new(self.lg_entries), others: Union::new(self.lg_entries, self.mode) }
    }
}

/// What was counted, and what was merged.
#[derive(Debug)]
struct Building<T: Numbers> {
    name: &'static str,
    mode: Mode,
    table: Table<Native<T>>,
    others: Union<Native<T>>,
}

/// The keys of a batch beside their numbers.
struct Counted<'a, T: Numbers> {
    table: &'a mut Table<Native<T>>,
    numbers: &'a PrimitiveArray<T::Arrow>,
    mode: Mode,
}

impl<T: Numbers> Counted<'_, T> {
    fn number(&self, row: usize) -> Option<Native<T>> {
        self.numbers.is_valid(row).then(|| self.numbers.value(row))
    }
}

impl<T: Numbers> Keys for Counted<'_, T> {
    fn add_long(&mut self, row: usize, key: i64) {
        if let Some(number) = self.number(row) {
            self.table.add_long(key, number, self.mode);
        }
    }

    fn add_double(&mut self, row: usize, key: f64) {
        if let Some(number) = self.number(row) {
            self.table.add_double(key, number, self.mode);
        }
    }

    fn add_bytes(&mut self, row: usize, key: &[u8]) {
        if let Some(number) = self.number(row) {
            self.table.add_bytes(key, number, self.mode);
        }
    }
}

impl<T: Numbers> Sketch for Building<T> {
    fn update(&mut self, values: &[ArrayRef]) -> Result<()> {
        let [keys, numbers] = values else { return Err(Error::internal("a tuple sketch takes two columns")) };
        let numbers =
            numbers.as_primitive_opt::<T::Arrow>().ok_or_else(|| Error::internal("the summaries of a sketch are of another type"))?;
        Counted::<T> { table: &mut self.table, numbers, mode: self.mode }.add_all(keys)
    }

    fn merge(&mut self, state: &[u8]) -> Result<()> {
        self.others.add(&TUPLE.read(self.name, TupleSketch::from_bytes(state))?);
        Ok(())
    }

    /// Merging has its own order of entries; where nothing was merged, it is that of the table.
    fn state(&self) -> Result<Vec<u8>> {
        let (counted, merged) = (self.table.finish(), self.others.result());
        if self.others.is_empty() {
            return Ok(counted.to_bytes());
        }
        if self.table.is_empty() {
            return Ok(merged.to_bytes());
        }
        let mut all = self.others.clone();
        all.add(&counted);
        Ok(all.result().to_bytes())
    }

    fn size(&self) -> usize {
        self.table.size() + self.others.size()
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Unite<T> {
    name: &'static str,
    lg_entries: u8,
    mode: Mode,
    kind: PhantomData<T>,
}

impl<T: Numbers> SketchFunction for Unite<T> {
    type Sketch = United<Native<T>>;

    fn start(&self) -> United<Native<T>> {
        United { name: self.name, union: Union::new(self.lg_entries, self.mode) }
    }
}

#[derive(Debug)]
struct United<N> {
    name: &'static str,
    union: Union<N>,
}

impl<N: Number> Sketch for United<N> {
    fn update(&mut self, values: &[ArrayRef]) -> Result<()> {
        each(values, |image| self.merge(image))
    }

    fn merge(&mut self, state: &[u8]) -> Result<()> {
        self.union.add(&TUPLE.read(self.name, TupleSketch::from_bytes(state))?);
        Ok(())
    }

    fn state(&self) -> Result<Vec<u8>> {
        Ok(self.union.result().to_bytes())
    }

    fn size(&self) -> usize {
        self.union.size()
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Intersect<T> {
    name: &'static str,
    mode: Mode,
    kind: PhantomData<T>,
}

impl<T: Numbers> SketchFunction for Intersect<T> {
    type Sketch = Intersected<Native<T>>;

    fn start(&self) -> Intersected<Native<T>> {
        Intersected { name: self.name, intersection: Intersection::new(self.mode) }
    }
}

#[derive(Debug)]
struct Intersected<N> {
    name: &'static str,
    intersection: Intersection<N>,
}

impl<N: Number> Sketch for Intersected<N> {
    fn update(&mut self, values: &[ArrayRef]) -> Result<()> {
        each(values, |image| self.merge(image))
    }

    fn merge(&mut self, state: &[u8]) -> Result<()> {
        self.intersection.add(&TUPLE.read(self.name, TupleSketch::from_bytes(state))?);
        Ok(())
    }

    fn state(&self) -> Result<Vec<u8>> {
        Ok(self.intersection.result().map(|sketch| sketch.to_bytes()).unwrap_or_default())
    }

    fn size(&self) -> usize {
        self.intersection.size()
    }
}
