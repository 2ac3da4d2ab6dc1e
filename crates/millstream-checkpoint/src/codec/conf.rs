//! Options that every `offsets/N` pins.

use std::collections::BTreeMap;

/// The options that Spark 4.2 records in `offsets/N`, with its defaults.
///
/// A checkpoint that lacks one makes Spark fall back to the default of the *oldest* release, so every record of ours has all of them
/// (spark-semantics.md §3).
pub const SPARK_DEFAULTS: &[(&str, &str)] = &[
    ("spark.sql.function.protobufExtensions.enabled", "false"),
    ("spark.sql.optimizer.pruneFiltersCanPruneStreamingSubplan", "false"),
    ("spark.sql.shuffle.partitions", "200"),
    ("spark.sql.streaming.aggregation.stateFormatVersion", "2"),
    ("spark.sql.streaming.flatMapGroupsWithState.stateFormatVersion", "2"),
    ("spark.sql.streaming.join.stateFormatVersion", "2"),
    ("spark.sql.streaming.multipleWatermarkPolicy", "min"),
    ("spark.sql.streaming.queryEvolution.enableSourceEvolution", "false"),
    ("spark.sql.streaming.stateStore.compression.codec", "lz4"),
    ("spark.sql.streaming.stateStore.encodingFormat", "unsaferow"),
    ("spark.sql.streaming.stateStore.providerClass", "org.apache.spark.sql.execution.streaming.state.HDFSBackedStateStoreProvider"),
    ("spark.sql.streaming.stateStore.rocksdb.formatVersion", "5"),
    ("spark.sql.streaming.stateStore.rocksdb.mergeOperatorVersion", "2"),
    ("spark.sql.streaming.stateStore.rowChecksum.enabled", "false"),
    ("spark.sql.streaming.statefulOperator.useStrictDistribution", "true"),
];

/// `conf` and, where it lacks them, Spark's defaults.
pub(crate) fn with_defaults(conf: &BTreeMap<String, String>) -> BTreeMap<String, String> {
    let mut all: BTreeMap<String, String> = SPARK_DEFAULTS.iter().map(|(key, value)| (key.to_string(), value.to_string())).collect();
    all.extend(conf.iter().map(|(key, value)| (key.clone(), value.clone())));
    all
}
