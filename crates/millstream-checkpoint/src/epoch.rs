//! Who may write: epochs.
//!
//! Every opening of a checkpoint claims the next number by creating `epoch/<k>` if absent. Whoever finds a higher number than its own is
//! fenced: it stops, whatever it believes. The order makes this safe:
//!
//! 1. claim, then read the logs, then write;
//! 2. check for a higher epoch before each write, so that a writer that was suspended leaves no trace;
//! 3. check again after it. If there is no higher epoch *after* the write, the write came before any later claim, and so the next writer
//!    reads it. If there is one, the next writer may or may not have read it, and nothing may follow from it.
//!
//! Numbers are claimed without gaps, so that only `epoch/<k+1>` must be looked for: one metadata read, however long the history.

use std::time::Duration;

use millstream_core::{Error, ErrorKind, Result, crash};

use crate::codec::epoch::{self, Claim};
use crate::layout::{Entry, Layout};
use crate::objects::{Created, Found, Objects};

/// Claims that stay, whatever their age: a writer would have to sleep through all of them before it could miss that it is fenced.
const KEPT_CLAIMS: u64 = 1_000;
/// The age below which a claim stays.
const KEPT_FOR: Duration = Duration::from_secs(7 * 24 * 60 * 60);

/// Claims the next epoch, which is above `floor`; `claim_of` makes the claim, given its number and the claim before.
///
/// # Errors
/// Those of the store.
pub(crate) async fn claim(
    objects: &Objects,
    layout: &Layout,
    floor: u64,
    claim_of: impl Fn(u64, Option<&Claim>) -> Claim,
) -> Result<Claim> {
    let mut latest = claims(objects, layout).await?.into_iter().map(|(epoch, _)| epoch).max().unwrap_or(0).max(floor);
    crash::point("epoch.before");
    let claim = loop {
        let previous = match objects.read_record(&layout.epoch(latest), |bytes| epoch::decode(bytes)).await? {
            Found::Record(claim) => Some(claim),
            Found::Nothing | Found::Flawed(..) => None,
        };
        let claim = claim_of(latest + 1, previous.as_ref());
        let bytes = epoch::encode(&claim);
        match objects.create(&layout.epoch(claim.epoch), std::slice::from_ref(&bytes)).await? {
            Created::Ours => break claim,
            Created::Other(_) => latest += 1,
        }
    };
    crash::point("epoch.after");
    Ok(claim)
}

/// Removes claims that nobody can need: all but the newest thousand, where older than a week.
pub(crate) async fn forget(objects: &Objects, layout: &Layout, mine: &Claim, now_ms: i64) -> Result<()> {
    if mine.epoch <= KEPT_CLAIMS {
        return Ok(());
    }
    let old = claims(objects, layout).await?.into_iter().filter(|(epoch, modified_ms)| {
        epoch + KEPT_CLAIMS <= mine.epoch && modified_ms.saturating_add(KEPT_FOR.as_millis() as i64) < now_ms
    });
    objects.delete_all(old.map(|(epoch, _)| layout.epoch(epoch)).collect()).await
}

/// The claims that a listing shows, with the time of each, milliseconds since the epoch.
async fn claims(objects: &Objects, layout: &Layout) -> Result<Vec<(u64, i64)>> {
    let listed = objects.list(&layout.epochs()).await?;
    let claims = listed.iter().filter_map(|object| match Entry::parse(object.location.filename().unwrap_or_default()) {
        Entry::Record(epoch) => Some((epoch, object.last_modified.timestamp_millis())),
        _ => None,
    });
    Ok(claims.collect())
}

/// Fails when somebody claimed a higher epoch.
///
/// # Errors
/// `STALE_EPOCH`, naming the new owner.
pub(crate) async fn check(objects: &Objects, layout: &Layout, mine: &Claim) -> Result<()> {
    let next = layout.epoch(mine.epoch + 1);
    if !objects.exists(&next).await? {
        return Ok(());
    }
    let newer = match objects.read_record(&next, |bytes| epoch::decode(bytes)).await {
        Ok(Found::Record(claim)) => claim.owner,
        _ => "an unknown process".to_owned(),
    };
    Err(Error::new(
        ErrorKind::Fenced,
        "STALE_EPOCH",
        format!(
            "this run ({}, epoch {}) no longer owns the checkpoint: {newer} opened it with epoch {}. Nothing was changed; let one run go on.",
            mine.owner,
            mine.epoch,
            mine.epoch + 1
        ),
    ))
}
