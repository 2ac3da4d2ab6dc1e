//! Spark Connect's form of types.

use std::collections::HashMap;

use arrow::datatypes::{DataType, Field, Fields, IntervalUnit, TimeUnit};
use millstream_core::{Error, Result};
use spark_connect_proto::data_type::{self, Kind};
use spark_connect_proto::{self as proto};

use super::{CHAR_VARCHAR, INTERVAL, Shape, TIME, VARIANT, array, map_of, parse_field_type, timestamp};

/// The units of day-time intervals, by the number that Spark gives them.
const DAY_TIME: [&str; 4] = ["day", "hour", "minute", "second"];

/// The units of year-month intervals.
const YEAR_MONTH: [&str; 2] = ["year", "month"];

/// A type of the protocol as a nullable field without a name; lengths of characters and units of intervals are in its metadata.
///
/// # Errors
/// `UNSUPPORTED_DATATYPE` for types that Millstream does not have, `INVALID_PLAN_INPUT` for an empty type.
pub fn from_proto(data_type: &proto::DataType) -> Result<Field> {
    let Some(kind) = &data_type.kind else {
        return Err(Error::invalid("INVALID_PLAN_INPUT", "the plan is incomplete: a type is missing").with_sqlstate("42000"));
    };
    let mut metadata = HashMap::new();
    let arrow = match kind {
        Kind::Null(_) => DataType::Null,
        Kind::Binary(_) => DataType::Binary,
        Kind::Boolean(_) => DataType::Boolean,
        Kind::Byte(_) => DataType::Int8,
        Kind::Short(_) => DataType::Int16,
        Kind::Integer(_) => DataType::Int32,
        Kind::Long(_) => DataType::Int64,
        Kind::Float(_) => DataType::Float32,
        Kind::Double(_) => DataType::Float64,
        Kind::Decimal(decimal) => {
            let (precision, scale) = (decimal.precision.unwrap_or(10), decimal.scale.unwrap_or(0));
            match (u8::try_from(precision), i8::try_from(scale)) {
                (Ok(precision @ 1..=38), Ok(scale)) if scale >= 0 && scale.unsigned_abs() <= precision => {
                    DataType::Decimal128(precision, scale)
                }
                _ => return Err(unsupported(format!("decimal({precision},{scale})"))),
            }
        }
        Kind::String(_) => DataType::Utf8,
        Kind::Char(char) => {
            metadata.insert(CHAR_VARCHAR.to_owned(), format!("char({})", char.length));
            DataType::Utf8
        }
        Kind::VarChar(varchar) => {
            metadata.insert(CHAR_VARCHAR.to_owned(), format!("varchar({})", varchar.length));
            DataType::Utf8
        }
        Kind::Date(_) => DataType::Date32,
        Kind::Timestamp(_) => timestamp(),
        Kind::TimestampNtz(_) => DataType::Timestamp(TimeUnit::Microsecond, None),
        Kind::Time(time) => {
            if let Some(digits) = time.precision.filter(|digits| *digits != 6) {
                metadata.insert(TIME.to_owned(), digits.to_string());
            }
            DataType::Time64(TimeUnit::Nanosecond)
        }
        Kind::CalendarInterval(_) => DataType::Interval(IntervalUnit::MonthDayNano),
        Kind::YearMonthInterval(interval) => {
            units(&YEAR_MONTH, interval.start_field, interval.end_field, &mut metadata)?;
            DataType::Interval(IntervalUnit::YearMonth)
        }
        Kind::DayTimeInterval(interval) => {
            units(&DAY_TIME, interval.start_field, interval.end_field, &mut metadata)?;
            DataType::Duration(TimeUnit::Microsecond)
        }
        Kind::Array(of) => array(from_boxed(of.element_type.as_deref())?.data_type().clone(), of.contains_null),
        Kind::Map(of) => map_of(
            from_boxed(of.key_type.as_deref())?.with_name("key").with_nullable(false),
            from_boxed(of.value_type.as_deref())?.with_name("value").with_nullable(of.value_contains_null),
        ),
        Kind::Struct(of) => DataType::Struct(of.fields.iter().map(struct_field).collect::<Result<Fields>>()?),
        Kind::Variant(_) => {
            metadata.insert(VARIANT.to_owned(), "true".to_owned());
            super::variant()
        }
        Kind::Geometry(of) => shape(Shape::Geometry, of.srid, &mut metadata),
        Kind::Geography(of) => shape(Shape::Geography, of.srid, &mut metadata),
        Kind::Unparsed(text) => return parse_field_type(&text.data_type_string),
        Kind::Udt(udt) => match &udt.sql_type {
            Some(of) => return from_proto(of),
            None => return Err(unsupported(format!("the user-defined type {}", udt.r#type))),
        },
        other => return Err(unsupported(format!("{other:?}"))),
    };
    Ok(Field::new("", arrow, true).with_metadata(metadata))
}

/// The columns of a structure that a client declares, as a type or as text: `k STRING, n BIGINT`. `None` for another type.
///
/// # Errors
/// As [`from_proto`].
pub fn columns_from_proto(declared: &proto::DataType) -> Result<Option<Fields>> {
    if let Some(Kind::Unparsed(text)) = &declared.kind
        && let Ok(schema) = super::parse_schema(&text.data_type_string)
    {
        return Ok(Some(schema.fields));
    }
    match from_proto(declared)?.data_type() {
        DataType::Struct(fields) => Ok(Some(fields.clone())),
        _ => Ok(None),
    }
}

fn from_boxed(data_type: Option<&proto::DataType>) -> Result<Field> {
    from_proto(data_type.unwrap_or(&proto::DataType::default()))
}

fn struct_field(field: &data_type::StructField) -> Result<Field> {
    let of = from_boxed(field.data_type.as_ref())?;
    let mut metadata = of.metadata().clone();
    if let Some(text) = field.metadata.as_deref().filter(|text| !text.is_empty()) {
        let entries: serde_json::Map<String, serde_json::Value> = serde_json::from_str(text).map_err(|error| {
            Error::invalid("INVALID_PLAN_INPUT", format!("the metadata of field '{}' is not a JSON object", field.name))
                .with_sqlstate("42000")
                .caused_by(error)
        })?;
        metadata.extend(entries.into_iter().map(|(key, value)| (key, super::metadata_text(&value))));
    }
    Ok(of.with_name(&field.name).with_nullable(field.nullable).with_metadata(metadata))
}

fn units(names: &[&str], start: Option<i32>, end: Option<i32>, metadata: &mut HashMap<String, String>) -> Result<()> {
    let Some(start) = start else { return Ok(()) };
    let end = end.unwrap_or(start);
    let name = |unit: i32| usize::try_from(unit).ok().and_then(|unit| names.get(unit)).copied();
    let (Some(first), Some(last)) = (name(start), name(end)) else { return Err(unsupported(format!("interval units {start} to {end}"))) };
    let text = if first == last { first.to_owned() } else { format!("{first} to {last}") };
    let widest = names.first().zip(names.last()).is_some_and(|(one, other)| *one == first && *other == last);
    if !widest {
        metadata.insert(INTERVAL.to_owned(), text);
    }
    Ok(())
}

/// The number that stands for shapes of any reference system.
const ANY_SRID: i32 = -1;

fn shape(shape: Shape, srid: i32, metadata: &mut HashMap<String, String>) -> DataType {
    let srid = if srid == ANY_SRID { "ANY".to_owned() } else { srid.to_string() };
    metadata.insert(shape.key().to_owned(), srid);
    super::geospatial()
}

fn shape_to_proto(shape: Shape, field: &Field) -> Kind {
    let srid = field.metadata().get(shape.key()).and_then(|srid| srid.parse().ok()).unwrap_or(ANY_SRID);
    match shape {
        Shape::Geometry => Kind::Geometry(data_type::Geometry { srid, ..Default::default() }),
        Shape::Geography => Kind::Geography(data_type::Geography { srid, ..Default::default() }),
    }
}

fn unsupported(what: impl std::fmt::Display) -> Error {
    Error::invalid("UNSUPPORTED_DATATYPE", format!("type {what} is not supported")).with_sqlstate("0A000")
}

/// The type of a field in the protocol's form.
pub fn to_proto(field: &Field) -> proto::DataType {
    let kind = match field.data_type() {
        DataType::Boolean => Kind::Boolean(data_type::Boolean::default()),
        DataType::Int8 => Kind::Byte(data_type::Byte::default()),
        DataType::Int16 => Kind::Short(data_type::Short::default()),
        DataType::Int32 => Kind::Integer(data_type::Integer::default()),
        DataType::Int64 => Kind::Long(data_type::Long::default()),
        DataType::Float32 => Kind::Float(data_type::Float::default()),
        DataType::Float64 => Kind::Double(data_type::Double::default()),
        DataType::Decimal128(precision, scale) => Kind::Decimal(data_type::Decimal {
            precision: Some(i32::from(*precision)),
            scale: Some(i32::from(*scale)),
            ..Default::default()
        }),
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => text(field),
        DataType::Binary | DataType::LargeBinary | DataType::BinaryView | DataType::FixedSizeBinary(_) => {
            Kind::Binary(data_type::Binary::default())
        }
        DataType::Date32 => Kind::Date(data_type::Date::default()),
        DataType::Timestamp(_, Some(_)) => Kind::Timestamp(data_type::Timestamp::default()),
        DataType::Timestamp(_, None) => Kind::TimestampNtz(data_type::TimestampNtz::default()),
        DataType::Time64(_) => {
            let digits = field.metadata().get(TIME).and_then(|digits| digits.parse().ok()).unwrap_or(6);
            Kind::Time(data_type::Time { precision: Some(digits), ..Default::default() })
        }
        DataType::Duration(_) => {
            let (start, end) = unit_numbers(&DAY_TIME, field);
            Kind::DayTimeInterval(data_type::DayTimeInterval { start_field: start, end_field: end, ..Default::default() })
        }
        DataType::Interval(IntervalUnit::YearMonth) => {
            let (start, end) = unit_numbers(&YEAR_MONTH, field);
            Kind::YearMonthInterval(data_type::YearMonthInterval { start_field: start, end_field: end, ..Default::default() })
        }
        DataType::Interval(_) => Kind::CalendarInterval(data_type::CalendarInterval::default()),
        DataType::List(element) | DataType::LargeList(element) | DataType::ListView(element) | DataType::FixedSizeList(element, _) => {
            Kind::Array(Box::new(data_type::Array {
                element_type: Some(Box::new(to_proto(element))),
                contains_null: element.is_nullable(),
                ..Default::default()
            }))
        }
        DataType::Map(entries, _) => match entries.data_type() {
            DataType::Struct(pair) if pair.len() == 2 => Kind::Map(Box::new(data_type::Map {
                key_type: pair.first().map(|key| Box::new(to_proto(key))),
                value_type: pair.get(1).map(|value| Box::new(to_proto(value))),
                value_contains_null: pair.get(1).is_some_and(|value| value.is_nullable()),
                ..Default::default()
            })),
            _ => Kind::Null(data_type::Null::default()),
        },
        DataType::Struct(_) if field.metadata().contains_key(VARIANT) => Kind::Variant(data_type::Variant::default()),
        DataType::Struct(fields) => match Shape::of(field.metadata()) {
            Some(shape) => shape_to_proto(shape, field),
            None => Kind::Struct(struct_to_proto(fields)),
        },
        DataType::Dictionary(_, value) => return to_proto(&field.clone().with_data_type(value.as_ref().clone())),
        _ => Kind::Null(data_type::Null::default()),
    };
    proto::DataType { kind: Some(kind) }
}

/// Fields as the struct type that Spark takes schemas for.
pub fn struct_to_proto(fields: &Fields) -> data_type::Struct {
    let fields = fields.iter().map(|field| data_type::StructField {
        name: field.name().clone(),
        data_type: Some(to_proto(field)),
        nullable: field.is_nullable(),
        metadata: super::user_metadata(field).map(|metadata| serde_json::Value::Object(metadata).to_string()),
    });
    data_type::Struct { fields: fields.collect(), ..Default::default() }
}

fn text(field: &Field) -> Kind {
    let length =
        |prefix: &str| -> Option<i32> { field.metadata().get(CHAR_VARCHAR)?.strip_prefix(prefix)?.strip_suffix(')')?.trim().parse().ok() };
    if let Some(length) = length("char(") {
        Kind::Char(data_type::Char { length, ..Default::default() })
    } else if let Some(length) = length("varchar(") {
        Kind::VarChar(data_type::VarChar { length, ..Default::default() })
    } else {
        Kind::String(data_type::String { collation: "UTF8_BINARY".to_owned(), ..Default::default() })
    }
}

fn unit_numbers(names: &[&str], field: &Field) -> (Option<i32>, Option<i32>) {
    let number = |name: &str| names.iter().position(|known| *known == name).and_then(|place| i32::try_from(place).ok());
    match field.metadata().get(INTERVAL) {
        Some(text) => {
            let (first, last) = text.split_once(" to ").unwrap_or((text, text));
            (number(first), number(last))
        }
        None => (Some(0), i32::try_from(names.len().saturating_sub(1)).ok()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::parse_schema;

    #[test]
    fn types_survive_the_way_through_the_protocol() {
        let ddl = "a BOOLEAN, b TINYINT, c SMALLINT, d INT, e BIGINT, f FLOAT, g DOUBLE, h DECIMAL(12,3), i STRING, j BINARY, k DATE, \
                   l TIMESTAMP, m TIMESTAMP_NTZ, n ARRAY<INT>, o MAP<STRING,DOUBLE>, p STRUCT<x: INT, y: ARRAY<STRING>>, \
                   q INTERVAL DAY TO SECOND, r INTERVAL YEAR TO MONTH, s VARCHAR(7)";
        for field in parse_schema(ddl).unwrap().fields() {
            let back = from_proto(&to_proto(field)).unwrap().with_name(field.name()).with_nullable(field.is_nullable());
            assert_eq!(back, **field);
        }
    }
}
