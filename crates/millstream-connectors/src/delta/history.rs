//! Versions and times of a table, from listings of its log.

use millstream_core::versioned::AsOf;
use millstream_core::{Error, ErrorKind, Result};

use super::log::TableLog;
use super::options::timestamp;

/// The newest version of a table. `known` is a version that exists, or 0.
///
/// # Errors
/// `DELTA_PATH_DOES_NOT_EXIST` when there is no table.
pub(super) async fn newest(log: &TableLog, known: u64) -> Result<u64> {
    let files = log.files_from(known).await?;
    match files.iter().map(|file| file.version).max() {
        Some(version) => Ok(version),
        None => Err(no_table(log)),
    }
}

/// The version that is meant; `None` for the newest.
///
/// # Errors
/// `DELTA_VERSION_NOT_FOUND`, `DELTA_TIMESTAMP_INVALID`, and those of [`last_at_or_before`].
pub(super) async fn resolve(log: &TableLog, as_of: &AsOf) -> Result<Option<u64>> {
    match as_of {
        AsOf::Newest => Ok(None),
        AsOf::Version(version) => {
            let newest = newest(log, 0).await?;
            if *version > newest {
                return Err(no_such_version(log, *version, newest));
            }
            Ok(Some(*version))
        }
        AsOf::Time(text) => last_at_or_before(log, timestamp("timestampAsOf", text)?).await.map(Some),
    }
}

/// The error for a version that the table does not have.
pub(super) fn no_such_version(log: &TableLog, version: u64, newest: u64) -> Error {
    let message = format!("table {} has no version {version}: its newest is {newest}", log.url());
    Error::invalid("DELTA_VERSION_NOT_FOUND", message).with_sqlstate("22003")
}

/// The error for a location without a table.
pub(super) fn no_table(log: &TableLog) -> Error {
    let message = format!("{} doesn't exist, or is not a Delta table: check the path", log.spark_path());
    Error::new(ErrorKind::Invalid, "DELTA_PATH_DOES_NOT_EXIST", message).with_sqlstate("42K03")
}

/// The versions whose commits the log still has, with the time of each, ascending in both. Milliseconds since the epoch.
///
/// Times are those that commits carry, else those of the files, pushed forward where a copied file would make time go back.
pub(super) async fn commit_times(log: &TableLog) -> Result<Vec<(u64, i64)>> {
    let files = log.files_from(0).await?;
    if files.is_empty() {
        return Err(no_table(log));
    }
    let own_times = match log.snapshot(None).await? {
        Some(snapshot) => snapshot.metadata.flag("delta.enableInCommitTimestamps"),
        None => false,
    };
    let mut times: Vec<(u64, i64)> = Vec::with_capacity(files.len());
    for file in files.iter().filter(|file| !file.checkpoint) {
        let own = match own_times {
            true => log.read_commit(file.version).await?.and_then(|commit| commit.in_commit_timestamp()),
            false => None,
        };
        let earliest = times.last().map_or(i64::MIN, |(_, time)| time + 1);
        times.push((file.version, own.unwrap_or(file.modified_ms).max(earliest)));
    }
    Ok(times)
}

/// The first version committed at or after a time, or `None` when all are earlier.
pub(super) async fn first_at_or_after(log: &TableLog, time_ms: i64) -> Result<Option<u64>> {
    Ok(commit_times(log).await?.into_iter().find(|(_, time)| *time >= time_ms).map(|(version, _)| version))
}

/// The newest version committed at or before a time.
///
/// # Errors
/// `DELTA_TIMESTAMP_EARLIER_THAN_COMMIT_RETENTION`, `DELTA_TIMESTAMP_GREATER_THAN_COMMIT`.
pub(super) async fn last_at_or_before(log: &TableLog, time_ms: i64) -> Result<u64> {
    let times = commit_times(log).await?;
    match times.last() {
        Some((version, newest)) if *newest < time_ms => {
            let message = format!(
                "the time is after the newest version {version} of table {} ({newest} ms since the epoch): read without timestampAsOf",
                log.url()
            );
            return Err(Error::invalid("DELTA_TIMESTAMP_GREATER_THAN_COMMIT", message).with_sqlstate("42816"));
        }
        _ => {}
    }
    times.iter().rev().find(|(_, time)| *time <= time_ms).map(|(version, _)| *version).ok_or_else(|| {
        let earliest = times.first().map_or(0, |(_, time)| *time);
        let message = format!(
            "the time is before the earliest version of table {} that can be read ({earliest} ms since the epoch): ask for a later time",
            log.url()
        );
        Error::invalid("DELTA_TIMESTAMP_EARLIER_THAN_COMMIT_RETENTION", message).with_sqlstate("42816")
    })
}
