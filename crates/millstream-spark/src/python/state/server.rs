//! The state server: answers what the code of a processor in a worker asks about its state, over a connection of its own.
//!
//! A request is a version, a length and a message; an answer is a length and a message. Rows travel as pickles.

use std::collections::{HashMap, VecDeque};
use std::io;

use arrow::datatypes::{Fields, Schema};
use millstream_core::{Error, Result};
use millstream_engine::stateful::arbitrary::{GroupKey, ProcessorState, Rows, StateVariable, TimeMode, VariableKind, duplicate};
use prost::Message;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

use super::messages::{
    ABSENT, Answer, DONE, Declaration, EntriesAnswer, ExpiredRequest, FAILED, GroupingKey, HandleState, Iteration, ListCall, ListMethod,
    ListRows, LongAnswer, MapCall, MapEntry, MapMethod, Processor, Request, RowsAnswer, StateRequest, TextAnswer, Time, TimerCall,
    TimerInfo, TimerMethod, TimerQuestion, TimersAnswer, Util, ValueCall, ValueMethod, Variable,
};
use super::rows::{pickled, unpickled};
use crate::types::{parse_schema, schema_from_json, schema_to_json};

/// The longest request that is believed, bytes.
const LONGEST: i32 = 1 << 30;

/// Whose questions are answered.
pub(super) enum Asker<'a> {
    /// The processor before the query runs, which only declares its variables.
    Driver(&'a mut Vec<StateVariable>),
    /// The processor in a batch.
    Task(&'a mut ProcessorState),
}

/// What is remembered between the requests of one connection.
pub(super) struct StateServer<'a> {
    asker: Asker<'a>,
    time_mode: TimeMode,
    /// The columns of grouping keys, under the user's names.
    key_fields: Fields,
    /// The grouping key that is handled.
    key: Option<GroupKey>,
    handle: HandleState,
    /// The most rows of one answer.
    most_rows: usize,
    /// What iterators have yet to give.
    rows: HashMap<String, VecDeque<Vec<u8>>>,
    entries: HashMap<String, VecDeque<MapEntry>>,
    timers: HashMap<String, VecDeque<TimerInfo>>,
}

impl<'a> StateServer<'a> {
    /// A server for one connection.
    pub(super) fn new(asker: Asker<'a>, time_mode: TimeMode, key_fields: Fields, most_rows: usize) -> Self {
        let handle = if matches!(asker, Asker::Driver(_)) { HandleState::PreInit } else { HandleState::Created };
        StateServer {
            asker,
            time_mode,
            key_fields,
            key: None,
            handle,
            most_rows: most_rows.max(1),
            rows: HashMap::new(),
            entries: HashMap::new(),
            timers: HashMap::new(),
        }
    }

    /// Answers until the other side closes the connection.
    ///
    /// # Errors
    /// Those of the connection. What goes wrong with a request is told to who asked.
    pub(super) async fn serve(&mut self, stream: &mut (impl AsyncRead + AsyncWrite + Unpin)) -> io::Result<()> {
        loop {
            match stream.read_i32().await {
                Ok(0) => {}
                Ok(version) => return Err(io::Error::new(io::ErrorKind::InvalidData, format!("a request of version {version}"))),
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(()),
                Err(error) => return Err(error),
            }
            let length = stream.read_i32().await?;
            let length = u64::try_from(length).ok().filter(|_| length <= LONGEST).ok_or(io::ErrorKind::InvalidData)?;
            let mut request = Vec::new();
            if stream.take(length).read_to_end(&mut request).await? as u64 != length {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            let answer = StateRequest::decode(request.as_slice())
                .map_err(|error| Error::internal("a request to the state server cannot be decoded").caused_by(error))
                .and_then(|request| self.answer(request))
                // The code and the words of the error are what the user sees.
                .unwrap_or_else(|error| Answer { status: FAILED, error: told(&error), value: Vec::new() }.encode_to_vec());
            stream.write_i32(i32::try_from(answer.len()).map_err(io::Error::other)?).await?;
            stream.write_all(&answer).await?;
            stream.flush().await?;
        }
    }

    fn answer(&mut self, request: StateRequest) -> Result<Vec<u8>> {
        match request.method.ok_or_else(empty)? {
            Request::Processor(call) => self.processor(call.method.ok_or_else(empty)?),
            Request::Variable(request) => match request.method.ok_or_else(empty)? {
                Variable::Value(call) => self.value(call),
                Variable::List(call) => self.list(call),
                Variable::Map(call) => self.map(call),
            },
            Request::GroupingKey(request) => self.grouping_key(request.method.ok_or_else(empty)?),
            Request::Timer(request) => match request.method.ok_or_else(empty)? {
                TimerQuestion::Time(request) => self.time(request.method.ok_or_else(empty)?),
                TimerQuestion::Expired(request) => self.expired(request),
            },
            Request::Utils(request) => {
                let Util::ParseSchema(schema) = request.method.ok_or_else(empty)?;
                let value = schema_to_json(&parse_schema(&schema.text)?);
                Ok(TextAnswer { status: DONE, error: String::new(), value }.encode_to_vec())
            }
        }
    }

    fn processor(&mut self, call: Processor) -> Result<Vec<u8>> {
        match call {
            Processor::SetHandleState(state) => {
                self.handle = state.state();
                Ok(done())
            }
            Processor::GetValueState(declared) => {
                let fields = schema(&declared.schema)?;
                self.declare("get_value_state", &declared, VariableKind::Value(fields))
            }
            Processor::GetListState(declared) => {
                let fields = schema(&declared.schema)?;
                self.declare("get_list_state", &declared, VariableKind::List(fields))
            }
            Processor::GetMapState(declared) => {
                let (key, value) = (schema(&declared.schema)?, schema(&declared.map_value_schema)?);
                self.declare("get_map_state", &declared, VariableKind::Map { key, value })
            }
            Processor::Timer(call) => self.timer(call),
            Processor::DeleteIfExists(declared) => {
                self.before_data("delete_if_exists")?;
                match &mut self.asker {
                    Asker::Driver(variables) => variables.retain(|known| known.name != declared.name),
                    Asker::Task(state) => drop(state.purge(&declared.name)?),
                }
                Ok(done())
            }
        }
    }

    fn declare(&mut self, operation: &str, declared: &Declaration, kind: VariableKind) -> Result<Vec<u8>> {
        self.before_data(operation)?;
        let ttl_ms = declared.ttl.map(|ttl| ttl.duration_ms);
        let variable = StateVariable { name: declared.name.clone(), kind, ttl_ms };
        match &mut self.asker {
            Asker::Driver(variables) => {
                variable.check(self.time_mode)?;
                if variables.iter().any(|known| known.name == variable.name) {
                    return Err(duplicate(&variable.name));
                }
                variables.push(variable);
            }
            Asker::Task(state) => drop(state.declare(variable)?),
        }
        Ok(done())
    }

    /// Variables are declared and deleted in `init` only.
    fn before_data(&self, operation: &str) -> Result<()> {
        if self.handle <= HandleState::Created { Ok(()) } else { Err(self.invalid_now(operation)) }
    }

    fn invalid_now(&self, operation: &str) -> Error {
        Error::invalid(
            "STATEFUL_PROCESSOR_CANNOT_PERFORM_OPERATION_WITH_INVALID_HANDLE_STATE",
            format!("Failed to perform stateful processor operation={operation} with invalid handle state={:?}.", self.handle),
        )
        .with_sqlstate("42802")
    }

    fn timer(&mut self, call: TimerCall) -> Result<Vec<u8>> {
        let call = call.method.ok_or_else(empty)?;
        let operation = match &call {
            TimerMethod::Register(_) => "register_timer",
            TimerMethod::Delete(_) => "delete_timer",
            TimerMethod::List(_) => "list_timers",
        };
        if self.time_mode == TimeMode::None {
            return Err(Error::invalid(
                "STATEFUL_PROCESSOR_CANNOT_PERFORM_OPERATION_WITH_INVALID_TIME_MODE",
                format!("Failed to perform stateful processor operation={operation} with invalid timeMode=None."),
            )
            .with_sqlstate("42802"));
        }
        if !(HandleState::Initialized..HandleState::TimerProcessed).contains(&self.handle) {
            return Err(self.invalid_now(operation));
        }
        let (state, key) = keyed(&mut self.asker, self.key.as_ref())?;
        match call {
            TimerMethod::Register(at) => state.register_timer(&key, at.ms)?,
            TimerMethod::Delete(at) => state.delete_timer(&key, at.ms)?,
            TimerMethod::List(iteration) => {
                let timers = state.timers(&key)?;
                let (most, known) = (self.most_rows, &mut self.timers);
                let timers = || timers.iter().map(|ms| TimerInfo { key: None, ms: *ms }).collect();
                let (status, timers, more) = next(known, iteration.id, most, || Ok(timers()))?;
                return Ok(TimersAnswer { status, error: String::new(), timers, more }.encode_to_vec());
            }
        }
        Ok(done())
    }

    fn expired(&mut self, request: ExpiredRequest) -> Result<Vec<u8>> {
        let (most, known, fields) = (self.most_rows, &mut self.timers, &self.key_fields);
        let Asker::Task(state) = &mut self.asker else { return Err(no_state()) };
        let all = || {
            let due = state.due_timers()?;
            let columns = state.key_columns(due.iter().map(|(key, _)| key))?;
            let key = |row: usize| pickled(fields, &columns, row).map(Some);
            due.iter().enumerate().map(|(row, (_, ms))| Ok(TimerInfo { key: key(row)?, ms: *ms })).collect()
        };
        let (status, timers, more) = next(known, request.id, most, all)?;
        Ok(TimersAnswer { status, error: String::new(), timers, more }.encode_to_vec())
    }

    fn time(&mut self, time: Time) -> Result<Vec<u8>> {
        let Asker::Task(state) = &self.asker else { return Err(no_state()) };
        let value = match time {
            Time::Processing(_) => state.processing_time_ms(),
            Time::Watermark(_) => state.watermark_ms(),
        };
        Ok(LongAnswer { status: DONE, error: String::new(), value }.encode_to_vec())
    }

    fn grouping_key(&mut self, method: GroupingKey) -> Result<Vec<u8>> {
        let Asker::Task(state) = &self.asker else { return Err(no_state()) };
        self.key = match method {
            GroupingKey::Set(key) => Some(state.key(&unpickled(&self.key_fields, &[key.bytes])?.columns)?),
            GroupingKey::Remove(_) => None,
        };
        Ok(done())
    }

    fn variable(state: &ProcessorState, name: &str) -> Result<(usize, VariableKind)> {
        let number = state.variable(name);
        number
            .and_then(|number| Some((number, state.kind(number)?.clone())))
            .ok_or_else(|| Error::internal(format!("no state variable '{name}'")))
    }

    fn value(&mut self, call: ValueCall) -> Result<Vec<u8>> {
        let (state, key) = keyed(&mut self.asker, self.key.as_ref())?;
        let (variable, VariableKind::Value(fields)) = Self::variable(state, &call.name)? else { return Err(other_kind(&call.name)) };
        match call.method.ok_or_else(empty)? {
            ValueMethod::Exists(_) => {
                let exists = state.value(variable, &key)?.is_some();
                Ok(if exists { done() } else { absent() })
            }
            ValueMethod::Get(_) => match state.value(variable, &key)? {
                Some(columns) => row(pickled(&fields, &columns, 0)?),
                None => Ok(done()),
            },
            ValueMethod::Update(value) => {
                state.set_value(variable, &key, &unpickled(&fields, &[value.bytes])?.columns)?;
                Ok(done())
            }
            ValueMethod::Clear(_) => {
                state.clear_value(variable, &key)?;
                Ok(done())
            }
        }
    }

    fn list(&mut self, call: ListCall) -> Result<Vec<u8>> {
        let most = self.most_rows;
        let (state, key) = keyed(&mut self.asker, self.key.as_ref())?;
        let (variable, VariableKind::List(fields)) = Self::variable(state, &call.name)? else { return Err(other_kind(&call.name)) };
        match call.method.ok_or_else(empty)? {
            ListMethod::Exists(_) => {
                let exists = state.list(variable, &key)?.count > 0;
                Ok(if exists { done() } else { absent() })
            }
            ListMethod::Get(iteration) => {
                let rows = state.list(variable, &key)?;
                rows_of(&mut self.rows, iteration, most, &fields, &rows)
            }
            ListMethod::Put(rows) => {
                state.replace(variable, &key, &sent_rows(&fields, &rows)?)?;
                Ok(done())
            }
            ListMethod::AppendValue(value) => {
                state.append(variable, &key, &unpickled(&fields, &[value.bytes])?)?;
                Ok(done())
            }
            ListMethod::AppendList(rows) => {
                state.append(variable, &key, &sent_rows(&fields, &rows)?)?;
                Ok(done())
            }
            ListMethod::Clear(_) => {
                state.clear_list(variable, &key)?;
                Ok(done())
            }
        }
    }

    fn map(&mut self, call: MapCall) -> Result<Vec<u8>> {
        let most = self.most_rows;
        let (state, key) = keyed(&mut self.asker, self.key.as_ref())?;
        let (variable, VariableKind::Map { key: key_fields, value: value_fields }) = Self::variable(state, &call.name)? else {
            return Err(other_kind(&call.name));
        };
        let user_key = |bytes: Vec<u8>| unpickled(&key_fields, &[bytes]).map(|rows| rows.columns);
        match call.method.ok_or_else(empty)? {
            MapMethod::Exists(_) => {
                let exists = state.map_entries(variable, &key)?.0.count > 0;
                Ok(if exists { done() } else { absent() })
            }
            MapMethod::Get(user) => match state.map_value(variable, &key, &user_key(user.bytes)?)? {
                Some(columns) => row(pickled(&value_fields, &columns, 0)?),
                None => Ok(done()),
            },
            MapMethod::ContainsKey(user) => {
                let found = state.map_value(variable, &key, &user_key(user.bytes)?)?.is_some();
                Ok(if found { done() } else { absent() })
            }
            MapMethod::Update(entry) => {
                let value = unpickled(&value_fields, &[entry.value])?;
                state.set_map_value(variable, &key, &user_key(entry.key)?, &value.columns)?;
                Ok(done())
            }
            MapMethod::Entries(iteration) => {
                let (keys, values) = state.map_entries(variable, &key)?;
                let entry = |row: usize| {
                    let (key, value) = (pickled(&key_fields, &keys.columns, row)?, pickled(&value_fields, &values.columns, row)?);
                    Ok(MapEntry { key, value })
                };
                let (status, entries, more) = next(&mut self.entries, iteration.id, most, || (0..keys.count).map(entry).collect())?;
                Ok(EntriesAnswer { status, error: String::new(), entries, more }.encode_to_vec())
            }
            MapMethod::Keys(iteration) => {
                let (keys, _) = state.map_entries(variable, &key)?;
                rows_of(&mut self.rows, iteration, most, &key_fields, &keys)
            }
            MapMethod::Values(iteration) => {
                let (_, values) = state.map_entries(variable, &key)?;
                rows_of(&mut self.rows, iteration, most, &value_fields, &values)
            }
            MapMethod::Remove(user) => {
                state.remove_map_value(variable, &key, &user_key(user.bytes)?)?;
                Ok(done())
            }
            MapMethod::Clear(_) => {
                state.clear_map(variable, &key)?;
                Ok(done())
            }
        }
    }
}

/// The state and the grouping key that is handled.
fn keyed<'s>(asker: &'s mut Asker<'_>, key: Option<&GroupKey>) -> Result<(&'s mut ProcessorState, GroupKey)> {
    let Asker::Task(state) = asker else { return Err(no_state()) };
    let key = key.cloned().ok_or_else(|| {
        Error::invalid("INTERNAL_ERROR_TWS", "Implicit key not found in state store: no grouping key is handled").with_sqlstate("XXKST")
    })?;
    Ok((state, key))
}

/// The next pieces of an iterator, whether there are any, and whether more follow.
fn next<T>(
    known: &mut HashMap<String, VecDeque<T>>,
    id: String,
    most: usize,
    all: impl FnOnce() -> Result<VecDeque<T>>,
) -> Result<(i32, Vec<T>, bool)> {
    let mut left = match known.remove(&id) {
        Some(left) => left,
        None => all()?,
    };
    let after = left.split_off(most.min(left.len()));
    let more = !after.is_empty();
    if more {
        known.insert(id, after);
    }
    Ok((if left.is_empty() { ABSENT } else { DONE }, left.into(), more))
}

fn rows_of(
    known: &mut HashMap<String, VecDeque<Vec<u8>>>,
    iteration: Iteration,
    most: usize,
    fields: &Fields,
    rows: &Rows,
) -> Result<Vec<u8>> {
    let all = || (0..rows.count).map(|row| pickled(fields, &rows.columns, row)).collect();
    let (status, rows, more) = next(known, iteration.id, most, all)?;
    Ok(RowsAnswer { status, error: String::new(), rows, more }.encode_to_vec())
}

fn sent_rows(fields: &Fields, rows: &ListRows) -> Result<Rows> {
    if rows.with_arrow {
        return Err(Error::internal("rows of a list come as an Arrow stream, which PySpark does not send"));
    }
    unpickled(fields, &rows.rows)
}

fn row(value: Vec<u8>) -> Result<Vec<u8>> {
    Ok(Answer { status: DONE, error: String::new(), value }.encode_to_vec())
}

fn done() -> Vec<u8> {
    Answer { status: DONE, error: String::new(), value: Vec::new() }.encode_to_vec()
}

fn absent() -> Vec<u8> {
    Answer { status: ABSENT, error: String::new(), value: Vec::new() }.encode_to_vec()
}

fn schema(json: &str) -> Result<Fields> {
    schema_from_json(json).map(|schema: Schema| schema.fields)
}

/// An error as the user's Python shows it.
fn told(error: &Error) -> String {
    match error.sqlstate() {
        Some(state) => format!("[{}] {} SQLSTATE: {state}", error.code(), error.message()),
        None => format!("[{}] {}", error.code(), error.message()),
    }
}

fn empty() -> Error {
    Error::internal("a request to the state server asks for nothing that it knows")
}

fn no_state() -> Error {
    Error::invalid("STATEFUL_PROCESSOR_CANNOT_PERFORM_OPERATION_WITH_INVALID_HANDLE_STATE", "there is no state before the query runs")
        .with_sqlstate("42802")
}

fn other_kind(name: &str) -> Error {
    Error::internal(format!("the state variable '{name}' is of another kind"))
}
