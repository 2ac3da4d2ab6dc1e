//! Generates the server side of Spark Connect. The messages come from `apache-spark-connect-proto`, which has the client side only.

use tonic_build::manual::{Builder, Method, Service};

fn method(name: &str, route: &str, input: &str, output: &str) -> tonic_build::manual::MethodBuilder {
    Method::builder()
        .name(name)
        .route_name(route)
        .input_type(format!("spark_connect_proto::{input}"))
        .output_type(format!("spark_connect_proto::{output}"))
        .codec_path("crate::connect::codec::PlanCodec")
}

fn main() {
    let service = Service::builder()
        .name("SparkConnectService")
        .package("spark.connect")
        .method(method("execute_plan", "ExecutePlan", "ExecutePlanRequest", "ExecutePlanResponse").server_streaming().build())
        .method(method("analyze_plan", "AnalyzePlan", "AnalyzePlanRequest", "AnalyzePlanResponse").build())
        .method(method("config", "Config", "ConfigRequest", "ConfigResponse").build())
        .method(method("add_artifacts", "AddArtifacts", "AddArtifactsRequest", "AddArtifactsResponse").client_streaming().build())
        .method(method("artifact_status", "ArtifactStatus", "ArtifactStatusesRequest", "ArtifactStatusesResponse").build())
        .method(method("interrupt", "Interrupt", "InterruptRequest", "InterruptResponse").build())
        .method(method("reattach_execute", "ReattachExecute", "ReattachExecuteRequest", "ExecutePlanResponse").server_streaming().build())
        .method(method("release_execute", "ReleaseExecute", "ReleaseExecuteRequest", "ReleaseExecuteResponse").build())
        .method(method("release_session", "ReleaseSession", "ReleaseSessionRequest", "ReleaseSessionResponse").build())
        .method(method("fetch_error_details", "FetchErrorDetails", "FetchErrorDetailsRequest", "FetchErrorDetailsResponse").build())
        .method(method("clone_session", "CloneSession", "CloneSessionRequest", "CloneSessionResponse").build())
        .method(method("get_status", "GetStatus", "GetStatusRequest", "GetStatusResponse").build())
        .build();
    Builder::new().build_client(false).build_transport(false).compile(&[service]);
}
