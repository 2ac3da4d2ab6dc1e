//! Spark's data types and their texts: DDL (`a INT NOT NULL, b ARRAY<STRING>`) and JSON, both ways, as Arrow types.
//!
//! | Spark | Arrow |
//! |---|---|
//! | `TIMESTAMP` | `Timestamp(µs, "UTC")`: an instant |
//! | `TIMESTAMP_NTZ` | `Timestamp(µs)`: a wall clock |
//! | `STRING`, `CHAR(n)`, `VARCHAR(n)` | `Utf8`; the length is kept in the field's metadata |
//! | `DECIMAL(p, s)` | `Decimal128(p, s)` |
//! | `INTERVAL DAY TO SECOND` and its parts | `Duration(µs)` |
//! | `INTERVAL YEAR TO MONTH` and its parts | `Interval(YearMonth)` |
//! | `INTERVAL` | `Interval(MonthDayNano)` |
//! | `TIME(p)` | `Time64(ns)` |
//! | `GEOMETRY(n)`, `GEOGRAPHY(n)` | `Struct` of `srid` and `wkb`, marked in the field's metadata |
//! | `VARIANT` | `Struct` of `value` and `metadata`, marked in the field's metadata |
//! | `ARRAY`, `MAP`, `STRUCT` | `List` of `element`, `Map` of `key` and `value`, `Struct` |

mod ddl;
mod interval;
mod json;
mod names;
mod proto;
mod wire;

use std::collections::HashMap;
use std::sync::Arc;

use arrow::datatypes::{DataType, Field, Fields, TimeUnit};

pub use ddl::{parse_data_type, parse_field_type, parse_schema};
pub use interval::{CalendarInterval, parse_fixed_ms, parse_interval};
pub use json::{schema_from_json, schema_to_json};
pub use names::{ddl_type, quote, simple_name, simple_name_of, to_ddl};
pub use proto::{columns_from_proto, from_proto, struct_to_proto, to_proto};

pub use millstream_core::variant::{VARIANT, data_type as variant};

pub(crate) use ddl::{column_type, same_name_twice};
pub(crate) use json::{metadata_text, user_metadata};
pub(crate) use wire::{retype, wire_field};

/// The metadata key under which Spark keeps the length of `CHAR(n)` and `VARCHAR(n)`.
pub const CHAR_VARCHAR: &str = "__CHAR_VARCHAR_TYPE_STRING";

/// The metadata key of a column's comment.
pub const COMMENT: &str = "comment";

/// The metadata key of the units of an interval, `day`, `day to second`, `year to month`, where they are not the widest.
pub const INTERVAL: &str = "spark.interval";

/// The metadata key of the digits that a `TIME` has behind its seconds, where they are not six.
pub const TIME: &str = "spark.time";

/// The two types of shapes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Shape {
    /// On a plane.
    Geometry,
    /// On the earth.
    Geography,
}

impl Shape {
    /// The name of the type in lower case.
    pub fn name(self) -> &'static str {
        match self {
            Shape::Geometry => "geometry",
            Shape::Geography => "geography",
        }
    }

    /// The metadata key that marks a struct as a shape; the value is the number of its reference system, or `ANY`.
    pub fn key(self) -> &'static str {
        match self {
            Shape::Geometry => "spark.geometry",
            Shape::Geography => "spark.geography",
        }
    }

    /// The kind of shape that metadata says.
    pub fn of(metadata: &HashMap<String, String>) -> Option<Shape> {
        [Shape::Geometry, Shape::Geography].into_iter().find(|shape| metadata.contains_key(shape.key()))
    }
}

/// A shape, without the mark that a field of the type carries.
pub fn geospatial() -> DataType {
    DataType::Struct(Fields::from(vec![Field::new("srid", DataType::Int32, false), Field::new("wkb", DataType::Binary, false)]))
}

/// Whether a metadata key belongs to the type of a field and not to its column: units of intervals, digits of times, and the marks of variants and shapes.
pub fn belongs_to_type(key: &str) -> bool {
    [INTERVAL, TIME, VARIANT, Shape::Geometry.key(), Shape::Geography.key()].contains(&key)
}

/// Spark's `TIMESTAMP`.
pub fn timestamp() -> DataType {
    DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into()))
}

/// An array of elements that may be null or not.
pub fn array(element: DataType, contains_null: bool) -> DataType {
    DataType::List(Arc::new(Field::new("element", element, contains_null)))
}

/// A map whose values may be null or not.
pub fn map(key: DataType, value: DataType, value_contains_null: bool) -> DataType {
    map_of(Field::new("key", key, false), Field::new("value", value, value_contains_null))
}

pub(crate) fn map_of(key: Field, value: Field) -> DataType {
    let entries = DataType::Struct(Fields::from(vec![key, value]));
    DataType::Map(Arc::new(Field::new("entries", entries, false)), false)
}
