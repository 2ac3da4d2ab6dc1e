use std::sync::Arc;

use arrow::array::{ArrayRef, Int32Array};

use crate::functions::Settings;
use crate::functions::testing::{call, column, constant, evaluate, outcome, texts};

fn check(cases: &[(&str, &str, &str)]) {
    for (name, arguments, expected) in cases {
        assert_eq!(&outcome(name, arguments, &Settings::default()), expected, "{name}({arguments})");
    }
}

#[test]
fn comparisons() {
    let diff = "DATATYPE_MISMATCH.BINARY_OP_DIFF_TYPES";
    check(&[
        ("==", "1; 1.0", "boolean true"),
        ("==", "double'-0.0'; double'0.0'", "boolean true"),
        ("==", "double'NaN'; float'NaN'", "boolean true"),
        (">", "double'NaN'; double'Infinity'", "boolean true"),
        ("==", "null; 1", "boolean null"),
        ("<=>", "null; 1", "boolean false"),
        ("<=>", "null; null", "boolean true"),
        ("==", "null; null", "boolean null"),
        ("==", "'1'; 1", "boolean true"),
        ("==", "'abc'; 1", "CAST_INVALID_INPUT"),
        ("<", "'10'; '9'", "boolean true"),
        ("==", "1; true", diff),
        ("==", "date'2024-01-01'; timestamp'2024-01-01 00:00:00'", "boolean true"),
        ("<", "decimal(5,2)'1.10'; decimal(38,18)'1.2'", "boolean true"),
        ("!=", "1; 2", "boolean true"),
        ("==", "interval'1 day'; interval'1 day'", "DATATYPE_MISMATCH.INVALID_ORDERING_TYPE"),
        ("between", "5; 1; 10", "boolean true"),
        ("between", "null; 1; 10", "boolean null"),
    ]);
}

#[test]
fn logic_of_three_values() {
    check(&[
        ("and", "null; false", "boolean false"),
        ("and", "null; true", "boolean null"),
        ("or", "null; true", "boolean true"),
        ("or", "null; false", "boolean null"),
        ("not", "null", "boolean null"),
        ("and", "1; true", "DATATYPE_MISMATCH.BINARY_OP_DIFF_TYPES"),
        ("and", "1; 1", "DATATYPE_MISMATCH.BINARY_OP_WRONG_TYPE"),
        ("in", "1; 2; null", "boolean null"),
        ("in", "1; 1; null", "boolean true"),
        ("in", "1; 2; 3", "boolean false"),
        ("in", "1; true", "DATATYPE_MISMATCH.DATA_DIFF_TYPES"),
        ("in", "double'NaN'; double'NaN'", "boolean true"),
    ]);
}

#[test]
fn branches_and_nulls() {
    check(&[
        ("if", "true; 1; 2.5", "double 1.0"),
        ("if", "null; 1; 2", "int 2"),
        ("if", "1; 1; 2", "DATATYPE_MISMATCH.UNEXPECTED_INPUT_TYPE"),
        ("if", "true; 1; true", "DATATYPE_MISMATCH.DATA_DIFF_TYPES"),
        ("when", "false; 1; true; 2", "int 2"),
        ("when", "false; 1", "int null"),
        ("when", "false; 1; 9", "int 9"),
        ("coalesce", "null; null; 3", "int 3"),
        ("coalesce", "null; true; false", "boolean true"),
        ("coalesce", "null", "void null"),
        ("nvl", "null; 'x'", "string x"),
        ("ifnull", "1; 'a'", "bigint 1"),
        ("nvl2", "null; 1; 2", "int 2"),
        ("nullif", "1; 1", "int null"),
        ("nullif", "1; 2", "int 1"),
        ("nullifzero", "0", "int null"),
        ("zeroifnull", "null", "int 0"),
        ("isnull", "null", "boolean true"),
        ("isnotnull", "1", "boolean true"),
        ("isnan", "double'NaN'", "boolean true"),
        ("isnan", "null", "boolean false"),
        ("nanvl", "double'NaN'; 5.0", "double 5.0"),
        ("greatest", "1; null; 3; 2", "int 3"),
        ("least", "1; null; 3", "int 1"),
        ("greatest", "double'NaN'; 1.0", "double NaN"),
        ("least", "double'NaN'; 1.0", "double 1.0"),
        ("greatest", "'b'; 'a'", "string b"),
        ("greatest", "1", "WRONG_NUM_ARGS.WITHOUT_SUGGESTION"),
        ("assert_true", "true", "void null"),
        ("assert_true", "false", "USER_RAISED_EXCEPTION"),
        ("assert_true", "null; 'no'", "USER_RAISED_EXCEPTION"),
    ]);
}

/// `d <> 0 and 10 / d > 3`, and the same as a `CASE`, must not divide by zero, however many rows have zero.
#[test]
fn the_right_side_is_computed_only_where_it_counts() {
    let settings = Settings::default();
    let values: ArrayRef = Arc::new(Int32Array::from(vec![Some(0), Some(2), Some(3), Some(5), None, Some(2)]));
    let d = column("d", &values);
    let not_zero = call("!=", vec![d.clone(), constant("0")], &settings).unwrap();
    let quotient = call("/", vec![constant("10"), d.clone()], &settings).unwrap();
    let large = call(">", vec![quotient, constant("3")], &settings).unwrap();
    let both = call("and", vec![not_zero.clone(), large.clone()], &settings).unwrap();
    let result = evaluate(&both, &[("d", values.clone())]).unwrap();
    assert_eq!(texts(&result, &both.to_field("x")), ["false", "true", "true", "false", "null", "true"]);
    let case = call("when", vec![not_zero, large.clone(), constant("false")], &settings).unwrap();
    let simplified = simplify(case.clone());
    for case in [case, simplified] {
        let result = evaluate(&case, &[("d", values.clone())]).unwrap();
        assert_eq!(texts(&result, &case.to_field("x")), ["false", "true", "true", "false", "false", "true"]);
    }
    let zero = call("==", vec![d, constant("0")], &settings).unwrap();
    let either = call("or", vec![zero, large], &settings).unwrap();
    let result = evaluate(&simplify(either.clone()), &[("d", values)]).unwrap();
    assert_eq!(texts(&result, &either.to_field("x")), ["true", "true", "true", "false", "null", "true"]);
}

/// As the engine's optimizer leaves it.
fn simplify(value: crate::functions::Typed) -> crate::functions::Typed {
    use arrow::datatypes::{DataType, Field, Schema};
    use datafusion::common::ToDFSchema;
    use datafusion::logical_expr::simplify::SimplifyContext;
    use datafusion::optimizer::simplify_expressions::ExprSimplifier;
    let schema = Schema::new(vec![Field::new("d", DataType::Int32, true)]).to_dfschema_ref().unwrap();
    let simplifier = ExprSimplifier::new(SimplifyContext::builder().with_schema(schema).build());
    crate::functions::Typed { expr: simplifier.simplify(value.expr).unwrap(), ..value }
}

/// `where d <> 0` and then `where 10 / d > 3`, in either order of writing them into one plan, leave zero out before dividing.
#[test]
fn filters_that_can_fail_run_after_the_others() {
    use arrow::array::RecordBatch;
    use arrow::datatypes::{DataType, Field, Schema};
    use datafusion::prelude::SessionContext;
    let settings = Settings::default();
    let values: ArrayRef = Arc::new(Int32Array::from(vec![Some(1), Some(2), Some(0), Some(3), None, Some(20)]));
    let d = column("d", &values);
    let not_zero = call("!=", vec![d.clone(), constant("0")], &settings).unwrap();
    let quotient = call("/", vec![constant("10"), d], &settings).unwrap();
    let large = call(">", vec![quotient, constant("3")], &settings).unwrap();
    let schema = Arc::new(Schema::new(vec![Field::new("d", DataType::Int32, true)]));
    let context = SessionContext::new();
    context.add_optimizer_rule(super::filter_guard());
    let batch = RecordBatch::try_new(schema, vec![values]).unwrap();
    let frame = context.read_batch(batch).unwrap().filter(not_zero.expr).unwrap().filter(large.expr).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let rows: usize = runtime.block_on(frame.collect()).unwrap().iter().map(RecordBatch::num_rows).sum();
    assert_eq!(rows, 3);
}
