//! `sources/<name>/N` and `N.compact`: `v1`, then one entry per line, no line break at the end, in Spark's `HDFSMetadataLog` format.
//!
//! Where the first entry is a JSON object, the checksum of the file is white space in it, taken out again when it is read. Files of the first
//! releases have it as one more field of the entry, and are read. Entries in another form have no checksum. A batch without entries, which
//! Spark never writes, is a line with nothing but the checksum, as a field.

use bytes::Bytes;
use serde::Deserialize;

use super::check::{self, Seal};
use super::{FACTS, Flaw, version_and_body};

const SUPPORTED: u64 = 1;

/// Encodes `entries` after the entries of earlier files, given as [`body`] returns them. What is large is not copied.
pub(crate) fn encode(earlier: &[Vec<Bytes>], entries: &[String]) -> Vec<Bytes> {
    let own = if entries.is_empty() { Vec::new() } else { vec![Bytes::from(entries.join("\n"))] };
    let texts: Vec<&[Bytes]> = earlier.iter().chain([&own]).map(Vec::as_slice).filter(|text| !text.is_empty()).collect();
    let mut parts = texts.join(&Bytes::from_static(b"\n")).into_iter();
    let Some(first) = parts.next() else {
        let mut head = format!("v1\n{}{}", no_entries(), check::blank_field());
        check::seal(&mut head, &[]);
        return vec![head.into()];
    };
    let end = first.iter().position(|byte| *byte == b'\n').unwrap_or(first.len());
    let mut rest: Vec<Bytes> = [first.slice(end..)].into_iter().chain(parts).collect();
    let head = match std::str::from_utf8(&first[..end]).ok().and_then(|entry| entry.strip_suffix('}')) {
        Some(open) if open.starts_with('{') => check::seal_with_blanks(&format!("v1\n{open}"), &rest).into(),
        _ => [b"v1\n", &first[..end]].concat().into(),
    };
    rest.insert(0, head);
    rest.retain(|part| !part.is_empty());
    rest
}

/// The entries of a file, without checksum: parts that together are the entries joined by line breaks, the first with at least the whole
/// first entry. No part when there are no entries.
pub(crate) fn body(bytes: &Bytes) -> Result<Vec<Bytes>, Flaw> {
    // Spark's Kafka source begins with a zero byte, so that its first releases would not read the file.
    let bytes = &if bytes.starts_with(b"\0v") { bytes.slice(1..) } else { bytes.clone() };
    let (_, body) = version_and_body(bytes, SUPPORTED)?;
    let start = bytes.len() - body.len();
    let line = body.split('\n').next().unwrap_or_default();
    if line.is_empty() {
        return Err(Flaw::Torn("it has no entry".into()));
    }
    let line_end = start + line.len();
    let mark = line.rfind(&facts_open());
    let first = match (check::verify(bytes, line_end), mark) {
        (Seal::CutOff, _) => return Err(Flaw::Torn("it is shorter than it was written".into())),
        (Seal::Changed, _) => return Err(Flaw::Damaged("its checksum does not match".into())),
        (Seal::Absent, Some(mark)) if serde_json::from_str::<serde::de::IgnoredAny>(line).is_err() => {
            let cut = line_end == bytes.len() && line.len() < mark + facts_open().len() + check::FIELD_LENGTH;
            let what = "the checksum of its first entry is incomplete".into();
            return Err(if cut { Flaw::Torn(what) } else { Flaw::Damaged(what) });
        }
        (Seal::Absent, Some(_)) => return Err(Flaw::Damaged("its checksum cannot be found".into())),
        (Seal::Absent, None) => match check::verify_blanks(bytes, line_end) {
            Seal::Absent => return unsealed(bytes.slice(start..)),
            Seal::CutOff => return Err(Flaw::Torn("it is shorter than it was written".into())),
            Seal::Changed => return Err(Flaw::Damaged("its checksum does not match".into())),
            Seal::Intact => {
                let open = check::blanks(bytes, line_end).map_or(line, |blanks| &line[..blanks.start - start]);
                format!("{open}}}")
            }
        },
        (Seal::Intact, None) => return Err(Flaw::Damaged("its checksum is not where it belongs".into())),
        (Seal::Intact, Some(_)) if line.starts_with(&no_entries()) => return Ok(Vec::new()),
        (Seal::Intact, Some(mark)) => format!("{}}}", line[..mark].strip_suffix(',').unwrap_or(&line[..mark])),
    };
    Ok(vec![Bytes::from(first), bytes.slice(line_end..)].into_iter().filter(|part| !part.is_empty()).collect())
}

/// The [`body`] of a file, which is text.
pub(crate) fn text(bytes: &Bytes) -> Result<Vec<Bytes>, Flaw> {
    let parts = body(bytes)?;
    match parts.iter().all(|part| std::str::from_utf8(part).is_ok()) {
        true => Ok(parts),
        false => Err(Flaw::Damaged("it is not UTF-8".into())),
    }
}

/// The entries of a [`text`], one after the other.
pub(crate) fn entries(text: &[Bytes]) -> impl Iterator<Item = &str> {
    let lines = text.iter().flat_map(|part| std::str::from_utf8(part).unwrap_or_default().split('\n'));
    lines.filter(|line| !line.is_empty())
}

/// The entries of a file.
pub(crate) fn decode(bytes: &Bytes) -> Result<Vec<String>, Flaw> {
    let parts = body(bytes)?;
    if parts.is_empty() {
        return Ok(Vec::new());
    }
    let text = String::from_utf8(parts.concat()).map_err(|_| Flaw::Damaged("it is not UTF-8".into()))?;
    Ok(text.split('\n').map(str::to_owned).collect())
}

/// Whether `entry` can be told from a torn one: a line with something in it, and whole JSON where it looks like JSON.
pub(crate) fn is_entry(entry: &str) -> bool {
    !entry.is_empty() && !entry.contains(['\n', '\0']) && is_whole(entry.as_bytes())
}

fn is_whole(line: &[u8]) -> bool {
    !line.starts_with(b"{") || serde_json::from_slice::<serde::de::IgnoredAny>(line).is_ok()
}

/// The batch that an entry says it belongs to, as Spark's file source writes it.
pub(crate) fn batch_of(entry: &str) -> Option<u64> {
    #[derive(Deserialize)]
    struct Entry {
        #[serde(rename = "batchId")]
        batch_id: u64,
    }
    serde_json::from_str::<Entry>(entry).ok().map(|entry| entry.batch_id)
}

fn facts_open() -> String {
    format!("\"{FACTS}\":{{")
}

/// How the line of a batch without entries starts.
fn no_entries() -> String {
    format!("{{{}\"entries\":0,", facts_open())
}

/// A record of Spark's: all that can be seen is whether its first and last entry, where they look like JSON, are whole.
fn unsealed(body: Bytes) -> Result<Vec<Bytes>, Flaw> {
    let body = if body.ends_with(b"\n") { body.slice(..body.len() - 1) } else { body };
    let last = body.rsplit(|byte| *byte == b'\n').next().unwrap_or_default();
    let first = body.split(|byte| *byte == b'\n').next().unwrap_or_default();
    if !is_whole(last) || last.is_empty() {
        return Err(Flaw::Torn("its last entry is cut off".into()));
    }
    if !is_whole(first) {
        return Err(Flaw::Damaged("its first entry is not JSON".into()));
    }
    Ok(vec![body])
}
