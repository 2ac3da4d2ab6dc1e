//! Columns: their place in the type tree, and their values on the way to streams.

use arrow::datatypes::{DataType, FieldRef};
use millstream_core::{Error, ErrorKind, Result};

use super::message::{Message, varint, zigzag};
use super::streams::{Stream, bits, byte_runs, integers, kind};
use crate::formats::write::column::{Column, inner};
use crate::formats::write::scalar::Scalar;

/// Seconds from 1970 to 2015, from which ORC counts.
const EPOCH_2015: i64 = 1_420_070_400;

/// The attribute by which Spark tells its own types.
const CATALYST_TYPE: &str = "spark.sql.catalyst.type";

/// A node of the type tree; nodes are numbered from the root on, each before its children.
#[derive(Clone, Debug)]
pub(super) struct ColumnType {
    kind: u64,
    children: Vec<(String, u64)>,
    decimal: Option<(u8, i8)>,
    attribute: Option<&'static str>,
    named: bool,
}

impl ColumnType {
    pub(super) fn message(&self) -> Message {
        let mut message = Message::default().number(1, self.kind);
        if !self.children.is_empty() {
            message = message.numbers(2, &self.children.iter().map(|(_, number)| *number).collect::<Vec<_>>());
        }
        for (name, _) in self.children.iter().filter(|_| self.named) {
            message = message.text(3, name);
        }
        if let Some((precision, scale)) = self.decimal {
            message = message.number(5, u64::from(precision)).number(6, u64::from(scale.unsigned_abs()));
        }
        if let Some(value) = self.attribute {
            message = message.message(7, &Message::default().text(1, CATALYST_TYPE).text(2, value));
        }
        message
    }
}

/// The type tree of a canonical type.
pub(super) fn types_of(root: &DataType) -> Vec<ColumnType> {
    let mut types = Vec::new();
    add_type(root, &mut types);
    types
}

fn add_type(data_type: &DataType, types: &mut Vec<ColumnType>) -> u64 {
    let number = types.len();
    let (kind, attribute) = match data_type {
        DataType::Boolean => (0, None),
        DataType::Int8 => (1, None),
        DataType::Int16 => (2, None),
        DataType::Int32 => (3, None),
        DataType::Int64 => (4, None),
        DataType::Float32 => (5, None),
        DataType::Float64 => (6, None),
        DataType::Utf8 => (7, None),
        DataType::Timestamp(_, Some(_)) => (9, Some("timestamp")),
        // Types that ORC does not have are their numbers, by an agreement of Spark's.
        DataType::Timestamp(_, None) => (4, Some("timestamp_ntz")),
        DataType::Duration(_) => (4, Some("interval day to second")),
        DataType::Interval(_) => (3, Some("interval year to month")),
        DataType::List(_) => (10, None),
        DataType::Map(_, _) => (11, None),
        DataType::Struct(_) => (12, None),
        DataType::Decimal128(_, _) => (14, None),
        DataType::Date32 => (15, None),
        _ => (8, None),
    };
    let decimal = if let DataType::Decimal128(precision, scale) = data_type { Some((*precision, *scale)) } else { None };
    let named = matches!(data_type, DataType::Struct(_));
    types.push(ColumnType { kind, children: Vec::new(), decimal, attribute, named });
    let children = parts(data_type).iter().map(|field| (field.name().clone(), add_type(field.data_type(), types))).collect();
    if let Some(column) = types.get_mut(number) {
        column.children = children;
    }
    number as u64
}

/// The types inside of a type.
fn parts(data_type: &DataType) -> Vec<FieldRef> {
    match data_type {
        DataType::List(item) => vec![item.clone()],
        DataType::Struct(fields) => fields.iter().cloned().collect(),
        DataType::Map(entries, _) => match entries.data_type() {
            DataType::Struct(pair) => pair.iter().cloned().collect(),
            _ => vec![],
        },
        _ => vec![],
    }
}

/// The values of a column in the stripe that is being made.
#[derive(Debug)]
pub(super) struct ColumnEncoder {
    number: u64,
    present: Vec<bool>,
    values: Values,
    children: Vec<ColumnEncoder>,
    /// Values that are not null, and nulls, in the stripes before.
    counted: (u64, u64),
}

#[derive(Debug)]
enum Values {
    /// A struct is nothing but its parts.
    None,
    Bits(Vec<bool>),
    Bytes(Vec<u8>),
    Integers(Vec<i64>),
    /// Numbers of fixed width.
    Raw(Vec<u8>),
    /// Text or bytes, and their lengths.
    Binary(Vec<u8>, Vec<i64>),
    /// Unscaled numbers of variable width, and their scales.
    Decimal(Vec<u8>, Vec<i64>),
    /// Seconds since 2015, and nanoseconds.
    Timestamp(Vec<i64>, Vec<i64>),
    /// Lengths of lists and maps.
    Lengths(Vec<i64>),
}

impl ColumnEncoder {
    /// An encoder for a root column and everything inside.
    pub(super) fn new(root: &DataType) -> Self {
        Self::numbered(root, &mut 0)
    }

    fn numbered(data_type: &DataType, next: &mut u64) -> Self {
        let number = *next;
        *next += 1;
        let values = match data_type {
            DataType::Struct(_) => Values::None,
            DataType::Boolean => Values::Bits(Vec::new()),
            DataType::Int8 => Values::Bytes(Vec::new()),
            DataType::Float32 | DataType::Float64 => Values::Raw(Vec::new()),
            DataType::Utf8 | DataType::Binary => Values::Binary(Vec::new(), Vec::new()),
            DataType::Decimal128(_, _) => Values::Decimal(Vec::new(), Vec::new()),
            DataType::Timestamp(_, Some(_)) => Values::Timestamp(Vec::new(), Vec::new()),
            DataType::List(_) | DataType::Map(_, _) => Values::Lengths(Vec::new()),
            _ => Values::Integers(Vec::new()),
        };
        let children = parts(data_type).iter().map(|part| Self::numbered(part.data_type(), next)).collect();
        ColumnEncoder { number, present: Vec::new(), values, children, counted: (0, 0) }
    }

    /// Takes the values at `rows`. A part of a value that is null is not there at all.
    ///
    /// # Errors
    /// `ORC_TIMESTAMP_NOT_REPRESENTABLE`; `INTERNAL_ERROR` for a column of another type.
    pub(super) fn write(&mut self, column: &Column, rows: &[usize]) -> Result<()> {
        let there: Vec<usize> = rows.iter().copied().filter(|row| !column.is_null(*row)).collect();
        if there.len() == rows.len() {
            self.present.resize(self.present.len() + rows.len(), true);
        } else {
            self.present.extend(rows.iter().map(|row| !column.is_null(*row)));
        }
        match column {
            Column::Scalar(values) => self.write_scalars(values, &there),
            Column::Struct(_, parts) => self.children.iter_mut().zip(parts).try_for_each(|(child, (_, part))| child.write(part, &there)),
            Column::List(lists, elements) => {
                let elements = [elements.as_ref()];
                self.write_ranges(lists.value_offsets(), &there, &elements)
            }
            Column::Map(maps, keys, values) => self.write_ranges(maps.value_offsets(), &there, &[keys.as_ref(), values.as_ref()]),
        }
    }

    fn write_ranges(&mut self, offsets: &[i32], rows: &[usize], parts: &[&Column]) -> Result<()> {
        let Values::Lengths(lengths) = &mut self.values else { return Err(mistyped()) };
        let mut inside = Vec::new();
        for row in rows {
            let range = inner(offsets, *row);
            lengths.push(i64::try_from(range.len()).unwrap_or(i64::MAX));
            inside.extend(range);
        }
        self.children.iter_mut().zip(parts).try_for_each(|(child, part)| child.write(part, &inside))
    }

    fn write_scalars(&mut self, column: &Scalar, rows: &[usize]) -> Result<()> {
        let rows = rows.iter().copied();
        match (&mut self.values, column) {
            (Values::Bits(out), Scalar::Boolean(values)) => out.extend(rows.map(|row| values.value(row))),
            (Values::Bytes(out), Scalar::Int8(values)) => out.extend(rows.map(|row| values.value(row).cast_unsigned())),
            (Values::Integers(out), Scalar::Int16(values)) => out.extend(rows.map(|row| i64::from(values.value(row)))),
            (Values::Integers(out), Scalar::Int32(values)) => out.extend(rows.map(|row| i64::from(values.value(row)))),
            (Values::Integers(out), Scalar::Int64(values)) => out.extend(rows.map(|row| values.value(row))),
            (Values::Integers(out), Scalar::Date(values)) => out.extend(rows.map(|row| i64::from(values.value(row)))),
            (Values::Integers(out), Scalar::TimestampNtz(values)) => out.extend(rows.map(|row| values.value(row))),
            (Values::Integers(out), Scalar::DayTime(values)) => out.extend(rows.map(|row| values.value(row))),
            (Values::Integers(out), Scalar::YearMonth(values)) => out.extend(rows.map(|row| i64::from(values.value(row)))),
            (Values::Raw(out), Scalar::Float32(values)) => rows.for_each(|row| out.extend(values.value(row).to_le_bytes())),
            (Values::Raw(out), Scalar::Float64(values)) => rows.for_each(|row| out.extend(values.value(row).to_le_bytes())),
            (Values::Binary(bytes, lengths), Scalar::String(values)) => {
                rows.for_each(|row| push_bytes(values.value(row).as_bytes(), bytes, lengths));
            }
            (Values::Binary(bytes, lengths), Scalar::Binary(values)) => rows.for_each(|row| push_bytes(values.value(row), bytes, lengths)),
            (Values::Decimal(bytes, scales), Scalar::Decimal(values, scale)) => rows.for_each(|row| {
                varint(zigzag(values.value(row)), bytes);
                scales.push(i64::from(*scale));
            }),
            (Values::Timestamp(seconds, nanos), Scalar::Timestamp(values)) => {
                for row in rows {
                    let (second, nano) = timestamp(values.value(row))?;
                    seconds.push(second);
                    nanos.push(nano);
                }
            }
            _ => return Err(mistyped()),
        }
        Ok(())
    }

    /// About how many bytes are held.
    pub(super) fn buffered(&self) -> usize {
        let own = match &self.values {
            Values::None => 0,
            Values::Bits(values) => values.len(),
            Values::Bytes(values) | Values::Raw(values) => values.len(),
            Values::Integers(values) | Values::Lengths(values) => 8 * values.len(),
            Values::Binary(bytes, numbers) | Values::Decimal(bytes, numbers) => bytes.len() + 8 * numbers.len(),
            Values::Timestamp(seconds, nanos) => 8 * (seconds.len() + nanos.len()),
        };
        own + self.present.len() + self.children.iter().map(ColumnEncoder::buffered).sum::<usize>()
    }

    /// Ends the stripe: its streams, columns in the order of their numbers.
    pub(super) fn end_stripe(&mut self, streams: &mut Vec<Stream>) {
        let column = self.number;
        let mut put = |kind, bytes| streams.push(Stream { kind, column, bytes });
        let present = std::mem::take(&mut self.present);
        let nulls = present.iter().filter(|present| !**present).count() as u64;
        self.counted = (self.counted.0 + present.len() as u64 - nulls, self.counted.1 + nulls);
        if nulls > 0 {
            put(kind::PRESENT, bits(&present));
        }
        match &mut self.values {
            Values::None => {}
            Values::Bits(values) => put(kind::DATA, bits(&std::mem::take(values))),
            Values::Bytes(values) => put(kind::DATA, byte_runs(&std::mem::take(values))),
            Values::Integers(values) => put(kind::DATA, integers(&std::mem::take(values), true)),
            Values::Raw(values) => put(kind::DATA, std::mem::take(values)),
            Values::Binary(bytes, lengths) => {
                put(kind::DATA, std::mem::take(bytes));
                put(kind::LENGTH, integers(&std::mem::take(lengths), false));
            }
            Values::Decimal(bytes, scales) => {
                put(kind::DATA, std::mem::take(bytes));
                put(kind::SECONDARY, integers(&std::mem::take(scales), true));
            }
            Values::Timestamp(seconds, nanos) => {
                put(kind::DATA, integers(&std::mem::take(seconds), true));
                put(kind::SECONDARY, integers(&std::mem::take(nanos), false));
            }
            Values::Lengths(lengths) => put(kind::LENGTH, integers(&std::mem::take(lengths), false)),
        }
        self.children.iter_mut().for_each(|child| child.end_stripe(streams));
    }

    /// Per column, in the order of their numbers: values that are not null, and whether there are nulls. `rows` is that of the root.
    pub(super) fn counts(&self, rows: u64) -> Vec<(u64, bool)> {
        let mut counts = vec![(rows, false)];
        self.children.iter().for_each(|child| child.add_counts(&mut counts));
        counts
    }

    fn add_counts(&self, counts: &mut Vec<(u64, bool)>) {
        counts.push((self.counted.0, self.counted.1 > 0));
        self.children.iter().for_each(|child| child.add_counts(counts));
    }
}

fn mistyped() -> Error {
    Error::internal("an ORC column was given values of another type")
}

fn push_bytes(value: &[u8], bytes: &mut Vec<u8>, lengths: &mut Vec<i64>) {
    bytes.extend_from_slice(value);
    lengths.push(i64::try_from(value.len()).unwrap_or(i64::MAX));
}

/// Seconds since 2015 and nanoseconds, the latter with the number of zeros that were cut off in the lowest three bits.
fn timestamp(micros: i64) -> Result<(i64, i64)> {
    let (floor, nanos) = (micros.div_euclid(1_000_000), micros.rem_euclid(1_000_000) * 1000);
    // Readers take one second off before 1970 where there are milliseconds, which cannot be told apart for the last second of 1969.
    let shifted = floor < 0 && nanos > 999_999;
    if floor == -1 && shifted {
        return Err(Error::new(
            ErrorKind::SchemaMismatch,
            "ORC_TIMESTAMP_NOT_REPRESENTABLE",
            "ORC cannot hold a time within the last second of 1969: write another format, or cut the fraction off",
        ));
    }
    let seconds = floor + i64::from(shifted) - EPOCH_2015;
    let coded = if nanos == 0 {
        0
    } else if nanos % 100 != 0 {
        nanos << 3
    } else {
        let (mut cut, mut zeros) = (nanos / 100, 1);
        while cut % 10 == 0 && zeros < 7 {
            cut /= 10;
            zeros += 1;
        }
        cut << 3 | zeros
    };
    Ok((seconds, coded))
}
