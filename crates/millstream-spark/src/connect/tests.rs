use std::sync::Arc;

use spark_connect_proto as proto;
use spark_connect_proto::analyze_plan_request::{Analyze, SparkVersion};
use spark_connect_proto::analyze_plan_response;
use spark_connect_proto::config_request::operation::OpType as ConfigOp;
use spark_connect_proto::config_request::{Get, Operation, Set};
use spark_connect_proto::execute_plan_request::{RequestOption, request_option};
use spark_connect_proto::execute_plan_response::ResponseType;
use spark_connect_proto::plan::OpType;
use spark_connect_proto::relation::RelType;
use spark_connect_proto::release_execute_request::{Release, ReleaseAll};
use spark_connect_proto::spark_connect_service_client::SparkConnectServiceClient;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tonic::transport::Channel;
use tonic::{Code, Request, Status, Streaming};

use super::streaming::tests::TestHost;
use super::{ServeOptions, serve};

const SESSION: &str = "00112233-4455-6677-8899-aabbccddeeff";
const OPERATION: &str = "10112233-4455-6677-8899-aabbccddeeff";

type Client = SparkConnectServiceClient<Channel>;

/// A server of its own; it stops when the guard is dropped.
async fn server(options: ServeOptions) -> (Client, tokio_util::sync::DropGuard) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let stop = CancellationToken::new();
    tokio::spawn(serve(Arc::new(TestHost::default()), listener, options, stop.clone()));
    (Client::connect(format!("http://{address}")).await.unwrap(), stop.drop_guard())
}

fn relation(rel_type: RelType) -> proto::Relation {
    proto::Relation { common: None, rel_type: Some(rel_type) }
}

fn range(end: i64) -> proto::Relation {
    relation(RelType::Range(proto::Range { start: Some(0), end, step: 1, num_partitions: None }))
}

fn execute(root: proto::Relation, operation: Option<&str>) -> proto::ExecutePlanRequest {
    let reattachable = request_option::RequestOption::ReattachOptions(proto::ReattachOptions { reattachable: operation.is_some() });
    proto::ExecutePlanRequest {
        session_id: SESSION.to_owned(),
        operation_id: operation.map(str::to_owned),
        plan: Some(proto::Plan { op_type: Some(OpType::Root(root)) }),
        request_options: vec![RequestOption { request_option: Some(reattachable) }],
        ..Default::default()
    }
}

/// What is in each response, in words, and its id.
async fn words(mut stream: Streaming<proto::ExecutePlanResponse>) -> Result<Vec<(String, String)>, Status> {
    let mut words = Vec::new();
    while let Some(response) = stream.message().await? {
        let mut parts = Vec::new();
        parts.extend(response.schema.map(|_| "schema".to_owned()));
        parts.extend(response.response_type.map(|response_type| match response_type {
            ResponseType::ArrowBatch(batch) => format!("{} rows", batch.row_count),
            ResponseType::ResultComplete(_) => "complete".to_owned(),
            _ => "other".to_owned(),
        }));
        parts.extend(response.metrics.map(|_| "metrics".to_owned()));
        words.push((parts.join(" + "), response.response_id));
    }
    Ok(words)
}

fn only_words(words: &[(String, String)]) -> Vec<&str> {
    words.iter().map(|(word, _)| word.as_str()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_come_with_their_schema_and_can_be_asked_for_again() {
    let (mut client, _stop) = server(ServeOptions::default()).await;
    let stream = client.execute_plan(execute(range(3), Some(OPERATION))).await.unwrap().into_inner();
    let all = words(stream).await.unwrap();
    assert_eq!(only_words(&all), ["schema + 3 rows", "complete + metrics"]);

    let again = proto::ReattachExecuteRequest {
        session_id: SESSION.to_owned(),
        operation_id: OPERATION.to_owned(),
        last_response_id: Some(all[0].1.clone()),
        ..Default::default()
    };
    let rest = words(client.reattach_execute(again.clone()).await.unwrap().into_inner()).await.unwrap();
    assert_eq!(only_words(&rest), ["complete + metrics"]);

    let release = proto::ReleaseExecuteRequest {
        session_id: SESSION.to_owned(),
        operation_id: OPERATION.to_owned(),
        release: Some(Release::ReleaseAll(ReleaseAll {})),
        ..Default::default()
    };
    let released = client.release_execute(release).await.unwrap().into_inner();
    assert_eq!(released.operation_id.as_deref(), Some(OPERATION));
    let gone = client.reattach_execute(again).await.unwrap_err();
    assert!(gone.message().starts_with("[INVALID_HANDLE.OPERATION_ABANDONED]"), "{gone}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_result_without_rows_has_a_batch() {
    let (mut client, _stop) = server(ServeOptions::default()).await;
    let stream = client.execute_plan(execute(range(0), None)).await.unwrap().into_inner();
    assert_eq!(only_words(&words(stream).await.unwrap()), ["schema + 0 rows", "metrics"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_details_of_an_error_can_be_fetched() {
    let (mut client, _stop) = server(ServeOptions::default()).await;
    let sql = relation(RelType::Sql(proto::Sql { query: "SELECT nope FROM range(1)".to_owned(), ..Default::default() }));
    let stream = client.execute_plan(execute(sql, None)).await.unwrap().into_inner();
    let status = words(stream).await.unwrap_err();
    assert_eq!(status.code(), Code::Internal);
    assert!(status.message().starts_with("[UNRESOLVED_COLUMN"), "{status}");
    // The id is a UUID in the details; the host of these tests counts them.
    let details = String::from_utf8_lossy(status.details()).into_owned();
    let id = details.split("errorId").nth(1).and_then(|rest| rest.find("00000000-").and_then(|start| rest.get(start..start + 36)));
    let fetch = proto::FetchErrorDetailsRequest {
        session_id: SESSION.to_owned(),
        error_id: id.unwrap_or_default().to_owned(),
        ..Default::default()
    };
    let fetched = client.fetch_error_details(fetch).await.unwrap().into_inner();
    let throwable = fetched.errors[0].spark_throwable.as_ref().unwrap();
    assert!(throwable.error_class().starts_with("UNRESOLVED_COLUMN"));
    assert_eq!(throwable.sql_state(), "42703");
    assert_eq!(fetched.errors[0].error_type_hierarchy[0], "org.apache.spark.sql.AnalysisException");
}

fn config(session_id: &str, op_type: ConfigOp) -> proto::ConfigRequest {
    proto::ConfigRequest { session_id: session_id.to_owned(), operation: Some(Operation { op_type: Some(op_type) }), ..Default::default() }
}

#[tokio::test(flavor = "multi_thread")]
async fn sessions_are_kept_cloned_and_closed() {
    let (mut client, _stop) = server(ServeOptions::default()).await;
    let pair = proto::KeyValue { key: "my.key".to_owned(), value: Some("1".to_owned()) };
    let set = client.config(config(SESSION, ConfigOp::Set(Set { pairs: vec![pair], silent: None }))).await.unwrap().into_inner();
    let clone = proto::CloneSessionRequest { session_id: SESSION.to_owned(), ..Default::default() };
    let clone = client.clone_session(clone).await.unwrap().into_inner();
    assert_ne!(clone.new_server_side_session_id, set.server_side_session_id);
    let get = || ConfigOp::Get(Get { keys: vec!["my.key".to_owned()] });
    let copied = client.config(config(&clone.new_session_id, get())).await.unwrap().into_inner();
    assert_eq!(copied.pairs[0].value.as_deref(), Some("1"));

    let observed = proto::ConfigRequest { client_observed_server_side_session_id: Some("another".to_owned()), ..config(SESSION, get()) };
    let changed = client.config(observed).await.unwrap_err();
    assert!(changed.message().starts_with("[INVALID_HANDLE.SESSION_CHANGED]"), "{changed}");

    let release = proto::ReleaseSessionRequest { session_id: SESSION.to_owned(), ..Default::default() };
    client.release_session(release).await.unwrap();
    let closed = client.config(config(SESSION, get())).await.unwrap_err();
    assert!(closed.message().starts_with("[INVALID_HANDLE.SESSION_CLOSED]"), "{closed}");
    let bad = client.config(config("no-uuid", get())).await.unwrap_err();
    assert!(bad.message().starts_with("[INVALID_HANDLE.FORMAT]"), "{bad}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_is_asked_of_every_call() {
    let (mut client, _stop) = server(ServeOptions { token: Some("secret".to_owned()), ..ServeOptions::default() }).await;
    let version = || proto::AnalyzePlanRequest {
        session_id: SESSION.to_owned(),
        analyze: Some(Analyze::SparkVersion(SparkVersion {})),
        ..Default::default()
    };
    assert_eq!(client.analyze_plan(version()).await.unwrap_err().code(), Code::Unauthenticated);
    let mut request = Request::new(version());
    request.metadata_mut().insert("authorization", "Bearer secret".parse().unwrap());
    let answer = client.analyze_plan(request).await.unwrap().into_inner();
    let Some(analyze_plan_response::Result::SparkVersion(version)) = answer.result else { panic!("a version") };
    assert_eq!(version.version, "4.2.0");
}
