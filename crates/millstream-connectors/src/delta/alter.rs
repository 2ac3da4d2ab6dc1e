//! Commits that change what a table is: its columns, properties and protocol.

use std::sync::Arc;

use millstream_core::versioned::{Alteration, Reads};
use millstream_core::{Error, ErrorKind, Result};
use serde_json::{Value, json};

use super::actions::{Commit, CommitInfo, Metadata};
use super::definition;
use super::plan::Current;
use super::protocol;
use super::publish::{Published, Publisher};
use super::schema::TableSchema;
use super::versioned::DeltaVersion;

/// How often other writers may win before an alteration gives up.
const CONFLICTS: u32 = 200;

/// Features of columns and constraints that an alteration keeps as they are.
const KEPT: [&str; 5] = ["checkConstraints", "generatedColumns", "invariants", "allowColumnDefaults", "identityColumns"];

/// Commits an alteration. Gives the new version.
pub(super) async fn alter(table: &DeltaVersion, alteration: Alteration) -> Result<u64> {
    let (log, base) = (&table.log, &table.base);
    let mut metadata = base.metadata.clone();
    if let Some(schema) = &alteration.schema {
        metadata.schema_string = super::plan::schema_text(&definition::parse(schema)?)?;
    }
    if let Some(properties) = &alteration.properties {
        let new = properties.iter().filter(|(key, value)| base.metadata.configuration.get(*key) != Some(*value)).map(|(key, _)| key);
        definition::check_properties(new)?;
        let kept = properties.iter().filter(|(key, _)| !key.starts_with("delta.feature.") && !definition::is_protocol(key));
        metadata.configuration = kept.map(|(key, value)| (definition::spelt(key), value.clone())).collect();
    }
    if let Some(description) = &alteration.description {
        metadata.description.clone_from(description);
    }
    let schema = Arc::new(TableSchema::of(&metadata, ErrorKind::SinkUnavailable)?);
    let mut features = protocol::needed(
        &Metadata { configuration: alteration.properties.clone().unwrap_or_else(|| metadata.configuration.clone()), ..metadata.clone() },
        &schema,
        alteration.clustering_columns.as_ref().is_some_and(|columns| !columns.is_empty()),
    );
    features.extend(alteration.features.iter().cloned());
    let mut wanted = protocol::with_features(Some(&base.protocol), &features);
    if let Some((reader, writer)) = alteration.protocol {
        wanted = protocol::at_least(wanted, reader, writer)?;
    }
    let kept: Vec<String> = KEPT.iter().map(|feature| (*feature).to_owned()).collect();
    let current = Current { protocol: &wanted, metadata: &metadata, schema: &schema, cared_for: &kept };
    protocol::check_writable(current, false, log.url().as_str())?;
    let domains = match &alteration.clustering_columns {
        Some(columns) => definition::clustering(columns, true),
        None => Vec::new(),
    };
    let mut info = CommitInfo::new();
    info.insert("timestamp".to_owned(), json!(table.clock.now_ms()));
    info.insert("operation".to_owned(), json!(alteration.operation.name));
    let parameters: serde_json::Map<String, Value> =
        alteration.operation.parameters.iter().map(|(name, text)| (name.clone(), definition::parameter(text))).collect();
    info.insert("operationParameters".to_owned(), Value::Object(parameters));
    info.insert("readVersion".to_owned(), json!(base.version));
    info.insert("isolationLevel".to_owned(), json!("Serializable"));
    info.insert("isBlindAppend".to_owned(), json!(true));
    info.insert("operationMetrics".to_owned(), json!({}));
    info.insert("engineInfo".to_owned(), json!(concat!("Millstream/", env!("CARGO_PKG_VERSION"))));
    info.insert("txnId".to_owned(), json!(table.ids.next().to_string()));
    let commit = Commit {
        info: Some(info),
        protocol: (wanted != base.protocol).then_some(wanted),
        metadata: (metadata != base.metadata).then_some(metadata),
        domains,
        ..Commit::default()
    };
    let bytes = commit.to_bytes()?;
    let publisher = Publisher::new(log.clone(), table.clock.clone());
    let mut version = base.version + 1;
    for _ in 0..CONFLICTS {
        match publisher.publish(version, &bytes).await? {
            Published::Ours => return Ok(version),
            Published::Theirs(theirs) => {
                let changed = theirs.metadata.is_some() || theirs.protocol.is_some();
                let added = alteration.reads == Reads::Table && theirs.adds.iter().any(|add| add.data_change);
                if changed || added {
                    let message = format!(
                        "table {} was changed by another writer (version {version}) while it was altered: run the statement again",
                        log.url()
                    );
                    let code = if changed { "DELTA_METADATA_CHANGED" } else { "DELTA_CONCURRENT_APPEND.WITHOUT_HINT" };
                    return Err(Error::new(ErrorKind::SinkUnavailable, code, message).with_sqlstate("2D521"));
                }
                version += 1;
            }
        }
    }
    let message = format!("other writers won {CONFLICTS} commits of table {} in a row: have fewer writers, or try again", log.url());
    Err(Error::new(ErrorKind::SinkUnavailable, "DELTA_MAX_COMMIT_RETRIES_EXCEEDED_EXCEPTION", message).with_sqlstate("40000"))
}
