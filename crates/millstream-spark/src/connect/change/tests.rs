//! Statements over tables in memory, as SQL: what they answer, what is in the table afterwards, and what they refuse.

use std::sync::Arc;

use arrow::array::RecordBatch;
use futures::TryStreamExt;
use millstream_core::Result;
use spark_connect_proto::relation::RelType;
use spark_connect_proto::{Relation, Sql};

use crate::connect::execute::visible_plan;
use crate::connect::session::ConnectSession;
use crate::connect::statement;
use crate::connect::streaming::tests::session;
use crate::functions::cast::{TextStyle, text_of};

/// The rows of a text, statement or query, each as the texts of its values.
async fn sql(session: &Arc<ConnectSession>, text: &str) -> Result<Vec<String>> {
    let relation = Relation { common: None, rel_type: Some(RelType::Sql(Sql { query: text.to_owned(), ..Sql::default() })) };
    let batches: Vec<RecordBatch> = match statement::run(session, &relation).await? {
        Some(rows) => vec![rows],
        None => session.engine.rows(visible_plan(session.analyze(&relation).await?)?).await?.batches.try_collect().await?,
    };
    let style = TextStyle::show(session.settings().time_zone);
    let mut rows = Vec::new();
    for batch in &batches {
        let schema = batch.schema();
        let columns: Vec<_> =
            batch.columns().iter().zip(schema.fields()).map(|(column, field)| text_of(column, field, &style)).collect::<Result<_>>()?;
        for row in 0..batch.num_rows() {
            let cells: Vec<&str> =
                columns.iter().map(|column| if arrow::array::Array::is_null(column, row) { "NULL" } else { column.value(row) }).collect();
            rows.push(cells.join("|"));
        }
    }
    Ok(rows)
}

/// Runs texts in order; each gives these rows, or fails with this code.
async fn check(steps: &[(&str, &[&str])]) {
    let session = session();
    for (text, expected) in steps {
        let found = match sql(&session, text).await {
            Ok(rows) => rows,
            Err(error) => vec![error.code().to_owned()],
        };
        assert_eq!(found, *expected, "{text}");
    }
}

const NOTHING: &[&str] = &[];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_merge_updates_deletes_and_inserts() {
    check(&[
        ("CREATE TABLE t (id INT, v STRING, n BIGINT) USING delta", NOTHING),
        ("INSERT INTO t VALUES (1, 'a', 1), (2, 'b', 2), (3, 'c', 3)", NOTHING),
        (
            "MERGE INTO t USING (SELECT 1 AS id, 'x' AS v, 10L AS n UNION ALL SELECT 4, 'y', 40L) s ON t.id = s.id \
             WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *",
            &["2|1|0|1"],
        ),
        ("SELECT * FROM t ORDER BY id", &["1|x|10", "2|b|2", "3|c|3", "4|y|40"]),
        (
            "MERGE INTO t USING (SELECT 2 AS id, 'q' AS v) s ON t.id = s.id WHEN MATCHED AND s.v = 'q' THEN DELETE \
             WHEN NOT MATCHED BY SOURCE AND t.id = 3 THEN UPDATE SET v = 'nobody', n = t.n + 1 \
             WHEN NOT MATCHED BY SOURCE AND t.id = 4 THEN DELETE",
            &["3|1|2|0"],
        ),
        ("SELECT * FROM t ORDER BY id", &["1|x|10", "3|nobody|4"]),
        // A clause whose value fails is computed for its own rows only.
        (
            "MERGE INTO t USING (SELECT 1 AS id, 0 AS by UNION ALL SELECT 3, 2) s ON t.id = s.id \
             WHEN MATCHED AND s.by > 0 THEN UPDATE SET n = t.n div s.by WHEN MATCHED THEN UPDATE SET n = -1",
            &["2|2|0|0"],
        ),
        ("SELECT id, n FROM t ORDER BY id", &["1|-1", "3|2"]),
    ])
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn several_matches_of_one_row_are_refused_unless_it_goes_anyway() {
    let twice = "(SELECT 1 AS id, 'x' AS v UNION ALL SELECT 1, 'y')";
    let update = format!("MERGE INTO t USING {twice} s ON t.id = s.id WHEN MATCHED THEN UPDATE SET *");
    let one = format!("MERGE INTO t USING {twice} s ON t.id = s.id WHEN MATCHED AND s.v = 'x' THEN UPDATE SET *");
    let delete = format!("MERGE INTO t USING {twice} s ON t.id = s.id WHEN MATCHED THEN DELETE");
    let insert = format!("MERGE INTO t USING {twice} s ON t.id = s.id WHEN NOT MATCHED THEN INSERT *");
    let refused: &[&str] = &["DELTA_MULTIPLE_SOURCE_ROW_MATCHING_TARGET_ROW_IN_MERGE"];
    check(&[
        ("CREATE TABLE t (id INT, v STRING) USING delta", NOTHING),
        ("INSERT INTO t VALUES (1, 'a'), (2, 'b')", NOTHING),
        (&update, refused),
        (&one, refused),
        (&delete, &["1|0|1|0"]),
        ("SELECT * FROM t", &["2|b"]),
        (&insert, &["2|0|0|2"]),
        ("SELECT v FROM t ORDER BY v", &["b", "x", "y"]),
    ])
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn updates_and_deletes_follow_three_valued_logic_and_reach_into_structs() {
    check(&[
        ("CREATE TABLE t (id INT, v STRING, st STRUCT<a: INT, b: STRING>) USING delta", NOTHING),
        ("INSERT INTO t VALUES (1, 'a', struct(1, 'q')), (2, NULL, struct(2, 'w')), (NULL, 'c', NULL)", NOTHING),
        ("UPDATE t SET v = 'z' WHERE id > 1", &["1"]),
        ("UPDATE t SET st.a = 10 WHERE id = 1", &["1"]),
        ("SELECT id, v, st.a, st.b FROM t ORDER BY id", &["NULL|c|NULL|NULL", "1|a|10|q", "2|z|2|w"]),
        ("UPDATE t SET st.nope = 1", &["FIELD_NOT_FOUND"]),
        ("UPDATE t SET v = nope", &["UNRESOLVED_COLUMN.WITH_SUGGESTION"]),
        ("UPDATE t SET v = 'a', V = 'b'", &["DELTA_CONFLICT_SET_COLUMN"]),
        ("DELETE FROM t WHERE v = 'z'", &["1"]),
        ("DELETE FROM t WHERE id <> 1", &["0"]),
        ("SELECT id FROM t ORDER BY id", &["NULL", "1"]),
        ("DELETE FROM t WHERE id IN (SELECT 1)", &["DELTA_UNSUPPORTED_SUBQUERY"]),
        ("DELETE FROM t WHERE max(id) > 1", &["UNSUPPORTED_EXPR_FOR_OPERATOR"]),
        ("DELETE FROM t WHERE rand() > 2", &["INVALID_NON_DETERMINISTIC_EXPRESSIONS"]),
        ("DELETE FROM t", &["2"]),
        ("DELETE FROM nope", &["TABLE_OR_VIEW_NOT_FOUND"]),
    ])
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn schema_evolution_adds_columns_and_fields() {
    check(&[
        ("CREATE TABLE t (id INT, st STRUCT<a: INT>) USING delta", NOTHING),
        ("INSERT INTO t VALUES (1, struct(1)), (2, struct(2))", NOTHING),
        (
            "MERGE WITH SCHEMA EVOLUTION INTO t USING (SELECT 1 AS id, struct(5 AS a, 6 AS b) AS st, 'w' AS w) s ON t.id = s.id \
             WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *",
            &["1|1|0|0"],
        ),
        ("SELECT id, st.a, st.b, w FROM t ORDER BY id", &["1|5|6|w", "2|2|NULL|NULL"]),
        (
            "MERGE INTO t USING (SELECT 1 AS id, 2 AS k) s ON t.id = s.id WHEN MATCHED THEN UPDATE SET *",
            &["DELTA_MERGE_UNRESOLVED_EXPRESSION"],
        ),
    ])
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rows_are_replaced_by_a_condition_and_constraints_hold() {
    check(&[
        ("CREATE TABLE t (p INT, v INT) USING delta PARTITIONED BY (p)", NOTHING),
        ("INSERT INTO t VALUES (1, 1), (2, 2), (3, 3)", NOTHING),
        ("INSERT INTO t REPLACE WHERE p = 2 VALUES (2, 20), (2, 21)", NOTHING),
        ("INSERT INTO t REPLACE WHERE p = 2 VALUES (3, 9)", &["DELTA_REPLACE_WHERE_MISMATCH"]),
        ("SELECT * FROM t ORDER BY v", &["1|1", "3|3", "2|20", "2|21"]),
        ("INSERT INTO t REPLACE WHERE v > 20 VALUES (5, 99)", NOTHING),
        ("SELECT * FROM t ORDER BY v", &["1|1", "3|3", "2|20", "5|99"]),
        ("ALTER TABLE t ADD CONSTRAINT small CHECK (v < 50)", &["DELTA_NEW_CHECK_CONSTRAINT_VIOLATION"]),
        ("ALTER TABLE t ADD CONSTRAINT small CHECK (v < 100)", NOTHING),
        ("INSERT INTO t VALUES (1, 100)", &["DELTA_VIOLATE_CONSTRAINT_WITH_VALUES"]),
        ("UPDATE t SET v = v + 1 WHERE p = 5", &["DELTA_VIOLATE_CONSTRAINT_WITH_VALUES"]),
        ("UPDATE t SET v = 50 WHERE p = 5", &["1"]),
        ("ALTER TABLE t DROP CONSTRAINT small", NOTHING),
        ("INSERT OVERWRITE t PARTITION (p = 1) SELECT 7", NOTHING),
        ("SELECT * FROM t ORDER BY v", &["3|3", "1|7", "2|20", "5|50"]),
        ("TRUNCATE TABLE t", NOTHING),
        ("SELECT count(*) FROM t", &["0"]),
    ])
    .await;
}
