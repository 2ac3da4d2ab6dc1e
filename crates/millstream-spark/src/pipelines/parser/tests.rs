use super::*;
use crate::types::to_ddl;
use arrow::datatypes::Schema;

fn parsed_with(text: &str, variables: &Variables) -> ParsedFile {
    parse(&Arc::new(SourceFile::new("p.sql", text)), variables)
}

fn parsed(text: &str) -> ParsedFile {
    let parsed = parsed_with(text, &Variables::new());
    assert_eq!(parsed.faults, [], "{text}");
    parsed
}

fn dataset(text: &str) -> DatasetDefinition {
    match parsed(text).definitions.remove(0) {
        Definition::Dataset(dataset) => *dataset,
        other => panic!("{other:?}"),
    }
}

fn flow(text: &str) -> FlowDefinition {
    match parsed(text).definitions.remove(0) {
        Definition::Flow(flow) => *flow,
        other => panic!("{other:?}"),
    }
}

fn query(text: &Fragment) -> String {
    text.line()
}

#[test]
fn both_dialects_define_the_same_things() {
    use DatasetKind::*;
    for (text, kind, name, private) in [
        ("CREATE STREAMING TABLE t AS SELECT 1", StreamingTable, "t", false),
        ("create streaming table if not exists s.t as select 1;", StreamingTable, "s.t", false),
        ("CREATE OR REFRESH STREAMING TABLE t AS SELECT 1", StreamingTable, "t", false),
        ("CREATE OR REFRESH PRIVATE STREAMING TABLE t AS SELECT 1", StreamingTable, "t", true),
        ("CREATE OR REPLACE STREAMING TABLE t AS SELECT 1", StreamingTable, "t", false),
        ("CREATE STREAMING LIVE TABLE t AS SELECT 1", StreamingTable, "t", false),
        ("CREATE TEMPORARY STREAMING TABLE t AS SELECT 1", StreamingTable, "t", true),
        ("CREATE MATERIALIZED VIEW m AS SELECT 1", MaterializedView, "m", false),
        ("CREATE OR REFRESH PRIVATE MATERIALIZED VIEW m AS SELECT 1", MaterializedView, "m", true),
        ("CREATE OR REFRESH LIVE TABLE m AS SELECT 1", MaterializedView, "m", false),
        ("CREATE TEMPORARY VIEW v AS SELECT 1", TemporaryView, "v", false),
        ("CREATE OR REPLACE TEMP VIEW `odd name` AS SELECT 1", TemporaryView, "odd name", false),
        ("CREATE LIVE VIEW v AS SELECT 1", TemporaryView, "v", false),
        ("CREATE STREAMING LIVE VIEW LIVE.v AS SELECT 1", TemporaryView, "v", false),
    ] {
        let found = dataset(text);
        assert_eq!((found.kind, found.name.to_string(), found.private), (kind, name.to_owned(), private), "{text}");
        assert_eq!(query(&found.query.unwrap()).to_lowercase(), "select 1");
    }
}

#[test]
fn every_clause_is_read() {
    let text = "CREATE OR REFRESH STREAMING TABLE orders (
          id BIGINT NOT NULL COMMENT 'the key',
          `total sum` DECIMAL(10,2),
          CONSTRAINT has_id EXPECT (id IS NOT NULL) ON VIOLATION DROP ROW,
          CONSTRAINT positive EXPECT (`total sum` > 0 AND (id <> 3)) ON VIOLATION FAIL UPDATE,
          CONSTRAINT small EXPECT (id < 10),
          CONSTRAINT pk PRIMARY KEY (id)
        )
        USING delta PARTITIONED BY (id, `total sum`) CLUSTER BY (id) COMMENT 'all ' 'orders'
        TBLPROPERTIES ('a.b' = 'c', pipelines.reset.allowed = false, 'flag')
        SCHEDULE REFRESH EVERY 2 HOURS REFRESH POLICY AUTO
        AS SELECT * FROM STREAM x";
    let file = parsed(text);
    let Definition::Dataset(found) = &file.definitions[0] else { panic!() };
    let fields: Vec<_> = found.columns.iter().map(|column| column.field.clone().unwrap()).collect();
    assert_eq!(to_ddl(&Schema::new(fields)), "id BIGINT NOT NULL COMMENT 'the key',`total sum` DECIMAL(10,2)");
    let expectations: Vec<_> =
        found.expectations.iter().map(|e| (e.name.as_str(), e.text.written().to_owned(), e.on_violation, e.position.line)).collect();
    assert_eq!(
        expectations,
        [
            ("has_id", "id IS NOT NULL".to_owned(), OnViolation::DropRow, 4),
            ("positive", "`total sum` > 0 AND (id <> 3)".to_owned(), OnViolation::FailUpdate, 5),
            ("small", "id < 10".to_owned(), OnViolation::Keep, 6),
        ]
    );
    assert_eq!(found.partition_by.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>(), ["id", "total sum"]);
    assert_eq!(found.clustering, Some(Clustering::Columns(vec!["id".into()])));
    assert_eq!(found.comment.as_deref(), Some("all orders"));
    let properties: Vec<_> = found.properties.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect();
    assert_eq!(properties, [("a.b", "c"), ("flag", ""), ("pipelines.reset.allowed", "false")]);
    assert_eq!(query(found.query.as_ref().unwrap()), "SELECT * FROM STREAM x");
    let notes: Vec<String> = file.notes.iter().map(|note| note.to_string()).collect();
    assert_eq!(notes.len(), 4, "{notes:?}");
    assert!(notes[2].starts_with("p.sql:11:9: SCHEDULE is accepted"), "{notes:?}");
}

#[test]
fn forms_of_clauses() {
    let names = |text: &str| {
        dataset(text).columns.into_iter().map(|column| (column.name, column.field.is_some(), column.comment)).collect::<Vec<_>>()
    };
    assert_eq!(
        names("CREATE TEMPORARY VIEW v (a COMMENT 'x', b) AS SELECT 1, 2"),
        [("a".to_owned(), false, Some("x".to_owned())), ("b".to_owned(), false, None)]
    );
    assert_eq!(
        names("CREATE MATERIALIZED VIEW v (a, b INT) AS SELECT 1, 2").iter().map(|column| column.1).collect::<Vec<_>>(),
        [false, true]
    );
    assert_eq!(names("CREATE STREAMING TABLE t (constraint INT, comment STRING)").len(), 2);
    assert_eq!(dataset("CREATE STREAMING TABLE t").query.map(|_| ()), None);
    let once = dataset("CREATE STREAMING TABLE t FLOW INSERT ONCE BY NAME SELECT 1 AS a");
    assert!(once.once && query(&once.query.unwrap()) == "SELECT 1 AS a");
    assert!(!dataset("CREATE STREAMING TABLE t FLOW INSERT BY NAME SELECT * FROM STREAM a").once);
    for text in [
        "CREATE MATERIALIZED VIEW m SCHEDULE CRON '0 0 * * * ?' AT TIME ZONE 'UTC' COMMENT 'x' AS SELECT 1",
        "CREATE MATERIALIZED VIEW m SCHEDULE EVERY 1 DAY AS SELECT 1",
        "CREATE MATERIALIZED VIEW m TRIGGER ON UPDATE AT MOST EVERY INTERVAL 1 HOUR CLUSTER BY AUTO AS SELECT 1",
        "CREATE MATERIALIZED VIEW m REFRESH POLICY INCREMENTAL AS SELECT 1",
        "CREATE MATERIALIZED VIEW m AS WITH c AS (SELECT 1) SELECT * FROM c",
    ] {
        let found = dataset(text);
        assert!(found.query.is_some(), "{text}");
    }
}

#[test]
fn flows() {
    let found = flow("CREATE FLOW f COMMENT 'x' AS INSERT INTO s.t BY NAME SELECT * FROM STREAM a");
    assert_eq!(
        (found.name.to_string(), found.target.to_string(), found.once, found.comment.as_deref()),
        ("f".into(), "s.t".into(), false, Some("x"))
    );
    assert_eq!((found.position.column, found.target_position.column), (13, 42));
    assert!(flow("CREATE FLOW f AS INSERT INTO ONCE t BY NAME SELECT 1").once);
    // A table may have the keyword's name.
    let found = flow("CREATE FLOW f AS INSERT INTO once BY NAME SELECT 1");
    assert_eq!((found.target.to_string(), found.once), ("once".into(), false));
}

#[test]
fn settings_reach_what_follows_them() {
    let text = "SET spark.sql.session.timeZone = America/Lima; SET day = '2024-01-01'; SET `n` = 5;
        CREATE TEMPORARY VIEW a AS SELECT ${day}, ${n}, '${spark.sql.session.timeZone}';
        USE SCHEMA silver; CREATE TEMPORARY VIEW b AS SELECT 1; USE c.d; SET CATALOG e; USE CATALOG 'f';
        SET TIME ZONE 'UTC';
        CREATE TEMPORARY VIEW g AS SELECT 1;";
    let file = parsed(text);
    let datasets: Vec<_> =
        file.definitions.iter().map(|definition| if let Definition::Dataset(d) = definition { d } else { panic!() }).collect();
    assert_eq!(query(datasets[0].query.as_ref().unwrap()), "SELECT '2024-01-01' , 5 , 'America/Lima'");
    assert_eq!(datasets[0].settings.configuration["spark.sql.session.timeZone"], "America/Lima");
    assert_eq!(datasets.iter().map(|dataset| dataset.name.to_string()).collect::<Vec<_>>(), ["a", "silver.b", "f.d.g"]);
    assert_eq!(datasets[2].settings.configuration["spark.sql.session.timeZone"], "UTC");
}

#[test]
fn variables_of_the_command_line_are_seen_and_overruled() {
    let variables: Variables = [("in", "/a"), ("n", "1")].into_iter().collect();
    let file =
        parsed_with("CREATE TEMPORARY VIEW v AS SELECT '${in}', ${n}; SET n = 2; CREATE TEMPORARY VIEW w AS SELECT ${n}", &variables);
    let queries: Vec<String> =
        file.definitions.iter().map(|d| if let Definition::Dataset(d) = d { query(d.query.as_ref().unwrap()) } else { panic!() }).collect();
    assert_eq!(queries, ["SELECT '/a' , 1", "SELECT 2"]);
}

#[test]
fn faults_name_place_and_remedy() {
    for (text, expected) in [
        ("SELECT 1", "p.sql:1:1: a statement that begins with SELECT is not allowed in a pipeline (use CREATE STREAMING TABLE"),
        ("CREATE VIEW v AS SELECT 1", "p.sql:1:1: CREATE VIEW is not allowed in a pipeline (write CREATE TEMPORARY VIEW"),
        ("CREATE TABLE t AS SELECT 1", "p.sql:1:1: CREATE TABLE is not allowed"),
        ("CREATE SINK s", "p.sql:1:8: CREATE SINK is not supported yet"),
        ("CREATE STREAMING t", "p.sql:1:8: expected STREAMING TABLE, MATERIALIZED VIEW, TEMPORARY VIEW or FLOW, found STREAMING"),
        ("CREATE STREAMING TABLE", "p.sql:1:23: expected the name of the streaming table, found the end of the statement"),
        ("CREATE STREAMING TABLE a.b.c.d", "p.sql:1:24: a table is named by at most three parts"),
        ("CREATE STREAMING TABLE t\n  LOCATION '/x' AS SELECT 1", "p.sql:2:3: LOCATION is not allowed in a pipeline"),
        ("CREATE STREAMING TABLE t OPTIONS (a = 1)", "p.sql:1:26: OPTIONS is not allowed"),
        ("CREATE STREAMING TABLE t USING parquet", "p.sql:1:32: tables of a pipeline are Delta tables, and not parquet (leave USING out)"),
        ("CREATE STREAMING TABLE t AS", "p.sql:1:28: expected a query, found the end of the statement"),
        ("CREATE STREAMING TABLE t COMMENT 'a' COMMENT 'b'", "p.sql:1:38: clause COMMENT is there twice"),
        ("CREATE STREAMING TABLE t SELECT 1", "p.sql:1:26: expected a clause or AS, found SELECT"),
        ("CREATE MATERIALIZED VIEW m", "p.sql:1:27: expected AS and the query of the materialized view"),
        ("CREATE TEMPORARY VIEW m PARTITIONED BY (a) AS SELECT 1", "p.sql:1:25: PARTITIONED BY does not belong to a view"),
        ("CREATE STREAMING TABLE t PARTITIONED BY (days(a))", "p.sql:1:42: partitioning by days(…)"),
        ("CREATE STREAMING TABLE t (a INT,\n a STRING)", "p.sql:2:2: column 'a' is there twice"),
        ("CREATE STREAMING TABLE t (a)", "p.sql:1:28: expected a type, found ')'"),
        ("CREATE STREAMING TABLE t (a INTT)", "p.sql:1:29: there is no type INTT (did you mean INT?)"),
        ("CREATE STREAMING TABLE t (a INT MASK f)", "p.sql:1:33: column masks are not supported"),
        ("CREATE STREAMING TABLE t (a INT GENERATED ALWAYS AS (b))", "p.sql:1:33: generated columns are not supported"),
        ("CREATE STREAMING TABLE t (a INT) WITH ROW FILTER f ON (a)", "p.sql:1:34: WITH ROW FILTER is not supported"),
        ("CREATE STREAMING TABLE t (CONSTRAINT c EXPECT a > 1)", "p.sql:1:47: expected '(', found a"),
        ("CREATE STREAMING TABLE t (CONSTRAINT c EXPECT ())", "p.sql:1:47: expected an expression"),
        ("CREATE STREAMING TABLE t (CONSTRAINT c EXPECT (a >))", "p.sql:1:51: expected "),
        (
            "CREATE STREAMING TABLE t (CONSTRAINT c EXPECT (a) ON VIOLATION IGNORE)",
            "p.sql:1:64: expected DROP ROW or FAIL UPDATE, found IGNORE",
        ),
        ("CREATE STREAMING TABLE t (CONSTRAINT c EXPECT (a), CONSTRAINT C EXPECT (b))", "p.sql:1:52: expectation 'C' is there twice"),
        ("CREATE STREAMING TABLE t CONSTRAINT c EXPECT (a)", "p.sql:1:26: CONSTRAINT belongs into the parentheses"),
        ("CREATE STREAMING TABLE t (CONSTRAINT c EXPECT (a)", "p.sql:1:50: expected ')', found the end of the statement"),
        ("CREATE STREAMING TABLE t TBLPROPERTIES ('a' = 1, 'a' = 2)", "p.sql:1:50: key 'a' is given twice"),
        ("CREATE MATERIALIZED VIEW m REFRESH POLICY INCREMENTAL STRICT AS SELECT 1", "p.sql:1:55: REFRESH POLICY INCREMENTAL STRICT"),
        ("CREATE MATERIALIZED VIEW m FLOW INSERT BY NAME SELECT 1", "p.sql:1:28: FLOW belongs to a streaming table"),
        ("CREATE FLOW f AS INSERT INTO t SELECT 1", "p.sql:1:32: a flow inserts by name"),
        ("CREATE FLOW f AS INSERT t BY NAME SELECT 1", "p.sql:1:25: expected INTO, found t"),
        (
            "CREATE FLOW f AS AUTO CDC INTO t FROM STREAM(s) KEYS (k) SEQUENCE BY n",
            "p.sql:1:18: AUTO CDC (APPLY CHANGES) is not supported yet",
        ),
        ("APPLY CHANGES INTO LIVE.t FROM x KEYS (k) SEQUENCE BY n", "p.sql:1:1: AUTO CDC"),
        ("CREATE STREAMING TABLE t FLOW AUTO CDC FROM s", "p.sql:1:31: AUTO CDC"),
        ("CREATE STREAMING TABLE t FLOW REPLACE WHERE a BY NAME SELECT 1", "p.sql:1:31: REPLACE flows"),
        ("SET", "p.sql:1:1: SET without a key and a value"),
        ("SET a", "p.sql:1:6: expected '='"),
        ("USE", "p.sql:1:4: expected the name of a schema"),
        ("USE a b", "p.sql:1:7: expected the end of the statement, found b"),
        ("CREATE TEMPORARY VIEW v AS SELECT '${who}'", "p.sql:1:36: variable 'who' has no value"),
    ] {
        let faults = parsed_with(text, &Variables::new()).faults;
        assert_eq!(faults.len(), 1, "{text}: {faults:?}");
        let fault = faults[0].to_string();
        assert!(fault.starts_with(expected), "{text}\n  is       {fault}\n  expected {expected}");
    }
}

#[test]
fn one_fault_does_not_hide_another() {
    let file = parsed_with("CREATE X;\nCREATE STREAMING TABLE ok;\n SELECT 1;\nCREATE FLOW f;", &Variables::new());
    assert_eq!(file.faults.iter().map(|fault| (fault.position.line, fault.position.column)).collect::<Vec<_>>(), [(1, 8), (3, 2), (4, 14)]);
    assert_eq!(file.definitions.len(), 1);
}

proptest::proptest! {
    #[test]
    fn no_text_panics(words in proptest::collection::vec(
        "CREATE|STREAMING|TABLE|MATERIALIZED|VIEW|FLOW|t|\\(|\\)|,|AS|SELECT|CONSTRAINT|EXPECT|INT|1|'x'|=|SET|USE|\\.|;|COMMENT|INSERT|INTO|BY|NAME|\\$\\{a\\}", 0..16)) {
        drop(parsed_with(&words.join(" "), &Variables::new()));
    }
}
