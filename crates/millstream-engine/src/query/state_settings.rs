//! Where and how a query keeps state.

use std::collections::BTreeMap;
use std::path::PathBuf;

use millstream_checkpoint::state::store::{StoreKind, StoreOptions};
use millstream_core::{Error, Result};

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
    /// Refuses state in a store that does not exist, and `transformWithState` over the store that Spark does not run it over, as Spark does,
    /// where the session says which one that is. A store that was asked for by our own name for it takes everything.
    ///
    /// # Errors
    /// `UNSUPPORTED_FEATURE.STORE_BACKEND_NOT_SUPPORTED_FOR_TWS`, `INVALID_CONF_VALUE`.
    pub(super) fn check_operators<'a>(
        &self,
        session: &BTreeMap<String, String>,
        conf: &BTreeMap<String, String>,
        operators: impl Iterator<Item = &'a str>,
    ) -> Result<()> {
        let Some(class) = session.get(PROVIDER).and(conf.get(PROVIDER)).filter(|class| !class.contains("RocksDB")) else { return Ok(()) };
        if self.store.is_some() {
            return Ok(());
        }
        let mut operators = operators.peekable();
        if !class.ends_with("HDFSBackedStateStoreProvider") && operators.peek().is_some() {
            let message = format!(
                "{PROVIDER} is '{class}', and there is no such state store: set it to the HDFSBackedStateStoreProvider or the \
                 RocksDBStateStoreProvider of org.apache.spark.sql.execution.streaming.state"
            );
            return Err(Error::invalid("INVALID_CONF_VALUE", message).with_sqlstate("22022"));
        }
        if !operators.any(|name| name.starts_with("transformWithState")) {
            return Ok(());
        }
        let class = class.rsplit('.').next().unwrap_or(class);
        let message = format!(
            "The store backend {class} is not supported by TransformWithState operator: set {PROVIDER} to the RocksDBStateStoreProvider"
        );
        Err(Error::invalid("UNSUPPORTED_FEATURE.STORE_BACKEND_NOT_SUPPORTED_FOR_TWS", message).with_sqlstate("0A000"))
    }

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
    fn processors_need_the_store_that_spark_runs_them_over() {
        let class = |name: &str| BTreeMap::from([(PROVIDER.to_owned(), format!("org.apache.spark.sql.execution.streaming.state.{name}"))]);
        let (hdfs, rocksdb, nothing) = (class("HDFSBackedStateStoreProvider"), class("RocksDBStateStoreProvider"), BTreeMap::new());
        for (store, session, conf, operator, refused) in [
            (None, &hdfs, &hdfs, "transformWithStateInPandasExec", true),
            (None, &rocksdb, &hdfs, "transformWithStateExec", true),
            (None, &hdfs, &rocksdb, "transformWithStateExec", false),
            (None, &rocksdb, &rocksdb, "transformWithStateExec", false),
            (None, &nothing, &hdfs, "transformWithStateExec", false),
            (Some(StoreKind::Memory), &hdfs, &hdfs, "transformWithStateExec", false),
            (None, &hdfs, &hdfs, "stateStoreSave", false),
        ] {
            let settings = StateSettings { store, ..StateSettings::default() };
            let checked = settings.check_operators(session, conf, ["dedupe", operator].into_iter());
            let code = checked.err().map(|error| error.code().to_owned());
            let expected = refused.then(|| "UNSUPPORTED_FEATURE.STORE_BACKEND_NOT_SUPPORTED_FOR_TWS".to_owned());
            assert_eq!(code, expected, "{store:?} {session:?} {conf:?} {operator}");
        }
    }

    #[test]
    fn a_store_that_does_not_exist_is_refused_where_there_is_state() {
        let conf = |name: &str| BTreeMap::from([(PROVIDER.to_owned(), name.to_owned())]);
        let spark = "org.apache.spark.sql.execution.streaming.state.";
        for (class, operators, refused) in [
            ("com.example.NoSuchProvider".to_owned(), &["dedupe"][..], true),
            ("com.example.NoSuchProvider".to_owned(), &[], false),
            (format!("{spark}HDFSBackedStateStoreProvider"), &["dedupe"], false),
            (format!("{spark}RocksDBStateStoreProvider"), &["dedupe"], false),
        ] {
            let checked = StateSettings::default().check_operators(&conf(&class), &conf(&class), operators.iter().copied());
            assert_eq!(checked.err().map(|error| error.code().to_owned()), refused.then(|| "INVALID_CONF_VALUE".to_owned()), "{class}");
        }
    }

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
