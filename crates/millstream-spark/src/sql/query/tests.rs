use super::super::{SourceFile, Variables};
use super::*;

fn prepared(text: &str) -> Result<PreparedQuery, Diagnostic> {
    let file = Arc::new(SourceFile::new("q.sql", text));
    let tokens = file.tokens(0..text.len(), &Variables::new())?;
    PreparedQuery::of(Fragment::new(file, Arc::new(tokens)))
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
fn streams_and_files_come_first() {
    let relations = prepared("SELECT * FROM a JOIN read_files('/b') JOIN csv.`/c` JOIN STREAM d JOIN STREAM d").unwrap().relations;
    let shown: Vec<String> = relations.iter().map(|relation| relation.source.display()).collect();
    assert_eq!(shown, ["read_files('/b', …)", "d", "d", "a", "csv.`/c`"]);
}

#[test]
fn options_and_arguments_are_read() {
    let query = prepared(
        "SELECT * FROM STREAM read_files('/in', format => 'csv', `header` => true, schema => 'a INT', cloudFiles.x => -1, n => NULL) \
         WITH (maxFilesPerTrigger = 1, 'a.b' 'c', flag) WATERMARK x.at DELAY OF INTERVAL '1' HOUR, t VERSION AS OF 3",
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
    assert_eq!(query.relations[1].options.iter().collect::<Vec<_>>(), [("versionAsOf", "3")]);
    assert!(query.is_streaming());
    assert!(query.definition.starts_with("SELECT * FROM STREAM read_files ( '/in' , format => 'csv'"), "{}", query.definition);
}

#[test]
fn faults_name_their_place() {
    for (text, expected) in [
        ("SELECT a FROM t WHERE", "q.sql:1:22: expected "),
        ("SELECT a\nFROM t t2 t3", "q.sql:2:11: expected the end of the text, found t3"),
        ("SELECT (1", "q.sql:1:10: expected "),
        ("SELECT 1)", "q.sql:1:9: expected the end of the text, found ')'"),
        ("SELECT * FROM STREAM(t", "q.sql:1:23: expected ')', found the end of the statement"),
        ("SELECT * FROM STREAM (SELECT 1)", "q.sql:1:23: STREAM takes the name of a table or view, but not a query"),
        ("SELECT * FROM STREAM range(3)", "q.sql:1:22: the table function 'range' cannot be read as a stream"),
        ("SELECT * FROM STREAM t IDENTIFIED BY x", "q.sql:1:24: IDENTIFIED BY"),
        ("SELECT * FROM STREAM t CHANGES FROM VERSION 1", "q.sql:1:24: expected the end of the text, found CHANGES"),
        (
            "SELECT * FROM STREAM t WATERMARK a + b DELAY OF INTERVAL 1 DAY",
            "q.sql:1:24: the event time of a watermark is an expression and needs a name",
        ),
        ("SELECT * FROM read_files('/a', 'csv')", "q.sql:1:32: expected an argument 'name => value', found the string 'csv'"),
        ("SELECT * FROM read_files('/a', format => csv)", "q.sql:1:42: expected a string, a number, true, false or null, found csv"),
        ("SELECT * FROM read_files('/a', a => 1, A => 2)", "q.sql:1:40: argument 'A' of read_files is given twice"),
        ("INSERT INTO t VALUES (1)", "q.sql:1:1: expected"),
    ] {
        let fault = prepared(text).unwrap_err().to_string();
        assert!(fault.starts_with(expected), "{text}\n  is       {fault}\n  expected {expected}");
    }
}

proptest::proptest! {
    #[test]
    fn no_text_panics(words in proptest::collection::vec("SELECT|FROM|STREAM|read_files|t|\\(|\\)|,|WITH|AS|WATERMARK|DELAY|OF|INTERVAL|1|'x'|=>|JOIN|\\.|\\*", 0..14)) {
        drop(prepared(&words.join(" ")));
    }
}
