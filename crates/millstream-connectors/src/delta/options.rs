//! Options of the Delta source, table and sink.

use std::collections::BTreeMap;

use chrono::{DateTime, NaiveDate, NaiveDateTime};
use millstream_core::options::{OptionKind, OptionSpec};
use millstream_core::registry::{ReadRequest, WriteRequest};
use millstream_core::{Error, Options, ReadLimit, Result};
use parquet::basic::{Compression, GzipLevel, ZstdLevel};
use regex::Regex;

/// Options of the sink.
pub(super) const SINK: &[OptionSpec] = &[
    OptionSpec { name: "path", kind: OptionKind::Text, default: None, doc: "Path or URL of the table." },
    OptionSpec {
        name: "mergeSchema",
        kind: OptionKind::Bool,
        default: Some("false"),
        doc: "Adds columns of the rows, nested ones too, that the table does not have.",
    },
    OptionSpec {
        name: "overwriteSchema",
        kind: OptionKind::Bool,
        default: Some("false"),
        doc: "In complete mode, replaces the table's schema and partitioning by those of the rows.",
    },
    OptionSpec {
        name: "partitionBy",
        kind: OptionKind::Text,
        default: None,
        doc: "Columns to partition a new table by, with commas; must match an existing table.",
    },
    OptionSpec {
        name: "txnAppId",
        kind: OptionKind::Text,
        default: None,
        doc: "The application id of transactions, instead of the query id. A new checkpoint needs a new one, or its first batches are skipped.",
    },
    OptionSpec {
        name: "txnVersion",
        kind: OptionKind::Integer { min: 0 },
        default: None,
        doc: "The transaction version, instead of the batch id; for a single write such as inside foreachBatch.",
    },
    OptionSpec { name: "userMetadata", kind: OptionKind::Text, default: None, doc: "Text recorded with every commit." },
    OptionSpec {
        name: "targetFileSize",
        kind: OptionKind::Bytes,
        default: Some("128m"),
        doc: "About how large a data file may become before the next one is begun.",
    },
    OptionSpec {
        name: "compression",
        kind: OptionKind::OneOf(&["snappy", "zstd", "gzip", "lz4", "none", "uncompressed"]),
        default: Some("snappy"),
        doc: "Compression of data files.",
    },
    OptionSpec {
        name: "checkpointInterval",
        kind: OptionKind::Integer { min: 1 },
        default: None,
        doc: "Commits between log checkpoints; the table property delta.checkpointInterval, else 100, when not given.",
    },
];

/// Options of the source and of tables.
pub(super) const SOURCE: &[OptionSpec] = &[
    OptionSpec { name: "path", kind: OptionKind::Text, default: None, doc: "Path or URL of the table." },
    OptionSpec {
        name: "maxFilesPerTrigger",
        kind: OptionKind::Integer { min: 1 },
        default: Some("1000"),
        doc: "At most this many files in a batch.",
    },
    OptionSpec {
        name: "maxBytesPerTrigger",
        kind: OptionKind::Bytes,
        default: None,
        doc: "Files are added to a batch until they have this many bytes.",
    },
    OptionSpec {
        name: "startingVersion",
        kind: OptionKind::Text,
        default: None,
        doc: "The first version to read, or 'latest' for what comes next; without it a new query begins with the whole table.",
    },
    OptionSpec {
        name: "startingTimestamp",
        kind: OptionKind::Text,
        default: None,
        doc: "The first commit to read is the first one at or after this time (UTC unless it has a zone).",
    },
    OptionSpec {
        name: "ignoreDeletes",
        kind: OptionKind::Bool,
        default: Some("false"),
        doc: "Goes on at commits that only delete rows, without passing the deletion on.",
    },
    OptionSpec {
        name: "ignoreChanges",
        kind: OptionKind::Bool,
        default: Some("false"),
        doc: "Goes on at commits that rewrite files and passes on every row of the new files, unchanged rows included.",
    },
    OptionSpec {
        name: "skipChangeCommits",
        kind: OptionKind::Bool,
        default: Some("false"),
        doc: "Leaves out commits that delete or rewrite rows.",
    },
    OptionSpec { name: "excludeRegex", kind: OptionKind::Text, default: None, doc: "Leaves out files whose path matches." },
    OptionSpec {
        name: "failOnDataLoss",
        kind: OptionKind::Bool,
        default: Some("true"),
        doc: "Fails when the log no longer has a version that was not read yet; otherwise goes on at the earliest one there is.",
    },
    OptionSpec {
        name: "readChangeFeed",
        kind: OptionKind::Bool,
        default: Some("false"),
        doc: "Reads what happened to rows (_change_type, _commit_version, _commit_timestamp) instead of the rows.",
    },
    OptionSpec { name: "readChangeData", kind: OptionKind::Bool, default: Some("false"), doc: "The older name of readChangeFeed." },
    OptionSpec {
        name: "endingVersion",
        kind: OptionKind::Integer { min: 0 },
        default: None,
        doc: "Batch read of changes: the last version to read.",
    },
    OptionSpec {
        name: "endingTimestamp",
        kind: OptionKind::Text,
        default: None,
        doc: "Batch read of changes: reads up to the newest version at this time (UTC unless it has a zone).",
    },
    OptionSpec { name: "versionAsOf", kind: OptionKind::Integer { min: 0 }, default: None, doc: "Batch read: the version to read." },
    OptionSpec {
        name: "timestampAsOf",
        kind: OptionKind::Text,
        default: None,
        doc: "Batch read: reads the newest version at this time (UTC unless it has a zone).",
    },
];

/// Options of Spark's that change what is read, and that are refused rather than ignored.
const UNSUPPORTED: &[&str] = &["schemaTrackingLocation", "withEventTimeOrder"];

/// Table properties that a new table may be given through options.
const PROPERTIES: &[&str] = &[
    "delta.appendOnly",
    "delta.checkpointInterval",
    "delta.dataSkippingNumIndexedCols",
    "delta.deletedFileRetentionDuration",
    "delta.enableChangeDataFeed",
    "delta.enableExpiredLogCleanup",
    "delta.logRetentionDuration",
    "delta.setTransactionRetentionDuration",
    "delta.targetFileSize",
];

/// Options of the sink, read and checked.
#[derive(Clone, Debug)]
pub(super) struct SinkOptions {
    pub path: String,
    pub partition_by: Vec<String>,
    pub merge_schema: bool,
    pub overwrite_schema: bool,
    pub txn_app_id: Option<String>,
    pub txn_version: Option<i64>,
    pub user_metadata: Option<String>,
    pub target_file_size: u64,
    pub compression: Compression,
    pub checkpoint_interval: Option<u64>,
    /// Properties of a new table.
    pub properties: BTreeMap<String, String>,
}

impl SinkOptions {
    pub(super) fn of(request: &WriteRequest) -> Result<Self> {
        let options = &request.options;
        options.check(SINK)?;
        let path = path_of(request.path.as_deref().or(options.get("path")))?;
        let partition_by = match (request.partition_by.is_empty(), options.get("partitionBy")) {
            (true, Some(text)) => text.split(',').map(str::trim).filter(|name| !name.is_empty()).map(str::to_owned).collect(),
            _ => request.partition_by.clone(),
        };
        let txn_version = options.integer("txnVersion", 0)?;
        if txn_version.is_some() && options.get("txnAppId").is_none() {
            return Err(Error::invalid("INVALID_OPTION_VALUE", "option 'txnVersion' needs the option 'txnAppId'"));
        }
        let mut properties = BTreeMap::new();
        for (name, value) in options.iter().filter(|(name, _)| name.to_lowercase().starts_with("delta.")) {
            let Some(known) = PROPERTIES.iter().find(|known| known.eq_ignore_ascii_case(name)) else {
                return Err(Error::invalid(
                    "DELTA_UNSUPPORTED_TABLE_PROPERTY",
                    format!("table property '{name}' cannot be set here: use one of {}, or create the table first", PROPERTIES.join(", ")),
                ));
            };
            properties.insert((*known).to_owned(), value.to_owned());
        }
        let target = options.bytes("targetFileSize")?.unwrap_or(128 << 20);
        Ok(SinkOptions {
            path,
            partition_by,
            merge_schema: options.bool("mergeSchema", false)?,
            overwrite_schema: options.bool("overwriteSchema", false)?,
            txn_app_id: options.get("txnAppId").map(str::to_owned),
            txn_version,
            user_metadata: options.get("userMetadata").map(str::to_owned),
            target_file_size: target,
            compression: compression(options.get("compression").unwrap_or("snappy"))?,
            checkpoint_interval: options.integer("checkpointInterval", 1)?.and_then(|interval| u64::try_from(interval).ok()),
            properties,
        })
    }
}

fn compression(name: &str) -> Result<Compression> {
    Ok(match name.to_ascii_lowercase().as_str() {
        "snappy" => Compression::SNAPPY,
        "zstd" => Compression::ZSTD(ZstdLevel::default()),
        "gzip" => Compression::GZIP(GzipLevel::default()),
        "lz4" => Compression::LZ4_RAW,
        "none" | "uncompressed" => Compression::UNCOMPRESSED,
        _ => {
            return Err(Error::invalid(
                "INVALID_OPTION_VALUE",
                format!("unknown compression '{name}': use snappy, zstd, gzip, lz4 or none"),
            ));
        }
    })
}

fn path_of(path: Option<&str>) -> Result<String> {
    path.filter(|path| !path.trim().is_empty()).map(str::to_owned).ok_or_else(|| {
        Error::invalid("DELTA_PATH_NOT_SPECIFIED", "no table was named: give its path, or the option 'path'").with_sqlstate("42K03")
    })
}

/// Where a new query begins.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) enum Starting {
    /// With the whole table as it is.
    #[default]
    Snapshot,
    /// With the changes of this version.
    Version(u64),
    /// With what comes after the newest version.
    Latest,
    /// With the first commit at or after this time, milliseconds since the epoch.
    Timestamp(i64),
}

/// Where a range of versions begins or ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Boundary {
    Version(u64),
    /// Milliseconds since the epoch.
    Time(i64),
}

/// Options of the source, read and checked.
#[derive(Clone, Debug)]
pub(super) struct SourceOptions {
    pub path: String,
    pub limit: ReadLimit,
    pub starting: Starting,
    pub ignore_deletes: bool,
    pub ignore_changes: bool,
    pub skip_change_commits: bool,
    pub exclude: Option<Regex>,
    pub fail_on_data_loss: bool,
    pub version_as_of: Option<u64>,
    pub timestamp_as_of: Option<i64>,
    /// Changes are read instead of rows.
    pub change_feed: bool,
    pub feed_start: Option<Boundary>,
    pub feed_end: Option<Boundary>,
}

impl SourceOptions {
    pub(super) fn of(request: &ReadRequest) -> Result<Self> {
        let options = &request.options;
        options.check(SOURCE)?;
        if let Some(name) = UNSUPPORTED.iter().find(|name| options.get(name).is_some_and(|value| !value.eq_ignore_ascii_case("false"))) {
            return Err(Error::invalid(
                "DELTA_UNSUPPORTED_OPTION",
                format!("option '{name}' of the Delta source is not supported: remove it"),
            ));
        }
        let path = match request.paths.as_slice() {
            [] => path_of(options.get("path"))?,
            [path] => path.clone(),
            _ => {
                return Err(Error::invalid(
                    "DELTA_MULTIPLE_PATHS",
                    "a Delta table is one path: read several with several reads and a union",
                ));
            }
        };
        let (path, at) = match options.get("versionAsOf").is_none() && options.get("timestampAsOf").is_none() {
            true => at_version(path),
            false => (path, None),
        };
        let change_feed = options.bool("readChangeFeed", false)? || options.bool("readChangeData", false)?;
        let exclude = options
            .get("excludeRegex")
            .map(|text| {
                Regex::new(text).map_err(|error| {
                    Error::invalid(
                        "DELTA_REGEX_OPT_SYNTAX_ERROR",
                        format!("option 'excludeRegex' is '{text}', which is not a regular expression"),
                    )
                    .caused_by(error)
                })
            })
            .transpose()?;
        Ok(SourceOptions {
            path,
            limit: limit(options)?,
            starting: starting(options)?,
            ignore_deletes: options.bool("ignoreDeletes", false)?,
            ignore_changes: options.bool("ignoreChanges", false)?,
            skip_change_commits: options.bool("skipChangeCommits", false)?,
            exclude,
            fail_on_data_loss: options.bool("failOnDataLoss", true)?,
            version_as_of: match at {
                Some(Boundary::Version(version)) => Some(version),
                _ => options.integer("versionAsOf", 0)?.and_then(|version| u64::try_from(version).ok()),
            },
            timestamp_as_of: match at {
                Some(Boundary::Time(time_ms)) => Some(time_ms),
                _ => options.get("timestampAsOf").map(|text| timestamp("timestampAsOf", text)).transpose()?,
            },
            change_feed,
            feed_start: boundary(options, "starting")?,
            feed_end: boundary(options, "ending")?,
        })
    }
}

/// `/path@v3` and `/path@20240102030405000`: the path, and the version or time that it ends with.
fn at_version(path: String) -> (String, Option<Boundary>) {
    let Some((before, after)) = path.rsplit_once('@') else { return (path, None) };
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if let Some(version) = after.strip_prefix(['v', 'V']).filter(|version| digits(version)).and_then(|version| version.parse().ok()) {
        return (before.to_owned(), Some(Boundary::Version(version)));
    }
    if after.len() == 17 && digits(after) {
        let (seconds, millis) = after.split_at(14);
        let at = NaiveDateTime::parse_from_str(seconds, "%Y%m%d%H%M%S").ok().zip(millis.parse::<i64>().ok());
        if let Some((at, millis)) = at {
            return (before.to_owned(), Some(Boundary::Time(at.and_utc().timestamp_millis() + millis)));
        }
    }
    (path, None)
}

/// `startingVersion` or `startingTimestamp`, and the same for the end.
fn boundary(options: &Options, which: &str) -> Result<Option<Boundary>> {
    let (version, time) = (format!("{which}Version"), format!("{which}Timestamp"));
    match (options.get(&version), options.get(&time)) {
        (Some(_), Some(_)) => {
            let message = format!("the options '{version}' and '{time}' exclude each other: remove one");
            Err(Error::invalid("DELTA_MULTIPLE_CDC_BOUNDARY", message).with_sqlstate("42614"))
        }
        (None, None) => Ok(None),
        (None, Some(text)) => Ok(Some(Boundary::Time(timestamp(&time, text)?))),
        (Some(text), None) => Ok(text.trim().parse().ok().map(Boundary::Version)),
    }
}

fn limit(options: &Options) -> Result<ReadLimit> {
    let files = options.integer("maxFilesPerTrigger", 1)?.and_then(|files| u64::try_from(files).ok());
    let bytes = options.bytes("maxBytesPerTrigger")?;
    Ok(match (files, bytes) {
        (files, None) => ReadLimit::MaxFiles(files.unwrap_or(1000)),
        (None, Some(bytes)) => ReadLimit::All(vec![ReadLimit::MaxFiles(1000), ReadLimit::MaxBytes(bytes)]),
        (Some(files), Some(bytes)) => ReadLimit::All(vec![ReadLimit::MaxFiles(files), ReadLimit::MaxBytes(bytes)]),
    })
}

fn starting(options: &Options) -> Result<Starting> {
    match (options.get("startingVersion"), options.get("startingTimestamp")) {
        (Some(_), Some(_)) => Err(Error::invalid(
            "DELTA_STARTING_VERSION_AND_TIMESTAMP_BOTH_SET",
            "the options 'startingVersion' and 'startingTimestamp' exclude each other: remove one",
        )
        .with_sqlstate("42613")),
        (None, None) => Ok(Starting::Snapshot),
        (None, Some(text)) => Ok(Starting::Timestamp(timestamp("startingTimestamp", text)?)),
        (Some(text), None) if text.eq_ignore_ascii_case("latest") => Ok(Starting::Latest),
        (Some(text), None) => text.trim().parse().map(Starting::Version).map_err(|_| {
            Error::invalid(
                "INVALID_OPTION_VALUE",
                format!("option 'startingVersion' is '{text}' but takes a version from 0 on, or 'latest'"),
            )
        }),
    }
}

/// A time given as text, in milliseconds since the epoch; UTC unless it has a zone.
pub(super) fn timestamp(option: &str, text: &str) -> Result<i64> {
    let text = text.trim();
    if let Ok(at) = DateTime::parse_from_rfc3339(text).or_else(|_| DateTime::parse_from_str(text, "%Y-%m-%d %H:%M:%S%.f%:z")) {
        return Ok(at.timestamp_millis());
    }
    let naive = ["%Y-%m-%d %H:%M:%S%.f", "%Y-%m-%dT%H:%M:%S%.f", "%Y-%m-%d %H:%M"]
        .iter()
        .find_map(|format| NaiveDateTime::parse_from_str(text, format).ok())
        .or_else(|| NaiveDate::parse_from_str(text, "%Y-%m-%d").ok().and_then(|date| date.and_hms_opt(0, 0, 0)));
    naive.map(|at| at.and_utc().timestamp_millis()).ok_or_else(|| {
        Error::invalid("DELTA_TIMESTAMP_INVALID", format!("option '{option}' is '{text}' but takes a time such as '2024-01-02 03:04:05'"))
            .with_sqlstate("42816")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(pairs: &[(&str, &str)]) -> Result<SourceOptions> {
        SourceOptions::of(&ReadRequest { paths: vec!["/t".into()], options: pairs.iter().copied().collect(), ..ReadRequest::default() })
    }

    #[test]
    fn a_path_may_end_with_a_version_or_a_time() {
        for (path, expected) in [
            ("/t@v3", ("/t", Some(Boundary::Version(3)))),
            ("/t@19700101000001500", ("/t", Some(Boundary::Time(1_500)))),
            ("/a@b/t", ("/a@b/t", None)),
            ("/t@v", ("/t@v", None)),
        ] {
            assert_eq!(at_version(path.to_owned()), (expected.0.to_owned(), expected.1));
        }
    }

    #[test]
    fn times_are_utc_unless_they_say_otherwise() {
        for text in ["2024-01-02", "2024-01-02 00:00:00", "2024-01-02T00:00:00Z", "2024-01-02T01:00:00+01:00", "2024-01-02 00:00"] {
            assert_eq!(timestamp("o", text).unwrap(), 1_704_153_600_000, "{text}");
        }
        assert_eq!(timestamp("o", "yesterday").unwrap_err().code(), "DELTA_TIMESTAMP_INVALID");
    }

    #[test]
    fn source_options_are_checked() {
        assert_eq!(source(&[]).unwrap().limit, ReadLimit::MaxFiles(1000));
        assert_eq!(source(&[("startingVersion", "LATEST")]).unwrap().starting, Starting::Latest);
        assert_eq!(source(&[("startingVersion", "3")]).unwrap().starting, Starting::Version(3));
        for (options, code) in [
            (&[("startingVersion", "-1")][..], "INVALID_OPTION_VALUE"),
            (&[("maxFilesPerTrigger", "0")], "INVALID_OPTION_VALUE"),
            (&[("startingVersion", "1"), ("startingTimestamp", "2024-01-01")], "DELTA_STARTING_VERSION_AND_TIMESTAMP_BOTH_SET"),
            (&[("excludeRegex", "(")], "DELTA_REGEX_OPT_SYNTAX_ERROR"),
            (&[("withEventTimeOrder", "true")], "DELTA_UNSUPPORTED_OPTION"),
        ] {
            assert_eq!(source(options).unwrap_err().code(), code);
        }
    }

    #[test]
    fn sink_options_are_checked() {
        let of =
            |pairs: &[(&str, &str)]| SinkOptions::of(&WriteRequest { options: pairs.iter().copied().collect(), ..WriteRequest::default() });
        let options = of(&[("path", "/t"), ("partitionBy", "a, b"), ("delta.appendonly", "true")]).unwrap();
        assert_eq!(options.partition_by, ["a", "b"]);
        assert_eq!(options.properties.get("delta.appendOnly").map(String::as_str), Some("true"));
        for (pairs, code) in [
            (&[][..], "DELTA_PATH_NOT_SPECIFIED"),
            (&[("path", "/t"), ("txnVersion", "1")], "INVALID_OPTION_VALUE"),
            (&[("path", "/t"), ("compression", "brotli")], "INVALID_OPTION_VALUE"),
            (&[("path", "/t"), ("delta.columnMapping.mode", "name")], "DELTA_UNSUPPORTED_TABLE_PROPERTY"),
        ] {
            assert_eq!(of(pairs).unwrap_err().code(), code);
        }
    }
}
