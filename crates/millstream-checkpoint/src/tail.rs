//! Reading the end of the logs after a stop of any kind.

use bytes::Bytes;
use millstream_core::Result;
use millstream_core::recovery::{LogTail, resume};
use object_store::path::Path;
use uuid::Uuid;

use crate::checkpoint::{Position, Shared, flawed};
use crate::codec::{Flaw, commits, offsets};
use crate::layout::{Log, hadoop_checksum, torn};
use crate::objects::{Found, Objects};
use crate::state::StateManifest;

/// How often the logs are read when they do not fit together.
const ATTEMPTS: u32 = 3;

pub(crate) async fn read(shared: &Shared) -> Result<LogTail> {
    let mut attempt = 1;
    loop {
        shared.ensure_owner().await?;
        let tail = read_once(shared).await?;
        // The run before may still be in the middle of one last write or clean-up; what it does not explain is a hole.
        if attempt == ATTEMPTS || resume(&tail).is_ok() {
            return Ok(tail);
        }
        attempt += 1;
    }
}

async fn read_once(shared: &Shared) -> Result<LogTail> {
    let latest_commit = newest(shared, Log::Commits, None, |bytes| commits::decode(bytes)).await?;
    let committed = latest_commit.as_ref().map(|(id, _)| *id);
    let latest_offsets = newest(shared, Log::Offsets, committed, |bytes| offsets::decode(bytes)).await?;
    let mut previous_offsets = None;
    if let Some(before) = latest_offsets.as_ref().and_then(|(id, _)| id.checked_sub(1)) {
        let path = shared.layout.record(Log::Offsets, before);
        previous_offsets = shared.record(&path, |bytes| offsets::decode(bytes)).await?.map(|record| (before, record));
    }
    let manifest = latest_commit.as_ref().map(|(id, record)| Ok((*id, StateManifest::of(record)?))).transpose()?;
    let state_base = manifest.and_then(|(id, manifest)| Some(manifest?.oldest_needed(id)));
    *shared.position.lock() = Position { committed, state_base };
    Ok(LogTail { latest_offsets, previous_offsets, latest_commit })
}

/// The newest record of `log`. One that is torn is set aside, unless batch `committed` proves that it was once whole.
async fn newest<T>(
    shared: &Shared,
    log: Log,
    committed: Option<u64>,
    decode: impl Fn(&Bytes) -> Result<T, Flaw>,
) -> Result<Option<(u64, T)>> {
    let mut ids: Vec<u64> = shared.listed(log).await?.into_keys().collect();
    // A listing may lack records, but records are numbered without gaps: what it lacks at the end is found by asking.
    let boundary = shared.boundary.lock().batch;
    let mut next = ids.last().map_or(0, |last| last + 1).max(boundary);
    while shared.objects.exists(&shared.layout.record(log, next)).await? {
        ids.push(next);
        next += 1;
    }
    let mut may_be_torn = true;
    while let Some(id) = ids.pop() {
        let path = shared.layout.record(log, id);
        match shared.objects.read_record(&path, &decode).await? {
            Found::Record(record) => return Ok(Some((id, record))),
            Found::Nothing => {}
            Found::Flawed(Flaw::Torn(what), bytes) if may_be_torn && committed.is_none_or(|committed| committed < id) => {
                may_be_torn = false;
                tracing::warn!(%path, what, "the newest record is torn; it is moved to .torn and counts as not written");
                shared.ensure_owner().await?;
                set_aside(&shared.objects, &path, &bytes, shared.options.ids.next()).await?;
            }
            Found::Flawed(flaw, _) => return Err(flawed(&path, flaw)),
        }
    }
    Ok(None)
}

/// Moves what cannot be read out of the way, where an operator finds it.
pub(crate) async fn set_aside(objects: &Objects, path: &Path, bytes: &Bytes, unique: Uuid) -> Result<()> {
    objects.create(&torn(path, unique), std::slice::from_ref(bytes)).await?;
    objects.delete(path).await?;
    objects.delete(&hadoop_checksum(path)).await
}
