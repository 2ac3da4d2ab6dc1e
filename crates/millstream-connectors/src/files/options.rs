//! The options of file sources and file tables: one list from which checking and documentation are made, with Spark's rules.

use std::str::FromStr;

use arrow::array::timezone::Tz;
use chrono::{NaiveDate, NaiveDateTime, NaiveTime, TimeZone};
use millstream_core::options::{OptionKind, OptionSpec, parse_duration};
use millstream_core::quarantine::ParseMode;
use millstream_core::{Error, Options, ReadLimit, Result};

use super::glob::Glob;

/// Every option of a file source that does not belong to its format.
pub(crate) const SPECS: &[OptionSpec] = &[
    text("path", None, "The directory, file or path pattern to read."),
    OptionSpec {
        name: "maxFilesPerTrigger",
        kind: OptionKind::Integer { min: 1 },
        default: None,
        doc: "Streams: the most files in one batch. Cannot be combined with maxBytesPerTrigger.",
    },
    OptionSpec {
        name: "maxBytesPerTrigger",
        kind: OptionKind::Bytes,
        default: None,
        doc: "Streams: files are added to a batch until their sizes would pass this; at least one file is always taken.",
    },
    flag("latestFirst", "false", "Streams: take the newest files first."),
    text(
        "maxFileAge",
        Some("7d"),
        "Streams: ignore files that are older than the newest file by more than this. Not applied to the first listing, nor when \
         latestFirst is combined with a limit. How many are left out is the metric numFilesTooOld.",
    ),
    flag("fileNameOnly", "false", "Streams: tell files apart by name alone, whatever their directory."),
    OptionSpec {
        name: "maxCachedFiles",
        kind: OptionKind::Integer { min: 0 },
        default: Some("10000"),
        doc: "Streams: how many listed but unread files are kept for the next batches, instead of listing again.",
    },
    OptionSpec {
        name: "discardCachedInputRatio",
        kind: OptionKind::Number { min: 0.0, max: 1.0 },
        default: Some("0.2"),
        doc: "Streams: unread files are listed again when they would fill less than this part of the limit.",
    },
    OptionSpec {
        name: "cleanSource",
        kind: OptionKind::OneOf(&["off", "archive", "delete"]),
        default: Some("off"),
        doc: "Streams: what happens to a file after the batch that read it is committed.",
    },
    text("sourceArchiveDir", None, "Streams: where cleanSource=archive moves files, keeping their whole path below it."),
    text("pathGlobFilter", None, "Read only files whose name matches this pattern."),
    flag("recursiveFileLookup", "false", "Read files at any depth, and take no partition columns from directory names."),
    text("basePath", None, "The directory at which partition directories begin."),
    text("modifiedBefore", None, "Tables: read only files last modified before this time (`2024-01-02T03:04:05`)."),
    text("modifiedAfter", None, "Tables: read only files last modified after this time (`2024-01-02T03:04:05`)."),
    flag("ignoreMissingFiles", "false", "Skip, and report to the quarantine, files that disappear between listing and reading."),
    flag("ignoreCorruptFiles", "false", "Put unreadable files into the quarantine, keeping the rows before the fault, instead of failing."),
    flag(
        "partitionColumnTypeInference",
        "true",
        "Take the types of partition columns from their values, instead of having them as strings.",
    ),
    flag("schemaInference", "false", "Streams: infer the schema from the files that are there at the start."),
];

const fn text(name: &'static str, default: Option<&'static str>, doc: &'static str) -> OptionSpec {
    OptionSpec { name, kind: OptionKind::Text, default, doc }
}

const fn flag(name: &'static str, default: &'static str, doc: &'static str) -> OptionSpec {
    OptionSpec { name, kind: OptionKind::Bool, default: Some(default), doc }
}

/// Which files count, whether they are read as a stream or as a table.
#[derive(Clone, Debug)]
pub(crate) struct Selection {
    pub(crate) name_filter: Option<Glob>,
    pub(crate) recursive: bool,
    pub(crate) base_path: Option<String>,
    /// Milliseconds since 1970: only files modified before.
    pub(crate) modified_before: Option<i64>,
    /// Milliseconds since 1970: only files modified after.
    pub(crate) modified_after: Option<i64>,
    /// The zone of partition values that are timestamps.
    pub(crate) time_zone: String,
}

impl Selection {
    /// # Errors
    /// `INVALID_OPTION_VALUE`, `INVALID_GLOB_PATTERN`.
    pub(crate) fn parse(options: &Options, streaming: bool) -> Result<Self> {
        let time_zone = options.get("timeZone").unwrap_or("UTC").to_owned();
        // A stream refuses these two when it starts, as Spark does, not while its schema is looked up.
        let time = |name: &str| match options.get(name).filter(|_| !streaming) {
            Some(text) => parse_time(name, text, &time_zone).map(Some),
            None => Ok(None),
        };
        Ok(Selection {
            name_filter: options.get("pathGlobFilter").map(Glob::new).transpose()?,
            recursive: options.bool("recursiveFileLookup", false)?,
            base_path: options.get("basePath").map(str::to_owned),
            modified_before: time("modifiedBefore")?,
            modified_after: time("modifiedAfter")?,
            time_zone,
        })
    }

    /// Whether the modification time (milliseconds since 1970) is one that counts.
    pub(crate) fn admits_time(&self, modified_ms: i64) -> bool {
        self.modified_before.is_none_or(|before| modified_ms < before) && self.modified_after.is_none_or(|after| modified_ms > after)
    }
}

/// What happens to files that cannot be read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Faults {
    pub(crate) ignore_missing: bool,
    /// Unreadable files go to the quarantine.
    pub(crate) ignore_corrupt: bool,
}

impl Faults {
    /// # Errors
    /// `INVALID_OPTION_VALUE`.
    pub(crate) fn parse(options: &Options) -> Result<Self> {
        let drops = options.get("mode").map(ParseMode::parse).transpose()? == Some(ParseMode::DropMalformed);
        Ok(Faults {
            ignore_missing: options.bool("ignoreMissingFiles", false)?,
            ignore_corrupt: options.bool("ignoreCorruptFiles", false)? || drops,
        })
    }
}

/// What happens to a file that is read and committed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum CleanSource {
    Off,
    Archive(String),
    Delete,
}

/// The options that only a stream has.
#[derive(Clone, Debug)]
pub(crate) struct StreamOptions {
    pub(crate) max_files: Option<u64>,
    pub(crate) max_bytes: Option<u64>,
    pub(crate) latest_first: bool,
    /// Milliseconds; `None` when files never age.
    pub(crate) max_file_age_ms: Option<i64>,
    pub(crate) file_name_only: bool,
    pub(crate) max_cached_files: usize,
    pub(crate) discard_ratio: f64,
    pub(crate) clean: CleanSource,
}

impl StreamOptions {
    /// # Errors
    /// `INVALID_OPTION_VALUE`, with Spark's rules: at most one limit, an archive directory for `archive`, no `modifiedBefore/After`.
    pub(crate) fn parse(options: &Options) -> Result<Self> {
        for name in ["modifiedBefore", "modifiedAfter"] {
            if options.get(name).is_some() {
                return Err(Error::invalid(
                    "INVALID_OPTION_VALUE",
                    format!("option '{name}' is not allowed in file stream sources: remove it"),
                ));
            }
        }
        options.check(SPECS)?;
        let max_files = options.integer("maxFilesPerTrigger", 1)?.and_then(|files| u64::try_from(files).ok());
        let max_bytes = options.bytes("maxBytesPerTrigger")?;
        if max_files.is_some() && max_bytes.is_some() {
            return Err(Error::invalid(
                "INVALID_OPTION_VALUE",
                "options 'maxFilesPerTrigger' and 'maxBytesPerTrigger' can't be both set at the same time: remove one",
            ));
        }
        let latest_first = options.bool("latestFirst", false)?;
        let aged = !(latest_first && (max_files.is_some() || max_bytes.is_some()));
        let clean = match options.get("cleanSource").map(str::to_ascii_lowercase).as_deref() {
            Some("archive") => CleanSource::Archive(options.get("sourceArchiveDir").map(str::to_owned).ok_or_else(|| {
                Error::invalid("INVALID_OPTION_VALUE", "cleanSource 'archive' must be used with the option 'sourceArchiveDir': set it")
            })?),
            Some("delete") => CleanSource::Delete,
            _ => CleanSource::Off,
        };
        let ratio = options.get("discardCachedInputRatio").map_or(Ok(0.2), f64::from_str);
        Ok(StreamOptions {
            max_files,
            max_bytes,
            latest_first,
            max_file_age_ms: if aged { Some(parse_age(options.get("maxFileAge").unwrap_or("7d"))?) } else { None },
            file_name_only: options.bool("fileNameOnly", false)?,
            max_cached_files: options.integer("maxCachedFiles", 0)?.map_or(10_000, |files| usize::try_from(files).unwrap_or(usize::MAX)),
            discard_ratio: ratio.unwrap_or(0.2),
            clean,
        })
    }

    /// The limit of one batch.
    pub(crate) fn read_limit(&self) -> ReadLimit {
        match (self.max_files, self.max_bytes) {
            (Some(files), _) => ReadLimit::MaxFiles(files),
            (None, Some(bytes)) => ReadLimit::MaxBytes(bytes),
            (None, None) => ReadLimit::AllAvailable,
        }
    }
}

/// A file age in milliseconds; a bare number is milliseconds, as in Spark.
fn parse_age(text: &str) -> Result<i64> {
    let text = text.trim();
    if let Ok(ms) = text.parse::<u64>() {
        return Ok(i64::try_from(ms).unwrap_or(i64::MAX));
    }
    Ok(i64::try_from(parse_duration("maxFileAge", text)?.as_millis()).unwrap_or(i64::MAX))
}

fn parse_time(name: &str, text: &str, zone: &str) -> Result<i64> {
    let bad =
        || Error::invalid("INVALID_OPTION_VALUE", format!("option '{name}' is '{text}' but takes a time such as 2024-01-02T03:04:05"));
    let local = NaiveDateTime::parse_from_str(text, "%Y-%m-%dT%H:%M:%S%.f")
        .or_else(|_| NaiveDateTime::parse_from_str(text, "%Y-%m-%d %H:%M:%S%.f"))
        .or_else(|_| NaiveDate::parse_from_str(text, "%Y-%m-%d").map(|day| day.and_time(NaiveTime::MIN)))
        .map_err(|_| bad())?;
    let zone = Tz::from_str(zone)
        .map_err(|error| Error::invalid("INVALID_OPTION_VALUE", format!("option 'timeZone': '{zone}' is no time zone")).caused_by(error))?;
    Ok(zone.from_local_datetime(&local).earliest().ok_or_else(bad)?.timestamp_millis())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stream(pairs: &[(&str, &str)]) -> Result<StreamOptions> {
        StreamOptions::parse(&pairs.iter().copied().collect())
    }

    #[test]
    fn defaults() {
        let options = stream(&[]).unwrap();
        assert_eq!(options.max_file_age_ms, Some(7 * 86_400_000));
        assert_eq!((options.max_cached_files, options.discard_ratio), (10_000, 0.2));
        assert_eq!(options.clean, CleanSource::Off);
        assert_eq!(options.read_limit(), ReadLimit::AllAvailable);
    }

    #[test]
    fn what_spark_refuses_is_refused() {
        for pairs in [
            &[("maxFilesPerTrigger", "0")][..],
            &[("maxFilesPerTrigger", "many")],
            &[("maxFilesPerTrigger", "1"), ("maxBytesPerTrigger", "1")],
            &[("maxCachedFiles", "-1")],
            &[("discardCachedInputRatio", "1.1")],
            &[("cleanSource", "burn")],
            &[("cleanSource", "ARCHIVE")],
            &[("maxFileAge", "a while")],
            &[("modifiedAfter", "2024-01-01T00:00:00")],
            &[("latestFirst", "perhaps")],
        ] {
            assert_eq!(stream(pairs).unwrap_err().code(), "INVALID_OPTION_VALUE", "{pairs:?}");
        }
        let error = stream(&[("modifiedBefore", "2024-01-01T00:00:00")]).unwrap_err();
        assert!(error.message().contains("option 'modifiedBefore' is not allowed in file stream sources"), "{error}");
    }

    #[test]
    fn age_does_not_matter_when_the_newest_come_first_under_a_limit() {
        assert_eq!(stream(&[("latestFirst", "true"), ("maxFilesPerTrigger", "1")]).unwrap().max_file_age_ms, None);
        assert_eq!(stream(&[("latestFirst", "true"), ("maxFileAge", "1500")]).unwrap().max_file_age_ms, Some(1500));
        assert_eq!(stream(&[("maxFileAge", "2 hours")]).unwrap().max_file_age_ms, Some(7_200_000));
    }

    #[test]
    fn times_are_read_in_the_zone_of_the_options() {
        let options = Options::new().with("modifiedAfter", "2024-07-01T00:00:00").with("timeZone", "Europe/Prague");
        assert_eq!(Selection::parse(&options, false).unwrap().modified_after, Some(1_719_784_800_000));
        assert_eq!(Selection::parse(&options, true).unwrap().modified_after, None);
    }
}
