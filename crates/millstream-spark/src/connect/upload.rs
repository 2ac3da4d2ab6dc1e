//! The calls `AddArtifacts` and `ArtifactStatus`: files that clients send, whole or in chunks, each chunk with its CRC.

use std::collections::HashMap;

use futures::{Stream, StreamExt};
use millstream_core::{Error, ErrorKind, Result};
use spark_connect_proto::add_artifacts_request::{ArtifactChunk, Payload};
use spark_connect_proto::add_artifacts_response::ArtifactSummary;
use spark_connect_proto::artifact_statuses_response::ArtifactStatus;
use spark_connect_proto::{AddArtifactsRequest, AddArtifactsResponse, ArtifactStatusesRequest, ArtifactStatusesResponse};

use super::errors::incomplete;
use super::session::ConnectSession;

/// The largest artifact that is taken, bytes.
const MOST_BYTES: usize = 1 << 30;

/// An artifact whose chunks are coming.
#[derive(Debug)]
struct Incoming {
    name: String,
    bytes: Vec<u8>,
    total: usize,
    chunks_left: i64,
    sound: bool,
}

impl Incoming {
    fn add(&mut self, chunk: &ArtifactChunk) -> Result<()> {
        if self.chunks_left <= 0 || self.bytes.len().saturating_add(chunk.data.len()) > self.total {
            return Err(invalid(&self.name, "has more bytes than were announced"));
        }
        self.sound &= is_sound(chunk);
        self.bytes.extend_from_slice(&chunk.data);
        self.chunks_left -= 1;
        Ok(())
    }
}

/// Takes artifacts until the client's stream ends. An artifact with a wrong CRC is not kept, and the answer says so. `first` is what came
/// before the session was known.
///
/// # Errors
/// `INVALID_ARTIFACT`, `INVALID_ARTIFACT_PATH`, `ARTIFACT_ALREADY_EXISTS`, `ARTIFACTS_TOO_LARGE`.
pub(super) async fn add(
    session: &ConnectSession,
    first: AddArtifactsRequest,
    rest: impl Stream<Item = Result<AddArtifactsRequest>>,
) -> Result<AddArtifactsResponse> {
    let mut summaries = Vec::new();
    let mut incoming: Option<Incoming> = None;
    let mut requests = std::pin::pin!(futures::stream::once(async { Ok(first) }).chain(rest));
    while let Some(request) = requests.next().await {
        match request?.payload.ok_or_else(|| incomplete("AddArtifactsRequest"))? {
            Payload::Batch(batch) => {
                for artifact in batch.artifacts {
                    let chunk = artifact.data.unwrap_or_default();
                    let sound = is_sound(&chunk);
                    summaries.push(keep(session, artifact.name, chunk.data.to_vec(), sound)?);
                }
            }
            Payload::BeginChunk(begin) => {
                if let Some(unfinished) = incoming {
                    return Err(invalid(&unfinished.name, "ended before its last chunk"));
                }
                let total = usize::try_from(begin.total_bytes).unwrap_or(usize::MAX);
                if total > MOST_BYTES {
                    return Err(invalid(&begin.name, &format!("has more than {MOST_BYTES} bytes: read large data from files instead")));
                }
                let mut begun = Incoming { name: begin.name, bytes: Vec::new(), total, chunks_left: begin.num_chunks, sound: true };
                begun.add(&begin.initial_chunk.unwrap_or_default())?;
                incoming = finish(session, begun, &mut summaries)?;
            }
            Payload::Chunk(chunk) => {
                let mut begun = incoming.take().ok_or_else(|| invalid("", "comes in a chunk that belongs to none"))?;
                begun.add(&chunk)?;
                incoming = finish(session, begun, &mut summaries)?;
            }
        }
    }
    match incoming {
        Some(unfinished) => Err(invalid(&unfinished.name, "ended before its last chunk")),
        None => Ok(AddArtifactsResponse { artifacts: summaries, ..AddArtifactsResponse::default() }),
    }
}

/// Keeps an artifact when its last chunk is there, otherwise gives it back.
fn finish(session: &ConnectSession, incoming: Incoming, summaries: &mut Vec<ArtifactSummary>) -> Result<Option<Incoming>> {
    if incoming.chunks_left > 0 {
        return Ok(Some(incoming));
    }
    if incoming.bytes.len() != incoming.total {
        return Err(invalid(&incoming.name, "has fewer bytes than were announced"));
    }
    summaries.push(keep(session, incoming.name, incoming.bytes, incoming.sound)?);
    Ok(None)
}

fn keep(session: &ConnectSession, name: String, bytes: Vec<u8>, sound: bool) -> Result<ArtifactSummary> {
    check_name(&name)?;
    if sound {
        // What a hash names never changes; Python modules are not replaced under running functions.
        match session.artifacts.get(&name) {
            Some(known) if name.starts_with("cache/") || *known == *bytes => {}
            Some(_) => {
                let message = format!("The artifact {name} already exists. Please choose a different name for the new artifact.");
                return Err(Error::new(ErrorKind::BadRecord, "ARTIFACT_ALREADY_EXISTS", message).with_sqlstate("42713"));
            }
            None => session.artifacts.put(&name, bytes)?,
        }
    }
    Ok(ArtifactSummary { name, is_crc_successful: sound })
}

fn is_sound(chunk: &ArtifactChunk) -> bool {
    i64::from(crc32fast::hash(&chunk.data)) == chunk.crc
}

/// Names become files of Python workers: they must stay below their folder.
fn check_name(name: &str) -> Result<()> {
    let below = |part: &str| !part.is_empty() && part != "." && part != "..";
    if !name.starts_with('/') && !name.contains('\\') && name.split('/').all(below) {
        return Ok(());
    }
    let message = format!("Artifact with name {name} is invalid. The name must be a relative path and stay below its folder.");
    Err(Error::new(ErrorKind::BadRecord, "INVALID_ARTIFACT_PATH", message).with_sqlstate("22023"))
}

fn invalid(name: &str, what: &str) -> Error {
    Error::invalid("INVALID_ARTIFACT", format!("the artifact '{name}' {what}")).with_sqlstate("22023")
}

/// Which artifacts a session has; the response lacks the ids of the session.
pub(super) fn status(session: &ConnectSession, request: &ArtifactStatusesRequest) -> ArtifactStatusesResponse {
    let status = |name: &String| (name.clone(), ArtifactStatus { exists: session.artifacts.contains(name) });
    let statuses: HashMap<String, ArtifactStatus> = request.names.iter().map(status).collect();
    ArtifactStatusesResponse { statuses, ..ArtifactStatusesResponse::default() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_stay_below_their_folder() {
        for name in ["cache/abc", "pyfiles/a.py", "files/x/y.txt"] {
            check_name(name).unwrap();
        }
        for name in ["../x", "/etc/passwd", "a/../../b", "", "a//b", "a\\..\\b"] {
            assert_eq!(check_name(name).unwrap_err().code(), "INVALID_ARTIFACT_PATH", "{name}");
        }
    }

    #[test]
    fn chunks_must_add_up() {
        let chunk = |text: &'static str| ArtifactChunk { data: text.as_bytes().into(), crc: i64::from(crc32fast::hash(text.as_bytes())) };
        let mut incoming = Incoming { name: "a".into(), bytes: Vec::new(), total: 4, chunks_left: 2, sound: true };
        incoming.add(&chunk("ab")).unwrap();
        incoming.add(&chunk("cd")).unwrap();
        assert!(incoming.sound && incoming.bytes == b"abcd");
        assert!(incoming.add(&chunk("e")).is_err());
        let mut torn = Incoming { name: "a".into(), bytes: Vec::new(), total: 4, chunks_left: 2, sound: true };
        torn.add(&ArtifactChunk { data: b"ab".as_slice().into(), crc: 1 }).unwrap();
        assert!(!torn.sound);
    }
}
