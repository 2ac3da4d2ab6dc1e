//! Definitions as clients send them.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::datatypes::Schema;
use millstream_core::{Error, Result};
use spark_connect_proto::OutputType;
use spark_connect_proto::pipeline_command::define_flow::Details as FlowDetails;
use spark_connect_proto::pipeline_command::define_output::table_details::Schema as Declared;
use spark_connect_proto::pipeline_command::define_output::{Details, TableDetails as TableMessage};
use spark_connect_proto::pipeline_command::{DefineFlow, DefineFlowQueryFunctionResult, DefineOutput};

use super::cdc::AutoCdc;
use super::graph::{Flow, FlowQuery, Graph, Output, OutputKind, TableDetails};
use super::name::Identifier;
use crate::connect::catalog::{parts, to_schema};
use crate::connect::errors::{incomplete, unsupported};

/// Adds an output. Gives its full name.
///
/// # Errors
/// Those of its name, of its columns, and of the graph.
pub(super) fn output(graph: &mut Graph, message: DefineOutput) -> Result<Identifier> {
    let output_type = message.output_type();
    let name = parts(&message.output_name.unwrap_or_default())?;
    let of_view = || match name.as_slice() {
        [_] => Ok(Identifier::of(name.clone())),
        _ => {
            let message = format!("the temporary view '{}' must have a name of one part", name.join("."));
            Err(Error::invalid("INTERNAL_ERROR", message).with_sqlstate("XX000"))
        }
    };
    let (name, kind) = match (output_type, message.details) {
        (OutputType::TemporaryView, _) => (of_view()?, OutputKind::TemporaryView),
        (OutputType::Sink, Some(Details::SinkDetails(sink))) => {
            let format = sink.format.filter(|format| !format.is_empty()).ok_or_else(|| incomplete("SinkDetails.format"))?;
            (Identifier::of(name), OutputKind::Sink { format, options: sink.options.into_iter().collect() })
        }
        (OutputType::Table | OutputType::MaterializedView, details) => {
            let details = match details {
                Some(Details::TableDetails(details)) => table(details)?,
                _ => TableDetails::default(),
            };
            let kind = match output_type {
                OutputType::MaterializedView => OutputKind::MaterializedView(details),
                _ => OutputKind::StreamingTable(details),
            };
            (graph.defaults.qualify(&name)?, kind)
        }
        (OutputType::Unspecified | OutputType::Sink, _) => return Err(incomplete("DefineOutput.output_type")),
    };
    // As in Spark, what comes without a comment has an empty one.
    graph.add_output(Output { name: name.clone(), kind, comment: Some(message.comment.unwrap_or_default()) })?;
    Ok(name)
}

fn table(message: TableMessage) -> Result<TableDetails> {
    let schema = match message.schema {
        None => None,
        Some(Declared::SchemaDataType(data_type)) => Some(to_schema(&data_type)?),
        Some(Declared::SchemaString(text)) if text.is_empty() => None,
        Some(Declared::SchemaString(text)) => Some(crate::connect::schema::parse(&text)?.as_ref().clone()),
    };
    Ok(TableDetails {
        properties: message.table_properties.into_iter().collect(),
        partition_by: message.partition_cols,
        cluster_by: message.clustering_columns,
        format: message.format,
        schema: schema.filter(|schema: &Schema| !schema.fields().is_empty()),
    })
}

/// Adds a flow. Gives its full name.
///
/// # Errors
/// `DEFINE_FLOW_ONCE_OPTION_NOT_SUPPORTED`, `MULTIPART_FLOW_NAME_NOT_SUPPORTED`, those of AUTO CDC, and those of the graph.
pub(super) fn flow(graph: &mut Graph, message: DefineFlow) -> Result<Identifier> {
    let target_text = message.target_dataset_name.unwrap_or_default();
    let name_text = message.flow_name.filter(|name| !name.is_empty()).unwrap_or_else(|| target_text.clone());
    let target = parts(&target_text)?;
    let name = parts(&name_text)?;
    if message.once == Some(true) {
        let message = format!("flow '{name_text}' is to run once, which cannot be defined over Connect");
        return Err(Error::invalid("DEFINE_FLOW_ONCE_OPTION_NOT_SUPPORTED", message).with_sqlstate("0A000"));
    }
    let is_own = name == target;
    if name.len() > 1 && !is_own {
        let message = format!("Flow with multipart name '{name_text}' is not supported: give it a name of one part");
        return Err(Error::invalid("MULTIPART_FLOW_NAME_NOT_SUPPORTED", message).with_sqlstate("0A000"));
    }
    let own = Identifier::of(name.clone());
    let identifier = if is_own && graph.output(&own).is_some() { own } else { graph.defaults.qualify(&name)? };
    let query = match message.details {
        Some(FlowDetails::RelationFlowDetails(details)) => match details.relation {
            Some(relation) => FlowQuery::Relation(Box::new(relation)),
            None => FlowQuery::Awaited { client: message.client_id },
        },
        Some(FlowDetails::AutoCdcFlowDetails(details)) => FlowQuery::AutoCdc(Box::new(AutoCdc::of(details, &name_text)?)),
        Some(FlowDetails::Extension(any)) => return Err(unsupported(&format!("flows of the kind {}", any.type_url))),
        None => FlowQuery::Awaited { client: message.client_id },
    };
    let confs: BTreeMap<String, String> = message.sql_conf.into_iter().collect();
    graph.add_flow(Flow { name: identifier.clone(), target, query, confs, namespace: graph.defaults.clone() })?;
    Ok(identifier)
}

/// Gives a flow the query that it waits for.
///
/// # Errors
/// `INVALID_PLAN_INPUT` for a flow that is not in the graph or waits for none.
pub(super) fn query(graph: &mut Graph, message: DefineFlowQueryFunctionResult) -> Result<()> {
    let relation = message.relation.ok_or_else(|| incomplete("DefineFlowQueryFunctionResult.relation"))?;
    #[expect(deprecated, reason = "older clients send the name")]
    let named = message.flow_name;
    let is = |flow: &Flow| match &message.flow_identifier {
        Some(identifier) => {
            flow.name.last() == identifier.table_name
                && (identifier.namespace.is_empty() || flow.name.parts().get(1) == identifier.namespace.last())
        }
        None => named.as_deref().is_some_and(|name| flow.name.to_string() == name || flow.name.last() == name),
    };
    let found = graph.flows.iter_mut().find(|flow| is(flow) && matches!(flow.query, FlowQuery::Awaited { .. }));
    let flow = found.ok_or_else(|| Error::invalid("INVALID_PLAN_INPUT", "no flow of this name waits for its query"))?;
    *flow = Arc::new(Flow { query: FlowQuery::Relation(Box::new(relation)), ..flow.as_ref().clone() });
    Ok(())
}
