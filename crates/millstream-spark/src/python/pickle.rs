//! Rows as Python's pickle, for the functions that are given `Row`s one by one.
//!
//! A value is written in the internal form of its type (days, microseconds, tuples), which the types of PySpark turn into Python's own; the
//! schema goes first, and each row is a call of its converter.

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch, RecordBatchOptions};
use arrow::datatypes::{
    DataType, Date32Type, Decimal128Type, DurationMicrosecondType, Field, Fields, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type,
    Int64Type, IntervalUnit, IntervalYearMonthType, Schema, SchemaRef, Time64NanosecondType, TimeUnit, TimestampMicrosecondType,
};
use millstream_core::{Error, Result};

use crate::types::{VARIANT, retype, schema_to_json};

/// The pickle of the list of rows in `batch`, as `pyspark.sql.Row`s.
///
/// # Errors
/// `UNSUPPORTED_DATA_TYPE` for a column of a type that PySpark has no form for.
pub(crate) fn pickle_rows(batch: &RecordBatch) -> Result<Vec<u8>> {
    let mut out = Pickle(vec![0x80, 3]);
    // Kept as number 0.
    out.converter(&batch.schema());
    out.0.extend_from_slice(&[BINPUT, 0, POP, EMPTY_LIST, MARK]);
    let schema = batch.schema();
    for row in 0..batch.num_rows() {
        out.0.extend_from_slice(&[BINGET, 0, MARK]);
        for (field, column) in schema.fields().iter().zip(batch.columns()) {
            out.value(field, column.as_ref(), row)?;
        }
        out.0.extend_from_slice(&[TUPLE, REDUCE]);
    }
    out.0.extend_from_slice(&[APPENDS, STOP]);
    Ok(out.0)
}

/// Rows of a piece.
const PIECE: usize = 100;

/// What ends a sequence of pieces.
pub(super) const END: [u8; 4] = (-1_i32).to_be_bytes();

/// Columns of rows of a schema as pieces, each the pickle of some of the rows after its length.
///
/// # Errors
/// As [`pickle_rows`].
pub(super) fn pieces(schema: &SchemaRef, columns: &[ArrayRef], rows: usize) -> Result<Vec<u8>> {
    let columns = columns.iter().zip(schema.fields()).map(|(column, field)| retype(column, field.data_type()));
    let options = RecordBatchOptions::new().with_row_count(Some(rows));
    let all = RecordBatch::try_new_with_options(schema.clone(), columns.collect::<Result<Vec<_>>>()?, &options)
        .map_err(|error| Error::internal("rows for a Python function do not fit together").caused_by(error))?;
    let mut bytes = Vec::new();
    let mut start = 0;
    while start < rows {
        let length = PIECE.min(rows - start);
        let pickle = pickle_rows(&all.slice(start, length))?;
        let size = i32::try_from(pickle.len()).map_err(|_| Error::internal("a pickle is too long for a Python worker"))?;
        bytes.extend_from_slice(&size.to_be_bytes());
        bytes.extend_from_slice(&pickle);
        start += length;
    }
    Ok(bytes)
}

/// The pickle of one value in the internal form of its type.
///
/// # Errors
/// `UNSUPPORTED_DATA_TYPE` for a type that PySpark has no form for.
pub(crate) fn pickle_value(field: &Field, array: &dyn Array, row: usize) -> Result<Vec<u8>> {
    let mut out = Pickle(vec![0x80, 3]);
    out.value(field, array, row)?;
    out.0.push(STOP);
    Ok(out.0)
}

/// The pickle of one row of columns with these fields, as a `pyspark.sql.Row`.
///
/// # Errors
/// As [`pickle_rows`].
pub(crate) fn pickle_row(fields: &Fields, columns: &[ArrayRef], row: usize) -> Result<Vec<u8>> {
    let mut out = Pickle(vec![0x80, 3]);
    let plain = fields.iter().all(|field| is_plain(field));
    if plain {
        // The converter would parse the schema for every row, and change nothing.
        out.global("pyspark.sql.types", "_create_row");
        out.0.extend_from_slice(&[EMPTY_LIST, MARK]);
        fields.iter().for_each(|field| out.text(field.name()));
        out.0.push(APPENDS);
    } else {
        out.converter(&Schema::new(fields.clone()));
    }
    out.0.push(MARK);
    for (field, column) in fields.iter().zip(columns) {
        out.value(field, column.as_ref(), row)?;
    }
    out.0.push(TUPLE);
    out.0.extend_from_slice(if plain { &[TUPLE2, REDUCE, STOP] } else { &[REDUCE, STOP] });
    Ok(out.0)
}

/// Whether values of a field are the same in Python as in their internal form.
fn is_plain(field: &Field) -> bool {
    match field.data_type() {
        DataType::List(element) => is_plain(element),
        DataType::Map(entries, _) => match entries.data_type() {
            DataType::Struct(pair) => pair.iter().all(|field| is_plain(field)),
            _ => false,
        },
        DataType::Date32 | DataType::Timestamp(..) | DataType::Duration(_) | DataType::Time64(_) => false,
        DataType::Interval(_) | DataType::Struct(_) => false,
        _ => true,
    }
}

const MARK: u8 = b'(';
const STOP: u8 = b'.';
const POP: u8 = b'0';
const NONE: u8 = b'N';
const TRUE: u8 = 0x88;
const FALSE: u8 = 0x89;
const BININT: u8 = b'J';
const LONG1: u8 = 0x8a;
const BINFLOAT: u8 = b'G';
const BINUNICODE: u8 = b'X';
const BINBYTES: u8 = b'B';
const GLOBAL: u8 = b'c';
const REDUCE: u8 = b'R';
const TUPLE: u8 = b't';
const TUPLE1: u8 = 0x85;
const TUPLE2: u8 = 0x86;
const EMPTY_LIST: u8 = b']';
const APPENDS: u8 = b'e';
const EMPTY_DICT: u8 = b'}';
const SETITEMS: u8 = b'u';
const BINPUT: u8 = b'q';
const BINGET: u8 = b'h';

/// Operations of the pickle machine.
struct Pickle(Vec<u8>);

impl Pickle {
    /// What makes a row of this schema from its values: `_create_row_inbound_converter(_parse_datatype_json_string(json))`.
    fn converter(&mut self, schema: &Schema) {
        self.global("pyspark.sql.types", "_create_row_inbound_converter");
        self.global("pyspark.sql.types", "_parse_datatype_json_string");
        self.text(&schema_to_json(schema));
        self.0.extend_from_slice(&[TUPLE1, REDUCE, TUPLE1, REDUCE]);
    }

    fn global(&mut self, module: &str, name: &str) {
        self.0.push(GLOBAL);
        self.0.extend_from_slice(format!("{module}\n{name}\n").as_bytes());
    }

    fn sized(&mut self, operation: u8, bytes: &[u8]) {
        self.0.push(operation);
        self.0.extend_from_slice(&u32::try_from(bytes.len()).unwrap_or(u32::MAX).to_le_bytes());
        self.0.extend_from_slice(bytes);
    }

    fn text(&mut self, text: &str) {
        self.sized(BINUNICODE, text.as_bytes());
    }

    fn integer(&mut self, value: i64) {
        match i32::try_from(value) {
            Ok(small) => {
                self.0.push(BININT);
                self.0.extend_from_slice(&small.to_le_bytes());
            }
            Err(_) => {
                self.0.extend_from_slice(&[LONG1, 8]);
                self.0.extend_from_slice(&value.to_le_bytes());
            }
        }
    }

    fn float(&mut self, value: f64) {
        self.0.push(BINFLOAT);
        self.0.extend_from_slice(&value.to_be_bytes());
    }

    fn value(&mut self, field: &Field, array: &dyn Array, row: usize) -> Result<()> {
        if array.is_null(row) {
            self.0.push(NONE);
            return Ok(());
        }
        match array.data_type() {
            DataType::Null => self.0.push(NONE),
            DataType::Boolean => self.0.push(if array.as_boolean().value(row) { TRUE } else { FALSE }),
            DataType::Int8 => self.integer(array.as_primitive::<Int8Type>().value(row).into()),
            DataType::Int16 => self.integer(array.as_primitive::<Int16Type>().value(row).into()),
            DataType::Int32 => self.integer(array.as_primitive::<Int32Type>().value(row).into()),
            DataType::Int64 => self.integer(array.as_primitive::<Int64Type>().value(row)),
            DataType::Float32 => self.float(array.as_primitive::<Float32Type>().value(row).into()),
            DataType::Float64 => self.float(array.as_primitive::<Float64Type>().value(row)),
            DataType::Utf8 => self.text(array.as_string::<i32>().value(row)),
            DataType::Binary => self.sized(BINBYTES, array.as_binary::<i32>().value(row)),
            DataType::Date32 => self.integer(array.as_primitive::<Date32Type>().value(row).into()),
            DataType::Timestamp(TimeUnit::Microsecond, _) => self.integer(array.as_primitive::<TimestampMicrosecondType>().value(row)),
            DataType::Duration(TimeUnit::Microsecond) => self.integer(array.as_primitive::<DurationMicrosecondType>().value(row)),
            DataType::Time64(TimeUnit::Nanosecond) => self.integer(array.as_primitive::<Time64NanosecondType>().value(row)),
            DataType::Interval(IntervalUnit::YearMonth) => self.integer(array.as_primitive::<IntervalYearMonthType>().value(row).into()),
            DataType::Decimal128(..) => {
                self.global("decimal", "Decimal");
                self.text(&array.as_primitive::<Decimal128Type>().value_as_string(row));
                self.0.extend_from_slice(&[TUPLE1, REDUCE]);
            }
            DataType::List(element) => {
                let items = array.as_list::<i32>().value(row);
                self.0.extend_from_slice(&[EMPTY_LIST, MARK]);
                for item in 0..items.len() {
                    self.value(element, items.as_ref(), item)?;
                }
                self.0.push(APPENDS);
            }
            DataType::Map(..) => {
                let entries = array.as_map().value(row);
                self.0.extend_from_slice(&[EMPTY_DICT, MARK]);
                for entry in 0..entries.len() {
                    for (field, column) in entries.fields().iter().zip(entries.columns()) {
                        self.value(field, column.as_ref(), entry)?;
                    }
                }
                self.0.push(SETITEMS);
            }
            DataType::Struct(fields) => {
                let columns = array.as_struct().columns();
                if field.metadata().contains_key(VARIANT) {
                    self.0.extend_from_slice(&[EMPTY_DICT, MARK]);
                    for (field, column) in fields.iter().zip(columns) {
                        self.text(field.name());
                        self.value(field, column.as_ref(), row)?;
                    }
                    self.0.push(SETITEMS);
                } else {
                    self.0.push(MARK);
                    for (field, column) in fields.iter().zip(columns) {
                        self.value(field, column.as_ref(), row)?;
                    }
                    self.0.push(TUPLE);
                }
            }
            other => {
                return Err(Error::invalid(
                    "UNSUPPORTED_DATA_TYPE",
                    format!("column '{}' of type {other} cannot be given to a Python function row by row", field.name()),
                ));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{ArrayRef, Int64Array, StringArray, StructArray};

    use super::*;

    #[test]
    fn rows_are_calls_of_the_schemas_converter() {
        let rows = RecordBatch::try_from_iter([
            ("k", Arc::new(StringArray::from(vec![Some("a"), None])) as ArrayRef),
            ("v", Arc::new(Int64Array::from(vec![1, 1 << 40])) as ArrayRef),
        ])
        .unwrap();
        let pickled = pickle_rows(&rows).unwrap();
        let after_schema = pickled.windows(3).position(|window| window == [BINPUT, 0, POP]).unwrap() + 3;
        let mut expected = vec![EMPTY_LIST, MARK, BINGET, 0, MARK, BINUNICODE, 1, 0, 0, 0, b'a', BININT, 1, 0, 0, 0, TUPLE, REDUCE];
        expected.extend_from_slice(&[BINGET, 0, MARK, NONE, LONG1, 8, 0, 0, 0, 0, 0, 1, 0, 0, TUPLE, REDUCE, APPENDS, STOP]);
        assert_eq!(pickled[after_schema..], expected);
    }

    #[test]
    fn a_row_needs_a_converter_only_where_python_has_another_form() {
        let columns: Vec<ArrayRef> = vec![Arc::new(Int64Array::from(vec![7]))];
        let plain = Fields::from(vec![Field::new("n", DataType::Int64, true)]);
        let pickled = pickle_row(&plain, &columns, 0).unwrap();
        assert!(pickled.windows(b"_create_row\n".len()).any(|window| window == b"_create_row\n"));
        assert!(pickled.ends_with(&[b'n', APPENDS, MARK, BININT, 7, 0, 0, 0, TUPLE, TUPLE2, REDUCE, STOP]), "{pickled:?}");
        let dates: Vec<ArrayRef> = vec![Arc::new(arrow::array::Date32Array::from(vec![7]))];
        let dated = Fields::from(vec![Field::new("d", DataType::Date32, true)]);
        let pickled = pickle_row(&dated, &dates, 0).unwrap();
        assert!(pickled.ends_with(&[REDUCE, MARK, BININT, 7, 0, 0, 0, TUPLE, REDUCE, STOP]), "{pickled:?}");
    }

    #[test]
    fn structs_are_tuples() {
        let inner = StructArray::from(vec![(
            Arc::new(Field::new("x", DataType::Int64, true)),
            Arc::new(Int64Array::from(vec![Some(7)])) as ArrayRef,
        )]);
        let rows = RecordBatch::try_from_iter([("s", Arc::new(inner) as ArrayRef)]).unwrap();
        let pickled = pickle_rows(&rows).unwrap();
        let expected = [MARK, MARK, BININT, 7, 0, 0, 0, TUPLE, TUPLE, REDUCE, APPENDS, STOP];
        assert!(pickled.ends_with(&expected), "{pickled:?}");
    }
}
