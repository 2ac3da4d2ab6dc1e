//! What cannot work in a graph whose flows are resolved, and what a run is about.

use std::collections::BTreeSet;
use std::sync::Arc;

use millstream_core::{Error, Result};

use super::event::again;
use super::graph::{FlowQuery, Graph, OutputKind};
use super::name::Identifier;
use super::resolve::{CIRCLE, Failure, Resolver, UPSTREAM};
use super::tables::DEFAULT_FORMAT;
use crate::connect::catalog::parts;
use crate::pipelines::schema::fits;

/// The property that shields a table from full refreshes.
const RESET_ALLOWED: &str = "pipelines.reset.allowed";

/// Refuses what is wrong with definitions before anything is resolved.
///
/// # Errors
/// `RUN_EMPTY_PIPELINE`, `IllegalArgumentException` for a flow without its target, `AUTOCDC_MULTIPLE_FLOWS_TO_TARGET`, `MATERIALIZED_VIEW_WITH_MULTIPLE_QUERIES`, `PIPELINE_DATASET_WITHOUT_FLOW`.
pub(super) fn definitions(graph: &Graph) -> Result<()> {
    if !graph.outputs.iter().any(|output| output.table().is_some() || output.is_sink()) {
        let message = "The pipeline has nothing to run: define a table or a sink in one of the files that its spec names.";
        return Err(Error::invalid("RUN_EMPTY_PIPELINE", message).with_sqlstate("42617"));
    }
    for flow in &graph.flows {
        if graph.target(flow).is_none() {
            let message = format!("flow '{}' writes to '{}', which the pipeline does not define", flow.name, flow.target.join("."));
            return Err(Error::invalid("IllegalArgumentException", message));
        }
    }
    for (index, output) in graph.outputs.iter().enumerate() {
        let flows = graph.flows_into(index);
        let cdc =
            flows.iter().filter(|flow| graph.flows.get(**flow).is_some_and(|flow| matches!(flow.query, FlowQuery::AutoCdc(_)))).count();
        if cdc > 0 && flows.len() > 1 {
            let message = format!("'{}' takes the changes of an AUTO CDC flow, so that no other flow may write to it", output.name);
            return Err(Error::invalid("AUTOCDC_MULTIPLE_FLOWS_TO_TARGET", message).with_sqlstate("42000"));
        }
        if flows.len() > 1 && output.is_view() {
            let message = format!("'{}' is a view: it is its query, and no other flow writes to it", output.name);
            return Err(Error::invalid("IllegalArgumentException", message));
        }
        if cdc > 0 && output.is_view() {
            let message = format!("'{}' is a view: an AUTO CDC flow writes to a streaming table", output.name);
            return Err(Error::invalid("INVALID_FLOW_QUERY_TYPE.AUTOCDC_RELATION_FOR_TEMPORARY_VIEW", message).with_sqlstate("42000"));
        }
        if cdc > 0 && output.table().is_some_and(|table| format_of(table.format.as_deref()) != DEFAULT_FORMAT) {
            let message = format!("'{}' has a format whose rows cannot be changed: leave the format out", output.name);
            return Err(Error::invalid("AUTOCDC_TARGET_DOES_NOT_SUPPORT_MERGE", message).with_sqlstate("0A000"));
        }
        if matches!(output.kind, OutputKind::MaterializedView(_)) && flows.len() > 1 {
            let message = format!("materialized view '{}' is the result of one query, and has {}", output.name, flows.len());
            return Err(Error::invalid("MATERIALIZED_VIEW_WITH_MULTIPLE_QUERIES", message).with_sqlstate("42000"));
        }
        if output.is_streaming_table()
            && flows.len() > 1
            && output.table().is_some_and(|table| format_of(table.format.as_deref()) != DEFAULT_FORMAT)
        {
            let message = format!(
                "'{}' has a format that keeps the rows of one flow, and {} flows write to it: leave the format out",
                output.name,
                flows.len()
            );
            return Err(Error::invalid("PIPELINE_TABLE_TAKES_ONE_FLOW", message));
        }
        if flows.is_empty() && !output.is_sink() {
            let message = format!("'{}' has no flow: give it a query, or a flow that writes to it", output.name);
            return Err(Error::invalid("PIPELINE_DATASET_WITHOUT_FLOW", message).with_sqlstate("0A000"));
        }
    }
    Ok(())
}

/// The format of a table that asks for this one.
fn format_of(asked: Option<&str>) -> String {
    asked.filter(|format| !format.is_empty()).unwrap_or(DEFAULT_FORMAT).to_lowercase()
}

/// What cannot be resolved, for messages and for the error of the run.
#[derive(Debug)]
pub(super) struct Unresolved {
    /// The flows that are wrong themselves, with what is wrong.
    pub(super) broken: Vec<(Identifier, Arc<Failure>)>,
    /// The flows that read what is wrong.
    pub(super) blocked: Vec<Identifier>,
}

impl Unresolved {
    /// Tells flows that are wrong from those that read from them; `Ok` if there are none.
    ///
    /// # Errors
    /// The first definition that is wrong.
    pub(super) async fn of(resolver: &Arc<Resolver>) -> Result<Option<Unresolved>> {
        let mut unresolved = Unresolved { broken: Vec::new(), blocked: Vec::new() };
        for (index, failure) in resolver.resolve_all().await {
            if failure.is_definition || failure.error.code() == CIRCLE {
                return Err(again(&failure.error));
            }
            let name = resolver.flow(index)?.name.clone();
            match failure.error.code() == UPSTREAM {
                true => unresolved.blocked.push(name),
                false => unresolved.broken.push((name, failure)),
            }
        }
        Ok((!unresolved.broken.is_empty() || !unresolved.blocked.is_empty()).then_some(unresolved))
    }

    /// The error of the run.
    pub(super) fn error(&self) -> Error {
        let names = |names: Vec<&Identifier>| names.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
        let broken = names(self.broken.iter().map(|(name, _)| name).collect());
        let message = format!(
            "Failed to resolve flows in the pipeline.\n\nThe events before this message say what is wrong with each of them.\n\nFlows with \
             errors: {broken}\nFlows that failed due to upstream errors: {}",
            names(self.blocked.iter().collect())
        );
        Error::invalid("PIPELINE_NOT_RESOLVED", message)
    }
}

/// Refuses flows and columns that do not fit their tables, in a graph whose flows are resolved.
///
/// # Errors
/// `INVALID_FLOW_QUERY_TYPE.*`, `USER_SPECIFIED_AND_INFERRED_SCHEMA_NOT_COMPATIBLE`, `CANNOT_MERGE_INCOMPATIBLE_DATA_TYPE`,
/// `INVALID_RESETTABLE_DEPENDENCY`, `IllegalArgumentException` for a property that is no truth value.
pub(super) async fn resolved(resolver: &Arc<Resolver>) -> Result<()> {
    let graph = &resolver.graph;
    for (index, flow) in graph.flows.iter().enumerate() {
        let resolved = resolver.resolve(index).await.map_err(|failure| again(&failure.error))?;
        let Some(output) = graph.target(flow).and_then(|target| graph.outputs.get(target)) else { continue };
        let (condition, message) = match (&output.kind, resolved.is_streaming) {
            (OutputKind::StreamingTable(_), false) => {
                ("BATCH_RELATION_FOR_STREAMING_TABLE", "reads tables as they are: read them as streams, with STREAM or readStream")
            }
            (OutputKind::MaterializedView(_), true) => {
                ("STREAMING_RELATION_FOR_MATERIALIZED_VIEW", "reads a stream: define a streaming table, or read tables as they are")
            }
            (OutputKind::PersistedView { .. }, true) => {
                ("STREAMING_RELATION_FOR_PERSISTED_VIEW", "reads a stream: define a temporary view, or read tables as they are")
            }
            (OutputKind::PersistedView { .. }, false) => {
                let is_temporary =
                    |input: &&usize| graph.outputs.get(**input).is_some_and(|output| matches!(output.kind, OutputKind::TemporaryView));
                let Some(read) = resolved.inputs.iter().find(is_temporary).and_then(|input| graph.outputs.get(*input)) else { continue };
                let message =
                    format!("view '{}' is kept in the catalog and reads the temporary view '{}', which is not", output.name, read.name);
                return Err(Error::invalid("INVALID_TEMP_OBJ_REFERENCE", message).with_sqlstate("42K0F"));
            }
            _ => continue,
        };
        let message = format!("flow '{}' into '{}' {message}", flow.name, output.name);
        return Err(Error::invalid(format!("INVALID_FLOW_QUERY_TYPE.{condition}"), message).with_sqlstate("42000"));
    }
    for (index, output) in graph.outputs.iter().enumerate().filter(|(_, output)| output.table().is_some()) {
        let Some(declared) = output.table().and_then(|table| table.schema.as_ref()) else { continue };
        for flow in graph.flows_into(index) {
            if !fits(declared, &resolver.flow_columns(flow).await?) {
                let message = format!(
                    "the columns declared for '{}' are not those that its query has: names and types must be the same",
                    output.name
                );
                return Err(Error::invalid("USER_SPECIFIED_AND_INFERRED_SCHEMA_NOT_COMPATIBLE", message).with_sqlstate("42000"));
            }
        }
    }
    for index in 0..graph.outputs.len() {
        if graph.outputs.get(index).is_some_and(|output| output.table().is_some()) {
            resolver.columns(index).await?;
        }
    }
    resettable(resolver).await
}

/// A table that keeps its rows may not depend on one that can lose them.
async fn resettable(resolver: &Arc<Resolver>) -> Result<()> {
    let graph = &resolver.graph;
    let mut allowed = Vec::with_capacity(graph.outputs.len());
    for index in 0..graph.outputs.len() {
        allowed.push(reset_allowed(graph, index)?);
    }
    for (index, flow) in graph.flows.iter().enumerate() {
        let Some(target) = graph.target(flow) else { continue };
        if allowed.get(target).copied().unwrap_or(true) {
            continue;
        }
        let resolved = resolver.resolve(index).await.map_err(|failure| again(&failure.error))?;
        for input in &resolved.inputs {
            let Some(output) = graph.outputs.get(*input) else { continue };
            if output.is_streaming_table() && allowed.get(*input).copied().unwrap_or(true) {
                let message = format!(
                    "'{}' is shielded from full refreshes ({RESET_ALLOWED} = false) and reads '{}', which is not: shield that, too",
                    flow.target.join("."),
                    output.name
                );
                return Err(Error::invalid("INVALID_RESETTABLE_DEPENDENCY", message).with_sqlstate("42000"));
            }
        }
    }
    Ok(())
}

/// Whether a full refresh may take the rows out of an output.
///
/// # Errors
/// `IllegalArgumentException` for a property that is no truth value.
pub(super) fn reset_allowed(graph: &Graph, output: usize) -> Result<bool> {
    let Some(table) = graph.outputs.get(output).and_then(|output| output.table()) else { return Ok(true) };
    match table.properties.get(RESET_ALLOWED).map(|value| value.trim().to_lowercase()) {
        None => Ok(true),
        Some(value) if value == "true" => Ok(true),
        Some(value) if value == "false" => Ok(false),
        Some(value) => {
            Err(Error::invalid("IllegalArgumentException", format!("'{value}' is no value of {RESET_ALLOWED}: it is true or false")))
        }
    }
}

/// What a run is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Selection {
    /// The outputs whose flows run.
    pub(super) outputs: BTreeSet<usize>,
    /// Those among them that begin anew.
    pub(super) refreshed: BTreeSet<usize>,
}

impl Selection {
    /// Reads what a client asks for. Names that mean nothing select nothing.
    ///
    /// # Errors
    /// `IllegalArgumentException` for a table that is to be refreshed in both ways, `INTERNAL_ERROR`, as in Spark, for one that is shielded
    /// and asked for by name.
    pub(super) fn of(graph: &Graph, refresh: &[String], full_refresh: &[String], full_refresh_all: bool) -> Result<Selection> {
        let runs = |index: &usize| graph.outputs.get(*index).is_some_and(|output| !output.is_view());
        let all: BTreeSet<usize> = (0..graph.outputs.len()).filter(runs).collect();
        // As in Spark, only tables are selected by their names.
        let is_table = |index: &usize| graph.outputs.get(*index).is_some_and(|output| output.table().is_some());
        let named = |names: &[String]| -> Result<BTreeSet<usize>> {
            let mut found = BTreeSet::new();
            for name in names {
                let name = parts(name)?;
                if name.len() > 3 {
                    let message = format!("'{}' has {} parts: the name of a table has at most three", name.join("."), name.len());
                    return Err(Error::invalid("UnsupportedOperationException", message));
                }
                found.extend(graph.find(&name, &graph.defaults)?.filter(|index| is_table(index)));
            }
            Ok(found)
        };
        for index in &all {
            reset_allowed(graph, *index)?;
        }
        if full_refresh_all {
            let refreshed = all.iter().copied().filter(|index| reset_allowed(graph, *index).unwrap_or(false)).collect();
            return Ok(Selection { outputs: all, refreshed });
        }
        let (plain, refreshed) = (named(refresh)?, named(full_refresh)?);
        if let Some(both) = plain.intersection(&refreshed).next().and_then(|index| graph.outputs.get(*index)) {
            let message = format!("'{}' is to be refreshed and to be refreshed fully: ask for one of the two", both.name);
            return Err(Error::invalid("IllegalArgumentException", message));
        }
        for index in &refreshed {
            if !reset_allowed(graph, *index)? {
                let name = graph.outputs.get(*index).map(|output| output.name.to_string()).unwrap_or_default();
                let message = format!("'{name}' is shielded from full refreshes by its property {RESET_ALLOWED}");
                return Err(Error::invalid("INTERNAL_ERROR", message).with_sqlstate("XX000"));
            }
        }
        if refresh.is_empty() && full_refresh.is_empty() {
            return Ok(Selection { outputs: all, refreshed });
        }
        Ok(Selection { outputs: plain.union(&refreshed).copied().collect(), refreshed })
    }
}
