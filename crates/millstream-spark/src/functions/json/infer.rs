//! `schema_of_json`: the type of a text, by the rules of reading JSON files without a schema.

use millstream_core::json::{Cursor, Fault, Fields, Kind, decimal, merge, unescape};

use std::sync::Arc;

use arrow::datatypes::{DataType, Field, Fields as ArrowFields};

use super::options::JsonOptions;
use crate::types::timestamp;

/// The type of the value that a text is.
///
/// # Errors
/// When the text is no JSON.
pub(super) fn infer(text: &str, options: &JsonOptions) -> Result<DataType, Fault> {
    let mut cursor = Cursor::new(text.as_bytes(), &options.syntax);
    if cursor.next_token()?.is_none() {
        return Ok(DataType::Utf8);
    }
    let kind = Inference { options, scratch: Vec::new() }.kind(&mut cursor)?;
    let drop_nulls = options.drop_field_if_all_null;
    let empty = || DataType::Struct(ArrowFields::empty());
    Ok(match &kind {
        Kind::Struct(_) => data_type(&kind, drop_nulls).unwrap_or_else(empty),
        Kind::Array(element) if matches!(**element, Kind::Struct(_)) => {
            let element = data_type(element, drop_nulls).unwrap_or_else(empty);
            DataType::List(Arc::new(Field::new("element", element, true)))
        }
        _ => data_type(&kind, drop_nulls).unwrap_or(DataType::Utf8),
    })
}

struct Inference<'o> {
    options: &'o JsonOptions,
    scratch: Vec<u8>,
}

impl Inference<'_> {
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
                    let name = super::name_of(cursor)?;
                    cursor.colon()?;
                    let kind = self.kind(cursor)?;
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
        Kind::Timestamp => timestamp(),
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

/// The precision and scale that a decimal number is written with, as Java's `BigDecimal` counts them (`1e5` has scale -5).
pub(crate) fn decimal_shape(text: &[u8]) -> Option<(i64, i64)> {
    let text = std::str::from_utf8(text).ok()?;
    let text = text.strip_prefix(['-', '+']).unwrap_or(text);
    let (mantissa, exponent) = match text.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, exponent.parse::<i32>().ok()?),
        None => (text, 0),
    };
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    if whole.is_empty() && fraction.is_empty() || !whole.bytes().chain(fraction.bytes()).all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let significant = whole.bytes().chain(fraction.bytes()).skip_while(|byte| *byte == b'0').count();
    Some((i64::try_from(significant.max(1)).ok()?, i64::try_from(fraction.len()).ok()? - i64::from(exponent)))
}
