//! What a table demands of its readers and writers, and which of it Millstream meets.
//!
//! A feature that is only listed costs nothing; one that is in use must be understood or the table is refused by name, because a writer
//! that ignores a feature damages the table and a reader that ignores one returns wrong rows.

use millstream_core::{Error, ErrorKind, Result};

use super::actions::{Metadata, Protocol};
use super::plan::Current;
use super::schema::TableSchema;

/// Reader features that this crate understands.
const READABLE: &[&str] =
    &["columnMapping", "deletionVectors", "timestampNtz", "v2Checkpoint", "vacuumProtocolCheck", "typeWidening", "typeWidening-preview"];

/// Writer features that this crate understands, or that bind no one who only appends or overwrites.
const WRITABLE: &[&str] = &[
    "appendOnly",
    "changeDataFeed",
    "clustering",
    "deletionVectors",
    "domainMetadata",
    "timestampNtz",
    "typeWidening",
    "typeWidening-preview",
    "v2Checkpoint",
    "vacuumProtocolCheck",
];

/// Writer features that are refused only while the table uses them.
const WRITABLE_WHEN_UNUSED: &[&str] = &[
    "invariants",
    "checkConstraints",
    "generatedColumns",
    "columnMapping",
    "identityColumns",
    "allowColumnDefaults",
    "inCommitTimestamp",
    "inCommitTimestamp-preview",
];

const NEWEST_READER: i32 = 3;
const NEWEST_WRITER: i32 = 7;

/// Features with which a protocol of version numbers alone came, by the version for writers.
const IMPLIED: &[(i32, &str)] = &[
    (2, "appendOnly"),
    (2, "invariants"),
    (3, "checkConstraints"),
    (4, "changeDataFeed"),
    (4, "generatedColumns"),
    (5, "columnMapping"),
    (6, "identityColumns"),
];

/// Features that readers have to know too.
const OF_READERS: &[&str] =
    &["columnMapping", "deletionVectors", "timestampNtz", "typeWidening", "typeWidening-preview", "v2Checkpoint", "vacuumProtocolCheck"];

/// Features that need another one.
const NEEDED_BY: &[(&str, &str)] = &[("clustering", "domainMetadata"), ("rowTracking", "domainMetadata")];

/// Properties that need a feature when they are on.
const OF_PROPERTIES: &[(&str, &str)] = &[
    ("delta.enableChangeDataFeed", "changeDataFeed"),
    ("delta.enableDeletionVectors", "deletionVectors"),
    ("delta.enableInCommitTimestamps", "inCommitTimestamp"),
    ("delta.enableRowTracking", "rowTracking"),
    ("delta.enableTypeWidening", "typeWidening"),
];

/// The features that a table of this description needs.
pub(super) fn needed(metadata: &Metadata, schema: &TableSchema, clustered: bool) -> Vec<String> {
    let mut features: Vec<String> = in_use(metadata, schema).into_iter().map(str::to_owned).collect();
    let mut add = |feature: &str| {
        if !has(&features, feature) {
            features.push(feature.to_owned());
        }
    };
    if schema.has_timestamp_ntz() {
        add("timestampNtz");
    }
    if clustered {
        add("clustering");
    }
    if metadata.configuration.get("delta.checkpointPolicy").is_some_and(|policy| policy == "v2") {
        add("v2Checkpoint");
    }
    for (_, feature) in OF_PROPERTIES.iter().filter(|(property, _)| metadata.flag(property)) {
        add(feature);
    }
    for (key, value) in &metadata.configuration {
        if let Some(feature) = key.strip_prefix("delta.feature.")
            && matches!(value.as_str(), "supported" | "enabled")
        {
            add(feature);
        }
    }
    features
}

/// The protocol with these features, and with no older version numbers than the table had; without a table the oldest that has them.
pub(super) fn with_features(current: Option<&Protocol>, features: &[String]) -> Protocol {
    let mut protocol =
        current.cloned().unwrap_or(Protocol { min_reader_version: 1, min_writer_version: 2, reader_features: None, writer_features: None });
    let known: Vec<&str> = match &protocol.writer_features {
        Some(listed) => listed.iter().map(String::as_str).collect(),
        None => IMPLIED.iter().filter(|(version, _)| *version <= protocol.min_writer_version).map(|(_, name)| *name).collect(),
    };
    let missing: Vec<&str> = features.iter().map(String::as_str).filter(|feature| !known.contains(feature)).collect();
    if missing.is_empty() {
        return protocol;
    }
    let numbered = |feature: &&str| IMPLIED.iter().find(|(_, name)| name == feature).map(|(version, _)| *version);
    let numbers: Option<Vec<i32>> = missing.iter().map(numbered).collect();
    if let (Some(numbers), None) = (numbers, &protocol.writer_features) {
        protocol.min_writer_version = numbers.into_iter().chain([protocol.min_writer_version]).max().unwrap_or(protocol.min_writer_version);
        if missing.contains(&"columnMapping") {
            protocol.min_reader_version = protocol.min_reader_version.max(2);
        }
        return protocol;
    }
    let mut writer: Vec<String> = known.iter().map(|name| (*name).to_owned()).collect();
    let mut reader = protocol
        .reader_features
        .clone()
        .unwrap_or_else(|| if protocol.min_reader_version == 2 { vec!["columnMapping".to_owned()] } else { Vec::new() });
    for feature in missing {
        let needs = NEEDED_BY.iter().filter(|(name, _)| *name == feature).map(|(_, needed)| *needed);
        for feature in needs.chain([feature]) {
            if !has(&writer, feature) {
                writer.push(feature.to_owned());
            }
            if OF_READERS.contains(&feature) && !has(&reader, feature) {
                reader.push(feature.to_owned());
            }
        }
    }
    let reads = !reader.is_empty() || protocol.min_reader_version >= NEWEST_READER;
    Protocol {
        min_reader_version: if reads { NEWEST_READER } else { protocol.min_reader_version },
        min_writer_version: NEWEST_WRITER,
        reader_features: reads.then_some(reader),
        writer_features: Some(writer),
    }
}

/// The protocol with version numbers that are not lower than these.
///
/// # Errors
/// `DELTA_INVALID_PROTOCOL_VERSION` for versions that nobody knows.
pub(super) fn at_least(protocol: Protocol, reader: i32, writer: i32) -> Result<Protocol> {
    if !(1..=NEWEST_READER).contains(&reader) || !(1..=NEWEST_WRITER).contains(&writer) {
        let message = format!("there is no version ({reader}, {writer}) of the protocol: use up to ({NEWEST_READER}, {NEWEST_WRITER})");
        return Err(Error::invalid("DELTA_INVALID_PROTOCOL_VERSION", message).with_sqlstate("KD004"));
    }
    if writer >= NEWEST_WRITER && protocol.writer_features.is_none() {
        let implied = IMPLIED.iter().filter(|(version, _)| *version <= protocol.min_writer_version);
        let writer_features = Some(implied.map(|(_, name)| (*name).to_owned()).collect());
        let reader_features = (reader >= NEWEST_READER).then(Vec::new);
        return Ok(Protocol {
            min_reader_version: reader.max(protocol.min_reader_version),
            min_writer_version: writer,
            reader_features,
            writer_features,
        });
    }
    Ok(Protocol {
        min_reader_version: protocol.min_reader_version.max(reader),
        min_writer_version: protocol.min_writer_version.max(writer),
        ..protocol
    })
}

/// The protocol of a new table whose schema has a `timestamp_ntz` or not.
pub(super) fn for_new_table(timestamp_ntz: bool, change_data_feed: bool) -> Protocol {
    let wanted = [(timestamp_ntz, "timestampNtz"), (change_data_feed, "changeDataFeed")];
    let features: Vec<String> = wanted.iter().filter(|(wanted, _)| *wanted).map(|(_, name)| (*name).to_owned()).collect();
    with_features(None, &features)
}

/// The protocol with `timestampNtz`; what older version numbers implied becomes explicit.
pub(super) fn with_timestamp_ntz(protocol: &Protocol) -> Protocol {
    with_features(Some(protocol), &["timestampNtz".to_owned()])
}

/// Whether the protocol has `timestampNtz`.
pub(super) fn has_timestamp_ntz(protocol: &Protocol) -> bool {
    protocol.writer_features.as_ref().is_some_and(|features| has(features, "timestampNtz"))
}

fn has(features: &[String], name: &str) -> bool {
    features.iter().any(|feature| feature == name)
}

/// Checks that rows of the table can be read rightly.
///
/// # Errors
/// `DELTA_UNSUPPORTED_FEATURES_FOR_READ`, `DELTA_INVALID_PROTOCOL_VERSION`.
pub(super) fn check_readable(protocol: &Protocol, table: &str) -> Result<()> {
    if protocol.min_reader_version > NEWEST_READER {
        return Err(too_new("reader", protocol.min_reader_version, table));
    }
    let unknown: Vec<&str> =
        protocol.reader_features.iter().flatten().map(String::as_str).filter(|feature| !READABLE.contains(feature)).collect();
    if protocol.min_reader_version >= 3 && !unknown.is_empty() {
        return Err(refused("DELTA_UNSUPPORTED_FEATURES_FOR_READ", "read", &unknown, table));
    }
    Ok(())
}

/// Checks that Millstream can append to the table, or change rows that are there (`overwrite`).
///
/// # Errors
/// `DELTA_UNSUPPORTED_FEATURES_FOR_WRITE`, `DELTA_INVALID_PROTOCOL_VERSION`, and `DELTA_CANNOT_MODIFY_APPEND_ONLY` for an overwrite.
pub(super) fn check_writable(current: Current<'_>, overwrite: bool, table: &str) -> Result<()> {
    let Current { protocol, metadata, schema, cared_for } = current;
    check_readable(protocol, table)?;
    if protocol.min_writer_version > NEWEST_WRITER {
        return Err(too_new("writer", protocol.min_writer_version, table));
    }
    let mut refusals: Vec<&str> = in_use(metadata, schema);
    refusals.retain(|feature| !cared_for.iter().any(|known| known == feature));
    if protocol.min_writer_version >= 7 {
        let listed = protocol.writer_features.iter().flatten().map(String::as_str);
        refusals.extend(listed.filter(|feature| !WRITABLE.contains(feature) && !WRITABLE_WHEN_UNUSED.contains(feature)));
    }
    if !refusals.is_empty() {
        return Err(refused("DELTA_UNSUPPORTED_FEATURES_FOR_WRITE", "write", &refusals, table));
    }
    if overwrite && metadata.flag("delta.appendOnly") {
        return Err(Error::invalid(
            "DELTA_CANNOT_MODIFY_APPEND_ONLY",
            format!("table {table} has the property delta.appendOnly, so that its rows can be neither replaced nor removed: append to it"),
        )
        .with_sqlstate("42809"));
    }
    Ok(())
}

/// Features that the table uses and this crate cannot honour when writing, whatever the protocol's version.
fn in_use(metadata: &Metadata, schema: &TableSchema) -> Vec<&'static str> {
    let mut used = Vec::new();
    if metadata.configuration.keys().any(|key| key.starts_with("delta.constraints.")) {
        used.push("checkConstraints");
    }
    if metadata.configuration.get("delta.columnMapping.mode").is_some_and(|mode| mode != "none") {
        used.push("columnMapping");
    }
    if metadata.flag("delta.enableInCommitTimestamps") {
        used.push("inCommitTimestamp");
    }
    if metadata.flag("delta.enableRowTracking") {
        used.push("rowTracking");
    }
    for (key, feature) in [
        ("delta.invariants", "invariants"),
        ("delta.generationExpression", "generatedColumns"),
        ("delta.identity.start", "identityColumns"),
        ("CURRENT_DEFAULT", "allowColumnDefaults"),
    ] {
        if schema.any_field_has(key) {
            used.push(feature);
        }
    }
    used
}

fn refused(code: &'static str, verb: &str, features: &[&str], table: &str) -> Error {
    Error::invalid(
        code,
        format!(
            "table {table} uses table features that Millstream cannot {verb}: {}. Drop the features from the table, or {verb} it with Spark.",
            features.join(", ")
        ),
    )
    .with_sqlstate("56038")
}

fn too_new(side: &str, version: i32, table: &str) -> Error {
    Error::new(
        ErrorKind::Invalid,
        "DELTA_INVALID_PROTOCOL_VERSION",
        format!("table {table} needs {side} version {version} of the Delta protocol, newer than Millstream knows: use a newer Millstream"),
    )
    .with_sqlstate("KD004")
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    fn current<'a>(protocol: &'a Protocol, metadata: &'a Metadata, schema: &'a Arc<TableSchema>) -> Current<'a> {
        Current { protocol, metadata, schema, cared_for: &[] }
    }

    fn table(configuration: &[(&str, &str)], field_metadata: &str) -> (Metadata, Arc<TableSchema>) {
        let metadata = Metadata {
            schema_string: format!(
                r#"{{"type":"struct","fields":[{{"name":"a","type":"long","nullable":true,"metadata":{{{field_metadata}}}}}]}}"#
            ),
            configuration: configuration.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect(),
            ..Metadata::default()
        };
        let schema = TableSchema::of(&metadata, ErrorKind::SinkUnavailable).unwrap();
        (metadata, Arc::new(schema))
    }

    fn features(reader: &[&str], writer: &[&str]) -> Protocol {
        let own = |names: &[&str]| Some(names.iter().map(|name| (*name).to_owned()).collect());
        Protocol { min_reader_version: 3, min_writer_version: 7, reader_features: own(reader), writer_features: own(writer) }
    }

    #[test]
    fn unknown_features_are_refused_by_name() {
        let (metadata, schema) = table(&[], "");
        let error = check_readable(&features(&["variantType"], &[]), "t").unwrap_err();
        assert_eq!(error.code(), "DELTA_UNSUPPORTED_FEATURES_FOR_READ");
        assert!(error.message().contains("variantType"), "{error}");
        let error = check_writable(current(&features(&[], &["rowTracking", "appendOnly"]), &metadata, &schema), false, "t").unwrap_err();
        assert_eq!(error.code(), "DELTA_UNSUPPORTED_FEATURES_FOR_WRITE");
        assert!(error.message().contains("rowTracking") && !error.message().contains("appendOnly"), "{error}");
        assert_eq!(check_readable(&Protocol { min_reader_version: 4, ..Protocol::default() }, "t").unwrap_err().sqlstate(), Some("KD004"));
    }

    #[test]
    fn features_count_only_when_the_table_uses_them() {
        let old = Protocol { min_reader_version: 2, min_writer_version: 6, ..Protocol::default() };
        let (metadata, schema) = table(&[], "");
        check_writable(current(&old, &metadata, &schema), false, "t").unwrap();
        check_writable(
            current(&features(&["columnMapping"], &["columnMapping", "checkConstraints", "invariants"]), &metadata, &schema),
            true,
            "t",
        )
        .unwrap();
        for (configuration, field, feature) in [
            (&[("delta.constraints.positive", "a > 0")][..], "", "checkConstraints"),
            (&[("delta.columnMapping.mode", "name")], "", "columnMapping"),
            (&[], r#""delta.generationExpression":"b + 1""#, "generatedColumns"),
            (&[], r#""delta.invariants":"{}""#, "invariants"),
            (&[("delta.enableInCommitTimestamps", "true")], "", "inCommitTimestamp"),
        ] {
            let (metadata, schema) = table(configuration, field);
            let error = check_writable(current(&old, &metadata, &schema), false, "t").unwrap_err();
            assert!(error.message().contains(feature), "{error}");
        }
    }

    #[test]
    fn append_only_tables_take_appends_only() {
        let (metadata, schema) = table(&[("delta.appendOnly", "true")], "");
        let protocol = for_new_table(false, false);
        check_writable(current(&protocol, &metadata, &schema), false, "t").unwrap();
        assert_eq!(
            check_writable(current(&protocol, &metadata, &schema), true, "t").unwrap_err().code(),
            "DELTA_CANNOT_MODIFY_APPEND_ONLY"
        );
    }

    #[test]
    fn timestamp_ntz_makes_implied_features_explicit() {
        let upgraded = with_timestamp_ntz(&Protocol { min_reader_version: 1, min_writer_version: 4, ..Protocol::default() });
        assert_eq!((upgraded.min_reader_version, upgraded.min_writer_version), (3, 7));
        assert_eq!(upgraded.reader_features.unwrap(), ["timestampNtz"]);
        let writer = upgraded.writer_features.unwrap();
        assert!(["appendOnly", "invariants", "checkConstraints", "changeDataFeed", "timestampNtz"].iter().all(|name| has(&writer, name)));
    }
}
