//! Where the tables, checkpoints and records of a pipeline are.

use std::collections::BTreeSet;

use futures::TryStreamExt;
use millstream_core::{Error, ErrorKind, Result};
use millstream_engine::query::CheckpointLocation;
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt, PutMode, PutOptions};

use crate::pipelines::graph::{LATE, QUARANTINE};
use crate::pipelines::name::TableName;

/// The storage root of a pipeline.
#[derive(Clone, Debug)]
pub struct Place {
    root: CheckpointLocation,
}

/// The folder of a table or flow: the name as shown, in lower case; other characters than letters, digits, `_`, `-` and `.` become `+` and
/// their bytes in hexadecimal digits.
pub fn directory(name: &TableName) -> String {
    let mut folder = String::new();
    for byte in name.to_string().to_lowercase().bytes() {
        match byte {
            b'a'..=b'z' | b'0'..=b'9' | b'_' | b'-' | b'.' => folder.push(char::from(byte)),
            other => folder.push_str(&format!("+{other:02x}")),
        }
    }
    folder
}

impl Place {
    pub(super) fn new(root: CheckpointLocation) -> Self {
        Place { root }
    }

    fn url(&self, below: &str) -> String {
        format!("{}/{below}", self.root.url.as_str().trim_end_matches('/'))
    }

    fn path(&self, below: &str) -> Path {
        below.split('/').fold(self.root.root.clone(), |path, part| path.join(part))
    }

    /// The URL of a table.
    pub fn table(&self, name: &TableName) -> String {
        self.url(&format!("tables/{}", directory(name)))
    }

    /// The URL of the table for records that a flow could not read.
    pub fn quarantine(&self, flow: &TableName) -> String {
        self.url(&format!("tables/{QUARANTINE}{}", directory(flow)))
    }

    /// The URL of the table for rows that a flow left out because they were late.
    pub fn late_rows(&self, flow: &TableName) -> String {
        self.url(&format!("tables/{LATE}{}", directory(flow)))
    }

    /// The checkpoint of a flow since the given full refresh of its table.
    pub fn checkpoint(&self, flow: &TableName, refresh: u64) -> CheckpointLocation {
        let mut folder = directory(flow);
        if refresh > 0 {
            folder.push_str(&format!("@{refresh}"));
        }
        let below = format!("_checkpoints/{folder}");
        let mut url = self.root.url.clone();
        url.set_path(&format!("{}/{below}", self.root.url.path().trim_end_matches('/')));
        CheckpointLocation { store: self.root.store.clone(), root: self.path(&below), url }
    }

    /// The folders of all stored tables.
    pub(super) async fn stored_tables(&self) -> Result<BTreeSet<String>> {
        let prefix = self.path("tables");
        let listed =
            self.root.store.list_with_delimiter(Some(&prefix)).await.map_err(|error| self.unavailable("list the tables", error))?;
        Ok(listed.common_prefixes.iter().filter_map(|path| path.filename().map(str::to_owned)).collect())
    }

    /// Whether there is a table.
    pub(super) async fn has_table(&self, name: &TableName) -> Result<bool> {
        let prefix = self.path(&format!("tables/{}/_delta_log", directory(name)));
        let mut objects = self.root.store.list(Some(&prefix));
        objects.try_next().await.map(|first| first.is_some()).map_err(|error| self.unavailable("look for a table", error))
    }

    /// How often a table was fully refreshed.
    pub(super) async fn refreshes(&self, table: &TableName) -> Result<u64> {
        let prefix = self.path(&format!("_pipeline/refreshes/{}", directory(table)));
        let listed =
            self.root.store.list_with_delimiter(Some(&prefix)).await.map_err(|error| self.unavailable("list full refreshes", error))?;
        Ok(listed.objects.iter().filter_map(|object| object.location.filename()?.parse().ok()).max().unwrap_or(0))
    }

    /// Records one more full refresh and gives its number. From now on the flows of the table have new checkpoints, whatever happens.
    pub(super) async fn add_refresh(&self, table: &TableName) -> Result<u64> {
        loop {
            let next = self.refreshes(table).await? + 1;
            let path = self.path(&format!("_pipeline/refreshes/{}/{next}", directory(table)));
            match self.root.store.put_opts(&path, "{}\n".into(), PutOptions::from(PutMode::Create)).await {
                Ok(_) => return Ok(next),
                Err(object_store::Error::AlreadyExists { .. }) => {}
                Err(error) => return Err(self.unavailable("record a full refresh", error)),
            }
        }
    }

    /// Reads a record of the runner.
    pub(super) async fn record<T: serde::de::DeserializeOwned>(&self, below: &str) -> Result<Option<T>> {
        let path = self.path(&format!("_pipeline/{below}"));
        let bytes = match self.root.store.get(&path).await {
            Ok(found) => found.bytes().await.map_err(|error| self.unavailable("read a record", error))?,
            Err(object_store::Error::NotFound { .. }) => return Ok(None),
            Err(error) => return Err(self.unavailable("read a record", error)),
        };
        // A record only saves work: one that cannot be read is as good as none.
        Ok(serde_json::from_slice(&bytes).ok())
    }

    /// Writes a record of the runner over an earlier one.
    pub(super) async fn set_record<T: serde::Serialize>(&self, below: &str, record: &T) -> Result<()> {
        let path = self.path(&format!("_pipeline/{below}"));
        let bytes = serde_json::to_vec_pretty(record).map_err(|error| Error::internal("a record does not serialise").caused_by(error))?;
        self.root.store.put(&path, bytes.into()).await.map(drop).map_err(|error| self.unavailable("write a record", error))
    }

    fn unavailable(&self, what: &str, error: object_store::Error) -> Error {
        Error::new(ErrorKind::StoreUnavailable, "STORE_UNAVAILABLE", format!("cannot {what} below {}", self.root.url)).caused_by(error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_are_safe_and_distinct() {
        for (name, folder) in [("Orders", "orders"), ("odd name", "odd+20name"), ("a/b~", "a+2fb+7e"), ("straße", "stra+c3+9fe")] {
            assert_eq!(directory(&TableName::new(name)), folder);
        }
        let other = TableName { catalog: "spark_catalog".into(), schema: "s".into(), name: "t".into() };
        assert_eq!(directory(&other), "s.t");
    }
}
