//! Finding out, before anything depends on it, whether a store lets exactly one writer create an object.

use futures::future::join_all;
use millstream_core::{Error, Ids, Result};
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt, PutMode};

use super::failure::to_error;

/// Writers that race for one object.
const RACERS: usize = 4;

/// Checks that `store` keeps the promise on which every log stands: of several creates of one object one wins. Some S3-compatible stores
/// ignore the condition, some shims ask first and write then. Call it once at start; it writes and removes two small objects below `prefix`.
///
/// # Errors
/// `STORE_WITHOUT_CONDITIONAL_CREATE` if a second create succeeds, alone or in a race; `STORE_WITHOUT_HARD_LINKS` on a file system that
/// cannot create exactly once; those of [`to_error`] if the store cannot be written at all.
pub async fn probe(store: &dyn ObjectStore, prefix: &Path, ids: &dyn Ids) -> Result<()> {
    let id = ids.next().simple();
    let (again, race) = (prefix.clone().join(format!(".millstream-probe-{id}")), prefix.clone().join(format!(".millstream-race-{id}")));
    let outcome = check(store, &again, &race).await;
    for location in [&again, &race] {
        // Left over, it is a hidden object of a few bytes.
        let _ = store.delete(location).await;
    }
    outcome
}

async fn check(store: &dyn ObjectStore, again: &Path, race: &Path) -> Result<()> {
    let cannot = |error| to_error(format!("cannot create an object in {store}"), error);
    match create(store, again, 0).await {
        Err(object_store::Error::NotImplemented { .. }) => {
            return Err(refuse(store, "conditional creates are not implemented or turned off"));
        }
        outcome => outcome.map_err(cannot)?,
    }
    match create(store, again, 1).await {
        Err(object_store::Error::AlreadyExists { .. } | object_store::Error::Precondition { .. }) => {}
        Err(error) => return Err(cannot(error)),
        Ok(()) => return Err(refuse(store, "a second create of one object succeeded")),
    }
    let mut winners = 0;
    for outcome in join_all((0..RACERS).map(|racer| create(store, race, racer))).await {
        match outcome {
            Ok(()) => winners += 1,
            Err(object_store::Error::AlreadyExists { .. } | object_store::Error::Precondition { .. }) => {}
            Err(error) => return Err(cannot(error)),
        }
    }
    match winners {
        1 => Ok(()),
        winners => Err(refuse(store, &format!("{winners} of {RACERS} concurrent creates of one object succeeded"))),
    }
}

async fn create(store: &dyn ObjectStore, location: &Path, writer: usize) -> object_store::Result<()> {
    // Different bytes, so that reading back tells the writers apart.
    store.put_opts(location, format!("writer {writer}").into(), PutMode::Create.into()).await.map(drop)
}

fn refuse(store: &dyn ObjectStore, what: &str) -> Error {
    Error::invalid(
        "STORE_WITHOUT_CONDITIONAL_CREATE",
        format!("{store} cannot hold a checkpoint or a table with several writers: {what}; use a store that honours If-None-Match on PUT"),
    )
}

#[cfg(test)]
mod tests;
