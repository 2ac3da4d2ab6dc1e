use datafusion::arrow::array::RecordBatch;
use datafusion::datasource::MemTable;

use super::*;
use crate::sql::{SourceFile, Variables, parse_expression, prepare};
use crate::types::{parse_schema, to_ddl};

fn relation(ddl: &str) -> Arc<dyn TableProvider> {
    let mut schema = parse_schema(ddl).unwrap();
    if schema.fields().last().is_some_and(|field| field.name() == "_metadata") {
        let mut fields: Vec<Field> = schema.fields().iter().map(|field| field.as_ref().clone()).collect();
        let last = fields.pop().unwrap().with_metadata([(HIDDEN.to_owned(), String::new())].into());
        fields.push(last);
        schema = arrow::datatypes::Schema::new(fields);
    }
    let schema = Arc::new(schema);
    Arc::new(MemTable::try_new(schema.clone(), vec![vec![RecordBatch::new_empty(schema)]]).unwrap())
}

async fn planned(sql: &str, relations: &[&str]) -> Result<String, String> {
    let context = SessionContext::new();
    crate::sql::register(&context).unwrap();
    let file = SourceFile::new("q.sql", sql);
    let tokens = file.tokens(0..sql.len(), &Variables::new()).map_err(|fault| fault.to_string())?;
    let prepared = prepare(&file, &tokens, "q").map_err(|fault| fault.to_string())?;
    let planner = Planner::new(context.state());
    let plan = planner.plan(&prepared, relations.iter().map(|ddl| relation(ddl)).collect()).await;
    let plan = plan.map_err(|fault| format!("{} {fault}", fault.code))?;
    context.state().optimize(&plan).map_err(|error| error.to_string())?;
    Ok(to_ddl(&millstream_engine::plan::result_schema(&plan)))
}

#[tokio::test]
async fn names_are_found_without_case_and_keep_the_case_that_is_written() {
    let flights = "FlightDate DATE, Carrier STRING, depDelay INT, Payload STRUCT<Id: INT, Inner: STRUCT<Deep: STRING>>";
    let airlines = "carrier STRING, Name STRING";
    for (sql, relations, expected) in [
        (
            "SELECT * FROM t",
            vec![flights],
            "FlightDate DATE,Carrier STRING,depDelay INT,Payload STRUCT<Id: INT, Inner: STRUCT<Deep: STRING>>",
        ),
        (
            "SELECT flightdate, CARRIER AS `The Carrier`, DepDelay FROM t WHERE DEPDELAY > 1",
            vec![flights],
            "flightdate DATE,`The Carrier` STRING,DepDelay INT",
        ),
        (
            "SELECT T.`FLIGHTDATE`, x.carrier FROM t JOIN u X ON t.CARRIER = x.Carrier",
            vec![flights, airlines],
            "FLIGHTDATE DATE,carrier STRING",
        ),
        ("SELECT name, carrier FROM t JOIN u USING (CARRIER)", vec![flights, airlines], "name STRING,carrier STRING"),
        ("SELECT payload.id, Payload.INNER.deep, t.payload.Id AS other FROM t", vec![flights], "id INT,deep STRING,other INT"),
        ("SELECT cast(depdelay AS BIGINT), CAST(t.Carrier AS STRING) c FROM t", vec![flights], "depdelay BIGINT,c STRING"),
        ("WITH A AS (SELECT Carrier AS Who FROM t) SELECT WHO, a.who AS Again FROM `A`", vec![flights], "WHO STRING,Again STRING"),
        (
            "SELECT Total FROM (SELECT max(depdelay) AS Total, carrier FROM t GROUP BY Carrier) q WHERE q.CARRIER = 'x'",
            vec![flights],
            "Total INT",
        ),
        ("SELECT * FROM (SELECT Carrier AS Who FROM t)", vec![flights], "Who STRING"),
        ("SELECT * EXCEPT (PAYLOAD, flightDate) FROM t", vec![flights], "Carrier STRING,depDelay INT"),
        ("SELECT Carrier FROM t UNION ALL SELECT NAME FROM u", vec![flights, airlines], "Carrier STRING"),
        ("SELECT carrier AS C, count(*) AS N FROM t GROUP BY c ORDER BY n", vec![flights], "C STRING,N BIGINT NOT NULL"),
    ] {
        assert_eq!(planned(sql, &relations).await.as_deref(), Ok(expected), "{sql}");
    }
}

#[tokio::test]
async fn the_hidden_column_is_there_when_it_is_named() {
    let files = "A INT, _metadata STRUCT<file_path: STRING>";
    for (sql, relations, expected) in [
        ("SELECT * FROM t", vec![files], "A INT"),
        ("SELECT *, _metadata.file_path FROM t", vec![files], "A INT,file_path STRING"),
        ("SELECT t.*, t._METADATA.file_path AS f FROM t", vec![files], "A INT,f STRING"),
        ("SELECT *, _metadata.file_path AS f FROM read_files('/x')", vec![files], "A INT,f STRING"),
        ("SELECT _metadata FROM t", vec![files], "_metadata STRUCT<file_path: STRING>"),
        ("SELECT *, t._metadata.file_path AS f FROM t JOIN u ON t.a = u.b", vec![files, "b INT"], "A INT,b INT,f STRING"),
    ] {
        assert_eq!(planned(sql, &relations).await.as_deref(), Ok(expected), "{sql}");
    }
}

#[tokio::test]
async fn types_are_sparks() {
    for (expression, expected) in [
        ("CAST('2024-01-01 00:00:00' AS TIMESTAMP)", "TIMESTAMP"),
        ("CAST('2024-01-01 00:00:00' AS TIMESTAMP_NTZ)", "TIMESTAMP_NTZ"),
        ("TIMESTAMP '2024-01-01 00:00:00'", "TIMESTAMP"),
        ("DATE '2024-01-01'", "DATE"),
        ("CAST(1 AS DECIMAL)", "DECIMAL(10,0)"),
        ("CAST('1' AS LONG)", "BIGINT"),
        ("CAST(1 AS STRING)", "STRING"),
        ("CAST('x' AS BINARY)", "BINARY"),
        ("CAST(1 AS FLOAT)", "FLOAT"),
        ("1", "INT"),
        ("-1", "INT"),
        ("2147483648", "BIGINT"),
        ("5L", "BIGINT"),
        ("5s", "SMALLINT"),
        ("1.5D", "DOUBLE"),
        ("1.25BD", "DECIMAL(3,2)"),
        ("1e3", "DOUBLE"),
        ("1e3D", "DOUBLE"),
        ("1.50", "DECIMAL(3,2)"),
        ("1 + 1", "INT"),
        ("a + 1", "INT"),
        ("b + 1", "BIGINT"),
        ("1 / 2", "DOUBLE"),
        ("a / b", "DOUBLE"),
        ("'x'", "STRING"),
        ("sum(a + 1)", "BIGINT"),
        ("max(a) + 1", "INT"),
        ("CASE WHEN a > 1 THEN 1 ELSE 0 END", "INT"),
    ] {
        let found = planned(&format!("SELECT {expression} AS x FROM t"), &["a INT, b BIGINT"]).await;
        assert_eq!(found.map(|schema| schema.replace(" NOT NULL", "")), Ok(format!("x {expected}")), "{expression}");
    }
    assert_eq!(planned("SELECT * FROM VALUES (1, 'a') AS t (n, s)", &[]).await.as_deref(), Ok("n INT NOT NULL,s STRING NOT NULL"));
}

#[tokio::test]
async fn division_gives_doubles_and_refuses_zero() {
    let rows = async |expression: &str| {
        let context = SessionContext::new();
        let sql = format!("SELECT {expression} AS x");
        let file = SourceFile::new("q.sql", sql.as_str());
        let tokens = file.tokens(0..sql.len(), &Variables::new()).unwrap();
        let plan = Planner::new(context.state()).plan(&prepare(&file, &tokens, "q").unwrap(), vec![]).await.unwrap();
        let rows = context.execute_logical_plan(plan).await.unwrap().collect().await?;
        Ok::<f64, DataFusionError>(rows[0].column(0).as_any().downcast_ref::<datafusion::arrow::array::Float64Array>().unwrap().value(0))
    };
    assert_eq!(rows("7 / 2").await.unwrap(), 3.5);
    assert_eq!(rows("1e0 / 4").await.unwrap(), 0.25);
    assert_eq!(from_datafusion(rows("1 / (2 - 2)").await.unwrap_err()).code(), "DIVIDE_BY_ZERO");
}

#[tokio::test]
async fn faults_name_place_and_remedy() {
    let flights = "FlightDate DATE, Carrier STRING, depDelay INT";
    for (sql, relations, expected) in [
        (
            "SELECT carier\nFROM t",
            vec![flights],
            "UNRESOLVED_COLUMN.WITH_SUGGESTION q.sql:1:8: there is no column 'carier' (did you mean 'carrier'?)",
        ),
        (
            "SELECT a FROM\n t WHERE\n  nothing > 1",
            vec!["a INT"],
            "UNRESOLVED_COLUMN.WITH_SUGGESTION q.sql:3:3: there is no column 'nothing' (there are a)",
        ),
        ("SELECT no_such_fn(carrier) FROM t", vec![flights], "UNRESOLVED_ROUTINE q.sql:1:8: there is no function 'no_such_fn'"),
        (
            "SELECT carrier FROM t JOIN u ON true",
            vec![flights, "carrier INT"],
            "AMBIGUOUS_REFERENCE q.sql:1:8: column 'carrier' is in more than one relation",
        ),
        ("SELECT 1 FROM t", vec!["a INT, b INT, `A ` INT"], ""),
        ("SELECT flightdate + carrier FROM t", vec![flights], "INVALID_PLAN q.sql:1:"),
    ] {
        match planned(sql, &relations).await {
            Err(fault) => assert!(!expected.is_empty() && fault.starts_with(expected), "{sql}\n  is       {fault}\n  expected {expected}"),
            Ok(schema) => assert_eq!(expected, "", "{sql}: {schema}"),
        }
    }
}

#[test]
fn conditions_are_checked_against_the_rows() {
    let planner = Planner::new(SessionContext::new().state());
    let schema = Arc::new(parse_schema("Id INT, Payload STRUCT<Kind: STRING>").unwrap());
    let position = Position { file: "q.sql".into(), line: 1, column: 1 };
    let condition = |text: &str| {
        let file = SourceFile::new("q.sql", text);
        let tokens = file.tokens(0..text.len(), &Variables::new()).unwrap();
        let parsed = parse_expression(&file, &tokens, crate::sql::START).unwrap();
        planner.condition(&parsed, &schema, &position).map(|expr| expr.to_string()).map_err(|fault| fault.to_string())
    };
    assert!(condition("ID IS NOT NULL AND payload.kind = 'x'").is_ok());
    assert_eq!(condition("id"), Err("q.sql:1:1: the condition is a int and not a boolean".to_owned()));
    assert_eq!(condition("1 > 0 AND ide > 1"), Err("q.sql:1:11: there is no column 'ide' (did you mean 'Id'?)".to_owned()));
}
