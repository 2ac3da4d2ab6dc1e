//! What the functions of JSON and CSV have in common: options, schemas as constants, and the texts of dates and times.

use arrow::array::AsArray;
use arrow::datatypes::{DataType, Field, Schema};
use datafusion::scalar::ScalarValue;
use millstream_core::{Error, ErrorKind, Options, Result};

use super::datetime::pattern::{Pattern, Use};
use super::datetime::{format, parse};
use super::{Call, Settings, TimeZone, coercion};
use crate::types;

/// The options of a call: a map of constants, such as `map('mode', 'FAILFAST')`.
///
/// # Errors
/// `INVALID_OPTIONS.NON_MAP_FUNCTION`, `INVALID_OPTIONS.NON_STRING_TYPE`.
pub(crate) fn options(call: &Call<'_>, index: usize) -> Result<Options> {
    if call.len() <= index {
        return Ok(Options::new());
    }
    let value = call.value(index)?;
    let invalid = |subclass: &str, what: &str| {
        Error::invalid(format!("INVALID_OPTIONS.{subclass}"), format!("the options of `{}` must be {what}", call.name))
            .with_sqlstate("42K06")
    };
    let DataType::Map(entries, _) = &value.data_type else { return Err(invalid("NON_MAP_FUNCTION", "a `map()` of constants")) };
    if let DataType::Struct(pair) = entries.data_type()
        && !pair.iter().all(|field| matches!(field.data_type(), DataType::Utf8 | DataType::Null))
    {
        return Err(invalid("NON_STRING_TYPE", "a map of strings"));
    }
    let Some(ScalarValue::Map(map)) = coercion::constant_of(value) else {
        return Err(invalid("NON_MAP_FUNCTION", "a `map()` of constants"));
    };
    let (keys, values) = (map.keys().as_string_opt::<i32>(), map.values().as_string_opt::<i32>());
    let Some((keys, values)) = keys.zip(values) else { return Ok(Options::new()) };
    let pairs = keys.iter().zip(values.iter());
    Ok(pairs.filter_map(|(key, value)| Some((key?.to_owned(), value?.to_owned()))).collect())
}

/// The schema that a constant argument names, as DDL or JSON: a field of the type.
///
/// # Errors
/// `INVALID_SCHEMA.NON_STRING_LITERAL`, those of reading it.
pub(crate) fn schema(call: &Call<'_>, index: usize) -> Result<Field> {
    let value = call.value(index)?;
    let text = match coercion::constant_of(value) {
        Some(ScalarValue::Utf8(Some(text))) => text,
        _ => {
            let message = format!("the schema of `{}` must be a constant string", call.name);
            return Err(Error::invalid("INVALID_SCHEMA.NON_STRING_LITERAL", message).with_sqlstate("42K07"));
        }
    };
    if let Ok(field) = types::parse_field_type(&text) {
        return Ok(field);
    }
    let as_struct = |schema: Schema| Field::new("", DataType::Struct(schema.fields), true);
    let read = types::parse_schema(&text).map(as_struct);
    read.or_else(|error| types::schema_from_json(&text).map(as_struct).map_err(|_| not_a_schema(&text, error)))
}

/// The error for a text that is neither a type nor columns nor JSON: of one word that it is no type, of several that they are no type either.
fn not_a_schema(text: &str, error: Error) -> Error {
    if text.trim().contains(char::is_whitespace) && error.code() == "UNSUPPORTED_DATATYPE" {
        return Error::invalid("PARSE_SYNTAX_ERROR", error.message()).with_sqlstate("42601");
    }
    error
}

/// The same field, with everything in it that may be null.
pub(crate) fn nullable(field: &Field) -> Field {
    let data_type = match field.data_type() {
        DataType::List(element) => DataType::List(nullable(element).into()),
        DataType::Struct(_) if field.metadata().keys().any(|key| types::belongs_to_type(key)) => field.data_type().clone(),
        DataType::Struct(fields) => DataType::Struct(fields.iter().map(|field| nullable(field)).collect()),
        DataType::Map(entries, sorted) => match entries.data_type() {
            DataType::Struct(pair) => {
                let pair = pair.iter().enumerate().map(|(place, field)| nullable(field).with_nullable(place > 0)).collect();
                DataType::Map(Field::new(entries.name(), DataType::Struct(pair), false).into(), *sorted)
            }
            _ => field.data_type().clone(),
        },
        other => other.clone(),
    };
    Field::new(field.name(), data_type, true).with_metadata(field.metadata().clone())
}

/// What becomes of malformed records.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Mode {
    /// What cannot be read is null.
    Permissive,
    /// They are left out, which functions cannot do.
    DropMalformed,
    /// They are errors.
    FailFast,
}

impl Mode {
    /// The mode of the options; unknown words mean the default, as in Spark.
    pub(crate) fn of(options: &Options) -> Mode {
        match options.get("mode").map(str::to_ascii_uppercase).as_deref() {
            Some("DROPMALFORMED") => Mode::DropMalformed,
            Some("FAILFAST") => Mode::FailFast,
            _ => Mode::Permissive,
        }
    }

    /// # Errors
    /// `PARSE_MODE_UNSUPPORTED` for a mode that a function cannot have.
    pub(crate) fn check(self, function: &str) -> Result<()> {
        if self == Mode::DropMalformed {
            let message = format!("`{function}` has no mode DROPMALFORMED: use PERMISSIVE or FAILFAST");
            return Err(Error::invalid("PARSE_MODE_UNSUPPORTED", message).with_sqlstate("42601"));
        }
        Ok(())
    }
}

/// A malformed record in the mode `FAILFAST`.
pub(crate) fn malformed(record: &str, what: &str) -> Error {
    let shown: String = record.chars().take(120).collect();
    let message = format!("the record '{shown}' is malformed ({what}) and the mode is FAILFAST: PERMISSIVE gives nulls");
    Error::new(ErrorKind::BadRecord, "MALFORMED_RECORD_IN_PARSING.WITHOUT_SUGGESTION", message).with_sqlstate("22023")
}

/// The name of the field that takes the text of malformed records.
pub(crate) fn corrupt_record(options: &Options) -> String {
    options.get("columnNameOfCorruptRecord").unwrap_or("_corrupt_record").to_owned()
}

/// The zone of the options, otherwise the session's.
///
/// # Errors
/// `INVALID_TIMEZONE`.
pub(crate) fn zone(options: &Options, settings: &Settings) -> Result<TimeZone> {
    options.get("timeZone").map_or(Ok(settings.time_zone), TimeZone::parse)
}

/// How text becomes dates and timestamps: the options `dateFormat`, `timestampFormat`, `timestampNTZFormat`, `timeZone` and
/// `enableDateTimeParsingFallback`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct DateTimeFormats {
    zone: TimeZone,
    date: Option<Pattern>,
    timestamp: Option<Pattern>,
    timestamp_ntz: Option<Pattern>,
    date_fallback: bool,
    timestamp_fallback: bool,
}

impl DateTimeFormats {
    /// The formats that the options ask for. Without a format the forms of `CAST` are read.
    ///
    /// # Errors
    /// `INVALID_TIMEZONE`, those of patterns, `INVALID_OPTION_VALUE`.
    pub(crate) fn of(options: &Options, settings: &Settings) -> Result<Self> {
        let pattern = |name: &str| options.get(name).map(|pattern| Pattern::compile(pattern, Use::Parsing)).transpose();
        let (date, timestamp) = (pattern("dateFormat")?, pattern("timestampFormat")?);
        let fallback = match options.get("enableDateTimeParsingFallback") {
            Some(_) => Some(options.bool("enableDateTimeParsingFallback", false)?),
            None => None,
        };
        Ok(DateTimeFormats {
            zone: zone(options, settings)?,
            date_fallback: fallback.unwrap_or(date.is_none()),
            timestamp_fallback: fallback.unwrap_or(timestamp.is_none()),
            date,
            timestamp,
            timestamp_ntz: pattern("timestampNTZFormat")?,
        })
    }

    /// A date as days since 1970.
    pub(crate) fn date(&self, text: &str) -> Option<i32> {
        let read = match &self.date {
            None => parse::parse_date(text),
            Some(pattern) => pattern.parse_date(text),
        };
        if read.is_none() && self.date_fallback { parse::parse_date(&text.replace("GMT", "")) } else { read }
    }

    /// Whether a date that the format refuses is tried in older forms.
    pub(crate) fn date_falls_back(&self) -> bool {
        self.date_fallback
    }

    /// A timestamp as microseconds since 1970 in UTC.
    pub(crate) fn timestamp(&self, text: &str) -> Option<i64> {
        let read = match &self.timestamp {
            None => parse::parse_timestamp(text, self.zone),
            Some(pattern) => pattern.parse(text, self.zone),
        };
        if read.is_none() && self.timestamp_fallback {
            // Spark 2 wrote zones as `GMT+01:00`.
            return parse::parse_timestamp(&text.replace("GMT", ""), self.zone);
        }
        read
    }

    /// A timestamp without zone as microseconds since 1970; text that names a zone is refused.
    pub(crate) fn timestamp_ntz(&self, text: &str) -> Option<i64> {
        match &self.timestamp_ntz {
            None if parse::names_zone(text) => None,
            None => parse::parse_timestamp_ntz(text),
            Some(pattern) => pattern.parse_ntz(text, false),
        }
    }
}

/// How dates and timestamps become text: the options `dateFormat`, `timestampFormat`, `timestampNTZFormat`, `timeZone`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct DateTimeText {
    zone: TimeZone,
    date: Option<Pattern>,
    timestamp: Pattern,
    timestamp_ntz: Pattern,
}

impl DateTimeText {
    /// # Errors
    /// `INVALID_TIMEZONE` and those of patterns.
    pub(crate) fn of(options: &Options, settings: &Settings) -> Result<Self> {
        let pattern = |name: &str, default: &str| Pattern::compile(options.get(name).unwrap_or(default), Use::Formatting);
        Ok(DateTimeText {
            zone: zone(options, settings)?,
            date: options.get("dateFormat").map(|pattern| Pattern::compile(pattern, Use::Formatting)).transpose()?,
            timestamp: pattern("timestampFormat", "yyyy-MM-dd'T'HH:mm:ss[.SSS][XXX]")?,
            timestamp_ntz: pattern("timestampNTZFormat", "yyyy-MM-dd'T'HH:mm:ss[.SSS]")?,
        })
    }

    /// The zone of instants.
    pub(crate) fn zone(&self) -> TimeZone {
        self.zone
    }

    /// # Errors
    /// Those of formatting.
    pub(crate) fn date(&self, days: i32) -> Result<String> {
        self.date.as_ref().map_or_else(|| Ok(format::format_date(days)), |pattern| pattern.format_date(days))
    }

    /// # Errors
    /// Those of formatting.
    pub(crate) fn timestamp(&self, micros: i64) -> Result<String> {
        self.timestamp.format(micros, self.zone)
    }

    /// # Errors
    /// Those of formatting.
    pub(crate) fn timestamp_ntz(&self, micros: i64) -> Result<String> {
        self.timestamp_ntz.format_ntz(micros)
    }
}
