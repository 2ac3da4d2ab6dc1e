use std::collections::HashMap;

use arrow::datatypes::DataType;

use super::*;

fn parsed(text: &str) -> Statement {
    crate::sql::parse::statement(text, &HashMap::new(), &[]).unwrap_or_else(|error| panic!("{text}: {error}"))
}

fn names(parts: &[&str]) -> Name {
    parts.iter().map(|part| (*part).to_owned()).collect()
}

fn properties(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}

#[test]
fn tables_are_created_with_everything_that_is_said_of_them() {
    let Statement::CreateTable(table) = parsed(
        "CREATE TABLE IF NOT EXISTS db.t (a INT NOT NULL COMMENT 'x', b DECIMAL(10, 2) DEFAULT 1 + 1, c STRING) USING parquet \
         PARTITIONED BY (c, days(d)) CLUSTER BY (a) OPTIONS (k 'v', n = 1) TBLPROPERTIES ('p.q' = 'r') LOCATION '/x' COMMENT 'all'",
    ) else {
        panic!("no table")
    };
    assert!(table.if_not_exists && !table.replace);
    assert_eq!(table.name, names(&["db", "t"]));
    let columns: Vec<(&str, &DataType, bool)> =
        table.columns.iter().map(|field| (field.name().as_str(), field.data_type(), field.is_nullable())).collect();
    assert_eq!(columns, [("a", &DataType::Int32, false), ("b", &DataType::Decimal128(10, 2), true), ("c", &DataType::Utf8, true)]);
    assert_eq!(table.columns[1].metadata()["CURRENT_DEFAULT"], "1 + 1");
    assert_eq!(table.provider.as_deref(), Some("parquet"));
    assert_eq!(table.partitioning.len(), 2);
    assert_eq!(table.clustering, ["a"]);
    assert_eq!(table.options, properties(&[("k", "v"), ("n", "1")]));
    assert_eq!(table.properties, properties(&[("p.q", "r")]));
    assert_eq!((table.location.as_deref(), table.comment.as_deref()), (Some("/x"), Some("all")));
    assert!(table.query.is_none());

    let Statement::CreateTable(table) = parsed("CREATE OR REPLACE TABLE t USING delta AS SELECT 1 AS a") else { panic!("no table") };
    assert!(table.replace && !table.must_exist && table.query.is_some());
    let Statement::CreateTable(table) = parsed("REPLACE TABLE t (p INT) PARTITIONED BY (q STRING)") else { panic!("no table") };
    assert!(table.replace && table.must_exist);
    assert_eq!(table.columns.len(), 2);
}

#[test]
fn views_keep_the_text_of_their_query() {
    for (text, scope, replace, columns) in [
        ("CREATE VIEW v AS SELECT 1 AS a -- x", ViewScope::Permanent, false, 0),
        ("CREATE OR REPLACE TEMP VIEW v (b COMMENT 'x') AS SELECT 1 AS a;", ViewScope::Temporary, true, 1),
        ("CREATE GLOBAL TEMPORARY VIEW v COMMENT 'c' TBLPROPERTIES (a = b) AS SELECT 1 AS a", ViewScope::GlobalTemporary, false, 0),
    ] {
        // A property's value is a literal.
        let text = text.replace("a = b", "a = 'b'");
        let Statement::CreateView(view) = parsed(&text) else { panic!("{text}") };
        assert_eq!(
            (view.scope, view.replace, view.columns.len(), view.text.as_str()),
            (scope, replace, columns, "SELECT 1 AS a"),
            "{text}"
        );
    }
    let Statement::CreateTemporaryViewUsing { name, columns, provider, options, .. } =
        parsed("CREATE TEMPORARY VIEW v (a INT) USING json OPTIONS (path '/x')")
    else {
        panic!("no view")
    };
    assert_eq!((name.as_str(), columns.len(), provider.as_str()), ("v", 1, "json"));
    assert_eq!(options, properties(&[("path", "/x")]));
}

#[test]
fn inserts_say_where_and_what() {
    let insert = |text: &str| match parsed(text) {
        Statement::Insert(insert) => insert,
        other => panic!("{other:?}"),
    };
    let plain = insert("INSERT INTO db.t VALUES (1, 'a')");
    assert_eq!(plain.target, InsertTarget::Table { name: names(&["db", "t"]), options: BTreeMap::new() });
    assert!(!plain.overwrite && !plain.by_name && plain.columns.is_empty());
    assert_eq!(insert("INSERT INTO t (b, a) SELECT 1, 2").columns, ["b", "a"]);
    assert!(insert("INSERT INTO t (SELECT 1)").columns.is_empty());
    assert!(insert("INSERT INTO t BY NAME SELECT 1 AS a").by_name);
    let partition = insert("INSERT OVERWRITE TABLE t PARTITION (p = 1, q) SELECT 1");
    assert!(partition.overwrite);
    let keys: Vec<(&str, bool)> = partition.partition.iter().map(|(name, value)| (name.as_str(), value.is_some())).collect();
    assert_eq!(keys, [("p", true), ("q", false)]);
    assert!(insert("INSERT INTO t REPLACE WHERE a > 1 SELECT 1").replace_where.is_some());
    let with = insert("WITH a AS (SELECT 1) INSERT INTO t SELECT * FROM a");
    assert!(matches!(with.query.rel_type, Some(spark_connect_proto::relation::RelType::WithRelations(_))));
    assert_eq!(
        insert("INSERT OVERWRITE DIRECTORY '/x' USING csv OPTIONS (sep ';') SELECT 1").target,
        InsertTarget::Directory { path: Some("/x".to_owned()), provider: "csv".to_owned(), options: properties(&[("sep", ";")]) }
    );
}

#[test]
fn merges_have_their_actions_in_order() {
    let Statement::Merge { alias, command } = parsed(
        "MERGE INTO t AS x USING (SELECT 1 AS a) AS s ON x.a = s.a WHEN MATCHED AND s.a > 1 THEN UPDATE SET x.a = s.a, b = 1 \
         WHEN MATCHED THEN DELETE WHEN NOT MATCHED THEN INSERT (a, b) VALUES (s.a, 1) WHEN NOT MATCHED BY SOURCE THEN DELETE",
    ) else {
        panic!("no merge")
    };
    assert_eq!(alias.as_deref(), Some("x"));
    assert_eq!(command.target_table_name, "t");
    assert_eq!((command.match_actions.len(), command.not_matched_actions.len(), command.not_matched_by_source_actions.len()), (2, 1, 1));
}

#[test]
fn small_statements_are_read() {
    let table = || Statement::Describe(Describe::Table { name: names(&["t"]), extended: false, column: None });
    let shown = |show| Statement::Show(show);
    let put = |key: &str, value: &str| Statement::Set(Set::Put(key.to_owned(), value.to_owned()));
    for (text, expected) in [
        ("DESCRIBE t", table()),
        ("DESC TABLE t", table()),
        (
            "DESCRIBE EXTENDED a.t c",
            Statement::Describe(Describe::Table { name: names(&["a", "t"]), extended: true, column: Some(names(&["c"])) }),
        ),
        ("DESCRIBE DATABASE d", Statement::Describe(Describe::Database { name: names(&["d"]), extended: false })),
        ("DESCRIBE FUNCTION abs", Statement::Describe(Describe::Function { name: names(&["abs"]), extended: false })),
        ("SHOW TABLES", shown(Show::Tables { database: None, pattern: None, extended: false })),
        (
            "SHOW TABLES IN d LIKE 'x*'",
            shown(Show::Tables { database: Some(names(&["d"])), pattern: Some("x*".to_owned()), extended: false }),
        ),
        ("SHOW SCHEMAS 'x'", shown(Show::Databases { pattern: Some("x".to_owned()) })),
        ("SHOW COLUMNS IN t IN d", shown(Show::Columns { table: names(&["d", "t"]) })),
        ("SHOW USER FUNCTIONS LIKE 'a*'", shown(Show::Functions { pattern: Some("a*".to_owned()), kind: "USER".to_owned() })),
        ("SHOW CREATE TABLE t", shown(Show::CreateTable { table: names(&["t"]) })),
        ("SHOW TBLPROPERTIES t ('a.b')", shown(Show::Properties { table: names(&["t"]), key: Some("a.b".to_owned()) })),
        ("SET", Statement::Set(Set::All { verbose: false })),
        ("SET -v", Statement::Set(Set::All { verbose: true })),
        ("SET a.b.c", Statement::Set(Set::Get("a.b.c".to_owned()))),
        ("SET a.b=c d; ", put("a.b", "c d")),
        ("SET `a b` = `c``d`", put("a b", "c`d")),
        ("SET a = 'x = y'", put("a", "'x = y'")),
        ("SET a = {\"b\": 1}", put("a", "{\"b\": 1}")),
        ("SET TIME ZONE 'Europe/Paris'", put("spark.sql.session.timeZone", "Europe/Paris")),
        ("SET TIME ZONE INTERVAL '-01:30' HOUR TO MINUTE", put("spark.sql.session.timeZone", "-01:30")),
        ("SET TIME ZONE LOCAL", Statement::Set(Set::TimeZoneLocal)),
        ("RESET", Statement::Reset { key: None }),
        ("RESET a.b", Statement::Reset { key: Some("a.b".to_owned()) }),
        ("USE d", Statement::Use { name: names(&["d"]) }),
        ("USE DATABASE c.d", Statement::Use { name: names(&["c", "d"]) }),
        ("CACHE LAZY TABLE t", Statement::Cache { name: names(&["t"]), lazy: true, query: None }),
        ("UNCACHE TABLE IF EXISTS t", Statement::Uncache { name: names(&["t"]), if_exists: true }),
        ("CLEAR CACHE", Statement::ClearCache),
        ("REFRESH TABLE a.t", Statement::RefreshTable { name: names(&["a", "t"]) }),
        ("REFRESH '/a/b'", Statement::RefreshPath { path: "/a/b".to_owned() }),
        (
            "DROP TABLE IF EXISTS a.t PURGE",
            Statement::Drop { kind: ObjectKind::Table, name: names(&["a", "t"]), if_exists: true, cascade: false, purge: true },
        ),
        (
            "DROP SCHEMA d CASCADE",
            Statement::Drop { kind: ObjectKind::Database, name: names(&["d"]), if_exists: false, cascade: true, purge: false },
        ),
        ("TRUNCATE TABLE t", Statement::Truncate { table: names(&["t"]) }),
        ("COMMENT ON TABLE t IS 'x'", Statement::Comment { kind: ObjectKind::Table, name: names(&["t"]), comment: Some("x".to_owned()) }),
        (
            "ALTER TABLE t RENAME TO u",
            Statement::Alter { kind: ObjectKind::Table, name: names(&["t"]), action: AlterAction::Rename(names(&["u"])) },
        ),
        (
            "ALTER TABLE t SET TBLPROPERTIES ('a' = 'b')",
            Statement::Alter {
                kind: ObjectKind::Table,
                name: names(&["t"]),
                action: AlterAction::SetProperties(properties(&[("a", "b")])),
            },
        ),
        (
            "CREATE DATABASE IF NOT EXISTS d COMMENT 'c' WITH DBPROPERTIES (a = 'b')",
            Statement::CreateDatabase {
                name: names(&["d"]),
                if_not_exists: true,
                comment: Some("c".to_owned()),
                location: None,
                properties: properties(&[("a", "b")]),
            },
        ),
    ] {
        assert_eq!(parsed(text), expected, "{text}");
    }
    assert!(matches!(parsed("EXPLAIN FORMATTED SELECT 1"), Statement::Explain { mode: ExplainMode::Formatted, .. }));
    assert!(matches!(parsed("DELETE FROM t AS x WHERE x.a = 1"), Statement::Delete { alias: Some(_), condition: Some(_), .. }));
    assert!(matches!(parsed("UPDATE t SET a = 1, b.c = 2 WHERE d"), Statement::Update { assignments, .. } if assignments.len() == 2));
    assert!(
        matches!(parsed("ALTER TABLE t ADD COLUMNS (a INT, b STRING)"), Statement::Alter { action: AlterAction::AddColumns(columns), .. } if columns.len() == 2)
    );
}
