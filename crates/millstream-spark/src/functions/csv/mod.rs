//! CSV text.

mod column;
mod dialect;
mod options;

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BooleanBufferBuilder, StringArray, StructArray};
use arrow::buffer::NullBuffer;
use arrow::datatypes::{DataType, Date32Type, Decimal128Type, Field, Fields, IntervalUnit, TimestampMicrosecondType};
use datafusion::scalar::ScalarValue;
use millstream_core::{Error, ErrorKind, Result};

use super::cast::{TextStyle, push_decimal, text_of};
use super::formats::{self, Mode, malformed};
use super::json::check_corrupt_record;
use super::json::decimal_shape;
use super::rows::{Rows, internal};
use super::{Arguments, Call, Functions, Kernel, Typed, coercion, faults, scalar};
use crate::types::{self, ddl_type, timestamp};
use column::{Column, boolean, double, parse_double, parse_long};
use dialect::{Text, Tokens};
use options::{CsvOptions, Form};

pub(super) fn register(functions: &mut Functions) {
    functions.add("from_csv", from_csv);
    functions.add("to_csv", to_csv);
    functions.add("schema_of_csv", schema_of_csv);
}

/// `from_csv(text, schema[, options])`
fn from_csv(call: &Call<'_>) -> Result<Typed> {
    call.arity(2..=3)?;
    let schema = formats::schema(call, 1)?;
    let DataType::Struct(fields) = schema.data_type() else {
        let message = format!("the schema of `from_csv` is {} but must be a list of columns", ddl_type(schema.data_type()));
        return Err(Error::invalid("INVALID_SCHEMA.NON_STRUCT_TYPE", message).with_sqlstate("42K07"));
    };
    if let Some(field) = fields.iter().find(|field| !is_supported(field.data_type())) {
        let message = format!("the field `{}` of the type \"{}\" cannot be read from CSV", field.name(), ddl_type(field.data_type()));
        return Err(Error::invalid("UNSUPPORTED_DATATYPE", message).with_sqlstate("0A000"));
    }
    let options = CsvOptions::of(&formats::options(call, 2)?, call.settings)?;
    check_corrupt_record(schema.data_type(), &options.corrupt_record)?;
    let field = formats::nullable(&schema);
    let DataType::Struct(fields) = field.data_type().clone() else { return Err(Error::internal("the schema is no struct")) };
    let text = call.exactly(0, &[DataType::Utf8])?;
    let nullable = text.nullable;
    let data_type = DataType::Struct(fields.clone());
    Ok(scalar("from_csv", FromCsv { fields, options }, vec![text], data_type, nullable))
}

fn is_supported(data_type: &DataType) -> bool {
    use DataType::{Binary, Boolean, Date32, Decimal128, Duration, Float32, Float64, Int8, Int16, Int32, Int64, Interval, Timestamp, Utf8};
    matches!(
        data_type,
        Boolean
            | Int8
            | Int16
            | Int32
            | Int64
            | Float32
            | Float64
            | Decimal128(..)
            | Date32
            | Timestamp(..)
            | Utf8
            | Binary
            | Duration(_)
            | Interval(IntervalUnit::YearMonth)
    )
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct FromCsv {
    fields: Fields,
    options: CsvOptions,
}

impl Kernel for FromCsv {
    fn evaluate(&self, arguments: &Arguments<'_>) -> Result<ArrayRef> {
        self.options.mode.check("from_csv")?;
        let rows = Rows::of(arguments)?;
        let corrupt = self.fields.iter().position(|field| *field.name() == self.options.corrupt_record);
        let mut columns: Vec<Column> = self.fields.iter().map(|field| Column::new(field)).collect();
        let (mut valid, mut tokens) = (BooleanBufferBuilder::new(rows.len()), Tokens::default());
        for at in 0..rows.len() {
            let text = rows.row(at).text_opt(0);
            valid.append(text.is_some());
            match text {
                Some(text) => self.record(text, &mut columns, corrupt, &mut tokens)?,
                None => columns.iter_mut().for_each(Column::push_null),
            }
        }
        let arrays = columns.iter_mut().zip(&self.fields).map(|(column, field)| column.finish(field.data_type()).map_err(internal));
        let (arrays, nulls) = (arrays.collect::<Result<Vec<_>>>()?, NullBuffer::new(valid.finish()));
        Ok(Arc::new(StructArray::try_new_with_length(self.fields.clone(), arrays, Some(nulls), rows.len()).map_err(internal)?))
    }
}

impl FromCsv {
    /// Adds the row of a record.
    fn record(&self, text: &str, columns: &mut [Column], corrupt: Option<usize>, tokens: &mut Tokens) -> Result<()> {
        let options = &self.options.values;
        let (record, empty_is_null) = (text.as_bytes(), options.empty == options.null);
        let readable = self.options.dialect.split(record, tokens).is_ok();
        let (mut place, mut fault) = (0, (!readable).then_some("it cannot be split into values"));
        for (index, column) in columns.iter_mut().enumerate() {
            if Some(index) == corrupt {
                continue;
            }
            let value = if readable { tokens.text(place, record) } else { Text::Null };
            place += 1;
            match value {
                Text::Some(text) if options.null.is_empty() || text != options.null => {
                    if !column.push(text, options) {
                        fault = Some("a value does not fit its type");
                    }
                }
                Text::Empty if !empty_is_null => {
                    if !column.push(&options.empty, options) {
                        fault = Some("a value does not fit its type");
                    }
                }
                _ => column.push_null(),
            }
        }
        if readable && tokens.len() != place {
            fault = Some("it has another number of values than the schema");
        }
        if let (Some(what), Mode::FailFast) = (fault, self.options.mode) {
            return Err(malformed(text, what));
        }
        if let Some(column) = corrupt.and_then(|index| columns.get_mut(index)) {
            if fault.is_some() && !text.is_empty() {
                column.push(record, options);
            } else {
                column.push_null();
            }
        }
        Ok(())
    }
}

/// `to_csv(struct[, options])`
fn to_csv(call: &Call<'_>) -> Result<Typed> {
    call.arity(1..=2)?;
    let form = Form::of(&formats::options(call, 1)?, call.settings)?;
    let value = call.value(0)?;
    let DataType::Struct(fields) = &value.data_type else {
        let message = format!("the value of `to_csv` is {} but must be a struct", ddl_type(&value.data_type));
        return Err(faults::mismatch("UNSUPPORTED_INPUT_TYPE", message));
    };
    Ok(scalar("to_csv", ToCsv { fields: fields.clone(), form }, vec![value.clone()], DataType::Utf8, true))
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct ToCsv {
    fields: Fields,
    form: Form,
}

impl Kernel for ToCsv {
    fn evaluate(&self, arguments: &Arguments<'_>) -> Result<ArrayRef> {
        let array = arguments.array(0)?;
        let structs = array.as_struct_opt().ok_or_else(|| Error::internal("the value of to_csv is no struct"))?;
        let texts = self.fields.iter().zip(structs.columns()).map(|(field, column)| self.texts(field, column));
        let texts = texts.collect::<Result<Vec<StringArray>>>()?;
        Rows::of(arguments)?.texts(|row, out| {
            let start = out.len();
            self.form.row(texts.iter().map(|column| column.is_valid(row.at()).then(|| column.value(row.at()))), out);
            // A row without any text leaves no line.
            Ok(out.len() > start)
        })
    }
}

impl ToCsv {
    /// The texts of a field.
    fn texts(&self, field: &Field, column: &ArrayRef) -> Result<StringArray> {
        let times = &self.form.times;
        match field.data_type() {
            DataType::Date32 => match column.as_primitive_opt::<Date32Type>() {
                Some(days) => days.iter().map(|days| days.map(|days| times.date(days)).transpose()).collect(),
                None => Err(Error::internal("a date is no date")),
            },
            DataType::Timestamp(_, zone) => match column.as_primitive_opt::<TimestampMicrosecondType>() {
                Some(micros) => {
                    let text = |micros: i64| if zone.is_some() { times.timestamp(micros) } else { times.timestamp_ntz(micros) };
                    micros.iter().map(|micros| micros.map(text).transpose()).collect()
                }
                None => Err(Error::internal("a timestamp is no timestamp")),
            },
            DataType::Decimal128(_, scale) => match column.as_primitive_opt::<Decimal128Type>() {
                Some(decimals) => {
                    let text = |unscaled: i128| {
                        let mut text = String::new();
                        push_decimal(&mut text, unscaled, *scale, false);
                        text
                    };
                    Ok(decimals.iter().map(|unscaled| unscaled.map(text)).collect())
                }
                None => Err(Error::internal("a decimal is no decimal")),
            },
            _ => text_of(column, field, &TextStyle { hex: true, null: "", ..TextStyle::cast(times.zone()) }),
        }
    }
}

/// `schema_of_csv(text[, options])`: computed at analysis, since both are constants.
fn schema_of_csv(call: &Call<'_>) -> Result<Typed> {
    call.arity(1..=2)?;
    let options = CsvOptions::of(&formats::options(call, 1)?, call.settings)?;
    let text = match coercion::constant_of(&call.string(0)?) {
        Some(ScalarValue::Utf8(Some(text))) => text,
        Some(_) => return Err(faults::mismatch("UNEXPECTED_NULL", "the text of `schema_of_csv` must not be null")),
        None => return Err(faults::not_foldable("schema_of_csv", 0)),
    };
    if text.is_empty() {
        let message = "`schema_of_csv` needs a record, and the text is empty";
        return Err(Error::new(ErrorKind::Invalid, "INTERNAL_ERROR", message).with_sqlstate("XX000"));
    }
    let mut tokens = Tokens::default();
    if options.dialect.split(text.as_bytes(), &mut tokens).is_err() {
        return Err(malformed(&text, "it cannot be split into values"));
    }
    let fields = (0..tokens.len()).map(|index| {
        let data_type = match tokens.text(index, text.as_bytes()) {
            Text::Some(value) if value != options.values.null && !value.is_empty() => inferred(value, &options),
            _ => DataType::Utf8,
        };
        Field::new(format!("_c{index}"), data_type, true)
    });
    Ok(Typed::text(types::ddl_type(&DataType::Struct(fields.collect()))))
}

/// The narrowest type of a value.
fn inferred(value: &[u8], options: &CsvOptions) -> DataType {
    let text = std::str::from_utf8(value).unwrap_or_default();
    if let Some(whole) = parse_long(value) {
        return if i32::try_from(whole).is_ok() { DataType::Int32 } else { DataType::Int64 };
    }
    if let Some((digits, 0)) = decimal_shape(value)
        && let Ok(digits @ 1..=38) = u8::try_from(digits)
    {
        return DataType::Decimal128(digits, 0);
    }
    if parse_double(text).is_some() || double(value, &options.values).is_some() {
        return DataType::Float64;
    }
    if options.prefer_date && options.inferred_date.parse_date(text).is_some() {
        return DataType::Date32;
    }
    if options.values.formats.timestamp(text).is_some() {
        return timestamp();
    }
    if boolean(value).is_some() { DataType::Boolean } else { DataType::Utf8 }
}
