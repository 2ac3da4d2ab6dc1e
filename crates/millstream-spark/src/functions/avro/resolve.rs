//! How data of one schema is read as another one: Avro's schema resolution, done once per query.

use serde_json::Value as Json;

use super::schema::{Kind, Logical, RecordField, Schema};
use super::types::{members, widest};

/// How a value is read, and what of it is kept.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Read {
    Null,
    Boolean,
    Int,
    Long,
    Float,
    Double,
    Bytes,
    Text,
    Fixed(usize),
    /// The texts of the symbols; none where the reader does not know one.
    Symbol(Vec<Option<String>>),
    Array(Box<Read>),
    Map(Box<Read>),
    Record {
        /// The fields in the order in which they were written, with their places in the result.
        fields: Vec<(Option<usize>, Read)>,
        /// Fields that were not written: their places, and what they are instead.
        defaults: Vec<(usize, Constant)>,
        /// How many fields the result has.
        width: usize,
    },
    /// One of these, by its number.
    Branch(Vec<Read>),
    /// A member of a union, which is a struct of its members: the place, and how many there are.
    Member(usize, usize, Box<Read>),
    /// A number as a wider one.
    AsLong(Box<Read>),
    AsFloat(Box<Read>),
    AsDouble(Box<Read>),
    /// Milliseconds as microseconds.
    Millis(Box<Read>),
    /// Bytes as a number of at most so many digits.
    Decimal(u32, Box<Read>),
    /// Data that cannot be read as what is asked for: why.
    Never(String),
}

/// A value that a schema gives, as it would be written.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Constant {
    pub(super) written: Vec<u8>,
    pub(super) read: Box<Read>,
}

/// How data that was written with the schema `writer` is read as `reader`.
pub(super) fn resolve(writer: &Schema, reader: &Schema) -> Read {
    if let Kind::Union(branches) = &writer.kind {
        return Read::Branch(branches.iter().map(|branch| resolve(branch, reader)).collect());
    }
    if let Kind::Union(branches) = &reader.kind {
        return as_branch(writer, branches);
    }
    let read = match (&writer.kind, &reader.kind) {
        (Kind::Null, Kind::Null) => Read::Null,
        (Kind::Boolean, Kind::Boolean) => Read::Boolean,
        (Kind::Int, Kind::Int) => Read::Int,
        (Kind::Int, Kind::Long) => Read::AsLong(Box::new(Read::Int)),
        (Kind::Int, Kind::Float) => Read::AsFloat(Box::new(Read::Int)),
        (Kind::Int, Kind::Double) => Read::AsDouble(Box::new(Read::Int)),
        (Kind::Long, Kind::Long) => Read::Long,
        (Kind::Long, Kind::Float) => Read::AsFloat(Box::new(Read::Long)),
        (Kind::Long, Kind::Double) => Read::AsDouble(Box::new(Read::Long)),
        (Kind::Float, Kind::Float) => Read::Float,
        (Kind::Float, Kind::Double) => Read::AsDouble(Box::new(Read::Float)),
        (Kind::Double, Kind::Double) => Read::Double,
        (Kind::Bytes | Kind::String, Kind::Bytes) => Read::Bytes,
        (Kind::Bytes | Kind::String, Kind::String) => Read::Text,
        (Kind::Fixed { name, size }, Kind::Fixed { name: other, size: wanted }) if name == other && size == wanted => Read::Fixed(*size),
        (Kind::Enum { name, symbols, .. }, Kind::Enum { name: other, symbols: known, default }) if name == other => {
            let text = |symbol: &String| if known.contains(symbol) { Some(symbol.clone()) } else { default.clone() };
            Read::Symbol(symbols.iter().map(text).collect())
        }
        (Kind::Array(items), Kind::Array(wanted)) => Read::Array(Box::new(resolve(items, wanted))),
        (Kind::Map(values), Kind::Map(wanted)) => Read::Map(Box::new(resolve(values, wanted))),
        (Kind::Record { fields, .. }, Kind::Record { fields: wanted, .. }) => record(fields, wanted),
        (kind, wanted) => Read::Never(format!("it is {} where {} is asked for", kind.name(), wanted.name())),
    };
    match reader.logical {
        Some(Logical::TimestampMillis | Logical::LocalTimestampMillis) => Read::Millis(Box::new(read)),
        Some(Logical::Decimal(precision, _)) => Read::Decimal(precision, Box::new(read)),
        _ => read,
    }
}

/// Two fields of a record that have the same name but for its case, where that does not count.
pub(super) fn twins(schema: &Schema) -> Option<&str> {
    match &schema.kind {
        Kind::Array(inner) | Kind::Map(inner) => twins(inner),
        Kind::Union(branches) => branches.iter().find_map(twins),
        Kind::Record { fields, .. } => {
            let same = |field: &RecordField, other: &RecordField| field.name.to_lowercase() == other.name.to_lowercase();
            let twice = fields.iter().enumerate().find(|(place, field)| fields.iter().take(*place).any(|other| same(field, other)));
            twice.map(|(_, field)| field.name.as_str()).or_else(|| fields.iter().find_map(|field| twins(&field.schema)))
        }
        _ => None,
    }
}

/// A value as that of a union: the branch of its own type, otherwise the first that it can become.
fn as_branch(writer: &Schema, branches: &[Schema]) -> Read {
    let same = |branch: &&Schema| {
        let is_record = matches!((&writer.kind, &branch.kind), (Kind::Record { .. }, Kind::Record { .. }));
        is_record && branches.iter().filter(|branch| matches!(branch.kind, Kind::Record { .. })).count() == 1
            || branch.kind.name() == writer.kind.name()
    };
    let fits = |branch: &&Schema| !matches!(resolve(writer, branch), Read::Never(_));
    let Some(branch) = branches.iter().find(same).or_else(|| branches.iter().find(fits)) else {
        return Read::Never(format!("it is {}, which the union that is asked for does not have", writer.kind.name()));
    };
    let read = resolve(writer, branch);
    let members = members(branches);
    if branch.kind == Kind::Null || members.len() == 1 {
        return read;
    }
    match widest(&members).map(|widest| &widest.kind) {
        Some(Kind::Long) => Read::AsLong(Box::new(read)),
        Some(_) => Read::AsDouble(Box::new(read)),
        None => match members.iter().position(|member| *member == branch) {
            Some(place) => Read::Member(place, members.len(), Box::new(read)),
            None => read,
        },
    }
}

fn record(written: &[RecordField], wanted: &[RecordField]) -> Read {
    let means = |field: &RecordField, written: &RecordField| field.name == written.name || field.aliases.contains(&written.name);
    let fields = written.iter().map(|field| match wanted.iter().position(|wanted| means(wanted, field)) {
        Some(place) => (Some(place), wanted.get(place).map_or(Read::Null, |wanted| resolve(&field.schema, &wanted.schema))),
        None => (None, resolve(&field.schema, &field.schema)),
    });
    let fields = fields.collect();
    let mut defaults = Vec::new();
    for (place, field) in wanted.iter().enumerate() {
        if written.iter().any(|written| means(field, written)) {
            continue;
        }
        let mut bytes = Vec::new();
        match &field.default {
            Some(default) if constant(default, &field.schema, &mut bytes).is_some() => {
                let read = Box::new(resolve(&field.schema, &field.schema));
                defaults.push((place, Constant { written: bytes, read }));
            }
            _ => return Read::Never(format!("the field '{}' was not written and has no proper default", field.name)),
        }
    }
    Read::Record { fields, defaults, width: wanted.len() }
}

/// Writes a default. Nothing where it does not fit its type.
fn constant(default: &Json, schema: &Schema, out: &mut Vec<u8>) -> Option<()> {
    match (&schema.kind, default) {
        (Kind::Null, Json::Null) => {}
        (Kind::Boolean, Json::Bool(value)) => out.push(u8::from(*value)),
        (Kind::Int, Json::Number(number)) => put_long(out, i64::from(i32::try_from(number.as_i64()?).ok()?)),
        (Kind::Long, Json::Number(number)) => put_long(out, number.as_i64()?),
        #[expect(clippy::cast_possible_truncation, reason = "Avro reads the default of a float as a double")]
        (Kind::Float, Json::Number(number)) => out.extend((number.as_f64()? as f32).to_le_bytes()),
        (Kind::Double, Json::Number(number)) => out.extend(number.as_f64()?.to_le_bytes()),
        (Kind::String, Json::String(text)) => put_bytes(out, text.as_bytes()),
        (Kind::Bytes, Json::String(text)) => put_bytes(out, &latin(text)?),
        (Kind::Fixed { size, .. }, Json::String(text)) => {
            let bytes = latin(text)?;
            (bytes.len() == *size).then_some(())?;
            out.extend(bytes);
        }
        (Kind::Enum { symbols, .. }, Json::String(text)) => {
            put_long(out, i64::try_from(symbols.iter().position(|symbol| symbol == text)?).ok()?);
        }
        (Kind::Array(items), Json::Array(values)) => {
            if !values.is_empty() {
                put_long(out, i64::try_from(values.len()).ok()?);
                values.iter().try_for_each(|value| constant(value, items, out))?;
            }
            put_long(out, 0);
        }
        (Kind::Map(schema), Json::Object(values)) => {
            if !values.is_empty() {
                put_long(out, i64::try_from(values.len()).ok()?);
                for (key, value) in values {
                    put_bytes(out, key.as_bytes());
                    constant(value, schema, out)?;
                }
            }
            put_long(out, 0);
        }
        (Kind::Record { fields, .. }, Json::Object(values)) => {
            for field in fields {
                constant(values.get(&field.name).or(field.default.as_ref())?, &field.schema, out)?;
            }
        }
        (Kind::Union(branches), default) => {
            for (place, branch) in branches.iter().enumerate() {
                let mut written = Vec::new();
                if constant(default, branch, &mut written).is_some() {
                    put_long(out, i64::try_from(place).ok()?);
                    out.extend(written);
                    return Some(());
                }
            }
            return None;
        }
        _ => return None,
    }
    Some(())
}

/// The bytes of a default: a character for each.
fn latin(text: &str) -> Option<Vec<u8>> {
    text.chars().map(|character| u8::try_from(u32::from(character)).ok()).collect()
}

/// Writes a number as Avro does: small ones in few bytes.
#[expect(clippy::cast_sign_loss, reason = "the sign goes to the last bit")]
pub(super) fn put_long(out: &mut Vec<u8>, value: i64) {
    let mut rest = ((value << 1) ^ (value >> 63)) as u64;
    while rest > 0x7f {
        out.push((rest & 0x7f) as u8 | 0x80);
        rest >>= 7;
    }
    out.push((rest & 0x7f) as u8);
}

/// Writes bytes behind their number.
pub(super) fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put_long(out, i64::try_from(bytes.len()).unwrap_or(i64::MAX));
    out.extend_from_slice(bytes);
}
