//! Columns of a table and of the flows into it, put together by Spark's rules.

use std::sync::Arc;

use arrow::datatypes::{DataType, Field, Fields, Schema};
use millstream_core::{Error, ErrorKind, Result};

use crate::types::ddl_type;

/// The columns of both: those of the first in their order, then what only the second has.
///
/// # Errors
/// `CANNOT_MERGE_INCOMPATIBLE_DATA_TYPE` where a column has two types: none is widened.
pub(crate) fn merged(known: &Schema, more: &Schema) -> Result<Schema> {
    merged_fields(known.fields(), more.fields()).map(Schema::new)
}

/// The wanted columns in the order that a table has them in, new ones behind the others.
pub(crate) fn arranged(known: &Schema, wanted: &Schema) -> Schema {
    let stays = known.fields().iter().filter_map(|field| find(wanted.fields(), field.name()));
    let new = wanted.fields().iter().filter(|field| find(known.fields(), field.name()).is_none());
    Schema::new(stays.chain(new).cloned().collect::<Vec<_>>())
}

/// Whether flows with the columns `given` may write to a table that declares columns: names and types have to be the same, and a column that
/// is declared never to be null must never be.
pub(crate) fn fits(declared: &Schema, given: &Schema) -> bool {
    given.fields().iter().all(|field| {
        declared
            .field_with_name(field.name())
            .is_ok_and(|known| same_type(known.data_type(), field.data_type()) && (known.is_nullable() || !field.is_nullable()))
    })
}

fn merged_fields(known: &Fields, more: &Fields) -> Result<Fields> {
    let mut fields: Vec<Arc<Field>> = Vec::with_capacity(known.len());
    for field in known {
        fields.push(match find(more, field.name()) {
            None => field.clone(),
            Some(other) => {
                let merged = field.as_ref().clone().with_data_type(merged_type(field, other)?);
                Arc::new(merged.with_nullable(field.is_nullable() || other.is_nullable()))
            }
        });
    }
    fields.extend(more.iter().filter(|field| find(known, field.name()).is_none()).cloned());
    Ok(fields.into())
}

fn find<'a>(fields: &'a Fields, name: &str) -> Option<&'a Arc<Field>> {
    fields.iter().find(|field| field.name().eq_ignore_ascii_case(name))
}

fn merged_type(one: &Field, other: &Field) -> Result<DataType> {
    match (one.data_type(), other.data_type()) {
        (DataType::Struct(one), DataType::Struct(other)) => Ok(DataType::Struct(merged_fields(one, other)?)),
        (DataType::List(one), DataType::List(other)) => {
            let element = one.as_ref().clone().with_data_type(merged_type(one, other)?);
            Ok(DataType::List(Arc::new(element.with_nullable(one.is_nullable() || other.is_nullable()))))
        }
        (one, other) if same_type(one, other) => Ok(one.clone()),
        (left, right) => {
            let message = format!(
                "Failed to merge incompatible data types \"{}\" and \"{}\" of column `{}`. Please check the data types of the columns being \
                 merged and ensure that they are compatible: cast one of them, or refresh the table fully.",
                ddl_type(left),
                ddl_type(right),
                one.name()
            );
            Err(Error::new(ErrorKind::SchemaMismatch, "CANNOT_MERGE_INCOMPATIBLE_DATA_TYPE", message).with_sqlstate("42825"))
        }
    }
}

/// Whether two types hold the same values, whatever is said about nulls in them.
pub(crate) fn same_type(one: &DataType, other: &DataType) -> bool {
    match (one, other) {
        (DataType::Struct(one), DataType::Struct(other)) => {
            one.len() == other.len()
                && one
                    .iter()
                    .zip(other)
                    .all(|(one, other)| one.name().eq_ignore_ascii_case(other.name()) && same_type(one.data_type(), other.data_type()))
        }
        (DataType::List(one), DataType::List(other)) | (DataType::Map(one, _), DataType::Map(other, _)) => {
            same_type(one.data_type(), other.data_type())
        }
        (one, other) => one == other,
    }
}

/// Whether two schemas have the same columns in the same order, whatever is said about nulls.
pub(crate) fn same_columns(one: &Schema, other: &Schema) -> bool {
    same_type(&DataType::Struct(one.fields().clone()), &DataType::Struct(other.fields().clone()))
}

/// The same columns, all of which may be null: what a table stores.
pub(crate) fn nullable(schema: &Schema) -> Schema {
    Schema::new(schema.fields().iter().map(|field| Arc::new(nullable_field(field))).collect::<Vec<_>>())
}

fn nullable_field(field: &Field) -> Field {
    let data_type = match field.data_type() {
        DataType::Struct(fields) => DataType::Struct(fields.iter().map(|field| Arc::new(nullable_field(field))).collect()),
        DataType::List(element) => DataType::List(Arc::new(nullable_field(element))),
        other => other.clone(),
    };
    field.clone().with_data_type(data_type).with_nullable(true)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::{parse_schema, to_ddl};

    #[test]
    fn columns_are_added_and_types_are_kept() {
        for (known, more, expected) in [
            ("a INT, b STRING", "B STRING, c DATE", Some("a INT, b STRING, c DATE")),
            ("a INT", "a BIGINT", None),
            ("a INT NOT NULL", "a INT", Some("a INT")),
            ("s STRUCT<x: INT>", "s STRUCT<y: INT>", Some("s STRUCT<x: INT, y: INT>")),
            ("l ARRAY<INT>", "l ARRAY<STRING>", None),
        ] {
            let merged = merged(&parse_schema(known).unwrap(), &parse_schema(more).unwrap());
            assert_eq!(merged.as_ref().ok().map(to_ddl), expected.map(|ddl| to_ddl(&parse_schema(ddl).unwrap())), "{known} and {more}");
            if let Err(error) = merged {
                assert_eq!(error.code(), "CANNOT_MERGE_INCOMPATIBLE_DATA_TYPE");
            }
        }
    }

    #[test]
    fn a_table_keeps_the_order_of_its_columns() {
        let (known, wanted) = (parse_schema("a INT, b STRING, c INT").unwrap(), parse_schema("d INT, c STRING, a INT").unwrap());
        assert_eq!(to_ddl(&arranged(&known, &wanted)), to_ddl(&parse_schema("a INT, c STRING, d INT").unwrap()));
    }

    #[test]
    fn declared_columns_are_those_of_the_query() {
        for (declared, given, expected) in [
            ("a INT, b INT", "a INT", true),
            ("a INT", "A INT", false),
            ("a BIGINT", "a INT", false),
            ("a INT", "a INT, b INT", false),
            ("a INT NOT NULL", "a INT", false),
            ("a INT", "a INT NOT NULL", true),
            ("b INT, a STRING", "a STRING, b INT", true),
        ] {
            assert_eq!(fits(&parse_schema(declared).unwrap(), &parse_schema(given).unwrap()), expected, "{declared} for {given}");
        }
    }

    #[test]
    fn nulls_may_be_everywhere() {
        let schema = parse_schema("a INT NOT NULL, s STRUCT<x: INT NOT NULL> NOT NULL").unwrap();
        assert_eq!(to_ddl(&nullable(&schema)), to_ddl(&parse_schema("a INT, s STRUCT<x: INT>").unwrap()));
        assert!(same_columns(&schema, &nullable(&schema)));
    }
}
