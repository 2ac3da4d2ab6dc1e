//! What a worker asks the state server, and the answers: PySpark's `StateMessage.proto`.

use prost::{Message, Oneof};

/// A request. Calls and what they are about are nested in it.
#[derive(Clone, PartialEq, Message)]
pub(super) struct StateRequest {
    #[prost(int32, tag = "1")]
    pub(super) version: i32,
    #[prost(oneof = "Request", tags = "2, 3, 4, 5, 6")]
    pub(super) method: Option<Request>,
}

#[derive(Clone, PartialEq, Oneof)]
pub(super) enum Request {
    #[prost(message, tag = "2")]
    Processor(ProcessorCall),
    #[prost(message, tag = "3")]
    Variable(VariableRequest),
    #[prost(message, tag = "4")]
    GroupingKey(GroupingKeyRequest),
    #[prost(message, tag = "5")]
    Timer(TimerRequest),
    #[prost(message, tag = "6")]
    Utils(UtilsRequest),
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct ProcessorCall {
    #[prost(oneof = "Processor", tags = "1, 2, 3, 4, 5, 6")]
    pub(super) method: Option<Processor>,
}

#[derive(Clone, PartialEq, Oneof)]
pub(super) enum Processor {
    #[prost(message, tag = "1")]
    SetHandleState(SetHandleState),
    #[prost(message, tag = "2")]
    GetValueState(Declaration),
    #[prost(message, tag = "3")]
    GetListState(Declaration),
    #[prost(message, tag = "4")]
    GetMapState(Declaration),
    #[prost(message, tag = "5")]
    Timer(TimerCall),
    #[prost(message, tag = "6")]
    DeleteIfExists(Declaration),
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct SetHandleState {
    #[prost(enumeration = "HandleState", tag = "1")]
    pub(super) state: i32,
}

/// How far a processor is with its batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, prost::Enumeration)]
#[repr(i32)]
pub(super) enum HandleState {
    PreInit = 0,
    Created = 1,
    Initialized = 2,
    DataProcessed = 3,
    TimerProcessed = 4,
    Closed = 5,
}

/// A state variable: its name and the schemas as JSON.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Declaration {
    #[prost(string, tag = "1")]
    pub(super) name: String,
    /// Of the value, or of a map's keys.
    #[prost(string, tag = "2")]
    pub(super) schema: String,
    #[prost(string, tag = "3")]
    pub(super) map_value_schema: String,
    #[prost(message, optional, tag = "4")]
    pub(super) ttl: Option<Ttl>,
}

#[derive(Clone, Copy, PartialEq, Message)]
pub(super) struct Ttl {
    #[prost(int64, tag = "1")]
    pub(super) duration_ms: i64,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct TimerCall {
    #[prost(oneof = "TimerMethod", tags = "1, 2, 3")]
    pub(super) method: Option<TimerMethod>,
}

#[derive(Clone, PartialEq, Oneof)]
pub(super) enum TimerMethod {
    #[prost(message, tag = "1")]
    Register(Instant),
    #[prost(message, tag = "2")]
    Delete(Instant),
    #[prost(message, tag = "3")]
    List(Iteration),
}

#[derive(Clone, Copy, PartialEq, Message)]
pub(super) struct Instant {
    #[prost(int64, tag = "1")]
    pub(super) ms: i64,
}

/// An iterator that goes on where it was.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Iteration {
    #[prost(string, tag = "1")]
    pub(super) id: String,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct VariableRequest {
    #[prost(oneof = "Variable", tags = "1, 2, 3")]
    pub(super) method: Option<Variable>,
}

#[derive(Clone, PartialEq, Oneof)]
pub(super) enum Variable {
    #[prost(message, tag = "1")]
    Value(ValueCall),
    #[prost(message, tag = "2")]
    List(ListCall),
    #[prost(message, tag = "3")]
    Map(MapCall),
}

#[derive(Clone, Copy, PartialEq, Message)]
pub(super) struct Nothing {}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Bytes {
    #[prost(bytes = "vec", tag = "1")]
    pub(super) bytes: Vec<u8>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct ValueCall {
    #[prost(string, tag = "1")]
    pub(super) name: String,
    #[prost(oneof = "ValueMethod", tags = "2, 3, 4, 5")]
    pub(super) method: Option<ValueMethod>,
}

#[derive(Clone, PartialEq, Oneof)]
pub(super) enum ValueMethod {
    #[prost(message, tag = "2")]
    Exists(Nothing),
    #[prost(message, tag = "3")]
    Get(Nothing),
    #[prost(message, tag = "4")]
    Update(Bytes),
    #[prost(message, tag = "5")]
    Clear(Nothing),
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct ListCall {
    #[prost(string, tag = "1")]
    pub(super) name: String,
    #[prost(oneof = "ListMethod", tags = "2, 3, 4, 5, 6, 7")]
    pub(super) method: Option<ListMethod>,
}

#[derive(Clone, PartialEq, Oneof)]
pub(super) enum ListMethod {
    #[prost(message, tag = "2")]
    Exists(Nothing),
    #[prost(message, tag = "3")]
    Get(Iteration),
    #[prost(message, tag = "4")]
    Put(ListRows),
    #[prost(message, tag = "5")]
    AppendValue(Bytes),
    #[prost(message, tag = "6")]
    AppendList(ListRows),
    #[prost(message, tag = "7")]
    Clear(Nothing),
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct ListRows {
    #[prost(bytes = "vec", repeated, tag = "1")]
    pub(super) rows: Vec<Vec<u8>>,
    /// The rows follow as an Arrow stream. PySpark 4.2 never says so.
    #[prost(bool, tag = "2")]
    pub(super) with_arrow: bool,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct MapCall {
    #[prost(string, tag = "1")]
    pub(super) name: String,
    #[prost(oneof = "MapMethod", tags = "2, 3, 4, 5, 6, 7, 8, 9, 10")]
    pub(super) method: Option<MapMethod>,
}

#[derive(Clone, PartialEq, Oneof)]
pub(super) enum MapMethod {
    #[prost(message, tag = "2")]
    Exists(Nothing),
    #[prost(message, tag = "3")]
    Get(Bytes),
    #[prost(message, tag = "4")]
    ContainsKey(Bytes),
    #[prost(message, tag = "5")]
    Update(MapEntry),
    #[prost(message, tag = "6")]
    Entries(Iteration),
    #[prost(message, tag = "7")]
    Keys(Iteration),
    #[prost(message, tag = "8")]
    Values(Iteration),
    #[prost(message, tag = "9")]
    Remove(Bytes),
    #[prost(message, tag = "10")]
    Clear(Nothing),
}

/// A user's key and its value.
#[derive(Clone, PartialEq, Message)]
pub(super) struct MapEntry {
    #[prost(bytes = "vec", tag = "1")]
    pub(super) key: Vec<u8>,
    #[prost(bytes = "vec", tag = "2")]
    pub(super) value: Vec<u8>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct GroupingKeyRequest {
    #[prost(oneof = "GroupingKey", tags = "1, 2")]
    pub(super) method: Option<GroupingKey>,
}

#[derive(Clone, PartialEq, Oneof)]
pub(super) enum GroupingKey {
    #[prost(message, tag = "1")]
    Set(Bytes),
    #[prost(message, tag = "2")]
    Remove(Nothing),
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct TimerRequest {
    #[prost(oneof = "TimerQuestion", tags = "1, 2")]
    pub(super) method: Option<TimerQuestion>,
}

#[derive(Clone, PartialEq, Oneof)]
pub(super) enum TimerQuestion {
    #[prost(message, tag = "1")]
    Time(TimeRequest),
    #[prost(message, tag = "2")]
    Expired(ExpiredRequest),
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct TimeRequest {
    #[prost(oneof = "Time", tags = "1, 2")]
    pub(super) method: Option<Time>,
}

#[derive(Clone, PartialEq, Oneof)]
pub(super) enum Time {
    #[prost(message, tag = "1")]
    Processing(Nothing),
    #[prost(message, tag = "2")]
    Watermark(Nothing),
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct ExpiredRequest {
    #[prost(string, tag = "1")]
    pub(super) id: String,
    #[prost(int64, tag = "2")]
    pub(super) until_ms: i64,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct UtilsRequest {
    #[prost(oneof = "Util", tags = "1")]
    pub(super) method: Option<Util>,
}

#[derive(Clone, PartialEq, Oneof)]
pub(super) enum Util {
    #[prost(message, tag = "1")]
    ParseSchema(Text),
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Text {
    #[prost(string, tag = "1")]
    pub(super) text: String,
}

/// All went well.
pub(super) const DONE: i32 = 0;
/// It did not; the message says why.
pub(super) const FAILED: i32 = 1;
/// There is no such thing.
pub(super) const ABSENT: i32 = 2;

/// An answer with or without a value.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Answer {
    #[prost(int32, tag = "1")]
    pub(super) status: i32,
    #[prost(string, tag = "2")]
    pub(super) error: String,
    #[prost(bytes = "vec", tag = "3")]
    pub(super) value: Vec<u8>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct LongAnswer {
    #[prost(int32, tag = "1")]
    pub(super) status: i32,
    #[prost(string, tag = "2")]
    pub(super) error: String,
    #[prost(int64, tag = "3")]
    pub(super) value: i64,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct TextAnswer {
    #[prost(int32, tag = "1")]
    pub(super) status: i32,
    #[prost(string, tag = "2")]
    pub(super) error: String,
    #[prost(string, tag = "3")]
    pub(super) value: String,
}

/// Rows of a list, or the keys or values of a map.
#[derive(Clone, PartialEq, Message)]
pub(super) struct RowsAnswer {
    #[prost(int32, tag = "1")]
    pub(super) status: i32,
    #[prost(string, tag = "2")]
    pub(super) error: String,
    #[prost(bytes = "vec", repeated, tag = "3")]
    pub(super) rows: Vec<Vec<u8>>,
    #[prost(bool, tag = "4")]
    pub(super) more: bool,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct EntriesAnswer {
    #[prost(int32, tag = "1")]
    pub(super) status: i32,
    #[prost(string, tag = "2")]
    pub(super) error: String,
    #[prost(message, repeated, tag = "3")]
    pub(super) entries: Vec<MapEntry>,
    #[prost(bool, tag = "4")]
    pub(super) more: bool,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct TimersAnswer {
    #[prost(int32, tag = "1")]
    pub(super) status: i32,
    #[prost(string, tag = "2")]
    pub(super) error: String,
    #[prost(message, repeated, tag = "3")]
    pub(super) timers: Vec<TimerInfo>,
    #[prost(bool, tag = "4")]
    pub(super) more: bool,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct TimerInfo {
    #[prost(bytes = "vec", optional, tag = "1")]
    pub(super) key: Option<Vec<u8>>,
    #[prost(int64, tag = "2")]
    pub(super) ms: i64,
}
