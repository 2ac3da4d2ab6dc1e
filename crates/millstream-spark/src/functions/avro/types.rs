//! Which Spark types are which Avro types.

use arrow::datatypes::{DataType, Field, IntervalUnit, TimeUnit};
use millstream_core::{Error, Result};

use super::schema::{Kind, Logical, RecordField, Schema};
use crate::types::{array, ddl_type, map, timestamp};

/// The most digits of a decimal.
const MAX_PRECISION: u32 = 38;

/// How the members of unions are named.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum MemberNames {
    /// `member0`, `member1`, …
    Places,
    /// After their types: `member_int`.
    Types,
}

/// The Spark type of an Avro type, and whether it may be null.
///
/// # Errors
/// `UNSUPPORTED_TIME_TYPE`, `DECIMAL_PRECISION_EXCEEDS_MAX_PRECISION`.
pub(super) fn spark_type(schema: &Schema, names: MemberNames) -> Result<(DataType, bool)> {
    let data_type = match (&schema.kind, schema.logical) {
        (Kind::Int, Some(Logical::Date)) => DataType::Date32,
        (Kind::Long, Some(Logical::TimestampMillis | Logical::TimestampMicros)) => timestamp(),
        (Kind::Long, Some(Logical::LocalTimestampMillis | Logical::LocalTimestampMicros)) => {
            DataType::Timestamp(TimeUnit::Microsecond, None)
        }
        (Kind::Long, Some(Logical::TimeMicros)) => {
            let message =
                "the Avro type time-micros is a time of day, which columns cannot have here: read it as a long without logical type";
            return Err(Error::invalid("UNSUPPORTED_TIME_TYPE", message).with_sqlstate("0A000"));
        }
        (Kind::Bytes | Kind::Fixed { .. }, Some(Logical::Decimal(precision, scale))) => decimal(precision, scale)?,
        (Kind::Null, _) => return Ok((DataType::Null, true)),
        (Kind::Boolean, _) => DataType::Boolean,
        (Kind::Int, _) => DataType::Int32,
        (Kind::Long, _) => DataType::Int64,
        (Kind::Float, _) => DataType::Float32,
        (Kind::Double, _) => DataType::Float64,
        (Kind::Bytes | Kind::Fixed { .. }, _) => DataType::Binary,
        (Kind::String | Kind::Enum { .. }, _) => DataType::Utf8,
        (Kind::Array(items), _) => {
            let (element, nullable) = spark_type(items, names)?;
            array(element, nullable)
        }
        (Kind::Map(values), _) => {
            let (value, nullable) = spark_type(values, names)?;
            map(DataType::Utf8, value, nullable)
        }
        (Kind::Record { fields, .. }, _) => {
            let field = |field: &RecordField| {
                spark_type(&field.schema, names).map(|(data_type, nullable)| Field::new(&field.name, data_type, nullable))
            };
            DataType::Struct(fields.iter().map(field).collect::<Result<_>>()?)
        }
        (Kind::Union(branches), _) => {
            let nullable = branches.iter().any(|branch| branch.kind == Kind::Null);
            return Ok((union_type(&members(branches), names)?, nullable || branches.is_empty()));
        }
    };
    Ok((data_type, false))
}

/// The branches of a union that are not null.
pub(super) fn members(branches: &[Schema]) -> Vec<&Schema> {
    branches.iter().filter(|branch| branch.kind != Kind::Null).collect()
}

/// The number type that stands for all branches of a union, if they are int and long or float and double.
pub(super) fn widest<'a>(members: &[&'a Schema]) -> Option<&'a Schema> {
    let [one, other] = members else { return None };
    match (&one.kind, &other.kind) {
        (Kind::Int, Kind::Long) | (Kind::Float, Kind::Double) => Some(other),
        (Kind::Long, Kind::Int) | (Kind::Double, Kind::Float) => Some(one),
        _ => None,
    }
}

fn union_type(members: &[&Schema], names: MemberNames) -> Result<DataType> {
    if let [only] = members {
        return spark_type(only, names).map(|(data_type, _)| data_type);
    }
    if members.is_empty() {
        return Ok(DataType::Null);
    }
    if let Some(widest) = widest(members) {
        return Ok(if widest.kind == Kind::Long { DataType::Int64 } else { DataType::Float64 });
    }
    let member = |(place, member): (usize, &&Schema)| {
        let name = match names {
            MemberNames::Places => format!("member{place}"),
            MemberNames::Types => {
                let name = member.kind.name();
                format!("member_{}", name.rsplit_once('.').map_or(name, |(_, name)| name).to_lowercase())
            }
        };
        spark_type(member, names).map(|(data_type, _)| Field::new(name, data_type, true))
    };
    Ok(DataType::Struct(members.iter().enumerate().map(member).collect::<Result<_>>()?))
}

fn decimal(precision: u32, scale: u32) -> Result<DataType> {
    match (u8::try_from(precision), i8::try_from(scale)) {
        (Ok(digits), Ok(scale)) if precision <= MAX_PRECISION => Ok(DataType::Decimal128(digits, scale)),
        _ => {
            let message = format!("the Avro schema has a decimal of {precision} digits: the most are {MAX_PRECISION}");
            Err(Error::invalid("DECIMAL_PRECISION_EXCEEDS_MAX_PRECISION", message).with_sqlstate("22003"))
        }
    }
}

/// The Avro type in which values of a Spark type are written.
///
/// # Errors
/// `IncompatibleSchemaException` for a type that Avro has nothing for.
pub(super) fn avro_type(data_type: &DataType, nullable: bool) -> Result<Schema> {
    let named = |name: &str| name.to_owned();
    let logical = |kind: Kind, logical: Logical| Schema { kind, logical: Some(logical) };
    let schema = match data_type {
        DataType::Null => return Ok(Kind::Null.into()),
        DataType::Boolean => Kind::Boolean.into(),
        DataType::Int8 | DataType::Int16 | DataType::Int32 | DataType::Interval(IntervalUnit::YearMonth) => Kind::Int.into(),
        DataType::Date32 => logical(Kind::Int, Logical::Date),
        DataType::Int64 | DataType::Duration(_) => Kind::Long.into(),
        DataType::Timestamp(_, Some(_)) => logical(Kind::Long, Logical::TimestampMicros),
        DataType::Timestamp(_, None) => logical(Kind::Long, Logical::LocalTimestampMicros),
        DataType::Float32 => Kind::Float.into(),
        DataType::Float64 => Kind::Double.into(),
        DataType::Utf8 => Kind::String.into(),
        DataType::Binary => Kind::Bytes.into(),
        DataType::Decimal128(precision, scale) => {
            let decimal = Logical::Decimal(u32::from(*precision), u32::try_from(*scale).unwrap_or(0));
            logical(Kind::Fixed { name: named("fixed"), size: bytes_of(*precision) }, decimal)
        }
        DataType::List(element) => Kind::Array(Box::new(avro_type(element.data_type(), element.is_nullable())?)).into(),
        DataType::Map(entries, _) => match entries.data_type() {
            DataType::Struct(pair) => match pair.as_ref() {
                [key, value] if *key.data_type() == DataType::Utf8 => {
                    Kind::Map(Box::new(avro_type(value.data_type(), value.is_nullable())?)).into()
                }
                _ => return Err(no_avro(data_type)),
            },
            _ => return Err(no_avro(data_type)),
        },
        DataType::Struct(fields) => {
            let field = |field: &std::sync::Arc<Field>| {
                let schema = avro_type(field.data_type(), field.is_nullable())?;
                Ok(RecordField { name: field.name().clone(), aliases: Vec::new(), schema, default: None })
            };
            Kind::Record { name: named("topLevelRecord"), fields: fields.iter().map(field).collect::<Result<_>>()? }.into()
        }
        other => return Err(no_avro(other)),
    };
    Ok(if nullable { Kind::Union(vec![schema, Kind::Null.into()]).into() } else { schema })
}

fn no_avro(data_type: &DataType) -> Error {
    incompatible(format!("values of the type \"{}\" cannot be written as Avro", ddl_type(data_type)))
}

/// A schema that does not fit, with the name that Spark's users see for it.
pub(super) fn incompatible(message: impl Into<String>) -> Error {
    Error::invalid("IncompatibleSchemaException", message)
}

/// The fewest bytes in which every decimal of that many digits fits.
fn bytes_of(precision: u8) -> usize {
    (1..=16_u32)
        .find(|bytes| 10_i128.pow(u32::from(precision.min(38))) - 1 <= i128::MAX >> (128 - 8 * bytes))
        .map_or(16, |bytes| bytes as usize)
}
