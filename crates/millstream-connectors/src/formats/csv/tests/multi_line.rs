//! Records that span lines.

use super::super::records::Records;
use super::*;
use crate::formats::lines::{Line, Separator};

const MULTI_LINE: (&str, &str) = ("multiLine", "true");

async fn multi(content: &str) -> Vec<String> {
    rows(kv_corrupt(), &[MULTI_LINE, ("comment", "#")], content).await.iter().map(|row| row.replace('\n', "/")).collect()
}

#[tokio::test]
async fn line_ends_in_quotes_belong_to_the_value() {
    assert_eq!(multi("\"a\nb\",1\nc,2\n").await, ["a/b | 1 | null", "c | 2 | null"]);
    assert_eq!(multi("\"a\r\nb\",1\r\nc,2\r\n").await, ["a/b | 1 | null", "c | 2 | null"]);
    assert_eq!(multi("\"a\rb\",1\rc,2\r").await, ["a/b | 1 | null", "c | 2 | null"]);
    let foreign = rows(kv_corrupt(), &[MULTI_LINE], "a,1\n\"b\r\nc\",2\n").await;
    assert_eq!(foreign, ["a | 1 | null", "b\r\nc | 2 | null"]);
    assert_eq!(multi("a,1\n\"b\n\nc\",x\n").await, ["a | 1 | null", "b//c | null | \"b//c\",x"]);
    assert_eq!(multi("a,\"1\n2\"\nb,3\n").await, ["a | null | a,\"1/2\"", "b | 3 | null"]);
    assert_eq!(multi("#x\n\"#y\n\",1\n").await, ["#y/ | 1 | null"]);
    assert_eq!(multi("\"x\"y\nz,2\n").await, ["\"x\"y | null | \"x\"y", "z | 2 | null"]);
    assert_eq!(multi("\"a\\\"\n\",1\nb,2\n").await, ["a\"/ | 1 | null", "b | 2 | null"]);
}

#[tokio::test]
async fn empty_lines_are_left_out_and_blank_ones_are_records() {
    assert_eq!(multi("a,1\n\n\nb,2\n").await, ["a | 1 | null", "b | 2 | null"]);
    assert_eq!(multi("  \na,1\n").await, ["   | null |   ", "a | 1 | null"]);
}

#[tokio::test]
async fn a_quote_that_is_never_closed_takes_the_rest_of_the_file() {
    assert_eq!(multi("a,1\n\"b").await, ["a | 1 | null", "b | null | \"b"]);
    let outcome = read(kv_corrupt(), &[MULTI_LINE, ("maxRecordBytes", "20")], format!("a,1\n\"b{}", "\nx,2".repeat(20))).await;
    assert_eq!(outcome.all_rows(), ["a | 1 | null"]);
    assert_eq!((outcome.bad[0].reason.as_str(), outcome.bad[0].position, outcome.bad[0].length), ("RECORD_TOO_LARGE", Some(4), Some(82)));
}

#[tokio::test]
async fn the_first_line_end_decides_and_an_option_decides_before_it() {
    assert_eq!(multi("a,1\r\nb,2\nc,3\r\n").await, ["a | 1 | null", "b | null | b,2/c,3"]);
    let bar = [MULTI_LINE, ("lineSep", "|")];
    assert_eq!(rows(kv(), &bar, "\"a|b\",1|b,2|").await, ["a|b | 1", "b | 2"]);
    let header = [MULTI_LINE, ("header", "true")];
    assert_eq!(rows(kv(), &header, "h1,\"h\n2\"\n\"a\",1\n").await, ["a | 1"]);
}

#[tokio::test]
async fn every_column_judges_a_record() {
    let drop = [MULTI_LINE, ("mode", "DROPMALFORMED")];
    assert_eq!(read_columns(kv(), &drop, "a,1\nb\nc,3,4\nd,x\n", &[0]).await.all_rows(), ["a", "d"]);
}

/// Every record when the bytes arrive in pieces of the given sizes.
fn split(options: &CsvOptions, separator: &Separator, bytes: &[u8], sizes: &[usize], limit: usize) -> Vec<(u64, u64, Option<Vec<u8>>)> {
    let mut records = Records::new(options.dialect.clone(), separator, options.comment, limit);
    let (mut out, mut rest, mut turn) = (Vec::new(), bytes, 0);
    loop {
        match records.next() {
            Line::Record { bytes, position, .. } => out.push((position, bytes.len() as u64, Some(bytes.to_vec()))),
            Line::TooLarge { position, length } => out.push((position, length, None)),
            Line::Incomplete if rest.is_empty() => records.finish(),
            Line::Incomplete => {
                let size = sizes[turn % sizes.len()].clamp(1, rest.len());
                turn += 1;
                records.space().extend_from_slice(&rest[..size]);
                rest = &rest[size..];
            }
            Line::End => return out,
        }
    }
}

proptest! {
    #[test]
    fn records_do_not_depend_on_how_the_bytes_arrive(
        content in "[ab,\"\\\\ \n\r|#]{0,60}",
        sizes in prop::collection::vec(1_usize..9, 1..5),
        escape in prop::sample::select(vec!["\\", "\"", ""]),
        sep in prop::sample::select(vec![",", "||", ",\n"]),
        handling in prop::sample::select(vec!["STOP_AT_DELIMITER", "STOP_AT_CLOSING_QUOTE"]),
        trim in prop::sample::select(vec!["true", "false"]),
    ) {
        let options = options(&[("escape", escape), ("sep", sep), ("unescapedQuoteHandling", handling), ("comment", "#")]);
        let options = options.with("ignoreLeadingWhiteSpace", trim);
        let options = CsvOptions::from_options(&options).unwrap();
        let (any, feed) = (Separator::LineEnd, Separator::Text(b"\n".to_vec()));
        let whole = split(&options, &any, content.as_bytes(), &[usize::MAX], 1000);
        prop_assert_eq!(split(&options, &any, content.as_bytes(), &sizes, 1000), whole);
        // A limit changes only whether a record is kept.
        let whole = split(&options, &feed, content.as_bytes(), &[usize::MAX], 1000);
        let limited = split(&options, &feed, content.as_bytes(), &sizes, 12);
        prop_assert_eq!(limited.len(), whole.len());
        for ((position, length, kept), (at, size, text)) in limited.iter().zip(&whole) {
            prop_assert_eq!((position, length), (at, size));
            prop_assert_eq!(kept.is_some(), *size <= 12, "{:?}", text);
        }
    }
}
