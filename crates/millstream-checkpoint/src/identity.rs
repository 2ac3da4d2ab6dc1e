//! Which query a checkpoint belongs to, and where it is.

use millstream_core::{Error, ErrorKind, Result, crash};
use url::Url;

use crate::checkpoint::{CheckpointOptions, flawed};
use crate::codec::Flaw;
use crate::codec::metadata::{self, Metadata};
use crate::layout::{Entry, Layout, Log};
use crate::objects::{Created, Found, Objects};
use crate::tail;

/// Reads `metadata`, or creates it in a new checkpoint.
pub(crate) async fn identify(objects: &Objects, layout: &Layout, here: &str, options: &CheckpointOptions) -> Result<Metadata> {
    let path = layout.metadata();
    let mut found = objects.read_record(&path, |bytes| metadata::decode(bytes)).await?;
    let logs = !matches!(found, Found::Record(_)) && has_logs(objects, layout).await?;
    if logs && found == Found::Nothing {
        // Another run may have created the checkpoint, and begun, between the two looks.
        found = objects.read_record(&path, |bytes| metadata::decode(bytes)).await?;
    }
    match found {
        Found::Record(metadata) => return Ok(metadata),
        Found::Flawed(Flaw::Torn(_), bytes) if !logs => tail::set_aside(objects, &path, &bytes, options.ids.next()).await?,
        Found::Flawed(flaw, _) => return Err(flawed(&path, flaw)),
        Found::Nothing if logs => {
            return Err(Error::new(
                ErrorKind::CheckpointIncompatible,
                "STREAMING_CHECKPOINT_MISSING_METADATA_FILE",
                format!(
                    "Checkpoint location {here} is in an inconsistent state: the metadata file is missing but offset and/or commit logs \
                     contain data. Please restore the metadata file or create a new checkpoint directory."
                ),
            )
            .with_sqlstate("42K03"));
        }
        Found::Nothing => {}
    }
    crash::point("metadata.before");
    let new = Metadata { id: options.new_id.unwrap_or_else(|| options.ids.next()), location: Some(here.to_owned()) };
    let created = objects.create(&path, &[metadata::encode(&new)]).await?;
    crash::point("metadata.after");
    match created {
        Created::Ours => Ok(new),
        Created::Other(_) => match objects.read_record(&path, |bytes| metadata::decode(bytes)).await? {
            Found::Record(metadata) => Ok(metadata),
            Found::Flawed(flaw, _) => Err(flawed(&path, flaw)),
            Found::Nothing => Err(Error::internal(format!("{path} appeared and disappeared"))),
        },
    }
}

async fn has_logs(objects: &Objects, layout: &Layout) -> Result<bool> {
    for log in Log::ALL {
        let listed = objects.list(&layout.log(log)).await?;
        let record = |name: Option<&str>| matches!(name.map(Entry::parse), Some(Entry::Record(_)));
        if listed.iter().any(|object| record(object.location.filename())) || objects.exists(&layout.record(log, 0)).await? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// The URL without what may be secret in it.
pub(crate) fn location(url: &Url) -> String {
    let mut plain = url.clone();
    // Both fail only for URLs that cannot have a user.
    let _ = plain.set_username("");
    let _ = plain.set_password(None);
    plain.set_query(None);
    plain.set_fragment(None);
    plain.as_str().trim_end_matches('/').to_owned()
}
