use super::*;
use millstream_core::ErrorKind;

#[test]
fn what_no_column_keeps_goes_to_the_quarantine() {
    let text = b"{\"k\":\"a\",\"v\":1}\n{\"k\":\"b\",\"v\":\"x\"}\nbroken\n{\"k\":\"d\",\"v\":4}\n";
    let outcome = read_file(file_of("a.json", text), kv(), &[], None);
    assert_eq!(outcome.rows, ["a|1", "b|null", "null|null", "d|4"]);
    let bad: Vec<_> = outcome.bad.iter().map(|bad| (bad.reason.as_str(), bad.raw.as_deref(), bad.position, bad.length)).collect();
    assert_eq!(
        bad,
        [("TYPE_MISMATCH", Some("{\"k\":\"b\",\"v\":\"x\"}"), Some(16), Some(17)), ("MALFORMED_JSON", Some("broken"), Some(34), Some(6)),]
    );
    assert_eq!(outcome.bad[0].detail, "\"x\" at byte 13 of the record is no bigint");
    assert_eq!(outcome.bad[0].origin, "memory:///a.json");

    let dropped = read_file(file_of("a.json", text), kv(), &[("mode", "DROPMALFORMED")], None);
    assert_eq!(dropped.rows, ["a|1", "d|4"]);
    assert_eq!(dropped.bad, outcome.bad);

    let kept = read_file(file_of("a.json", text), [kv(), vec![corrupt()]].concat(), &[], None);
    assert!(kept.bad.is_empty());
}

#[test]
fn failfast_names_file_position_and_fault_after_the_rows_before() {
    let text = b"{\"k\":\"a\",\"v\":1}\n{\"k\":\"b\",\"v\":2}\nnonsense\n{\"k\":\"c\",\"v\":3}\n";
    let outcome = read_file(file_of("a.json", text), kv(), &[("mode", "FAILFAST")], None);
    assert_eq!(outcome.rows, ["a|1", "b|2"]);
    let error = outcome.error.unwrap();
    assert_eq!((error.code(), error.kind()), ("MALFORMED_RECORD_IN_PARSING.WITHOUT_SUGGESTION", ErrorKind::BadRecord));
    assert!(error.message().contains("byte 32 of memory:///a.json"), "{error}");
}

#[test]
fn deep_records_are_malformed_and_never_overflow_the_stack() {
    let deep = |depth: usize| format!("{{\"k\":{}{}}}\n{{\"v\":1}}\n", "[".repeat(depth), "]".repeat(depth));
    let outcome = read_file(file_of("a.json", deep(1_000).as_bytes()), kv(), &[], None);
    assert_eq!(outcome.rows, ["null|null", "null|1"]);
    assert_eq!(outcome.bad[0].reason, "TOO_DEEP");
    assert_eq!(read(&deep(127), kv(), &[]).len(), 2);
    assert!(read_file(file_of("a.json", deep(127).as_bytes()), kv(), &[], None).bad.is_empty());
    let most = [("maxNestingDepth", "1000")];
    assert!(read_file(file_of("a.json", deep(999).as_bytes()), kv(), &most, None).bad.is_empty());
    assert_eq!(
        read_file(file_of("a.json", deep(1_000_000).as_bytes()), vec![field("v", DataType::Int64)], &most, None).rows,
        ["null", "1"]
    );
}

#[test]
fn bytes_that_are_not_utf8_are_malformed() {
    let outcome = read_file(file_of("a.json", b"{\"v\":1}\n{\"k\":\"\xff\",\"v\":2}\n{\"v\":3}\n"), kv(), &[], None);
    assert_eq!(outcome.rows, ["null|1", "null|null", "null|3"]);
    assert_eq!((outcome.bad[0].reason.as_str(), outcome.bad[0].position), ("INVALID_UTF8", Some(8)));
    assert_eq!(outcome.bad[0].raw.as_deref(), Some("{\"k\":\"\u{fffd}\",\"v\":2}"));
}

#[test]
fn oversized_records_are_skipped_and_reported() {
    let text = format!("{{\"v\":1}}\n{{\"k\":\"{}\"}}\n{{\"v\":3}}\n", "x".repeat(1_000_000));
    let outcome = read_file(file_of("a.json", text.as_bytes()), kv(), &[("maxRecordBytes", "1k")], None);
    assert_eq!(outcome.rows, ["null|1", "null|3"]);
    let bad = &outcome.bad[0];
    assert_eq!((bad.reason.as_str(), bad.raw.as_deref(), bad.position, bad.length), ("RECORD_TOO_LARGE", None, Some(8), Some(1_000_008)));
    let failed = read_file(file_of("a.json", text.as_bytes()), kv(), &[("maxRecordBytes", "1k"), ("mode", "FAILFAST")], None);
    assert_eq!(failed.error.unwrap().code(), "MALFORMED_RECORD_IN_PARSING.WITHOUT_SUGGESTION");
}

#[test]
fn rows_behind_any_amount_of_dropped_records_are_read() {
    let broken = format!("{{{}\n", "x".repeat(15 << 20));
    let text = format!("{}{{\"k\":\"a\",\"v\":1}}\n{}{{\"k\":\"b\",\"v\":2}}\n", broken.repeat(5), broken.repeat(5));
    let outcome = read_file(file_of("a.json", text.as_bytes()), kv(), &[("mode", "DROPMALFORMED")], None);
    assert_eq!(outcome.rows, ["a|1", "b|2"]);
    assert_eq!(outcome.bad.len(), 10);
}

#[test]
fn a_damaged_file_is_an_error_after_the_rows_before_the_fault() {
    use std::io::Write;
    let text: String = (0..50_000).map(|n| format!("{{\"k\":\"{}\",\"v\":{n}}}\n", n * 7919 % 10_007)).collect();
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    encoder.write_all(text.as_bytes()).unwrap();
    let packed = encoder.finish().unwrap();
    let outcome = read_file(file_of("a.json.gz", &packed[..packed.len() / 2]), kv(), &[], None);
    assert!(outcome.rows.len() > 10_000 && outcome.rows.len() < 40_000, "{}", outcome.rows.len());
    assert!(outcome.rows.iter().enumerate().all(|(n, row)| row.ends_with(&format!("|{n}"))));
    let error = outcome.error.unwrap();
    assert_eq!((error.code(), error.kind()), ("FAILED_READ_FILE", ErrorKind::BadRecord));
}

#[test]
fn what_does_not_fit_the_schema_is_rescued() {
    let fields =
        [kv(), vec![field("p", DataType::Struct(vec![field("a", DataType::Int32)].into())), field("_rescued_data", DataType::Utf8)]]
            .concat();
    let rescued = [("rescuedDataColumn", "_rescued_data")];
    let text = r#"{"k":"a","v":1,"p":{"a":1}}
{"k":"b","v":"$1","x":{"units": 2},"V":1.50,"t":true}
{"k":"c","p":{"a":2,"extra":"e\"f"}}
{"k":"d","v":5,"\u0078":null}
broken
"#;
    let file = || file_of("a.json", text.as_bytes());
    let outcome = read_file(file(), fields.clone(), &rescued, None);
    assert_eq!(
        outcome.rows,
        [
            "a|1|{a: 1}|null",
            r#"b|null|null|{"v":"$1","x":"{\"units\":2}","V":1.50,"t":true,"_file_path":"memory:///a.json"}"#,
            r#"c|null|{a: 2}|{"p":"{\"a\":2,\"extra\":\"e\\\"f\"}","_file_path":"memory:///a.json"}"#,
            r#"d|5|null|{"x":null,"_file_path":"memory:///a.json"}"#,
            r#"null|null|null|{"_corrupt_record":"broken","_file_path":"memory:///a.json"}"#,
        ]
    );
    assert!(outcome.bad.is_empty());

    // Misfits fail no record any more, malformed text does; and columns that are not selected are rescued all the same.
    let failed = read_file(file(), fields.clone(), &[rescued[0], ("mode", "FAILFAST")], Some(vec![3]));
    assert_eq!(failed.rows.len(), 4);
    assert!(failed.rows[1].contains("\"v\":\"$1\""));
    assert!(failed.error.is_some());

    let unread = read_file(file(), fields.clone(), &rescued, Some(vec![0, 1]));
    assert_eq!(unread.rows, ["a|1", "b|null", "c|null", "d|5", "null|null"]);
    assert_eq!(unread.bad.iter().map(|bad| bad.reason.as_str()).collect::<Vec<_>>(), ["TYPE_MISMATCH", "MALFORMED_JSON"]);

    let both = read_file(file(), [fields, vec![corrupt()]].concat(), &rescued, Some(vec![0, 3, 4]));
    assert_eq!(both.rows[4], "null|null|broken");
    assert!(both.rows[1].ends_with("|null"), "{}", both.rows[1]);
}
