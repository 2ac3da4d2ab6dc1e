//! The table that Spark's `show` draws.

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use millstream_core::Result;

use crate::formats::write::spark_text::{Style, TextOf};

/// Values longer than this are cut when truncating.
const CUT: usize = 20;

/// A table of the first `limit` rows. Cut values are aligned to the right, whole ones to the left.
pub(super) fn table(schema: &SchemaRef, batches: &[RecordBatch], limit: usize, truncate: bool, style: &Style) -> Result<String> {
    let mut rows: Vec<Vec<String>> = vec![schema.fields().iter().map(|field| cell(field.name(), truncate)).collect()];
    let mut more = false;
    'batches: for batch in batches {
        let columns = batch.columns().iter().map(|column| TextOf::new(column, style)).collect::<Result<Vec<_>>>()?;
        for row in 0..batch.num_rows() {
            if rows.len() > limit {
                more = true;
                break 'batches;
            }
            rows.push(
                columns.iter().map(|column| column.text(row).map_or_else(|| "NULL".to_owned(), |text| cell(&text, truncate))).collect(),
            );
        }
    }
    let widths: Vec<usize> = (0..schema.fields().len())
        .map(|column| rows.iter().map(|row| row.get(column).map_or(0, |text| width(text))).max().unwrap_or(0).max(3))
        .collect();

    let rule = format!("+{}+\n", widths.iter().map(|width| "-".repeat(*width)).collect::<Vec<_>>().join("+"));
    let mut drawn = rule.clone();
    for (number, row) in rows.iter().enumerate() {
        let cells: Vec<String> = row.iter().zip(&widths).map(|(text, width)| pad(text, *width, truncate)).collect();
        drawn.push_str(&format!("|{}|\n", cells.join("|")));
        if number == 0 {
            drawn.push_str(&rule);
        }
    }
    drawn.push_str(&rule);
    if more {
        drawn.push_str(&format!("only showing top {limit} {}", if limit == 1 { "row" } else { "rows" }));
    }
    Ok(drawn)
}

/// A value as it is shown: control characters escaped, long ones cut.
fn cell(text: &str, truncate: bool) -> String {
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\n' => shown.push_str("\\n"),
            '\r' => shown.push_str("\\r"),
            '\t' => shown.push_str("\\t"),
            '\u{c}' => shown.push_str("\\f"),
            '\u{8}' => shown.push_str("\\b"),
            '\u{b}' => shown.push_str("\\v"),
            '\u{7}' => shown.push_str("\\a"),
            c => shown.push(c),
        }
    }
    if truncate && shown.chars().count() > CUT {
        shown = shown.chars().take(CUT - 3).chain("...".chars()).collect();
    }
    shown
}

fn pad(text: &str, to: usize, right_aligned: bool) -> String {
    let fill = " ".repeat(to.saturating_sub(width(text)));
    if right_aligned { fill + text } else { text.to_owned() + &fill }
}

/// Columns on a terminal: characters that Spark takes for full-width count twice.
fn width(text: &str) -> usize {
    text.chars().map(|c| if is_full_width(c) { 2 } else { 1 }).sum()
}

fn is_full_width(c: char) -> bool {
    matches!(
        u32::from(c),
        0x1100..=0x115F
            | 0x2E80..=0xA4CF
            | 0xAC00..=0xD7A3
            | 0xF900..=0xFAFF
            | 0xFE30..=0xFE6F
            | 0xFF00..=0xFF60
            | 0xFFE0..=0xFFE6
    )
}
