use std::sync::Arc;

use arrow::array::{ArrayRef, BooleanArray, Date32Array, Decimal128Array, Float64Array, Int32Array, RecordBatch, StringArray};
use arrow::compute::concat_batches;
use arrow::datatypes::{Field, Schema};
use datafusion::datasource::MemTable;
use datafusion::logical_expr::utils::find_aggregate_exprs;
use datafusion::logical_expr::{Expr, SortExpr, col};
use datafusion::prelude::{SessionConfig, SessionContext};
use millstream_core::Result;
use millstream_engine::from_datafusion;

use super::{Aggregates, Clauses};
use crate::functions::testing::{constant, texts};
use crate::functions::{Argument, Call, Settings, Typed};
use crate::types::simple_name;

/// The rows of the recorded cases: key, integer, double, text, decimal, day, condition.
fn rows() -> RecordBatch {
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("k", Arc::new(StringArray::from(vec!["x", "x", "x", "x"]))),
        ("i", Arc::new(Int32Array::from(vec![1, 2, 2, 4]))),
        ("d", Arc::new(Float64Array::from(vec![Some(10.5), Some(20.0), Some(f64::NAN), None]))),
        ("s", Arc::new(StringArray::from(vec!["a", "b", "a", "c"]))),
        ("c", Arc::new(Decimal128Array::from(vec![Some(110), Some(220), None, Some(445)]).with_precision_and_scale(3, 2).unwrap())),
        ("dt", Arc::new(Date32Array::from(vec![Some(19_723), Some(19_724), None, Some(19_726)]))),
        ("b", Arc::new(BooleanArray::from(vec![Some(true), Some(false), None, Some(true)]))),
    ];
    let fields: Vec<Field> = columns.iter().map(|(name, values)| Field::new(*name, values.data_type().clone(), true)).collect();
    RecordBatch::try_new(Arc::new(Schema::new(fields)), columns.into_iter().map(|(_, values)| values).collect()).unwrap()
}

fn argument(text: &str, batch: &RecordBatch) -> Typed {
    match batch.schema().field_with_name(text) {
        Ok(field) => Typed::new(col(text), field.data_type().clone(), true),
        Err(_) => constant(text),
    }
}

struct Case<'a> {
    name: &'a str,
    arguments: &'a str,
    clauses: Clauses,
    settings: Settings,
}

impl Case<'_> {
    fn build(&self, batch: &RecordBatch) -> Result<Typed> {
        let arguments = self.arguments.split(';').map(str::trim).filter(|text| !text.is_empty());
        let arguments = arguments.map(|text| Argument::Value(argument(text, batch))).collect();
        Aggregates::all().build(&Call { name: self.name, arguments, settings: &self.settings }, &self.clauses)
    }

    /// The result over the rows in some batches and partitions, globally or by key, as `type value`.
    async fn run(&self, partitions: Vec<Vec<RecordBatch>>, by_key: bool) -> Result<String> {
        let schema = partitions[0][0].schema();
        let typed = self.build(&partitions[0][0])?;
        let config = SessionConfig::new().with_target_partitions(partitions.len());
        let context = SessionContext::new_with_config(config);
        let table = MemTable::try_new(schema, partitions).unwrap();
        let frame = context.read_table(Arc::new(table)).unwrap();
        let aggregates = find_aggregate_exprs([&typed.expr]);
        let keys: Vec<Expr> = if by_key { vec![col("k")] } else { Vec::new() };
        let named: Vec<Expr> = aggregates.iter().enumerate().map(|(number, expr)| expr.clone().alias(format!("a{number}"))).collect();
        let frame = if aggregates.is_empty() { frame.limit(0, Some(1)) } else { frame.aggregate(keys, named) };
        use datafusion::common::tree_node::{Transformed, TreeNode};
        let result = typed
            .expr
            .clone()
            .transform_down(|expr| {
                Ok(match aggregates.iter().position(|aggregate| *aggregate == expr) {
                    Some(number) => Transformed::yes(col(format!("a{number}"))),
                    None => Transformed::no(expr),
                })
            })
            .map_err(from_datafusion)?
            .data;
        let frame = frame.map_err(from_datafusion)?.select(vec![result.alias("result")]).map_err(from_datafusion)?;
        let batches = frame.collect().await.map_err(from_datafusion)?;
        let batch = concat_batches(&batches[0].schema(), &batches).unwrap();
        let values = batch.column(0);
        assert_eq!(values.data_type(), &typed.data_type, "{}({})", self.name, self.arguments);
        let text = texts(values, &typed.to_field("value")).remove(0);
        assert!(typed.nullable || text != "null", "{} is null but not nullable", self.name);
        Ok(format!("{} {text}", simple_name(&typed.data_type)))
    }
}

fn block<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
}

/// Whether two results are the same; sums of doubles may differ in their last digits, as the order of rows is not fixed.
fn alike(one: &str, other: &str) -> bool {
    let number = |text: &str| text.strip_prefix("double ").and_then(|text| text.parse::<f64>().ok());
    match (number(one), number(other)) {
        (Some(one), Some(other)) if one.is_finite() && other.is_finite() => (one - other).abs() <= other.abs() * 1e-13,
        _ => one == other,
    }
}

/// The same result however the rows are cut into batches and partitions, with and without keys.
fn check_case(case: &Case<'_>, expected: &str) {
    let all = rows();
    let one = |row: usize| all.slice(row, 1);
    let shapes = [vec![vec![all.clone()]], vec![(0..4).map(one).collect()], vec![vec![all.slice(0, 2)], vec![all.slice(2, 2)]]];
    for (number, shape) in shapes.into_iter().enumerate() {
        for by_key in [false, true] {
            // Which of two partitions comes first is not known.
            let ordered =
                ["first", "last", "any_value", "collect_list", "array_agg", "listagg", "max_by", "min_by", "first_value", "last_value"];
            if number == 2 && (ordered.contains(&case.name) || case.name == "mode") {
                continue;
            }
            let actual = block(case.run(shape.clone(), by_key)).unwrap_or_else(|error| error.code().to_owned());
            assert!(
                alike(&actual, expected),
                "{actual} is not {expected}: {}({}) ansi={} shape {number} by_key={by_key}",
                case.name,
                case.arguments,
                case.settings.ansi
            );
        }
    }
}

fn check(cases: &[(&str, &str, &str)]) {
    for (name, arguments, expected) in cases {
        let case = Case { name, arguments, clauses: Clauses::default(), settings: Settings::default() };
        check_case(&case, expected);
    }
}

#[test]
fn counts_and_extremes() {
    check(&[
        ("count", "1", "bigint 4"),
        ("count", "d", "bigint 3"),
        ("count", "d; c", "bigint 2"),
        ("count", "null", "bigint 0"),
        ("count_if", "b", "bigint 2"),
        ("min", "d", "double 10.5"),
        ("max", "d", "double NaN"),
        ("max", "s", "string c"),
        ("min", "dt", "date 2024-01-01"),
        ("max", "null", "void null"),
        ("max", "b", "boolean true"),
        ("bool_and", "b", "boolean false"),
        ("some", "b", "boolean true"),
        ("bit_and", "i", "int 0"),
        ("bit_or", "i", "int 7"),
        ("bit_xor", "i", "int 5"),
        ("bit_and", "d", "DATATYPE_MISMATCH.UNEXPECTED_INPUT_TYPE"),
        ("max", "interval'1 day'", "DATATYPE_MISMATCH.INVALID_ORDERING_TYPE"),
    ]);
}

#[test]
fn sums_and_averages() {
    check(&[
        ("sum", "i", "bigint 9"),
        ("sum", "d", "double NaN"),
        ("sum", "c", "decimal(13,2) 7.75"),
        ("sum", "s", "CAST_INVALID_INPUT"),
        ("sum", "null", "double null"),
        ("sum", "b", "DATATYPE_MISMATCH.UNEXPECTED_INPUT_TYPE"),
        ("sum", "9223372036854775807", "ARITHMETIC_OVERFLOW"),
        ("try_sum", "9223372036854775807", "bigint null"),
        ("sum", "decimal(38,0)'99999999999999999999999999999999999999'", "ARITHMETIC_OVERFLOW"),
        ("try_sum", "decimal(38,0)'99999999999999999999999999999999999999'", "decimal(38,0) null"),
        ("avg", "i", "double 2.25"),
        ("avg", "c", "decimal(7,6) 2.583333"),
        ("try_avg", "c", "decimal(7,6) 2.583333"),
        ("sum", "interval day to second'1 00:00:00'", "interval day to second INTERVAL '4 00:00:00' DAY TO SECOND"),
        ("avg", "interval day to second'1 00:00:00'", "interval day to second INTERVAL '1 00:00:00' DAY TO SECOND"),
    ]);
    let settings = Settings { ansi: false, ..Settings::default() };
    for (name, arguments, expected) in [
        ("sum", "9223372036854775807", "bigint -4"),
        ("sum", "decimal(38,0)'99999999999999999999999999999999999999'", "decimal(38,0) null"),
        ("sum", "s", "double null"),
    ] {
        check_case(&Case { name, arguments, clauses: Clauses::default(), settings: settings.clone() }, expected);
    }
}

#[test]
fn rows_and_lists() {
    check(&[
        ("first", "d", "double 10.5"),
        ("last", "d", "double null"),
        ("last", "d; true", "double NaN"),
        ("any_value", "s", "string a"),
        ("max_by", "s; i", "string c"),
        ("min_by", "s; i", "string a"),
        ("max_by", "s; d", "string a"),
        ("collect_list", "c", "array<decimal(3,2)> [1.10, 2.20, 4.45]"),
        ("collect_list", "s", "array<string> [a, b, a, c]"),
        ("listagg", "s; ','", "string a,b,a,c"),
        ("listagg", "s", "string abac"),
        ("mode", "i", "int 2"),
        ("mode", "s", "string a"),
    ]);
    let by_text = |ascending| Clauses { order_by: vec![SortExpr::new(col("s"), ascending, ascending)], ..Clauses::default() };
    for (ascending, expected) in [(true, "string a,a,b,c"), (false, "string c,b,a,a")] {
        let case = Case { name: "listagg", arguments: "s; ','", clauses: by_text(ascending), settings: Settings::default() };
        check_case(&case, expected);
    }
    // Of equal keys the later row wins.
    check(&[("max_by", "s; b", "string c"), ("min_by", "i; s", "int 2")]);
}

#[test]
fn distinct_values_and_filters() {
    let distinct = Clauses { distinct: true, ..Clauses::default() };
    for (name, arguments, expected) in [
        ("count", "i", "bigint 3"),
        ("count", "i; s", "bigint 4"),
        ("sum", "i", "bigint 7"),
        ("sum", "c", "decimal(13,2) 7.75"),
        ("stddev", "i", "double 1.5275252316519468"),
    ] {
        check_case(&Case { name, arguments, clauses: distinct.clone(), settings: Settings::default() }, expected);
    }
    let filter = Clauses { filter: Some(argument("b", &rows())), ..Clauses::default() };
    for (name, arguments, expected) in [("sum", "i", "bigint 5"), ("count", "1", "bigint 2"), ("var_pop", "i", "double 2.25")] {
        check_case(&Case { name, arguments, clauses: filter.clone(), settings: Settings::default() }, expected);
    }
}
