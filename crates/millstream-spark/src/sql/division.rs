//! Division as in Spark: `/` between numbers that are no decimals gives a double, and dividing by zero is an error.

use std::sync::{Arc, LazyLock};

use arrow::array::{Array, ArrayRef, AsArray, Float64Array};
use arrow::compute::binary;
use arrow::datatypes::{DataType, Float64Type};
use arrow::error::ArrowError;
use datafusion::common::{DFSchema, DataFusionError};
use datafusion::error::Result as DfResult;
use datafusion::logical_expr::planner::{ExprPlanner, PlannerResult, RawBinaryExpr};
use datafusion::logical_expr::{ColumnarValue, ExprSchemable, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility, cast};
use datafusion::sql::sqlparser::ast::BinaryOperator;

/// Plans `/`.
#[derive(Debug)]
pub(super) struct Division;

static DIVIDE: LazyLock<Arc<ScalarUDF>> =
    LazyLock::new(|| Arc::new(ScalarUDF::from(Divide { signature: Signature::exact(vec![DataType::Float64; 2], Volatility::Immutable) })));

impl ExprPlanner for Division {
    fn plan_binary_op(&self, expr: RawBinaryExpr, schema: &DFSchema) -> DfResult<PlannerResult<RawBinaryExpr>> {
        if expr.op != BinaryOperator::Divide {
            return Ok(PlannerResult::Original(expr));
        }
        let number =
            |data_type: &DataType| data_type.is_integer() || data_type.is_floating() || data_type.is_null() || data_type.is_string();
        let (left, right) = (expr.left.get_type(schema)?, expr.right.get_type(schema)?);
        // Of a decimal and a double the result is a double; between decimals and whole numbers it is a decimal.
        let doubles = number(&left) && number(&right) || left.is_floating() || right.is_floating();
        if !doubles {
            return Ok(PlannerResult::Original(expr));
        }
        let double = |side| cast(side, DataType::Float64);
        let division = DIVIDE.call(vec![double(expr.left), double(expr.right)]);
        Ok(PlannerResult::Planned(division))
    }
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Divide {
    signature: Signature,
}

impl ScalarUDFImpl for Divide {
    fn name(&self) -> &'static str {
        "divide"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> DfResult<DataType> {
        Ok(DataType::Float64)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> DfResult<ColumnarValue> {
        let scalar = args.args.iter().all(|arg| matches!(arg, ColumnarValue::Scalar(_)));
        let arrays = ColumnarValue::values_to_arrays(&args.args)?;
        let [left, right] = arrays.as_slice() else { return Err(DataFusionError::Internal("divide takes two numbers".to_owned())) };
        let quotient: ArrayRef = Arc::new(divide(left.as_primitive::<Float64Type>(), right.as_primitive::<Float64Type>())?);
        if scalar {
            return datafusion::scalar::ScalarValue::try_from_array(&quotient, 0).map(ColumnarValue::Scalar);
        }
        Ok(ColumnarValue::Array(quotient))
    }
}

fn divide(left: &Float64Array, right: &Float64Array) -> Result<Float64Array, ArrowError> {
    let zero = right.values().iter().enumerate().any(|(row, divisor)| *divisor == 0.0 && right.is_valid(row) && left.is_valid(row));
    if zero {
        return Err(ArrowError::DivideByZero);
    }
    binary(left, right, |left, right| left / right)
}
