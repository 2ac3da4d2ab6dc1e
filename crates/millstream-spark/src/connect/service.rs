//! The twelve calls of Spark Connect.

use std::sync::Arc;

use futures::StreamExt;
use millstream_core::{Error, Result};
use spark_connect_proto as proto;
use spark_connect_proto::UserContext;
use tonic::{Request, Response, Status, Streaming};

use super::errors::{self, Fault};
use super::execute::{self, ResponseStream};
use super::generated::spark_connect_service_server::SparkConnectService;
use super::pipelines::Loading;
use super::planner::Planner;
use super::session::ConnectSession;
use super::sessions::Sessions;
use super::{analyze, config, upload};

/// The service over the sessions of a server.
#[derive(Debug)]
pub(super) struct Service {
    sessions: Arc<Sessions>,
    planner: Planner,
}

impl Service {
    pub(super) fn new(sessions: Arc<Sessions>, planner: Planner) -> Self {
        Service { sessions, planner }
    }

    fn open(&self, user: Option<&UserContext>, session_id: &str, observed: Option<&str>) -> Result<Arc<ConnectSession>, Status> {
        self.sessions.open(user, session_id, observed).map_err(|error| refuse(None, &error))
    }

    fn find(&self, user: Option<&UserContext>, session_id: &str, observed: Option<&str>) -> Result<Arc<ConnectSession>, Status> {
        self.sessions.find(user, session_id, observed).map_err(|error| refuse(None, &error))
    }
}

fn refuse(session: Option<&ConnectSession>, error: &Error) -> Status {
    errors::status(session, &Arc::new(Fault::of(error)))
}

/// Puts the ids of a session into a response.
macro_rules! of_session {
    ($session:expr, $message:expr) => {{
        let mut message = $message;
        message.session_id.clone_from(&$session.key.session_id);
        message.server_side_session_id.clone_from(&$session.server_side_session_id);
        Response::new(message)
    }};
}

#[tonic::async_trait]
impl SparkConnectService for Service {
    type ExecutePlanStream = ResponseStream;
    type ReattachExecuteStream = ResponseStream;

    async fn execute_plan(&self, request: Request<proto::ExecutePlanRequest>) -> Result<Response<ResponseStream>, Status> {
        let request = request.into_inner();
        let observed = request.client_observed_server_side_session_id.as_deref();
        let session = self.open(request.user_context.as_ref(), &request.session_id, observed)?;
        let stream = execute::execute(&session, request, &self.planner).map_err(|error| refuse(Some(&session), &error))?;
        Ok(Response::new(stream))
    }

    async fn analyze_plan(&self, request: Request<proto::AnalyzePlanRequest>) -> Result<Response<proto::AnalyzePlanResponse>, Status> {
        let request = request.into_inner();
        let observed = request.client_observed_server_side_session_id.as_deref();
        let session = self.open(request.user_context.as_ref(), &request.session_id, observed)?;
        let asked = session.clone();
        if let Some(loading) = Loading::of(request.user_context.as_ref()) {
            loading.admit_analysis().map_err(|error| refuse(Some(&session), &error))?;
        }
        let answer = self.planner.run(async move { analyze::answer(&asked, request).await }).await;
        answer.map(|answer| of_session!(session, answer)).map_err(|error| refuse(Some(&session), &error))
    }

    async fn config(&self, request: Request<proto::ConfigRequest>) -> Result<Response<proto::ConfigResponse>, Status> {
        let request = request.into_inner();
        let observed = request.client_observed_server_side_session_id.as_deref();
        let session = self.open(request.user_context.as_ref(), &request.session_id, observed)?;
        let answer = config::answer(&session.confs, &request);
        answer.map(|answer| of_session!(session, answer)).map_err(|error| refuse(Some(&session), &error))
    }

    async fn add_artifacts(
        &self,
        request: Request<Streaming<proto::AddArtifactsRequest>>,
    ) -> Result<Response<proto::AddArtifactsResponse>, Status> {
        let mut requests = request.into_inner();
        let first = requests.message().await?.ok_or_else(|| refuse(None, &errors::incomplete("AddArtifactsRequest")))?;
        let observed = first.client_observed_server_side_session_id.as_deref();
        let session = self.open(first.user_context.as_ref(), &first.session_id, observed)?;
        let rest = requests.map(|request| request.map_err(|status| Error::internal("the client's stream broke").caused_by(status)));
        let answer = upload::add(&session, first, rest).await;
        answer.map(|answer| of_session!(session, answer)).map_err(|error| refuse(Some(&session), &error))
    }

    async fn artifact_status(
        &self,
        request: Request<proto::ArtifactStatusesRequest>,
    ) -> Result<Response<proto::ArtifactStatusesResponse>, Status> {
        let request = request.into_inner();
        let observed = request.client_observed_server_side_session_id.as_deref();
        let session = self.open(request.user_context.as_ref(), &request.session_id, observed)?;
        Ok(of_session!(session, upload::status(&session, &request)))
    }

    async fn interrupt(&self, request: Request<proto::InterruptRequest>) -> Result<Response<proto::InterruptResponse>, Status> {
        let request = request.into_inner();
        let observed = request.client_observed_server_side_session_id.as_deref();
        let session = self.open(request.user_context.as_ref(), &request.session_id, observed)?;
        let interrupted_ids = execute::interrupt(&session, &request).map_err(|error| refuse(Some(&session), &error))?;
        Ok(of_session!(session, proto::InterruptResponse { interrupted_ids, ..Default::default() }))
    }

    async fn reattach_execute(&self, request: Request<proto::ReattachExecuteRequest>) -> Result<Response<ResponseStream>, Status> {
        let request = request.into_inner();
        let observed = request.client_observed_server_side_session_id.as_deref();
        let session = self.find(request.user_context.as_ref(), &request.session_id, observed)?;
        execute::reattach(&session, &request).map(Response::new).map_err(|error| refuse(Some(&session), &error))
    }

    async fn release_execute(
        &self,
        request: Request<proto::ReleaseExecuteRequest>,
    ) -> Result<Response<proto::ReleaseExecuteResponse>, Status> {
        let request = request.into_inner();
        let observed = request.client_observed_server_side_session_id.as_deref();
        let session = self.find(request.user_context.as_ref(), &request.session_id, observed)?;
        let operation_id = execute::release(&session, &request).map_err(|error| refuse(Some(&session), &error))?;
        Ok(of_session!(session, proto::ReleaseExecuteResponse { operation_id, ..Default::default() }))
    }

    async fn release_session(
        &self,
        request: Request<proto::ReleaseSessionRequest>,
    ) -> Result<Response<proto::ReleaseSessionResponse>, Status> {
        let request = request.into_inner();
        let released = self.sessions.release(request.user_context.as_ref(), &request.session_id, request.allow_reconnect).await;
        let server_side_session_id = released.map_err(|error| refuse(None, &error))?.unwrap_or_default();
        Ok(Response::new(proto::ReleaseSessionResponse { session_id: request.session_id, server_side_session_id }))
    }

    async fn fetch_error_details(
        &self,
        request: Request<proto::FetchErrorDetailsRequest>,
    ) -> Result<Response<proto::FetchErrorDetailsResponse>, Status> {
        let request = request.into_inner();
        let observed = request.client_observed_server_side_session_id.as_deref();
        let session = self.find(request.user_context.as_ref(), &request.session_id, observed)?;
        Ok(Response::new(errors::fetch(&session, &request.error_id)))
    }

    async fn clone_session(&self, request: Request<proto::CloneSessionRequest>) -> Result<Response<proto::CloneSessionResponse>, Status> {
        let request = request.into_inner();
        let observed = request.client_observed_server_side_session_id.as_deref();
        let session = self.find(request.user_context.as_ref(), &request.session_id, observed)?;
        let copy = self.sessions.duplicate(&session, request.new_session_id.as_deref()).map_err(|error| refuse(Some(&session), &error))?;
        let answer = proto::CloneSessionResponse {
            new_session_id: copy.key.session_id.clone(),
            new_server_side_session_id: copy.server_side_session_id.clone(),
            ..Default::default()
        };
        Ok(of_session!(session, answer))
    }

    async fn get_status(&self, request: Request<proto::GetStatusRequest>) -> Result<Response<proto::GetStatusResponse>, Status> {
        let request = request.into_inner();
        let observed = request.client_observed_server_side_session_id.as_deref();
        let session = self.find(request.user_context.as_ref(), &request.session_id, observed)?;
        Ok(of_session!(session, execute::status(&session, &request)))
    }
}
