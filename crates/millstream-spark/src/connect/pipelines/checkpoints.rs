//! Where the flows of a pipeline keep their checkpoints: `<storage>/_checkpoints/<table>/<flow>/<refreshes of the table>`.
//!
//! A full refresh gives a table's flows new checkpoints and takes the rows out of the table. The new number is written down first and the
//! refresh counts as open until the rows are gone: a run that is killed in between is followed by one that takes them out again.

use millstream_core::{Error, ErrorKind, Result};
use millstream_engine::query::CheckpointLocation;
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt};
use serde::{Deserialize, Serialize};

use crate::connect::host::Host;

/// The storage of a pipeline.
#[derive(Clone, Debug)]
pub(super) struct Checkpoints {
    place: CheckpointLocation,
}

/// How often a table was refreshed fully.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Refreshes {
    /// The number of refreshes.
    pub(super) number: u64,
    /// Whether the rows from before the last one may still be there.
    pub(super) is_open: bool,
}

impl Checkpoints {
    /// Opens a storage root.
    ///
    /// # Errors
    /// `PIPELINE_STORAGE_ROOT_INVALID` for a root that is no absolute URL.
    pub(super) fn open(host: &dyn Host, root: &str) -> Result<Self> {
        let invalid = || {
            let message =
                format!("The pipeline storage root must be an absolute path with a URI scheme (e.g., file://, s3a://): got '{root}'.");
            Error::invalid("PIPELINE_STORAGE_ROOT_INVALID", message).with_sqlstate("42K03")
        };
        let url = url::Url::parse(root).map_err(|_| invalid())?;
        if !url.path().starts_with('/') {
            return Err(invalid());
        }
        Ok(Checkpoints { place: host.open(root)? })
    }

    fn store(&self) -> &dyn ObjectStore {
        self.place.store.as_ref()
    }

    fn record(&self, table: &str) -> Path {
        self.place.root.clone().join("_checkpoints").join(encoded(table)).join("refreshes.json")
    }

    /// The refreshes of a table.
    ///
    /// # Errors
    /// `STORE_UNAVAILABLE`.
    pub(super) async fn refreshes(&self, table: &str) -> Result<Refreshes> {
        let unavailable = |error: object_store::Error| self.unavailable("read", error);
        match self.store().get(&self.record(table)).await {
            Ok(found) => {
                let bytes = found.bytes().await.map_err(unavailable)?;
                serde_json::from_slice(&bytes)
                    .map_err(|error| Error::internal(format!("the record of the refreshes of '{table}' is damaged")).caused_by(error))
            }
            Err(object_store::Error::NotFound { .. }) => Ok(Refreshes::default()),
            Err(error) => Err(unavailable(error)),
        }
    }

    /// Writes the refreshes of a table down.
    ///
    /// # Errors
    /// `STORE_UNAVAILABLE`.
    pub(super) async fn set_refreshes(&self, table: &str, refreshes: Refreshes) -> Result<()> {
        let bytes = serde_json::to_vec(&refreshes).map_err(|error| Error::internal("a record does not serialise").caused_by(error))?;
        self.store().put(&self.record(table), bytes.into()).await.map(drop).map_err(|error| self.unavailable("write", error))
    }

    fn unavailable(&self, what: &str, error: object_store::Error) -> Error {
        let message = format!("cannot {what} below the pipeline's storage {}", self.place.url);
        Error::new(ErrorKind::StoreUnavailable, "STORE_UNAVAILABLE", message).caused_by(error)
    }

    /// The URL of the checkpoint of a flow into a table that was refreshed so often.
    pub(super) fn of_flow(&self, table: &str, flow: &str, refreshes: u64) -> String {
        let root = self.place.url.as_str().trim_end_matches('/');
        format!("{root}/_checkpoints/{}/{}/{refreshes}", encoded(table), encoded(flow))
    }
}

/// A name as one part of a path.
fn encoded(name: &str) -> String {
    let mut out = String::with_capacity(name.len());
    for c in name.chars() {
        if c.is_alphanumeric() || "._-".contains(c) {
            out.push(c);
        } else {
            out.push_str(&format!("={:x}=", u32::from(c)));
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::connect::TestHost;

    #[tokio::test]
    async fn refreshes_are_remembered() {
        let host = TestHost::default();
        let directory = host.temporary_directory("pipelines").unwrap();
        let root = format!("file://{}", directory.path().display());
        let checkpoints = Checkpoints::open(&host, &root).unwrap();
        assert_eq!(checkpoints.refreshes("a.b.t").await.unwrap(), Refreshes::default());
        let open = Refreshes { number: 1, is_open: true };
        checkpoints.set_refreshes("a.b.t", open).await.unwrap();
        assert_eq!(checkpoints.refreshes("a.b.t").await.unwrap(), open);
        assert_eq!(checkpoints.of_flow("a.b.t", "my flow/x", 1), format!("{root}/_checkpoints/a.b.t/my=20=flow=2f=x/1"));
    }

    #[test]
    fn roots_are_absolute_and_have_a_scheme() {
        let host = TestHost::default();
        for root in ["storage", "/storage", ""] {
            assert_eq!(Checkpoints::open(&host, root).unwrap_err().code(), "PIPELINE_STORAGE_ROOT_INVALID", "{root}");
        }
    }
}
