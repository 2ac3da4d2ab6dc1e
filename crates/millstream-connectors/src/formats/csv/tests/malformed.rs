//! Malformed records, the parse modes, the quarantine and the rescued-data column.

use super::*;

fn reasons(outcome: &Outcome) -> Vec<(&str, Option<u64>, Option<&str>)> {
    outcome.bad.iter().map(|bad| (bad.reason.as_str(), bad.position, bad.raw.as_deref())).collect()
}

const SHORT_AND_LONG: &str = "a,1\nb\nc,3,surplus\n,\nd,x\n";

#[tokio::test]
async fn permissive_keeps_what_can_be_read_and_the_text_of_the_record() {
    let outcome = read(kv_corrupt(), &[], SHORT_AND_LONG).await;
    let expected = ["a | 1 | null", "b | null | b", "c | 3 | c,3,surplus", "null | null | null", "d | null | d,x"];
    assert_eq!(outcome.all_rows(), expected);
    assert!(outcome.bad.is_empty());
}

#[tokio::test]
async fn without_a_column_for_it_the_text_goes_to_the_quarantine() {
    let outcome = read(kv(), &[], SHORT_AND_LONG).await;
    assert_eq!(outcome.all_rows(), ["a | 1", "b | null", "c | 3", "null | null", "d | null"]);
    let expected =
        [("MALFORMED_CSV", Some(4), Some("b")), ("MALFORMED_CSV", Some(6), Some("c,3,surplus")), ("TYPE_MISMATCH", Some(20), Some("d,x"))];
    assert_eq!(reasons(&outcome), expected);
    assert_eq!((outcome.bad[2].length, outcome.bad[2].origin.as_str()), (Some(3), "memory:///f"));
    assert!(outcome.bad[2].detail.contains("'x' in column 'v' is no bigint"), "{}", outcome.bad[2].detail);
}

#[tokio::test]
async fn dropmalformed_leaves_records_out_and_reports_them() {
    let outcome = read(kv(), &[("mode", "DROPMALFORMED")], "a,1\nb\nc,3,surplus\nd,x\ne,5\n").await;
    assert_eq!(outcome.all_rows(), ["a | 1", "e | 5"]);
    assert_eq!(outcome.bad.len(), 3);
}

#[tokio::test]
async fn rows_behind_any_amount_of_dropped_records_are_read() {
    let short = format!("{}\n", "x".repeat(15 << 20));
    let outcome = read(kv(), &[("mode", "DROPMALFORMED")], &format!("{}a,1\n{}b,2\n", short.repeat(5), short.repeat(5))).await;
    assert_eq!(outcome.all_rows(), ["a | 1", "b | 2"]);
    assert_eq!(outcome.bad.len(), 10);
}

#[tokio::test]
async fn failfast_fails_after_the_rows_before() {
    let outcome = read(kv(), &[("mode", "FAILFAST")], "a,1\nb,x\nc,3\n").await;
    assert_eq!(outcome.rows(), ["a | 1"]);
    let error = outcome.error.unwrap();
    assert_eq!((error.code(), error.kind()), ("MALFORMED_RECORD_IN_PARSING.WITHOUT_SUGGESTION", ErrorKind::BadRecord));
    assert!(error.message().contains("byte 4 of memory:///f"), "{error}");
}

#[tokio::test]
async fn only_the_columns_that_are_read_judge_a_record() {
    let content = "a,1\nb\nc,3,4\nd,x\n";
    let drop = [("mode", "DROPMALFORMED")];
    assert_eq!(read_columns(kv(), &drop, content, &[0]).await.all_rows(), ["a", "b", "c", "d"]);
    assert_eq!(read_columns(kv(), &drop, content, &[1, 0]).await.all_rows(), ["1 | a"]);
    assert_eq!(read_columns(kv(), &drop, content, &[]).await.batches[0].num_rows(), 4);
    let unpruned = [("mode", "DROPMALFORMED"), ("columnPruning", "false")];
    assert_eq!(read_columns(kv(), &unpruned, content, &[0]).await.all_rows(), ["a", "d"]);
    assert_eq!(read_columns(kv(), &unpruned, content, &[]).await.batches[0].num_rows(), 2);
    assert_eq!(read_columns(kv_corrupt(), &[], content, &[0, 2]).await.all_rows(), ["a | null", "b | null", "c | null", "d | null"]);
    let only = read_columns(kv_corrupt(), &[], content, &[2]).await.error.unwrap();
    assert_eq!(only.code(), "UNSUPPORTED_FEATURE.QUERY_ONLY_CORRUPT_RECORD_COLUMN");
}

#[tokio::test]
async fn limits_are_refused_or_skipped() {
    for (option, content, good) in
        [(("maxColumns", "2"), "a,1\nb,2,3\n", "a | 1 | null"), (("maxCharsPerColumn", "3"), "abc,1\nabcd,2\n", "abc | 1 | null")]
    {
        let outcome = read(kv_corrupt(), &[option], content).await;
        assert_eq!(outcome.rows(), [good]);
        assert_eq!(outcome.error.unwrap().code(), "FAILED_READ_FILE.NO_HINT", "{option:?}");
    }
    let outcome = read(kv(), &[("maxRecordBytes", "10")], "a,1\nbbbbbbbbbbbb,2\nc,3\n").await;
    assert_eq!(outcome.all_rows(), ["a | 1", "c | 3"]);
    assert_eq!(reasons(&outcome), [("RECORD_TOO_LARGE", Some(4), None)]);
}

#[tokio::test]
async fn quotes_in_the_wrong_places_may_fail_the_query() {
    let raise = [("unescapedQuoteHandling", "RAISE_ERROR")];
    let outcome = read(kv(), &raise, "x\"y,1\n\"a\"b,2\n").await;
    assert_eq!(outcome.rows(), ["x\"y | 1"]);
    assert_eq!(outcome.error.unwrap().code(), "FAILED_READ_FILE.NO_HINT");
}

#[tokio::test]
async fn what_does_not_fit_is_rescued() {
    let bound = || schema(&[("k", DataType::Utf8), ("v", DataType::Int64), ("_rescued", DataType::Utf8)]);
    let rescue = [("rescuedDataColumn", "_rescued"), ("mode", "FAILFAST")];
    let content = "a,1\nb,$100.00\nc,3,\"x \"\"y\",\n";
    let expected = [
        "a | 1 | null",
        r#"b | null | {"v":"$100.00","_file_path":"memory:///f"}"#,
        r#"c | 3 | {"_c2":"\"x \"\"y\"","_c3":"","_file_path":"memory:///f"}"#,
    ];
    let outcome = read(bound(), &rescue, content).await;
    assert_eq!(outcome.all_rows(), expected);
    assert!(outcome.bad.is_empty());
    let named = [("rescuedDataColumn", "_rescued"), ("header", "true")];
    assert_eq!(rows(bound(), &named, "k,v,more\na,1,z\n").await, [r#"a | 1 | {"more":"z","_file_path":"memory:///f"}"#]);
    let short = read(bound(), &[("rescuedDataColumn", "_rescued")], "a\n").await;
    assert_eq!(short.all_rows(), ["a | null | null"]);
    assert_eq!(reasons(&short), [("MALFORMED_CSV", Some(0), Some("a"))]);
    let unread = read_columns(bound(), &[("rescuedDataColumn", "_rescued")], "a,x\n", &[0, 1]).await;
    assert_eq!(unread.all_rows(), ["a | null"]);
    assert_eq!(reasons(&unread), [("TYPE_MISMATCH", Some(0), Some("a,x"))]);
}
