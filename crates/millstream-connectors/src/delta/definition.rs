//! What a table is, as its log says it: schema, properties, clustering, and the protocol that follows from them.

use delta_kernel::schema::StructType;
use millstream_core::versioned::NewTable;
use millstream_core::{Error, Result};
use serde_json::{Value, json};

use super::actions::{DomainMetadata, Metadata, Protocol};
use super::protocol;
use super::schema::{self, TableSchema, same_name};

/// The domain of the columns that a table is clustered by.
pub(super) const CLUSTERING: &str = "delta.clustering";

/// Properties of Delta that change what writers have to do or what readers find; others are free text.
const PROPERTIES: &[&str] = &[
    "delta.appendOnly",
    "delta.autoOptimize.autoCompact",
    "delta.autoOptimize.optimizeWrite",
    "delta.checkpoint.writeStatsAsJson",
    "delta.checkpoint.writeStatsAsStruct",
    "delta.checkpointInterval",
    "delta.checkpointPolicy",
    "delta.columnMapping.maxColumnId",
    "delta.columnMapping.mode",
    "delta.compatibility.symlinkFormatManifest.enabled",
    "delta.dataSkippingNumIndexedCols",
    "delta.dataSkippingStatsColumns",
    "delta.deletedFileRetentionDuration",
    "delta.enableChangeDataFeed",
    "delta.enableDeletionVectors",
    "delta.enableExpiredLogCleanup",
    "delta.enableFullRetentionRollback",
    "delta.enableInCommitTimestamps",
    "delta.enableRowTracking",
    "delta.enableTypeWidening",
    "delta.isolationLevel",
    "delta.logRetentionDuration",
    "delta.minReaderVersion",
    "delta.minWriterVersion",
    "delta.parquet.compression.codec",
    "delta.randomizeFilePrefixes",
    "delta.randomPrefixLength",
    "delta.sampleRetentionDuration",
    "delta.setTransactionRetentionDuration",
    "delta.targetFileSize",
    "delta.tuneFileSizesForRewrites",
    "delta.universalFormat.enabledFormats",
];

/// The metadata of a new table.
///
/// # Errors
/// `DELTA_UNSUPPORTED_DATA_TYPES`, `DELTA_INVALID_CHARACTERS_IN_COLUMN_NAMES`, `DELTA_DUPLICATE_COLUMNS_FOUND`,
/// `DELTA_PARTITION_COLUMN_NOT_FOUND`, `DELTA_UNKNOWN_CONFIGURATION`.
pub(super) fn metadata(new: &NewTable, id: String, now_ms: i64) -> Result<Metadata> {
    check_properties(new.properties.keys())?;
    let kernel = parse(&new.schema)?;
    let partition_columns = super::plan::partition_columns(&kernel, &new.partition_columns)?;
    if !new.clustering_columns.is_empty() && !partition_columns.is_empty() {
        let message = "a table is either partitioned or clustered: leave PARTITIONED BY or CLUSTER BY out";
        return Err(Error::invalid("DELTA_CLUSTER_BY_WITH_PARTITIONED_BY", message).with_sqlstate("42613"));
    }
    check_clustering(&kernel, &new.clustering_columns)?;
    let configuration = new
        .properties
        .iter()
        .filter(|(key, _)| !key.starts_with("delta.feature.") && !is_protocol(key))
        .map(|(key, value)| (spelt(key), value.clone()))
        .collect();
    Ok(Metadata {
        id,
        description: new.description.clone(),
        schema_string: super::plan::schema_text(&kernel)?,
        partition_columns,
        configuration,
        created_time: Some(now_ms),
        ..Metadata::default()
    })
}

/// The schema of a text, checked.
///
/// # Errors
/// As [`metadata`].
pub(super) fn parse(text: &str) -> Result<StructType> {
    let kernel: StructType = serde_json::from_str(text).map_err(|error| {
        Error::invalid("DELTA_UNSUPPORTED_DATA_TYPES", "the table would have columns of types that Delta cannot store: cast them")
            .caused_by(error)
            .with_sqlstate("0AKDC")
    })?;
    schema::check_names(&kernel)?;
    Ok(kernel)
}

/// Refuses properties that look like Delta's and are none.
///
/// # Errors
/// `DELTA_UNKNOWN_CONFIGURATION`.
pub(super) fn check_properties<'a>(keys: impl Iterator<Item = &'a String>) -> Result<()> {
    for key in keys {
        let lower = key.to_lowercase();
        let is_known = PROPERTIES.iter().any(|known| known.eq_ignore_ascii_case(key));
        let is_free = ["delta.feature.", "delta.constraints."].iter().any(|prefix| lower.starts_with(prefix));
        if lower.starts_with("delta.") && !is_known && !is_free {
            let message = format!("there is no table property '{key}': check its name, or take one that does not begin with delta");
            return Err(Error::invalid("DELTA_UNKNOWN_CONFIGURATION", message).with_sqlstate("F0000"));
        }
    }
    Ok(())
}

/// Versions of the protocol are no properties of the table, though they are set like some.
pub(super) fn is_protocol(key: &str) -> bool {
    ["delta.minReaderVersion", "delta.minWriterVersion"].iter().any(|known| known.eq_ignore_ascii_case(key))
}

/// The property as Delta spells it.
pub(super) fn spelt(key: &str) -> String {
    PROPERTIES.iter().find(|known| known.eq_ignore_ascii_case(key)).map_or_else(|| key.to_owned(), |known| (*known).to_owned())
}

fn check_clustering(schema: &StructType, columns: &[String]) -> Result<()> {
    if columns.len() > 4 {
        let message = format!("CLUSTER BY takes up to 4 columns and has {}: leave some out", columns.len());
        return Err(Error::invalid("DELTA_CLUSTER_BY_INVALID_NUM_COLUMNS", message).with_sqlstate("54000"));
    }
    for column in columns {
        let first = column.split('.').next().unwrap_or(column);
        if !schema.fields().any(|field| same_name(field.name(), first)) {
            let message = format!("there is no column '{column}' to cluster by");
            return Err(Error::invalid("DELTA_COLUMN_NOT_FOUND_IN_SCHEMA", message).with_sqlstate("42703"));
        }
    }
    Ok(())
}

/// What the log keeps about the columns that a table is clustered by. A table that was there loses those that it had.
pub(super) fn clustering(columns: &[String], existed: bool) -> Vec<DomainMetadata> {
    if columns.is_empty() && !existed {
        return Vec::new();
    }
    let paths: Vec<Vec<&str>> = columns.iter().map(|column| column.split('.').collect()).collect();
    let configuration = json!({"clusteringColumns": paths, "domainName": CLUSTERING}).to_string();
    vec![DomainMetadata { domain: CLUSTERING.to_owned(), configuration, removed: columns.is_empty() }]
}

/// The columns in what the log keeps.
pub(super) fn clustering_columns(configuration: &str) -> Vec<String> {
    let Ok(value) = serde_json::from_str::<Value>(configuration) else { return Vec::new() };
    let paths = value.get("clusteringColumns").and_then(Value::as_array);
    let path = |parts: &Value| {
        let parts: Option<Vec<&str>> = parts.as_array()?.iter().map(Value::as_str).collect();
        parts.map(|parts| parts.join("."))
    };
    paths.into_iter().flatten().filter_map(path).collect()
}

/// The protocol that a table of this description has.
pub(super) fn protocol(metadata: &Metadata, schema: &TableSchema, clustered: bool, current: Option<&Protocol>) -> Protocol {
    protocol::with_features(current, &protocol::needed(metadata, schema, clustered))
}

/// The value of an operation's parameter: text is written as it is, everything else as the JSON in a text that Spark writes.
pub(super) fn parameter(text: &str) -> Value {
    match serde_json::from_str::<Value>(text) {
        Ok(Value::Bool(flag)) => Value::Bool(flag),
        _ => Value::String(text.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use millstream_core::ErrorKind;

    use super::*;

    const SCHEMA: &str = r#"{"type":"struct","fields":[{"name":"a","type":"long","nullable":false,"metadata":{"comment":"c"}},{"name":"p","type":"string","nullable":true,"metadata":{}}]}"#;

    fn table(properties: &[(&str, &str)], clustering: &[&str]) -> NewTable {
        NewTable {
            schema: SCHEMA.to_owned(),
            properties: properties.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect(),
            clustering_columns: clustering.iter().map(|name| (*name).to_owned()).collect(),
            ..NewTable::default()
        }
    }

    #[test]
    fn a_definition_keeps_nullability_and_comments() {
        let metadata = metadata(&table(&[("x", "1"), ("delta.ENABLEchangeDataFeed", "true")], &[]), "id".into(), 5).unwrap();
        assert!(metadata.schema_string.contains(r#""nullable":false"#) && metadata.schema_string.contains(r#""comment":"c""#));
        let expected: BTreeMap<String, String> =
            [("x", "1"), ("delta.enableChangeDataFeed", "true")].map(|(key, value)| (key.to_owned(), value.to_owned())).into();
        assert_eq!(metadata.configuration, expected);
        let error = super::metadata(&table(&[("delta.nope", "1")], &[]), "id".into(), 5).unwrap_err();
        assert_eq!((error.code(), error.sqlstate()), ("DELTA_UNKNOWN_CONFIGURATION", Some("F0000")));
    }

    #[test]
    fn the_protocol_is_the_oldest_that_will_do() {
        for (properties, clustering, versions, features) in [
            (&[][..], &[][..], (1, 2), None),
            (&[("delta.enableChangeDataFeed", "true")], &[], (1, 4), None),
            (&[("delta.enableDeletionVectors", "true")], &[], (3, 7), Some("deletionVectors")),
            (&[], &["a"], (1, 7), Some("clustering")),
        ] {
            let metadata = metadata(&table(properties, clustering), "id".into(), 5).unwrap();
            let schema = TableSchema::of(&metadata, ErrorKind::SinkUnavailable).unwrap();
            let protocol = protocol(&metadata, &schema, !clustering.is_empty(), None);
            assert_eq!((protocol.min_reader_version, protocol.min_writer_version), versions, "{properties:?}");
            let listed = protocol.writer_features.unwrap_or_default();
            assert_eq!(features.is_some(), features.is_some_and(|feature| listed.iter().any(|name| name == feature)));
        }
    }

    #[test]
    fn clustering_columns_survive_the_log() {
        let columns = ["a".to_owned(), "b.c".to_owned()];
        assert_eq!(clustering_columns(&clustering(&columns, false)[0].configuration), columns);
        assert!(clustering(&[], true)[0].removed && clustering(&[], false).is_empty());
    }
}
