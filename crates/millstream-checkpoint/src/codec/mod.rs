//! The text of every file of a checkpoint.
//!
//! `metadata`, `offsets/N`, `commits/N` and `sources/<name>/N` are Spark's formats, so that either program can go on where the other
//! stopped. What Spark has no field for is in one extra JSON object under the key [`FACTS`], which Spark ignores.

pub(crate) mod boundary;
pub(crate) mod check;
pub(crate) mod commits;
pub(crate) mod conf;
pub(crate) mod epoch;
pub(crate) mod lines;
pub(crate) mod metadata;
pub(crate) mod offsets;

use std::collections::BTreeMap;

use millstream_core::{Error, Result};
use serde_json::{Map, Value};
use uuid::Uuid;

use check::Seal;

/// The JSON field that holds everything of ours in a record in Spark's format.
pub const FACTS: &str = "millstream";

/// Fields of [`FACTS`] that the checkpoint itself writes; whatever a caller puts there is replaced.
const RESERVED: [&str; 3] = ["epoch", "writer", "check"];

/// Why the text of a record cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Flaw {
    /// The write that made it never completed: it is empty, cut off, or partly zeros.
    Torn(String),
    /// It is complete, and it is not what was written.
    Damaged(String),
    /// It does not begin with a version: it is something else.
    Malformed(String),
    /// It was written in a version of the format that this program does not know.
    Version { found: u64, supported: u64 },
}

/// Who wrote a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Author {
    pub epoch: u64,
    pub writer: Uuid,
}

impl Author {
    /// The author that a record read back names, if it names one.
    pub fn of(extra: &BTreeMap<String, Value>) -> Option<Author> {
        let facts = extra.get(FACTS)?;
        Some(Author { epoch: facts.get("epoch")?.as_u64()?, writer: facts.get("writer")?.as_str()?.parse().ok()? })
    }

    /// `extra` without its author, for comparing what two authors wrote.
    pub fn strip(extra: &mut BTreeMap<String, Value>) {
        if let Some(Value::Object(facts)) = extra.get_mut(FACTS) {
            RESERVED.iter().for_each(|field| drop(facts.shift_remove(*field)));
            if facts.is_empty() {
                extra.remove(FACTS);
            }
        }
    }
}

/// The text of a record.
fn text_of(bytes: &[u8]) -> Result<&str, Flaw> {
    if bytes.is_empty() {
        return Err(Flaw::Torn("it is empty".into()));
    }
    if bytes.contains(&0) {
        return Err(Flaw::Torn("it contains zero bytes".into()));
    }
    std::str::from_utf8(bytes).map_err(|error| match error.error_len() {
        None => Flaw::Torn("it ends in the middle of a character".into()),
        Some(_) => Flaw::Damaged("it is not UTF-8".into()),
    })
}

/// Splits a log file into its version and the text after the version line.
fn version_and_body(bytes: &[u8], supported: u64) -> Result<(u64, &str), Flaw> {
    let text = text_of(bytes)?;
    let Some((version, body)) = text.split_once('\n') else {
        let cut_off = text.strip_prefix('v').is_some_and(|digits| digits.bytes().all(|byte| byte.is_ascii_digit()));
        return Err(if cut_off { Flaw::Torn("it has only one line".into()) } else { no_version(text) });
    };
    match version.strip_prefix('v').and_then(|digits| digits.parse::<u64>().ok()) {
        Some(found) if found > supported => Err(Flaw::Version { found, supported }),
        Some(found) if found > 0 => Ok((found, body)),
        _ => Err(no_version(version)),
    }
}

fn no_version(line: &str) -> Flaw {
    Flaw::Malformed(format!("its first line is {line:?} and not a version"))
}

/// Parses the JSON object in `line`, which is `record[..line_end]`'s last line, after comparing the checksum of the whole record.
fn checked_object(record: &[u8], line_end: usize, line: &str) -> Result<Map<String, Value>, Flaw> {
    let seal = check::verify(record, line_end);
    match seal {
        Seal::CutOff => return Err(Flaw::Torn("it is shorter than it was written".into())),
        Seal::Changed => return Err(Flaw::Damaged("its checksum does not match".into())),
        Seal::Absent | Seal::Intact => {}
    }
    match serde_json::from_str::<Value>(line) {
        Ok(Value::Object(fields)) if seal == Seal::Absent && fields.contains_key(FACTS) => {
            Err(Flaw::Damaged(format!("its {FACTS} field has no checksum")))
        }
        Ok(Value::Object(fields)) => Ok(fields),
        Ok(_) => Err(Flaw::Damaged("it is not a JSON object".into())),
        Err(error) if error.is_eof() && line_end == record.len() => Err(Flaw::Torn("its JSON is cut off".into())),
        Err(error) => Err(Flaw::Damaged(format!("its JSON is wrong: {error}"))),
    }
}

/// Takes an integer field out of a record, `0` when it is missing as in Spark.
fn take_long(fields: &mut Map<String, Value>, name: &str) -> Result<i64, Flaw> {
    match fields.shift_remove(name) {
        None => Ok(0),
        Some(value) => value.as_i64().ok_or_else(|| Flaw::Damaged(format!("its field {name} is {value} and not a long"))),
    }
}

/// What is left of a record's fields once the known ones are taken out, without the checksum.
fn extra_fields(mut fields: Map<String, Value>) -> BTreeMap<String, Value> {
    if let Some(Value::Object(facts)) = fields.get_mut(FACTS) {
        facts.shift_remove("check");
    }
    fields.into_iter().collect()
}

/// The JSON line of a record: `known` fields, the caller's `extra` ones, and last our facts with a blank checksum.
fn sealed_line(known: Map<String, Value>, extra: &BTreeMap<String, Value>, author: Author) -> Result<String> {
    let mut fields = known;
    for (name, value) in extra.iter().filter(|(name, _)| *name != FACTS) {
        if fields.contains_key(name) {
            return Err(Error::internal(format!("the extra field {name} of a checkpoint record is one of its own fields")));
        }
        fields.insert(name.clone(), value.clone());
    }
    let mut facts = match extra.get(FACTS) {
        None => Map::new(),
        Some(Value::Object(facts)) => facts.clone(),
        Some(other) => return Err(Error::internal(format!("the {FACTS} field of a checkpoint record is {other} and not an object"))),
    };
    RESERVED.iter().for_each(|field| drop(facts.shift_remove(*field)));
    facts.insert("epoch".into(), author.epoch.into());
    facts.insert("writer".into(), author.writer.to_string().into());
    fields.insert(FACTS.into(), Value::Object(facts));
    let mut line = Value::Object(fields).to_string();
    line.truncate(line.len() - 2);
    line.push(',');
    line.push_str(&check::blank_field());
    Ok(line)
}

#[cfg(test)]
mod tests;
