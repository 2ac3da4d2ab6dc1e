//! The schema of CSV files, by Spark's rules: names from the header of the first file that has one, types from every value.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use millstream_core::Result;

use super::super::FileRef;
use super::super::resolve::timestamp;
use super::super::values::{DateTimePattern, decimal_shape, parse_double, parse_long};
use super::column::{boolean, double};
use super::dialect::{Text, Tokens};
use super::options::CsvOptions;
use super::source::{Drained, Record, RecordSource};

/// The most digits of a decimal.
const MAX_DIGITS: u8 = 38;

/// Infers the schema of `files`.
///
/// # Errors
/// Those of reading the files.
pub(super) async fn infer(files: &[FileRef], options: &CsvOptions, date_format: Option<&str>) -> Result<SchemaRef> {
    let date = DateTimePattern::compile(date_format.unwrap_or("yyyy-MM-dd"))?;
    let mut inference = Inference { options, date, tokens: Tokens::default(), names: None, kinds: Vec::new() };
    for file in files {
        inference.file(file).await?;
        if inference.names.is_some() && !options.infer_schema {
            break;
        }
    }
    Ok(inference.schema())
}

struct Inference<'a> {
    options: &'a CsvOptions,
    date: DateTimePattern,
    tokens: Tokens,
    names: Option<Vec<String>>,
    kinds: Vec<Kind>,
}

/// What the values of a column were so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// Nothing but null.
    Null,
    Int,
    Long,
    /// Whole numbers of at most that many digits.
    Decimal(u8),
    Double,
    Date,
    Timestamp,
    Boolean,
    String,
}

impl Inference<'_> {
    async fn file(&mut self, file: &FileRef) -> Result<()> {
        let mut source = RecordSource::open(file, self.options).await?;
        let mut header = self.options.header;
        loop {
            let drained = source.drain(|record| {
                if let Record::Text { bytes, .. } = record {
                    let text = String::from_utf8_lossy(bytes);
                    self.record(text.as_bytes(), std::mem::take(&mut header));
                }
                Ok(self.options.infer_schema || self.names.is_none())
            });
            if drained.map_err(|error| error.within(format!("cannot infer the schema of {}", file.url)))? != Drained::Empty {
                return Ok(());
            }
            source.fill().await?;
        }
    }

    fn record(&mut self, record: &[u8], header: bool) {
        // A record that cannot be split says nothing about types.
        if self.options.dialect.split(record, usize::MAX, &mut self.tokens).is_err() {
            return;
        }
        let names = self.names.get_or_insert_with(|| {
            let texts = (0..self.tokens.len()).map(|index| match self.tokens.text(index, record) {
                Text::Some(text) if header && text != self.options.values.null => Some(String::from_utf8_lossy(text).into_owned()),
                _ => None,
            });
            column_names(&texts.collect::<Vec<_>>())
        });
        self.kinds.resize(names.len(), Kind::Null);
        if header || !self.options.infer_schema {
            return;
        }
        for index in 0..self.tokens.len().min(self.kinds.len()) {
            let text = match self.tokens.text(index, record) {
                Text::Some(text) if text != self.options.values.null && !text.is_empty() => text,
                _ => continue,
            };
            if let Some(kind) = self.kinds.get(index).copied() {
                let seen = self.kind_of(text, kind);
                let merged = self.merged(kind, seen);
                if let Some(place) = self.kinds.get_mut(index) {
                    *place = merged;
                }
            }
        }
    }

    /// The narrowest kind of a value, beginning with what the column is so far.
    fn kind_of(&self, value: &[u8], so_far: Kind) -> Kind {
        let text = std::str::from_utf8(value).unwrap_or_default();
        let from = match so_far {
            Kind::Null | Kind::Int => 0,
            Kind::Long => 1,
            Kind::Decimal(_) => 2,
            Kind::Double => 3,
            Kind::Date => 4,
            Kind::Timestamp => 5,
            Kind::Boolean => 6,
            Kind::String => return Kind::String,
        };
        let whole = if from <= 1 { parse_long(value) } else { None };
        if from == 0 && whole.is_some_and(|number| i32::try_from(number).is_ok()) {
            return Kind::Int;
        }
        if whole.is_some() {
            return Kind::Long;
        }
        if from <= 2
            && let Some(digits) = whole_digits(value)
        {
            return Kind::Decimal(digits);
        }
        if from <= 3 && (parse_double(text).is_some() || double(value, &self.options.values).is_some()) {
            return Kind::Double;
        }
        if from <= 4 && self.options.prefer_date && self.date.date(text).is_some() {
            return Kind::Date;
        }
        if from <= 5 && self.options.values.formats.timestamp(text).is_some() {
            return Kind::Timestamp;
        }
        if boolean(value).is_some() { Kind::Boolean } else { Kind::String }
    }

    fn merged(&self, a: Kind, b: Kind) -> Kind {
        let int_digits = 10;
        let long_digits = 20;
        match (a, b) {
            (a, b) if a == b => a,
            (Kind::Null, other) | (other, Kind::Null) => other,
            (Kind::Int, Kind::Long) | (Kind::Long, Kind::Int) => Kind::Long,
            (Kind::Decimal(p), Kind::Decimal(q)) => Kind::Decimal(p.max(q)),
            (Kind::Int, Kind::Decimal(p)) | (Kind::Decimal(p), Kind::Int) => Kind::Decimal(p.max(int_digits)),
            (Kind::Long, Kind::Decimal(p)) | (Kind::Decimal(p), Kind::Long) => Kind::Decimal(p.max(long_digits)),
            (Kind::Double, Kind::Int | Kind::Long | Kind::Decimal(_)) | (Kind::Int | Kind::Long | Kind::Decimal(_), Kind::Double) => {
                Kind::Double
            }
            (Kind::Date, Kind::Timestamp) | (Kind::Timestamp, Kind::Date) if self.options.dates_are_timestamps => Kind::Timestamp,
            _ => Kind::String,
        }
    }

    fn schema(self) -> SchemaRef {
        let infers = self.options.infer_schema;
        let fields = self.names.unwrap_or_default().into_iter().zip(self.kinds).map(|(name, kind)| {
            let kind = match kind {
                _ if !infers => DataType::Utf8,
                Kind::Int => DataType::Int32,
                Kind::Long => DataType::Int64,
                Kind::Decimal(digits) => DataType::Decimal128(digits, 0),
                Kind::Double => DataType::Float64,
                Kind::Date => DataType::Date32,
                Kind::Timestamp => timestamp(true),
                Kind::Boolean => DataType::Boolean,
                Kind::Null | Kind::String => DataType::Utf8,
            };
            Field::new(name, kind, true)
        });
        Arc::new(Schema::new(fields.collect::<Vec<_>>()))
    }
}

/// The digits of a whole number that a decimal without fraction can hold.
fn whole_digits(value: &[u8]) -> Option<u8> {
    let (digits, scale) = decimal_shape(value)?;
    u8::try_from(digits).ok().filter(|digits| scale == 0 && *digits <= MAX_DIGITS)
}

/// The names of the columns: those that occur more than once, whatever their case, and those that are empty get their position.
fn column_names(texts: &[Option<String>]) -> Vec<String> {
    let mut count: HashMap<String, usize> = HashMap::new();
    for text in texts.iter().flatten() {
        *count.entry(text.to_lowercase()).or_default() += 1;
    }
    let name = |(index, text): (usize, &Option<String>)| match text {
        None => format!("_c{index}"),
        Some(text) if count.get(&text.to_lowercase()).is_some_and(|count| *count > 1) => format!("{text}{index}"),
        Some(text) => text.clone(),
    };
    texts.iter().enumerate().map(name).collect()
}
