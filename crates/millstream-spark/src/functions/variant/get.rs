//! Variants cast to the types of columns.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, BinaryArray, BooleanArray, Date32Array, Decimal128Array, Float32Array, Float64Array, Int64Array, ListArray, MapArray,
    RecordBatch, StringArray, StructArray, TimestampMicrosecondArray, new_null_array,
};
use arrow::buffer::{BooleanBuffer, NullBuffer, OffsetBuffer};
use arrow::compute::interleave;
use arrow::datatypes::{DataType, Field, Schema};
use datafusion::common::DFSchema;
use datafusion::execution::context::ExecutionProps;
use datafusion::logical_expr::physical_planning_context::PhysicalPlanningContext;
use datafusion::logical_expr::{ColumnarValue, col};
use datafusion::physical_expr::create_physical_expr;
use millstream_core::variant::{Builder, Value, Variant};
use millstream_core::{Error, Result};
use millstream_engine::from_datafusion;

use super::json::{text, write};
use super::{is_variant, malformed};
use crate::functions::cast::{CastMode, explicit_to, rules};
use crate::functions::rows::internal;
use crate::functions::{Settings, Typed, faults};
use crate::types::ddl_type;

/// How variants are cast.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Cast {
    /// A value that the target type cannot hold is an error, otherwise null.
    pub(super) fails: bool,
    /// The session's settings.
    pub(super) settings: Settings,
}

impl Cast {
    /// Casts variants to the type of a field, which takes nulls; variant nulls become null.
    ///
    /// # Errors
    /// `INVALID_VARIANT_CAST`, `MALFORMED_VARIANT`.
    pub(super) fn all(&self, variants: &[Option<Variant<'_>>], to: &Field) -> Result<ArrayRef> {
        match to.data_type() {
            DataType::Struct(_) if is_variant(to) => variants_of(variants, to),
            DataType::List(element) => self.lists(variants, element, to),
            DataType::Struct(fields) => {
                let mut objects = Vec::with_capacity(variants.len());
                for variant in variants {
                    objects.push(match self.present(*variant)? {
                        Some((_, Value::Object(object))) => Some(object),
                        Some((variant, _)) => self.invalid(variant, to)?,
                        None => None,
                    });
                }
                let columns = fields.iter().map(|field| {
                    let values: Vec<_> = objects.iter().map(|object| object.and_then(|object| object.get(field.name()))).collect();
                    self.all(&values, field)
                });
                let columns = columns.collect::<Result<Vec<_>>>()?;
                let nulls = nulls(objects.iter().map(Option::is_some));
                Ok(Arc::new(StructArray::try_new_with_length(fields.clone(), columns, nulls, variants.len()).map_err(internal)?))
            }
            DataType::Map(entries, sorted) => {
                let DataType::Struct(pair) = entries.data_type() else { return Err(Error::internal("a map needs entries")) };
                let [_, value] = pair.as_ref() else { return Err(Error::internal("a map needs keys and values")) };
                let (mut keys, mut values, mut lengths, mut valid) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
                for variant in variants {
                    let before = keys.len();
                    valid.push(match self.present(*variant)? {
                        Some((_, Value::Object(object))) => {
                            for (key, value) in object.members() {
                                keys.push(key);
                                values.push(Some(value));
                            }
                            true
                        }
                        Some((variant, _)) => self.invalid::<()>(variant, to)?.is_some(),
                        None => false,
                    });
                    lengths.push(keys.len() - before);
                }
                let columns: Vec<ArrayRef> = vec![Arc::new(StringArray::from(keys)), self.all(&values, value)?];
                let pairs = StructArray::try_new(pair.clone(), columns, None).map_err(internal)?;
                let (offsets, nulls) = (OffsetBuffer::from_lengths(lengths), nulls(valid.into_iter()));
                Ok(Arc::new(MapArray::try_new(entries.clone(), offsets, pairs, nulls, *sorted).map_err(internal)?))
            }
            _ => self.atoms(variants, to),
        }
    }

    fn lists(&self, variants: &[Option<Variant<'_>>], element: &Arc<Field>, to: &Field) -> Result<ArrayRef> {
        let (mut elements, mut lengths, mut valid) = (Vec::new(), Vec::new(), Vec::new());
        for variant in variants {
            let before = elements.len();
            valid.push(match self.present(*variant)? {
                Some((_, Value::Array(array))) => {
                    elements.extend(array.elements().map(Some));
                    true
                }
                Some((variant, _)) => self.invalid::<()>(variant, to)?.is_some(),
                None => false,
            });
            lengths.push(elements.len() - before);
        }
        let values = self.all(&elements, element)?;
        let (offsets, nulls) = (OffsetBuffer::from_lengths(lengths), nulls(valid.into_iter()));
        Ok(Arc::new(ListArray::try_new(element.clone(), offsets, values, nulls).map_err(internal)?))
    }

    /// A variant with its value, unless it is null.
    fn present<'a>(&self, variant: Option<Variant<'a>>) -> Result<Option<(Variant<'a>, Value<'a>)>> {
        let Some(variant) = variant else { return Ok(None) };
        match variant.value().ok_or_else(malformed)? {
            Value::Null => Ok(None),
            value => Ok(Some((variant, value))),
        }
    }

    /// What becomes of a value that the type cannot hold.
    fn invalid<T>(&self, variant: Variant<'_>, to: &Field) -> Result<Option<T>> {
        if !self.fails {
            return Ok(None);
        }
        let mut shown = String::new();
        write(variant, self.settings.time_zone, &mut shown)?;
        let shown: String = shown.chars().take(120).collect();
        let message = format!("the variant {shown} cannot be cast to \"{}\": use `try_variant_get` to get NULL", ddl_type(to.data_type()));
        Err(faults::row("INVALID_VARIANT_CAST", "22023", message))
    }

    /// Casts to a type without parts: the values of each type together.
    fn atoms(&self, variants: &[Option<Variant<'_>>], to: &Field) -> Result<ArrayRef> {
        let mut groups: BTreeMap<(u8, i8), Vec<_>> = BTreeMap::new();
        for (row, variant) in variants.iter().enumerate() {
            if let Some((variant, value)) = self.present(*variant)? {
                groups.entry(group(&value)).or_default().push((row, variant, value));
            }
        }
        // Rows without a value take the null in front.
        let mut parts: Vec<ArrayRef> = vec![new_null_array(to.data_type(), 1)];
        let mut places = vec![(0, 0); variants.len()];
        for members in groups.values() {
            let cast = self.group(members, to)?;
            for (at, (row, variant, _)) in members.iter().enumerate() {
                if cast.is_null(at) {
                    self.invalid::<()>(*variant, to)?;
                } else if let Some(place) = places.get_mut(*row) {
                    *place = (parts.len(), at);
                }
            }
            parts.push(cast);
        }
        let parts: Vec<&dyn Array> = parts.iter().map(AsRef::as_ref).collect();
        interleave(&parts, &places).map_err(internal)
    }

    /// Casts values of one type.
    fn group(&self, members: &[(usize, Variant<'_>, Value<'_>)], to: &Field) -> Result<ArrayRef> {
        let values = members.iter().map(|(_, _, value)| value);
        let array: ArrayRef = match members.first().map(|(_, _, value)| value) {
            Some(Value::Object(_) | Value::Array(_)) => {
                if *to.data_type() != DataType::Utf8 {
                    return Ok(new_null_array(to.data_type(), members.len()));
                }
                self.texts(members, write)?
            }
            Some(Value::Boolean(_)) => {
                Arc::new(values.map(|value| if let Value::Boolean(value) = value { Some(*value) } else { None }).collect::<BooleanArray>())
            }
            Some(Value::Long(_)) => {
                Arc::new(values.map(|value| if let Value::Long(value) = value { Some(*value) } else { None }).collect::<Int64Array>())
            }
            Some(Value::Double(_)) => {
                Arc::new(values.map(|value| if let Value::Double(value) = value { Some(*value) } else { None }).collect::<Float64Array>())
            }
            Some(Value::Float(_)) => {
                Arc::new(values.map(|value| if let Value::Float(value) = value { Some(*value) } else { None }).collect::<Float32Array>())
            }
            Some(Value::Decimal(_, scale)) => {
                let values = values.map(|value| if let Value::Decimal(value, _) = value { Some(*value) } else { None });
                let values = values.collect::<Decimal128Array>().with_precision_and_scale(38, *scale);
                Arc::new(values.map_err(internal)?)
            }
            Some(Value::Date(_)) => {
                Arc::new(values.map(|value| if let Value::Date(value) = value { Some(*value) } else { None }).collect::<Date32Array>())
            }
            Some(kind @ (Value::Timestamp(_) | Value::TimestampNtz(_))) => {
                let micros = values.map(|value| match value {
                    Value::Timestamp(micros) | Value::TimestampNtz(micros) => Some(*micros),
                    _ => None,
                });
                let micros = micros.collect::<TimestampMicrosecondArray>();
                if matches!(kind, Value::Timestamp(_)) { Arc::new(micros.with_timezone("UTC")) } else { Arc::new(micros) }
            }
            Some(Value::Binary(_)) => {
                Arc::new(values.map(|value| if let Value::Binary(value) = value { Some(*value) } else { None }).collect::<BinaryArray>())
            }
            _ => self.texts(members, text)?,
        };
        self.cast(array, to)
    }

    fn texts(
        &self,
        members: &[(usize, Variant<'_>, Value<'_>)],
        push: fn(Variant<'_>, crate::functions::TimeZone, &mut String) -> Result<()>,
    ) -> Result<ArrayRef> {
        let texts = members.iter().map(|(_, variant, _)| {
            let mut out = String::new();
            push(*variant, self.settings.time_zone, &mut out)?;
            Ok(Some(out))
        });
        Ok(Arc::new(texts.collect::<Result<StringArray>>()?))
    }

    /// Casts an array as `TRY_CAST` does; everything is null if there is no such cast.
    fn cast(&self, array: ArrayRef, to: &Field) -> Result<ArrayRef> {
        if array.data_type() == to.data_type() {
            return Ok(array);
        }
        if !rules::castable(array.data_type(), to.data_type(), true) {
            return Ok(new_null_array(to.data_type(), array.len()));
        }
        let schema = Arc::new(Schema::new(vec![Field::new("value", array.data_type().clone(), true)]));
        let value = Typed::new(col("value"), array.data_type().clone(), true);
        let cast = explicit_to(value, to, CastMode::Try, &self.settings)?;
        let columns = DFSchema::try_from(schema.clone()).map_err(from_datafusion)?;
        let expression = create_physical_expr(&cast.expr, &columns, &ExecutionProps::new(), &PhysicalPlanningContext::default())
            .map_err(from_datafusion)?;
        let length = array.len();
        let batch = RecordBatch::try_new(schema, vec![array]).map_err(internal)?;
        match expression.evaluate(&batch).map_err(from_datafusion)? {
            ColumnarValue::Array(array) => Ok(array),
            ColumnarValue::Scalar(scalar) => scalar.to_array_of_size(length).map_err(from_datafusion),
        }
    }
}

/// Values of one type, and of one scale.
fn group(value: &Value<'_>) -> (u8, i8) {
    match value {
        Value::Null => (0, 0),
        Value::Boolean(_) => (1, 0),
        Value::Long(_) => (2, 0),
        Value::Double(_) => (3, 0),
        Value::Float(_) => (4, 0),
        Value::Decimal(_, scale) => (5, *scale),
        Value::Date(_) => (6, 0),
        Value::Timestamp(_) => (7, 0),
        Value::TimestampNtz(_) => (8, 0),
        Value::Binary(_) => (9, 0),
        Value::String(_) | Value::Uuid(_) => (10, 0),
        Value::Object(_) | Value::Array(_) => (11, 0),
    }
}

fn nulls(valid: impl Iterator<Item = bool>) -> Option<NullBuffer> {
    Some(NullBuffer::new(BooleanBuffer::from_iter(valid)))
}

/// Variants with only the names that they use.
fn variants_of(variants: &[Option<Variant<'_>>], to: &Field) -> Result<ArrayRef> {
    let mut column = Column::default();
    for variant in variants {
        match variant {
            None => column.push_null(),
            Some(variant) => {
                let mut builder = Builder::default();
                let built = builder.variant(*variant);
                column.push(builder, built)?;
            }
        }
    }
    column.finish(to)
}

/// A column of variants under construction.
#[derive(Default)]
pub(super) struct Column {
    values: Vec<Option<Vec<u8>>>,
    metadata: Vec<Option<Vec<u8>>>,
}

impl Column {
    pub(super) fn push_null(&mut self) {
        self.values.push(None);
        self.metadata.push(None);
    }

    /// Adds a variant that was built.
    ///
    /// # Errors
    /// `VARIANT_SIZE_LIMIT`, `VARIANT_DUPLICATE_KEY`.
    pub(super) fn push(&mut self, builder: Builder, built: Result<(), millstream_core::variant::Fault>) -> Result<()> {
        let (mut value, mut metadata) = (Vec::new(), Vec::new());
        built.and_then(|()| builder.finish(&mut value, &mut metadata)).map_err(super::build::fault)?;
        self.add(value, metadata);
        Ok(())
    }

    /// Adds a variant by its bytes.
    pub(super) fn add(&mut self, value: Vec<u8>, metadata: Vec<u8>) {
        self.values.push(Some(value));
        self.metadata.push(Some(metadata));
    }

    /// # Errors
    /// `INTERNAL_ERROR`.
    pub(super) fn finish(self, to: &Field) -> Result<ArrayRef> {
        let DataType::Struct(fields) = to.data_type() else { return Err(Error::internal("a variant is a struct")) };
        let nulls = nulls(self.values.iter().map(Option::is_some));
        let length = self.values.len();
        let bytes = |values: Vec<Option<Vec<u8>>>| -> ArrayRef {
            Arc::new(values.into_iter().map(|value| Some(value.unwrap_or_default())).collect::<BinaryArray>())
        };
        let columns = vec![bytes(self.values), bytes(self.metadata)];
        Ok(Arc::new(StructArray::try_new_with_length(fields.clone(), columns, nulls, length).map_err(internal)?))
    }
}
