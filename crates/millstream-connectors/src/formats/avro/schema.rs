//! Avro schemas: from JSON to types.

use std::collections::HashMap;
use std::sync::Arc;

use serde_json::{Map, Value};

/// The most types that one schema may unfold to. A few lines of JSON that refer to each other can ask for billions.
const MAX_TYPES: usize = 10_000;

/// An Avro type, with references to named types resolved.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Type {
    Null,
    Boolean,
    Int,
    Long,
    Float,
    Double,
    Bytes,
    String,
    Fixed(usize),
    Enum,
    /// `int` with the logical type `date`.
    Date,
    /// `long` with a logical type of milliseconds: an instant (`true`) or a local time.
    TimestampMillis(bool),
    /// `long` with a logical type of microseconds: an instant (`true`) or a local time.
    TimestampMicros(bool),
    /// `bytes`, or `fixed` of that size, with the logical type `decimal`.
    Decimal {
        precision: u8,
        scale: i8,
        fixed: Option<usize>,
    },
    /// `int` or `long` with a logical type of the time of day, which Spark does not have.
    TimeOfDay {
        long: bool,
    },
    Array(Arc<Type>),
    Map(Arc<Type>),
    Union(Vec<Arc<Type>>),
    Record(Vec<(String, Arc<Type>)>),
}

/// Reads a schema.
///
/// # Errors
/// What is wrong with it, for people.
pub(super) fn parse(json: &str) -> Result<(Arc<Type>, Value), String> {
    let value: Value = serde_json::from_str(json).map_err(|error| format!("the Avro schema is not JSON: {error}"))?;
    let mut parser = Parser { named: HashMap::new(), types: 0 };
    let parsed = parser.parse(&value, "")?;
    Ok((parsed, value))
}

struct Parser {
    /// Named types by full name with how many types they unfold to; `None` while one is being read.
    named: HashMap<String, Option<(Arc<Type>, usize)>>,
    types: usize,
}

impl Parser {
    fn parse(&mut self, value: &Value, namespace: &str) -> Result<Arc<Type>, String> {
        self.types += 1;
        self.check_size()?;
        match value {
            Value::String(name) => self.by_name(name, namespace),
            Value::Array(branches) => {
                let branches = branches.iter().map(|branch| self.parse(branch, namespace)).collect::<Result<_, _>>()?;
                Ok(Arc::new(Type::Union(branches)))
            }
            Value::Object(object) => self.object(object, namespace),
            other => Err(format!("an Avro type cannot be {other}")),
        }
    }

    fn check_size(&self) -> Result<(), String> {
        if self.types > MAX_TYPES { Err(format!("the Avro schema has more than {MAX_TYPES} types")) } else { Ok(()) }
    }

    fn by_name(&mut self, name: &str, namespace: &str) -> Result<Arc<Type>, String> {
        if let Some(primitive) = primitive(name) {
            return Ok(Arc::new(primitive));
        }
        match self.named.get(&full_name(name, namespace)).or_else(|| self.named.get(name)) {
            Some(Some((known, types))) => {
                self.types += types;
                self.check_size()?;
                Ok(known.clone())
            }
            Some(None) => Err(format!("the Avro type '{name}' refers to itself, which no column type can express")),
            None => Err(format!("the Avro schema names a type '{name}' that it does not define")),
        }
    }

    fn object(&mut self, object: &Map<String, Value>, namespace: &str) -> Result<Arc<Type>, String> {
        let kind = match object.get("type") {
            Some(Value::String(kind)) => kind.as_str(),
            Some(nested) => return self.parse(nested, namespace),
            None => return Err("an Avro type has no 'type'".to_owned()),
        };
        match kind {
            "record" | "error" | "enum" | "fixed" => self.named_type(kind, object, namespace),
            "array" => Ok(Arc::new(Type::Array(self.parse(part(object, "items")?, namespace)?))),
            "map" => Ok(Arc::new(Type::Map(self.parse(part(object, "values")?, namespace)?))),
            other => match (primitive(other), logical(object)) {
                (Some(base), Some(logical)) => Ok(Arc::new(with_logical(base, logical, object))),
                (Some(base), None) => Ok(Arc::new(base)),
                (None, _) => self.by_name(other, namespace),
            },
        }
    }

    fn named_type(&mut self, kind: &str, object: &Map<String, Value>, namespace: &str) -> Result<Arc<Type>, String> {
        let name = text(object, "name")?;
        let namespace = match (name.rsplit_once('.'), object.get("namespace").and_then(Value::as_str)) {
            (Some((namespace, _)), _) => namespace,
            (None, Some(own)) => own,
            (None, None) => namespace,
        };
        let name = full_name(name, namespace);
        let before = self.types;
        self.named.insert(name.clone(), None);
        let parsed = match kind {
            "enum" => Type::Enum,
            "fixed" => self.fixed(object)?,
            _ => {
                let Some(Value::Array(fields)) = object.get("fields") else {
                    return Err(format!("the Avro record '{name}' has no fields"));
                };
                let fields = fields.iter().map(|field| match field {
                    Value::Object(field) => Ok((text(field, "name")?.to_owned(), self.parse(part(field, "type")?, namespace)?)),
                    _ => Err(format!("a field of the Avro record '{name}' is no object")),
                });
                Type::Record(fields.collect::<Result<_, _>>()?)
            }
        };
        let parsed = Arc::new(parsed);
        self.named.insert(name, Some((parsed.clone(), self.types - before)));
        Ok(parsed)
    }

    fn fixed(&self, object: &Map<String, Value>) -> Result<Type, String> {
        let size = object
            .get("size")
            .and_then(Value::as_u64)
            .and_then(|size| i32::try_from(size).ok())
            .and_then(|size| usize::try_from(size).ok());
        let size = size.ok_or("an Avro fixed type has no proper size")?;
        let base = Type::Fixed(size);
        Ok(match logical(object) {
            Some(logical) => with_logical(base, logical, object),
            None => base,
        })
    }
}

fn full_name(name: &str, namespace: &str) -> String {
    if namespace.is_empty() || name.contains('.') { name.to_owned() } else { format!("{namespace}.{name}") }
}

fn part<'a>(object: &'a Map<String, Value>, key: &str) -> Result<&'a Value, String> {
    object.get(key).ok_or_else(|| format!("a part of the Avro schema has no '{key}'"))
}

fn text<'a>(object: &'a Map<String, Value>, key: &str) -> Result<&'a str, String> {
    part(object, key)?.as_str().ok_or_else(|| format!("'{key}' in the Avro schema is no text"))
}

fn logical(object: &Map<String, Value>) -> Option<&str> {
    object.get("logicalType").and_then(Value::as_str)
}

fn primitive(name: &str) -> Option<Type> {
    Some(match name {
        "null" => Type::Null,
        "boolean" => Type::Boolean,
        "int" => Type::Int,
        "long" => Type::Long,
        "float" => Type::Float,
        "double" => Type::Double,
        "bytes" => Type::Bytes,
        "string" => Type::String,
        _ => return None,
    })
}

/// The type with its logical type; one that does not fit or is not known changes nothing, as the Avro specification asks.
fn with_logical(base: Type, logical: &str, object: &Map<String, Value>) -> Type {
    match (&base, logical) {
        (Type::Int, "date") => Type::Date,
        (Type::Int, "time-millis") => Type::TimeOfDay { long: false },
        (Type::Long, "time-micros") => Type::TimeOfDay { long: true },
        (Type::Long, "timestamp-millis") => Type::TimestampMillis(true),
        (Type::Long, "local-timestamp-millis") => Type::TimestampMillis(false),
        (Type::Long, "timestamp-micros") => Type::TimestampMicros(true),
        (Type::Long, "local-timestamp-micros") => Type::TimestampMicros(false),
        (Type::Bytes | Type::Fixed(_), "decimal") => {
            let precision = object.get("precision").and_then(Value::as_u64).and_then(|digits| u8::try_from(digits).ok());
            let scale = object.get("scale").map_or(Some(0), Value::as_u64).and_then(|digits| u8::try_from(digits).ok());
            match (precision, scale) {
                (Some(precision @ 1..=38), Some(scale)) if scale <= precision => {
                    let fixed = if let Type::Fixed(size) = base { Some(size) } else { None };
                    Type::Decimal { precision, scale: i8::try_from(scale).unwrap_or(0), fixed }
                }
                _ => base,
            }
        }
        _ => base,
    }
}

/// The schema without what decoding does not need or would read otherwise than Spark: logical types that Spark does not know (a UUID stays
/// text), comments, and, in a writer's schema, aliases and defaults.
pub(super) fn bare(schema: &Value, writer: bool) -> Value {
    match schema {
        Value::Array(items) => Value::Array(items.iter().map(|item| bare(item, writer)).collect()),
        Value::Object(object) => {
            let mut kept = Map::new();
            for (key, value) in object {
                match key.as_str() {
                    "doc" | "order" | "java-class" | "avro.java.string" => {}
                    "aliases" | "default" if writer => {}
                    "default" | "aliases" | "symbols" | "name" | "namespace" => drop(kept.insert(key.clone(), value.clone())),
                    "logicalType" if !keeps_logical(object) => {}
                    _ => drop(kept.insert(key.clone(), bare(value, writer))),
                }
            }
            Value::Object(kept)
        }
        other => other.clone(),
    }
}

fn keeps_logical(object: &Map<String, Value>) -> bool {
    let base = match object.get("type").and_then(Value::as_str) {
        Some("fixed") => Type::Fixed(0),
        Some(kind) => primitive(kind).unwrap_or(Type::Null),
        None => Type::Null,
    };
    let typed = with_logical(base.clone(), logical(object).unwrap_or_default(), object);
    typed != base && !matches!(typed, Type::TimeOfDay { .. })
}
