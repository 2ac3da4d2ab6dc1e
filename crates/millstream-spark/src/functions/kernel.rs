//! Scalar functions written as kernels over Arrow arrays.

use std::any::Any;
use std::fmt::Debug;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use arrow::array::{ArrayRef, UInt32Array};
use arrow::compute::take;
use arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::DataFusionError;
use datafusion::error::Result as DfResult;
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::{
    ColumnarValue, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, TypeSignature, Volatility,
};
use datafusion::scalar::ScalarValue;
use millstream_core::Result;
use millstream_engine::to_datafusion;

use super::Typed;

/// Computes a scalar function for a batch of rows. Its fields are what the function was compiled for (formats, target types, settings);
/// two kernels that compare equal must compute the same.
pub trait Kernel: Debug + Clone + PartialEq + Eq + Hash + Send + Sync + 'static {
    /// The result: as many values as there are rows, of the type that the expression declared.
    ///
    /// # Errors
    /// Spark's run-time conditions, see [`super::faults`].
    fn evaluate(&self, arguments: &Arguments<'_>) -> Result<ArrayRef>;
}

/// The arguments of one evaluation.
#[derive(Debug)]
pub struct Arguments<'a> {
    values: &'a [ColumnarValue],
    rows: usize,
}

impl Arguments<'_> {
    /// Rows of the batch.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// How many arguments there are.
    pub fn len(&self) -> usize {
        self.values.len()
    }

    /// Whether there are no arguments.
    pub fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    /// An argument as an array of `rows` values.
    ///
    /// # Errors
    /// `INTERNAL_ERROR` when there is no such argument.
    pub fn array(&self, index: usize) -> Result<ArrayRef> {
        let value = self.values.get(index).ok_or_else(|| millstream_core::Error::internal(format!("there is no argument {index}")))?;
        value.to_array(self.rows).map_err(millstream_engine::from_datafusion)
    }

    /// An argument that is the same for all rows.
    pub fn scalar(&self, index: usize) -> Option<&ScalarValue> {
        match self.values.get(index) {
            Some(ColumnarValue::Scalar(value)) => Some(value),
            _ => None,
        }
    }

    /// All arguments as arrays.
    ///
    /// # Errors
    /// Those of expanding constants.
    pub fn arrays(&self) -> Result<Vec<ArrayRef>> {
        (0..self.values.len()).map(|index| self.array(index)).collect()
    }
}

/// A call of a deterministic kernel: `name` is what plans show, `arguments` are already of the types that the kernel expects.
pub fn scalar(name: &'static str, kernel: impl Kernel, arguments: Vec<Typed>, data_type: DataType, nullable: bool) -> Typed {
    call(name, kernel, arguments, data_type, nullable, Volatility::Immutable)
}

/// A call of a kernel with its volatility.
pub fn call(
    name: &'static str,
    kernel: impl Kernel,
    arguments: Vec<Typed>,
    data_type: DataType,
    nullable: bool,
    volatility: Volatility,
) -> Typed {
    let function = KernelFunction {
        name,
        kernel,
        result: Arc::new(Field::new(name, data_type.clone(), nullable)),
        signature: Signature::one_of(vec![TypeSignature::VariadicAny, TypeSignature::Nullary], volatility),
    };
    let arguments = arguments.into_iter().map(|argument| argument.expr).collect();
    let expr = Expr::ScalarFunction(ScalarFunction::new_udf(Arc::new(ScalarUDF::new_from_impl(function)), arguments));
    Typed::new(expr, data_type, nullable)
}

/// A call of one of DataFusion's scalar functions, whose result is known to be of `data_type`.
pub fn udf(function: Arc<ScalarUDF>, arguments: Vec<Typed>, data_type: DataType, nullable: bool) -> Typed {
    let arguments = arguments.into_iter().map(|argument| argument.expr).collect();
    Typed::new(Expr::ScalarFunction(ScalarFunction::new_udf(function, arguments)), data_type, nullable)
}

#[derive(Clone, Debug)]
struct KernelFunction<K> {
    name: &'static str,
    kernel: K,
    result: FieldRef,
    signature: Signature,
}

impl<K: Kernel> PartialEq for KernelFunction<K> {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name && self.result == other.result && self.kernel == other.kernel
    }
}

impl<K: Kernel> Eq for KernelFunction<K> {}

impl<K: Kernel> Hash for KernelFunction<K> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.name.hash(state);
        self.result.hash(state);
        self.kernel.hash(state);
        self.type_id().hash(state);
    }
}

impl<K: Kernel> ScalarUDFImpl for KernelFunction<K> {
    fn name(&self) -> &str {
        self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> DfResult<DataType> {
        Ok(self.result.data_type().clone())
    }

    fn return_field_from_args(&self, _: ReturnFieldArgs<'_>) -> DfResult<FieldRef> {
        Ok(self.result.clone())
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> DfResult<ColumnarValue> {
        // Constants in, constant out: computed once, whatever the size of the batch.
        let constant = self.signature.volatility != Volatility::Volatile
            && !args.args.is_empty()
            && args.args.iter().all(|argument| matches!(argument, ColumnarValue::Scalar(_)));
        let rows = if constant { 1 } else { args.number_rows };
        let array = self.kernel.evaluate(&Arguments { values: &args.args, rows }).map_err(to_datafusion)?;
        if array.len() != rows || array.data_type() != self.result.data_type() {
            return Err(DataFusionError::Internal(format!(
                "function '{}' gave {} values of {} where {rows} of {} were due",
                self.name,
                array.len(),
                array.data_type(),
                self.result.data_type()
            )));
        }
        if !constant {
            return Ok(ColumnarValue::Array(array));
        }
        let scalar = ScalarValue::try_from_array(&array, 0)?;
        if scalar.data_type() == *self.result.data_type() {
            return Ok(ColumnarValue::Scalar(scalar));
        }
        // A scalar forgets the metadata of what is inside of it.
        let repeated = UInt32Array::from(vec![0; args.number_rows]);
        Ok(ColumnarValue::Array(take(&array, &repeated, None)?))
    }
}
