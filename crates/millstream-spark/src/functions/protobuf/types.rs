//! Which Spark types are which Protobuf types.

use arrow::datatypes::{DataType, Field, TimeUnit};
use millstream_core::{Error, Options, Result};
use prost_reflect::{Cardinality, FieldDescriptor, Kind, MessageDescriptor};

use crate::types::{array, map, timestamp};

/// The deepest that a message may be in itself.
const MAX_DEPTH: i64 = 10;

/// What the options of a call decide about types and values.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Style {
    /// How often a message may be inside itself; recursion is refused where nobody says it.
    max_depth: i64,
    /// `enums.as.ints`
    pub(super) enums_as_ints: bool,
    /// `upcast.unsigned.ints`
    upcast_unsigned: bool,
    /// `emit.default.values`
    pub(super) emit_defaults: bool,
    /// `unwrap.primitive.wrapper.types`
    unwrap: bool,
    /// `retain.empty.message.types`
    retain_empty: bool,
}

impl Style {
    /// # Errors
    /// `INVALID_OPTION_VALUE`; `UNSUPPORTED_FEATURE` for `convert.any.fields.to.json`.
    pub(super) fn of(options: &Options) -> Result<Self> {
        if options.bool("convert.any.fields.to.json", false)? {
            let message = "the option convert.any.fields.to.json is not supported: read the field as a struct of type_url and value";
            return Err(Error::invalid("UNSUPPORTED_FEATURE.NOT_IN_MILLSTREAM", message).with_sqlstate("0A000"));
        }
        Ok(Style {
            max_depth: options.get("recursive.fields.max.depth").and_then(|depth| depth.trim().parse().ok()).unwrap_or(-1),
            enums_as_ints: options.bool("enums.as.ints", false)?,
            upcast_unsigned: options.bool("upcast.unsigned.ints", false)?,
            emit_defaults: options.bool("emit.default.values", false)?,
            unwrap: options.bool("unwrap.primitive.wrapper.types", false)?,
            retain_empty: options.bool("retain.empty.message.types", false)?,
        })
    }

    /// The columns of a message.
    ///
    /// # Errors
    /// `RECURSIVE_PROTOBUF_SCHEMA`, `PROTOBUF_TYPE_NOT_SUPPORT`.
    pub(super) fn fields(&self, message: &MessageDescriptor) -> Result<Vec<Field>> {
        self.fields_below(message, &[message.full_name().to_owned()])
    }

    fn fields_below(&self, message: &MessageDescriptor, path: &[String]) -> Result<Vec<Field>> {
        let mut fields: Vec<FieldDescriptor> = message.fields().collect();
        // In the order in which they are written down, not by number.
        let order = |field: &FieldDescriptor| {
            let declared = &message.descriptor_proto().field;
            declared.iter().position(|declared| declared.number() == i32::try_from(field.number()).unwrap_or(-1))
        };
        fields.sort_by_key(order);
        let mut found = Vec::with_capacity(fields.len());
        for field in &fields {
            found.extend(self.field(field, path)?);
        }
        Ok(found)
    }

    fn field(&self, field: &FieldDescriptor, path: &[String]) -> Result<Option<Field>> {
        if let (true, Kind::Message(entry)) = (field.is_map(), field.kind()) {
            let key = self.data_type(&entry.map_entry_key_field(), path)?;
            let value = self.data_type(&entry.map_entry_value_field(), path)?;
            return Ok(key.zip(value).map(|(key, value)| Field::new(field.name(), map(key, value, false), true)));
        }
        let Some(data_type) = self.data_type(field, path)? else { return Ok(None) };
        Ok(Some(if field.is_list() {
            Field::new(field.name(), array(data_type, false), true)
        } else {
            Field::new(field.name(), data_type, field.cardinality() != Cardinality::Required)
        }))
    }

    /// The type of one value of a field; none where it is left out.
    fn data_type(&self, field: &FieldDescriptor, path: &[String]) -> Result<Option<DataType>> {
        Ok(Some(match field.kind() {
            Kind::Bool => DataType::Boolean,
            Kind::Uint32 | Kind::Fixed32 if self.upcast_unsigned => DataType::Int64,
            Kind::Int32 | Kind::Sint32 | Kind::Sfixed32 | Kind::Uint32 | Kind::Fixed32 => DataType::Int32,
            Kind::Uint64 | Kind::Fixed64 if self.upcast_unsigned => DataType::Decimal128(20, 0),
            Kind::Int64 | Kind::Sint64 | Kind::Sfixed64 | Kind::Uint64 | Kind::Fixed64 => DataType::Int64,
            Kind::Float => DataType::Float32,
            Kind::Double => DataType::Float64,
            Kind::String => DataType::Utf8,
            Kind::Bytes => DataType::Binary,
            Kind::Enum(_) if self.enums_as_ints => DataType::Int32,
            Kind::Enum(_) => DataType::Utf8,
            Kind::Message(message) if is_moment(&message, "Timestamp") => timestamp(),
            Kind::Message(message) if is_moment(&message, "Duration") => DataType::Duration(TimeUnit::Microsecond),
            Kind::Message(message) if self.unwrap && is_wrapper(&message) => match message.get_field(1) {
                Some(value) => return self.data_type(&value, path),
                None => return Ok(None),
            },
            Kind::Message(message) => {
                let name = message.full_name();
                let depth = path.iter().filter(|known| *known == name).count();
                if depth > 0 && !(1..=MAX_DEPTH).contains(&self.max_depth) {
                    let message = format!(
                        "the field {} has {name} inside itself: the option recursive.fields.max.depth, from 1 to {MAX_DEPTH}, says how often that \
                         is followed",
                        field.full_name()
                    );
                    return Err(Error::invalid("RECURSIVE_PROTOBUF_SCHEMA", message).with_sqlstate("42K0G"));
                }
                if i64::try_from(depth).unwrap_or(i64::MAX) >= self.max_depth && depth > 0 {
                    return Ok(None);
                }
                let fields = self.fields_below(&message, &[path, &[name.to_owned()]].concat())?;
                match (fields.is_empty(), self.retain_empty) {
                    (true, false) => return Ok(None),
                    (true, true) => {
                        DataType::Struct([Field::new("__dummy_field_in_empty_struct", DataType::Utf8, true)].into_iter().collect())
                    }
                    (false, _) => DataType::Struct(fields.into_iter().collect()),
                }
            }
        }))
    }
}

/// Whether a message is one of seconds and nanoseconds by that name.
pub(super) fn is_moment(message: &MessageDescriptor, name: &str) -> bool {
    let named = |number: u32, name: &str| message.get_field(number).is_some_and(|field| field.name() == name);
    message.name() == name && message.fields().len() == 2 && named(1, "seconds") && named(2, "nanos")
}

/// Whether a message is only there for a value that may be missing.
pub(super) fn is_wrapper(message: &MessageDescriptor) -> bool {
    let value = message.full_name().strip_prefix("google.protobuf.").and_then(|name| name.strip_suffix("Value"));
    value.is_some_and(|value| ["Bool", "Int32", "UInt32", "Int64", "UInt64", "Float", "Double", "String", "Bytes"].contains(&value))
}
