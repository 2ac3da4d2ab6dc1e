//! `commits/N`: batch N is done, in Spark's `CommitLog` format.
//!
//! Version 1 is `v1` and a line of JSON without a line break at the end. Versions 2 and 3 (read only) have more fields, which are kept.

use bytes::Bytes;
use millstream_core::Result;
use millstream_core::recovery::CommitRecord;
use serde_json::Map;

use super::check;
use super::{Author, Flaw, checked_object, extra_fields, sealed_line, take_long, version_and_body};

const SUPPORTED: u64 = 3;

pub(crate) fn encode(record: &CommitRecord, author: Author) -> Result<Bytes> {
    let mut known = Map::new();
    known.insert("nextBatchWatermarkMs".into(), record.next_watermark_ms.into());
    let mut text = format!("v1\n{}", sealed_line(known, &record.extra, author)?);
    check::seal(&mut text, &[]);
    Ok(text.into())
}

pub(crate) fn decode(bytes: &[u8]) -> Result<CommitRecord, Flaw> {
    let (_, body) = version_and_body(bytes, SUPPORTED)?;
    let line = body.strip_suffix('\n').unwrap_or(body);
    let line_end = bytes.len() - (body.len() - line.len());
    let mut fields = checked_object(bytes, line_end, line)?;
    let next_watermark_ms = take_long(&mut fields, "nextBatchWatermarkMs")?;
    Ok(CommitRecord { next_watermark_ms, extra: extra_fields(fields) })
}
