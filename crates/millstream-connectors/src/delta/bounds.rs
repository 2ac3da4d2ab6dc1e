//! What the log knows of the values in each file: partition values, and the bounds in statistics.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, StringArray, TimestampMicrosecondArray, UInt64Array};
use arrow::compute::{CastOptions, cast_with_options, concat};
use arrow::datatypes::{DataType, TimeUnit, TimestampMicrosecondType};
use millstream_core::versioned::ColumnBounds;
use serde_json::Value;

use super::actions::Add;
use super::partition;
use super::schema::TableSchema;

/// Bounds of a column on the top level by file; `None` where there are none at all.
pub(super) fn of_column(schema: &TableSchema, files: &[Add], column: &str) -> Option<ColumnBounds> {
    let annotated = schema.annotated.fields().iter().find(|field| field.name() == column)?;
    let field = schema.arrow.fields().iter().find(|field| field.name() == column)?;
    let name = schema.naming.physical(annotated);
    if files.is_empty() || field.data_type().is_nested() {
        return None;
    }
    if schema.is_partition(column) { of_partition(files, name, field.data_type()) } else { of_statistics(files, name, field.data_type()) }
}

fn of_partition(files: &[Add], name: &str, data_type: &DataType) -> Option<ColumnBounds> {
    let text = |file: &Add| file.partition_values.get(name).cloned().flatten();
    let values: Option<Vec<ArrayRef>> =
        files.iter().map(|file| partition::from_text(name, text(file).as_deref(), data_type, 1).ok()).collect();
    let values = values?;
    let parts: Vec<&dyn Array> = values.iter().map(AsRef::as_ref).collect();
    let values = concat(&parts).ok()?;
    let nulls = files.iter().map(|file| if text(file).is_some() { Some(0) } else { file.rows() }).collect();
    Some(ColumnBounds { min: values.clone(), max: values, nulls })
}

fn of_statistics(files: &[Add], name: &str, data_type: &DataType) -> Option<ColumnBounds> {
    let parsed: Vec<Value> =
        files.iter().map(|file| file.stats.as_deref().and_then(|text| serde_json::from_str(text).ok()).unwrap_or(Value::Null)).collect();
    let value = |stats: &Value, kind: &str| -> Option<String> {
        match stats.get(kind)?.get(name)? {
            Value::Null => None,
            Value::String(text) => Some(text.clone()),
            other => Some(other.to_string()),
        }
    };
    let typed = |kind: &str| -> Option<ArrayRef> {
        let texts: StringArray = parsed.iter().map(|stats| value(stats, kind)).collect();
        let texts: ArrayRef = Arc::new(texts);
        match data_type {
            DataType::Utf8 => Some(texts),
            DataType::Boolean | DataType::Binary => None,
            other => cast_with_options(&texts, other, &CastOptions::default()).ok(),
        }
    };
    let (min, max) = (typed("minValues")?, rounded_up(typed("maxValues")?));
    if min.null_count() == min.len() && max.null_count() == max.len() {
        return None;
    }
    let nulls: UInt64Array = parsed.iter().map(|stats| stats.get("nullCount")?.get(name)?.as_u64()).collect();
    Some(ColumnBounds { min, max, nulls })
}

/// Spark cuts the bounds of instants to milliseconds.
fn rounded_up(max: ArrayRef) -> ArrayRef {
    let DataType::Timestamp(TimeUnit::Microsecond, zone) = max.data_type().clone() else { return max };
    let up = |micros: i64| if micros.rem_euclid(1000) == 0 { micros.saturating_add(999) } else { micros };
    let values: TimestampMicrosecondArray = max.as_primitive::<TimestampMicrosecondType>().iter().map(|value| value.map(up)).collect();
    Arc::new(values.with_timezone_opt(zone))
}

#[cfg(test)]
mod tests {
    use arrow::datatypes::Int32Type;
    use millstream_core::ErrorKind;

    use super::*;
    use crate::delta::actions::Metadata;

    #[test]
    fn bounds_come_from_partitions_and_statistics() {
        let metadata = Metadata {
            schema_string: r#"{"type":"struct","fields":[{"name":"p","type":"integer","nullable":true,"metadata":{}},
                {"name":"at","type":"timestamp","nullable":true,"metadata":{}},{"name":"s","type":"string","nullable":true,"metadata":{}}]}"#
                .to_owned(),
            partition_columns: vec!["p".to_owned()],
            ..Metadata::default()
        };
        let schema = TableSchema::of(&metadata, ErrorKind::SinkUnavailable).unwrap();
        let add = |p: Option<&str>, stats: Option<&str>| Add {
            partition_values: [("p".to_owned(), p.map(str::to_owned))].into(),
            stats: stats.map(str::to_owned),
            ..Add::default()
        };
        let files = [
            add(
                Some("7"),
                Some(
                    r#"{"numRecords":2,"minValues":{"at":"1970-01-01T00:00:00.001Z","s":"a"},"maxValues":{"at":"1970-01-01T00:00:00.002Z"},"nullCount":{"at":1}}"#,
                ),
            ),
            add(None, None),
        ];
        let p = of_column(&schema, &files, "p").unwrap();
        assert_eq!(p.min.as_primitive::<Int32Type>().value(0), 7);
        assert!(p.min.is_null(1) && p.nulls.value(0) == 0);
        let at = of_column(&schema, &files, "at").unwrap();
        assert_eq!(at.min.as_primitive::<TimestampMicrosecondType>().value(0), 1_000);
        assert_eq!(at.max.as_primitive::<TimestampMicrosecondType>().value(0), 2_999);
        assert!(at.max.is_null(1) && at.nulls.value(0) == 1);
        let s = of_column(&schema, &files, "s").unwrap();
        assert!(s.max.is_null(0) && s.min.as_string::<i32>().value(0) == "a");
    }
}
