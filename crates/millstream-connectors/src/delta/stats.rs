//! Statistics of a data file as the log carries them, taken from the parquet footer that was just written.

use std::fmt::Write as _;

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::datatypes::{DataType, Fields, Float32Type, Float64Type, SchemaRef, TimeUnit};
use chrono::{DateTime, NaiveDate, Utc};
use parquet::file::metadata::ParquetMetaData;
use parquet::file::statistics::Statistics;

/// Bytes of a string that its bounds keep; longer ones are cut, the upper bound upwards.
pub(super) const TEXT_BYTES: usize = 32;

/// Remembers which floating-point columns had a NaN: their bounds in the footer leave it out, but Spark takes NaN for the largest number,
/// so that such bounds would make it skip files wrongly.
#[derive(Debug, Default)]
pub(super) struct NanColumns(Vec<bool>);

impl NanColumns {
    /// Looks at the columns of a batch.
    pub(super) fn look(&mut self, columns: &[ArrayRef]) {
        let mut leaf = 0;
        for column in columns {
            self.visit(column, &mut leaf);
        }
    }

    fn visit(&mut self, column: &ArrayRef, leaf: &mut usize) {
        let nan = match column.data_type() {
            DataType::Struct(_) => {
                for child in column.as_struct().columns() {
                    self.visit(child, leaf);
                }
                return;
            }
            DataType::Float32 => column.as_primitive::<Float32Type>().values().iter().any(|value| value.is_nan()),
            DataType::Float64 => column.as_primitive::<Float64Type>().values().iter().any(|value| value.is_nan()),
            other => {
                *leaf += leaves(other);
                return;
            }
        };
        if self.0.len() <= *leaf {
            self.0.resize(*leaf + 1, false);
        }
        self.0[*leaf] |= nan;
        *leaf += 1;
    }

    fn had(&self, leaf: usize) -> bool {
        self.0.get(leaf).copied().unwrap_or(false)
    }
}

/// Columns of a parquet file that a field becomes.
fn leaves(data_type: &DataType) -> usize {
    match data_type {
        DataType::Struct(fields) => fields.iter().map(|field| leaves(field.data_type())).sum(),
        DataType::List(element) => leaves(element.data_type()),
        DataType::Map(entries, _) => leaves(entries.data_type()),
        _ => 1,
    }
}

#[derive(Debug, Default)]
struct LeafStats {
    /// JSON text.
    min: Option<String>,
    /// JSON text.
    max: Option<String>,
    nulls: Option<u64>,
}

/// The statistics of a file as JSON text: rows, and bounds and null counts of the first `columns` leaf columns outside lists and maps.
pub(super) fn of_file(metadata: &ParquetMetaData, schema: &SchemaRef, nans: &NanColumns, columns: usize) -> String {
    let rows = metadata.file_metadata().num_rows();
    let mut leaf = 0;
    let mut left = columns;
    let mut stats = Vec::new();
    collect(schema.fields(), metadata, nans, &mut leaf, &mut left, &mut stats);
    let mut json = format!("{{\"numRecords\":{rows}");
    for (name, pick) in [("minValues", 0), ("maxValues", 1), ("nullCount", 2)] {
        let mut leaf = 0;
        let values = render(schema.fields(), &stats, &mut leaf, &|stats| match pick {
            0 => stats.min.clone(),
            1 => stats.max.clone(),
            _ => stats.nulls.map(|nulls| nulls.to_string()),
        });
        let _ = write!(json, ",\"{name}\":{}", values.as_deref().unwrap_or("{}"));
    }
    json.push('}');
    json
}

fn collect(
    fields: &Fields,
    metadata: &ParquetMetaData,
    nans: &NanColumns,
    leaf: &mut usize,
    left: &mut usize,
    out: &mut Vec<Option<LeafStats>>,
) {
    for field in fields {
        match field.data_type() {
            DataType::Struct(children) => collect(children, metadata, nans, leaf, left, out),
            data_type @ (DataType::List(_) | DataType::Map(_, _)) => {
                out.push(None);
                *leaf += leaves(data_type);
                *left = left.saturating_sub(1);
            }
            data_type => {
                out.push((*left > 0).then(|| leaf_stats(metadata, *leaf, data_type, nans.had(*leaf))));
                *leaf += 1;
                *left = left.saturating_sub(1);
            }
        }
    }
}

fn leaf_stats(metadata: &ParquetMetaData, leaf: usize, data_type: &DataType, nan: bool) -> LeafStats {
    let mut nulls = Some(0);
    let mut bounds: Option<(Bound, Bound)> = None;
    let mut bounded = !nan;
    for group in metadata.row_groups() {
        let Some(stats) = group.columns().get(leaf).and_then(|column| column.statistics()) else { return LeafStats::default() };
        let group_nulls = stats.null_count_opt();
        nulls = nulls.zip(group_nulls).map(|(sum, more)| sum + more);
        if group_nulls.and_then(|nulls| i64::try_from(nulls).ok()) == Some(group.num_rows()) {
            continue;
        }
        match Bound::both(stats, data_type) {
            Some((min, max)) => {
                bounds = Some(match bounds.take() {
                    None => (min, max),
                    Some((low, high)) => (low.smaller(min), high.larger(max)),
                });
            }
            None => bounded = false,
        }
    }
    let json = |bound: &Bound| bound.json(data_type);
    match bounds.filter(|_| bounded) {
        Some((min, max)) => LeafStats { min: json(&min), max: json(&max), nulls },
        None => LeafStats { min: None, max: None, nulls },
    }
}

#[derive(Clone, Debug, PartialEq, PartialOrd)]
enum Bound {
    Int(i128),
    Float(f64),
    Text(String),
}

impl Bound {
    fn both(stats: &Statistics, data_type: &DataType) -> Option<(Self, Self)> {
        let int = |min: Option<i128>, max: Option<i128>| Some((Bound::Int(min?), Bound::Int(max?)));
        match (stats, data_type) {
            // Spark keeps no bounds of booleans and binaries.
            (_, DataType::Boolean | DataType::Binary) => None,
            (Statistics::Int32(stats), _) => int(stats.min_opt().map(|v| i128::from(*v)), stats.max_opt().map(|v| i128::from(*v))),
            (Statistics::Int64(stats), _) => int(stats.min_opt().map(|v| i128::from(*v)), stats.max_opt().map(|v| i128::from(*v))),
            (Statistics::Float(stats), _) => Some((Bound::Float(f64::from(*stats.min_opt()?)), Bound::Float(f64::from(*stats.max_opt()?)))),
            (Statistics::Double(stats), _) => Some((Bound::Float(*stats.min_opt()?), Bound::Float(*stats.max_opt()?))),
            (Statistics::ByteArray(_), DataType::Utf8) => {
                let text = |bytes: Option<&[u8]>| String::from_utf8(bytes?.to_vec()).ok().map(Bound::Text);
                Some((text(stats.min_bytes_opt())?, text(stats.max_bytes_opt())?))
            }
            (Statistics::FixedLenByteArray(_), DataType::Decimal128(_, _)) => {
                int(stats.min_bytes_opt().and_then(big_endian), stats.max_bytes_opt().and_then(big_endian))
            }
            _ => None,
        }
    }

    fn smaller(self, other: Self) -> Self {
        if other < self { other } else { self }
    }

    fn larger(self, other: Self) -> Self {
        if other > self { other } else { self }
    }

    fn json(&self, data_type: &DataType) -> Option<String> {
        match (self, data_type) {
            (Bound::Float(value), _) => value.is_finite().then(|| value.to_string()),
            (Bound::Text(text), _) => serde_json::to_string(text).ok(),
            (Bound::Int(value), DataType::Decimal128(_, scale)) => Some(decimal(*value, u32::try_from(*scale).ok()?)),
            (Bound::Int(value), DataType::Date32) => {
                let days = i32::try_from(*value).ok()?;
                let date = NaiveDate::from_ymd_opt(1970, 1, 1)?.checked_add_signed(chrono::Duration::try_days(i64::from(days))?)?;
                Some(format!("\"{date}\""))
            }
            (Bound::Int(value), DataType::Timestamp(TimeUnit::Microsecond, zone)) => {
                let at = DateTime::<Utc>::from_timestamp_micros(i64::try_from(*value).ok()?)?.naive_utc();
                let zone = if zone.is_some() { "Z" } else { "" };
                Some(format!("\"{}{zone}\"", at.format("%Y-%m-%dT%H:%M:%S%.6f")))
            }
            (Bound::Int(value), _) => Some(value.to_string()),
        }
    }
}

fn big_endian(bytes: &[u8]) -> Option<i128> {
    let first = *bytes.first()?;
    let mut value: i128 = if first & 0x80 == 0 { 0 } else { -1 };
    for byte in bytes.iter().take(16) {
        value = (value << 8) | i128::from(*byte);
    }
    (bytes.len() <= 16).then_some(value)
}

/// A decimal number with all its digits, which a float would lose.
fn decimal(unscaled: i128, scale: u32) -> String {
    let digits = unscaled.unsigned_abs().to_string();
    let scale = scale as usize;
    let sign = if unscaled < 0 { "-" } else { "" };
    if scale == 0 {
        return format!("{sign}{digits}");
    }
    let digits = format!("{digits:0>width$}", width = scale + 1);
    let (whole, fraction) = digits.split_at(digits.len() - scale);
    format!("{sign}{whole}.{fraction}")
}

fn render(fields: &Fields, stats: &[Option<LeafStats>], leaf: &mut usize, pick: &dyn Fn(&LeafStats) -> Option<String>) -> Option<String> {
    let mut json = String::from("{");
    for field in fields {
        let value = match field.data_type() {
            DataType::Struct(children) => render(children, stats, leaf, pick),
            _ => {
                let value = stats.get(*leaf).and_then(Option::as_ref).and_then(pick);
                *leaf += 1;
                value
            }
        };
        let (Some(value), Ok(name)) = (value, serde_json::to_string(field.name())) else { continue };
        let comma = if json.len() > 1 { "," } else { "" };
        let _ = write!(json, "{comma}{name}:{value}");
    }
    json.push('}');
    (json.len() > 2).then_some(json)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decimals_keep_every_digit() {
        assert_eq!(decimal(-5, 2), "-0.05");
        assert_eq!(decimal(12_345_678_901_234_567_890_123, 3), "12345678901234567890.123");
        assert_eq!(decimal(7, 0), "7");
        assert_eq!(big_endian(&[0xff, 0xfe]), Some(-2));
        assert_eq!(big_endian(&[0x01, 0x00]), Some(256));
    }

    #[test]
    fn bounds_have_the_text_that_spark_reads() {
        let utc = DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into()));
        assert_eq!(Bound::Int(-1).json(&utc).unwrap(), "\"1969-12-31T23:59:59.999999Z\"");
        assert_eq!(Bound::Int(19_724).json(&DataType::Date32).unwrap(), "\"2024-01-02\"");
        assert_eq!(Bound::Text("a\"b".into()).json(&DataType::Utf8).unwrap(), "\"a\\\"b\"");
        assert_eq!(Bound::Float(f64::INFINITY).json(&DataType::Float64), None);
    }
}
