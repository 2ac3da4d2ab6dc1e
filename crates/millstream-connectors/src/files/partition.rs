//! Partition columns: the `name=value` directories above a file, what types their values have, and their values as columns.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, StringArray, new_null_array};
use arrow::compute::{CastOptions, cast_with_options};
use arrow::datatypes::{DataType, Field, Schema, TimeUnit};
use chrono::{NaiveDate, NaiveDateTime};
use millstream_core::{Error, Result};

use super::uri;

/// How Hive spells null in a directory name.
pub(crate) const NULL_PARTITION: &str = "__HIVE_DEFAULT_PARTITION__";

/// One `name=value` directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PartitionKey {
    /// The name, unescaped.
    pub(crate) name: String,
    /// The value as the directory spells it.
    pub(crate) value: String,
}

/// Where partition directories begin.
#[derive(Clone, Debug)]
pub(crate) enum PartitionBase {
    /// Nowhere: directory names are names.
    Off,
    /// Below the directory of this URL.
    Directory(String),
    /// Below the directories that a path pattern matched: so many names below the directory of this URL.
    Matched(String, usize),
}

impl PartitionBase {
    /// The directory names between the base and the directory of that URL.
    fn components(&self, directory: &str) -> Option<Vec<String>> {
        let (base, skip) = match self {
            PartitionBase::Off => return None,
            PartitionBase::Directory(base) => (base, 0),
            PartitionBase::Matched(base, depth) => (base, *depth),
        };
        let relative = directory.strip_prefix(base.as_str())?.strip_prefix('/')?;
        Some(relative.split('/').skip(skip).map(uri::decode_text).collect())
    }

    /// The partition keys of a directory, outermost first, and how many of its names lie above them.
    ///
    /// # Errors
    /// `INVALID_PARTITION_VALUE` for a directory `name=` without a value.
    pub(crate) fn keys(&self, directory: &str) -> Result<(Vec<PartitionKey>, usize)> {
        let Some(names) = self.components(directory) else { return Ok((vec![], 0)) };
        let mut keys = Vec::new();
        for (at, name) in names.iter().enumerate().rev() {
            match parse_key(name)? {
                Some(key) => keys.push(key),
                // Plain directories may lie below partition directories, but not between them.
                None if keys.is_empty() => {}
                None => {
                    keys.reverse();
                    return Ok((keys, at + 1));
                }
            }
        }
        let above = if keys.is_empty() { names.len() } else { 0 };
        keys.reverse();
        Ok((keys, above))
    }
}

fn parse_key(directory: &str) -> Result<Option<PartitionKey>> {
    let Some((name, value)) = directory.split_once('=').filter(|(name, _)| !name.is_empty()) else { return Ok(None) };
    if value.is_empty() {
        return Err(Error::invalid(
            "INVALID_PARTITION_VALUE",
            format!("the directory '{directory}' has no partition value: write {NULL_PARTITION} for null"),
        )
        .with_sqlstate("42846"));
    }
    Ok(Some(PartitionKey { name: unescape(name), value: value.to_owned() }))
}

/// Undoes Hive's escaping of directory names (`%2F` for a slash). Escaped bytes are read as UTF-8 where they are.
fn unescape(text: &str) -> String {
    match String::from_utf8(uri::decode(text)) {
        Ok(unescaped) => unescaped,
        Err(not_utf8) => not_utf8.into_bytes().into_iter().map(char::from).collect(),
    }
}

/// The partition columns of a set of directories, all nullable. A column that `user` declares keeps its spelling and type there; the others are
/// strings unless their types are to be `inferred`.
///
/// # Errors
/// `INVALID_PARTITION_VALUE` when a value does not fit the declared type.
pub(crate) fn fields(directories: &[Vec<PartitionKey>], user: Option<&Schema>, inferred: bool, zone: &str) -> Result<Vec<Field>> {
    let mut columns: Vec<(&str, Vec<&PartitionKey>)> = Vec::new();
    for key in directories.iter().flatten() {
        match columns.iter_mut().find(|(name, _)| *name == key.name) {
            Some((_, values)) => values.push(key),
            None => columns.push((&key.name, vec![key])),
        }
    }
    let mut fields = Vec::with_capacity(columns.len());
    for (name, values) in columns {
        if let Some((_, field)) = user.and_then(|schema| find(schema, name)) {
            for value in values {
                column(value, field.data_type(), zone)?;
            }
            fields.push(field.clone().with_nullable(true));
        } else {
            let types = values.iter().filter(|_| inferred).map(|key| infer(&key.value));
            let widest = types.fold(DataType::Null, wider);
            let data_type = if widest == DataType::Null { DataType::Utf8 } else { widest };
            fields.push(Field::new(name, data_type, true));
        }
    }
    Ok(fields)
}

/// Checks that all directories with partition columns have the same ones.
///
/// # Errors
/// `CONFLICTING_PARTITION_COLUMN_NAMES`, naming two that differ.
pub(crate) fn check_names<'a>(directories: impl IntoIterator<Item = (&'a str, &'a [PartitionKey])>) -> Result<()> {
    let mut directories = directories.into_iter();
    let Some((first_url, first)) = directories.next() else { return Ok(()) };
    let same = |keys: &[PartitionKey]| keys.len() == first.len() && keys.iter().zip(first).all(|(a, b)| a.name == b.name);
    match directories.find(|(_, keys)| !same(keys)) {
        None => Ok(()),
        Some((url, _)) => Err(Error::invalid(
            "CONFLICTING_PARTITION_COLUMN_NAMES",
            format!(
                "{first_url} and {url} have different partition columns: give the directories the same columns in the same order, or \
                 set basePath to read one of them"
            ),
        )
        .with_sqlstate("KD009")),
    }
}

/// The column of a name, whatever its case.
pub(crate) fn find<'a>(schema: &'a Schema, name: &str) -> Option<(usize, &'a Field)> {
    let lower = name.to_lowercase();
    schema.fields().iter().enumerate().find(|(_, field)| field.name().to_lowercase() == lower).map(|(at, field)| (at, field.as_ref()))
}

/// The value of a partition key as a column of one row.
///
/// # Errors
/// `INVALID_PARTITION_VALUE` when it does not fit the type.
pub(crate) fn column(key: &PartitionKey, data_type: &DataType, zone: &str) -> Result<ArrayRef> {
    if key.value == NULL_PARTITION {
        return Ok(new_null_array(data_type, 1));
    }
    let text: ArrayRef = Arc::new(StringArray::from(vec![unescape(&key.value)]));
    let options = CastOptions { safe: false, ..Default::default() };
    let cast = match data_type {
        // Text without a zone is local time of the session.
        DataType::Timestamp(unit, Some(_)) => cast_with_options(&text, &DataType::Timestamp(*unit, Some(zone.into())), &options)
            .and_then(|local| cast_with_options(&local, data_type, &options)),
        _ => cast_with_options(&text, data_type, &options),
    };
    let invalid = || {
        Error::invalid(
            "INVALID_PARTITION_VALUE",
            format!(
                "failed to cast value '{}' to data type {data_type} for partition column '{}': ensure the value matches the expected data \
                 type for this partition column",
                key.value, key.name
            ),
        )
        .with_sqlstate("42846")
    };
    match cast {
        Ok(column) if column.null_count() == 0 => Ok(column),
        Ok(_) => Err(invalid()),
        Err(error) => Err(invalid().caused_by(error)),
    }
}

/// The narrowest type of a value: int, long, decimal without a fraction, double, timestamp, date, string.
fn infer(value: &str) -> DataType {
    if value == NULL_PARTITION {
        return DataType::Null;
    }
    let digits = value.strip_prefix(['+', '-']).unwrap_or(value);
    if !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit()) {
        if value.parse::<i32>().is_ok() {
            return DataType::Int32;
        }
        if value.parse::<i64>().is_ok() {
            return DataType::Int64;
        }
        if let Some(precision) = u8::try_from(digits.trim_start_matches('0').len()).ok().filter(|precision| *precision <= 38) {
            return DataType::Decimal128(precision, 0);
        }
    }
    if is_double(value) {
        return DataType::Float64;
    }
    let value = unescape(value);
    if NaiveDateTime::parse_from_str(&value, "%Y-%m-%d %H:%M:%S%.f").is_ok() {
        return DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into()));
    }
    if value.len() == 10 && NaiveDate::parse_from_str(&value, "%Y-%m-%d").is_ok() {
        return DataType::Date32;
    }
    DataType::Utf8
}

/// Whether Java reads the text as a double and arrow does too.
fn is_double(value: &str) -> bool {
    let number = value.strip_prefix(['+', '-']).unwrap_or(value);
    matches!(number, "NaN" | "Infinity")
        || (number.bytes().all(|byte| byte.is_ascii_digit() || matches!(byte, b'.' | b'e' | b'E' | b'+' | b'-'))
            && value.parse::<f64>().is_ok())
}

/// The type that holds values of both.
fn wider(a: DataType, b: DataType) -> DataType {
    use DataType::{Date32, Decimal128, Float64, Int32, Int64, Null, Timestamp, Utf8};
    let whole_digits = |data_type: &DataType| match data_type {
        Int32 => Some(10),
        Int64 => Some(20),
        Decimal128(precision, 0) => Some(*precision),
        _ => None,
    };
    match (a, b) {
        (a, b) if a == b => a,
        (Null, other) | (other, Null) => other,
        (Int32, Int64) | (Int64, Int32) => Int64,
        (Int32, Float64) | (Float64, Int32) => Float64,
        (Date32, Timestamp(unit, zone)) | (Timestamp(unit, zone), Date32) => Timestamp(unit, zone),
        (a, b) => match (whole_digits(&a), whole_digits(&b)) {
            (Some(left), Some(right)) => Decimal128(left.max(right), 0),
            _ => Utf8,
        },
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::AsArray;
    use arrow::datatypes::{Date32Type, Int32Type, TimestampMicrosecondType};

    use super::*;

    fn key(name: &str, value: &str) -> PartitionKey {
        PartitionKey { name: name.into(), value: value.into() }
    }

    fn base() -> PartitionBase {
        PartitionBase::Directory("file:///in".into())
    }

    #[test]
    fn keys_are_the_run_of_partition_directories_nearest_to_the_file() {
        for (directory, keys, above) in [
            ("file:///in", vec![], 0),
            ("file:///in/a=1/b=x", vec![key("a", "1"), key("b", "x")], 0),
            ("file:///in/a=1/sub", vec![key("a", "1")], 0),
            ("file:///in/sub/a=1", vec![key("a", "1")], 1),
            ("file:///in/a=1/sub/b=2", vec![key("b", "2")], 2),
            ("file:///in/sub/deep", vec![], 2),
            ("file:///elsewhere/a=1", vec![], 0),
            ("file:///in/x%20y=a%2520b%252Fc", vec![key("x y", "a%20b%2Fc")], 0),
            ("file:///in/p=x=y", vec![key("p", "x=y")], 0),
            ("file:///in/=x", vec![], 1),
        ] {
            assert_eq!(base().keys(directory).unwrap(), (keys, above), "{directory}");
        }
        assert_eq!(base().keys("file:///in/p=").unwrap_err().code(), "INVALID_PARTITION_VALUE");
        assert_eq!(PartitionBase::Off.keys("file:///in/a=1").unwrap(), (vec![], 0));
        let matched = PartitionBase::Matched("file:///in".into(), 1);
        assert_eq!(matched.keys("file:///in/a=1/b=2").unwrap().0, [key("b", "2")]);
        assert_eq!(matched.keys("file:///in").unwrap().0, []);
    }

    #[test]
    fn types_are_inferred_and_widened() {
        let timestamp = DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into()));
        for (values, data_type) in [
            (&["1", "-007"][..], DataType::Int32),
            (&["1", "3000000000"], DataType::Int64),
            (&["1", "99999999999999999999999"], DataType::Decimal128(23, 0)),
            (&["1", "1.5"], DataType::Float64),
            (&["3000000000", "1.5"], DataType::Utf8),
            (&["1e3", "NaN"], DataType::Float64),
            (&["nan", "inf"], DataType::Utf8),
            (&["2024-01-02"], DataType::Date32),
            (&["2024-01-02", "2024-01-02 03%3A04%3A05"], timestamp),
            (&["2024-01-02", "1"], DataType::Utf8),
            (&["2024-02-30"], DataType::Utf8),
            (&[NULL_PARTITION, "1"], DataType::Int32),
            (&[NULL_PARTITION], DataType::Utf8),
            (&["x"], DataType::Utf8),
        ] {
            let directories: Vec<_> = values.iter().map(|value| vec![key("p", value)]).collect();
            let inferred = fields(&directories, None, true, "UTC").unwrap();
            assert_eq!(inferred, [Field::new("p", data_type, true)], "{values:?}");
            let as_they_are = fields(&directories, None, false, "UTC").unwrap();
            assert_eq!(as_they_are, [Field::new("p", DataType::Utf8, true)], "{values:?}");
        }
    }

    #[test]
    fn a_declared_column_keeps_its_type_and_refuses_other_values() {
        let schema = Schema::new(vec![Field::new("P", DataType::Int32, false)]);
        assert_eq!(fields(&[vec![key("p", "7")]], Some(&schema), true, "UTC").unwrap(), [Field::new("P", DataType::Int32, true)]);
        let error = fields(&[vec![key("p", "abc")]], Some(&schema), true, "UTC").unwrap_err();
        assert_eq!((error.code(), error.sqlstate()), ("INVALID_PARTITION_VALUE", Some("42846")));
    }

    #[test]
    fn directories_must_agree_on_the_columns() {
        let (a, b) = ([key("a", "1")], [key("b", "1")]);
        assert!(check_names([("x", &a[..]), ("y", &a[..])]).is_ok());
        assert_eq!(check_names([("x", &a[..]), ("y", &b[..])]).unwrap_err().code(), "CONFLICTING_PARTITION_COLUMN_NAMES");
    }

    #[test]
    fn values_are_unescaped_and_cast() {
        let text = column(&key("p", "a%20b%2Fc"), &DataType::Utf8, "UTC").unwrap();
        assert_eq!(text.as_string::<i32>().value(0), "a b/c");
        assert_eq!(column(&key("p", "%FF"), &DataType::Utf8, "UTC").unwrap().as_string::<i32>().value(0), "ÿ");
        assert_eq!(column(&key("p", "007"), &DataType::Int32, "UTC").unwrap().as_primitive::<Int32Type>().value(0), 7);
        assert_eq!(column(&key("p", "2024-01-02"), &DataType::Date32, "UTC").unwrap().as_primitive::<Date32Type>().value(0), 19_724);
        assert_eq!(column(&key("p", NULL_PARTITION), &DataType::Int32, "UTC").unwrap().null_count(), 1);
        let zoned = DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into()));
        for (zone, ms) in [("UTC", 1_704_164_645_000_i64), ("Europe/Prague", 1_704_161_045_000)] {
            let time = column(&key("p", "2024-01-02 03%3A04%3A05"), &zoned, zone).unwrap();
            assert_eq!(time.as_primitive::<TimestampMicrosecondType>().value(0), ms * 1000, "{zone}");
        }
    }
}
