//! Removing files that no version younger than the retention refers to.

use deltalake::DeltaTable;
use deltalake::operations::vacuum::VacuumMode;
use futures::{StreamExt, TryStreamExt};
use millstream_core::options::parse_duration;
use millstream_core::versioned::{Vacuum, Vacuumed};
use millstream_core::{Error, Result};
use object_store::ObjectStoreExt;
use object_store::path::Path;

use super::actions::Metadata;
use super::log::TableLog;

/// Hours that removed files stay when neither the statement nor the table says: 7 days.
const RETENTION_HOURS: f64 = 7.0 * 24.0;
/// Files removed at the same time.
const PARALLEL: usize = 8;

/// Removes, or only lists, what may go.
pub(super) async fn vacuum(log: &TableLog, metadata: &Metadata, vacuum: Vacuum) -> Result<Vacuumed> {
    let own = retention_hours(metadata);
    let hours = vacuum.retention_hours.unwrap_or(own);
    if hours < 0.0 {
        let message = "the retention of VACUUM is negative: give hours from 0 on";
        return Err(Error::invalid("DELTA_VACUUM_RETENTION_PERIOD_NEGATIVE", message).with_sqlstate("22003"));
    }
    if vacuum.check_retention && hours < own {
        let message = format!(
            "VACUUM would remove files that readers, writers and time travel of table {} may need: {hours} hours are less than the {own} hours of \
             its retention. Wait, or set spark.databricks.delta.retentionDurationCheck.enabled to false if nothing else uses the table.",
            log.url()
        );
        return Err(Error::invalid("DELTA_VACUUM_RETENTION_PERIOD_TOO_SHORT", message).with_sqlstate("22003"));
    }
    let failed = |error: deltalake::DeltaTableError| {
        Error::new(log.kind(), "DELTA_VACUUM_FAILED", format!("the files of table {} cannot be listed", log.url())).caused_by(error)
    };
    let mut table = DeltaTable::new(log.log_store());
    table.load().await.map_err(failed)?;
    let retention = chrono::Duration::try_milliseconds((hours * 3_600_000.0) as i64).unwrap_or(chrono::Duration::MAX);
    let listing = table.vacuum().with_mode(VacuumMode::Full).with_dry_run(true).with_enforce_retention_duration(false);
    let (_, listed) = listing.with_retention_period(retention).await.map_err(failed)?;
    let paths: Vec<Path> = listed.files_deleted.iter().map(|file| log.inside(file)).collect::<Result<_>>()?;
    let mut out = Vacuumed::default();
    for file in &listed.files_deleted {
        out.files.push(log.folder_url().join(&super::actions::encode_path(file)).map_or_else(|_| file.clone(), |url| url.to_string()));
    }
    out.files.sort();
    if vacuum.dry_run {
        return Ok(out);
    }
    let store = log.store();
    let removed: Vec<u64> = futures::stream::iter(paths)
        .map(|path| async move {
            let size = store.head(&path).await.map_or(0, |meta| meta.size);
            match store.delete(&path).await {
                Ok(()) | Err(object_store::Error::NotFound { .. }) => Ok(size),
                Err(error) => Err(log.unavailable(format!("cannot remove {path}"), error)),
            }
        })
        .buffer_unordered(PARALLEL)
        .try_collect()
        .await?;
    out.bytes = removed.into_iter().sum();
    Ok(out)
}

/// How long the table keeps removed files, hours.
fn retention_hours(metadata: &Metadata) -> f64 {
    let property = "delta.deletedFileRetentionDuration";
    metadata
        .configuration
        .get(property)
        .and_then(|text| parse_duration(property, text.trim().trim_start_matches("interval").trim()).ok())
        .map_or(RETENTION_HOURS, |duration| duration.as_secs_f64() / 3600.0)
}
