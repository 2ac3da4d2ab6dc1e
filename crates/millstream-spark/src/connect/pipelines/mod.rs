//! Declarative pipelines over Connect: a client defines datasets, sinks and flows, then asks for a run.
//!
//! Definitions are kept as they are ([`graph`]). A run resolves the query of every flow over the columns of the others ([`resolve`]), refuses
//! what cannot work ([`validate`]), makes the tables ([`tables`]) and runs the flows in their order ([`run`]), whose states the client is told
//! as they change ([`event`]).

mod cdc;
mod checkpoints;
mod context;
mod define;
mod event;
mod flow;
mod graph;
mod leaves;
mod name;
mod resolve;
mod run;
mod sql;
mod tables;
mod validate;

use std::collections::HashMap;
use std::sync::Arc;

use millstream_core::{Error, Result};
use parking_lot::Mutex;
use spark_connect_proto::execute_plan_response::ResponseType;
use spark_connect_proto::pipeline_command::CommandType;
use spark_connect_proto::pipeline_command_result::{CreateDataflowGraphResult, DefineFlowResult, DefineOutputResult, ResultType};
use spark_connect_proto::{PipelineCommand, PipelineCommandResult, PipelineQueryFunctionExecutionSignal, ResolvedIdentifier};

use super::catalog::{CATALOG, Warehouse};
use super::errors::{incomplete, unsupported};
use super::execute::Answers;
use super::session::ConnectSession;
use graph::{FlowQuery, Graph};
use name::{Identifier, Namespace};
use run::Request;

pub(super) use context::Loading;

/// The graphs of a session.
#[derive(Debug, Default)]
struct Graphs(Mutex<HashMap<String, Graph>>);

impl Graphs {
    fn insert(&self, id: String, graph: Graph) {
        self.0.lock().insert(id, graph);
    }

    /// Does something with a graph.
    fn with<T>(&self, id: Option<&str>, act: impl FnOnce(&mut Graph) -> Result<T>) -> Result<T> {
        let id = id.unwrap_or_default();
        let mut graphs = self.0.lock();
        let graph = graphs.get_mut(id).ok_or_else(|| not_found(id))?;
        act(graph)
    }
}

fn not_found(id: &str) -> Error {
    Error::invalid(
        "DATAFLOW_GRAPH_NOT_FOUND",
        format!("Dataflow graph with id {id} could not be found: it was dropped, or belongs to another session."),
    )
    .with_sqlstate("KD011")
}

/// Does what a command about pipelines says.
///
/// # Errors
/// Those of definitions and runs.
pub(super) async fn run(answers: &Answers, command: PipelineCommand) -> Result<()> {
    let session = &answers.session;
    let graphs = session.part::<Graphs>();
    match command.command_type.ok_or_else(|| incomplete("PipelineCommand"))? {
        CommandType::CreateDataflowGraph(create) => {
            let confs = create.sql_conf.into_iter().collect();
            let defaults = namespace(session, create.default_catalog, create.default_database).await?;
            let id = session.host.ids().next().to_string();
            graphs.insert(id.clone(), Graph::new(defaults, confs));
            let created = CreateDataflowGraphResult { dataflow_graph_id: Some(id) };
            result(answers, ResultType::CreateDataflowGraphResult(created)).await;
        }
        CommandType::DropDataflowGraph(drop) => {
            let id = drop.dataflow_graph_id.unwrap_or_default();
            graphs.0.lock().remove(&id).map(std::mem::drop).ok_or_else(|| not_found(&id))?;
        }
        CommandType::DefineOutput(output) => {
            let id = output.dataflow_graph_id.clone();
            let name = graphs.with(id.as_deref(), |graph| define::output(graph, output))?;
            let resolved_identifier = Some(resolved(&name));
            result(answers, ResultType::DefineOutputResult(DefineOutputResult { resolved_identifier })).await;
        }
        CommandType::DefineFlow(flow) => {
            let id = flow.dataflow_graph_id.clone();
            let name = graphs.with(id.as_deref(), |graph| define::flow(graph, flow))?;
            let resolved_identifier = Some(resolved(&name));
            result(answers, ResultType::DefineFlowResult(DefineFlowResult { resolved_identifier })).await;
        }
        CommandType::DefineSqlGraphElements(elements) => {
            let (path, text) = (elements.sql_file_path.unwrap_or_default(), elements.sql_text.unwrap_or_default());
            graphs.with(elements.dataflow_graph_id.as_deref(), |graph| sql::define(graph, &session.confs, &path, &text))?;
        }
        CommandType::GetQueryFunctionExecutionSignalStream(asked) => {
            let client = asked.client_id;
            let awaited = graphs.with(asked.dataflow_graph_id.as_deref(), |graph| {
                let of_client = |flow: &&Arc<graph::Flow>| matches!(&flow.query, FlowQuery::Awaited { client: known } if *known == client);
                Ok(graph.flows.iter().filter(of_client).map(|flow| flow.name.clone()).collect::<Vec<_>>())
            })?;
            #[expect(deprecated, reason = "older clients read the names")]
            let signal = PipelineQueryFunctionExecutionSignal {
                flow_names: awaited.iter().map(ToString::to_string).collect(),
                flow_identifiers: awaited.iter().map(resolved).collect(),
            };
            answers.send(ResponseType::PipelineQueryFunctionExecutionSignal(signal)).await;
        }
        CommandType::DefineFlowQueryFunctionResult(answer) => {
            graphs.with(answer.dataflow_graph_id.clone().as_deref(), |graph| define::query(graph, answer))?;
        }
        CommandType::StartRun(start) => {
            let graph = graphs.with(start.dataflow_graph_id.as_deref(), |graph| Ok(graph.clone()))?;
            let request = Request {
                refresh: start.refresh_selection,
                full_refresh: start.full_refresh_selection,
                full_refresh_all: start.full_refresh_all.unwrap_or(false),
                dry: start.dry.unwrap_or(false),
                storage: start.storage.unwrap_or_default(),
            };
            run::run(answers, graph, request).await?;
        }
        CommandType::ExecuteOutputFlows(execute) => {
            let mut graph = Graph::new(namespace(session, None, None).await?, Default::default());
            define::output(&mut graph, execute.define_output.ok_or_else(|| incomplete("ExecuteOutputFlows.define_output"))?)?;
            for flow in execute.define_flows {
                define::flow(&mut graph, flow)?;
            }
            let full_refresh_all = execute.full_refresh.unwrap_or(false);
            let request = Request { full_refresh_all, storage: execute.storage.unwrap_or_default(), ..Request::default() };
            run::run(answers, graph, request).await?;
        }
        CommandType::Extension(any) => return Err(unsupported(&format!("the pipeline command {}", any.type_url))),
    }
    Ok(())
}

/// Where names of a graph belong.
async fn namespace(session: &Arc<ConnectSession>, catalog: Option<String>, database: Option<String>) -> Result<Namespace> {
    let given = |text: Option<String>| text.filter(|text| !text.is_empty());
    let catalog = given(catalog).unwrap_or_else(|| CATALOG.to_owned());
    Namespace::check_catalog(&catalog)?;
    let database = given(database).unwrap_or_else(|| session.database());
    Warehouse::open(session.host.as_ref())?.require_database(&database.to_lowercase()).await?;
    // What a definition file asks at once is asked about the same names.
    session.set_database(&database.to_lowercase());
    Ok(Namespace { catalog: CATALOG.to_owned(), database })
}

async fn result(answers: &Answers, result: ResultType) {
    answers.send(ResponseType::PipelineCommandResult(PipelineCommandResult { result_type: Some(result) })).await;
}

fn resolved(name: &Identifier) -> ResolvedIdentifier {
    let (catalog_name, namespace) = match name.parts() {
        [catalog, database, _] => (catalog.clone(), vec![database.clone()]),
        _ => (String::new(), Vec::new()),
    };
    ResolvedIdentifier { catalog_name, namespace, table_name: name.last().to_owned() }
}
