//! JSON values into columns, as strict as Spark: a value of another kind is no value, whatever it looks like. A near copy of what the file
//! source has.

use millstream_core::json::{Cursor, Fault, Number, Quoted, non_number_text, unescape};
use millstream_core::variant::{self, Parsed};

use super::super::super::cast::decimal::Digits;
use super::super::super::cast::interval;
use super::super::super::string::strict_base64;
use super::super::options::JsonOptions;
use super::super::path::{copy, copy_number};
use super::column::{Column, Values};
use super::object::Members;

/// What became of a value. The cursor stands behind it in any case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// It was added.
    Good,
    /// It was added without some of its parts.
    Partial,
    /// It was not added.
    Bad,
}

/// What conversion needs to know, and what it reports.
#[derive(Debug)]
pub(super) struct Conversion<'o> {
    /// The options.
    pub(super) options: &'o JsonOptions,
    /// Where in the record the first value is that could not be converted, and what it should have been.
    pub(super) problem: Option<(usize, usize, &'static str)>,
    /// Reused for strings without their escapes.
    pub(super) scratch: Vec<u8>,
}

impl Column {
    /// Reads the value at the cursor.
    ///
    /// # Errors
    /// When it is no JSON; the column may hold parts of the value then.
    #[inline]
    pub(super) fn read(&mut self, cursor: &mut Cursor<'_>, with: &mut Conversion<'_>) -> Result<Outcome, Fault> {
        let first = cursor.token()?;
        let start = cursor.at();
        if let Values::Variant(values, metadata) = &mut self.values {
            return match variant::from_json(cursor, &mut values.bytes, &mut metadata.bytes)? {
                Parsed::Good => {
                    values.close();
                    metadata.close();
                    self.added();
                    Ok(Outcome::Good)
                }
                Parsed::Bad(_) => {
                    self.discard();
                    with.problem.get_or_insert((start, cursor.at(), "variant"));
                    Ok(Outcome::Bad)
                }
            };
        }
        let outcome = match first {
            b'"' => {
                let text = cursor.string(b'"')?;
                self.put_string(text, with)
            }
            b'0'..=b'9' => {
                let number = cursor.number()?;
                self.put_number(&number)
            }
            b'{' => self.read_object(cursor, with)?,
            b'[' => self.read_array(cursor, with)?,
            b'n' => {
                cursor.word(b"null")?;
                self.push_null();
                return Ok(Outcome::Good);
            }
            b't' => {
                cursor.word(b"true")?;
                self.put_bool(true)
            }
            b'f' => {
                cursor.word(b"false")?;
                self.put_bool(false)
            }
            b'\'' if cursor.syntax().single_quotes => {
                let text = cursor.string(b'\'')?;
                self.put_string(text, with)
            }
            _ => match cursor.non_number() {
                Some(value) => self.put_non_number(value),
                None if first == b'-' => {
                    let number = cursor.number()?;
                    self.put_number(&number)
                }
                None => return Err(cursor.fault("a value was expected")),
            },
        };
        if outcome == Outcome::Bad && with.problem.is_none() {
            with.problem = Some((start, cursor.at(), self.kind()));
        }
        Ok(outcome)
    }

    #[inline(always)]
    fn put_number(&mut self, number: &Number<'_>) -> Outcome {
        let added = match &mut self.values {
            Values::Int64(values) => number.long().map(|value| values.push(value)),
            Values::Double(values) => {
                values.push(number.double());
                Some(())
            }
            Values::Int32(values) => number.long().and_then(|value| i32::try_from(value).ok()).map(|value| values.push(value)),
            Values::Int16(values) => number.long().and_then(|value| i16::try_from(value).ok()).map(|value| values.push(value)),
            // Jackson takes bytes up to 255 and leaves them their bits.
            Values::Int8(values) => number.long().filter(|value| (-128..256).contains(value)).map(|value| values.push(value as i8)),
            Values::Float(values) => {
                values.push(number.float());
                Some(())
            }
            Values::Decimal { values, precision, scale } => decimal(number.raw, *precision, *scale).map(|value| values.push(value)),
            Values::Text(values) => {
                copy_number(number, &mut values.bytes);
                values.close();
                Some(())
            }
            // Seconds since 1970.
            Values::Timestamp(values) => number.long().and_then(|value| value.checked_mul(1_000_000)).map(|value| values.push(value)),
            _ => None,
        };
        self.close(added)
    }

    fn put_bool(&mut self, value: bool) -> Outcome {
        let added = match &mut self.values {
            Values::Boolean(values) => {
                values.append(value);
                Some(())
            }
            Values::Text(values) => {
                values.bytes.extend_from_slice(if value { b"true" } else { b"false" });
                values.close();
                Some(())
            }
            _ => None,
        };
        self.close(added)
    }

    fn put_non_number(&mut self, value: f64) -> Outcome {
        let added = match &mut self.values {
            Values::Double(values) => {
                values.push(value);
                Some(())
            }
            Values::Float(values) => {
                values.push(value as f32);
                Some(())
            }
            Values::Text(values) => {
                values.bytes.extend_from_slice(non_number_text(value).as_bytes());
                values.close();
                Some(())
            }
            _ => None,
        };
        self.close(added)
    }

    #[inline(always)]
    fn put_string(&mut self, text: Quoted<'_>, with: &mut Conversion<'_>) -> Outcome {
        if let Values::Text(values) = &mut self.values {
            unescape(text, &mut values.bytes);
            values.close();
            self.added();
            return Outcome::Good;
        }
        with.scratch.clear();
        let plain = if text.escaped {
            unescape(text, &mut with.scratch);
            with.scratch.as_slice()
        } else {
            text.raw
        };
        let Ok(plain) = std::str::from_utf8(plain) else { return Outcome::Bad };
        let formats = &with.options.formats;
        let added = match &mut self.values {
            Values::Timestamp(values) if !plain.is_empty() => formats.timestamp(plain).map(|value| values.push(value)),
            Values::TimestampNtz(values) if !plain.is_empty() => formats.timestamp_ntz(plain).map(|value| values.push(value)),
            Values::Date(values) if !plain.is_empty() => date(plain, formats).map(|value| values.push(value)),
            Values::DayTime(values, units) => interval::parse_day_time(plain, *units).map(|value| values.push(value)),
            Values::YearMonth(values, units) => interval::parse_year_month(plain, *units).map(|value| values.push(value)),
            Values::Double(values) => non_number(plain).filter(|_| with.options.syntax.non_numeric).map(|value| values.push(value)),
            Values::Float(values) => non_number(plain).filter(|_| with.options.syntax.non_numeric).map(|value| values.push(value as f32)),
            Values::Decimal { values, precision, scale } => {
                decimal(plain.replace(',', "").as_bytes(), *precision, *scale).map(|value| values.push(value))
            }
            Values::Binary(values) => {
                let packed: Vec<u8> = plain.bytes().filter(|byte| *byte > b' ').collect();
                // Jackson needs the padding.
                let decoded = if packed.len().is_multiple_of(4) { strict_base64(&packed, &mut values.bytes) } else { None };
                if decoded.is_some() {
                    values.close();
                }
                decoded
            }
            _ => None,
        };
        self.close(added)
    }

    #[inline(always)]
    fn close(&mut self, added: Option<()>) -> Outcome {
        match added {
            Some(()) => {
                self.added();
                Outcome::Good
            }
            None => {
                self.discard();
                Outcome::Bad
            }
        }
    }

    /// An object or array into a column of strings.
    fn read_as_text(&mut self, cursor: &mut Cursor<'_>) -> Result<Outcome, Fault> {
        if let Values::Text(values) = &mut self.values {
            copy(cursor, &mut values.bytes)?;
            values.close();
            self.added();
            return Ok(Outcome::Good);
        }
        cursor.skip()?;
        Ok(Outcome::Bad)
    }

    fn read_array(&mut self, cursor: &mut Cursor<'_>, with: &mut Conversion<'_>) -> Result<Outcome, Fault> {
        let Values::List(offsets, element) = &mut self.values else { return self.read_as_text(cursor) };
        cursor.enter()?;
        let (mut outcome, mut first) = (Outcome::Good, true);
        while cursor.next_element(first)? {
            first = false;
            match element.read(cursor, with)? {
                Outcome::Good => {}
                Outcome::Partial => outcome = Outcome::Partial,
                // One bad element makes the whole array bad.
                Outcome::Bad => {
                    cursor.skip_elements(false)?;
                    self.discard();
                    return Ok(Outcome::Bad);
                }
            }
        }
        offsets.push(element.len());
        self.added();
        Ok(outcome)
    }

    /// Whether it takes arrays of objects.
    pub(super) fn is_list_of_objects(&self) -> bool {
        matches!(&self.values, Values::List(_, element) if matches!(element.values, Values::Struct(_)))
    }

    /// Whether it takes variants.
    pub(super) fn is_variant(&self) -> bool {
        matches!(self.values, Values::Variant(..))
    }

    /// Reads the value at the cursor as an array of one element.
    pub(super) fn read_single(&mut self, cursor: &mut Cursor<'_>, with: &mut Conversion<'_>) -> Result<Outcome, Fault> {
        let Values::List(offsets, element) = &mut self.values else { return self.read(cursor, with) };
        let outcome = element.read(cursor, with)?;
        if outcome == Outcome::Bad {
            self.discard();
        } else {
            offsets.push(element.len());
            self.added();
        }
        Ok(outcome)
    }

    fn read_object(&mut self, cursor: &mut Cursor<'_>, with: &mut Conversion<'_>) -> Result<Outcome, Fault> {
        let row = self.len();
        match &mut self.values {
            Values::Struct(members) => {
                cursor.enter()?;
                let mut outcome = Outcome::Good;
                let (mut place, mut first) = (0, true);
                while cursor.next_member(first)? {
                    first = false;
                    let index = members.name(place, cursor)?;
                    place += 1;
                    match index {
                        Some(index) => {
                            if members.read(index, row, cursor, with)? != Outcome::Good {
                                outcome = Outcome::Partial;
                            }
                        }
                        None => cursor.skip()?,
                    }
                }
                members.complete(row);
                self.added();
                Ok(outcome)
            }
            Values::Map(offsets, keys, value) => {
                cursor.enter()?;
                let (mut outcome, mut first) = (Outcome::Good, true);
                while cursor.next_member(first)? {
                    first = false;
                    let name = cursor.name()?;
                    cursor.colon()?;
                    if outcome == Outcome::Bad {
                        cursor.skip()?;
                        continue;
                    }
                    unescape(name, &mut keys.bytes);
                    keys.close();
                    match value.read(cursor, with)? {
                        Outcome::Good => {}
                        other => outcome = other,
                    }
                }
                if outcome == Outcome::Bad {
                    self.discard();
                } else {
                    offsets.push(value.len());
                    self.added();
                }
                Ok(outcome)
            }
            _ => self.read_as_text(cursor),
        }
    }

    /// What Spark calls the values of this column.
    fn kind(&self) -> &'static str {
        match &self.values {
            Values::Null => "void",
            Values::Boolean(_) => "boolean",
            Values::Int8(_) => "tinyint",
            Values::Int16(_) => "smallint",
            Values::Int32(_) => "int",
            Values::Int64(_) => "bigint",
            Values::Float(_) => "float",
            Values::Double(_) => "double",
            Values::Decimal { .. } => "decimal",
            Values::Date(_) => "date",
            Values::Timestamp(_) => "timestamp",
            Values::TimestampNtz(_) => "timestamp_ntz",
            Values::Text(_) => "string",
            Values::Binary(_) => "binary",
            Values::List(..) => "array",
            Values::Map(..) => "map",
            Values::Struct(_) => "struct",
            Values::DayTime(..) | Values::YearMonth(..) => "interval",
            Values::Variant(..) => "variant",
        }
    }
}

impl Members {
    /// Reads a field's value for a row; the last of several counts. A bad one leaves a null.
    #[inline]
    pub(super) fn read(&mut self, index: usize, row: usize, cursor: &mut Cursor<'_>, with: &mut Conversion<'_>) -> Result<Outcome, Fault> {
        let Some(column) = self.columns.get_mut(index) else {
            cursor.skip()?;
            return Ok(Outcome::Good);
        };
        if column.len() > row {
            column.truncate(row);
        }
        let outcome = column.read(cursor, with)?;
        if outcome == Outcome::Bad {
            column.push_null();
        }
        Ok(outcome)
    }

    /// Gives a row nulls where it had no fields.
    #[inline]
    pub(super) fn complete(&mut self, row: usize) {
        for column in &mut self.columns {
            if column.len() == row {
                column.push_null();
            }
        }
    }

    /// Takes back everything behind the first `rows` rows.
    pub(super) fn truncate(&mut self, rows: usize) {
        for column in &mut self.columns {
            column.truncate(rows);
            column.discard();
        }
    }
}

/// The numbers that are written as strings.
fn non_number(text: &str) -> Option<f64> {
    match text {
        "NaN" => Some(f64::NAN),
        "Infinity" | "+Infinity" | "+INF" => Some(f64::INFINITY),
        "-Infinity" | "-INF" => Some(f64::NEG_INFINITY),
        _ => None,
    }
}

/// A date; without a format also days since 1970, as Spark 1.5 wrote them.
fn date(text: &str, formats: &super::super::super::formats::DateTimeFormats) -> Option<i32> {
    let read = formats.date(text);
    if read.is_some() || !formats.date_falls_back() {
        return read;
    }
    text.parse::<i32>().ok()
}

/// A decimal, rounded half up.
fn decimal(text: &[u8], precision: u8, scale: i8) -> Option<i128> {
    Digits::parse(std::str::from_utf8(text).ok()?)?.to_decimal(precision, scale)
}
