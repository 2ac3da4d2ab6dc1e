//! Higher-order functions written as kernels over Arrow arrays.

use std::any::Any;
use std::fmt::Debug;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, Int32Array, UInt32Array, UInt64Array, new_empty_array};
use arrow::compute::take;
use arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::error::Result as DfResult;
use datafusion::logical_expr::expr::HigherOrderFunction;
use datafusion::logical_expr::{
    ColumnarValue, Expr, HigherOrderFunctionArgs, HigherOrderReturnFieldArgs, HigherOrderSignature, HigherOrderUDF, HigherOrderUDFImpl,
    LambdaArgument, LambdaParametersProgress, ValueOrLambda, Volatility,
};
use millstream_core::{Error, Result};
use millstream_engine::{from_datafusion, to_datafusion};

use super::super::downcast::{self, arrow_error};
use super::super::{Typed, nested};
use super::Body;

/// Computes a function that takes lambdas for a batch of rows. Two kernels that compare equal must compute the same.
pub(super) trait LambdaKernel: Debug + Clone + PartialEq + Eq + Hash + Send + Sync + 'static {
    /// The result: as many values as there are rows, of the type that the expression declared.
    ///
    /// # Errors
    /// Those of the lambdas, and Spark's run-time conditions.
    fn evaluate(&self, evaluation: &Evaluation<'_>) -> Result<ArrayRef>;
}

/// What a lambda is called with and what it gives.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct LambdaType {
    parameters: Vec<FieldRef>,
    result: DataType,
}

/// A function with its types, which it keeps whatever the planner finds out about its arguments.
#[derive(Clone, Debug)]
pub(super) struct HigherOrder<K> {
    name: &'static str,
    kernel: K,
    lambdas: Vec<LambdaType>,
    result: FieldRef,
    signature: HigherOrderSignature,
}

impl<K: LambdaKernel> HigherOrder<K> {
    /// A call of the function: the values first, then the lambdas.
    pub(super) fn call(
        name: &'static str,
        kernel: K,
        values: Vec<Typed>,
        lambdas: Vec<Body>,
        data_type: DataType,
        nullable: bool,
    ) -> Typed {
        let function = HigherOrder {
            name,
            kernel,
            lambdas: lambdas
                .iter()
                .map(|lambda| LambdaType { parameters: lambda.parameters.clone(), result: lambda.body.data_type.clone() })
                .collect(),
            result: Arc::new(Field::new(name, data_type.clone(), nullable)),
            signature: HigherOrderSignature::variadic_any(Volatility::Immutable),
        };
        let arguments = values.into_iter().map(|value| value.expr).chain(lambdas.into_iter().map(|lambda| lambda.expr)).collect();
        let function = HigherOrderFunction::new(Arc::new(HigherOrderUDF::new_from_impl(function)), arguments);
        Typed::new(Expr::HigherOrderFunction(function), data_type, nullable)
    }
}

impl<K: LambdaKernel> PartialEq for HigherOrder<K> {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name && self.result == other.result && self.lambdas == other.lambdas && self.kernel == other.kernel
    }
}

impl<K: LambdaKernel> Eq for HigherOrder<K> {}

impl<K: LambdaKernel> Hash for HigherOrder<K> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.name.hash(state);
        self.result.hash(state);
        self.lambdas.hash(state);
        self.kernel.hash(state);
        self.type_id().hash(state);
    }
}

impl<K: LambdaKernel> HigherOrderUDFImpl for HigherOrder<K> {
    fn name(&self) -> &str {
        self.name
    }

    fn signature(&self) -> &HigherOrderSignature {
        &self.signature
    }

    fn lambda_parameters(&self, _: usize, _: &[ValueOrLambda<FieldRef, Option<FieldRef>>]) -> DfResult<LambdaParametersProgress> {
        Ok(LambdaParametersProgress::Complete(self.lambdas.iter().map(|lambda| lambda.parameters.clone()).collect()))
    }

    fn return_field_from_args(&self, _: HigherOrderReturnFieldArgs<'_>) -> DfResult<FieldRef> {
        Ok(self.result.clone())
    }

    fn clear_null_values(&self) -> bool {
        // The kernels look only at what rows that are not null contain.
        false
    }

    fn short_circuits(&self) -> bool {
        // A lambda runs as often as there are elements, and that can be never.
        true
    }

    fn invoke_with_args(&self, args: HigherOrderFunctionArgs) -> DfResult<ColumnarValue> {
        let evaluation = Evaluation::new(&args, &self.lambdas)?;
        let array = self.kernel.evaluate(&evaluation).map_err(to_datafusion)?;
        if array.len() != args.number_rows || array.data_type() != self.result.data_type() {
            let message = format!(
                "function '{}' gave {} values of {} where {} of {} were due",
                self.name,
                array.len(),
                array.data_type(),
                args.number_rows,
                self.result.data_type()
            );
            return Err(to_datafusion(Error::internal(message)));
        }
        Ok(ColumnarValue::Array(array))
    }
}

/// The arguments of one evaluation.
pub(super) struct Evaluation<'a> {
    values: Vec<ArrayRef>,
    lambdas: Vec<&'a LambdaArgument>,
    types: &'a [LambdaType],
    rows: usize,
}

impl<'a> Evaluation<'a> {
    fn new(args: &'a HigherOrderFunctionArgs, types: &'a [LambdaType]) -> DfResult<Self> {
        let (mut values, mut lambdas) = (Vec::new(), Vec::new());
        for argument in &args.args {
            match argument {
                ValueOrLambda::Value(value) => values.push(value.to_array(args.number_rows)?),
                ValueOrLambda::Lambda(lambda) => lambdas.push(lambda),
            }
        }
        Ok(Evaluation { values, lambdas, types, rows: args.number_rows })
    }

    /// Rows of the batch.
    pub(super) fn rows(&self) -> usize {
        self.rows
    }

    /// A value argument.
    ///
    /// # Errors
    /// `INTERNAL_ERROR` when there is no such argument.
    pub(super) fn value(&self, index: usize) -> Result<&ArrayRef> {
        self.values.get(index).ok_or_else(|| Error::internal(format!("there is no argument {index}")))
    }

    /// How many lambdas there are.
    pub(super) fn lambdas(&self) -> usize {
        self.lambdas.len()
    }

    /// Calls a lambda once for each of the parameters' values. `rows` are the rows that the calls belong to, whose columns the lambda sees.
    ///
    /// # Errors
    /// Those of the lambda.
    pub(super) fn call(&self, index: usize, parameters: &[ArrayRef], rows: &UInt32Array) -> Result<ArrayRef> {
        let (Some(lambda), Some(declared)) = (self.lambdas.get(index), self.types.get(index)) else {
            return Err(Error::internal(format!("there is no lambda {index}")));
        };
        if rows.is_empty() {
            return Ok(new_empty_array(&declared.result));
        }
        let parameters = parameters
            .iter()
            .zip(&declared.parameters)
            .map(|(values, field)| nested::relabel(values, field.data_type()))
            .collect::<Result<Vec<_>>>()?;
        let given: Vec<Box<dyn Fn() -> DfResult<ArrayRef>>> = parameters
            .into_iter()
            .map(|values| {
                let give: Box<dyn Fn() -> DfResult<ArrayRef>> = Box::new(move || Ok(values.clone()));
                give
            })
            .collect();
        let given: Vec<&dyn Fn() -> DfResult<ArrayRef>> = given.iter().map(AsRef::as_ref).collect();
        let spread = |captured: &[ArrayRef]| captured.iter().map(|column| Ok(take(column, rows, None)?)).collect::<DfResult<Vec<_>>>();
        let result = lambda.evaluate(&given, spread).and_then(|value| value.into_array(rows.len())).map_err(from_datafusion)?;
        nested::relabel(&result, &declared.result)
    }
}

/// The elements of a column of arrays or the entries of a column of maps, one behind the other, without those of null rows.
#[derive(Debug)]
pub(super) struct Elements {
    /// The place of each in the column's values.
    pub indices: UInt64Array,
    /// The row of each.
    pub rows: UInt32Array,
    /// The place of each in its array or map, from 0.
    pub places: Int32Array,
    /// Where the elements of the rows begin.
    pub offsets: Vec<i32>,
    /// The rows that are not null.
    pub valid: Vec<bool>,
}

impl Elements {
    /// The elements of arrays, or the entries of maps.
    ///
    /// # Errors
    /// `INTERNAL_ERROR` for another type.
    pub(super) fn of(column: &ArrayRef) -> Result<Self> {
        let range: Box<dyn Fn(usize) -> Option<std::ops::Range<usize>>> = match column.data_type() {
            DataType::Map(..) => {
                let maps = downcast::maps(column)?;
                Box::new(|row| nested::entries_range(maps, row))
            }
            _ => {
                let lists = downcast::lists(column)?;
                Box::new(|row| nested::range(lists, row))
            }
        };
        let (mut indices, mut rows, mut places) = (Vec::new(), Vec::new(), Vec::new());
        let (mut offsets, mut valid) = (vec![0], Vec::with_capacity(column.len()));
        for row in 0..column.len() {
            let range = range(row);
            valid.push(range.is_some());
            for (place, index) in range.into_iter().flatten().enumerate() {
                indices.push(index as u64);
                rows.push(row as u32);
                places.push(place as i32);
            }
            offsets.push(nested::offset(indices.len())?);
        }
        Ok(Elements { indices: indices.into(), rows: rows.into(), places: places.into(), offsets, valid })
    }

    /// Of the column's values, those of the elements.
    ///
    /// # Errors
    /// `INTERNAL_ERROR` when they are not the column's values.
    pub(super) fn take(&self, values: &ArrayRef) -> Result<ArrayRef> {
        take(values, &self.indices, None).map_err(arrow_error)
    }

    /// For each row that is not null, the places of its elements among these.
    pub(super) fn ranges(&self) -> impl Iterator<Item = Option<std::ops::Range<usize>>> + '_ {
        self.valid.iter().enumerate().map(|(row, valid)| {
            let at = |index: usize| self.offsets.get(index).and_then(|offset| usize::try_from(*offset).ok()).unwrap_or_default();
            valid.then(|| at(row)..at(row + 1))
        })
    }
}
