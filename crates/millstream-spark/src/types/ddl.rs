//! Reads Spark's DDL types.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::datatypes::{DataType, Field, Fields, IntervalUnit, Schema, TimeUnit};
use datafusion::sql::sqlparser::tokenizer::Token;
use millstream_core::{Error, Result};

use super::{CHAR_VARCHAR, COMMENT, INTERVAL, Shape, TIME, VARIANT, geospatial, map_of, timestamp, variant};
use crate::sql::parse::lex;
use crate::sql::{Cursor, Diagnostic, START, SourceFile};

/// Reads a list of columns such as `a INT, b STRING NOT NULL COMMENT 'x', c STRUCT<x: INT>`.
///
/// # Errors
/// `PARSE_SYNTAX_ERROR`, `UNSUPPORTED_DATATYPE`, `DECIMAL_PRECISION_EXCEEDS_MAX_PRECISION` or `COLUMN_ALREADY_EXISTS`, with line and
/// column.
pub fn parse_schema(ddl: &str) -> Result<Schema> {
    whole(ddl, |cursor| {
        if cursor.at_end() {
            return Ok(Vec::new());
        }
        // Spark also takes a type: `struct<a: int>` stands for its fields.
        if cursor.is("struct")
            && cursor.peek_nth(1) == Some(&Token::Lt)
            && let DataType::Struct(fields) = data_type(cursor)?.data_type
        {
            return Ok(fields.iter().map(|field| field.as_ref().clone()).collect());
        }
        fields(cursor)
    })
    .map(Schema::new)
}

/// Reads one type such as `DECIMAL(10,2)` or `MAP<STRING, ARRAY<INT>>`.
///
/// # Errors
/// As [`parse_schema`].
pub fn parse_data_type(ddl: &str) -> Result<DataType> {
    whole(ddl, data_type).map(|parsed| parsed.data_type)
}

/// Reads one type as a nullable field without a name, which remembers what the type alone cannot say: the length of characters, the units
/// of an interval.
///
/// # Errors
/// As [`parse_schema`].
pub fn parse_field_type(ddl: &str) -> Result<Field> {
    whole(ddl, data_type).map(|parsed| parsed.field("", true, None))
}

fn whole<T>(ddl: &str, read: impl FnOnce(&mut Cursor<'_>) -> Result<T, Diagnostic>) -> Result<T> {
    let file = SourceFile::new("schema", ddl);
    let outcome = lex(&file, ddl).and_then(|lexed| {
        let mut cursor = Cursor::new(&file, &lexed.tokens, START);
        let parsed = read(&mut cursor)?;
        if cursor.at_end() { Ok(parsed) } else { Err(cursor.expected("',' or the end")) }
    });
    outcome.map_err(|fault| Error::from(fault).within(format!("in the schema '{ddl}'")))
}

/// A type, and what the column that has it must remember.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Parsed {
    pub(crate) data_type: DataType,
    /// What the type alone cannot say, as a metadata entry: the length of characters, the units of an interval.
    detail: Option<(&'static str, String)>,
}

impl Parsed {
    fn plain(data_type: DataType) -> Self {
        Parsed { data_type, detail: None }
    }

    fn field(self, name: impl Into<String>, nullable: bool, comment: Option<String>) -> Field {
        let mut metadata = HashMap::new();
        if let Some((key, value)) = self.detail {
            metadata.insert(key.to_owned(), value);
        }
        if let Some(comment) = comment {
            metadata.insert(COMMENT.to_owned(), comment);
        }
        Field::new(name, self.data_type, nullable).with_metadata(metadata)
    }
}

/// Reads what follows a column's name: its type, `NOT NULL`, `COMMENT`.
pub(crate) fn column_type(cursor: &mut Cursor<'_>, name: &str) -> Result<Field, Diagnostic> {
    let parsed = data_type(cursor)?;
    let nullable = !cursor.eat(&["NOT", "NULL"]);
    let comment = if cursor.eat(&["COMMENT"]) { Some(cursor.string("the comment as a string")?) } else { None };
    Ok(parsed.field(name, nullable, comment))
}

fn fields(cursor: &mut Cursor<'_>) -> Result<Vec<Field>, Diagnostic> {
    let mut fields: Vec<Field> = Vec::new();
    loop {
        let position = cursor.position();
        let name = cursor.identifier("a column's name")?.value;
        cursor.eat_token(&Token::Colon);
        if let Some(fault) = same_name_twice(fields.iter().map(|field| field.name().as_str()), &name, &position) {
            return Err(fault);
        }
        fields.push(column_type(cursor, &name)?);
        if !cursor.eat_token(&Token::Comma) {
            return Ok(fields);
        }
    }
}

/// The fault that a list has `name` already. Names are compared without case.
pub(crate) fn same_name_twice<'a>(
    mut known: impl Iterator<Item = &'a str>,
    name: &str,
    position: &crate::sql::Position,
) -> Option<Diagnostic> {
    known.any(|known| known.to_lowercase() == name.to_lowercase()).then(|| {
        Diagnostic::new("COLUMN_ALREADY_EXISTS", "42711", position.clone(), format!("column '{name}' is there twice"))
            .with_hint("names are compared without case")
    })
}

/// How deep types may be nested.
const MAX_DEPTH: usize = 100;

fn data_type(cursor: &mut Cursor<'_>) -> Result<Parsed, Diagnostic> {
    data_type_at(cursor, 0)
}

fn data_type_at(cursor: &mut Cursor<'_>, depth: usize) -> Result<Parsed, Diagnostic> {
    let position = cursor.position();
    if depth > MAX_DEPTH {
        return Err(Diagnostic::syntax(position, "the type is nested too deeply"));
    }
    let word = match cursor.peek() {
        Some(Token::Word(word)) if word.quote_style.is_none() => word.value.to_ascii_lowercase(),
        _ => return Err(cursor.expected("a type")),
    };
    cursor.advance();
    let plain = match word.as_str() {
        "boolean" => DataType::Boolean,
        "tinyint" | "byte" => DataType::Int8,
        "smallint" | "short" => DataType::Int16,
        "int" | "integer" => DataType::Int32,
        "bigint" | "long" => DataType::Int64,
        "float" | "real" => DataType::Float32,
        "double" => DataType::Float64,
        "date" => DataType::Date32,
        "timestamp" | "timestamp_ltz" => timestamp(),
        "timestamp_ntz" => DataType::Timestamp(TimeUnit::Microsecond, None),
        "binary" => DataType::Binary,
        "void" => DataType::Null,
        "string" => {
            if cursor.eat(&["COLLATE"]) {
                let position = cursor.position();
                let collation = cursor.identifier("the name of a collation")?.value;
                if !collation.eq_ignore_ascii_case("UTF8_BINARY") {
                    return Err(unsupported(position, &format!("STRING COLLATE {collation}")).with_hint("use STRING"));
                }
            }
            DataType::Utf8
        }
        "char" | "character" | "varchar" => {
            let name = if word == "varchar" { "varchar" } else { "char" };
            cursor.expect_token(&Token::LParen)?;
            let length = cursor.integer("the length")?;
            cursor.expect_token(&Token::RParen)?;
            return Ok(Parsed { data_type: DataType::Utf8, detail: Some((CHAR_VARCHAR, format!("{name}({length})"))) });
        }
        "decimal" | "dec" | "numeric" => decimal(cursor)?,
        "time" => {
            let detail = time_precision(cursor)?.map(|digits| (TIME, digits.to_string()));
            return Ok(Parsed { data_type: DataType::Time64(TimeUnit::Nanosecond), detail });
        }
        "interval" => return interval(cursor),
        "array" => {
            cursor.expect_token(&Token::Lt)?;
            let element = data_type_at(cursor, depth + 1)?;
            cursor.expect_closing_angle()?;
            DataType::List(Arc::new(element.field("element", true, None)))
        }
        "map" => {
            cursor.expect_token(&Token::Lt)?;
            let key = data_type_at(cursor, depth + 1)?;
            cursor.expect_token(&Token::Comma)?;
            let value = data_type_at(cursor, depth + 1)?;
            cursor.expect_closing_angle()?;
            map_of(key.field("key", false, None), value.field("value", true, None))
        }
        "struct" => {
            if cursor.eat_token(&Token::Neq) {
                return Ok(Parsed::plain(DataType::Struct(Fields::empty())));
            }
            cursor.expect_token(&Token::Lt)?;
            let mut fields: Vec<Field> = Vec::new();
            loop {
                let position = cursor.position();
                let name = cursor.identifier("a field's name")?.value;
                cursor.eat_token(&Token::Colon);
                if let Some(fault) = same_name_twice(fields.iter().map(|field| field.name().as_str()), &name, &position) {
                    return Err(fault);
                }
                let parsed = data_type_at(cursor, depth + 1)?;
                let nullable = !cursor.eat(&["NOT", "NULL"]);
                let comment = if cursor.eat(&["COMMENT"]) { Some(cursor.string("the comment as a string")?) } else { None };
                fields.push(parsed.field(name, nullable, comment));
                if !cursor.eat_token(&Token::Comma) {
                    break;
                }
            }
            cursor.expect_closing_angle()?;
            DataType::Struct(fields.into())
        }
        "variant" => return Ok(Parsed { data_type: variant(), detail: Some((VARIANT, "true".to_owned())) }),
        "geometry" | "geography" => {
            let shape = if word == "geometry" { Shape::Geometry } else { Shape::Geography };
            let srid = if cursor.eat_token(&Token::LParen) {
                let srid = if cursor.eat(&["ANY"]) {
                    "ANY".to_owned()
                } else {
                    cursor.integer("a number of a reference system, or ANY")?.to_string()
                };
                cursor.expect_token(&Token::RParen)?;
                srid
            } else {
                if shape == Shape::Geometry { "0" } else { "4326" }.to_owned()
            };
            return Ok(Parsed { data_type: geospatial(), detail: Some((shape.key(), srid)) });
        }
        "char_length" | "text" | "datetime" | "number" | "uuid" | "json" | "bool" | "bytes" | "float4" | "float8" | "int64" | "int32" => {
            let near = match word.as_str() {
                "datetime" => "TIMESTAMP",
                "number" => "DECIMAL",
                "bool" => "BOOLEAN",
                "bytes" => "BINARY",
                "float4" => "FLOAT",
                "float8" => "DOUBLE",
                "int64" => "BIGINT",
                "int32" => "INT",
                _ => "STRING",
            };
            return Err(unsupported(position, &word.to_ascii_uppercase()).with_hint(format!("Spark's name is {near}")));
        }
        _ => {
            let hint = match crate::sql::closest(&word, NAMES.iter().copied()) {
                Some(near) => format!("did you mean {}?", near.to_ascii_uppercase()),
                None => {
                    "types are BOOLEAN, INT, BIGINT, DOUBLE, DECIMAL(p, s), STRING, BINARY, DATE, TIMESTAMP, ARRAY<…>, MAP<…, …>, STRUCT<…>"
                        .into()
                }
            };
            return Err(unsupported(position, &word.to_ascii_uppercase()).with_hint(hint));
        }
    };
    Ok(Parsed::plain(plain))
}

const NAMES: &[&str] = &[
    "boolean",
    "tinyint",
    "smallint",
    "int",
    "integer",
    "bigint",
    "long",
    "float",
    "double",
    "date",
    "timestamp",
    "timestamp_ntz",
    "binary",
    "string",
    "char",
    "varchar",
    "decimal",
    "interval",
    "array",
    "map",
    "struct",
    "void",
    "time",
];

fn unsupported(position: crate::sql::Position, name: &str) -> Diagnostic {
    Diagnostic::new("UNSUPPORTED_DATATYPE", "0A000", position, format!("there is no type {name}"))
}

fn decimal(cursor: &mut Cursor<'_>) -> Result<DataType, Diagnostic> {
    let (mut precision, mut scale, position) = (10, 0, cursor.position());
    if cursor.eat_token(&Token::LParen) {
        precision = cursor.integer("the precision")?;
        if cursor.eat_token(&Token::Comma) {
            scale = cursor.integer("the scale")?;
        }
        cursor.expect_token(&Token::RParen)?;
    }
    match (u8::try_from(precision), i8::try_from(scale)) {
        (Ok(p @ 1..=38), Ok(s)) if u64::from(p) >= scale => Ok(DataType::Decimal128(p, s)),
        _ if precision > 38 => {
            let message = format!("decimal precision {precision} is more than 38");
            Err(Diagnostic::new("DECIMAL_PRECISION_EXCEEDS_MAX_PRECISION", "22003", position, message))
        }
        _ => Err(Diagnostic::syntax(position, format!("DECIMAL({precision}, {scale}) has no digits before its scale ends"))
            .with_hint("the scale is at most the precision")),
    }
}

/// The digits behind the seconds, where they are not six.
fn time_precision(cursor: &mut Cursor<'_>) -> Result<Option<u64>, Diagnostic> {
    if !cursor.eat_token(&Token::LParen) {
        return Ok(None);
    }
    let position = cursor.position();
    let digits = cursor.integer("the precision")?;
    if digits > 6 {
        return Err(Diagnostic::syntax(position, "the precision of TIME is 0 to 6"));
    }
    cursor.expect_token(&Token::RParen)?;
    Ok((digits != 6).then_some(digits))
}

const DAY_TIME: &[&str] = &["day", "hour", "minute", "second"];
const YEAR_MONTH: &[&str] = &["year", "month"];

fn interval(cursor: &mut Cursor<'_>) -> Result<Parsed, Diagnostic> {
    for (units, data_type) in
        [(DAY_TIME, DataType::Duration(TimeUnit::Microsecond)), (YEAR_MONTH, DataType::Interval(IntervalUnit::YearMonth))]
    {
        let Some(from) = units.iter().position(|unit| cursor.is(unit)) else { continue };
        cursor.advance();
        let mut to = from;
        if cursor.eat(&["TO"]) {
            to = match units.iter().position(|unit| cursor.is(unit)) {
                Some(to) if to > from => to,
                _ => return Err(cursor.expected("a smaller unit")),
            };
            cursor.advance();
        }
        let name = |unit: usize| units.get(unit).copied().unwrap_or_default();
        let detail = match (from, to) {
            (0, to) if to + 1 == units.len() => None,
            (from, to) if from == to => Some((INTERVAL, name(from).to_owned())),
            (from, to) => Some((INTERVAL, format!("{} to {}", name(from), name(to)))),
        };
        return Ok(Parsed { data_type, detail });
    }
    Ok(Parsed::plain(DataType::Interval(IntervalUnit::MonthDayNano)))
}

#[cfg(test)]
mod tests;
