//! `schema_of_variant_agg`.

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::error::Result as DfResult;
use datafusion::logical_expr::Accumulator;
use datafusion::scalar::ScalarValue;
use millstream_core::{Error, Result};
use millstream_engine::to_datafusion;

use super::function::{Aggregation, aggregate};
use super::{Aggregates, Clauses};
use crate::functions::variant::{Schema, schemas};
use crate::functions::{Call, Typed, variant};

pub(super) fn register(aggregates: &mut Aggregates) {
    aggregates.add("schema_of_variant_agg", build);
}

fn build(call: &Call<'_>, clauses: &Clauses) -> Result<Typed> {
    call.arity(1..=1)?;
    Ok(aggregate("schema_of_variant_agg", SchemaOfAll, vec![variant::variant(call)?], clauses, DataType::Utf8, false))
}

/// The type that all variants have in common. The state is that type as JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct SchemaOfAll;

impl Aggregation for SchemaOfAll {
    fn state(&self, _: &[FieldRef], _: &DataType) -> Vec<Field> {
        vec![Field::new("schema", DataType::Utf8, true)]
    }

    fn accumulator(&self, _: &[FieldRef], _: &DataType) -> DfResult<Box<dyn Accumulator>> {
        Ok(Box::new(Merged { schema: Schema::Void }))
    }

    fn commutes(&self) -> bool {
        true
    }

    fn empty(&self, _: &DataType) -> DfResult<ScalarValue> {
        Ok(ScalarValue::Utf8(Some(Schema::Void.to_string())))
    }
}

#[derive(Debug)]
struct Merged {
    schema: Schema,
}

impl Merged {
    fn add(&mut self, schema: Schema) {
        self.schema = std::mem::replace(&mut self.schema, Schema::Void).merged(schema);
    }
}

impl Accumulator for Merged {
    fn update_batch(&mut self, values: &[ArrayRef]) -> DfResult<()> {
        let Some(values) = values.first().filter(|values| *values.data_type() != DataType::Null) else { return Ok(()) };
        schemas(values, |schema| self.add(schema)).map_err(to_datafusion)
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> DfResult<()> {
        let states = states.first().and_then(|states| states.as_string_opt::<i32>());
        for state in states.into_iter().flatten().flatten() {
            let json = serde_json::from_str(state).ok();
            let schema = json.as_ref().and_then(Schema::from_json);
            let broken = || to_datafusion(Error::internal(format!("'{state}' is no type of variants")));
            self.add(schema.ok_or_else(broken)?);
        }
        Ok(())
    }

    fn state(&mut self) -> DfResult<Vec<ScalarValue>> {
        Ok(vec![ScalarValue::Utf8(Some(self.schema.to_json().to_string()))])
    }

    fn evaluate(&mut self) -> DfResult<ScalarValue> {
        Ok(ScalarValue::Utf8(Some(self.schema.to_string())))
    }

    fn size(&self) -> usize {
        size_of_val(self) + self.schema.size()
    }
}
