//! Writes types the way Spark does.

use arrow::datatypes::{DataType, Field, IntervalUnit, Schema};

use super::{CHAR_VARCHAR, COMMENT, INTERVAL, Shape, TIME, VARIANT};

/// The columns as DDL, `a INT NOT NULL,b STRING COMMENT 'x'`, which [`parse_schema`](super::parse_schema) reads back.
pub fn to_ddl(schema: &Schema) -> String {
    schema.fields().iter().map(|field| column(field, " ")).collect::<Vec<_>>().join(",")
}

fn column(field: &Field, separator: &str) -> String {
    let mut text = format!("{}{separator}{}", quote(field.name()), of_field(field));
    if !field.is_nullable() {
        text.push_str(" NOT NULL");
    }
    if let Some(comment) = field.metadata().get(COMMENT) {
        text.push_str(&format!(" COMMENT '{}'", comment.replace('\\', "\\\\").replace('\'', "\\'")));
    }
    text
}

fn of_field(field: &Field) -> String {
    match field.metadata().get(CHAR_VARCHAR) {
        Some(length) => length.to_ascii_uppercase(),
        None => match field.data_type() {
            DataType::Duration(_) | DataType::Interval(_) | DataType::Struct(_) | DataType::Time64(_) if special(field).is_some() => {
                simple_name_of(field).to_ascii_uppercase()
            }
            other => ddl_type(other),
        },
    }
}

/// What a field's metadata makes of its type.
fn special(field: &Field) -> Option<String> {
    match field.data_type() {
        DataType::Struct(_) if field.metadata().contains_key(VARIANT) => Some("variant".to_owned()),
        DataType::Struct(_) => {
            let shape = Shape::of(field.metadata())?;
            Some(format!("{}({})", shape.name(), field.metadata().get(shape.key())?.to_lowercase()))
        }
        DataType::Time64(_) => field.metadata().get(TIME).map(|digits| format!("time({digits})")),
        DataType::Duration(_) | DataType::Interval(IntervalUnit::YearMonth) => {
            field.metadata().get(INTERVAL).map(|units| format!("interval {units}"))
        }
        _ => None,
    }
}

/// The type of a field as [`simple_name`] writes it, with what its metadata adds: the units of an interval, variants.
pub fn simple_name_of(field: &Field) -> String {
    special(field).unwrap_or_else(|| simple_name(field.data_type()))
}

/// A name, in backticks unless it is a plain word.
pub fn quote(name: &str) -> String {
    let plain =
        name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_') && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    if plain { name.to_owned() } else { format!("`{}`", name.replace('`', "``")) }
}

/// A type as DDL, `DECIMAL(10,2)`, `STRUCT<a: INT>`.
pub fn ddl_type(data_type: &DataType) -> String {
    match data_type {
        DataType::List(element) | DataType::LargeList(element) | DataType::ListView(element) | DataType::FixedSizeList(element, _) => {
            format!("ARRAY<{}>", of_field(element))
        }
        DataType::Map(entries, _) => match entries.data_type() {
            DataType::Struct(pair) => format!("MAP<{}>", pair.iter().map(|field| of_field(field)).collect::<Vec<_>>().join(", ")),
            other => ddl_type(other),
        },
        DataType::Struct(fields) => {
            format!("STRUCT<{}>", fields.iter().map(|field| column(field, ": ")).collect::<Vec<_>>().join(", "))
        }
        other => simple_name(other).to_ascii_uppercase(),
    }
}

/// A type in lower case as Spark shows schemas, `bigint`, `struct<a:int>`. Arrow types that Spark does not have keep Arrow's name.
pub fn simple_name(data_type: &DataType) -> String {
    match data_type {
        DataType::Boolean => "boolean".into(),
        DataType::Int8 => "tinyint".into(),
        DataType::Int16 => "smallint".into(),
        DataType::Int32 => "int".into(),
        DataType::Int64 => "bigint".into(),
        DataType::Float32 => "float".into(),
        DataType::Float64 => "double".into(),
        DataType::Date32 => "date".into(),
        DataType::Timestamp(_, Some(_)) => "timestamp".into(),
        DataType::Timestamp(_, None) => "timestamp_ntz".into(),
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => "string".into(),
        DataType::Binary | DataType::LargeBinary | DataType::BinaryView | DataType::FixedSizeBinary(_) => "binary".into(),
        DataType::Null => "void".into(),
        DataType::Decimal128(precision, scale) => format!("decimal({precision},{scale})"),
        DataType::Time64(_) => "time(6)".into(),
        DataType::Duration(_) => "interval day to second".into(),
        DataType::Interval(IntervalUnit::YearMonth) => "interval year to month".into(),
        DataType::Interval(_) => "interval".into(),
        DataType::List(element) | DataType::LargeList(element) | DataType::ListView(element) | DataType::FixedSizeList(element, _) => {
            format!("array<{}>", simple_name_of(element))
        }
        DataType::Map(entries, _) => match entries.data_type() {
            DataType::Struct(pair) => {
                format!("map<{}>", pair.iter().map(|field| simple_name_of(field)).collect::<Vec<_>>().join(","))
            }
            other => simple_name(other),
        },
        DataType::Struct(fields) => {
            let fields: Vec<String> = fields.iter().map(|field| format!("{}:{}", field.name(), simple_name_of(field))).collect();
            format!("struct<{}>", fields.join(","))
        }
        DataType::Dictionary(_, value) => simple_name(value),
        other => other.to_string(),
    }
}
