use super::super::{SourceFile, Variables};
use super::*;

fn prepared(text: &str) -> Result<PreparedQuery, Diagnostic> {
    let file = SourceFile::new("q.sql", text);
    let tokens = file.tokens(0..text.len(), &Variables::new())?;
    prepare(&file, &tokens, "f")
}

/// `line:column [STREAM ]name` of every relation, in order of their place.
fn relations(text: &str) -> Vec<String> {
    let mut relations = prepared(text).unwrap_or_else(|fault| panic!("{text}: {fault}")).relations;
    relations.sort_by(|a, b| a.position.cmp(&b.position));
    relations
        .iter()
        .map(|relation| {
            let stream = if relation.streaming { "STREAM " } else { "" };
            format!("{}:{} {stream}{}", relation.position.line, relation.position.column, relation.source.display())
        })
        .collect()
}

#[test]
fn relations_are_found_wherever_a_query_names_them() {
    for (text, expected) in [
        ("SELECT 1", vec![]),
        ("SELECT * FROM t", vec!["1:15 t"]),
        ("SELECT * FROM cat.s.t AS x, `odd name` y", vec!["1:15 cat.s.t", "1:29 odd name"]),
        ("SELECT * FROM STREAM t", vec!["1:22 STREAM t"]),
        ("SELECT * FROM STREAM(s.t) x", vec!["1:22 STREAM s.t"]),
        ("SELECT * FROM\n  stream LIVE.t\n  LEFT JOIN u ON t.a = u.a", vec!["2:10 STREAM LIVE.t", "3:13 u"]),
        ("SELECT * FROM a, STREAM b, c", vec!["1:15 a", "1:25 STREAM b", "1:28 c"]),
        ("SELECT * FROM a JOIN STREAM b ON a.x = b.x, STREAM c", vec!["1:15 a", "1:29 STREAM b", "1:52 STREAM c"]),
        ("SELECT * FROM (STREAM a JOIN STREAM(b) ON true)", vec!["1:23 STREAM a", "1:37 STREAM b"]),
        ("SELECT * FROM (SELECT * FROM STREAM t) WHERE x IN (SELECT y FROM u)", vec!["1:37 STREAM t", "1:66 u"]),
        (
            "WITH c AS (SELECT * FROM STREAM t), d AS (SELECT * FROM c) SELECT * FROM c JOIN d ON true JOIN e ON true",
            vec!["1:33 STREAM t", "1:96 e"],
        ),
        // A name is visible after its own query only, and not outside of the query that defines it.
        ("WITH t AS (SELECT * FROM t) SELECT * FROM t", vec!["1:26 t"]),
        ("SELECT * FROM (WITH c AS (SELECT 1) SELECT * FROM c) x, c", vec!["1:57 c"]),
        ("WITH a AS (WITH b AS (SELECT 1) SELECT * FROM b), c AS (SELECT * FROM b) SELECT * FROM a, c", vec!["1:71 b"]),
        ("WITH a AS (SELECT * FROM x.a) SELECT * FROM A, s.a", vec!["1:26 x.a", "1:48 s.a"]),
        ("SELECT * FROM t UNION ALL SELECT * FROM STREAM t", vec!["1:15 t", "1:48 STREAM t"]),
        // The word is no keyword everywhere.
        ("SELECT stream, b stream FROM stream WHERE stream > 1", vec!["1:30 stream"]),
        ("SELECT stream x, stream y FROM stream AS s", vec!["1:32 stream"]),
        ("SELECT * FROM t WHERE a IS DISTINCT FROM stream AND b IS NOT DISTINCT FROM stream", vec!["1:15 t"]),
        ("SELECT trim(BOTH 'x' FROM stream) FROM t", vec!["1:40 t"]),
        ("SELECT extract(YEAR FROM stream) FROM t", vec!["1:39 t"]),
        ("SELECT * FROM stream LEFT JOIN t ON true", vec!["1:15 stream", "1:32 t"]),
        ("SELECT * FROM range(10), t", vec!["1:26 t"]),
        ("SELECT read_files FROM read_files", vec!["1:24 read_files"]),
        (
            "SELECT * FROM csv.`/in/*.csv` JOIN STREAM delta.`/t` ON true JOIN csv.t ON true",
            vec!["1:15 csv.`/in/*.csv`", "1:43 STREAM delta.`/t`", "1:67 csv.t"],
        ),
        (
            "SELECT * FROM read_files('/a') a, STREAM read_files('/b') b, STREAM(read_files('/c'))",
            vec!["1:15 read_files('/a', …)", "1:42 STREAM read_files('/b', …)", "1:69 STREAM read_files('/c', …)"],
        ),
    ] {
        assert_eq!(relations(text), expected, "{text}");
    }
}

#[test]
fn queries_keep_their_names_for_columns() {
    for (text, expected) in [
        ("SELECT t.a FROM STREAM s.t", "SELECT t.a FROM `__f_0` AS `t`"),
        ("SELECT x.a FROM STREAM(t) x, u", "SELECT x.a FROM `__f_0` x, `__f_1` AS `u`"),
        ("SELECT * FROM read_files('/a')", "SELECT * FROM `__f_0`"),
        ("SELECT * FROM STREAM t WITH ('maxFilesPerTrigger' = '1') AS c", "SELECT * FROM `__f_0` AS c"),
        ("SELECT * FROM STREAM t WATERMARK at DELAY OF INTERVAL 10 MINUTES AS c", "SELECT * FROM `__f_0` AS c"),
        (
            "SELECT * FROM STREAM t WATERMARK at + INTERVAL 1 HOUR AS later DELAY OF INTERVAL 1 MINUTE WHERE a",
            "SELECT * FROM (SELECT *, at + INTERVAL 1 HOUR AS `later` FROM `__f_0` AS `t`) AS `t` WHERE a",
        ),
        (
            "SELECT * FROM STREAM t WATERMARK cast(at AS TIMESTAMP) AS later DELAY OF INTERVAL 1 MINUTE z",
            "SELECT * FROM (SELECT *, CAST(at AS TIMESTAMP) AS `later` FROM `__f_0` AS `t`) z",
        ),
        ("SELECT array(1, 2), \"text\", 'it\\'s' 'one'", "SELECT array(1, 2), \"text\", 'it''sone'"),
    ] {
        assert_eq!(prepared(text).unwrap().query.to_string(), expected, "{text}");
    }
}

#[test]
fn options_arguments_and_watermarks_are_read() {
    let query = prepared(
        "SELECT * FROM STREAM read_files('/in', format => 'csv', `header` => true, schema => 'a INT', cloudFiles.x => -1, n => NULL) \
         WITH (maxFilesPerTrigger = 1, 'a.b' 'c', flag) WATERMARK x.at DELAY OF INTERVAL '1' HOUR 30 MINUTES",
    )
    .unwrap();
    let relation = &query.relations[0];
    let RelationSource::ReadFiles { path, arguments } = &relation.source else { panic!("{relation:?}") };
    let arguments: Vec<(&str, Option<&str>)> = arguments.iter().map(|a| (a.name.as_str(), a.value.as_deref())).collect();
    assert_eq!(path, "/in");
    assert_eq!(
        arguments,
        [("format", Some("csv")), ("header", Some("true")), ("schema", Some("a INT")), ("cloudFiles.x", Some("-1")), ("n", None)]
    );
    assert_eq!(relation.source.argument("FORMAT").unwrap().position.column, 50);
    assert_eq!(relation.options.iter().collect::<Vec<_>>(), [("a.b", "c"), ("flag", ""), ("maxFilesPerTrigger", "1")]);
    let watermark = relation.watermark.as_ref().unwrap();
    assert_eq!((watermark.column.as_str(), watermark.delay_us), ("at", 5_400_000_000));
    assert!(query.is_streaming());
    assert!(query.definition.starts_with("SELECT * FROM STREAM read_files ( '/in' , format => 'csv'"), "{}", query.definition);
}

#[test]
fn faults_name_their_place() {
    for (text, expected) in [
        ("SELECT FROM t", "q.sql:1:13: expected an expression, found FROM"),
        ("SELECT a FROM t WHERE", "q.sql:1:22: expected an expression, found the end of the query"),
        ("SELECT a\nFROM t t2 t3", "q.sql:2:11: unexpected 't3'"),
        ("SELECT (1", "q.sql:1:10: expected ), found the end of the query"),
        ("SELECT 1)", "q.sql:1:9: ')' without its '('"),
        ("SELECT * FROM STREAM(t", "q.sql:1:23: expected ')', found the end of the statement"),
        ("SELECT * FROM STREAM(STREAM(t))", "q.sql:1:22: STREAM inside of STREAM (write it once)"),
        ("SELECT * FROM STREAM (SELECT 1)", "q.sql:1:23: STREAM takes the name of a table or view, or read_files(…), but not a query"),
        ("SELECT * FROM STREAM range(3)", "q.sql:1:22: table function 'range' cannot be read as a stream (use read_files(…))"),
        ("SELECT * FROM STREAM t IDENTIFIED BY x", "q.sql:1:24: IDENTIFIED BY"),
        ("SELECT * FROM STREAM t CHANGES FROM VERSION 1", "q.sql:1:24: CHANGES"),
        (
            "SELECT * FROM STREAM t WATERMARK a + b DELAY OF INTERVAL 1 DAY",
            "q.sql:1:34: the event time of a watermark is an expression and needs a name",
        ),
        ("SELECT * FROM STREAM t WATERMARK DELAY OF INTERVAL 1 DAY", "q.sql:1:34: expected the event-time column"),
        ("SELECT * FROM STREAM t WATERMARK a DELAY OF INTERVAL 1 MONTH", "q.sql:1:45: option 'DELAY' is '1'"),
        ("WITH c AS (SELECT 1) SELECT * FROM STREAM c", "q.sql:1:43: STREAM cannot be applied to the common table expression 'c'"),
        ("SELECT * FROM t VERSION AS OF 3", "q.sql:1:15: reading an earlier version of a table"),
        ("SELECT * FROM t TABLESAMPLE (5 ROWS)", "q.sql:1:15: TABLESAMPLE"),
        ("SELECT * FROM read_files(path => '/a')", "q.sql:1:26: expected the path as a string, found path"),
        ("SELECT * FROM read_files('/a', 'csv')", "q.sql:1:32: expected an argument 'name => value', found the string 'csv'"),
        ("SELECT * FROM read_files('/a', format => csv)", "q.sql:1:42: expected a string, a number, true, false or null, found csv"),
        ("SELECT * FROM read_files('/a', a => 1, A => 2)", "q.sql:1:40: argument 'A' of read_files is given twice"),
        ("INSERT INTO t VALUES (1)", "q.sql:1:1: expected"),
    ] {
        let fault = prepared(text).unwrap_err().to_string();
        assert!(fault.starts_with(expected), "{text}\n  is      {fault}\n  expected {expected}");
    }
}

proptest::proptest! {
    #[test]
    fn no_text_panics(words in proptest::collection::vec("SELECT|FROM|STREAM|read_files|t|\\(|\\)|,|WITH|AS|WATERMARK|DELAY|OF|INTERVAL|1|'x'|=>|JOIN|\\.|\\*", 0..14)) {
        drop(prepared(&words.join(" ")));
    }
}
