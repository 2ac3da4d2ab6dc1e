//! The actions of a Delta log, as far as Millstream reads and writes them. Unknown actions and fields are skipped on reading.

use std::collections::BTreeMap;

use bytes::Bytes;
use millstream_core::{Error, ErrorKind, Result};
use percent_encoding::{AsciiSet, CONTROLS, percent_decode_str, utf8_percent_encode};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Values of partition columns by (physical) column name; `None` is null.
pub type PartitionValues = BTreeMap<String, Option<String>>;

/// A data file that becomes part of the table.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Add {
    /// URI-encoded, relative to the table unless it has a scheme. Kept as written, because log replay compares it as text.
    pub path: String,
    #[serde(default)]
    pub partition_values: PartitionValues,
    /// Bytes of the file.
    pub size: u64,
    /// Milliseconds since the epoch.
    pub modification_time: i64,
    /// Whether the commit changes what the table contains; `false` for rearranged rows (OPTIMIZE).
    pub data_change: bool,
    /// Statistics as JSON text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stats: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tags: Option<PartitionValues>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deletion_vector: Option<DeletionVector>,
}

impl Add {
    /// The removal of this file.
    pub fn removal(&self, now_ms: i64) -> Remove {
        Remove {
            path: self.path.clone(),
            deletion_timestamp: Some(now_ms),
            data_change: true,
            extended_file_metadata: Some(true),
            partition_values: Some(self.partition_values.clone()),
            size: Some(self.size),
            deletion_vector: self.deletion_vector.clone(),
        }
    }

    /// What names the file in log replay: path and deletion vector.
    pub fn key(&self) -> (String, Option<String>) {
        (self.path.clone(), self.deletion_vector.as_ref().map(DeletionVector::id))
    }

    /// Rows in the file that are not deleted, where the statistics tell.
    pub fn rows(&self) -> Option<u64> {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Stats {
            num_records: Option<u64>,
        }
        let stats: Stats = serde_json::from_str(self.stats.as_deref()?).ok()?;
        let deleted = self.deletion_vector.as_ref().map_or(0, |vector| vector.cardinality);
        Some(stats.num_records?.saturating_sub(deleted))
    }
}

/// A data file that stops being part of the table.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Remove {
    /// As in [`Add::path`].
    pub path: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deletion_timestamp: Option<i64>,
    #[serde(default = "yes")]
    pub data_change: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub extended_file_metadata: Option<bool>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub partition_values: Option<PartitionValues>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deletion_vector: Option<DeletionVector>,
}

impl Remove {
    /// As [`Add::key`].
    pub fn key(&self) -> (String, Option<String>) {
        (self.path.clone(), self.deletion_vector.as_ref().map(DeletionVector::id))
    }
}

fn yes() -> bool {
    true
}

/// Where the deleted rows of a file are listed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DeletionVector {
    /// `u`: a file named by UUID inside the table, `i`: inline, `p`: an absolute path.
    pub storage_type: String,
    pub path_or_inline_dv: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub offset: Option<i32>,
    pub size_in_bytes: i32,
    /// Deleted rows.
    pub cardinality: u64,
}

impl DeletionVector {
    fn id(&self) -> String {
        match self.offset {
            Some(offset) => format!("{}{}@{offset}", self.storage_type, self.path_or_inline_dv),
            None => format!("{}{}", self.storage_type, self.path_or_inline_dv),
        }
    }
}

/// Name, schema and properties of the table.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Metadata {
    /// Identifies the table, whatever its location.
    pub id: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    #[serde(default)]
    pub format: Format,
    /// The schema as JSON text in Spark's form.
    pub schema_string: String,
    #[serde(default)]
    pub partition_columns: Vec<String>,
    #[serde(default)]
    pub configuration: BTreeMap<String, String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub created_time: Option<i64>,
}

impl Metadata {
    /// Whether a boolean table property is on.
    pub fn flag(&self, property: &str) -> bool {
        self.configuration.get(property).is_some_and(|value| value.eq_ignore_ascii_case("true"))
    }

    /// A table property as a whole number.
    pub fn number(&self, property: &str) -> Option<i64> {
        self.configuration.get(property).and_then(|value| value.trim().parse().ok())
    }
}

/// The encoding of data files; always parquet.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Format {
    pub provider: String,
    #[serde(default)]
    pub options: BTreeMap<String, String>,
}

impl Default for Format {
    fn default() -> Self {
        Format { provider: "parquet".into(), options: BTreeMap::new() }
    }
}

/// What readers and writers of the table have to know.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Protocol {
    /// The version of the protocol that a reader has to know.
    pub min_reader_version: i32,
    /// The version of the protocol that a writer has to know.
    pub min_writer_version: i32,
    /// Features that a reader has to know, from reader version 3 on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reader_features: Option<Vec<String>>,
    /// Features that a writer has to know, from writer version 7 on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub writer_features: Option<Vec<String>>,
}

/// How far an application's writes have come.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Txn {
    pub app_id: String,
    pub version: i64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_updated: Option<i64>,
}

/// A file of changed rows, for readers of the change data feed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Cdc {
    /// As in [`Add::path`].
    pub path: String,
    #[serde(default)]
    pub partition_values: PartitionValues,
    /// Bytes of the file.
    pub size: u64,
    #[serde(default)]
    pub data_change: bool,
}

/// What a feature keeps in the log about the table, such as the columns that it is clustered by.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DomainMetadata {
    pub domain: String,
    /// JSON text.
    #[serde(default)]
    pub configuration: String,
    #[serde(default)]
    pub removed: bool,
}

/// Provenance of a commit: free JSON, by convention with `timestamp`, `operation`, `operationParameters`.
pub type CommitInfo = serde_json::Map<String, Value>;

#[derive(Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
struct Line {
    #[serde(skip_serializing_if = "Option::is_none")]
    commit_info: Option<CommitInfo>,
    #[serde(skip_serializing_if = "Option::is_none")]
    protocol: Option<Protocol>,
    #[serde(rename = "metaData", skip_serializing_if = "Option::is_none")]
    metadata: Option<Metadata>,
    #[serde(skip_serializing_if = "Option::is_none")]
    txn: Option<Txn>,
    #[serde(skip_serializing_if = "Option::is_none")]
    add: Option<Add>,
    #[serde(skip_serializing_if = "Option::is_none")]
    remove: Option<Remove>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cdc: Option<Cdc>,
    #[serde(skip_serializing_if = "Option::is_none")]
    domain_metadata: Option<DomainMetadata>,
}

/// One commit: the contents of `_delta_log/<version>.json`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Commit {
    pub info: Option<CommitInfo>,
    pub protocol: Option<Protocol>,
    pub metadata: Option<Metadata>,
    pub txns: Vec<Txn>,
    pub adds: Vec<Add>,
    pub removes: Vec<Remove>,
    pub cdcs: Vec<Cdc>,
    pub domains: Vec<DomainMetadata>,
}

impl Commit {
    /// Reads a commit file.
    ///
    /// # Errors
    /// `DELTA_LOG_CORRUPT` of `kind` when it is empty or a line is not an action.
    pub fn parse(version: u64, bytes: &[u8], kind: ErrorKind) -> Result<Self> {
        let corrupt = |detail: String| {
            Error::new(
                kind,
                "DELTA_LOG_CORRUPT",
                format!("commit {version} of the Delta log cannot be read ({detail}): restore the file from a backup or repair the table"),
            )
        };
        if bytes.iter().all(u8::is_ascii_whitespace) {
            return Err(corrupt("it is empty".into()));
        }
        let mut commit = Commit::default();
        for (number, line) in bytes.split(|byte| *byte == b'\n').enumerate() {
            if line.iter().all(u8::is_ascii_whitespace) {
                continue;
            }
            let line: Line = serde_json::from_slice(line).map_err(|error| corrupt(format!("line {}", number + 1)).caused_by(error))?;
            commit.info = commit.info.or(line.commit_info);
            commit.protocol = commit.protocol.or(line.protocol);
            commit.metadata = commit.metadata.or(line.metadata);
            commit.txns.extend(line.txn);
            commit.adds.extend(line.add);
            commit.removes.extend(line.remove);
            commit.cdcs.extend(line.cdc);
            commit.domains.extend(line.domain_metadata);
        }
        Ok(commit)
    }

    /// The bytes of the commit file.
    ///
    /// # Errors
    /// `INTERNAL_ERROR` when an action does not serialise.
    pub fn to_bytes(&self) -> Result<Bytes> {
        let mut out = Vec::with_capacity(512 + 512 * (self.adds.len() + self.removes.len()));
        let mut put = |line: Line| -> Result<()> {
            serde_json::to_writer(&mut out, &line)
                .map_err(|error| Error::internal("an action of a Delta commit does not serialise").caused_by(error))?;
            out.push(b'\n');
            Ok(())
        };
        put(Line { commit_info: Some(self.info.clone().unwrap_or_default()), ..Line::default() })?;
        if let Some(protocol) = &self.protocol {
            put(Line { protocol: Some(protocol.clone()), ..Line::default() })?;
        }
        if let Some(metadata) = &self.metadata {
            put(Line { metadata: Some(metadata.clone()), ..Line::default() })?;
        }
        for txn in &self.txns {
            put(Line { txn: Some(txn.clone()), ..Line::default() })?;
        }
        for domain in &self.domains {
            put(Line { domain_metadata: Some(domain.clone()), ..Line::default() })?;
        }
        for remove in &self.removes {
            put(Line { remove: Some(remove.clone()), ..Line::default() })?;
        }
        for add in &self.adds {
            put(Line { add: Some(add.clone()), ..Line::default() })?;
        }
        for cdc in &self.cdcs {
            put(Line { cdc: Some(cdc.clone()), ..Line::default() })?;
        }
        Ok(Bytes::from(out))
    }

    /// The time of the commit if it carries an in-commit timestamp, in milliseconds since the epoch.
    pub fn in_commit_timestamp(&self) -> Option<i64> {
        self.info.as_ref()?.get("inCommitTimestamp")?.as_i64()
    }
}

/// What is encoded in the path of an action: everything that is not allowed in a URI, and the percent sign itself.
const PATH: &AsciiSet = &CONTROLS
    .add(b' ')
    .add(b'"')
    .add(b'#')
    .add(b'%')
    .add(b'<')
    .add(b'>')
    .add(b'?')
    .add(b'[')
    .add(b'\\')
    .add(b']')
    .add(b'^')
    .add(b'`')
    .add(b'{')
    .add(b'|')
    .add(b'}');

/// A path inside the table as it is written into an action.
pub fn encode_path(path: &str) -> String {
    utf8_percent_encode(path, PATH).to_string()
}

/// The path that an action's text names.
///
/// # Errors
/// `DELTA_LOG_CORRUPT` of `kind` when it is not UTF-8 once decoded.
pub fn decode_path(path: &str, kind: ErrorKind) -> Result<String> {
    percent_decode_str(path)
        .decode_utf8()
        .map(|path| path.into_owned())
        .map_err(|error| Error::new(kind, "DELTA_LOG_CORRUPT", format!("the path '{path}' in the Delta log is not UTF-8")).caused_by(error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_commit_survives_writing_and_reading() {
        let commit = Commit {
            info: Some(CommitInfo::new()),
            protocol: Some(Protocol { min_reader_version: 1, min_writer_version: 2, ..Protocol::default() }),
            metadata: Some(Metadata { id: "t".into(), schema_string: "{}".into(), ..Metadata::default() }),
            txns: vec![Txn { app_id: "a".into(), version: 7, last_updated: Some(1) }],
            adds: vec![Add { path: "p=1/x".into(), partition_values: [("p".to_owned(), None)].into(), size: 3, ..Add::default() }],
            removes: vec![Add { path: "y".into(), ..Add::default() }.removal(5)],
            cdcs: vec![Cdc { path: "_change_data/z".into(), size: 2, ..Cdc::default() }],
            domains: vec![DomainMetadata { domain: "delta.clustering".into(), configuration: "{}".into(), removed: false }],
        };
        let bytes = commit.to_bytes().unwrap();
        assert!(bytes.starts_with(b"{\"commitInfo\""), "the commit info comes first");
        assert_eq!(Commit::parse(0, &bytes, ErrorKind::SinkUnavailable).unwrap(), commit);
    }

    #[test]
    fn unknown_actions_are_skipped_and_broken_files_are_named() {
        let text = b"{\"checkpointMetadata\":{\"version\":1}}\n{\"sidecar\":{\"path\":\"x\"}}\n";
        assert_eq!(Commit::parse(0, text, ErrorKind::SourceUnavailable).unwrap(), Commit::default());
        for text in [&b""[..], b"\n", b"\0\0\0", b"{\"add\":{\"path\":"] {
            let error = Commit::parse(9, text, ErrorKind::SourceUnavailable).unwrap_err();
            assert_eq!(error.code(), "DELTA_LOG_CORRUPT");
            assert!(error.message().contains("commit 9"), "{error}");
        }
    }

    #[test]
    fn paths_are_encoded_once() {
        for path in ["p=a b/x", "p=100%25/x", "p=ü#?/x", "plain/x.parquet"] {
            let encoded = encode_path(path);
            assert!(!encoded.contains(' ') && !encoded.contains('#'), "{encoded}");
            assert_eq!(decode_path(&encoded, ErrorKind::SinkUnavailable).unwrap(), path);
        }
        assert_eq!(encode_path("p=100%25/x"), "p=100%2525/x");
    }
}
