//! What the state server answers, request by request, and how descriptions of schemas survive.

use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array, StringArray};
use arrow::datatypes::{DataType, Field, Fields};
use millstream_engine::stateful::arbitrary::{ProcessorState, StateVariable, TimeMode, VariableKind};
use prost::Message;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::described_schema;
use super::messages::*;
use super::rows::pickled;
use super::server::{Asker, StateServer};

/// The pickle of `(7,)` in protocol 5.
const SEVEN: &[u8] = b"\x80\x05K\x07\x85.";
/// The pickle of `('a',)`.
const A: &[u8] = b"\x80\x05\x8c\x01a\x85.";

fn long(name: &str) -> Fields {
    Fields::from(vec![Field::new(name, DataType::Int64, true)])
}

fn key_fields() -> Fields {
    Fields::from(vec![Field::new("k", DataType::Utf8, true)])
}

const N: &str = r#"{"type":"struct","fields":[{"name":"n","type":"long","nullable":true,"metadata":{}}]}"#;

fn request(method: Request) -> StateRequest {
    StateRequest { version: 0, method: Some(method) }
}

fn processor(method: Processor) -> StateRequest {
    request(Request::Processor(ProcessorCall { method: Some(method) }))
}

fn declared(name: &str, map_value_schema: &str, ttl_ms: Option<i64>) -> Declaration {
    let ttl = ttl_ms.map(|duration_ms| Ttl { duration_ms });
    Declaration { name: name.to_owned(), schema: N.to_owned(), map_value_schema: map_value_schema.to_owned(), ttl }
}

fn value(method: ValueMethod) -> StateRequest {
    let call = ValueCall { name: "count".to_owned(), method: Some(method) };
    request(Request::Variable(VariableRequest { method: Some(Variable::Value(call)) }))
}

fn list(method: ListMethod) -> StateRequest {
    let call = ListCall { name: "seen".to_owned(), method: Some(method) };
    request(Request::Variable(VariableRequest { method: Some(Variable::List(call)) }))
}

fn map(method: MapMethod) -> StateRequest {
    let call = MapCall { name: "per".to_owned(), method: Some(method) };
    request(Request::Variable(VariableRequest { method: Some(Variable::Map(call)) }))
}

fn timer(method: TimerMethod) -> StateRequest {
    processor(Processor::Timer(TimerCall { method: Some(method) }))
}

fn handle(state: HandleState) -> StateRequest {
    processor(Processor::SetHandleState(SetHandleState { state: state.into() }))
}

fn key(bytes: &[u8]) -> StateRequest {
    request(Request::GroupingKey(GroupingKeyRequest { method: Some(GroupingKey::Set(Bytes { bytes: bytes.to_vec() })) }))
}

fn seven() -> Bytes {
    Bytes { bytes: SEVEN.to_vec() }
}

fn iteration(id: &str) -> Iteration {
    Iteration { id: id.to_owned() }
}

/// What a server answers to these requests, as bytes.
async fn answers(mut server: StateServer<'_>, requests: &[StateRequest]) -> Vec<Vec<u8>> {
    let (mut here, mut there) = tokio::io::duplex(1 << 16);
    let ask = async {
        let mut answers = Vec::new();
        for request in requests {
            let bytes = request.encode_to_vec();
            here.write_i32(0).await.unwrap();
            here.write_i32(bytes.len() as i32).await.unwrap();
            here.write_all(&bytes).await.unwrap();
            let mut answer = vec![0; usize::try_from(here.read_i32().await.unwrap()).unwrap()];
            here.read_exact(&mut answer).await.unwrap();
            answers.push(answer);
        }
        drop(here);
        answers
    };
    let (answers, served) = tokio::join!(ask, server.serve(&mut there));
    served.unwrap();
    answers
}

fn told(answer: &[u8]) -> (i32, String, Vec<u8>) {
    let answer = Answer::decode(answer).unwrap();
    (answer.status, answer.error, answer.value)
}

fn state(time_mode: TimeMode) -> ProcessorState {
    let keys = key_fields().iter().cloned().collect();
    let variables =
        [StateVariable::value("count", long("n")), StateVariable::list("seen", long("n")), StateVariable::map("per", long("n"), long("n"))];
    ProcessorState::new(keys, time_mode, &variables).unwrap()
}

/// The pickle that Python gets of a row with `n` = 7.
fn row() -> Vec<u8> {
    let columns: [ArrayRef; 1] = [Arc::new(Int64Array::from(vec![7]))];
    pickled(&long("n"), &columns, 0).unwrap()
}

#[tokio::test]
async fn variables_of_a_key_are_read_and_written() {
    let mut state = state(TimeMode::EventTime);
    let server = StateServer::new(Asker::Task(&mut state), TimeMode::EventTime, key_fields(), 1);
    let requests = [
        processor(Processor::GetValueState(declared("count", "", None))),
        handle(HandleState::Initialized),
        value(ValueMethod::Get(Nothing {})),
        key(A),
        value(ValueMethod::Exists(Nothing {})),
        value(ValueMethod::Update(seven())),
        value(ValueMethod::Exists(Nothing {})),
        value(ValueMethod::Get(Nothing {})),
        value(ValueMethod::Clear(Nothing {})),
        value(ValueMethod::Get(Nothing {})),
        list(ListMethod::Get(iteration("none"))),
        list(ListMethod::AppendValue(seven())),
        list(ListMethod::AppendList(ListRows { rows: vec![SEVEN.to_vec()], with_arrow: false })),
        list(ListMethod::Get(iteration("i"))),
        list(ListMethod::Get(iteration("i"))),
        map(MapMethod::ContainsKey(seven())),
        map(MapMethod::Update(MapEntry { key: SEVEN.to_vec(), value: SEVEN.to_vec() })),
        map(MapMethod::ContainsKey(seven())),
        map(MapMethod::Get(seven())),
        map(MapMethod::Entries(iteration("m"))),
        map(MapMethod::Remove(seven())),
        map(MapMethod::Exists(Nothing {})),
    ];
    let answers = answers(server, &requests).await;
    let plain: Vec<(i32, Vec<u8>)> = answers.iter().map(|answer| told(answer)).map(|(status, _, value)| (status, value)).collect();
    let expected = [DONE, DONE, FAILED, DONE, ABSENT, DONE, DONE, DONE, DONE, DONE, ABSENT, DONE, DONE];
    assert_eq!(plain[..13].iter().map(|(status, _)| *status).collect::<Vec<_>>(), expected);
    assert_eq!((&plain[7].1, &plain[9].1), (&row(), &Vec::new()));
    for (answer, more) in [(&answers[13], true), (&answers[14], false)] {
        assert_eq!(
            RowsAnswer::decode(answer.as_slice()).unwrap(),
            RowsAnswer { status: DONE, error: String::new(), rows: vec![row()], more }
        );
    }
    assert_eq!(plain[15..19].iter().map(|(status, _)| *status).collect::<Vec<_>>(), [ABSENT, DONE, DONE, DONE]);
    assert_eq!(plain[18].1, row());
    let entries = EntriesAnswer::decode(answers[19].as_slice()).unwrap();
    assert_eq!((entries.entries, entries.more), (vec![MapEntry { key: row(), value: row() }], false));
    assert_eq!([plain[20].0, plain[21].0], [DONE, ABSENT]);
}

#[tokio::test]
async fn timers_are_listed_and_fall_due_with_their_keys() {
    let mut state = state(TimeMode::EventTime);
    let server = StateServer::new(Asker::Task(&mut state), TimeMode::EventTime, key_fields(), 10);
    let expired = TimerQuestion::Expired(ExpiredRequest { id: "e".to_owned(), until_ms: 0 });
    let requests = [
        handle(HandleState::Initialized),
        key(A),
        timer(TimerMethod::Register(Instant { ms: -5 })),
        timer(TimerMethod::Register(Instant { ms: 5 })),
        timer(TimerMethod::List(iteration("l"))),
        request(Request::Timer(TimerRequest { method: Some(expired) })),
    ];
    let answers = answers(server, &requests).await;
    let times =
        |answer: &[u8]| TimersAnswer::decode(answer).unwrap().timers.into_iter().map(|timer| (timer.ms, timer.key)).collect::<Vec<_>>();
    assert_eq!(times(&answers[4]), [(-5, None), (5, None)]);
    let columns: [ArrayRef; 1] = [Arc::new(StringArray::from(vec!["a"]))];
    assert_eq!(times(&answers[5]), [(-5, Some(pickled(&key_fields(), &columns, 0).unwrap()))]);
}

#[tokio::test]
async fn what_is_not_allowed_is_told_with_its_condition() {
    let late = processor(Processor::GetValueState(declared("late", "", None)));
    let cases: [(TimeMode, Vec<StateRequest>, &str); 5] = [
        (
            TimeMode::None,
            vec![handle(HandleState::Initialized), key(A), timer(TimerMethod::Register(Instant { ms: 1 }))],
            "[STATEFUL_PROCESSOR_CANNOT_PERFORM_OPERATION_WITH_INVALID_TIME_MODE]",
        ),
        (
            TimeMode::EventTime,
            vec![key(A), timer(TimerMethod::Register(Instant { ms: 1 }))],
            "[STATEFUL_PROCESSOR_CANNOT_PERFORM_OPERATION_WITH_INVALID_HANDLE_STATE]",
        ),
        (
            TimeMode::None,
            vec![handle(HandleState::Initialized), late],
            "[STATEFUL_PROCESSOR_CANNOT_PERFORM_OPERATION_WITH_INVALID_HANDLE_STATE]",
        ),
        (
            TimeMode::ProcessingTime,
            vec![processor(Processor::GetValueState(declared("c", "", Some(-1))))],
            "[STATEFUL_PROCESSOR_TTL_DURATION_MUST_BE_POSITIVE]",
        ),
        (
            TimeMode::None,
            vec![processor(Processor::GetListState(declared("count", "", None)))],
            "[STATE_STORE_INVALID_VARIABLE_TYPE_CHANGE]",
        ),
    ];
    for (time_mode, requests, expected) in cases {
        let mut state = state(time_mode);
        let server = StateServer::new(Asker::Task(&mut state), time_mode, key_fields(), 10);
        let answers = answers(server, &requests).await;
        let (status, error, _) = told(answers.last().unwrap());
        assert!(status == FAILED && error.starts_with(expected), "{expected}: {status} {error}");
    }
}

#[tokio::test]
async fn a_processor_is_asked_for_its_variables_before_it_runs() {
    let mut variables = Vec::new();
    let server = StateServer::new(Asker::Driver(&mut variables), TimeMode::ProcessingTime, key_fields(), 10);
    let requests = [
        processor(Processor::GetValueState(declared("a", "", Some(5)))),
        processor(Processor::GetMapState(declared("b", N, None))),
        processor(Processor::GetValueState(declared("a", "", None))),
        request(Request::Utils(UtilsRequest { method: Some(Util::ParseSchema(Text { text: "n long".to_owned() })) })),
    ];
    let answers = answers(server, &requests).await;
    assert!(told(&answers[2]).1.contains("DUPLICATE"), "{answers:?}");
    assert_eq!(TextAnswer::decode(answers[3].as_slice()).unwrap().value, N);
    let kinds: Vec<&VariableKind> = variables.iter().map(|variable| &variable.kind).collect();
    assert_eq!(kinds, [&VariableKind::Value(long("n")), &VariableKind::Map { key: long("n"), value: long("n") }]);
    assert_eq!(variables[0].ttl_ms, Some(5));
}

#[test]
fn a_schema_reads_the_same_in_lower_case() {
    let fields = [Field::new("aÄ", crate::types::array(DataType::Int64, true), true)];
    let text = described_schema(&fields);
    assert_eq!(text, text.to_lowercase());
    let read: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(read["fields"][0]["name"], "aÄ");
    assert_eq!(read["fields"][0]["type"]["containsNull"], true);
}
