//! `variant_explode`: the elements of a variant as rows.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, Int32Array, ListArray, StringArray, StructArray};
use arrow::buffer::OffsetBuffer;
use arrow::datatypes::{DataType, Field, Fields};
use millstream_core::Result;
use millstream_core::variant::{Builder, Value};

use super::Parts;
use super::build::{metadata, variant};
use super::get::Column;
use crate::functions::rows::internal;
use crate::functions::{Arguments, Call, Kernel, Typed, scalar};
use crate::types;

/// What `variant_explode(variant)` generates for each row: an array of structs of `pos`, `key` and `value`, one for each element of an array,
/// whose key is null, or field of an object. It is empty for other values and for null.
///
/// # Errors
/// `WRONG_NUM_ARGS`, `DATATYPE_MISMATCH`.
pub fn variant_explode_values(call: &Call<'_>) -> Result<Typed> {
    call.arity(1..=1)?;
    let fields = Fields::from(vec![
        Field::new("pos", DataType::Int32, false),
        Field::new("key", DataType::Utf8, true),
        Field::new("value", types::variant(), false).with_metadata(metadata()),
    ]);
    let data_type = types::array(DataType::Struct(fields.clone()), false);
    Ok(scalar("variant_explode", VariantExplode { fields }, vec![variant(call)?], data_type, false))
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct VariantExplode {
    fields: Fields,
}

impl Kernel for VariantExplode {
    fn evaluate(&self, arguments: &Arguments<'_>) -> Result<ArrayRef> {
        let variants = arguments.array(0)?;
        let parts = Parts::of(&variants)?;
        let (mut places, mut keys, mut values, mut lengths) = (Vec::new(), Vec::new(), Column::default(), Vec::new());
        for row in 0..variants.len() {
            let elements: Vec<_> = match if variants.is_null(row) { None } else { parts.get(row).value() } {
                Some(Value::Array(array)) => array.elements().map(|value| (None, value)).collect(),
                Some(Value::Object(object)) => object.members().map(|(key, value)| (Some(key), value)).collect(),
                _ => Vec::new(),
            };
            lengths.push(elements.len());
            for (place, (key, value)) in elements.into_iter().enumerate() {
                places.push(i32::try_from(place).unwrap_or(i32::MAX));
                keys.push(key);
                let mut builder = Builder::default();
                let built = builder.variant(value);
                values.push(builder, built)?;
            }
        }
        let value = Field::new("value", types::variant(), true);
        let columns: Vec<ArrayRef> = vec![Arc::new(Int32Array::from(places)), Arc::new(StringArray::from(keys)), values.finish(&value)?];
        let structs = StructArray::try_new(self.fields.clone(), columns, None).map_err(internal)?;
        let element = Arc::new(Field::new("element", DataType::Struct(self.fields.clone()), false));
        Ok(Arc::new(ListArray::try_new(element, OffsetBuffer::from_lengths(lengths), Arc::new(structs), None).map_err(internal)?))
    }
}
