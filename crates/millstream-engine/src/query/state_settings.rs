//! Where and how a query keeps state.

use std::collections::BTreeMap;
use std::path::PathBuf;

use millstream_checkpoint::state::store::{StoreKind, StoreOptions};

/// The option, pinned in a checkpoint, that names the class of Spark's state stores.
const PROVIDER: &str = "spark.sql.streaming.stateStore.providerClass";

/// Settings of state, which may differ at every start: what a checkpoint has of state suits all of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StateSettings {
    /// Where state is first of all; by default what the checkpoint's `spark.sql.streaming.stateStore.providerClass` says.
    pub store: Option<StoreKind>,
    /// Bytes of memory for all state of the query.
    pub memory_limit: u64,
    /// The local directory below which RocksDB works.
    pub directory: PathBuf,
    /// Files of changes before a snapshot is made (`spark.sql.streaming.stateStore.minDeltasForSnapshot`).
    pub min_deltas_for_snapshot: usize,
}

impl Default for StateSettings {
    fn default() -> Self {
        let StoreOptions { memory_limit, directory, .. } = StoreOptions::default();
        StateSettings { store: None, memory_limit, directory, min_deltas_for_snapshot: 10 }
    }
}

impl StateSettings {
    /// The options of stores, for a query with this configuration in its checkpoint.
    pub(super) fn options(&self, conf: &BTreeMap<String, String>) -> StoreOptions {
        let provider = || match conf.get(PROVIDER) {
            Some(class) if class.contains("RocksDB") => StoreKind::RocksDb,
            _ => StoreKind::Memory,
        };
        StoreOptions { kind: self.store.unwrap_or_else(provider), memory_limit: self.memory_limit, directory: self.directory.clone() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_provider_of_the_checkpoint_counts_unless_another_store_is_asked_for() {
        let class = |name: &str| BTreeMap::from([(PROVIDER.to_owned(), format!("org.apache.spark.sql.execution.streaming.state.{name}"))]);
        for (store, conf, expected) in [
            (None, BTreeMap::new(), StoreKind::Memory),
            (None, class("HDFSBackedStateStoreProvider"), StoreKind::Memory),
            (None, class("RocksDBStateStoreProvider"), StoreKind::RocksDb),
            (Some(StoreKind::Memory), class("RocksDBStateStoreProvider"), StoreKind::Memory),
            (Some(StoreKind::RocksDb), BTreeMap::new(), StoreKind::RocksDb),
        ] {
            let settings = StateSettings { store, ..StateSettings::default() };
            assert_eq!(settings.options(&conf).kind, expected, "{store:?} {conf:?}");
        }
    }
}
