//! The framing between the server and Python workers: big-endian integers, and bytes after their length.

use std::io;

use millstream_core::{Error, ErrorKind, Result};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

/// A failure in the function follows, with its traceback.
pub(super) const EXCEPTION_THROWN: i32 = -2;

/// Times follow.
pub(super) const TIMING_DATA: i32 = -3;

/// The results are complete, accumulators follow.
pub(super) const END_OF_DATA_SECTION: i32 = -1;

/// The conversation is over and the worker can be used again.
pub(super) const END_OF_STREAM: i32 = -4;

/// An Arrow stream follows.
pub(super) const START_ARROW_STREAM: i32 = -6;

/// Writes the pieces of a message.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Message(Vec<u8>);

impl Message {
    /// An integer.
    pub(crate) fn int(&mut self, value: i32) -> &mut Self {
        self.0.extend_from_slice(&value.to_be_bytes());
        self
    }

    /// A long integer.
    pub(crate) fn long(&mut self, value: i64) -> &mut Self {
        self.0.extend_from_slice(&value.to_be_bytes());
        self
    }

    /// A truth value.
    pub(crate) fn bool(&mut self, value: bool) -> &mut Self {
        self.0.push(u8::from(value));
        self
    }

    /// Bytes after their length. More than an integer counts is cut off by the worker, which then fails.
    pub(crate) fn bytes(&mut self, value: &[u8]) -> &mut Self {
        self.int(i32::try_from(value.len()).unwrap_or(i32::MAX));
        self.0.extend_from_slice(value);
        self
    }

    /// A text after its length in bytes.
    pub(crate) fn text(&mut self, value: &str) -> &mut Self {
        self.bytes(value.as_bytes())
    }

    /// The pieces of another message.
    pub(crate) fn append(&mut self, other: &Message) -> &mut Self {
        self.0.extend_from_slice(&other.0);
        self
    }

    /// Sends everything.
    pub(crate) async fn send(&self, to: &mut (impl AsyncWrite + Unpin)) -> io::Result<()> {
        to.write_all(&self.0).await?;
        to.flush().await
    }
}

/// Reads an integer.
pub(super) async fn read_int(from: &mut (impl AsyncRead + Unpin)) -> io::Result<i32> {
    from.read_i32().await
}

/// Reads bytes after their length.
pub(super) async fn read_bytes(from: &mut (impl AsyncRead + Unpin)) -> io::Result<Vec<u8>> {
    let length = from.read_i32().await?;
    read_exactly(from, length).await
}

/// Reads so many bytes, taking memory only as they come.
pub(super) async fn read_exactly(from: &mut (impl AsyncRead + Unpin), length: i32) -> io::Result<Vec<u8>> {
    let wrong = || io::Error::new(io::ErrorKind::InvalidData, format!("a piece of {length} bytes"));
    let length = u64::try_from(length).map_err(|_| wrong())?;
    let mut bytes = Vec::new();
    let read = from.take(length).read_to_end(&mut bytes).await? as u64;
    if read < length { Err(io::ErrorKind::UnexpectedEof.into()) } else { Ok(bytes) }
}

/// Reads a text after its length.
pub(super) async fn read_text(from: &mut (impl AsyncRead + Unpin)) -> io::Result<String> {
    Ok(String::from_utf8_lossy(&read_bytes(from).await?).into_owned())
}

/// The error for a function of a user's that failed, with its traceback.
pub(crate) fn exception(what: &str, traceback: &str) -> Error {
    Error::new(ErrorKind::Invalid, "PYTHON_EXCEPTION", format!("{what}: {traceback}")).with_sqlstate("38000")
}

/// The error for a worker that is gone or says what it should not.
pub(crate) fn broken(error: io::Error, said: &str) -> Error {
    let said = if said.is_empty() { String::new() } else { format!("; its last words: {said}") };
    Error::new(ErrorKind::SinkUnavailable, "PYTHON_WORKER_LOST", format!("a Python worker ended or broke off unexpectedly{said}"))
        .caused_by(error)
}

/// An answer that is 0, or a failure with its traceback.
///
/// # Errors
/// `PYTHON_EXCEPTION` with `what` before the traceback.
pub(crate) async fn read_outcome(from: &mut (impl AsyncRead + Unpin), what: &str) -> Result<Result<()>, io::Error> {
    match read_int(from).await? {
        0 => Ok(Ok(())),
        EXCEPTION_THROWN => Ok(Err(exception(what, &read_text(from).await?))),
        other => Err(io::Error::new(io::ErrorKind::InvalidData, format!("an answer {other}"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn pieces_come_back() {
        let mut message = Message::default();
        message.int(-2).text("é").long(7).bytes(&[1, 2]).bool(true);
        let mut from = message.0.as_slice();
        assert_eq!(read_int(&mut from).await.unwrap(), -2);
        assert_eq!(read_text(&mut from).await.unwrap(), "é");
        assert_eq!(from.read_i64().await.unwrap(), 7);
        assert_eq!(read_bytes(&mut from).await.unwrap(), [1, 2]);
        assert_eq!(from, [1]);
    }

    #[tokio::test]
    async fn a_wrong_length_is_an_error() {
        let mut message = Message::default();
        message.int(-5);
        assert!(read_bytes(&mut message.0.as_slice()).await.is_err());
        let mut message = Message::default();
        message.int(9).int(0);
        assert_eq!(read_bytes(&mut message.0.as_slice()).await.unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
    }

    #[tokio::test]
    async fn a_failure_carries_its_traceback() {
        let mut message = Message::default();
        message.int(EXCEPTION_THROWN).text("ValueError: no");
        let error = read_outcome(&mut message.0.as_slice(), "f").await.unwrap().unwrap_err();
        assert_eq!((error.code(), error.message()), ("PYTHON_EXCEPTION", "f: ValueError: no"));
    }
}
