//! Making a table again what it was.

use std::collections::{BTreeMap, BTreeSet};

use millstream_core::versioned::AsOf;
use millstream_core::{Error, ErrorKind, Result};
use object_store::ObjectStoreExt;
use serde_json::json;

use super::actions::{Add, Commit, CommitInfo, Remove};
use super::history;
use super::protocol;
use super::publish::{Published, Publisher};
use super::versioned::{DeltaVersion, gone};

/// Commits what makes the table as it was at an older version. Gives Spark's figures.
pub(super) async fn restore(table: &DeltaVersion, to: &AsOf) -> Result<BTreeMap<String, i64>> {
    let (log, base) = (&table.log, &table.base);
    let version = history::resolve(log, to).await.map_err(of_restore)?.unwrap_or(base.version);
    let Some(snapshot) = log.snapshot(Some(version)).await? else { return Err(gone(log)) };
    protocol::check_readable(&snapshot.protocol, log.url().as_str())?;
    let old = snapshot.files().await?;
    let keys = |files: &[Add]| files.iter().map(Add::key).collect::<BTreeSet<_>>();
    let (there, wanted) = (keys(&base.files), keys(&old));
    let adds: Vec<Add> = old.iter().filter(|file| !there.contains(&file.key())).cloned().collect();
    for add in &adds {
        let (store, path) = log.data_file(&add.path)?;
        match store.head(&path).await {
            Ok(_) => {}
            Err(object_store::Error::NotFound { .. }) => {
                let message = format!(
                    "file {} of version {version} of table {} is no longer there, because VACUUM or somebody removed it: restore a newer version",
                    add.path,
                    log.url()
                );
                return Err(Error::new(ErrorKind::DataLost, "DELTA_FILE_NOT_FOUND_DETAILED", message).with_sqlstate("42K03"));
            }
            Err(error) => return Err(log.unavailable(format!("cannot look for {path}"), error)),
        }
    }
    let now_ms = table.clock.now_ms();
    let removed: Vec<&Add> = base.files.iter().filter(|file| !wanted.contains(&file.key())).collect();
    let removes: Vec<Remove> = removed.iter().map(|file| file.removal(now_ms)).collect();
    let bytes = |sizes: &mut dyn Iterator<Item = u64>| i64::try_from(sizes.sum::<u64>()).unwrap_or(i64::MAX);
    let count = |count: usize| i64::try_from(count).unwrap_or(i64::MAX);
    let figures: BTreeMap<String, i64> = [
        ("table_size_after_restore", bytes(&mut old.iter().map(|file| file.size))),
        ("num_of_files_after_restore", count(old.len())),
        ("num_removed_files", count(removed.len())),
        ("num_restored_files", count(adds.len())),
        ("removed_files_size", bytes(&mut removed.iter().map(|file| file.size))),
        ("restored_files_size", bytes(&mut adds.iter().map(|file| file.size))),
    ]
    .map(|(name, value)| (name.to_owned(), value))
    .into();
    let mut info = CommitInfo::new();
    info.insert("timestamp".to_owned(), json!(now_ms));
    info.insert("operation".to_owned(), json!("RESTORE"));
    let parameters = match to {
        AsOf::Time(time) => json!({"version": null, "timestamp": time}),
        AsOf::Version(_) | AsOf::Newest => json!({"version": version.to_string(), "timestamp": null}),
    };
    info.insert("operationParameters".to_owned(), parameters);
    info.insert("readVersion".to_owned(), json!(base.version));
    info.insert("isolationLevel".to_owned(), json!("Serializable"));
    info.insert("isBlindAppend".to_owned(), json!(false));
    let of_log = |name: &str| figures.get(name).copied().unwrap_or(0).to_string();
    info.insert(
        "operationMetrics".to_owned(),
        json!({
            "numRestoredFiles": of_log("num_restored_files"),
            "removedFilesSize": of_log("removed_files_size"),
            "numRemovedFiles": of_log("num_removed_files"),
            "restoredFilesSize": of_log("restored_files_size"),
            "numOfFilesAfterRestore": of_log("num_of_files_after_restore"),
            "tableSizeAfterRestore": of_log("table_size_after_restore"),
        }),
    );
    info.insert("engineInfo".to_owned(), json!(concat!("Millstream/", env!("CARGO_PKG_VERSION"))));
    info.insert("txnId".to_owned(), json!(table.ids.next().to_string()));
    let commit = Commit {
        info: Some(info),
        metadata: (snapshot.metadata != base.metadata).then(|| snapshot.metadata.clone()),
        adds,
        removes,
        ..Commit::default()
    };
    let publisher = Publisher::new(log.clone(), table.clock.clone());
    match publisher.publish(base.version + 1, &commit.to_bytes()?).await? {
        Published::Ours => Ok(figures),
        Published::Theirs(_) => {
            let message = format!("table {} was changed by another writer while it was restored: run the statement again", log.url());
            Err(Error::new(ErrorKind::SinkUnavailable, "DELTA_CONCURRENT_WRITE", message).with_sqlstate("2D521"))
        }
    }
}

fn of_restore(error: Error) -> Error {
    let code = match error.code() {
        "DELTA_VERSION_NOT_FOUND" => "DELTA_CANNOT_RESTORE_TABLE_VERSION",
        "DELTA_TIMESTAMP_GREATER_THAN_COMMIT" => "DELTA_CANNOT_RESTORE_TIMESTAMP_GREATER",
        "DELTA_TIMESTAMP_EARLIER_THAN_COMMIT_RETENTION" => "DELTA_CANNOT_RESTORE_TIMESTAMP_EARLIER",
        _ => return error,
    };
    Error::new(error.kind(), code, error.message().to_owned()).with_sqlstate("22003")
}
