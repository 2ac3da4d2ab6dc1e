//! Kernels that compute row by row: typed access to the arguments of a row, and builders of results.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, BinaryArray, BooleanArray, BooleanBufferBuilder, Int32Array, Int64Array, PrimitiveArray, StringArray,
};
use arrow::buffer::{Buffer, NullBuffer, OffsetBuffer, ScalarBuffer};
use arrow::datatypes::{ArrowPrimitiveType, DataType, Int32Type, Int64Type};
use millstream_core::{Error, Result, raw_text};

use super::Arguments;

/// The arguments of a batch.
pub(crate) struct Rows {
    columns: Vec<Column>,
    rows: usize,
    /// Rows where no argument is null.
    present: Option<NullBuffer>,
    /// A constant argument is null, so that every row has a null.
    absent: bool,
}

struct Column {
    values: Values,
    array: ArrayRef,
    /// The same for all rows: the array has one value.
    constant: bool,
}

enum Values {
    Text(StringArray),
    /// Text of which some is no UTF-8, and the bytes that it stands for.
    RawText(StringArray, BinaryArray),
    Bytes(BinaryArray),
    Int(Int32Array),
    Long(Int64Array),
    Other,
}

/// One row of the arguments. An argument that is null, or of another type than asked for, reads as empty or zero.
#[derive(Clone, Copy)]
pub(crate) struct Row<'a> {
    rows: &'a Rows,
    at: usize,
}

impl Rows {
    /// The arguments of an evaluation.
    pub(crate) fn of(arguments: &Arguments<'_>) -> Result<Rows> {
        let rows = arguments.rows();
        let mut columns = Vec::with_capacity(arguments.len());
        let (mut present, mut absent) = (None, false);
        for index in 0..arguments.len() {
            let (array, constant) = match arguments.scalar(index) {
                Some(value) => (value.to_array_of_size(1).map_err(millstream_engine::from_datafusion)?, true),
                None => (arguments.array(index)?, false),
            };
            let array = canonical(array)?;
            if constant {
                absent |= array.is_null(0) || array.data_type() == &DataType::Null;
            } else {
                present = NullBuffer::union(present.as_ref(), array.logical_nulls().as_ref());
            }
            columns.push(Column { values: Values::of(&array), array, constant });
        }
        Ok(Rows { columns, rows, present, absent })
    }

    /// How many rows there are.
    pub(crate) fn len(&self) -> usize {
        self.rows
    }

    /// A row.
    pub(crate) fn row(&self, at: usize) -> Row<'_> {
        Row { rows: self, at }
    }

    fn complete(&self, at: usize) -> bool {
        !self.absent && self.present.as_ref().is_none_or(|present| present.is_valid(at))
    }

    /// The rows in order; those with a null argument are `None`.
    fn complete_rows(&self) -> impl Iterator<Item = Option<Row<'_>>> {
        (0..self.rows).map(|at| self.complete(at).then(|| self.row(at)))
    }

    /// A string for each row, appended to the buffer; null where `row` says `false` or an argument is null.
    pub(crate) fn texts(&self, mut row: impl FnMut(Row<'_>, &mut String) -> Result<bool>) -> Result<ArrayRef> {
        self.every_text(|values, out| if values.is_complete() { row(values, out) } else { Ok(false) })
    }

    /// As [`Rows::texts`], also asked for rows with null arguments.
    pub(crate) fn every_text(&self, mut row: impl FnMut(Row<'_>, &mut String) -> Result<bool>) -> Result<ArrayRef> {
        let (mut buffer, mut ends) = (String::new(), Ends::new(self.rows));
        for at in 0..self.rows {
            let start = buffer.len();
            let valid = row(self.row(at), &mut buffer)?;
            if !valid {
                buffer.truncate(start);
            }
            check_value(buffer.len() - start)?;
            ends.push(buffer.len(), valid)?;
        }
        let (offsets, nulls) = ends.finish();
        Ok(Arc::new(StringArray::try_new(offsets, Buffer::from_vec(buffer.into_bytes()), nulls).map_err(internal)?))
    }

    /// Bytes for each row, appended to the buffer; null where `row` says `false` or an argument is null.
    pub(crate) fn bytes(&self, mut row: impl FnMut(Row<'_>, &mut Vec<u8>) -> Result<bool>) -> Result<ArrayRef> {
        self.every_bytes(|values, out| if values.is_complete() { row(values, out) } else { Ok(false) })
    }

    /// As [`Rows::bytes`], also asked for rows with null arguments.
    pub(crate) fn every_bytes(&self, mut row: impl FnMut(Row<'_>, &mut Vec<u8>) -> Result<bool>) -> Result<ArrayRef> {
        let (mut buffer, mut ends) = (Vec::new(), Ends::new(self.rows));
        for at in 0..self.rows {
            let start = buffer.len();
            let valid = row(self.row(at), &mut buffer)?;
            if !valid {
                buffer.truncate(start);
            }
            check_value(buffer.len() - start)?;
            ends.push(buffer.len(), valid)?;
        }
        let (offsets, nulls) = ends.finish();
        Ok(Arc::new(BinaryArray::try_new(offsets, Buffer::from_vec(buffer), nulls).map_err(internal)?))
    }

    /// A truth value for each row; null where an argument is null.
    pub(crate) fn booleans(&self, mut row: impl FnMut(Row<'_>) -> Result<Option<bool>>) -> Result<ArrayRef> {
        let values = self.complete_rows().map(|values| values.map_or(Ok(None), &mut row)).collect::<Result<BooleanArray>>()?;
        Ok(Arc::new(values))
    }

    /// A number for each row; null where an argument is null.
    pub(crate) fn numbers<T: ArrowPrimitiveType>(&self, mut row: impl FnMut(Row<'_>) -> Result<Option<T::Native>>) -> Result<ArrayRef> {
        let (mut numbers, mut valid) = (Vec::with_capacity(self.rows), BooleanBufferBuilder::new(self.rows));
        for values in self.complete_rows() {
            let number = values.map_or(Ok(None), &mut row)?;
            valid.append(number.is_some());
            numbers.push(number.unwrap_or_default());
        }
        let nulls = NullBuffer::new(valid.finish());
        Ok(Arc::new(PrimitiveArray::<T>::try_new(ScalarBuffer::from(numbers), Some(nulls)).map_err(internal)?))
    }
}

/// Text and bytes in the one layout that kernels read.
fn canonical(array: ArrayRef) -> Result<ArrayRef> {
    let layout = match array.data_type() {
        DataType::LargeUtf8 | DataType::Utf8View => DataType::Utf8,
        DataType::LargeBinary | DataType::BinaryView => DataType::Binary,
        _ => return Ok(array),
    };
    arrow::compute::cast(&array, &layout).map_err(internal)
}

/// The bytes that texts stand for, if some of them are no UTF-8.
pub(crate) fn raw_bytes(texts: &StringArray) -> Option<BinaryArray> {
    raw_text::has_raw_bytes(texts.values()).then(|| texts.iter().map(|text| text.map(raw_text::to_bytes)).collect())
}

impl Values {
    fn of(array: &ArrayRef) -> Values {
        let typed = match array.data_type() {
            DataType::Utf8 => array.as_string_opt::<i32>().cloned().map(|texts| match raw_bytes(&texts) {
                Some(bytes) => Values::RawText(texts, bytes),
                None => Values::Text(texts),
            }),
            DataType::Binary => array.as_binary_opt::<i32>().cloned().map(Values::Bytes),
            DataType::Int32 => array.as_primitive_opt::<Int32Type>().cloned().map(Values::Int),
            DataType::Int64 => array.as_primitive_opt::<Int64Type>().cloned().map(Values::Long),
            _ => None,
        };
        typed.unwrap_or(Values::Other)
    }
}

impl<'a> Row<'a> {
    /// The number of the row in the batch.
    pub(crate) fn at(self) -> usize {
        self.at
    }

    /// How many arguments there are.
    pub(crate) fn len(self) -> usize {
        self.rows.columns.len()
    }

    /// Whether no argument is null.
    pub(crate) fn is_complete(self) -> bool {
        self.rows.complete(self.at)
    }

    /// An argument and the place of this row in it.
    fn place(self, index: usize) -> Option<(&'a Column, usize)> {
        self.rows.columns.get(index).map(|column| (column, if column.constant { 0 } else { self.at }))
    }

    /// The array of an argument, and the place of this row in it.
    pub(crate) fn array(self, index: usize) -> Option<(&'a ArrayRef, usize)> {
        self.place(index).map(|(column, at)| (&column.array, at))
    }

    /// Whether an argument is null or not there.
    pub(crate) fn is_null(self, index: usize) -> bool {
        self.place(index).is_none_or(|(column, at)| column.array.data_type() == &DataType::Null || column.array.is_null(at))
    }

    /// Whether an argument is of bytes.
    pub(crate) fn is_binary(self, index: usize) -> bool {
        self.place(index).is_some_and(|(column, _)| matches!(column.values, Values::Bytes(_)))
    }

    /// How many characters a text has.
    pub(crate) fn characters(self, index: usize) -> usize {
        match self.place(index) {
            Some((Column { values: Values::RawText(_, values), .. }, at)) => raw_text::count_characters(values.value(at)),
            _ => self.text(index).chars().count(),
        }
    }

    /// An argument as text.
    pub(crate) fn text(self, index: usize) -> &'a str {
        match self.place(index) {
            Some((Column { values: Values::Text(values) | Values::RawText(values, _), .. }, at)) => values.value(at),
            _ => "",
        }
    }

    /// An argument as text, `None` when it is null or not there.
    pub(crate) fn text_opt(self, index: usize) -> Option<&'a str> {
        (!self.is_null(index)).then(|| self.text(index))
    }

    /// An argument's bytes, those of its text if it is one.
    pub(crate) fn bytes(self, index: usize) -> &'a [u8] {
        match self.place(index) {
            Some((Column { values: Values::Bytes(values) | Values::RawText(_, values), .. }, at)) => values.value(at),
            Some((Column { values: Values::Text(values), .. }, at)) => values.value(at).as_bytes(),
            _ => &[],
        }
    }

    /// An argument as a 32-bit integer.
    pub(crate) fn int(self, index: usize) -> i32 {
        match self.place(index) {
            Some((Column { values: Values::Int(values), .. }, at)) => values.value(at),
            _ => 0,
        }
    }

    /// An argument as a 64-bit integer.
    pub(crate) fn long(self, index: usize) -> i64 {
        match self.place(index) {
            Some((Column { values: Values::Long(values), .. }, at)) => values.value(at),
            Some((Column { values: Values::Int(values), .. }, at)) => i64::from(values.value(at)),
            _ => 0,
        }
    }
}

/// Where the values of a column of variable length end, and which are null.
pub(crate) struct Ends {
    offsets: Vec<i32>,
    valid: BooleanBufferBuilder,
}

impl Ends {
    /// For about that many values.
    pub(crate) fn new(capacity: usize) -> Self {
        let mut offsets = Vec::with_capacity(capacity + 1);
        offsets.push(0);
        Ends { offsets, valid: BooleanBufferBuilder::new(capacity) }
    }

    /// Ends a value.
    ///
    /// # Errors
    /// `COLLECTION_SIZE_LIMIT_EXCEEDED.FUNCTION` when the values of a batch take more than 2 GiB.
    pub(crate) fn push(&mut self, end: usize, valid: bool) -> Result<()> {
        let end = i32::try_from(end).map_err(|_| too_large())?;
        self.offsets.push(end);
        self.valid.append(valid);
        Ok(())
    }

    /// The offsets and the nulls.
    pub(crate) fn finish(mut self) -> (OffsetBuffer<i32>, Option<NullBuffer>) {
        (OffsetBuffer::new(self.offsets.into()), Some(NullBuffer::new(self.valid.finish())))
    }
}

fn too_large() -> Error {
    let message = "the values that a function gives for one batch take more than 2 GiB: read smaller batches";
    Error::invalid("COLLECTION_SIZE_LIMIT_EXCEEDED.FUNCTION", message).with_sqlstate("54000")
}

/// An array that could not be made from its parts.
pub(crate) fn internal(error: arrow::error::ArrowError) -> Error {
    Error::internal("the result of a function cannot be made").caused_by(error)
}

/// The most bytes of one value that a function makes. Spark's is twice as much, of characters.
const MOST_OF_A_VALUE: usize = 1 << 30;

/// From how many bytes on a value asks for room in memory.
const LARGE: usize = 32 << 20;

/// Refuses a value, before it is made, that would take more than one value may, than a batch of a column can hold, or than there is memory.
///
/// # Errors
/// `COLLECTION_SIZE_LIMIT_EXCEEDED.FUNCTION`, `OUT_OF_MEMORY`.
pub(crate) fn check_room(used: usize, more: usize) -> Result<()> {
    check_value(more)?;
    match used.checked_add(more) {
        Some(total) if i32::try_from(total).is_ok() => Ok(()),
        _ => Err(too_large()),
    }
}

/// Refuses a value of that many bytes, before it is made, that would take more than one value may or than there is memory.
///
/// # Errors
/// `COLLECTION_SIZE_LIMIT_EXCEEDED.FUNCTION`, `OUT_OF_MEMORY`.
pub(crate) fn check_value(bytes: usize) -> Result<()> {
    if bytes > MOST_OF_A_VALUE {
        let message = format!("a function would make a value of {bytes} bytes: one value may have at most {MOST_OF_A_VALUE}");
        return Err(Error::invalid("COLLECTION_SIZE_LIMIT_EXCEEDED.FUNCTION", message).with_sqlstate("54000"));
    }
    if bytes >= LARGE {
        millstream_engine::memory::admit(bytes as u64)?;
    }
    Ok(())
}

/// Refuses the values of a whole batch for which there is no memory, before they are made.
///
/// # Errors
/// `OUT_OF_MEMORY`.
pub(crate) fn check_values(bytes: usize) -> Result<()> {
    if bytes >= LARGE { millstream_engine::memory::admit(bytes as u64) } else { Ok(()) }
}

/// Something made from an argument, such as a compiled pattern, kept while the argument stays the same.
#[derive(Debug)]
pub(crate) struct Memo<T> {
    made: Option<(String, T)>,
}

impl<T> Memo<T> {
    /// Nothing made yet.
    pub(crate) fn new() -> Self {
        Memo { made: None }
    }

    /// What `make` makes of the text.
    pub(crate) fn get(&mut self, text: &str, make: impl FnOnce(&str) -> Result<T>) -> Result<&T> {
        let made = match self.made.take() {
            Some((from, made)) if from == text => (from, made),
            _ => (text.to_owned(), make(text)?),
        };
        Ok(&self.made.insert(made).1)
    }
}
