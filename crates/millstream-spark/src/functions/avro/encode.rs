//! Writing the values of a column as Avro.

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::datatypes::{
    DataType, Date32Type, Decimal128Type, DurationMicrosecondType, Field, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type,
    Int64Type, IntervalUnit, IntervalYearMonthType, TimestampMicrosecondType,
};
use millstream_core::{Error, ErrorKind, Result, raw_text};

use super::decode::java_order;
use super::resolve::{put_bytes, put_long};
use super::schema::{Kind, Logical, RecordField, Schema};
use super::types::incompatible;
use crate::types::ddl_type;

/// How values of a type are written with a schema.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Write {
    Null,
    Boolean,
    /// Any whole number, also days and months.
    Whole,
    Float,
    Double,
    Micros,
    Millis,
    /// A decimal as bytes, or as so many bytes.
    Decimal(Option<usize>),
    Text,
    Symbol(Vec<String>),
    Bytes,
    /// So many bytes.
    Fixed(usize),
    Array(Box<Write>),
    Map(Box<Write>),
    Record(Vec<Written>),
    /// In a union with null: the numbers of both.
    Nullable {
        null: usize,
        value: usize,
        write: Box<Write>,
    },
}

/// A field of a record that is written.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Written {
    name: String,
    /// Where it is in the struct; none for one that is always null.
    place: Option<usize>,
    write: Write,
}

/// How a value of a Spark type is written with a schema.
///
/// # Errors
/// `IncompatibleSchemaException` where they do not belong together.
pub(super) fn compile(data_type: &DataType, schema: &Schema, case_sensitive: bool) -> Result<Write> {
    if let Kind::Union(branches) = &schema.kind {
        let place = |is_null: bool| branches.iter().position(|branch| (branch.kind == Kind::Null) == is_null);
        return match (place(true), place(false), branches.as_slice()) {
            (Some(null), Some(value), [_, _]) => {
                let inner = branches.get(value).ok_or_else(|| Error::internal("a union without its branch"))?;
                Ok(Write::Nullable { null, value, write: Box::new(compile(data_type, inner, case_sensitive)?) })
            }
            (None, Some(value), [only]) => {
                Ok(Write::Nullable { null: value, value, write: Box::new(compile(data_type, only, case_sensitive)?) })
            }
            _ => Err(incompatible("a union is written only if it has null and one other type")),
        };
    }
    let write = match (data_type, &schema.kind, schema.logical) {
        (DataType::Null, Kind::Null, _) => Write::Null,
        (DataType::Boolean, Kind::Boolean, _) => Write::Boolean,
        (DataType::Int8 | DataType::Int16 | DataType::Int32 | DataType::Date32, Kind::Int, _)
        | (DataType::Interval(IntervalUnit::YearMonth), Kind::Int, _)
        | (DataType::Int64 | DataType::Duration(_), Kind::Long, _) => Write::Whole,
        (DataType::Float32, Kind::Float, _) => Write::Float,
        (DataType::Float64, Kind::Double, _) => Write::Double,
        (DataType::Decimal128(digits, scale), Kind::Bytes | Kind::Fixed { .. }, Some(Logical::Decimal(precision, behind)))
            if u32::from(*digits) == precision && u32::try_from(*scale) == Ok(behind) =>
        {
            Write::Decimal(if let Kind::Fixed { size, .. } = schema.kind { Some(size) } else { None })
        }
        (DataType::Utf8, Kind::String, _) => Write::Text,
        (DataType::Utf8, Kind::Enum { symbols, .. }, _) => Write::Symbol(symbols.clone()),
        (DataType::Binary, Kind::Bytes, _) => Write::Bytes,
        (DataType::Binary, Kind::Fixed { size, .. }, _) => Write::Fixed(*size),
        // Without a logical type milliseconds are meant.
        (DataType::Timestamp(_, Some(_)), Kind::Long, None | Some(Logical::TimestampMillis))
        | (DataType::Timestamp(_, None), Kind::Long, None | Some(Logical::LocalTimestampMillis)) => Write::Millis,
        (DataType::Timestamp(_, Some(_)), Kind::Long, Some(Logical::TimestampMicros))
        | (DataType::Timestamp(_, None), Kind::Long, Some(Logical::LocalTimestampMicros)) => Write::Micros,
        (DataType::List(element), Kind::Array(items), _) => Write::Array(Box::new(compile(element.data_type(), items, case_sensitive)?)),
        (DataType::Map(entries, _), Kind::Map(values), _) => match entries.data_type() {
            DataType::Struct(pair) => match pair.as_ref() {
                [key, value] if *key.data_type() == DataType::Utf8 => {
                    Write::Map(Box::new(compile(value.data_type(), values, case_sensitive)?))
                }
                _ => return Err(incompatible("the keys of a map must be strings to be written as Avro")),
            },
            _ => return Err(Error::internal("a map without entries")),
        },
        (DataType::Struct(fields), Kind::Record { fields: wanted, .. }, _) => {
            record(fields.iter().map(AsRef::as_ref), wanted, case_sensitive)?
        }
        (data_type, kind, _) => {
            let message = format!("values of the type \"{}\" cannot be written as the Avro type {}", ddl_type(data_type), kind.name());
            return Err(incompatible(message));
        }
    };
    Ok(write)
}

fn record<'a>(fields: impl Iterator<Item = &'a Field>, wanted: &[RecordField], case_sensitive: bool) -> Result<Write> {
    let fields: Vec<&Field> = fields.collect();
    let same = |name: &str, other: &str| if case_sensitive { name == other } else { name.to_lowercase() == other.to_lowercase() };
    if let Some(field) = fields.iter().find(|field| !wanted.iter().any(|wanted| same(field.name(), &wanted.name))) {
        return Err(incompatible(format!("the Avro schema has no field '{}'", field.name())));
    }
    let written = wanted.iter().map(|wanted| {
        let place = fields.iter().position(|field| same(field.name(), &wanted.name));
        let nullable = matches!(&wanted.schema.kind, Kind::Union(branches) if branches.iter().any(|branch| branch.kind == Kind::Null));
        let data_type = match place.and_then(|place| fields.get(place)) {
            Some(field) => field.data_type(),
            None if nullable => {
                let Kind::Union(branches) = &wanted.schema.kind else { return Err(Error::internal("a nullable type without union")) };
                let null = branches.iter().position(|branch| branch.kind == Kind::Null).unwrap_or_default();
                let write = Write::Nullable { null, value: null, write: Box::new(Write::Null) };
                return Ok(Written { name: wanted.name.clone(), place: None, write });
            }
            None => return Err(incompatible(format!("there is no value for the field '{}' of the Avro schema", wanted.name))),
        };
        Ok(Written { name: wanted.name.clone(), place, write: compile(data_type, &wanted.schema, case_sensitive)? })
    });
    Ok(Write::Record(written.collect::<Result<_>>()?))
}

/// Writes the value of a row.
///
/// # Errors
/// `AVRO_CANNOT_WRITE_NULL_FIELD`; `IncompatibleSchemaException` for a value that the schema has no place for.
pub(super) fn encode(write: &Write, array: &ArrayRef, at: usize, out: &mut Vec<u8>) -> Result<()> {
    let is_null = array.is_null(at) || *array.data_type() == DataType::Null;
    if let Write::Nullable { null, value, write } = write {
        put_long(out, place(if is_null { *null } else { *value }));
        return if is_null { Ok(()) } else { encode(write, array, at, out) };
    }
    if is_null {
        let message = "an element of an array or a map is null, and its Avro type is not: make that a union with null";
        return if *write == Write::Null {
            Ok(())
        } else {
            Err(Error::new(ErrorKind::BadRecord, "INTERNAL_ERROR", message).with_sqlstate("XX000"))
        };
    }
    let alien = || Error::internal(format!("a column of the type {} is not what it was planned to be", array.data_type()));
    match write {
        Write::Null | Write::Nullable { .. } => {}
        Write::Boolean => out.push(u8::from(array.as_boolean_opt().ok_or_else(alien)?.value(at))),
        Write::Whole => put_long(out, whole(array, at).ok_or_else(alien)?),
        Write::Float => out.extend(array.as_primitive_opt::<Float32Type>().ok_or_else(alien)?.value(at).to_le_bytes()),
        Write::Double => out.extend(array.as_primitive_opt::<Float64Type>().ok_or_else(alien)?.value(at).to_le_bytes()),
        Write::Micros => put_long(out, array.as_primitive_opt::<TimestampMicrosecondType>().ok_or_else(alien)?.value(at)),
        Write::Millis => {
            put_long(out, array.as_primitive_opt::<TimestampMicrosecondType>().ok_or_else(alien)?.value(at).div_euclid(1000));
        }
        Write::Decimal(size) => decimal(array.as_primitive_opt::<Decimal128Type>().ok_or_else(alien)?.value(at), *size, out)?,
        Write::Text => put_bytes(out, &raw_text::to_bytes(array.as_string_opt::<i32>().ok_or_else(alien)?.value(at))),
        Write::Symbol(symbols) => {
            let text = array.as_string_opt::<i32>().ok_or_else(alien)?.value(at);
            let number = symbols.iter().position(|symbol| symbol == text);
            put_long(out, place(number.ok_or_else(|| incompatible(format!("'{text}' is none of the symbols {}", symbols.join(", "))))?));
        }
        Write::Bytes => put_bytes(out, array.as_binary_opt::<i32>().ok_or_else(alien)?.value(at)),
        Write::Fixed(size) => {
            let bytes = array.as_binary_opt::<i32>().ok_or_else(alien)?.value(at);
            if bytes.len() != *size {
                return Err(incompatible(format!("{} bytes cannot be written as {size} bytes", bytes.len())));
            }
            out.extend_from_slice(bytes);
        }
        Write::Array(write) => {
            let items = array.as_list_opt::<i32>().ok_or_else(alien)?.value(at);
            if !items.is_empty() {
                put_long(out, place(items.len()));
                (0..items.len()).try_for_each(|item| encode(write, &items, item, out))?;
            }
            put_long(out, 0);
        }
        Write::Map(write) => {
            let entries = array.as_map_opt().ok_or_else(alien)?.value(at);
            let [keys, values] = entries.columns() else { return Err(alien()) };
            map(write, keys, values, out)?;
        }
        Write::Record(fields) => {
            let columns = array.as_struct_opt().ok_or_else(alien)?.columns();
            for field in fields {
                match field.place.and_then(|place| columns.get(place)) {
                    Some(column) if column.is_null(at) && !matches!(field.write, Write::Nullable { .. } | Write::Null) => {
                        return Err(null_of(&field.name));
                    }
                    Some(column) => encode(&field.write, column, at, out)?,
                    None => {
                        if let Write::Nullable { null, .. } = field.write {
                            put_long(out, place(null));
                        }
                    }
                }
            }
        }
    }
    Ok(())
}

/// The entries in the order of Java's hash tables, in which Spark writes them.
fn map(write: &Write, keys: &ArrayRef, values: &ArrayRef, out: &mut Vec<u8>) -> Result<()> {
    let keys = keys.as_string_opt::<i32>().ok_or_else(|| Error::internal("the keys of a map are no text"))?;
    let mut order: Vec<usize> = (0..keys.len()).collect();
    java_order(&mut order, keys.len(), |at| {
        keys.value(*at).encode_utf16().fold(0_i32, |hash, unit| hash.wrapping_mul(31).wrapping_add(i32::from(unit)))
    });
    if !order.is_empty() {
        put_long(out, place(order.len()));
        for at in order {
            put_bytes(out, &raw_text::to_bytes(keys.value(at)));
            encode(write, values, at, out)?;
        }
    }
    put_long(out, 0);
    Ok(())
}

fn whole(array: &ArrayRef, at: usize) -> Option<i64> {
    Some(match array.data_type() {
        DataType::Int8 => i64::from(array.as_primitive_opt::<Int8Type>()?.value(at)),
        DataType::Int16 => i64::from(array.as_primitive_opt::<Int16Type>()?.value(at)),
        DataType::Int32 => i64::from(array.as_primitive_opt::<Int32Type>()?.value(at)),
        DataType::Date32 => i64::from(array.as_primitive_opt::<Date32Type>()?.value(at)),
        DataType::Interval(_) => i64::from(array.as_primitive_opt::<IntervalYearMonthType>()?.value(at)),
        DataType::Duration(_) => array.as_primitive_opt::<DurationMicrosecondType>()?.value(at),
        _ => array.as_primitive_opt::<Int64Type>()?.value(at),
    })
}

/// A decimal, the highest byte first, in the fewest bytes or in so many.
fn decimal(unscaled: i128, size: Option<usize>, out: &mut Vec<u8>) -> Result<()> {
    let bytes = unscaled.to_be_bytes();
    let sign: u8 = if unscaled < 0 { 0xff } else { 0 };
    // The byte before the first that counts has only its sign, and so has the first bit of that one.
    let spare = bytes.windows(2).take_while(|pair| matches!(pair, [first, next] if *first == sign && (next ^ sign) & 0x80 == 0)).count();
    let shortest = bytes.get(spare..).unwrap_or(&bytes);
    let Some(size) = size else {
        put_bytes(out, shortest);
        return Ok(());
    };
    let fill = size.checked_sub(shortest.len()).ok_or_else(|| incompatible(format!("a decimal does not fit {size} bytes")))?;
    out.extend(std::iter::repeat_n(sign, fill));
    out.extend_from_slice(shortest);
    Ok(())
}

fn place(number: usize) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

fn null_of(name: &str) -> Error {
    let message = format!("the field '{name}' is null, and its Avro type is not: make that a union with null, or leave such rows out");
    Error::new(ErrorKind::BadRecord, "AVRO_CANNOT_WRITE_NULL_FIELD", message).with_sqlstate("22004")
}
