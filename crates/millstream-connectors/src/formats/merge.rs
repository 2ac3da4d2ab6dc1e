//! Schemas of several files made one (`mergeSchema`).

use std::sync::Arc;

use arrow::datatypes::{DataType, Field, Fields, Schema, SchemaRef};
use millstream_core::{Error, ErrorKind, Result};

use super::resolve::{entries, list_of, map_of};

/// The schema with every column of both. Columns are matched without regard to case and keep the first spelling; equal types stay, structs,
/// arrays and maps are merged inside, and decimals of one scale take the larger precision. Nothing else is widened, as in Spark.
///
/// # Errors
/// `CANNOT_MERGE_SCHEMAS` (kind `SchemaMismatch`), naming the column and both types.
pub(super) fn merge(first: &SchemaRef, second: &SchemaRef) -> Result<SchemaRef> {
    Ok(Arc::new(Schema::new(merge_fields(first.fields(), second.fields(), "")?)))
}

fn merge_fields(first: &Fields, second: &Fields, parent: &str) -> Result<Fields> {
    let mut merged: Vec<Field> = first.iter().map(|field| field.as_ref().clone()).collect();
    for field in second {
        let folded = field.name().to_lowercase();
        match merged.iter_mut().find(|known| known.name().to_lowercase() == folded) {
            Some(known) => {
                let path = if parent.is_empty() { field.name().clone() } else { format!("{parent}.{}", field.name()) };
                let kind = merge_types(known.data_type(), field.data_type(), &path)?;
                known.set_data_type(kind);
            }
            None => merged.push(field.as_ref().clone()),
        }
    }
    Ok(Fields::from(merged))
}

fn merge_types(first: &DataType, second: &DataType, path: &str) -> Result<DataType> {
    match (first, second) {
        (first, second) if first == second => Ok(first.clone()),
        (DataType::Struct(a), DataType::Struct(b)) => Ok(DataType::Struct(merge_fields(a, b, path)?)),
        (DataType::List(a), DataType::List(b)) => Ok(list_of(merge_types(a.data_type(), b.data_type(), &format!("{path}.element"))?)),
        (DataType::Map(a, _), DataType::Map(b, _)) => match (entries(a), entries(b)) {
            (Some((key, value)), Some((other_key, other_value))) => Ok(map_of(
                merge_types(key.data_type(), other_key.data_type(), &format!("{path}.key"))?,
                merge_types(value.data_type(), other_value.data_type(), &format!("{path}.value"))?,
            )),
            _ => Err(cannot(first, second, path)),
        },
        (DataType::Decimal128(p, s), DataType::Decimal128(q, t)) if s == t => Ok(DataType::Decimal128(*p.max(q), *s)),
        _ => Err(cannot(first, second, path)),
    }
}

fn cannot(first: &DataType, second: &DataType, path: &str) -> Error {
    let message = format!("the files' schemas cannot be merged: column `{path}` is {first} in one and {second} in another");
    Error::new(ErrorKind::SchemaMismatch, "CANNOT_MERGE_SCHEMAS", message).with_sqlstate("42KD9")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn schema(fields: Vec<(&str, DataType)>) -> SchemaRef {
        Arc::new(Schema::new(fields.into_iter().map(|(name, kind)| Field::new(name, kind, true)).collect::<Vec<_>>()))
    }

    #[test]
    fn columns_of_both_are_kept_and_nested_ones_merged() {
        let inner = |name: &str| DataType::Struct(Fields::from(vec![Field::new(name, DataType::Int32, true)]));
        let first = schema(vec![("a", DataType::Int64), ("s", inner("x")), ("d", DataType::Decimal128(5, 2))]);
        let second = schema(vec![("A", DataType::Int64), ("b", DataType::Utf8), ("s", inner("y")), ("d", DataType::Decimal128(9, 2))]);
        let both = DataType::Struct(Fields::from(vec![Field::new("x", DataType::Int32, true), Field::new("y", DataType::Int32, true)]));
        let merged = merge(&first, &second).unwrap();
        assert_eq!(merged, schema(vec![("a", DataType::Int64), ("s", both), ("d", DataType::Decimal128(9, 2)), ("b", DataType::Utf8)]));
    }

    #[test]
    fn types_are_not_widened() {
        let error = merge(&schema(vec![("a", DataType::Int32)]), &schema(vec![("a", DataType::Int64)])).unwrap_err();
        assert_eq!(error.code(), "CANNOT_MERGE_SCHEMAS");
        assert!(error.message().contains("`a` is Int32 in one and Int64"), "{error}");
    }
}
