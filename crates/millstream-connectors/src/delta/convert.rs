//! Arrays of one schema as arrays of another: rows for a table, and files of a table that were written under an earlier schema.
//!
//! Only conversions that lose nothing are made; anything else is an error, because a silently changed value is worse than a stopped query.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, ListArray, MapArray, StructArray, new_null_array};
use arrow::compute::{CastOptions, cast_with_options};
use arrow::datatypes::{DataType, Field, FieldRef, Fields, TimeUnit};
use millstream_core::{Error, ErrorKind, Result};
use parquet::arrow::PARQUET_FIELD_ID_META_KEY;

use super::schema::same_name;

/// How the fields of a struct are found in what is converted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum FieldNaming {
    /// By name.
    #[default]
    Name,
    /// By name without regard to case: rows of a query.
    AnyCase,
    /// By the physical name in the target's metadata (column mapping mode `name`).
    Physical,
    /// By the id in the target's metadata and in the file's (column mapping mode `id`).
    Id,
}

const PHYSICAL_NAME: &str = "delta.columnMapping.physicalName";
const ID: &str = "delta.columnMapping.id";

impl FieldNaming {
    /// The name under which files and partition values know a field.
    pub(super) fn physical(self, field: &Field) -> &str {
        match self {
            FieldNaming::Physical | FieldNaming::Id => field.metadata().get(PHYSICAL_NAME).map_or(field.name(), String::as_str),
            FieldNaming::Name | FieldNaming::AnyCase => field.name(),
        }
    }

    /// The position among `fields` of what `target` describes.
    pub(super) fn find(self, fields: &Fields, target: &Field) -> Option<usize> {
        match self {
            FieldNaming::Name | FieldNaming::Physical => {
                let name = self.physical(target);
                fields.iter().position(|field| field.name() == name)
            }
            FieldNaming::AnyCase => fields
                .iter()
                .position(|field| field.name() == target.name())
                .or_else(|| fields.iter().position(|field| same_name(field.name(), target.name()))),
            FieldNaming::Id => {
                let id = target.metadata().get(ID)?;
                fields.iter().position(|field| field.metadata().get(PARQUET_FIELD_ID_META_KEY) == Some(id))
            }
        }
    }
}

/// Whether every value of `from` is a value of `to`. For types without fields of their own.
pub(super) fn converts(from: &DataType, to: &DataType) -> bool {
    use DataType::*;
    let digits = |integer: &DataType| match integer {
        Int8 => Some(3),
        Int16 => Some(5),
        Int32 => Some(10),
        Int64 => Some(20),
        _ => None,
    };
    match (from, to) {
        (from, to) if from == to => true,
        (Null, _) => true,
        (Dictionary(_, value), to) => converts(value, to),
        (Utf8 | LargeUtf8 | Utf8View, Utf8) => true,
        (Binary | LargeBinary | BinaryView | FixedSizeBinary(_), Binary) => true,
        (Int8, Int16 | Int32 | Int64) | (Int16, Int32 | Int64) | (Int32, Int64) => true,
        (Int8 | Int16 | Int32, Float64) | (Int8 | Int16, Float32) | (Float32, Float64) => true,
        (Date64, Date32) | (Date32, Timestamp(TimeUnit::Microsecond, None)) => true,
        // Microseconds are the resolution of every timestamp in Spark, so that cutting to them loses nothing that it knows.
        (Timestamp(_, Some(_)), Timestamp(TimeUnit::Microsecond, Some(_))) => true,
        (Timestamp(_, None), Timestamp(TimeUnit::Microsecond, None)) => true,
        (Decimal32(p, s) | Decimal64(p, s) | Decimal128(p, s), Decimal128(precision, scale)) => {
            *scale >= *s && i16::from(*precision) - i16::from(*scale) >= i16::from(*p) - i16::from(*s)
        }
        (integer, Decimal128(precision, scale)) => {
            digits(integer).is_some_and(|digits| i16::from(*precision) - i16::from(*scale) >= digits)
        }
        _ => false,
    }
}

/// What to convert to.
pub(super) struct Target<'a> {
    /// The field as the result has it.
    pub field: &'a Field,
    /// The same field with the metadata by which the source is searched.
    pub annotated: &'a Field,
    /// The path of the field, for messages.
    pub path: String,
}

impl<'a> Target<'a> {
    /// A target on the top level.
    pub(super) fn column(field: &'a Field, annotated: &'a Field) -> Self {
        Target { field, annotated, path: field.name().clone() }
    }

    fn child(&self, field: &'a FieldRef, annotated: &'a FieldRef) -> Target<'a> {
        Target { field, annotated, path: format!("{}.{}", self.path, field.name()) }
    }

    /// Rows for a field that is not there.
    pub(super) fn missing(&self, rows: usize) -> Result<ArrayRef> {
        if !self.field.is_nullable() && rows > 0 {
            return Err(null_violation(&self.path));
        }
        Ok(new_null_array(self.field.data_type(), rows))
    }
}

/// The error for a null in a column that must not have one.
pub(super) fn null_violation(path: &str) -> Error {
    Error::new(
        ErrorKind::SchemaMismatch,
        "DELTA_NOT_NULL_CONSTRAINT_VIOLATED",
        format!("column '{path}' is NOT NULL in the table but has null or is missing: filter the rows, or drop the constraint"),
    )
    .with_sqlstate("23502")
}

/// The array as values of the target.
///
/// # Errors
/// `DELTA_FAILED_TO_MERGE_FIELDS` for types between which values could change, `DELTA_NOT_NULL_CONSTRAINT_VIOLATED`.
pub(super) fn convert(array: &ArrayRef, target: &Target<'_>, naming: FieldNaming) -> Result<ArrayRef> {
    let converted: ArrayRef = match (array.data_type(), target.field.data_type(), target.annotated.data_type()) {
        (from, to, _) if from == to => array.clone(),
        (DataType::Struct(from), DataType::Struct(to), DataType::Struct(annotated)) => {
            let array = array.as_struct();
            let mut columns = Vec::with_capacity(to.len());
            for (field, annotated) in to.iter().zip(annotated) {
                let child = target.child(field, annotated);
                columns.push(match naming.find(from, annotated) {
                    Some(index) => convert(array.column(index), &child, naming)?,
                    None if field.is_nullable() => new_null_array(field.data_type(), array.len()),
                    None => child.missing(array.len() - array.null_count())?,
                });
            }
            match to.is_empty() {
                true => Arc::new(StructArray::new_empty_fields(array.len(), array.nulls().cloned())),
                false => Arc::new(
                    StructArray::try_new(to.clone(), columns, array.nulls().cloned())
                        .map_err(|error| null_violation(&target.path).caused_by(error))?,
                ),
            }
        }
        (DataType::List(_), DataType::List(to), DataType::List(annotated)) => {
            let array = array.as_list::<i32>();
            let values = convert(array.values(), &target.child(to, annotated), naming)?;
            Arc::new(
                ListArray::try_new(to.clone(), array.offsets().clone(), values, array.nulls().cloned())
                    .map_err(|error| null_violation(&target.path).caused_by(error))?,
            )
        }
        (DataType::LargeList(element) | DataType::FixedSizeList(element, _), DataType::List(_), _) => {
            let list = cast(array, &DataType::List(element.clone()), &target.path)?;
            convert(&list, target, naming)?
        }
        (DataType::Map(_, _), DataType::Map(to, sorted), DataType::Map(annotated, _)) => {
            let array = array.as_map();
            let (DataType::Struct(pair), DataType::Struct(annotated)) = (to.data_type(), annotated.data_type()) else {
                return Err(Error::internal(format!("the map type of column '{}' has no entries", target.path)));
            };
            let mut columns = Vec::with_capacity(2);
            for (index, (field, annotated)) in pair.iter().zip(annotated).enumerate() {
                columns.push(convert(array.entries().column(index), &target.child(field, annotated), naming)?);
            }
            let entries =
                StructArray::try_new(pair.clone(), columns, None).map_err(|error| null_violation(&target.path).caused_by(error))?;
            let map = MapArray::try_new(to.clone(), array.offsets().clone(), entries, array.nulls().cloned(), *sorted)
                .map_err(|error| null_violation(&target.path).caused_by(error))?;
            Arc::new(map)
        }
        (from, to, _) if converts(from, to) => cast(array, to, &target.path)?,
        (from, to, _) => {
            let message = format!("column '{}' has the type {from} but the table has {to}: cast it, or rewrite the file", target.path);
            return Err(Error::new(ErrorKind::SchemaMismatch, "DELTA_FAILED_TO_MERGE_FIELDS", message).with_sqlstate("22005"));
        }
    };
    if !target.field.is_nullable() && converted.null_count() > 0 && !target.path.contains('.') {
        return Err(null_violation(&target.path));
    }
    Ok(converted)
}

fn cast(array: &ArrayRef, to: &DataType, path: &str) -> Result<ArrayRef> {
    cast_with_options(array, to, &CastOptions { safe: false, ..CastOptions::default() }).map_err(|error| {
        let message = format!("a value of column '{path}' does not fit the type {to} of the table");
        Error::new(ErrorKind::SchemaMismatch, "DELTA_CAST_OVERFLOW_IN_TABLE_WRITE", message).caused_by(error).with_sqlstate("22003")
    })
}

#[cfg(test)]
mod tests {
    use arrow::array::{Int32Array, Int64Array, StringArray, TimestampNanosecondArray};

    use super::*;

    fn to(data_type: DataType, array: ArrayRef, nullable: bool) -> Result<ArrayRef> {
        let field = Field::new("c", data_type, nullable);
        convert(&array, &Target::column(&field, &field), FieldNaming::AnyCase)
    }

    #[test]
    fn only_lossless_conversions_are_made() {
        let ints: ArrayRef = Arc::new(Int32Array::from(vec![1, 2]));
        assert_eq!(to(DataType::Int64, ints.clone(), true).unwrap().as_ref(), &Int64Array::from(vec![1, 2]));
        assert_eq!(to(DataType::Int16, ints.clone(), true).unwrap_err().kind(), ErrorKind::SchemaMismatch);
        assert!(to(DataType::Utf8, ints.clone(), true).is_err() && to(DataType::Float32, ints, true).is_err());
        assert!(converts(&DataType::Decimal128(5, 2), &DataType::Decimal128(7, 3)));
        assert!(!converts(&DataType::Decimal128(5, 2), &DataType::Decimal128(5, 3)));
        let nanos: ArrayRef = Arc::new(TimestampNanosecondArray::from(vec![1_500]).with_timezone("UTC"));
        let utc = DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into()));
        assert_eq!(to(utc, nanos.clone(), true).unwrap().as_primitive::<arrow::datatypes::TimestampMicrosecondType>().value(0), 1);
        assert!(to(DataType::Timestamp(TimeUnit::Microsecond, None), nanos, true).is_err());
    }

    #[test]
    fn structs_are_matched_by_name_and_filled_up() {
        let from = Fields::from(vec![Field::new("B", DataType::Utf8, true), Field::new("x", DataType::Int32, true)]);
        let rows: ArrayRef =
            Arc::new(StructArray::new(from, vec![Arc::new(StringArray::from(vec!["b"])), Arc::new(Int32Array::from(vec![7]))], None));
        let wanted = DataType::Struct(Fields::from(vec![
            Field::new("x", DataType::Int64, true),
            Field::new("b", DataType::Utf8, true),
            Field::new("new", DataType::Boolean, true),
        ]));
        let converted = to(wanted, rows, true).unwrap();
        let converted = converted.as_struct();
        assert_eq!(converted.column(0).as_primitive::<arrow::datatypes::Int64Type>().value(0), 7);
        assert_eq!(converted.column(1).as_string::<i32>().value(0), "b");
        assert_eq!(converted.column(2).null_count(), 1);
    }

    #[test]
    fn a_null_for_a_required_column_is_named() {
        let error = to(DataType::Int64, Arc::new(Int64Array::from(vec![Some(1), None])), false).unwrap_err();
        assert_eq!(error.code(), "DELTA_NOT_NULL_CONSTRAINT_VIOLATED");
        assert!(error.message().contains("'c'"), "{error}");
    }
}
