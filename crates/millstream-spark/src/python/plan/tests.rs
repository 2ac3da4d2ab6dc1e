//! What becomes of calls in plans. No Python runs here.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::datatypes::{DataType, Field, Schema};
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::logical_expr::{Expr, JoinType, LogicalPlan, LogicalPlanBuilder, col, lit, table_scan};
use datafusion::optimizer::{OptimizerContext, OptimizerRule};
use millstream_core::Ids;
use prost::bytes::Bytes;
use uuid::Uuid;

use super::call;
use super::extract::ExtractPython;
use crate::functions::Typed;
use crate::python::{PythonCommand, PythonFiles, PythonFunction, PythonOptions, PythonRuntime, Workers, kind};

#[derive(Debug)]
struct NoIds;

impl Ids for NoIds {
    fn next(&self) -> Uuid {
        Uuid::nil()
    }
}

fn runtime() -> PythonRuntime {
    let python = PythonCommand::choose(&PythonOptions::default(), None).unwrap();
    PythonRuntime::new(Arc::new(Workers::default()), python, Arc::new(NoIds), PythonFiles::default(), |_| None)
}

fn function(name: &str, kind: i32) -> PythonFunction {
    PythonFunction {
        name: name.to_owned(),
        kind,
        deterministic: !name.starts_with("random"),
        version: "3.11".to_owned(),
        command: Bytes::copy_from_slice(name.as_bytes()),
        output: Field::new("", if name.starts_with("is") { DataType::Boolean } else { DataType::Int64 }, true),
    }
}

/// A call of a function over columns and other calls.
fn called(runtime: &PythonRuntime, name: &str, kind: i32, arguments: Vec<Expr>) -> Expr {
    let arguments = arguments.into_iter().map(|argument| (None, Typed::new(argument, DataType::Int64, true))).collect();
    call(runtime.clone(), function(name, kind), arguments).unwrap().expr
}

fn scan(name: &str, columns: &[&str]) -> LogicalPlanBuilder {
    let fields: Vec<Field> = columns.iter().map(|column| Field::new(*column, DataType::Int64, true)).collect();
    table_scan(Some(name), &Schema::new(fields), None).unwrap()
}

/// The plan without calls, its columns numbered as they come.
fn extracted(plan: LogicalPlan) -> datafusion::error::Result<String> {
    let plan = plan.transform_up(|node| -> datafusion::error::Result<Transformed<LogicalPlan>> {
        ExtractPython.rewrite(node, &OptimizerContext::new())
    })?;
    let mut names: HashMap<String, usize> = HashMap::new();
    let mut text = String::new();
    let shown = plan.data.display_indent().to_string();
    let mut rest = shown.as_str();
    while let Some(at) = rest.find('#') {
        let (before, after) = rest.split_at(at);
        let length = after[1..].find(|c: char| !c.is_ascii_digit()).map_or(after.len(), |length| length + 1);
        let next = names.len() + 1;
        let number = *names.entry(after[..length].to_owned()).or_insert(next);
        text.push_str(&format!("{before}#{number}"));
        rest = &after[length..];
    }
    text.push_str(rest);
    Ok(text)
}

#[test]
fn calls_of_one_kind_are_computed_together() {
    let python = runtime();
    let f = |name: &str, arguments| called(&python, name, kind::ARROW_BATCHED, arguments);
    let plan = scan("t", &["a", "b"])
        .project(vec![
            f("f", vec![col("a")]).alias("x"),
            f("g", vec![f("f", vec![col("b")])]).alias("y"),
            f("f", vec![col("a")]).alias("z"),
        ])
        .unwrap();
    let shown = extracted(plan.build().unwrap()).unwrap();
    assert_eq!(
        shown,
        "Projection: #1 AS x, #2 AS y, #1 AS z\n  ArrowEvalPython: [f, g]\n    Projection: t.a, t.b, t.a AS #3, t.b AS #4\n      TableScan: t"
    );
}

#[test]
fn calls_that_wait_for_others_come_later() {
    let python = runtime();
    let f = |name: &str, kind, arguments| called(&python, name, kind, arguments);
    let cases = [
        // Through another expression, with another kind, and of iterators, which are alone.
        (f("g", kind::ARROW_BATCHED, vec![f("f", kind::ARROW_BATCHED, vec![col("a")]) + lit(1_i64)]), 2),
        (f("g", kind::PANDAS, vec![f("f", kind::ARROW_BATCHED, vec![col("a")])]), 2),
        (f("g", kind::PANDAS, vec![f("f", kind::PANDAS, vec![col("a")])]), 1),
        (f("g", kind::PANDAS_ITERATOR, vec![f("f", kind::PANDAS_ITERATOR, vec![col("a")])]), 2),
        (f("f", kind::PANDAS_ITERATOR, vec![col("a")]) + f("g", kind::PANDAS_ITERATOR, vec![col("a")]), 2),
        (f("f", kind::BATCHED, vec![col("a")]) + f("f", kind::BATCHED, vec![col("a")]), 1),
    ];
    for (expr, nodes) in cases {
        let text = expr.to_string();
        let shown = extracted(scan("t", &["a"]).project(vec![expr.alias("x")]).unwrap().build().unwrap()).unwrap();
        assert_eq!(shown.matches("EvalPython").count(), nodes, "{text}: {shown}");
    }
}

#[test]
fn what_is_not_deterministic_is_computed_as_often_as_it_is_written() {
    let python = runtime();
    for (name, functions) in [("f", "[f]"), ("random", "[random, random]")] {
        let f = || called(&python, name, kind::ARROW_BATCHED, Vec::new());
        let plan = scan("t", &["a"]).project(vec![f().alias("x"), f().alias("y")]).unwrap().build().unwrap();
        assert!(extracted(plan).unwrap().contains(functions), "{name}");
    }
}

#[test]
fn filters_without_calls_come_first() {
    let python = runtime();
    let wanted = called(&python, "is_odd", kind::ARROW_BATCHED, vec![col("a")]);
    let plan = scan("t", &["a", "b"]).filter(wanted.and(col("b").gt(lit(1_i64)))).unwrap().build().unwrap();
    assert_eq!(
        extracted(plan).unwrap(),
        "Projection: t.a, t.b\n  Filter: #1\n    ArrowEvalPython: [is_odd]\n      Projection: t.a, t.b, t.a AS #2\n        Filter: t.b > Int64(1)\n          TableScan: t"
    );
}

#[test]
fn calls_in_joins_are_computed_on_their_side() {
    let python = runtime();
    let f = |name: &str, arguments| called(&python, name, kind::ARROW_BATCHED, arguments);
    let join = |join_type, filter: Expr| {
        let right = scan("r", &["b"]).build().unwrap();
        scan("l", &["a"]).join_on(right, join_type, [filter]).unwrap().build().unwrap()
    };
    let one_side = extracted(join(JoinType::Left, f("f", vec![col("l.a")]).eq(col("r.b")))).unwrap();
    assert_eq!(
        one_side,
        "Projection: l.a, r.b\n  Left Join:  Filter: #1 = r.b\n    ArrowEvalPython: [f]\n      Projection: l.a, l.a AS #2\n        TableScan: l\n    TableScan: r"
    );
    let both = f("is_near", vec![col("l.a"), col("r.b")]);
    let above = extracted(join(JoinType::Inner, both.clone())).unwrap();
    assert!(above.starts_with("Projection: l.a, r.b\n  Filter: #1\n    ArrowEvalPython: [is_near]"), "{above}");
    let refused = millstream_engine::from_datafusion(extracted(join(JoinType::Left, both)).unwrap_err());
    assert_eq!(refused.code(), "UNSUPPORTED_FEATURE.PYTHON_UDF_IN_ON_CLAUSE");
}

#[test]
fn aggregates_of_users_are_a_node_of_their_own() {
    let python = runtime();
    let mean = called(&python, "mean", kind::AGGREGATE_PANDAS, vec![called(&python, "f", kind::ARROW_BATCHED, vec![col("v")])]);
    let plan = scan("t", &["k", "v"]).aggregate(vec![col("k")], vec![mean.clone().alias("m")]).unwrap().build().unwrap();
    let shown = extracted(plan).unwrap();
    assert!(shown.starts_with("ArrowAggregatePython: [mean]\n  Projection: t.k AS #1, #2 AS #3\n    ArrowEvalPython: [f]"), "{shown}");
    let sum = datafusion::functions_aggregate::expr_fn::sum(col("v"));
    let mixed = scan("t", &["k", "v"]).aggregate(vec![col("k")], vec![mean.alias("m"), sum.alias("s")]).unwrap().build().unwrap();
    let refused = millstream_engine::from_datafusion(extracted(mixed).unwrap_err());
    assert_eq!(refused.code(), "INVALID_PANDAS_UDF_PLACEMENT");
}
