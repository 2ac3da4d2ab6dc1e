//! A function of a user as a client sends it.

use arrow::datatypes::{DataType, Field};
use millstream_core::{Error, Result};
use prost::bytes::Bytes;
use spark_connect_proto::CommonInlineUserDefinedFunction;
use spark_connect_proto::common_inline_user_defined_function::Function;

use super::protocol::Message;
use crate::types::from_proto;

/// PySpark's kinds of evaluation (`PythonEvalType`).
pub(crate) mod kind {
    /// Python objects row by row, pickled.
    pub(crate) const BATCHED: i32 = 100;
    /// Python objects row by row, carried by Arrow.
    pub(crate) const ARROW_BATCHED: i32 = 101;
    /// `pandas.Series` to `pandas.Series`.
    pub(crate) const PANDAS: i32 = 200;
    /// `pandas.DataFrame` of a group to `pandas.DataFrame`.
    pub(crate) const GROUP_PANDAS: i32 = 201;
    /// `pandas.Series` of a group to a value.
    pub(crate) const AGGREGATE_PANDAS: i32 = 202;
    /// The same over the frame of a window.
    pub(crate) const WINDOW_PANDAS: i32 = 203;
    /// Iterators of `pandas.Series`.
    pub(crate) const PANDAS_ITERATOR: i32 = 204;
    /// Iterators of `pandas.DataFrame`.
    pub(crate) const MAP_PANDAS: i32 = 205;
    /// Two `pandas.DataFrame`s of a group to one.
    pub(crate) const COGROUP_PANDAS: i32 = 206;
    /// Iterators of `pyarrow.RecordBatch`.
    pub(crate) const MAP_ARROW: i32 = 207;
    /// Iterators of `pandas.DataFrame` of a group, with the group's state.
    pub(crate) const GROUP_STATE: i32 = 208;
    /// A stateful processor over iterators of `pandas.DataFrame`.
    pub(crate) const PROCESSOR_PANDAS: i32 = 211;
    /// The same with an initial state.
    pub(crate) const PROCESSOR_PANDAS_INITIAL: i32 = 212;
    /// A stateful processor over iterators of `Row`.
    pub(crate) const PROCESSOR_ROWS: i32 = 213;
    /// The same with an initial state.
    pub(crate) const PROCESSOR_ROWS_INITIAL: i32 = 214;
    /// `pyarrow.Table` of a group to `pyarrow.Table`.
    pub(crate) const GROUP_ARROW: i32 = 209;
    /// Two `pyarrow.Table`s of a group to one.
    pub(crate) const COGROUP_ARROW: i32 = 210;
    /// Iterators of `pyarrow.RecordBatch` of a group.
    pub(crate) const GROUP_ARROW_ITERATOR: i32 = 215;
    /// Iterators of `pandas.DataFrame` of a group.
    pub(crate) const GROUP_PANDAS_ITERATOR: i32 = 216;
    /// Iterators of `pandas.Series` of a group to a value.
    pub(crate) const AGGREGATE_PANDAS_ITERATOR: i32 = 217;
    /// `pyarrow.Array` to `pyarrow.Array`.
    pub(crate) const ARROW: i32 = 250;
    /// Iterators of `pyarrow.Array`.
    pub(crate) const ARROW_ITERATOR: i32 = 251;
    /// `pyarrow.Array` of a group to a value.
    pub(crate) const AGGREGATE_ARROW: i32 = 252;
    /// The same over the frame of a window.
    pub(crate) const WINDOW_ARROW: i32 = 253;
    /// Iterators of `pyarrow.Array` of a group to a value.
    pub(crate) const AGGREGATE_ARROW_ITERATOR: i32 = 254;
    /// A table function over pickled rows.
    pub(crate) const TABLE: i32 = 300;
    /// A table function over `pyarrow` data.
    pub(crate) const TABLE_OF_ARROW: i32 = 302;
}

/// A function in Python.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct PythonFunction {
    /// Its name, for people.
    pub(crate) name: String,
    /// One of [`kind`].
    pub(crate) kind: i32,
    /// Whether the same arguments always give the same result.
    pub(crate) deterministic: bool,
    /// The client's version of Python, `3.11`.
    pub(crate) version: String,
    /// The pickle of the function and its type.
    pub(crate) command: Bytes,
    /// The declared type, as a field without a name that may be null.
    pub(crate) output: Field,
}

impl PythonFunction {
    /// The function of a call.
    ///
    /// # Errors
    /// `CANNOT_LOAD_FUNCTION_CLASS` for functions of the JVM; those of its type.
    pub(crate) fn of(call: &CommonInlineUserDefinedFunction) -> Result<Self> {
        match &call.function {
            Some(Function::PythonUdf(function)) => {
                let missing = || Error::invalid("INVALID_PLAN_INPUT", format!("the function '{}' has no return type", call.function_name));
                Ok(PythonFunction {
                    name: call.function_name.clone(),
                    kind: function.eval_type,
                    deterministic: call.deterministic,
                    version: function.python_ver.clone(),
                    command: function.command.clone(),
                    output: from_proto(function.output_type.as_ref().ok_or_else(missing)?)?,
                })
            }
            Some(Function::JavaUdf(function)) => Err(no_jvm(&function.class_name, &call.function_name)),
            Some(Function::ScalarScalaUdf(_)) => Err(no_jvm("of Scala", &call.function_name)),
            None => Err(Error::invalid("INVALID_PLAN_INPUT", format!("the function '{}' is not there", call.function_name))),
        }
    }

    /// Whether it gives one value for each row.
    pub(crate) fn is_scalar(&self) -> bool {
        matches!(self.kind, kind::BATCHED | kind::ARROW_BATCHED | kind::PANDAS | kind::PANDAS_ITERATOR | kind::ARROW | kind::ARROW_ITERATOR)
    }

    /// Whether it gives one value for each group.
    pub(crate) fn is_aggregate(&self) -> bool {
        matches!(
            self.kind,
            kind::AGGREGATE_PANDAS | kind::AGGREGATE_PANDAS_ITERATOR | kind::AGGREGATE_ARROW | kind::AGGREGATE_ARROW_ITERATOR
        )
    }

    /// Whether it takes iterators, one call for all rows of a task.
    pub(crate) fn is_iterator(&self) -> bool {
        matches!(self.kind, kind::PANDAS_ITERATOR | kind::ARROW_ITERATOR)
    }

    /// The columns of a function that gives frames.
    ///
    /// # Errors
    /// `INVALID_PLAN_INPUT` when it is declared to give something else.
    pub(crate) fn columns(&self) -> Result<&arrow::datatypes::Fields> {
        match self.output.data_type() {
            DataType::Struct(fields) => Ok(fields),
            _ => Err(Error::invalid("INVALID_PLAN_INPUT", format!("the function '{}' must give a structure", self.name))),
        }
    }
}

/// The error for a function that only a JVM can run.
fn no_jvm(class: &str, function: &str) -> Error {
    let message = format!(
        "Cannot load class {class} when registering the function `{function}`: functions compiled for the JVM cannot run here, write them \
         in SQL or Python."
    );
    Error::invalid("CANNOT_LOAD_FUNCTION_CLASS", message).with_sqlstate("46103")
}

/// One function as a worker is told it: where its arguments are, by name or by position, and what is called, the innermost first.
pub(crate) fn described(arguments: &[(usize, Option<&str>)], chain: &[&PythonFunction]) -> Message {
    let commands: Vec<&[u8]> = chain.iter().map(|function| function.command.as_ref()).collect();
    described_commands(arguments, &commands)
}

/// The same for one function that is only known by its pickle.
pub(crate) fn described_bytes(arguments: &[(usize, Option<&str>)], command: &[u8]) -> Message {
    described_commands(arguments, &[command])
}

fn described_commands(arguments: &[(usize, Option<&str>)], commands: &[&[u8]]) -> Message {
    let mut message = Message::default();
    message.int(count(arguments.len()));
    for (place, name) in arguments {
        message.int(count(*place)).bool(name.is_some());
        if let Some(name) = name {
            message.text(name);
        }
    }
    message.int(count(commands.len()));
    for command in commands {
        message.bytes(command);
    }
    // The number under which a profiler would report.
    message.long(0);
    message
}

/// The functions of a task: how many, and each [`described`].
pub(crate) fn together(functions: impl ExactSizeIterator<Item = Message>) -> Message {
    let mut message = Message::default();
    message.int(count(functions.len()));
    for function in functions {
        message.append(&function);
    }
    message
}

fn count(number: usize) -> i32 {
    i32::try_from(number).unwrap_or(i32::MAX)
}
