//! Calls of functions over constants and columns, for tests.

use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions};
use arrow::datatypes::{DataType, Field, Schema};
use datafusion::common::DFSchema;
use datafusion::execution::context::ExecutionProps;
use datafusion::logical_expr::physical_planning_context::PhysicalPlanningContext;
use datafusion::logical_expr::{ColumnarValue, col};
use datafusion::physical_expr::create_physical_expr;
use datafusion::scalar::ScalarValue;
use millstream_core::Result;
use millstream_engine::from_datafusion;

use super::cast::{CastMode, TextStyle, explicit, text_of};
use super::{Argument, Call, Functions, Settings, TimeZone, Typed};
use crate::types::{parse_data_type, simple_name};

/// Calls a function.
pub(crate) fn call(name: &str, arguments: Vec<Typed>, settings: &Settings) -> Result<Typed> {
    let arguments = arguments.into_iter().map(Argument::Value).collect();
    Functions::all().build(&Call { name, arguments, settings })
}

/// A constant: `null`, `'text'`, `12`, `2.5`, `true`, or any text as a type, `decimal(5,2)'1.5'`.
pub(crate) fn constant(text: &str) -> Typed {
    if let Some((data_type, rest)) = text.split_once('\'') {
        let value = Typed::text(rest.trim_end_matches('\''));
        if data_type.is_empty() {
            return value;
        }
        let data_type = parse_data_type(data_type).unwrap();
        let value = if rest == "null'" { Typed::null(&DataType::Utf8) } else { value };
        let typed = explicit(value, &data_type, CastMode::Ansi, &Settings::default()).unwrap();
        let array = evaluate(&typed, &[]).unwrap();
        let mut literal = Typed::literal(ScalarValue::try_from_array(&array, 0).unwrap());
        literal.metadata = typed.metadata;
        return literal;
    }
    match text {
        "null" => Typed::literal(ScalarValue::Null),
        "true" => Typed::literal(true.into()),
        "false" => Typed::literal(false.into()),
        _ if text.contains('.') => Typed::literal(ScalarValue::Float64(Some(text.parse().unwrap()))),
        _ => match text.parse::<i32>() {
            Ok(number) => Typed::literal(number.into()),
            Err(_) => Typed::literal(text.parse::<i64>().unwrap().into()),
        },
    }
}

/// Constants separated by `;`.
pub(crate) fn constants(texts: &str) -> Vec<Typed> {
    texts.split(';').map(str::trim).filter(|text| !text.is_empty()).map(constant).collect()
}

/// A column of a batch.
pub(crate) fn column(name: &str, values: &ArrayRef) -> Typed {
    Typed::new(col(name), values.data_type().clone(), true)
}

/// The values of an expression for the rows of some columns, or for one row without columns.
pub(crate) fn evaluate(value: &Typed, columns: &[(&str, ArrayRef)]) -> Result<ArrayRef> {
    let fields = columns.iter().map(|(name, values)| Field::new(*name, values.data_type().clone(), true)).collect::<Vec<_>>();
    let schema = Arc::new(Schema::new(fields));
    let df_schema = DFSchema::try_from(schema.clone()).map_err(from_datafusion)?;
    let expression = create_physical_expr(&value.expr, &df_schema, &ExecutionProps::new(), &PhysicalPlanningContext::default())
        .map_err(from_datafusion)?;
    let rows = columns.first().map_or(1, |(_, values)| values.len());
    let options = RecordBatchOptions::new().with_row_count(Some(rows));
    let arrays = columns.iter().map(|(_, values)| values.clone()).collect();
    let batch = RecordBatch::try_new_with_options(schema, arrays, &options).unwrap();
    match expression.evaluate(&batch).map_err(from_datafusion)? {
        ColumnarValue::Array(array) => Ok(array),
        ColumnarValue::Scalar(scalar) => scalar.to_array_of_size(rows).map_err(from_datafusion),
    }
}

/// The texts of all rows of an array; null is `null`.
pub(crate) fn texts(values: &ArrayRef, field: &Field) -> Vec<String> {
    let style = TextStyle::cast(TimeZone::Offset(0));
    text_of(values, field, &style).unwrap().iter().map(|text| text.unwrap_or("null").to_owned()).collect()
}

/// What a call of constants gives, as `type value`, or its error condition.
pub(crate) fn outcome(name: &str, arguments: &str, settings: &Settings) -> String {
    let outcome = call(name, constants(arguments), settings).and_then(|typed| {
        let array = evaluate(&typed, &[])?;
        let field = typed.to_field("value");
        assert_eq!(array.data_type(), &typed.data_type, "{name}({arguments})");
        let text = texts(&array, &field).remove(0);
        assert!(typed.nullable || text != "null", "{name}({arguments}) is null but not nullable");
        Ok(format!("{} {text}", simple_name(&typed.data_type)))
    });
    match outcome {
        Ok(text) => text,
        Err(error) => error.code().to_owned(),
    }
}
