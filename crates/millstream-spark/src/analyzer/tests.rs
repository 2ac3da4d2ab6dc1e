//! Plans as clients send them, analyzed and run over small tables.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::array::{Int64Array, ListArray, RecordBatch, StringArray, TimestampMicrosecondArray};
use arrow::datatypes::{DataType, Field, Int64Type, Schema};
use arrow::util::display::{ArrayFormatter, FormatOptions};
use async_trait::async_trait;
use datafusion::catalog::TableProvider;
use datafusion::datasource::MemTable;
use datafusion::prelude::SessionContext;
use millstream_core::{Options, Result};
use spark_connect_proto::aggregate::{GroupType, GroupingSets, Pivot};
use spark_connect_proto::expression::ExprType;
use spark_connect_proto::expression::literal::LiteralType;
use spark_connect_proto::expression::{Literal, SortOrder, UnresolvedAttribute, UnresolvedStar};
use spark_connect_proto::join::JoinType;
use spark_connect_proto::relation::RelType;
use spark_connect_proto::set_operation::SetOpType;
use spark_connect_proto::*;

use super::call::{aliased, attribute, function, literal, text};
use super::{Analyzed, Leaf, Leaves, analyze};
use crate::connect::{Host, TestHost};
use crate::functions::Settings;
use crate::python::PythonRuntime;

struct Tables(HashMap<String, Leaf>);

#[async_trait]
impl Leaves for Tables {
    async fn named(&self, parts: &[String], _: bool, _: &Options) -> Result<Leaf> {
        let name = parts.last().cloned().unwrap_or_default();
        self.0.get(&name).cloned().ok_or_else(|| millstream_core::Error::invalid("TABLE_OR_VIEW_NOT_FOUND", name).with_sqlstate("42P01"))
    }

    async fn source(&self, _: &read::DataSource, _: bool) -> Result<Leaf> {
        Err(millstream_core::Error::invalid("DATA_SOURCE_NOT_FOUND", "no sources"))
    }

    async fn remote(&self, relation_id: &str) -> Result<Leaf> {
        self.named(&[relation_id.to_owned()], false, &Options::new()).await
    }

    async fn cached(&self, hash: &str) -> Result<Arc<[u8]>> {
        Err(millstream_core::Error::invalid("LOCAL_RELATION_NOT_FOUND", hash))
    }

    fn python(&self) -> Result<PythonRuntime> {
        PythonRuntime::disabled()
    }
}

fn table(fields: Vec<Field>, columns: Vec<arrow::array::ArrayRef>) -> Leaf {
    let schema = Arc::new(Schema::new(fields));
    let batch = RecordBatch::try_new(schema.clone(), columns).unwrap();
    Leaf::Table(Arc::new(MemTable::try_new(schema, vec![vec![batch]]).unwrap()) as Arc<dyn TableProvider>)
}

fn tables() -> Tables {
    let second = |second: i64| second * 1_000_000;
    let events = table(
        vec![
            Field::new("k", DataType::Utf8, true),
            Field::new("v", DataType::Int64, true),
            Field::new("ts", crate::types::timestamp(), true),
            Field::new("xs", crate::types::array(DataType::Int64, true), true),
        ],
        vec![
            Arc::new(StringArray::from(vec![Some("a"), Some("b"), Some("a"), None])),
            Arc::new(Int64Array::from(vec![Some(1), Some(2), Some(3), Some(4)])),
            Arc::new(TimestampMicrosecondArray::from(vec![Some(second(1)), Some(second(12)), Some(second(7)), None]).with_timezone("UTC")),
            Arc::new({
                let lists = vec![Some(vec![Some(1), Some(2)]), None, Some(vec![]), Some(vec![Some(9)])];
                let list = ListArray::from_iter_primitive::<Int64Type, _, _>(lists);
                let (_, offsets, values, nulls) = list.into_parts();
                ListArray::new(Arc::new(Field::new("element", DataType::Int64, true)), offsets, values, nulls)
            }),
        ],
    );
    let names = table(
        vec![Field::new("k", DataType::Utf8, true), Field::new("name", DataType::Utf8, true)],
        vec![Arc::new(StringArray::from(vec!["a", "c"])), Arc::new(StringArray::from(vec!["Ann", "Cyd"]))],
    );
    let view = Leaf::View(project(read("events"), vec![attribute("k"), aliased(attribute("v"), "w")]));
    Tables(HashMap::from([("events".to_owned(), events), ("names".to_owned(), names), ("view".to_owned(), view)]))
}

fn relation(kind: RelType) -> Relation {
    Relation { common: None, rel_type: Some(kind) }
}

fn with_id(relation: Relation, plan_id: i64) -> Relation {
    Relation { common: Some(RelationCommon { plan_id: Some(plan_id), ..Default::default() }), ..relation }
}

fn boxed(relation: Relation) -> Option<Box<Relation>> {
    Some(Box::new(relation))
}

fn read(name: &str) -> Relation {
    let named = read::NamedTable { unparsed_identifier: name.to_owned(), options: HashMap::new() };
    relation(RelType::Read(Read { read_type: Some(read::ReadType::NamedTable(named)), is_streaming: false }))
}

fn project(input: Relation, expressions: Vec<Expression>) -> Relation {
    relation(RelType::Project(Box::new(Project { input: boxed(input), expressions })))
}

fn filter(input: Relation, condition: Expression) -> Relation {
    relation(RelType::Filter(Box::new(Filter { input: boxed(input), condition: Some(condition) })))
}

fn sort(input: Relation, keys: Vec<Expression>) -> Relation {
    let order = keys.into_iter().map(|key| SortOrder { child: Some(Box::new(key)), direction: 1, null_ordering: 1 }).collect();
    relation(RelType::Sort(Box::new(Sort { input: boxed(input), order, is_global: Some(true) })))
}

fn group(input: Relation, kind: GroupType, keys: Vec<Expression>, aggregates: Vec<Expression>) -> Relation {
    relation(RelType::Aggregate(Box::new(Aggregate {
        input: boxed(input),
        group_type: kind.into(),
        grouping_expressions: keys,
        aggregate_expressions: aggregates,
        pivot: None,
        grouping_sets: Vec::new(),
    })))
}

fn join(left: Relation, right: Relation, kind: JoinType, condition: Option<Expression>, using: &[&str]) -> Relation {
    relation(RelType::Join(Box::new(Join {
        left: boxed(left),
        right: boxed(right),
        join_condition: condition,
        join_type: kind.into(),
        using_columns: using.iter().map(|name| (*name).to_owned()).collect(),
        join_data_type: None,
    })))
}

fn alias(input: Relation, name: &str) -> Relation {
    relation(RelType::SubqueryAlias(Box::new(SubqueryAlias { input: boxed(input), alias: name.to_owned(), qualifier: Vec::new() })))
}

fn dotted(name: &str) -> Expression {
    let column = UnresolvedAttribute { unparsed_identifier: name.to_owned(), ..Default::default() };
    Expression { common: None, expr_type: Some(ExprType::UnresolvedAttribute(column)) }
}

fn of_frame(name: &str, plan_id: i64) -> Expression {
    let column = UnresolvedAttribute { unparsed_identifier: name.to_owned(), plan_id: Some(plan_id), ..Default::default() };
    Expression { common: None, expr_type: Some(ExprType::UnresolvedAttribute(column)) }
}

fn star() -> Expression {
    Expression { common: None, expr_type: Some(ExprType::UnresolvedStar(UnresolvedStar::default())) }
}

fn long(value: i64) -> Expression {
    literal(LiteralType::Long(value))
}

fn int(value: i32) -> Expression {
    literal(LiteralType::Integer(value))
}

async fn analyzed(relation: &Relation) -> Result<Analyzed> {
    analyze(relation, &tables(), &Settings::default(), &context().state()).await
}

fn context() -> SessionContext {
    TestHost::default().session().unwrap().context().clone()
}

/// The names of the columns, then the rows, each as one text.
async fn run(relation: &Relation) -> Result<Vec<String>> {
    let analyzed = analyzed(relation).await?;
    let places: Vec<usize> = analyzed.columns.iter().enumerate().filter(|(_, column)| !column.hidden).map(|(place, _)| place).collect();
    let names: Vec<&str> = places.iter().map(|place| analyzed.columns[*place].name.as_str()).collect();
    let mut lines = vec![names.join(",")];
    let context = context();
    let frame = context.execute_logical_plan(analyzed.plan).await.map_err(millstream_engine::from_datafusion)?;
    for batch in frame.collect().await.map_err(millstream_engine::from_datafusion)? {
        let options = FormatOptions::default().with_null("null");
        let columns: Vec<ArrayFormatter<'_>> =
            places.iter().map(|place| ArrayFormatter::try_new(batch.column(*place), &options).unwrap()).collect();
        for row in 0..batch.num_rows() {
            lines.push(columns.iter().map(|column| column.value(row).to_string()).collect::<Vec<_>>().join(","));
        }
    }
    Ok(lines)
}

/// Rows in any order.
async fn check(relation: Relation, expected: &[&str]) {
    let mut lines = run(&relation).await.unwrap_or_else(|error| panic!("{error} in {relation:?}"));
    let mut expected: Vec<String> = expected.iter().map(|line| (*line).to_owned()).collect();
    lines[1..].sort();
    expected[1..].sort();
    assert_eq!(lines, expected, "{relation:?}");
}

async fn fails(relation: Relation, code: &str) {
    match run(&relation).await {
        Ok(lines) => panic!("{lines:?} from {relation:?}"),
        Err(error) => assert_eq!(error.code(), code, "{error}"),
    }
}

#[tokio::test]
async fn projections_name_alias_and_refer_to_their_own_columns() {
    let plus = |one: Expression, other: Expression| function("+", vec![one, other]);
    check(project(read("events"), vec![attribute("K"), aliased(attribute("v"), "w")]), &["K,w", "a,1", "b,2", "a,3", "null,4"]).await;
    check(project(read("view"), vec![star()]), &["k,w", "a,1", "b,2", "a,3", "null,4"]).await;
    check(project(read("events"), vec![dotted("spark_catalog.default.events.v")]), &["v", "1", "2", "3", "4"]).await;
    let chained = vec![aliased(plus(attribute("v"), long(1)), "x"), aliased(plus(attribute("x"), attribute("x")), "y")];
    check(project(read("events"), chained), &["x,y", "2,4", "3,6", "4,8", "5,10"]).await;
    fails(project(read("events"), vec![attribute("nope")]), "UNRESOLVED_COLUMN.WITH_SUGGESTION").await;
    fails(project(read("nope"), vec![star()]), "TABLE_OR_VIEW_NOT_FOUND").await;
}

#[tokio::test]
async fn filters_and_sorts_find_columns_below_a_projection() {
    let narrow = || project(read("events"), vec![attribute("v")]);
    check(filter(narrow(), function("==", vec![attribute("k"), text("a")])), &["v", "1", "3"]).await;
    let lines = run(&sort(narrow(), vec![attribute("k"), attribute("v")])).await.unwrap();
    assert_eq!(lines, ["v", "4", "1", "3", "2"]);
    let renamed = project(read("events"), vec![aliased(function("-", vec![long(0), attribute("v")]), "v")]);
    let lines = run(&sort(renamed, vec![attribute("v")])).await.unwrap();
    assert_eq!(lines, ["v", "-4", "-3", "-2", "-1"]);
    fails(filter(alias(narrow(), "t"), function("==", vec![attribute("k"), text("a")])), "UNRESOLVED_COLUMN.WITH_SUGGESTION").await;
    fails(filter(read("events"), attribute("v")), "DATATYPE_MISMATCH.FILTER_NOT_BOOLEAN").await;
    fails(sort(narrow(), vec![int(3)]), "ORDER_BY_POS_OUT_OF_RANGE").await;
}

#[tokio::test]
async fn groups_give_keys_and_aggregates_and_can_be_filtered_by_others() {
    let sum = || aliased(function("sum", vec![attribute("v")]), "s");
    let by_key = || group(read("events"), GroupType::Groupby, vec![attribute("k")], vec![sum()]);
    check(by_key(), &["k,s", "a,4", "b,2", "null,4"]).await;
    check(filter(by_key(), function(">", vec![function("count", vec![attribute("v")]), long(1)])), &["k,s", "a,4"]).await;
    let lines = run(&sort(by_key(), vec![function("max", vec![attribute("v")])])).await.unwrap();
    assert_eq!(lines, ["k,s", "b,2", "a,4", "null,4"]);
    check(project(read("events"), vec![sum()]), &["s", "10"]).await;
    fails(project(read("events"), vec![attribute("k"), sum()]), "MISSING_GROUP_BY").await;
    fails(group(read("events"), GroupType::Groupby, vec![attribute("k")], vec![attribute("v")]), "MISSING_AGGREGATION").await;
    fails(group(read("events"), GroupType::Groupby, vec![int(7)], vec![sum()]), "GROUP_BY_POS_OUT_OF_RANGE").await;
    fails(filter(by_key(), function(">", vec![attribute("v"), long(1)])), "UNRESOLVED_COLUMN.WITH_SUGGESTION").await;
    fails(filter(read("events"), function(">", vec![function("count", vec![attribute("v")]), long(1)])), "INVALID_WHERE_CONDITION").await;
}

#[tokio::test]
async fn sets_of_keys_multiply_groups() {
    let count = || aliased(function("count", vec![attribute("v")]), "n");
    let which = || aliased(function("grouping_id", vec![]), "g");
    let keys = || vec![attribute("k"), function("%", vec![attribute("v"), long(2)])];
    check(
        group(
            filter(read("events"), function("isnotnull", vec![attribute("k")])),
            GroupType::Rollup,
            vec![attribute("k")],
            vec![count(), which()],
        ),
        &["k,n,g", "a,2,0", "b,1,0", "null,3,1"],
    )
    .await;
    let cube = run(&group(read("events"), GroupType::Cube, keys(), vec![count()])).await.unwrap();
    assert_eq!(cube.len() - 1, 3 + 3 + 2 + 1);
    let mut sets = group(read("events"), GroupType::GroupingSets, vec![attribute("k")], vec![count(), which()]);
    if let Some(RelType::Aggregate(aggregate)) = &mut sets.rel_type {
        aggregate.grouping_sets = vec![GroupingSets { grouping_set: vec![attribute("k")] }, GroupingSets { grouping_set: vec![] }];
    }
    check(sets, &["k,n,g", "a,2,0", "b,1,0", "null,1,0", "null,4,1"]).await;
    fails(group(read("events"), GroupType::Groupby, keys(), vec![which()]), "UNSUPPORTED_GROUPING_EXPRESSION").await;
}

#[tokio::test]
async fn pivots_take_their_values_from_the_plan_or_from_the_rows() {
    let pivot = |values: &[&str]| {
        let mut pivot = group(read("events"), GroupType::Pivot, vec![], vec![function("sum", vec![attribute("v")])]);
        if let Some(RelType::Aggregate(aggregate)) = &mut pivot.rel_type {
            let literal = |value: &&str| Literal { literal_type: Some(LiteralType::String((*value).to_owned())), ..Default::default() };
            aggregate.pivot = Some(Pivot { col: Some(attribute("k")), values: values.iter().map(literal).collect() });
        }
        pivot
    };
    check(pivot(&["b", "x"]), &["b,x", "2,null"]).await;
    check(pivot(&[]), &["null,a,b", "4,4,2"]).await;
    let crosstab = StatCrosstab { input: boxed(read("events")), col1: "k".to_owned(), col2: "v".to_owned() };
    check(relation(RelType::Crosstab(Box::new(crosstab))), &["k_v,1,2,3,4", "a,1,0,1,0", "b,0,1,0,0", "null,0,0,0,1"]).await;
}

#[tokio::test]
async fn time_windows_are_columns_below_what_names_them() {
    let window = |durations: &[&str]| {
        function("window", std::iter::once(attribute("ts")).chain(durations.iter().map(|duration| text(duration))).collect())
    };
    let start = |durations: &[&str]| {
        let keys = vec![window(durations)];
        let counted = group(read("events"), GroupType::Groupby, keys, vec![aliased(function("count", vec![attribute("v")]), "n")]);
        project(counted, vec![dotted("window.start"), attribute("n")])
    };
    check(start(&["10 seconds"]), &["start,n", "1970-01-01T00:00:00Z,2", "1970-01-01T00:00:10Z,1"]).await;
    check(
        start(&["10 seconds", "5 seconds"]),
        &["start,n", "1969-12-31T23:59:55Z,1", "1970-01-01T00:00:00Z,2", "1970-01-01T00:00:05Z,2", "1970-01-01T00:00:10Z,1"],
    )
    .await;
    let last = project(
        project(read("events"), vec![window(&["10 seconds"])]),
        vec![aliased(function("window_time", vec![attribute("window")]), "t")],
    );
    check(last, &["t", "1970-01-01T00:00:09.999999Z", "1970-01-01T00:00:09.999999Z", "1970-01-01T00:00:19.999999Z"]).await;
    for (durations, code) in [
        (&["-1 second"][..], "DATATYPE_MISMATCH.VALUE_OUT_OF_RANGE"),
        (&["1 second", "2 seconds"], "DATATYPE_MISMATCH.PARAMETER_CONSTRAINT_VIOLATION"),
        (&["10 seconds", "5 seconds", "5 seconds"], "DATATYPE_MISMATCH.PARAMETER_CONSTRAINT_VIOLATION"),
        (&["1 month"], "_LEGACY_ERROR_TEMP_3231"),
        (&["soon"], "CANNOT_PARSE_INTERVAL"),
    ] {
        fails(start(durations), code).await;
    }
    let two = vec![window(&["1 second"]), window(&["2 seconds"])];
    fails(group(read("events"), GroupType::Groupby, two, vec![]), "_LEGACY_ERROR_TEMP_1039").await;
}

#[tokio::test]
async fn generators_give_rows_and_two_of_them_a_product() {
    let explode = |name: &str| function(name, vec![attribute("xs")]);
    check(project(read("events"), vec![attribute("k"), explode("explode")]), &["k,col", "a,1", "a,2", "null,9"]).await;
    check(
        project(read("events"), vec![attribute("k"), aliased(explode("explode_outer"), "x")]),
        &["k,x", "a,1", "a,2", "b,null", "a,null", "null,9"],
    )
    .await;
    check(project(read("events"), vec![explode("posexplode")]), &["pos,col", "0,1", "1,2", "0,9"]).await;
    check(
        project(read("events"), vec![aliased(explode("explode"), "x"), aliased(explode("explode"), "y")]),
        &["x,y", "1,1", "1,2", "2,1", "2,2", "9,9"],
    )
    .await;
    let stack = function("stack", vec![int(2), int(1), text("x"), int(2)]);
    check(project(filter(read("events"), function("==", vec![attribute("v"), long(1)])), vec![stack]), &["col0,col1", "1,x", "2,null"])
        .await;
    fails(project(read("events"), vec![function("explode", vec![attribute("v")])]), "DATATYPE_MISMATCH.UNEXPECTED_INPUT_TYPE").await;
    let view = relation(RelType::LateralJoin(Box::new(LateralJoin {
        left: boxed(read("events")),
        right: boxed(alias(
            relation(RelType::UnresolvedTableValuedFunction(UnresolvedTableValuedFunction {
                function_name: "explode".to_owned(),
                arguments: vec![attribute("xs")],
            })),
            "e",
        )),
        join_condition: None,
        join_type: JoinType::LeftOuter.into(),
    })));
    check(project(view, vec![attribute("v"), dotted("e.col")]), &["v,col", "1,1", "1,2", "2,null", "3,null", "4,9"]).await;
}

#[tokio::test]
async fn joins_by_condition_by_names_and_by_frames() {
    let (events, names) = (|| with_id(read("events"), 1), || with_id(read("names"), 2));
    let same = || Some(function("==", vec![of_frame("k", 1), of_frame("k", 2)]));
    let shown = |joined: Relation| project(joined, vec![attribute("v"), attribute("name")]);
    check(shown(join(events(), names(), JoinType::Inner, same(), &[])), &["v,name", "1,Ann", "3,Ann"]).await;
    check(shown(join(events(), names(), JoinType::FullOuter, same(), &[])), &["v,name", "1,Ann", "3,Ann", "2,null", "4,null", "null,Cyd"])
        .await;
    check(
        join(names(), project(events(), vec![attribute("k"), attribute("v")]), JoinType::FullOuter, None, &["k"]),
        &["k,name,v", "a,Ann,1", "a,Ann,3", "c,Cyd,null", "b,null,2", "null,null,4"],
    )
    .await;
    check(join(names(), events(), JoinType::LeftAnti, None, &["k"]), &["k,name", "c,Cyd"]).await;
    check(
        project(join(names(), read("events"), JoinType::RightOuter, None, &["k"]), vec![attribute("k"), attribute("v")]),
        &["k,v", "a,1", "a,3", "b,2", "null,4"],
    )
    .await;
    let self_join = join(alias(read("names"), "x"), alias(read("names"), "y"), JoinType::Inner, None, &[]);
    let pairs = filter(self_join, function("<", vec![dotted("x.k"), dotted("y.k")]));
    check(project(pairs.clone(), vec![dotted("x.name"), dotted("y.name")]), &["name,name", "Ann,Cyd"]).await;
    fails(project(pairs, vec![attribute("name")]), "AMBIGUOUS_REFERENCE").await;
    fails(join(names(), events(), JoinType::Inner, None, &["v"]), "UNRESOLVED_USING_COLUMN_FOR_JOIN").await;
    fails(join(names(), events(), JoinType::Inner, Some(text("x")), &[]), "JOIN_CONDITION_IS_NOT_BOOLEAN_TYPE").await;
    fails(project(names(), vec![of_frame("k", 9)]), "CANNOT_RESOLVE_DATAFRAME_COLUMN").await;
}

#[tokio::test]
async fn set_operations_align_columns_by_place_or_name() {
    let set = |left: Relation, right: Relation, kind: SetOpType, all: bool, by_name: bool, missing: bool| {
        relation(RelType::SetOp(Box::new(SetOperation {
            left_input: boxed(left),
            right_input: boxed(right),
            set_op_type: kind.into(),
            is_all: Some(all),
            by_name: Some(by_name),
            allow_missing_columns: Some(missing),
        })))
    };
    let keys = || project(read("events"), vec![attribute("k")]);
    let names = || project(read("names"), vec![attribute("name"), attribute("k")]);
    let wide = || project(read("events"), vec![attribute("k"), attribute("v")]);
    check(set(keys(), keys(), SetOpType::Union, false, false, false), &["k", "a", "b", "null"]).await;
    let limited = || filter(wide(), function("==", vec![attribute("v"), long(1)]));
    check(set(limited(), names(), SetOpType::Union, true, true, true), &["k,v,name", "a,1,null", "a,null,Ann", "c,null,Cyd"]).await;
    check(set(keys(), project(read("names"), vec![attribute("k")]), SetOpType::Intersect, true, false, false), &["k", "a"]).await;
    check(set(keys(), project(read("names"), vec![attribute("k")]), SetOpType::Except, true, false, false), &["k", "a", "b", "null"]).await;
    check(set(keys(), project(read("names"), vec![attribute("k")]), SetOpType::Except, false, false, false), &["k", "b", "null"]).await;
    fails(set(keys(), wide(), SetOpType::Union, true, false, false), "NUM_COLUMNS_MISMATCH").await;
    fails(set(wide(), names(), SetOpType::Union, true, true, false), "UNRESOLVED_COLUMN_AMONG_FIELD_NAMES").await;
    let lists = project(read("events"), vec![attribute("xs")]);
    fails(set(keys(), lists, SetOpType::Union, true, false, false), "INCOMPATIBLE_COLUMN_TYPE").await;
}

#[tokio::test]
async fn duplicates_are_dropped_by_the_first_row() {
    let deduplicate = |input: Relation, names: &[&str]| {
        relation(RelType::Deduplicate(Box::new(Deduplicate {
            input: boxed(input),
            column_names: names.iter().map(|name| (*name).to_owned()).collect(),
            all_columns_as_keys: Some(names.is_empty()),
            within_watermark: None,
        })))
    };
    let lines = run(&deduplicate(project(read("events"), vec![attribute("k"), attribute("v")]), &["k"])).await.unwrap();
    assert_eq!((lines[0].as_str(), lines.len()), ("k,v", 4));
    check(deduplicate(project(read("events"), vec![attribute("k")]), &[]), &["k", "a", "b", "null"]).await;
    fails(deduplicate(read("events"), &["nope"]), "UNRESOLVED_COLUMN_AMONG_FIELD_NAMES").await;
}

#[tokio::test]
async fn columns_are_added_renamed_dropped_and_filled() {
    let with = |name: &str, value: Expression| {
        let alias = expression::Alias { expr: Some(Box::new(value)), name: vec![name.to_owned()], metadata: None };
        relation(RelType::WithColumns(Box::new(WithColumns { input: boxed(read("names")), aliases: vec![alias] })))
    };
    check(with("NAME", attribute("k")), &["k,NAME", "a,a", "c,c"]).await;
    check(with("n", int(1)), &["k,name,n", "a,Ann,1", "c,Cyd,1"]).await;
    let renamed = with_columns_renamed::Rename { col_name: "NAME".to_owned(), new_col_name: "n".to_owned() };
    let renames = WithColumnsRenamed { input: boxed(read("names")), renames: vec![renamed], ..Default::default() };
    check(relation(RelType::WithColumnsRenamed(Box::new(renames))), &["k,n", "a,Ann", "c,Cyd"]).await;
    let drop = Drop { input: boxed(read("names")), columns: vec![attribute("nope")], column_names: vec!["K".to_owned()] };
    check(relation(RelType::Drop(Box::new(drop))), &["name", "Ann", "Cyd"]).await;
    let fill = NaFill {
        input: boxed(project(read("events"), vec![attribute("k"), attribute("v")])),
        cols: Vec::new(),
        values: vec![Literal { literal_type: Some(LiteralType::String("?".to_owned())), ..Default::default() }],
    };
    check(relation(RelType::FillNa(Box::new(fill))), &["k,v", "a,1", "b,2", "a,3", "?,4"]).await;
    let drop = NaDrop { input: boxed(project(read("events"), vec![attribute("k")])), cols: Vec::new(), min_non_nulls: None };
    check(relation(RelType::DropNa(Box::new(drop))), &["k", "a", "b", "a"]).await;
    let twice = analyzed(&project(read("names"), vec![attribute("k"), aliased(attribute("name"), "K")])).await.unwrap();
    assert_eq!(twice.named_plan().unwrap_err().code(), "COLUMN_ALREADY_EXISTS");
}

#[tokio::test]
async fn rows_are_counted_from_both_ends() {
    let range = || relation(RelType::Range(Range { start: Some(5), end: -5, step: -3, num_partitions: Some(2) }));
    check(range(), &["id", "5", "2", "-1", "-4"]).await;
    check(relation(RelType::Tail(Box::new(Tail { input: boxed(range()), limit: 2 }))), &["id", "-1", "-4"]).await;
    check(relation(RelType::Limit(Box::new(Limit { input: boxed(range()), limit: 1 }))), &["id", "5"]).await;
    check(relation(RelType::Offset(Box::new(Offset { input: boxed(range()), offset: 3 }))), &["id", "-4"]).await;
    fails(relation(RelType::Limit(Box::new(Limit { input: boxed(range()), limit: -1 }))), "INVALID_LIMIT_LIKE_EXPRESSION.IS_NEGATIVE")
        .await;
}

#[tokio::test]
async fn frames_turn_around() {
    let narrow = || project(read("names"), vec![attribute("k"), attribute("name")]);
    let unpivot = Unpivot {
        input: boxed(narrow()),
        ids: vec![attribute("k")],
        values: None,
        variable_column_name: "what".to_owned(),
        value_column_name: "is".to_owned(),
    };
    check(relation(RelType::Unpivot(Box::new(unpivot))), &["k,what,is", "a,name,Ann", "c,name,Cyd"]).await;
    let transpose = Transpose { input: boxed(narrow()), index_columns: Vec::new() };
    check(relation(RelType::Transpose(Box::new(transpose))), &["key,a,c", "name,Ann,Cyd"]).await;
    let describe = StatDescribe { input: boxed(project(read("events"), vec![attribute("k"), attribute("v")])), cols: Vec::new() };
    let lines = run(&relation(RelType::Describe(Box::new(describe)))).await.unwrap();
    assert_eq!(lines[..3], ["summary,k,v", "count,3,4", "mean,null,2.5"]);
    assert_eq!(lines[4..], ["min,a,1", "max,b,4"]);
}

#[tokio::test]
async fn references_are_found_by_name_and_plans_may_be_deep() {
    let with = WithRelations {
        root: boxed(project(read("c"), vec![star()])),
        references: vec![alias(project(read("names"), vec![attribute("k")]), "c")],
    };
    check(relation(RelType::WithRelations(Box::new(with))), &["k", "a", "c"]).await;
    let mut deep = read("names");
    for _ in 0..500 {
        deep = filter(deep, function("==", vec![attribute("k"), text("a")]));
    }
    check(deep, &["k,name", "a,Ann"]).await;
    let mut deeper = read("names");
    for _ in 0..3_000 {
        deeper = alias(deeper, "t");
    }
    assert_eq!(analyzed(&deeper).await.unwrap_err().code(), "FAILED_TO_PARSE_TOO_COMPLEX");
}

#[tokio::test]
async fn common_tables_that_double_at_every_step_are_refused() {
    let step = |n: usize| format!("t{} AS (SELECT a.k FROM t{n} a JOIN t{n} b ON a.k = b.k)", n + 1);
    let query = |steps: usize| {
        let steps: Vec<String> = (0..steps).map(step).collect();
        let text = format!("WITH t0 AS (SELECT k FROM events), {} SELECT k FROM t{}", steps.join(", "), steps.len());
        crate::sql::parse::relation(&text, &Default::default(), &[]).unwrap()
    };
    assert!(analyzed(&query(8)).await.is_ok());
    let error = analyzed(&query(40)).await.unwrap_err();
    assert_eq!((error.code(), error.sqlstate()), ("QUERY_TOO_LARGE", Some("54001")));
}
