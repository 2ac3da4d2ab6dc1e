//! Values of partition columns: as text in the log, and as folder names in paths.

use std::fmt::Write as _;

use arrow::array::{Array, ArrayRef, AsArray, StringArray, UInt32Array, new_null_array};
use arrow::compute::{CastOptions, cast_with_options, take};
use arrow::datatypes::{DataType, Date32Type, Float32Type, Float64Type, TimestampMicrosecondType};
use arrow::util::display::{ArrayFormatter, FormatOptions};
use chrono::{DateTime, NaiveDateTime, Utc};
use millstream_core::{Error, ErrorKind, Result};

/// The folder for null, as Hive named it.
const NULL_FOLDER: &str = "__HIVE_DEFAULT_PARTITION__";

/// Checks that a column can be partitioned by.
///
/// # Errors
/// `INVALID_PARTITION_COLUMN_DATA_TYPE` for nested types.
pub(super) fn check_type(column: &str, data_type: &DataType) -> Result<()> {
    if data_type.is_nested() {
        let message = format!("cannot partition by column '{column}' of the type {data_type}: partition by a plain value of it");
        return Err(Error::invalid("INVALID_PARTITION_COLUMN_DATA_TYPE", message).with_sqlstate("0A000"));
    }
    Ok(())
}

/// The text of one value, or `None` for null. An empty string is null too: the protocol cannot tell them apart.
///
/// # Errors
/// `DELTA_UNSUPPORTED_PARTITION_VALUE` for binary values that are not UTF-8.
pub(super) fn to_text(column: &str, values: &ArrayRef, row: usize) -> Result<Option<String>> {
    if values.is_null(row) {
        return Ok(None);
    }
    let text = match values.data_type() {
        DataType::Utf8 => values.as_string::<i32>().value(row).to_owned(),
        DataType::Binary => String::from_utf8(values.as_binary::<i32>().value(row).to_vec()).map_err(|_| {
            let message = format!("a value of partition column '{column}' is not UTF-8: partition by its hex text");
            Error::new(ErrorKind::SchemaMismatch, "DELTA_UNSUPPORTED_PARTITION_VALUE", message)
        })?,
        DataType::Float32 => float_text(f64::from(values.as_primitive::<Float32Type>().value(row)), || {
            format!("{:?}", values.as_primitive::<Float32Type>().value(row))
        }),
        DataType::Float64 => {
            float_text(values.as_primitive::<Float64Type>().value(row), || format!("{:?}", values.as_primitive::<Float64Type>().value(row)))
        }
        DataType::Date32 => match values.as_primitive::<Date32Type>().value_as_date(row) {
            Some(date) => date.to_string(),
            None => return Err(out_of_range(column)),
        },
        // With the zone, so that readers in another session time zone get the same instant.
        DataType::Timestamp(_, zone) => {
            let micros = values.as_primitive::<TimestampMicrosecondType>().value(row);
            let at = DateTime::<Utc>::from_timestamp_micros(micros).ok_or_else(|| out_of_range(column))?.naive_utc();
            match zone {
                Some(_) => at.format("%Y-%m-%dT%H:%M:%S%.6fZ").to_string(),
                None => at.format("%Y-%m-%d %H:%M:%S%.6f").to_string(),
            }
        }
        _ => ArrayFormatter::try_new(values, &FormatOptions::new())
            .and_then(|formatter| formatter.value(row).try_to_string())
            .map_err(|error| Error::internal(format!("a value of partition column '{column}' has no text")).caused_by(error))?,
    };
    Ok(Some(text).filter(|text| !text.is_empty()))
}

fn float_text(value: f64, finite: impl FnOnce() -> String) -> String {
    if value.is_nan() {
        "NaN".to_owned()
    } else if value.is_infinite() {
        if value > 0.0 { "Infinity".to_owned() } else { "-Infinity".to_owned() }
    } else {
        finite()
    }
}

fn out_of_range(column: &str) -> Error {
    let message = format!("a value of partition column '{column}' is outside the range of dates");
    Error::new(ErrorKind::SchemaMismatch, "DELTA_UNSUPPORTED_PARTITION_VALUE", message)
}

/// `rows` copies of the value that a text in the log means.
///
/// # Errors
/// `DELTA_PARTITION_COLUMN_CAST_FAILED` when it is not a value of the type.
pub(super) fn from_text(column: &str, text: Option<&str>, data_type: &DataType, rows: usize) -> Result<ArrayRef> {
    let Some(text) = text.filter(|text| !text.is_empty()) else {
        return Ok(new_null_array(data_type, rows));
    };
    let failed = || {
        let message = format!("the value '{text}' of partition column '{column}' is not a {data_type}: repair the table");
        Error::new(ErrorKind::SchemaMismatch, "DELTA_PARTITION_COLUMN_CAST_FAILED", message).with_sqlstate("22525")
    };
    let one: ArrayRef = match data_type {
        DataType::Float32 => std::sync::Arc::new(arrow::array::Float32Array::from(vec![text.parse::<f32>().map_err(|_| failed())?])),
        DataType::Float64 => std::sync::Arc::new(arrow::array::Float64Array::from(vec![text.parse::<f64>().map_err(|_| failed())?])),
        DataType::Timestamp(_, None) => {
            let at = ["%Y-%m-%d %H:%M:%S%.f", "%Y-%m-%dT%H:%M:%S%.f", "%Y-%m-%dT%H:%M:%S%.fZ"]
                .iter()
                .find_map(|format| NaiveDateTime::parse_from_str(text, format).ok())
                .ok_or_else(failed)?;
            std::sync::Arc::new(arrow::array::TimestampMicrosecondArray::from(vec![at.and_utc().timestamp_micros()]))
        }
        _ => {
            let value: ArrayRef = std::sync::Arc::new(StringArray::from(vec![text]));
            cast_with_options(&value, data_type, &CastOptions { safe: false, ..CastOptions::default() })
                .map_err(|error| failed().caused_by(error))?
        }
    };
    take(&one, &UInt32Array::from_value(0, rows), None)
        .map_err(|error| Error::internal("a partition value cannot be repeated").caused_by(error))
}

/// The folder of a partition inside the table, `p=1/q=a%3Ab`, escaped as Hive and Spark do.
pub(super) fn folder<'a>(values: impl Iterator<Item = (&'a str, Option<&'a str>)>) -> String {
    let mut path = String::new();
    for (column, value) in values {
        if !path.is_empty() {
            path.push('/');
        }
        escape(column, &mut path);
        path.push('=');
        match value {
            Some(value) => escape(value, &mut path),
            None => path.push_str(NULL_FOLDER),
        }
    }
    path
}

fn escape(text: &str, out: &mut String) {
    for c in text.chars() {
        if c.is_ascii_control() || "\"#%'*/:=?\\{[]^".contains(c) {
            // Writing into a string cannot fail.
            let _ = write!(out, "%{:02X}", u32::from(c));
        } else {
            out.push(c);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{BooleanArray, Date32Array, Decimal128Array, Float64Array, Int32Array, TimestampMicrosecondArray};

    use super::*;

    #[test]
    fn every_type_survives_its_text() {
        let columns: Vec<(ArrayRef, &str)> = vec![
            (Arc::new(Int32Array::from(vec![-7])), "-7"),
            (Arc::new(BooleanArray::from(vec![true])), "true"),
            (Arc::new(Float64Array::from(vec![1.0])), "1.0"),
            (Arc::new(Float64Array::from(vec![f64::NEG_INFINITY])), "-Infinity"),
            (Arc::new(Date32Array::from(vec![-1])), "1969-12-31"),
            (Arc::new(Decimal128Array::from(vec![-1205]).with_precision_and_scale(10, 2).unwrap()), "-12.05"),
            (Arc::new(TimestampMicrosecondArray::from(vec![1_500_001]).with_timezone("UTC")), "1970-01-01T00:00:01.500001Z"),
            (Arc::new(TimestampMicrosecondArray::from(vec![-1])), "1969-12-31 23:59:59.999999"),
            (Arc::new(StringArray::from(vec!["a/b=c %"])), "a/b=c %"),
        ];
        for (values, text) in columns {
            assert_eq!(to_text("p", &values, 0).unwrap().as_deref(), Some(text));
            let back = from_text("p", Some(text), values.data_type(), 2).unwrap();
            assert_eq!(back.len(), 2);
            assert_eq!(&back.slice(1, 1), &values, "{text}");
        }
    }

    #[test]
    fn null_and_empty_are_null_and_the_literal_name_of_null_is_not() {
        let values: ArrayRef = Arc::new(StringArray::from(vec![None, Some(""), Some(NULL_FOLDER)]));
        let texts: Vec<_> = (0..3).map(|row| to_text("p", &values, row).unwrap()).collect();
        assert_eq!(texts, [None, None, Some(NULL_FOLDER.to_owned())]);
        assert_eq!(from_text("p", None, &DataType::Int64, 3).unwrap().null_count(), 3);
        assert_eq!(from_text("p", Some(NULL_FOLDER), &DataType::Utf8, 1).unwrap().null_count(), 0);
        assert_eq!(from_text("p", Some("x"), &DataType::Int64, 1).unwrap_err().code(), "DELTA_PARTITION_COLUMN_CAST_FAILED");
    }

    #[test]
    fn spark_writes_timestamps_without_a_zone_too() {
        let utc = DataType::Timestamp(arrow::datatypes::TimeUnit::Microsecond, Some("UTC".into()));
        let value = from_text("p", Some("2024-01-02 03:04:05.5"), &utc, 1).unwrap();
        assert_eq!(value.as_primitive::<TimestampMicrosecondType>().value(0), 1_704_164_645_500_000);
    }

    #[test]
    fn folders_are_escaped_as_hive_does() {
        let path = folder([("p", Some("a/b:c%")), ("q", None), ("r", Some("ü x"))].into_iter());
        assert_eq!(path, "p=a%2Fb%3Ac%25/q=__HIVE_DEFAULT_PARTITION__/r=ü x");
    }
}
