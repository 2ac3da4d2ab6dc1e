//! Functions of users in expressions: `udf`, `pandas_udf`, `arrow_udf`.

use std::hash::{Hash, Hasher};
use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions, new_empty_array};
use arrow::compute::concat;
use arrow::datatypes::{DataType, Field, FieldRef, Schema};
use datafusion::common::ScalarValue;
use datafusion::error::{DataFusionError, Result as DfResult};
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::{ColumnarValue, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility};
use futures::{StreamExt, stream};
use millstream_core::{Error, Result};
use spark_connect_proto::PythonUdf;
use tokio::runtime::Handle;
use tokio::sync::mpsc;

use super::arrow::{adapted, encode};
use super::protocol::Message;
use super::runtime::PythonRuntime;
use super::task::{Task, TaskContext};
use crate::functions::Typed;
use crate::types::{from_proto, schema_to_json};

/// PySpark's kinds of functions that give one value for each row.
mod kind {
    /// Python objects, pickled. Run as [`ARROW_BATCHED`]: the functions are the same.
    pub(super) const BATCHED: i32 = 100;
    /// Python objects, carried by Arrow.
    pub(super) const ARROW_BATCHED: i32 = 101;
    /// `pandas.Series`.
    pub(super) const PANDAS: i32 = 200;
    /// Iterators of `pandas.Series`.
    pub(super) const PANDAS_ITERATOR: i32 = 204;
    /// `pyarrow.Array`.
    pub(super) const ARROW: i32 = 250;
    /// Iterators of `pyarrow.Array`.
    pub(super) const ARROW_ITERATOR: i32 = 251;
}

/// Record batches of results that wait to be taken.
const RESULTS: usize = 2;

/// Compiles the call of a function. An argument has a name where it was given by name.
///
/// # Errors
/// `UNSUPPORTED_FEATURE.PYTHON_UDF` for kinds that are no expressions of rows, and those of its type.
pub(crate) fn scalar(
    runtime: &PythonRuntime,
    name: &str,
    function: &PythonUdf,
    deterministic: bool,
    arguments: Vec<(Option<String>, Typed)>,
) -> Result<Typed> {
    let eval_type = match function.eval_type {
        kind::BATCHED | kind::ARROW_BATCHED => kind::ARROW_BATCHED,
        known @ (kind::PANDAS | kind::PANDAS_ITERATOR | kind::ARROW | kind::ARROW_ITERATOR) => known,
        other => {
            return Err(Error::invalid(
                "UNSUPPORTED_FEATURE.PYTHON_UDF",
                format!("'{name}' is a Python function of kind {other}, which cannot be called in this place"),
            )
            .with_sqlstate("0A000"));
        }
    };
    let output =
        function.output_type.as_ref().ok_or_else(|| Error::invalid("INVALID_PLAN_INPUT", format!("'{name}' has no return type")))?;
    let output = from_proto(output)?;
    let mut message = Message::default();
    message.int(1).int(i32::try_from(arguments.len()).unwrap_or(i32::MAX));
    for (offset, (name, _)) in arguments.iter().enumerate() {
        message.int(i32::try_from(offset).unwrap_or(i32::MAX)).bool(name.is_some());
        if let Some(name) = name {
            message.text(name);
        }
    }
    // One function, not chained to others; the number is the profiler's.
    message.int(1).bytes(&function.command).long(0);
    let fields = arguments.iter().enumerate().map(|(number, (_, argument))| {
        Field::new(format!("_{number}"), argument.data_type.clone(), true).with_metadata(argument.metadata.clone())
    });
    let input = Schema::new(fields.collect::<Vec<_>>());
    let mut task = runtime.task(&function.python_ver, eval_type, message);
    task.described.push(("input_type", schema_to_json(&input)));
    let call = PythonCall {
        name: name.to_owned(),
        runtime: runtime.clone(),
        task: Arc::new(task),
        input: Arc::new(input),
        output: Arc::new(output.clone().with_name(name)),
        // Never computed while planning, and as often as it is written.
        signature: Signature::variadic_any(Volatility::Volatile),
        deterministic,
    };
    let arguments = arguments.into_iter().map(|(_, argument)| argument.expr).collect();
    let function = ScalarFunction { func: Arc::new(ScalarUDF::from(call)), args: arguments };
    Ok(Typed::new(Expr::ScalarFunction(function), output.data_type().clone(), true).with_metadata(output.metadata().clone()))
}

#[derive(Clone, Debug)]
struct PythonCall {
    name: String,
    runtime: PythonRuntime,
    task: Arc<Task>,
    input: Arc<Schema>,
    output: FieldRef,
    signature: Signature,
    deterministic: bool,
}

impl PartialEq for PythonCall {
    fn eq(&self, other: &Self) -> bool {
        let key =
            |call: &Self| (call.name.clone(), call.output.clone(), call.deterministic, call.task.functions.clone(), call.task.eval_type);
        key(self) == key(other) && self.runtime == other.runtime && self.input == other.input
    }
}

impl Eq for PythonCall {}

impl Hash for PythonCall {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (&self.name, &self.output, self.task.eval_type).hash(state);
    }
}

impl PythonCall {
    /// Evaluates the function over rows.
    async fn evaluate(&self, rows: RecordBatch) -> Result<ArrayRef> {
        let mut worker = self.runtime.take().await?;
        worker.begin(&self.task, &TaskContext::default()).await?;
        let bytes = encode(&self.input, std::slice::from_ref(&rows))?;
        let (sender, mut results) = mpsc::channel(RESULTS);
        let input = stream::iter([Ok(bytes)]).boxed();
        let gather = async {
            let mut parts: Vec<ArrayRef> = Vec::new();
            while let Some(result) = results.recv().await {
                let result: RecordBatch = result?;
                let column = result.columns().first().ok_or_else(|| Error::internal("a worker answers without a column"))?;
                parts.push(adapted(column, self.output.data_type())?);
            }
            Ok::<_, Error>(parts)
        };
        let (worker, parts) = tokio::join!(worker.converse(input, sender), gather);
        if let Some(worker) = worker? {
            self.runtime.give_back(worker);
        }
        let parts = parts?;
        let parts: Vec<&dyn arrow::array::Array> = parts.iter().map(AsRef::as_ref).collect();
        let all = if parts.is_empty() { new_empty_array(self.output.data_type()) } else { concat(&parts).map_err(misfit)? };
        if all.len() != rows.num_rows() {
            return Err(Error::internal(format!("'{}' gave {} values for {} rows", self.name, all.len(), rows.num_rows())));
        }
        Ok(all)
    }
}

fn misfit(error: arrow::error::ArrowError) -> Error {
    Error::internal("the results of a Python function do not fit together").caused_by(error)
}

impl ScalarUDFImpl for PythonCall {
    fn name(&self) -> &str {
        &self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> DfResult<DataType> {
        Ok(self.output.data_type().clone())
    }

    fn return_field_from_args(&self, _: ReturnFieldArgs<'_>) -> DfResult<FieldRef> {
        Ok(self.output.clone())
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> DfResult<ColumnarValue> {
        if args.number_rows == 0 {
            return Ok(ColumnarValue::Array(new_empty_array(self.output.data_type())));
        }
        let columns = ColumnarValue::values_to_arrays(&args.args)?;
        let columns = columns.into_iter().map(|column| {
            // Constants have one row.
            if column.len() == args.number_rows {
                Ok(column)
            } else {
                ScalarValue::try_from_array(&column, 0)?.to_array_of_size(args.number_rows)
            }
        });
        let options = RecordBatchOptions::new().with_row_count(Some(args.number_rows));
        let rows = RecordBatch::try_new_with_options(self.input.clone(), columns.collect::<DfResult<Vec<_>>>()?, &options)?;
        let failed = |error: Error| DataFusionError::External(Box::new(error));
        let handle = Handle::try_current().map_err(|error| failed(Error::internal("no runtime for a Python function").caused_by(error)))?;
        // Expressions are evaluated on the CPU pool, whose threads may wait.
        let values = tokio::task::block_in_place(|| handle.block_on(self.evaluate(rows))).map_err(failed)?;
        Ok(ColumnarValue::Array(values))
    }
}
