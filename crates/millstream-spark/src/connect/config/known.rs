//! The settings that Spark 4.2 knows, with their types and defaults.

use std::collections::HashMap;
use std::sync::LazyLock;

use millstream_core::{Error, Result};

use crate::functions::TimeZone;

/// One setting a line: name, type, default; a setting without a default has two columns.
const TABLE: &str = include_str!("defaults.tsv");

/// A setting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Known {
    kind: Kind,
    /// Its value when nobody set it.
    pub(super) default: Option<&'static str>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// Fixed when the server starts.
    Static,
    Text,
    Boolean,
    Int,
    Positive,
    Long,
    Double,
    Milliseconds,
    Seconds,
    Minutes,
    Bytes,
    Mebibytes,
    Zone,
    /// One of some words, whatever their case.
    OneOf(&'static str),
    /// The same with another condition for the rest.
    Only(&'static str),
}

static KNOWN: LazyLock<HashMap<&'static str, Known>> = LazyLock::new(|| TABLE.lines().filter_map(line).collect());

fn line(line: &'static str) -> Option<(&'static str, Known)> {
    let mut columns = line.split('\t');
    let (name, kind) = (columns.next()?, columns.next()?);
    let kind = match kind {
        "static" => Kind::Static,
        "boolean" => Kind::Boolean,
        "int" => Kind::Int,
        "positive" => Kind::Positive,
        "long" => Kind::Long,
        "double" => Kind::Double,
        "ms" => Kind::Milliseconds,
        "s" => Kind::Seconds,
        "min" => Kind::Minutes,
        "bytes" => Kind::Bytes,
        "mib" => Kind::Mebibytes,
        "zone" => Kind::Zone,
        other => match (other.strip_prefix("one of "), other.strip_prefix("only ")) {
            (Some(words), _) => Kind::OneOf(words),
            (_, Some(words)) => Kind::Only(words),
            _ => Kind::Text,
        },
    };
    Some((name, Known { kind, default: columns.next() }))
}

/// The setting of that name.
pub(super) fn find(name: &str) -> Option<Known> {
    KNOWN.get(name).copied()
}

/// Whether it is fixed when the server starts.
pub(super) fn is_static(name: &str) -> bool {
    find(name).is_some_and(|known| known.kind == Kind::Static)
}

/// Checks the value of a setting.
///
/// # Errors
/// `INVALID_CONF_VALUE.*`.
pub(super) fn check(name: &str, value: &str) -> Result<()> {
    let Some(known) = find(name) else { return Ok(()) };
    let trimmed = value.trim();
    let fits = match known.kind {
        Kind::Static | Kind::Text => true,
        Kind::Boolean => trimmed.eq_ignore_ascii_case("true") || trimmed.eq_ignore_ascii_case("false"),
        Kind::Int | Kind::Positive => trimmed.parse::<i32>().is_ok(),
        Kind::Long => trimmed.parse::<i64>().is_ok(),
        Kind::Double => trimmed.parse::<f64>().is_ok(),
        Kind::Milliseconds | Kind::Seconds | Kind::Minutes => number_and_unit(trimmed, &["us", "ms", "s", "m", "min", "h", "d"]),
        Kind::Bytes | Kind::Mebibytes => {
            number_and_unit(trimmed, &["b", "k", "kb", "m", "mb", "g", "gb", "t", "tb", "p", "pb", "kib", "mib", "gib", "tib", "pib"])
        }
        Kind::Zone => TimeZone::parse(trimmed).is_ok(),
        Kind::OneOf(words) | Kind::Only(words) => words.split('|').any(|word| word.eq_ignore_ascii_case(trimmed)),
    };
    let positive = known.kind != Kind::Positive || trimmed.parse::<i32>().is_ok_and(|number| number > 0);
    if fits && positive {
        return Ok(());
    }
    let (what, why) = match known.kind {
        Kind::Positive if fits => ("REQUIREMENT", format!("The value of {name} must be positive")),
        Kind::Zone => ("TIME_ZONE", "Cannot resolve the given timezone.".to_owned()),
        Kind::OneOf(words) => ("OUT_OF_RANGE_OF_OPTIONS", format!("It should be one of '{}'.", words.replace('|', ", "))),
        Kind::Only(words) => {
            let words: Vec<String> = words.split('|').map(|word| format!("'{word}'")).collect();
            ("REQUIREMENT", format!("Valid values are {}", words.join(" and ")))
        }
        kind => ("TYPE_MISMATCH", format!("It should be a/an '{}' value.", kind.shown())),
    };
    let message = format!("The value '{value}' in the config \"{name}\" is invalid. {why}");
    Err(Error::invalid(format!("INVALID_CONF_VALUE.{what}"), message).with_sqlstate("22022"))
}

impl Kind {
    fn shown(self) -> &'static str {
        match self {
            Kind::Boolean => "boolean",
            Kind::Int | Kind::Positive => "int",
            Kind::Long => "long",
            Kind::Double => "double",
            Kind::Milliseconds => "time in MILLISECONDS",
            Kind::Seconds => "time in SECONDS",
            Kind::Minutes => "time in MINUTES",
            Kind::Bytes => "bytes in BYTE",
            Kind::Mebibytes => "bytes in MiB",
            Kind::Static | Kind::Text | Kind::Zone | Kind::OneOf(_) | Kind::Only(_) => "text",
        }
    }
}

/// A whole number with one of some units, or none.
fn number_and_unit(text: &str, units: &[&str]) -> bool {
    let text = text.to_ascii_lowercase();
    let end = text.trim_end_matches(|c: char| c.is_ascii_alphabetic()).len();
    let (number, unit) = text.split_at(end);
    number.trim().parse::<i64>().is_ok() && (unit.is_empty() || units.contains(&unit))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_of_the_table_is_a_setting_with_a_default_that_fits() {
        assert_eq!(KNOWN.len(), TABLE.lines().count());
        for (name, known) in KNOWN.iter() {
            if let Some(default) = known.default {
                check(name, default).unwrap();
            }
        }
    }

    #[test]
    fn values_are_checked_by_the_type_of_the_setting() {
        let cases = [
            ("spark.sql.ansi.enabled", "maybe", Some("INVALID_CONF_VALUE.TYPE_MISMATCH")),
            ("spark.sql.ansi.enabled", "TRUE", None),
            ("spark.sql.shuffle.partitions", "-1", Some("INVALID_CONF_VALUE.REQUIREMENT")),
            ("spark.sql.shuffle.partitions", "abc", Some("INVALID_CONF_VALUE.TYPE_MISMATCH")),
            ("spark.sql.session.timeZone", "Nope/Zone", Some("INVALID_CONF_VALUE.TIME_ZONE")),
            ("spark.sql.session.timeZone", "UTC+05:30", None),
            ("spark.sql.timestampType", "nope", Some("INVALID_CONF_VALUE.OUT_OF_RANGE_OF_OPTIONS")),
            ("spark.sql.streaming.multipleWatermarkPolicy", "nope", Some("INVALID_CONF_VALUE.REQUIREMENT")),
            ("spark.sql.streaming.pollingDelay", "xx", Some("INVALID_CONF_VALUE.TYPE_MISMATCH")),
            ("spark.sql.streaming.pollingDelay", "1s", None),
            ("spark.sql.autoBroadcastJoinThreshold", "10k", None),
            ("my.key", "anything", None),
        ];
        for (name, value, condition) in cases {
            assert_eq!(check(name, value).err().as_ref().map(Error::code), condition, "{name}={value}");
        }
    }
}
