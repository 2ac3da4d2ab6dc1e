//! Errors on the wire: a gRPC status whose details name Spark's class, condition and SQLSTATE, and what a client can fetch by an error's id
//! afterwards.

mod classes;

use std::collections::{HashMap, VecDeque};
use std::error::Error as StdError;
use std::sync::Arc;

use millstream_core::Error;
use parking_lot::Mutex;
use prost::Message;
use prost_types::Any;
use spark_connect_proto::FetchErrorDetailsResponse;
use spark_connect_proto::fetch_error_details_response::{self as details, SparkThrowable};
use tonic::{Code, Status};

use super::session::ConnectSession;
use crate::conditions;

pub(super) use classes::hierarchy;

/// Errors that a session keeps for [`fetch`]; the newest ones.
const KEPT: usize = 128;

/// Characters of a message that fit a status; the whole message is fetched.
const MOST_CHARACTERS: usize = 2_048;

/// An error as a client sees it.
#[derive(Debug)]
pub(super) struct Fault {
    classes: Vec<&'static str>,
    message: String,
    condition: Option<String>,
    sqlstate: Option<String>,
}

impl Fault {
    /// What a client is told of an error.
    pub(super) fn of(error: &Error) -> Self {
        Fault {
            classes: hierarchy(error),
            message: text(error),
            condition: Some(error.code()).filter(|code| conditions::is_condition(code)).map(str::to_owned),
            sqlstate: error.sqlstate().map(str::to_owned),
        }
    }

    fn to_detail(&self) -> details::Error {
        details::Error {
            error_type_hierarchy: self.classes.iter().map(|&class| class.to_owned()).collect(),
            message: self.message.clone(),
            stack_trace: Vec::new(),
            cause_idx: None,
            spark_throwable: self.condition.is_some().then(|| SparkThrowable {
                error_class: self.condition.clone(),
                sql_state: self.sqlstate.clone(),
                ..SparkThrowable::default()
            }),
        }
    }
}

/// An error as Spark words it: its condition in brackets, its message, its causes, its SQLSTATE.
pub(super) fn text(error: &Error) -> String {
    let named = conditions::is_named(error.code());
    let mut text = if named { format!("[{}] ", error.code()) } else { String::new() };
    text.push_str(error.message());
    let mut cause = error.source();
    while let Some(inner) = cause {
        text.push_str(": ");
        match inner.downcast_ref::<Error>() {
            Some(ours) => text.push_str(ours.message()),
            None => text.push_str(&inner.to_string()),
        }
        cause = inner.source();
    }
    if let (Some(sqlstate), true) = (error.sqlstate(), named) {
        text.push_str(&format!(" SQLSTATE: {sqlstate}"));
    }
    text
}

/// The errors of a session that can be fetched, oldest first.
#[derive(Debug, Default)]
pub(super) struct Kept(Mutex<VecDeque<(String, Arc<Fault>)>>);

impl Kept {
    fn keep(&self, id: String, fault: Arc<Fault>) {
        let mut kept = self.0.lock();
        if kept.len() >= KEPT {
            kept.pop_front();
        }
        kept.push_back((id, fault));
    }

    fn find(&self, id: &str) -> Option<Arc<Fault>> {
        self.0.lock().iter().find(|(known, _)| known == id).map(|(_, fault)| fault.clone())
    }
}

/// `google.rpc.Status`.
#[derive(Clone, PartialEq, Message)]
struct RpcStatus {
    #[prost(int32, tag = "1")]
    code: i32,
    #[prost(string, tag = "2")]
    message: String,
    #[prost(message, repeated, tag = "3")]
    details: Vec<Any>,
}

/// `google.rpc.ErrorInfo`.
#[derive(Clone, PartialEq, Message)]
struct ErrorInfo {
    #[prost(string, tag = "1")]
    reason: String,
    #[prost(string, tag = "2")]
    domain: String,
    #[prost(map = "string, string", tag = "3")]
    metadata: HashMap<String, String>,
}

/// The status of a failed call. With a session its details can be fetched.
pub(super) fn status(session: Option<&ConnectSession>, fault: &Arc<Fault>) -> Status {
    let mut metadata = HashMap::from([
        ("classes".to_owned(), serde_json::json!(fault.classes).to_string()),
        ("messageParameters".to_owned(), "{}".to_owned()),
    ]);
    if let Some(condition) = &fault.condition {
        metadata.insert("errorClass".to_owned(), condition.clone());
        if let Some(sqlstate) = &fault.sqlstate {
            metadata.insert("sqlState".to_owned(), sqlstate.clone());
        }
    }
    if let Some(session) = session {
        let id = session.host.ids().next().to_string();
        metadata.insert("errorId".to_owned(), id.clone());
        session.part::<Kept>().keep(id, fault.clone());
    }
    let info = ErrorInfo {
        reason: fault.classes.first().copied().unwrap_or_default().to_owned(),
        domain: "org.apache.spark".to_owned(),
        metadata,
    };
    let message: String = fault.message.chars().take(MOST_CHARACTERS).collect();
    let rpc = RpcStatus {
        code: Code::Internal.into(),
        message: message.clone(),
        details: vec![Any { type_url: "type.googleapis.com/google.rpc.ErrorInfo".to_owned(), value: info.encode_to_vec() }],
    };
    Status::with_details(Code::Internal, message, rpc.encode_to_vec().into())
}

/// What is known of an error of a session. Nothing is set for one that is not kept any more.
pub(super) fn fetch(session: &ConnectSession, error_id: &str) -> FetchErrorDetailsResponse {
    let fault = session.part::<Kept>().find(error_id);
    FetchErrorDetailsResponse {
        server_side_session_id: session.server_side_session_id.clone(),
        session_id: session.key.session_id.clone(),
        root_error_idx: fault.is_some().then_some(0),
        errors: fault.iter().map(|fault| fault.to_detail()).collect(),
    }
}

/// `INVALID_HANDLE.<what>`: the client names a session or operation that is not what it thinks.
pub(super) fn invalid_handle(what: &str, handle: &str, message: &str) -> Error {
    Error::invalid(format!("INVALID_HANDLE.{what}"), format!("The handle {handle} is invalid. {message}")).with_sqlstate("HY000")
}

/// The plan lacks something that Connect's protocol requires.
pub(super) fn incomplete(what: &str) -> Error {
    Error::invalid(
        "CONNECT_INVALID_PLAN.INVALID_ONE_OF_FIELD_NOT_SET",
        format!("The Spark Connect plan is invalid. This oneOf field in spark.connect.{what} is not set"),
    )
    .with_sqlstate("56K00")
}

/// Spark has it, Millstream does not.
pub(super) fn unsupported(what: &str) -> Error {
    Error::invalid("UNSUPPORTED_FEATURE.NOT_IN_MILLSTREAM", format!("The feature is not supported: {what}")).with_sqlstate("0A000")
}

/// Spark's refusal of what a table cannot do.
pub(super) fn table_operation(table: &str, operation: &str) -> Error {
    let message = format!("The feature is not supported: Table {table} does not support {operation}.");
    Error::invalid("UNSUPPORTED_FEATURE.TABLE_OPERATION", message).with_sqlstate("0A000")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_names_class_condition_and_state() {
        let error = Error::invalid("DIVIDE_BY_ZERO", "Division by zero.").with_sqlstate("22012");
        let status = status(None, &Arc::new(Fault::of(&error)));
        assert_eq!(status.message(), "[DIVIDE_BY_ZERO] Division by zero. SQLSTATE: 22012");
        let rpc = RpcStatus::decode(status.details()).unwrap();
        let info = ErrorInfo::decode(rpc.details[0].value.as_slice()).unwrap();
        assert_eq!(info.reason, "org.apache.spark.SparkArithmeticException");
        assert_eq!(info.metadata["errorClass"], "DIVIDE_BY_ZERO");
        assert_eq!(info.metadata["sqlState"], "22012");
        assert!(info.metadata["classes"].contains("java.lang.ArithmeticException"));
    }
}
