//! `applyInPandasWithState`, `transformWithState` and `transformWithStateInPandas`: rows by key through Python code that keeps state.

use std::sync::Arc;

use arrow::datatypes::{DataType, Field, Fields, Schema};
use datafusion::common::Column;
use millstream_core::sink::OutputMode;
use millstream_core::{Error, Result};
use millstream_engine::plan::is_streaming;
use millstream_engine::stateful::Arbitrary;
use millstream_engine::stateful::arbitrary::{GroupTimeout, TimeMode};
use spark_connect_proto::{ApplyInPandasWithState, GroupMap, TransformWithStateInfo};

use super::Attribute;
use super::expression::{Scope, Surroundings};
use super::python::function_of;
use super::relation::{Analyzer, Node};
use crate::python::plan::Group;
use crate::python::state::{Frame, PythonGroupFunction, PythonProcessor};
use crate::python::{PythonFunction, kind};
use crate::types::{from_proto, parse_schema, schema_from_json};

impl Analyzer<'_> {
    /// `groupBy(…).applyInPandasWithState(…)`.
    pub(super) fn apply_in_pandas_with_state(&self, apply: &ApplyInPandasWithState, outer: Option<&Scope<'_>>) -> Result<Node> {
        let function = function_of(apply.func.as_ref(), &[kind::GROUP_STATE])?;
        let input = self.input(apply.input.as_deref(), outer)?;
        let (result, state) = (schema(&apply.output_schema)?, schema(&apply.state_schema)?);
        let mode = output_mode(&apply.output_mode)?;
        if mode == OutputMode::Complete {
            return Err(Error::invalid(
                "IllegalArgumentException",
                "requirement failed: applyInPandasWithState takes the output modes append and update",
            ));
        }
        // Spark answers with an error of the JVM that has no condition.
        let unknown = || Error::invalid("NoSuchElementException", format!("there is no timeout '{}'", apply.timeout_conf));
        let timeout = GroupTimeout::parse(&apply.timeout_conf).ok_or_else(unknown)?;
        if !is_streaming(&input.plan)? {
            return Err(Error::invalid(
                "_LEGACY_ERROR_TEMP_3176",
                "applyInPandasWithState is unsupported in batch query. Use applyInPandas instead.",
            ));
        }
        let of = self.grouped_rows(input, &apply.grouping_expressions, outer)?;
        let (columns, output) = outputs(&result);
        let frame = frame(&of);
        let function = PythonGroupFunction::new(self.python()?, function, frame, state.clone(), result, Arc::new(output.clone()));
        let keys = keys(&of);
        let node = Arbitrary::group_state(of.input, keys, Arc::new(function), (timeout, mode), (state, output))?;
        Ok(Node::new(node.into_plan(), columns))
    }

    /// `groupBy(…).transformWithState(…)` and `transformWithStateInPandas`.
    pub(super) fn transform_with_state(&self, group: &GroupMap, info: &TransformWithStateInfo, outer: Option<&Scope<'_>>) -> Result<Node> {
        let kinds = [kind::PROCESSOR_PANDAS, kind::PROCESSOR_PANDAS_INITIAL, kind::PROCESSOR_ROWS, kind::PROCESSOR_ROWS_INITIAL];
        let function = function_of(group.func.as_ref(), &kinds)?;
        let input = self.input(group.input.as_deref(), outer)?;
        let mode = output_mode(group.output_mode())?;
        let time_mode = TimeMode::parse(&info.time_mode)?;
        let rows = self.grouped_rows(input, &group.grouping_expressions, outer)?;
        let initial = match group.initial_input.as_deref() {
            Some(initial) => {
                let initial = self.relation(initial, outer)?;
                Some(self.grouped_rows(initial, &group.initial_grouping_expressions, outer)?)
            }
            None => None,
        };
        let result = results(&function, info)?;
        let function = PythonFunction { output: Field::new("", DataType::Struct(result.clone()), true), ..function };
        let (mut columns, output) = outputs(&result);
        let initial_frame = initial.as_ref().map(frame);
        let processor = PythonProcessor::new(self.python()?, function, time_mode, frame(&rows), initial_frame, Arc::new(output.clone()))?;
        let row_keys = keys(&rows);
        let mut node = Arbitrary::processor(rows.input, row_keys, Arc::new(processor), (time_mode, mode), output)?;
        if let Some(initial) = initial {
            let initial_keys = keys(&initial);
            node = node.with_initial_state(initial.input, initial_keys)?;
        }
        let event_time = info.event_time_column_name();
        if !event_time.is_empty() {
            let column = columns.iter().find(|column| self.same(&column.name, event_time)).ok_or_else(|| {
                Error::invalid(
                    "UNRESOLVED_COLUMN.WITH_SUGGESTION",
                    format!("the processor gives no column `{event_time}` to be event time"),
                )
                .with_sqlstate("42703")
            })?;
            node = node.with_event_time(&column.internal.clone())?;
            for (column, field) in columns.iter_mut().zip(node.output().fields()) {
                column.metadata.clone_from(field.metadata());
            }
        }
        Ok(Node::new(node.into_plan(), columns))
    }
}

fn output_mode(text: &str) -> Result<OutputMode> {
    OutputMode::parse(text)
}

/// A schema as DDL or JSON.
fn schema(text: &str) -> Result<Fields> {
    let schema: Schema = if text.trim_start().starts_with('{') { schema_from_json(text)? } else { parse_schema(text)? };
    Ok(schema.fields)
}

/// The columns that a processor has declared to give.
fn results(function: &PythonFunction, info: &TransformWithStateInfo) -> Result<Fields> {
    match &info.output_schema {
        Some(declared) => match from_proto(declared)?.data_type() {
            DataType::Struct(fields) => Ok(fields.clone()),
            _ => Err(Error::invalid("INVALID_PLAN_INPUT", "the rows of a processor are structures").with_sqlstate("42000")),
        },
        None => function.columns().cloned(),
    }
}

/// The columns of a result, for the user and for the engine.
fn outputs(result: &Fields) -> (Vec<Attribute>, Schema) {
    let columns: Vec<Attribute> = result.iter().map(|field| Attribute::of_field(field)).collect();
    let fields = columns.iter().map(|column| column.to_field().with_name(&column.internal).with_nullable(true));
    let output = Schema::new(fields.collect::<Vec<_>>());
    (columns, output)
}

fn frame(of: &Group) -> Frame {
    Frame { given: of.given.clone(), places: of.places(), keys: of.keys.clone() }
}

fn keys(of: &Group) -> Vec<Column> {
    of.compared.iter().map(|name| Column::new_unqualified(name.clone())).collect()
}
