//! The queries of a pipeline mean what they mean in Spark. Expected values were printed by Spark 4.2.

use super::*;

/// Values of expressions over one row, and their types.
const VALUES: &[(&str, &str, &str)] = &[
    ("1.0 / 3", "decimal(7,6)", "0.333333"),
    ("7 / 2", "double", "3.5"),
    ("7 div 2", "bigint", "3"),
    ("-7 % 3", "int", "-1"),
    ("CAST(2147483647 AS BIGINT) + 1", "bigint", "2147483648"),
    ("try_add(2147483647, 1)", "int", ""),
    ("substring('abcdef', -3, 2)", "string", "de"),
    ("substring('abcdef', 0, 2)", "string", "ab"),
    ("date_format(TIMESTAMP '2024-03-05 07:08:09', 'EEE d MMM yyyy HH:mm')", "string", "Tue 5 Mar 2024 07:08"),
    ("split('a1b22c', '[0-9]+')[2]", "string", "c"),
    ("size(split('a,b,,', ','))", "int", "4"),
    ("from_json('{\"a\": 1, \"b\": [1, 2]}', 'a INT, b ARRAY<INT>').b[1]", "int", "2"),
    ("round(2.5)", "decimal(2,0)", "3"),
    ("bround(2.5)", "decimal(2,0)", "2"),
    ("element_at(map('a', 1), 'a')", "int", "1"),
    ("regexp_extract('100-200', r'(\\d+)-(\\d+)', 2)", "string", "200"),
    ("5L", "bigint", "5"),
    ("'2024' || NULL", "string", ""),
];

#[tokio::test(flavor = "multi_thread")]
async fn expressions_have_sparks_values_and_types() {
    let fixture = Fixture::new();
    let items: Vec<String> = VALUES.iter().enumerate().map(|(i, (expression, ..))| format!("{expression} AS c{i}")).collect();
    let text = format!("CREATE MATERIALIZED VIEW m AS SELECT {}", items.join(", "));
    let checked = fixture.pipeline(&text).await.unwrap().check().await.unwrap();
    for (field, (expression, data_type, _)) in checked.schemas[&0].fields().iter().zip(VALUES) {
        assert_eq!(crate::types::simple_name(field.data_type()), *data_type, "{expression}");
    }
    assert_eq!(fixture.once(&text).await, ["m Completed 0->1"]);
    let row = fixture.rows("m").await.remove(0);
    for ((found, (expression, _, expected)), place) in row.split(',').zip(VALUES).zip(0..) {
        assert_eq!(found, *expected, "{place}: {expression}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_spark_refuses_to_compute_fails_the_flow() {
    for (expression, code) in [
        ("a + 1", "ARITHMETIC_OVERFLOW"),
        ("a / (a - a)", "DIVIDE_BY_ZERO"),
        ("CAST(b AS INT)", "CAST_INVALID_INPUT"),
        ("array(a)[3]", "INVALID_ARRAY_INDEX"),
    ] {
        let fixture = Fixture::new();
        fixture.input("a.csv", "2147483647,x\n");
        let text = format!(
            "CREATE STREAMING TABLE t AS SELECT {expression} AS v FROM STREAM read_files('${{in}}', format => 'csv', schema => 'a INT, b STRING')"
        );
        assert_eq!(fixture.once(&text).await, [format!("t Failed 0->0 {code}")], "{expression}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn generators_and_qualified_names() {
    let fixture = Fixture::new();
    fixture.input("a.json", "{\"Id\":1,\"tags\":\"x,y\",\"body\":\"{\\\"n\\\":7}\"}\n{\"Id\":2,\"tags\":\"\",\"body\":\"no\"}\n");
    let text = "
        CREATE STREAMING TABLE raw AS SELECT * FROM STREAM read_files('${in}', format => 'json', schema => 'Id INT, tags STRING, body STRING');
        CREATE TEMPORARY VIEW parsed AS SELECT ID, split(tags, ',') AS tags, from_json(body, 'n INT') AS body FROM STREAM raw;
        CREATE STREAMING TABLE tagged AS
          WITH p AS (SELECT * FROM STREAM parsed)
          SELECT P.id, tag, p.body.n FROM p LATERAL VIEW explode(tags) t AS tag WHERE tag <> '';
        CREATE MATERIALIZED VIEW totals AS
          SELECT count(*) AS n, count(tagged.n) FILTER (WHERE Tag = 'x') AS x, max_by(tag, id) AS newest FROM LIVE.tagged;";
    let found = fixture.once(text).await;
    assert_eq!(found, ["raw Completed 2->2", "tagged Completed 2->2", "totals Completed 2->1"]);
    assert_eq!(fixture.rows("tagged").await, ["1,x,7", "1,y,7"]);
    let checked = fixture.pipeline(text).await.unwrap().check().await.unwrap();
    assert_eq!(crate::types::to_ddl(&checked.schemas[&2]), "id INT,tag STRING,n INT");
}

#[tokio::test(flavor = "multi_thread")]
async fn settings_of_a_file_decide_what_its_queries_mean() {
    let fixture = Fixture::new();
    let text = "
        SET spark.sql.session.timeZone = Asia/Kolkata;
        CREATE MATERIALIZED VIEW there AS SELECT date_format(TIMESTAMP '2024-01-01 00:00:00Z', 'HH:mm') AS t;
        SET spark.sql.ansi.enabled = false;
        CREATE MATERIALIZED VIEW loose AS SELECT 2147483647 + 1 AS n, CAST('x' AS INT) AS x;";
    assert_eq!(fixture.once(text).await, ["there Completed 0->1", "loose Completed 0->1"]);
    assert_eq!(fixture.rows("there").await, ["05:30"]);
    assert_eq!(fixture.rows("loose").await, ["-2147483648,"]);
}

const WINDOWS: &str = "
    CREATE STREAMING TABLE counts AS
      SELECT date_format(window.start, 'mm:ss') AS start, k, count(*) AS n
      FROM STREAM read_files('${in}', format => 'json', schema => 'at TIMESTAMP, k STRING') WATERMARK at DELAY OF INTERVAL 10 SECONDS
      GROUP BY window(at, '10 seconds'), k";

#[tokio::test(flavor = "multi_thread")]
async fn windows_go_on_where_the_last_run_stopped() {
    let fixture = Fixture::new();
    let event = |second: u32, k: &str| format!("{{\"at\":\"2024-01-01T00:00:{second:02}Z\",\"k\":\"{k}\"}}\n");
    fixture.input("a.json", &[event(1, "a"), event(5, "a"), event(12, "b")].concat());
    assert_eq!(fixture.once(WINDOWS).await, ["counts Completed 3->0"]);
    assert_eq!(fixture.rows("counts").await, Vec::<String>::new());
    // Time is at 2 seconds: the row at 7 is not late, and what was counted before is in state.
    fixture.input("b.json", &[event(7, "a"), event(25, "c")].concat());
    assert_eq!(fixture.once(WINDOWS).await, ["counts Completed 2->1"]);
    assert_eq!(fixture.rows("counts").await, ["00:00,a,3"]);
    // Time is at 15 seconds: the row at 3 comes too late, and is kept beside the table.
    fixture.input("c.json", &[event(3, "a"), event(13, "b"), event(40, "d")].concat());
    let summary = fixture.run(WINDOWS, RunOptions { once: true, ..RunOptions::default() }).await.unwrap();
    assert_eq!(summary.flows[0].counts.late_rows, 1);
    assert_eq!(fixture.rows("counts").await, ["00:00,a,3", "00:10,b,2", "00:20,c,1"]);
    assert_eq!(fixture.rows("_late_counts").await.len(), 1);
    // Another width would mix old counts with new ones.
    let changed = fixture.run(&WINDOWS.replace("'10 seconds'", "'20 seconds'"), RunOptions { once: true, ..RunOptions::default() }).await;
    let error = changed.unwrap().flows.remove(0).error.unwrap();
    assert_eq!(error.code(), "STREAMING_QUERY_CHANGED");
}

#[tokio::test(flavor = "multi_thread")]
async fn two_streams_are_joined_across_runs() {
    let fixture = Fixture::new();
    for folder in ["clicks", "views"] {
        std::fs::create_dir(fixture.folder.path().join("in").join(folder)).unwrap();
    }
    let text = "
        CREATE TEMPORARY VIEW clicks AS
          SELECT * FROM STREAM read_files('${in}/clicks', format => 'csv', schema => 'id INT, at TIMESTAMP') WATERMARK at DELAY OF INTERVAL 1 MINUTE;
        CREATE TEMPORARY VIEW views AS
          SELECT * FROM STREAM read_files('${in}/views', format => 'csv', schema => 'id INT, at TIMESTAMP') WATERMARK at DELAY OF INTERVAL 1 MINUTE;
        CREATE STREAMING TABLE both AS
          SELECT c.id, unix_timestamp(c.at) - unix_timestamp(v.at) AS seconds
          FROM STREAM views v JOIN STREAM clicks c ON v.id = c.id AND c.at BETWEEN v.at AND v.at + INTERVAL 5 MINUTES";
    fixture.input("views/a.csv", "1,2024-01-01 00:00:00\n2,2024-01-01 00:00:30\n");
    assert_eq!(fixture.once(text).await, ["both Completed 2->0"]);
    fixture.input("clicks/a.csv", "2,2024-01-01 00:01:00\n1,2024-01-01 00:09:00\n");
    assert_eq!(fixture.once(text).await, ["both Completed 2->1"]);
    assert_eq!(fixture.rows("both").await, ["2,30"]);
}
