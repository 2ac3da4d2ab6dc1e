//! The schema of JSON files, by Spark's rules: whole numbers are bigint, others double, what disagrees is string, fields are in the order
//! of their names.

#[cfg(test)]
mod tests;

use std::sync::Arc;

use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use millstream_core::json::{Cursor, Fault, Fields, Kind, decimal, merge, unescape};
use millstream_core::quarantine::ParseMode;
use millstream_core::{Error, ErrorKind, Result, variant};

use super::super::FileRef;
use super::super::input::Input;
use super::super::lines::{Line, Lines};
use super::super::values::decimal_shape;
use super::options::JsonOptions;

/// The schema of all records of the files.
///
/// # Errors
/// Those of reading the files, and `_LEGACY_ERROR_TEMP_2165` for a malformed record in the mode `FAILFAST`.
pub async fn infer(files: &[FileRef], options: &JsonOptions) -> Result<SchemaRef> {
    if let Some(name) = &options.single_variant {
        return Ok(Arc::new(Schema::new(vec![variant::field(name)])));
    }
    let mut inference = Inference { options, root: Fields::new(), sample: 0.0, scratch: Vec::new() };
    for file in files {
        let mut input = Input::open(file, &options.input).await?;
        let mut lines = Lines::new(options.separator.clone(), options.limit, true);
        loop {
            match lines.next_record() {
                Line::Record { bytes, utf8, .. } => inference.record(bytes, utf8, &file.url)?,
                Line::TooLarge { .. } => {}
                Line::Incomplete => match input.read(lines.space()).await? {
                    0 => lines.finish(),
                    _ => lines.filled(),
                },
                Line::End => break,
            }
        }
    }
    Ok(inference.schema())
}

struct Inference<'o> {
    options: &'o JsonOptions,
    root: Fields,
    sample: f64,
    scratch: Vec<u8>,
}

impl Inference<'_> {
    fn record(&mut self, bytes: &[u8], utf8: bool, url: &str) -> Result<()> {
        // Evenly spaced records, so that the same files always give the same schema.
        self.sample += self.options.sampling_ratio;
        if self.sample < 1.0 {
            return Ok(());
        }
        self.sample -= self.sample.floor();
        let mut cursor = Cursor::new(bytes, &self.options.syntax);
        let kind = if utf8 || simdutf8::basic::from_utf8(bytes).is_ok() {
            match cursor.next_token() {
                Ok(Some(_)) => self.kind(&mut cursor).ok(),
                Ok(None) => return Ok(()),
                Err(_) => None,
            }
        } else {
            None
        };
        self.add(kind, url)
    }

    /// Merges the kind of a record into the root; `None` is a malformed record.
    fn add(&mut self, mut kind: Option<Kind>, url: &str) -> Result<()> {
        // Records of an array are its elements.
        while let Some(Kind::Array(element)) = kind {
            kind = Some(*element);
        }
        match kind {
            Some(Kind::Null) => Ok(()),
            Some(Kind::Struct(fields)) => {
                let root = std::mem::take(&mut self.root);
                if let Kind::Struct(merged) = merge(Kind::Struct(root), Kind::Struct(fields)) {
                    self.root = merged;
                }
                Ok(())
            }
            _ => match self.options.mode {
                ParseMode::Permissive => {
                    self.root.entry(self.options.corrupt_record.clone()).or_insert(Kind::Text);
                    Ok(())
                }
                ParseMode::DropMalformed => Ok(()),
                ParseMode::FailFast => Err(Error::new(
                    ErrorKind::BadRecord,
                    "_LEGACY_ERROR_TEMP_2165",
                    format!("a record of {url} is malformed and the option mode is FAILFAST: the schema cannot be inferred"),
                )),
            },
        }
    }

    /// The kind of the value at the cursor.
    fn kind(&mut self, cursor: &mut Cursor<'_>) -> Result<Kind, Fault> {
        let options = self.options;
        let primitive = |kind| if options.primitives_as_string { Kind::Text } else { kind };
        Ok(match cursor.token()? {
            mark @ (b'"' | b'\'') if mark == b'"' || options.syntax.single_quotes => {
                let text = cursor.string(mark)?;
                self.scratch.clear();
                unescape(text, &mut self.scratch);
                self.text_kind()
            }
            b'{' => {
                cursor.enter()?;
                let (mut fields, mut first) = (Fields::new(), true);
                while cursor.next_member(first)? {
                    first = false;
                    let mut name = Vec::new();
                    unescape(cursor.name()?, &mut name);
                    cursor.colon()?;
                    let kind = self.kind(cursor)?;
                    let name = String::from_utf8_lossy(&name).into_owned();
                    let kind = match fields.remove(&name) {
                        Some(before) => merge(before, kind),
                        None => kind,
                    };
                    fields.insert(name, kind);
                }
                Kind::Struct(fields)
            }
            b'[' => {
                cursor.enter()?;
                let (mut element, mut first) = (Kind::Null, true);
                while cursor.next_element(first)? {
                    first = false;
                    element = merge(element, self.kind(cursor)?);
                }
                Kind::Array(Box::new(element))
            }
            b't' | b'f' => {
                cursor.skip()?;
                primitive(Kind::Boolean)
            }
            b'n' => {
                cursor.skip()?;
                Kind::Null
            }
            _ => match cursor.non_number() {
                Some(_) => primitive(Kind::Double),
                None if matches!(cursor.token()?, b'-' | b'0'..=b'9') => {
                    let number = cursor.number()?;
                    let kind = match number.long() {
                        Some(_) => Kind::Long,
                        None if number.integral || options.prefers_decimal => decimal_shape(number.raw)
                            .and_then(|(precision, scale)| decimal(precision.max(scale), scale))
                            .unwrap_or(Kind::Double),
                        None => Kind::Double,
                    };
                    primitive(kind)
                }
                None => return Err(cursor.fault("a value was expected")),
            },
        })
    }

    /// The kind of the string in `scratch`.
    fn text_kind(&self) -> Kind {
        let Ok(text) = std::str::from_utf8(&self.scratch) else { return Kind::Text };
        // An empty string may stand for nothing.
        if text.is_empty() {
            return Kind::Null;
        }
        let options = self.options;
        if options.prefers_decimal
            && let Some(kind) = decimal_shape(text.replace(',', "").as_bytes()).and_then(|(precision, scale)| decimal(precision, scale))
        {
            return kind;
        }
        let is_timestamp = || options.formats.timestamp_ntz(text).is_some() || options.formats.timestamp(text).is_some();
        if options.infer_timestamp && is_timestamp() { Kind::Timestamp } else { Kind::Text }
    }

    fn schema(self) -> SchemaRef {
        let drop_nulls = self.options.drop_field_if_all_null;
        Arc::new(match data_type(&Kind::Struct(self.root), drop_nulls) {
            Some(DataType::Struct(fields)) => Schema::new(fields),
            _ => Schema::empty(),
        })
    }
}

/// The type of a kind; `None` for what has no fields, or no values and is to be dropped.
fn data_type(kind: &Kind, drop_nulls: bool) -> Option<DataType> {
    Some(match kind {
        Kind::Null if drop_nulls => return None,
        Kind::Null | Kind::Text => DataType::Utf8,
        Kind::Boolean => DataType::Boolean,
        Kind::Long => DataType::Int64,
        Kind::Double => DataType::Float64,
        Kind::Decimal { precision, scale } => DataType::Decimal128(*precision, *scale),
        Kind::Timestamp => DataType::Timestamp(arrow::datatypes::TimeUnit::Microsecond, Some("UTC".into())),
        Kind::Array(element) => DataType::List(Arc::new(Field::new("element", data_type(element, drop_nulls)?, true))),
        Kind::Struct(fields) => {
            let named = fields.iter().filter(|(name, _)| !name.is_empty());
            let fields: Vec<Field> =
                named.filter_map(|(name, kind)| Some(Field::new(name.clone(), data_type(kind, drop_nulls)?, true))).collect();
            if fields.is_empty() {
                return None;
            }
            DataType::Struct(fields.into())
        }
    })
}
