//! Answers of the catalog as rows.

use std::sync::Arc;

use arrow::array::{ArrayRef, BooleanArray, ListBuilder, RecordBatch, RecordBatchOptions, StringArray, StringBuilder};
use arrow::datatypes::{DataType, Field, Schema};
use millstream_core::{Error, Result};

use crate::types;

/// Columns under names.
///
/// # Errors
/// `INTERNAL_ERROR` for columns of different lengths.
pub(in crate::connect) fn batch(columns: Vec<(&str, ArrayRef)>) -> Result<RecordBatch> {
    let fields: Vec<Field> = columns.iter().map(|(name, column)| Field::new(*name, column.data_type().clone(), true)).collect();
    let rows = columns.first().map_or(0, |(_, column)| column.len());
    let options = RecordBatchOptions::new().with_row_count(Some(rows));
    let columns = columns.into_iter().map(|(_, column)| column).collect();
    RecordBatch::try_new_with_options(Arc::new(Schema::new(fields)), columns, &options)
        .map_err(|error| Error::internal("an answer of the catalog does not fit together").caused_by(error))
}

/// The same for columns that are never null.
///
/// # Errors
/// `INTERNAL_ERROR` for columns of different lengths.
pub(in crate::connect) fn strict(columns: Vec<(&str, ArrayRef)>) -> Result<RecordBatch> {
    let fields: Vec<Field> = columns.iter().map(|(name, column)| Field::new(*name, column.data_type().clone(), false)).collect();
    let columns = columns.into_iter().map(|(_, column)| column).collect();
    RecordBatch::try_new(Arc::new(Schema::new(fields)), columns)
        .map_err(|error| Error::internal("an answer of the catalog does not fit together").caused_by(error))
}

/// No rows and no columns: something was done.
///
/// # Errors
/// Never.
pub(in crate::connect) fn done() -> Result<RecordBatch> {
    batch(Vec::new())
}

/// A column of texts.
pub(in crate::connect) fn texts<T: AsRef<str>>(values: impl IntoIterator<Item = Option<T>>) -> ArrayRef {
    Arc::new(values.into_iter().collect::<StringArray>())
}

/// A column of truth values.
pub(in crate::connect) fn truths(values: impl IntoIterator<Item = bool>) -> ArrayRef {
    Arc::new(values.into_iter().map(Some).collect::<BooleanArray>())
}

/// A column of lists of texts.
pub(in crate::connect) fn lists<'a>(values: impl IntoIterator<Item = Option<Vec<&'a str>>>) -> ArrayRef {
    let DataType::List(element) = types::array(DataType::Utf8, true) else { return texts::<&str>([]) };
    let mut builder = ListBuilder::new(StringBuilder::new()).with_field(element);
    for value in values {
        match value {
            Some(parts) => {
                for part in parts {
                    builder.values().append_value(part);
                }
                builder.append(true);
            }
            None => builder.append(false),
        }
    }
    Arc::new(builder.finish())
}

/// Spark's answer of one value.
///
/// # Errors
/// Never.
pub(super) fn value(column: ArrayRef) -> Result<RecordBatch> {
    batch(vec![("value", column)])
}

/// Whether a name matches one of Spark's patterns: `*` is anything, `|` separates alternatives, and case does not count.
pub(in crate::connect) fn matches(name: &str, pattern: Option<&str>) -> bool {
    let Some(pattern) = pattern else { return true };
    let name: Vec<char> = name.to_lowercase().chars().collect();
    pattern.to_lowercase().split('|').any(|alternative| like(&name, &alternative.trim().chars().collect::<Vec<_>>()))
}

/// Goes back to the last `*` only, so that no pattern takes long.
fn like(name: &[char], pattern: &[char]) -> bool {
    let (mut at, mut next) = (0, 0);
    // Where the last `*` was, and how far it reaches.
    let mut star: Option<(usize, usize)> = None;
    while at < name.len() {
        match pattern.get(next) {
            Some('*') => {
                star = Some((next, at));
                next += 1;
            }
            Some(c) if *c == '.' || name.get(at) == Some(c) => {
                at += 1;
                next += 1;
            }
            _ => match star {
                Some((place, reach)) => {
                    star = Some((place, reach + 1));
                    at = reach + 1;
                    next = place + 1;
                }
                None => return false,
            },
        }
    }
    pattern.get(next..).is_some_and(|rest| rest.iter().all(|c| *c == '*'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_of_names() {
        let cases =
            [("t1", "t*", true), ("T1", "t*", true), ("t1", "a*|t1", true), ("t1", "t", false), ("db2", "d*2", true), ("", "*", true)];
        for (name, pattern, expected) in cases {
            assert_eq!(matches(name, Some(pattern)), expected, "{name} {pattern}");
        }
        assert!(matches("anything", None));
    }
}
