//! Avro schemas, from their JSON.

use std::collections::HashMap;

use serde_json::{Map, Value};

/// The most types that one schema may unfold to. A few lines of JSON that refer to each other can ask for billions.
const MAX_TYPES: usize = 10_000;

/// An Avro type with what Spark knows of its logical type; references to named types are resolved.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Schema {
    pub(super) kind: Kind,
    pub(super) logical: Option<Logical>,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Kind {
    Null,
    Boolean,
    Int,
    Long,
    Float,
    Double,
    Bytes,
    String,
    Fixed { name: String, size: usize },
    Enum { name: String, symbols: Vec<String>, default: Option<String> },
    Array(Box<Schema>),
    Map(Box<Schema>),
    Union(Vec<Schema>),
    Record { name: String, fields: Vec<RecordField> },
}

#[derive(Clone, Debug, PartialEq)]
pub(super) struct RecordField {
    pub(super) name: String,
    pub(super) aliases: Vec<String>,
    pub(super) schema: Schema,
    pub(super) default: Option<Value>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Logical {
    Date,
    TimeMicros,
    TimestampMillis,
    TimestampMicros,
    LocalTimestampMillis,
    LocalTimestampMicros,
    /// Digits in all, and behind the point.
    Decimal(u32, u32),
}

impl Kind {
    /// The name by which a branch of a union is told, and a member of a union in Spark.
    pub(super) fn name(&self) -> &str {
        match self {
            Kind::Null => "null",
            Kind::Boolean => "boolean",
            Kind::Int => "int",
            Kind::Long => "long",
            Kind::Float => "float",
            Kind::Double => "double",
            Kind::Bytes => "bytes",
            Kind::String => "string",
            Kind::Array(_) => "array",
            Kind::Map(_) => "map",
            Kind::Union(_) => "union",
            Kind::Fixed { name, .. } | Kind::Enum { name, .. } | Kind::Record { name, .. } => name,
        }
    }
}

impl From<Kind> for Schema {
    fn from(kind: Kind) -> Self {
        Schema { kind, logical: None }
    }
}

/// Reads a schema.
///
/// # Errors
/// What is wrong with it, for people.
pub(super) fn parse(json: &str) -> Result<Schema, String> {
    let value: Value = serde_json::from_str(json).map_err(|error| format!("the Avro schema is no JSON: {error}"))?;
    Parser { named: HashMap::new(), types: 0 }.parse(&value, "")
}

struct Parser {
    /// Named types by full name with how many types they unfold to; `None` while one is being read.
    named: HashMap<String, Option<(Schema, usize)>>,
    types: usize,
}

impl Parser {
    fn parse(&mut self, value: &Value, namespace: &str) -> Result<Schema, String> {
        self.count(1)?;
        match value {
            Value::String(name) => self.by_name(name, namespace),
            Value::Array(branches) => {
                let branches = branches.iter().map(|branch| self.parse(branch, namespace)).collect::<Result<Vec<_>, _>>()?;
                for (place, branch) in branches.iter().enumerate() {
                    let is_twice = branches.iter().take(place).any(|other| other.kind.name() == branch.kind.name());
                    if is_twice || matches!(branch.kind, Kind::Union(_)) {
                        return Err(format!("a union of the Avro schema must not have '{}' in it again", branch.kind.name()));
                    }
                }
                Ok(Kind::Union(branches).into())
            }
            Value::Object(object) => self.object(object, namespace),
            other => Err(format!("an Avro type cannot be {other}")),
        }
    }

    fn count(&mut self, types: usize) -> Result<(), String> {
        self.types = self.types.saturating_add(types);
        if self.types > MAX_TYPES { Err(format!("the Avro schema has more than {MAX_TYPES} types")) } else { Ok(()) }
    }

    fn by_name(&mut self, name: &str, namespace: &str) -> Result<Schema, String> {
        if let Some(primitive) = primitive(name) {
            return Ok(primitive.into());
        }
        let known = self.named.get(&full_name(name, namespace)).or_else(|| self.named.get(name)).cloned();
        match known {
            Some(Some((schema, types))) => self.count(types).map(|()| schema),
            Some(None) => Err(format!("the Avro type '{name}' refers to itself, which no column type can express")),
            None => Err(format!("the Avro schema names a type '{name}' that it does not define")),
        }
    }

    fn object(&mut self, object: &Map<String, Value>, namespace: &str) -> Result<Schema, String> {
        let kind = match object.get("type") {
            Some(Value::String(kind)) => kind.as_str(),
            Some(nested) => return self.parse(nested, namespace),
            None => return Err("a part of the Avro schema has no 'type'".to_owned()),
        };
        let kind = match kind {
            "record" | "error" | "enum" | "fixed" => return self.named_type(kind, object, namespace),
            "array" => Kind::Array(Box::new(self.parse(part(object, "items")?, namespace)?)),
            "map" => Kind::Map(Box::new(self.parse(part(object, "values")?, namespace)?)),
            other => match primitive(other) {
                Some(primitive) => primitive,
                None => return self.by_name(other, namespace),
            },
        };
        Ok(Schema { logical: logical(&kind, object), kind })
    }

    fn named_type(&mut self, kind: &str, object: &Map<String, Value>, namespace: &str) -> Result<Schema, String> {
        let name = text(object, "name")?;
        let namespace = match (name.rsplit_once('.'), object.get("namespace").and_then(Value::as_str)) {
            (Some((namespace, _)), _) => namespace,
            (None, Some(own)) => own,
            (None, None) => namespace,
        };
        let name = full_name(name, namespace);
        let before = self.types;
        if self.named.insert(name.clone(), None).is_some() {
            return Err(format!("the Avro schema defines '{name}' twice"));
        }
        let kind = match kind {
            "enum" => enumeration(name.clone(), object)?,
            "fixed" => {
                let size = object.get("size").and_then(Value::as_u64).and_then(|size| i32::try_from(size).ok());
                let size = size.and_then(|size| usize::try_from(size).ok()).ok_or("an Avro fixed type has no proper 'size'")?;
                Kind::Fixed { name: name.clone(), size }
            }
            _ => {
                let Some(Value::Array(fields)) = object.get("fields") else {
                    return Err(format!("the Avro record '{name}' has no 'fields'"));
                };
                let fields: Vec<RecordField> = fields.iter().map(|field| self.field(field, namespace)).collect::<Result<_, _>>()?;
                for (place, field) in fields.iter().enumerate() {
                    if fields.iter().take(place).any(|other| other.name == field.name) {
                        return Err(format!("the Avro record '{name}' has the field '{}' twice", field.name));
                    }
                }
                Kind::Record { name: name.clone(), fields }
            }
        };
        let schema = Schema { logical: logical(&kind, object), kind };
        self.named.insert(name, Some((schema.clone(), self.types - before)));
        Ok(schema)
    }

    fn field(&mut self, field: &Value, namespace: &str) -> Result<RecordField, String> {
        let Value::Object(field) = field else { return Err("a field of an Avro record is no object".to_owned()) };
        let aliases = field.get("aliases").and_then(Value::as_array);
        Ok(RecordField {
            name: text(field, "name")?.to_owned(),
            aliases: aliases.into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect(),
            schema: self.parse(part(field, "type")?, namespace)?,
            default: field.get("default").cloned(),
        })
    }
}

fn enumeration(name: String, object: &Map<String, Value>) -> Result<Kind, String> {
    let Some(Value::Array(symbols)) = object.get("symbols") else { return Err(format!("the Avro enum '{name}' has no 'symbols'")) };
    let symbols = symbols.iter().map(|symbol| symbol.as_str().map(str::to_owned)).collect::<Option<Vec<String>>>();
    let symbols = symbols.ok_or_else(|| format!("a symbol of the Avro enum '{name}' is no text"))?;
    Ok(Kind::Enum { name, symbols, default: object.get("default").and_then(Value::as_str).map(str::to_owned) })
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

fn primitive(name: &str) -> Option<Kind> {
    let all = [Kind::Null, Kind::Boolean, Kind::Int, Kind::Long, Kind::Float, Kind::Double, Kind::Bytes, Kind::String];
    all.into_iter().find(|kind| kind.name() == name)
}

/// The logical type; one that does not fit, or that Spark does not know, changes nothing, as the Avro specification asks.
fn logical(kind: &Kind, object: &Map<String, Value>) -> Option<Logical> {
    let digits = |key: &str| object.get(key).and_then(Value::as_u64).and_then(|digits| u32::try_from(digits).ok());
    Some(match (kind, object.get("logicalType")?.as_str()?) {
        (Kind::Int, "date") => Logical::Date,
        (Kind::Long, "time-micros") => Logical::TimeMicros,
        (Kind::Long, "timestamp-millis") => Logical::TimestampMillis,
        (Kind::Long, "timestamp-micros") => Logical::TimestampMicros,
        (Kind::Long, "local-timestamp-millis") => Logical::LocalTimestampMillis,
        (Kind::Long, "local-timestamp-micros") => Logical::LocalTimestampMicros,
        (Kind::Bytes | Kind::Fixed { .. }, "decimal") => {
            let (precision, scale) = (digits("precision")?, digits("scale").unwrap_or(0));
            let room = if let Kind::Fixed { size, .. } = kind { digits_of(*size) } else { u32::MAX };
            if precision == 0 || scale > precision || precision > room {
                return None;
            }
            Logical::Decimal(precision, scale)
        }
        _ => return None,
    })
}

/// How many decimal digits every number of that many bytes has room for.
fn digits_of(bytes: usize) -> u32 {
    match u32::try_from(bytes) {
        Ok(bytes @ 1..=15) => (2_i128.pow(8 * bytes - 1) - 1).ilog10(),
        Ok(0) => 0,
        _ => 38,
    }
}
