//! Commands: what clients ask to be done instead of asking for rows.

mod checkpoint;
mod registered;
mod sql;
mod view;
mod write;

use std::sync::Arc;

use millstream_core::Result;
use spark_connect_proto::command::CommandType;
use spark_connect_proto::execute_plan_response::ResponseType;
use spark_connect_proto::{Command, GetResourcesCommandResult, StreamingQueryListenerEventsResult};
use tokio::sync::mpsc;

use super::delta;
use super::errors::{incomplete, unsupported};
use super::execute::Answers;
use super::persisted::Persisted;
use super::pipelines::{self, Loading};
use super::statement::change::merge_into;
use super::streaming;

pub(super) use registered::Registered;
pub(super) use view::define;
pub(super) use write::{By, Definition, DeltaMode, Write, clear, create_as, into_table, no_rows, partition_column, replace_as, save};

/// Listener events on their way to the client.
const EVENTS: usize = 64;

/// Does what a command says and sends its answer, if it has one.
///
/// # Errors
/// Those of the command.
pub(super) async fn run(answers: &Answers, command: Command, loading: Option<Loading>) -> Result<()> {
    let session = &answers.session;
    match command.command_type.ok_or_else(|| incomplete("Command"))? {
        CommandType::SqlCommand(command) => {
            let result = sql::run(session, command, loading).await?;
            answers.send(ResponseType::SqlCommandResult(result)).await;
        }
        CommandType::CreateDataframeView(command) => view::create(session, command).await?,
        CommandType::WriteOperation(command) => {
            write::run(session, command).await?;
            session.part::<Persisted>().refresh();
        }
        CommandType::WriteOperationV2(command) => {
            write::run_v2(session, command).await?;
            session.part::<Persisted>().refresh();
        }
        CommandType::WriteStreamOperationStart(command) => {
            let (started, untold) = streaming::start(session, command).await?;
            answers.send(ResponseType::WriteStreamOperationStartResult(started)).await;
            tokio::spawn(untold.told(answers.released(), session.host.clock()));
        }
        CommandType::StreamingQueryCommand(command) => {
            let result = streaming::query_command(session, command).await?;
            answers.send(ResponseType::StreamingQueryCommandResult(result)).await;
        }
        CommandType::StreamingQueryManagerCommand(command) => {
            let result = streaming::manager_command(session, command).await?;
            answers.send(ResponseType::StreamingQueryManagerCommandResult(result)).await;
        }
        CommandType::StreamingQueryListenerBusCommand(command) => {
            let (to, mut events) = mpsc::channel::<StreamingQueryListenerEventsResult>(EVENTS);
            let forward = async {
                while let Some(event) = events.recv().await {
                    answers.send(ResponseType::StreamingQueryListenerEventsResult(event)).await;
                }
            };
            let (outcome, ()) = tokio::join!(streaming::listener_bus(session, command, to), forward);
            outcome?;
        }
        CommandType::CheckpointCommand(command) => {
            let result = checkpoint::run(session, command).await?;
            answers.send(ResponseType::CheckpointCommandResult(result)).await;
        }
        CommandType::RemoveCachedRemoteRelationCommand(command) => {
            session.forget(&command.relation.unwrap_or_default().relation_id);
        }
        CommandType::GetResourcesCommand(_) => {
            answers.send(ResponseType::GetResourcesCommandResult(GetResourcesCommandResult::default())).await;
        }
        CommandType::RegisterFunction(function) => session.part::<Registered>().add_function(function)?,
        CommandType::RegisterTableFunction(function) => session.part::<Registered>().add_table_function(function),
        CommandType::RegisterDataSource(source) => session.part::<Registered>().add_data_source(source),
        CommandType::MergeIntoTableCommand(merge) => {
            merge_into(session, None, merge).await?;
            session.part::<Persisted>().refresh();
        }
        CommandType::CreateResourceProfileCommand(_) => return Err(unsupported("resource profiles: there are no executors")),
        CommandType::MlCommand(_) => return Err(unsupported("machine learning")),
        CommandType::ExecuteExternalCommand(_) => return Err(unsupported("external commands")),
        CommandType::PipelineCommand(command) => pipelines::run(answers, command).await?,
        CommandType::Extension(any) => delta::command(session, &any).await?,
    }
    Ok(())
}

/// The session type that commands take.
type Session = Arc<super::session::ConnectSession>;
