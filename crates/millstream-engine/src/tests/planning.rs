//! What can run on a stream, and what comes out of a plan.

use arrow::datatypes::DataType;

use super::*;

#[tokio::test(flavor = "multi_thread")]
async fn table_of_plans() {
    let append = OutputMode::Append;
    for (sql, mode, expected) in [
        ("SELECT value + 1 AS v FROM numbers WHERE value > 3", append, "ok"),
        ("SELECT * FROM (SELECT value FROM numbers) AS n", append, "ok"),
        ("SELECT value FROM numbers UNION ALL SELECT value + 100 FROM numbers", append, "ok"),
        ("SELECT n.value FROM numbers n JOIN (VALUES (1), (2)) AS t(k) ON n.value = t.k", append, "ok"),
        ("SELECT n.value FROM numbers n LEFT JOIN (VALUES (1)) AS t(k) ON n.value = t.k", append, "ok"),
        ("SELECT value FROM numbers WHERE value IN (SELECT k FROM (VALUES (1)) AS t(k))", append, "ok"),
        ("SELECT n.value FROM numbers n RIGHT JOIN (VALUES (1)) AS t(k) ON n.value = t.k", append, "_LEGACY_ERROR_TEMP_3102"),
        ("SELECT n.value FROM numbers n FULL JOIN (VALUES (1)) AS t(k) ON n.value = t.k", append, "_LEGACY_ERROR_TEMP_3102"),
        ("SELECT value FROM numbers UNION ALL VALUES (1)", append, "_LEGACY_ERROR_TEMP_3102"),
        ("SELECT value FROM numbers ORDER BY value", append, "_LEGACY_ERROR_TEMP_3102"),
        ("SELECT count(*) AS n FROM numbers", append, "STREAMING_OUTPUT_MODE.UNSUPPORTED_OPERATION"),
        ("SELECT value, row_number() OVER (ORDER BY value) AS n FROM numbers", append, "NON_TIME_WINDOW_NOT_SUPPORTED_IN_STREAMING"),
        ("SELECT value FROM numbers", OutputMode::Complete, "STREAMING_OUTPUT_MODE.UNSUPPORTED_OPERATION"),
        ("SELECT 1 AS one", append, "WRITE_STREAM_NOT_ALLOWED"),
    ] {
        let world = World::new();
        let (numbers, rows) = (Numbers::new(5), Rows::default());
        let outcome = match world.start_in(sql, &numbers, &rows, mode).await {
            Ok(query) => match query.await_termination().await {
                Ok(()) => "ok".to_owned(),
                Err(error) => format!("failed: {error}"),
            },
            Err(error) => error.code().to_owned(),
        };
        assert_eq!(outcome, expected, "{sql} in {mode}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_relation_used_twice_is_one_source() {
    let world = World::new();
    let (numbers, rows) = (Numbers::new(3), Rows::default());
    let sql = "SELECT value FROM numbers UNION ALL SELECT value + 100 FROM numbers";
    let query = world.start(sql, &numbers, &rows, Trigger::AvailableNow).await.unwrap();
    query.await_termination().await.unwrap();
    assert_eq!(values(&rows.all()), [0, 1, 2, 100, 101, 102]);
    assert_eq!(query.last_progress().unwrap().sources.len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn types_of_datafusions_inside_do_not_reach_the_sink() {
    let world = World::new();
    let (numbers, rows) = (Numbers::new(2), Rows::default());
    let sql = "SELECT arrow_cast(value, 'UInt64') AS u, arrow_cast(CAST(value AS VARCHAR), 'Utf8View') AS s, \
               arrow_cast(value, 'Timestamp(Nanosecond, None)') AS t FROM numbers";
    let query = world.start(sql, &numbers, &rows, Trigger::AvailableNow).await.unwrap();
    query.await_termination().await.unwrap();
    let schema = rows.all()[0].schema();
    let types: Vec<&DataType> = schema.fields().iter().map(|field| field.data_type()).collect();
    let micros = DataType::Timestamp(arrow::datatypes::TimeUnit::Microsecond, None);
    assert_eq!(types, [&DataType::Decimal128(20, 0), &DataType::Utf8, &micros]);
}

#[tokio::test(flavor = "multi_thread")]
async fn reading_a_stream_as_a_batch_is_refused_with_sparks_words() {
    let world = World::new();
    let (numbers, rows) = (Numbers::new(2), Rows::default());
    drop(world.start("SELECT value FROM numbers", &numbers, &rows, Trigger::Once).await.unwrap());
    let plan = world.session.plan_sql("SELECT count(*) FROM numbers").await.unwrap();
    let error = world.session.collect(plan).await.unwrap_err();
    assert_eq!((error.code(), error.kind()), ("_LEGACY_ERROR_TEMP_3102", ErrorKind::Invalid));
}
