//! Where the checkpoint of a query is.

use millstream_core::{Error, Options, Result};
use millstream_engine::query::CheckpointLocation;

use crate::connect::host::TemporaryDirectory;
use crate::connect::session::ConnectSession;

/// The checkpoint of a query that starts.
#[derive(Debug)]
pub(super) struct Place {
    pub(super) location: CheckpointLocation,
    /// A directory that goes with the query, where the user named none.
    pub(super) temporary: Option<Box<dyn TemporaryDirectory>>,
}

/// The place that the option `checkpointLocation` names, else one below `spark.sql.streaming.checkpointLocation`, else a temporary one for
/// sinks whose rows end with the query.
///
/// # Errors
/// `_LEGACY_ERROR_TEMP_1298` when there is none; those of opening it.
pub(super) async fn checkpoint(session: &ConnectSession, options: &Options, name: Option<&str>, may_be_temporary: bool) -> Result<Place> {
    let given = options.get("checkpointLocation").map(str::to_owned).or_else(|| {
        let root = session.confs.get("spark.sql.streaming.checkpointLocation").filter(|root| !root.is_empty())?;
        let own = name.map_or_else(|| session.host.ids().next().to_string(), str::to_owned);
        Some(format!("{}/{own}", root.trim_end_matches('/')))
    });
    match given {
        Some(place) => Ok(Place { location: session.host.checkpoint(&place).await?, temporary: None }),
        None if may_be_temporary => {
            let directory = session.host.temporary_directory("checkpoint")?;
            let location = session.host.checkpoint(&directory.path().to_string_lossy()).await?;
            Ok(Place { location, temporary: Some(directory) })
        }
        None => Err(Error::invalid(
            "_LEGACY_ERROR_TEMP_1298",
            "checkpointLocation must be specified either through option(\"checkpointLocation\", ...) or \
             SparkSession.conf.set(\"spark.sql.streaming.checkpointLocation\", ...)",
        )),
    }
}
