//! Where queries keep state: Spark's settings, and our own.

use millstream_core::{Error, Options, Result};
use millstream_engine::{StateSettings, StoreKind};

use crate::connect::session::ConnectSession;

/// Our own name for where state is kept: `memory` or `rocksdb`. It may change at every start, and goes before `…stateStore.providerClass`, which
/// stays with the checkpoint.
const STORE: &str = "spark.millstream.state.store";
/// Bytes of memory for all state of a query.
const MEMORY: &str = "spark.millstream.state.memory";
/// Where RocksDB has its working directories.
const DIRECTORY: &str = "spark.millstream.state.directory";
const ROCKSDB_BOUNDED: &str = "spark.sql.streaming.stateStore.rocksdb.boundedMemoryUsage";
const ROCKSDB_MEMORY: &str = "spark.sql.streaming.stateStore.rocksdb.maxMemoryUsageMB";
const MIN_DELTAS: &str = "spark.sql.streaming.stateStore.minDeltasForSnapshot";

/// Where and how queries of this session keep state.
///
/// # Errors
/// `INVALID_CONF_VALUE` and `INVALID_OPTION_VALUE` for values that mean nothing.
pub(super) fn of(session: &ConnectSession) -> Result<StateSettings> {
    let names = [STORE, MEMORY, DIRECTORY, "spark.local.dir", ROCKSDB_BOUNDED, ROCKSDB_MEMORY, MIN_DELTAS];
    let options: Options = names.iter().filter_map(|name| session.confs.get(name).map(|value| (*name, value))).collect();
    let defaults = StateSettings::default();
    let store = match options.get(STORE).map(|store| store.trim().to_ascii_lowercase()).as_deref() {
        None | Some("") => None,
        Some("memory") => Some(StoreKind::Memory),
        Some("rocksdb") => Some(StoreKind::RocksDb),
        Some(other) => {
            return Err(Error::invalid("INVALID_CONF_VALUE", format!("{STORE} is '{other}': it must be 'memory' or 'rocksdb'"))
                .with_sqlstate("22022"));
        }
    };
    let bounded = match options.bool(ROCKSDB_BOUNDED, false)? {
        true => Some(options.integer(ROCKSDB_MEMORY, 1)?.and_then(|megabytes| u64::try_from(megabytes).ok()).unwrap_or(500) << 20),
        false => None,
    };
    let local = options.get("spark.local.dir").and_then(|directories| directories.split(',').next());
    Ok(StateSettings {
        store,
        memory_limit: options.bytes(MEMORY)?.or(bounded).unwrap_or(defaults.memory_limit),
        directory: options.get(DIRECTORY).or(local).map_or(defaults.directory, |directory| directory.trim().into()),
        min_deltas_for_snapshot: options
            .integer(MIN_DELTAS, 1)?
            .and_then(|files| usize::try_from(files).ok())
            .unwrap_or(defaults.min_deltas_for_snapshot),
    })
}
