//! Expressions and what Spark 4.2 made of them: their type and their value as text, or the condition that they fail with.
//!
//! A line of a table is `expression<TAB>type<TAB>value`, with `\N` for null, or `expression<TAB>!<TAB>condition`. Where Spark fails with an
//! exception that has no condition, ours has none that Spark knows, and the line says `-`.

use std::sync::Arc;

use arrow::array::AsArray;
use async_trait::async_trait;
use datafusion::prelude::{SessionConfig, SessionContext};
use millstream_core::{Error, Options, Result};
use spark_connect_proto::expression::cast::{CastToType, EvalMode};
use spark_connect_proto::expression::{Cast, ExprType};
use spark_connect_proto::relation::RelType;
use spark_connect_proto::{Expression, Project, Range, Relation, read};

use super::{Settings, TimeZone};
use crate::analyzer::{Leaf, Leaves, analyze};
use crate::python::PythonRuntime;
use crate::sql::parse;
use crate::types;

/// There are no tables.
struct Nothing;

fn nothing() -> Error {
    Error::invalid("TABLE_OR_VIEW_NOT_FOUND", "there are no tables")
}

#[async_trait]
impl Leaves for Nothing {
    async fn named(&self, _: &[String], _: bool, _: &Options) -> Result<Leaf> {
        Err(nothing())
    }

    async fn source(&self, _: &read::DataSource, _: bool) -> Result<Leaf> {
        Err(nothing())
    }

    async fn remote(&self, _: &str) -> Result<Leaf> {
        Err(nothing())
    }

    async fn cached(&self, _: &str) -> Result<Arc<[u8]>> {
        Err(nothing())
    }

    fn python(&self) -> Result<PythonRuntime> {
        PythonRuntime::disabled()
    }
}

/// One row with an expression.
fn plan(expression: Expression) -> Relation {
    let range = Range { start: Some(0), end: 1, step: 1, num_partitions: None };
    let one_row = Relation { common: None, rel_type: Some(RelType::Range(range)) };
    let project = Project { input: Some(Box::new(one_row)), expressions: vec![expression] };
    Relation { common: None, rel_type: Some(RelType::Project(Box::new(project))) }
}

fn as_text(expression: Expression) -> Expression {
    let cast = Cast {
        expr: Some(Box::new(expression)),
        eval_mode: EvalMode::Unspecified as i32,
        cast_to_type: Some(CastToType::TypeStr("string".to_owned())),
    };
    Expression { expr_type: Some(ExprType::Cast(Box::new(cast))), ..Default::default() }
}

/// The type and the value of an expression, as a line of a table has them.
async fn outcome(text: &str, settings: &Settings, context: &SessionContext) -> Result<(String, String)> {
    let expression = parse::expression(text)?;
    let state = context.state();
    let analyzed = analyze(&plan(expression.clone()), &Nothing, settings, &state).await?;
    let data_type = types::simple_name_of(analyzed.schema().field(0));
    let shown = analyze(&plan(as_text(expression)), &Nothing, settings, &state).await?;
    let frame = context.execute_logical_plan(shown.plan).await.map_err(millstream_engine::from_datafusion)?;
    let batches = frame.collect().await.map_err(millstream_engine::from_datafusion)?;
    let value = batches.iter().find(|batch| batch.num_rows() > 0).map(|batch| {
        let column = batch.column(0).as_string::<i32>().iter().next().flatten();
        column.map_or_else(|| "\\N".to_owned(), str::to_owned)
    });
    Ok((data_type, value.unwrap_or_else(|| "no row".to_owned())))
}

async fn check(table: &str, ansi: bool, zone: &str) {
    let settings = Settings { ansi, time_zone: TimeZone::parse(zone).unwrap(), ..Settings::default() };
    let context = SessionContext::new_with_config(SessionConfig::new().with_target_partitions(1));
    let mut wrong = Vec::new();
    for line in table.lines() {
        let mut parts = line.split('\t');
        let (Some(text), Some(data_type), Some(value)) = (parts.next(), parts.next(), parts.next()) else { panic!("{line}") };
        let actual = match outcome(text, &settings, &context).await {
            Ok((data_type, value)) => (data_type, value),
            Err(_) if (data_type, value) == ("!", "-") => continue,
            Err(error) => ("!".to_owned(), error.code().to_owned()),
        };
        if actual != (data_type.to_owned(), value.to_owned()) {
            wrong.push(format!("{text}\n    expected {data_type} {value}\n    actual   {} {}", actual.0, actual.1));
        }
    }
    assert!(wrong.is_empty(), "{} expressions differ:\n{}", wrong.len(), wrong.join("\n"));
}

#[tokio::test]
async fn dates_and_times() {
    check(include_str!("dates.tsv"), true, "UTC").await;
}

#[tokio::test]
async fn intervals() {
    check(include_str!("intervals.tsv"), true, "UTC").await;
}

#[tokio::test]
async fn arrays() {
    check(include_str!("arrays.tsv"), true, "UTC").await;
}

#[tokio::test]
async fn maps_and_structs() {
    check(include_str!("maps.tsv"), true, "UTC").await;
}

#[tokio::test]
async fn lambdas() {
    check(include_str!("lambdas.tsv"), true, "UTC").await;
}

#[tokio::test]
async fn without_ansi_rules() {
    check(include_str!("legacy.tsv"), false, "UTC").await;
}
