//! Options of sources, sinks and queries: a case-insensitive map, and the specification that documents and checks it.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::error::{Error, Result};

/// What kind of text an option takes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum OptionKind {
    /// Any text.
    Text,
    /// `true` or `false`.
    Bool,
    /// A whole number from `min` on.
    Integer {
        /// The smallest number accepted.
        min: i64,
    },
    /// A number between `min` and `max`.
    Number {
        /// The smallest number accepted.
        min: f64,
        /// The largest number accepted.
        max: f64,
    },
    /// A size such as `10`, `512k`, `10g`.
    Bytes,
    /// A time span such as `10 seconds`, `1 hour 30 minutes`, `7d`.
    Duration,
    /// One of a few words, compared without case.
    OneOf(&'static [&'static str]),
}

/// One option: the single place from which checking, `--help` and the option reference are made.
#[derive(Clone, Copy, Debug)]
pub struct OptionSpec {
    /// The name as documented; compared without case.
    pub name: &'static str,
    /// What it takes.
    pub kind: OptionKind,
    /// The default as text, if there is one.
    pub default: Option<&'static str>,
    /// One sentence: what it does.
    pub doc: &'static str,
}

/// Options as given by a user. Names are compared without case and keep the spelling of the first use.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Options(BTreeMap<String, (String, String)>);

impl Options {
    /// No options.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets an option; an earlier value under any spelling is replaced.
    pub fn set(&mut self, name: impl Into<String>, value: impl Into<String>) {
        let name = name.into();
        self.0.insert(name.to_lowercase(), (name, value.into()));
    }

    /// The same options with one more set.
    pub fn with(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.set(name, value);
        self
    }

    /// Removes an option and returns its value.
    pub fn remove(&mut self, name: &str) -> Option<String> {
        self.0.remove(&name.to_lowercase()).map(|(_, value)| value)
    }

    /// The text of an option.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.get(&name.to_lowercase()).map(|(_, value)| value.as_str())
    }

    /// Names (as first spelt) and values, ordered by lower-case name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.values().map(|(name, value)| (name.as_str(), value.as_str()))
    }

    /// Whether no option is set.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Checks every option that `specs` names.
    ///
    /// # Errors
    /// `INVALID_OPTION_VALUE` for a value that does not fit its kind, naming the option and what it takes.
    pub fn check(&self, specs: &[OptionSpec]) -> Result<()> {
        for spec in specs {
            let Some(value) = self.get(spec.name) else { continue };
            match spec.kind {
                OptionKind::Text => {}
                OptionKind::Bool => drop(parse_bool(spec.name, value)?),
                OptionKind::Integer { min } => drop(parse_integer(spec.name, value, min)?),
                OptionKind::Number { min, max } => drop(parse_number(spec.name, value, min, max)?),
                OptionKind::Bytes => drop(parse_bytes(spec.name, value)?),
                OptionKind::Duration => drop(parse_duration(spec.name, value)?),
                OptionKind::OneOf(words) => {
                    if !words.iter().any(|word| word.eq_ignore_ascii_case(value)) {
                        return Err(bad_value(spec.name, value, &format!("one of {}", words.join(", "))));
                    }
                }
            }
        }
        Ok(())
    }

    /// The names that none of `specs` knows, as spelt by the user.
    pub fn unknown<'a>(&'a self, specs: &'a [OptionSpec]) -> impl Iterator<Item = &'a str> {
        self.iter().map(|(name, _)| name).filter(|name| !specs.iter().any(|spec| spec.name.eq_ignore_ascii_case(name)))
    }

    /// An option as a truth value, or `default`.
    ///
    /// # Errors
    /// `INVALID_OPTION_VALUE` when it is neither `true` nor `false`.
    pub fn bool(&self, name: &str, default: bool) -> Result<bool> {
        self.get(name).map_or(Ok(default), |value| parse_bool(name, value))
    }

    /// An option as a whole number of at least `min`.
    ///
    /// # Errors
    /// `INVALID_OPTION_VALUE` when it is not such a number.
    pub fn integer(&self, name: &str, min: i64) -> Result<Option<i64>> {
        self.get(name).map(|value| parse_integer(name, value, min)).transpose()
    }

    /// An option as a number of bytes (`10`, `512k`, `10g`; powers of 1024).
    ///
    /// # Errors
    /// `INVALID_OPTION_VALUE` when it is not a size.
    pub fn bytes(&self, name: &str) -> Result<Option<u64>> {
        self.get(name).map(|value| parse_bytes(name, value)).transpose()
    }

    /// An option as a time span (`10 seconds`, `1 hour 30 minutes`, `7d`).
    ///
    /// # Errors
    /// `INVALID_OPTION_VALUE` when it is not a time span.
    pub fn duration(&self, name: &str) -> Result<Option<Duration>> {
        self.get(name).map(|value| parse_duration(name, value)).transpose()
    }
}

impl<N: Into<String>, V: Into<String>> FromIterator<(N, V)> for Options {
    fn from_iter<I: IntoIterator<Item = (N, V)>>(pairs: I) -> Self {
        let mut options = Options::new();
        for (name, value) in pairs {
            options.set(name, value);
        }
        options
    }
}

fn bad_value(name: &str, value: &str, takes: &str) -> Error {
    Error::invalid("INVALID_OPTION_VALUE", format!("option '{name}' is '{value}' but takes {takes}"))
}

fn parse_bool(name: &str, value: &str) -> Result<bool> {
    match value.trim().to_ascii_lowercase().as_str() {
        "true" => Ok(true),
        "false" => Ok(false),
        _ => Err(bad_value(name, value, "true or false")),
    }
}

fn parse_integer(name: &str, value: &str, min: i64) -> Result<i64> {
    match value.trim().parse::<i64>() {
        Ok(number) if number >= min => Ok(number),
        _ => Err(bad_value(name, value, &format!("a whole number of at least {min}"))),
    }
}

fn parse_number(name: &str, value: &str, min: f64, max: f64) -> Result<f64> {
    match value.trim().parse::<f64>() {
        Ok(number) if (min..=max).contains(&number) => Ok(number),
        _ => Err(bad_value(name, value, &format!("a number between {min} and {max}"))),
    }
}

/// Reads a size such as `512k` or `10g`, bytes. `name` is the option to name in the error.
///
/// # Errors
/// `INVALID_OPTION_VALUE` when the text is no positive size.
pub fn parse_bytes(name: &str, value: &str) -> Result<u64> {
    let text = value.trim().to_ascii_lowercase();
    let digits = text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let shift = match text[digits..].trim() {
        "" | "b" => 0,
        "k" | "kb" | "kib" => 10,
        "m" | "mb" | "mib" => 20,
        "g" | "gb" | "gib" => 30,
        "t" | "tb" | "tib" => 40,
        "p" | "pb" | "pib" => 50,
        _ => return Err(bad_value(name, value, "a size such as 512k or 10g")),
    };
    text[..digits]
        .parse::<u64>()
        .ok()
        .and_then(|number| number.checked_mul(1_u64 << shift))
        .filter(|bytes| *bytes > 0)
        .ok_or_else(|| bad_value(name, value, "a positive size such as 512k or 10g"))
}

/// Reads a time span such as `10 seconds`, `interval 1 hour 30 minutes`, `500ms` or `7d`. Months and years have no fixed length and are
/// refused. `name` is the option or clause to name in the error.
///
/// # Errors
/// `INVALID_OPTION_VALUE` when the text is not a time span.
pub fn parse_duration(name: &str, value: &str) -> Result<Duration> {
    let bad = || bad_value(name, value, "a time span such as '10 seconds', '1 hour 30 minutes' or '7d'");
    let text = value.trim().to_ascii_lowercase();
    let mut rest = text.strip_prefix("interval").unwrap_or(&text).trim_start();
    if rest.is_empty() {
        return Err(bad());
    }
    let mut total = Duration::ZERO;
    while !rest.is_empty() {
        let digits = rest.len() - rest.trim_start_matches(|c: char| c.is_ascii_digit()).len();
        let number: u64 = rest[..digits].parse().map_err(|_| bad())?;
        rest = rest[digits..].trim_start();
        let letters = rest.len() - rest.trim_start_matches(|c: char| c.is_alphabetic()).len();
        let nanos_per_unit: u64 = match &rest[..letters] {
            "us" | "microsecond" | "microseconds" => 1_000,
            "ms" | "millisecond" | "milliseconds" => 1_000_000,
            "s" | "sec" | "second" | "seconds" => 1_000_000_000,
            "m" | "min" | "minute" | "minutes" => 60_000_000_000,
            "h" | "hour" | "hours" => 3_600_000_000_000,
            "d" | "day" | "days" => 86_400_000_000_000,
            "w" | "week" | "weeks" => 604_800_000_000_000,
            _ => return Err(bad()),
        };
        let part = number.checked_mul(nanos_per_unit).map(Duration::from_nanos).ok_or_else(bad)?;
        total = total.checked_add(part).ok_or_else(bad)?;
        rest = rest[letters..].trim_start();
    }
    Ok(total)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_ignore_case_and_keep_their_spelling() {
        let options = Options::new().with("maxFilesPerTrigger", "3").with("MAXFILESPERTRIGGER", "4");
        assert_eq!(options.get("maxfilespertrigger"), Some("4"));
        assert_eq!(options.iter().collect::<Vec<_>>(), [("MAXFILESPERTRIGGER", "4")]);
    }

    #[test]
    fn sizes() {
        for (text, bytes) in [("1", 1), ("512k", 512 << 10), ("10g", 10 << 30), ("2 MB", 2 << 20)] {
            assert_eq!(parse_bytes("o", text).unwrap(), bytes, "{text}");
        }
        for text in ["", "0", "-1", "g", "1x", "99999999999999999999"] {
            assert!(parse_bytes("o", text).is_err(), "{text}");
        }
    }

    #[test]
    fn time_spans() {
        for (text, ms) in
            [("10 seconds", 10_000), ("1 hour 30 minutes", 5_400_000), ("7d", 604_800_000), ("interval 500 ms", 500), ("0 seconds", 0)]
        {
            assert_eq!(parse_duration("o", text).unwrap(), Duration::from_millis(ms), "{text}");
        }
        for text in ["", "10", "seconds", "-1 second", "1 month", "1 second 2"] {
            assert!(parse_duration("o", text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_bad_value_names_the_option_and_what_it_takes() {
        let specs =
            [OptionSpec { name: "cleanSource", kind: OptionKind::OneOf(&["off", "archive", "delete"]), default: Some("off"), doc: "" }];
        let error = Options::new().with("cleansource", "burn").check(&specs).unwrap_err();
        assert_eq!(error.code(), "INVALID_OPTION_VALUE");
        assert!(error.message().contains("off, archive, delete"), "{error}");
    }
}
