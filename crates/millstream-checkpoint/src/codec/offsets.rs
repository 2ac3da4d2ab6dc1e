//! `offsets/N`: what batch N will do, in Spark's `OffsetSeqLog` format.
//!
//! Version 1: `v1`, a line of JSON, then one line per source in plan order, `-` for a source without data. No line break at the end.
//! Version 2 (read only) has `<source>:` before each source's offset.

use bytes::Bytes;
use millstream_core::recovery::OffsetRecord;
use millstream_core::{Offset, Result};
use serde_json::{Map, Value};

use super::check;
use super::conf::with_defaults;
use super::{Author, Flaw, checked_object, extra_fields, sealed_line, take_long, version_and_body};

const NO_OFFSET: &str = "-";
const SUPPORTED: u64 = 2;

/// The extra field that gives the names of the sources of a version 2 record, in the order of its offsets, where they are named.
pub const SOURCES_FIELD: &str = "sources";

pub(crate) fn encode(record: &OffsetRecord, author: Author) -> Result<Bytes> {
    let conf = with_defaults(&record.conf).into_iter().map(|(key, value)| (key, Value::String(value))).collect();
    let mut known = Map::new();
    known.insert("batchWatermarkMs".into(), record.watermark_ms.into());
    known.insert("batchTimestampMs".into(), record.timestamp_ms.into());
    known.insert("conf".into(), Value::Object(conf));
    let mut head = format!("v1\n{}", sealed_line(known, &record.extra, author)?);
    let mut rest = String::new();
    for offset in &record.offsets {
        rest.push('\n');
        rest.push_str(offset.as_ref().map_or(NO_OFFSET, Offset::as_json));
    }
    check::seal(&mut head, &[Bytes::copy_from_slice(rest.as_bytes())]);
    head.push_str(&rest);
    Ok(head.into())
}

pub(crate) fn decode(bytes: &[u8]) -> Result<OffsetRecord, Flaw> {
    let (version, body) = version_and_body(bytes, SUPPORTED)?;
    let (line, rest) = match body.split_once('\n') {
        Some((line, rest)) => (line, Some(rest)),
        None => (body, None),
    };
    let line_end = bytes.len() - rest.map_or(0, |rest| rest.len() + 1);
    let mut fields = checked_object(bytes, line_end, line)?;
    let watermark_ms = take_long(&mut fields, "batchWatermarkMs")?;
    let timestamp_ms = take_long(&mut fields, "batchTimestampMs")?;
    let conf = match fields.shift_remove("conf") {
        None => Map::new(),
        Some(Value::Object(conf)) => conf,
        Some(other) => return Err(Flaw::Damaged(format!("its conf is {other} and not an object"))),
    };
    let conf = conf
        .into_iter()
        .map(|(key, value)| match value {
            Value::String(value) => Ok((key, value)),
            other => Err(Flaw::Damaged(format!("its conf {key} is {other} and not a text"))),
        })
        .collect::<Result<_, Flaw>>()?;
    let mut extra = extra_fields(fields);
    let lines: Vec<&str> = match rest.map(|rest| rest.strip_suffix('\n').unwrap_or(rest)) {
        None => Vec::new(),
        Some(rest) => rest.split('\n').collect(),
    };
    let offsets = if version == 1 {
        offsets_of(&lines)?
    } else {
        let (names, values) = named(&lines)?;
        if names.iter().any(|name| name.parse::<u64>().is_err()) {
            extra.insert(SOURCES_FIELD.into(), names.into());
        }
        offsets_of(&values)?
    };
    Ok(OffsetRecord { watermark_ms, timestamp_ms, conf, offsets, extra })
}

fn offsets_of(lines: &[&str]) -> Result<Vec<Option<Offset>>, Flaw> {
    let last = lines.len().saturating_sub(1);
    lines
        .iter()
        .enumerate()
        .map(|(index, line)| match *line {
            NO_OFFSET => Ok(None),
            line => Offset::from_json(line).map(Some).map_err(|_| {
                let what = format!("the offset of source {index} is {line:?} and not JSON");
                if index == last { Flaw::Torn(what) } else { Flaw::Damaged(what) }
            }),
        })
        .collect()
}

/// Names and offsets of version 2 lines, in plan order: by number where every source is numbered, as written otherwise.
fn named<'a>(lines: &[&'a str]) -> Result<(Vec<String>, Vec<&'a str>), Flaw> {
    let mut pairs = lines
        .iter()
        .map(|line| line.split_once(':').ok_or_else(|| Flaw::Damaged(format!("its line {line:?} does not name a source"))))
        .collect::<Result<Vec<_>, _>>()?;
    if let Ok(mut numbered) = pairs.iter().map(|pair| pair.0.parse::<u64>().map(|number| (number, *pair))).collect::<Result<Vec<_>, _>>() {
        numbered.sort_by_key(|(number, _)| *number);
        pairs = numbered.into_iter().map(|(_, pair)| pair).collect();
    }
    Ok(pairs.into_iter().map(|(name, offset)| (name.to_owned(), offset)).unzip())
}
