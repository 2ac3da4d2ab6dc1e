//! A table function of a user, and what its own `analyze` says of a call.

use arrow::datatypes::{Field, Fields, Schema};
use millstream_core::{Error, Result};
use prost::bytes::Bytes;
use spark_connect_proto::CommonInlineUserDefinedTableFunction;
use spark_connect_proto::common_inline_user_defined_table_function::Function;

use super::protocol::{END_OF_STREAM, EXCEPTION_THROWN, read_bytes, read_exactly, read_int, read_text};
use super::runtime::PythonRuntime;
use crate::types::{columns_from_proto, schema_from_json, schema_to_json};

/// PySpark's worker for `analyze`.
const MODULE: &str = "pyspark.sql.worker.analyze_udtf";

/// A table function in Python.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct TableFunction {
    /// Its name, for people.
    pub(crate) name: String,
    /// One of the kinds of table functions.
    pub(crate) kind: i32,
    /// The client's version of Python, `3.11`.
    pub(crate) version: String,
    /// The pickle of the class.
    pub(crate) command: Bytes,
    /// The declared columns; `None` for a function that says with `analyze` what a call gives.
    pub(crate) declared: Option<Fields>,
}

impl TableFunction {
    /// The function of a call.
    ///
    /// # Errors
    /// `UDTF_RETURN_TYPE_NOT_STRUCT_TYPE`-like conditions of its type, `INVALID_PLAN_INPUT` when it is not there.
    pub(crate) fn of(call: &CommonInlineUserDefinedTableFunction) -> Result<Self> {
        let Some(Function::PythonUdtf(function)) = &call.function else {
            return Err(Error::invalid("INVALID_PLAN_INPUT", format!("the table function '{}' is not there", call.function_name)));
        };
        let declared = match &function.return_type {
            None => None,
            Some(declared) => Some(columns_of(declared, &call.function_name)?),
        };
        Ok(TableFunction {
            name: call.function_name.clone(),
            kind: function.eval_type,
            version: function.python_ver.clone(),
            command: function.command.clone(),
            declared,
        })
    }
}

/// The columns of a declared type: a structure, or a schema as text.
fn columns_of(declared: &spark_connect_proto::DataType, name: &str) -> Result<Fields> {
    columns_from_proto(declared)?
        .ok_or_else(|| Error::invalid("UDTF_RETURN_TYPE_NOT_STRUCT", format!("the table function '{name}' must give a structure")))
}

/// An argument of a call as `analyze` is told it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct AnalyzedArgument {
    /// The name under which it is given.
    pub(crate) name: Option<String>,
    /// Its type; of a table the structure of its columns.
    pub(crate) field: Field,
    /// The pickle of its value, if it is a constant.
    pub(crate) constant: Option<Vec<u8>>,
    /// Whether it is a table.
    pub(crate) is_table: bool,
}

/// What `analyze` says of a call.
#[derive(Clone, Debug)]
pub(crate) struct Analysis {
    /// The columns of the result.
    pub(crate) columns: Fields,
    /// The pickle of all that it says, which the class is given.
    pub(crate) pickled: Vec<u8>,
    /// Whether all rows of the table belong together.
    pub(crate) single_partition: bool,
    /// Expressions by which the table is partitioned.
    pub(crate) partition_by: Vec<String>,
    /// Expressions by which it is ordered: whether ascending, and where nulls are if that is said.
    pub(crate) order_by: Vec<(String, bool, Option<bool>)>,
    /// The expressions that are selected from the table, and their names; all columns if there are none.
    pub(crate) select: Vec<(String, String)>,
}

/// Asks a function what a call of it gives.
///
/// # Errors
/// `TABLE_VALUED_FUNCTION_FAILED_TO_ANALYZE_IN_PYTHON` with the function's own words; `PYTHON_WORKER_UNAVAILABLE`.
pub(crate) async fn analyze(runtime: &PythonRuntime, function: &TableFunction, arguments: &[AnalyzedArgument]) -> Result<Analysis> {
    let mut message = runtime.preface(&function.version);
    // No broadcasts, no settings.
    message.bool(false).int(0).int(0);
    message.text(&function.name).bytes(&function.command).int(i32::try_from(arguments.len()).unwrap_or(i32::MAX));
    for argument in arguments {
        message.text(&type_json(&argument.field)?).bool(argument.constant.is_some());
        if let Some(constant) = &argument.constant {
            message.bytes(constant);
        }
        message.bool(argument.is_table).bool(argument.name.is_some());
        if let Some(name) = &argument.name {
            message.text(name);
        }
    }
    message.int(END_OF_STREAM);
    let mut worker = runtime.start(MODULE, &[]).await?;
    worker.send(&message).await?;
    let answered = async {
        let stream = worker.stream();
        let length = read_int(stream).await?;
        if length == EXCEPTION_THROWN {
            return Ok(Err(refused(&read_text(stream).await?)));
        }
        let schema = String::from_utf8_lossy(&read_exactly(stream, length).await?).into_owned();
        let pickled = read_bytes(stream).await?;
        let single_partition = read_int(stream).await? == 1;
        let mut partition_by = Vec::new();
        for _ in 0..read_int(stream).await? {
            partition_by.push(read_text(stream).await?);
        }
        let mut order_by = Vec::new();
        for _ in 0..read_int(stream).await? {
            let name = read_text(stream).await?;
            let ascending = read_int(stream).await? == 1;
            let nulls_first = match read_int(stream).await? {
                0 => None,
                first => Some(first == 1),
            };
            order_by.push((name, ascending, nulls_first));
        }
        let mut select = Vec::new();
        for _ in 0..read_int(stream).await? {
            select.push((read_text(stream).await?, read_text(stream).await?));
        }
        Ok(schema_from_json(&schema).map(|schema| Analysis {
            columns: schema.fields().clone(),
            pickled,
            single_partition,
            partition_by,
            order_by,
            select,
        }))
    };
    match answered.await {
        Ok(answer) => answer,
        Err(error) => Err(worker.lost(error)),
    }
}

/// The error for a call that a function does not accept.
fn refused(traceback: &str) -> Error {
    let message = format!("Failed to analyze the Python user defined table function: {traceback}");
    Error::invalid("TABLE_VALUED_FUNCTION_FAILED_TO_ANALYZE_IN_PYTHON", message).with_sqlstate("38000")
}

/// The type of a field as JSON.
fn type_json(field: &Field) -> Result<String> {
    let schema: serde_json::Value = serde_json::from_str(&schema_to_json(&Schema::new(vec![field.clone()])))
        .map_err(|error| Error::internal("a type has no JSON").caused_by(error))?;
    let json = schema.pointer("/fields/0/type").ok_or_else(|| Error::internal("a type has no JSON"))?;
    Ok(json.to_string())
}

#[cfg(test)]
mod tests {
    use arrow::datatypes::DataType;

    use super::*;

    #[test]
    fn types_are_told_as_json() {
        for (field, expected) in [
            (Field::new("", DataType::Int32, true), r#""integer""#),
            (
                Field::new("", crate::types::array(DataType::Utf8, true), true),
                r#"{"containsNull":true,"elementType":"string","type":"array"}"#,
            ),
        ] {
            let told: serde_json::Value = serde_json::from_str(&type_json(&field).unwrap()).unwrap();
            assert_eq!(told, serde_json::from_str::<serde_json::Value>(expected).unwrap());
        }
    }
}
