//! Interval literals: `INTERVAL '1-2' YEAR TO MONTH`, `INTERVAL 2 days 3 hours`, `INTERVAL '1 day'`.

use datafusion::sql::sqlparser::tokenizer::Token;
use spark_connect_proto::expression::literal::LiteralType;
use spark_connect_proto::{Expression, data_type};

use super::parser::Parser;
use super::proto;
use crate::sql::Diagnostic;

/// A length of time in Spark's two kinds, which do not mix.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Interval {
    pub(super) months: i32,
    pub(super) micros: i64,
    /// The largest and the smallest unit written.
    units: Option<(Unit, Unit)>,
    mixed: bool,
}

/// What intervals are counted in, the largest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Unit {
    Year,
    Month,
    Day,
    Hour,
    Minute,
    Second,
}

const SECOND: i64 = 1_000_000;
const DAY: i64 = 86_400 * SECOND;

/// The units that are parts of others: what they count as, and their length in microseconds.
const PARTS: &[(&str, Unit, i64)] = &[
    ("week", Unit::Day, 7 * DAY),
    ("millisecond", Unit::Second, 1_000),
    ("microsecond", Unit::Second, 1),
    ("nanosecond", Unit::Second, 0),
];

impl Unit {
    fn is_year_month(self) -> bool {
        self <= Unit::Month
    }

    /// Spark's number of the unit within its kind.
    fn number(self) -> i32 {
        match self {
            Unit::Year | Unit::Day => 0,
            Unit::Month | Unit::Hour => 1,
            Unit::Minute => 2,
            Unit::Second => 3,
        }
    }

    /// Months or microseconds.
    fn length(self) -> i64 {
        match self {
            Unit::Year => 12,
            Unit::Month => 1,
            Unit::Day => DAY,
            Unit::Hour => 3_600 * SECOND,
            Unit::Minute => 60 * SECOND,
            Unit::Second => SECOND,
        }
    }

    fn parse(word: &str) -> Option<Unit> {
        [Unit::Year, Unit::Month, Unit::Day, Unit::Hour, Unit::Minute, Unit::Second]
            .into_iter()
            .zip(["year", "month", "day", "hour", "minute", "second"])
            .find_map(|(unit, name)| name.eq_ignore_ascii_case(word).then_some(unit))
    }
}

impl Interval {
    fn add(&mut self, unit: Unit, months: i64, micros: i64) -> Option<()> {
        self.months = self.months.checked_add(i32::try_from(months).ok()?)?;
        self.micros = self.micros.checked_add(micros)?;
        let (largest, smallest) = self.units.unwrap_or((unit, unit));
        self.mixed |= largest.is_year_month() != unit.is_year_month();
        self.units = Some((largest.min(unit), smallest.max(unit)));
        Some(())
    }

    /// The literal; none if months are mixed with days.
    pub(super) fn literal(&self) -> Option<Expression> {
        let (start, end) = self.units.filter(|_| !self.mixed)?;
        let (start_field, end_field) = (Some(start.number()), Some(end.number()));
        Some(if start.is_year_month() {
            let kind = data_type::YearMonthInterval { start_field, end_field, ..Default::default() };
            proto::typed_literal(LiteralType::YearMonthInterval(self.months), data_type::Kind::YearMonthInterval(kind))
        } else {
            let kind = data_type::DayTimeInterval { start_field, end_field, ..Default::default() };
            proto::typed_literal(LiteralType::DayTimeInterval(self.micros), data_type::Kind::DayTimeInterval(kind))
        })
    }

    /// The length as Spark's texts of delays write it.
    pub(super) fn delay(&self) -> String {
        let months = (self.months != 0).then(|| format!("{} months", self.months));
        let micros = (self.micros != 0 || self.months == 0).then(|| {
            let (name, length) = [("days", DAY), ("hours", 3_600 * SECOND), ("minutes", 60 * SECOND), ("seconds", SECOND)]
                .into_iter()
                .chain([("milliseconds", 1_000), ("microseconds", 1)])
                .find(|(_, length)| self.micros % length == 0)
                .unwrap_or(("microseconds", 1));
            let (name, length) = if self.micros == 0 { ("seconds", SECOND) } else { (name, length) };
            format!("{} {name}", self.micros / length)
        });
        months.into_iter().chain(micros).collect::<Vec<_>>().join(" ")
    }
}

/// Why a text is no interval: the condition's subclass and a message.
type Refusal = (&'static str, String);

impl Parser<'_> {
    /// Whether an interval literal comes next, and not a column of that name.
    pub(super) fn at_interval(&self) -> bool {
        let signed = matches!(self.cursor.peek_nth(1), Some(Token::Plus | Token::Minus));
        let value = 1 + usize::from(signed);
        self.cursor.is("INTERVAL")
            && match self.cursor.peek_nth(value) {
                Some(Token::Number(..)) => matches!(self.cursor.peek_nth(value + 1), Some(Token::Word(_))),
                _ => self.nth_is_string(value),
            }
    }

    /// Reads an interval literal as an expression.
    pub(super) fn interval_literal(&mut self) -> Result<Expression, Diagnostic> {
        let (position, mark) = (self.position(), self.cursor.mark());
        let interval = self.interval()?;
        let literal = interval.literal().ok_or_else(|| {
            let message = format!("'{}' mixes years or months with days or smaller units", self.text_since(mark));
            Diagnostic { sqlstate: None, ..Diagnostic::new("_LEGACY_ERROR_TEMP_0029", "42000", position, message) }
                .with_hint("add two intervals, or use make_interval")
        });
        Ok(self.or_defer(literal))
    }

    /// Reads an interval literal, the cursor being before `INTERVAL`.
    pub(super) fn interval(&mut self) -> Result<Interval, Diagnostic> {
        let position = self.position();
        self.cursor.expect(&["INTERVAL"])?;
        let sign = self.sign();
        if self.nth_is_string(0) && !matches!(self.unit_after_string(), Some(word) if is_unit(&word)) {
            let text = self.cursor.string("an interval")?;
            return Ok(match sign.is_empty().then(|| phrase(&text)) {
                Some(Ok(interval)) => interval,
                _ => {
                    let message = format!("'{text}' is not an interval");
                    self.defer(Diagnostic::new("INVALID_TYPED_LITERAL", "42604", position, message).with_hint("write INTERVAL '1' DAY"));
                    Interval::default()
                }
            });
        }
        let (first, quoted) = self.interval_value(sign)?;
        let unit = self.cursor.identifier("a unit")?.value;
        if let Some(from) = Unit::parse(&unit)
            && self.cursor.is("TO")
        {
            self.cursor.advance();
            let word = self.cursor.identifier("a smaller unit")?.value;
            let to = Unit::parse(&word).filter(|to| *to > from && to.is_year_month() == from.is_year_month());
            let read = match to {
                Some(to) => unit_to_unit(&first, from, to),
                None => Err(("UNSUPPORTED_FROM_TO_EXPRESSION", format!("there are no intervals from {unit} to {word}"))),
            };
            return Ok(self.or_refused(position, read));
        }
        let mut parts = vec![(first, quoted, unit)];
        while matches!(self.cursor.peek(), Some(Token::Number(..) | Token::SingleQuotedString(_) | Token::DoubleQuotedString(_)))
            || (matches!(self.cursor.peek(), Some(Token::Plus | Token::Minus))
                && matches!(self.cursor.peek_nth(2), Some(Token::Word(word)) if is_unit(&word.value)))
        {
            let sign = self.sign();
            let (value, quoted) = self.interval_value(sign)?;
            parts.push((value, quoted, self.cursor.identifier("a unit")?.value));
        }
        let mut read = Ok(Interval::default());
        for (value, quoted, unit) in &parts {
            if !is_unit(unit) {
                return Err(Diagnostic::syntax(position, format!("'{unit}' is not a unit of intervals")));
            }
            read = read.and_then(|mut interval| {
                if *quoted && value.chars().any(char::is_alphabetic) {
                    return Err(("INVALID_VALUE", format!("'{value}' is not a number")));
                }
                // The value is read as in a phrase, so that `'1 2' DAY` is found out.
                add_phrase(&mut interval, &format!("{value} {unit}"))?;
                Ok(interval)
            });
        }
        Ok(self.or_refused(position, read))
    }

    fn or_refused(&mut self, position: crate::sql::Position, read: Result<Interval, Refusal>) -> Interval {
        read.unwrap_or_else(|(subclass, message)| {
            let mut fault = Diagnostic::new("INVALID_INTERVAL_FORMAT", "22006", position, message);
            fault.code = format!("INVALID_INTERVAL_FORMAT.{subclass}").into();
            self.defer(fault);
            Interval::default()
        })
    }

    fn sign(&mut self) -> &'static str {
        if self.cursor.eat_token(&Token::Minus) {
            "-"
        } else {
            self.cursor.eat_token(&Token::Plus);
            ""
        }
    }

    /// The word after the strings that come next.
    fn unit_after_string(&self) -> Option<String> {
        self.tokens_from(0).find_map(|token| match token {
            Token::SingleQuotedString(_) | Token::DoubleQuotedString(_) => None,
            Token::Word(word) => Some(Some(word.value.clone())),
            _ => Some(None),
        })?
    }

    /// A number, and whether it was written as a string.
    fn interval_value(&mut self, sign: &str) -> Result<(String, bool), Diagnostic> {
        if let Some(Token::Number(digits, _)) = self.cursor.peek() {
            self.cursor.advance();
            return Ok((format!("{sign}{digits}"), false));
        }
        let text = self.cursor.string("a number")?;
        let text = text.trim();
        Ok((
            match text.strip_prefix('-') {
                Some(positive) if sign == "-" => positive.to_owned(),
                _ => format!("{sign}{}", if sign == "-" { text.trim_start_matches('+') } else { text }),
            },
            true,
        ))
    }
}

fn unit(word: &str) -> Option<(Unit, i64)> {
    let lower = word.to_ascii_lowercase();
    let singular = lower.strip_suffix('s').unwrap_or(&lower);
    match Unit::parse(singular) {
        Some(unit) => Some((unit, unit.length())),
        None => PARTS.iter().find(|(name, ..)| *name == singular).map(|(_, unit, length)| (*unit, *length)),
    }
}

fn is_unit(word: &str) -> bool {
    unit(word).is_some()
}

/// Reads `1 day 2 hours`, with or without `interval` before.
pub(super) fn phrase(text: &str) -> Result<Interval, Refusal> {
    let text = text.trim();
    let without = match text.get(..8) {
        Some(prefix) if prefix.eq_ignore_ascii_case("interval") && text.get(8..).is_some_and(|rest| rest.starts_with(' ')) => {
            text.get(8..).unwrap_or_default()
        }
        _ => text,
    };
    let mut interval = Interval::default();
    add_phrase(&mut interval, without)?;
    if interval.units.is_none() {
        return Err(("INPUT_IS_EMPTY", "the interval is empty".to_owned()));
    }
    Ok(interval)
}

fn add_phrase(interval: &mut Interval, text: &str) -> Result<(), Refusal> {
    let mut words = text.split_whitespace();
    while let Some(value) = words.next() {
        // A sign may stand by itself.
        let value = match (value, words.clone().next()) {
            ("+" | "-", Some(digits)) => {
                words.next();
                format!("{value}{digits}")
            }
            _ => value.to_owned(),
        };
        let Some(word) = words.next() else { return Err(("MISSING_UNIT", format!("'{text}' has no unit after {value}"))) };
        let Some((unit, length)) = unit(word) else { return Err(("INVALID_UNIT", format!("'{word}' in '{text}' is not a unit"))) };
        add_value(interval, &value, word, unit, length)?;
    }
    Ok(())
}

fn add_value(interval: &mut Interval, value: &str, word: &str, unit: Unit, length: i64) -> Result<(), Refusal> {
    let invalid = || ("INVALID_VALUE", format!("'{value}' is not a number of units"));
    let too_long = || ("ARITHMETIC_EXCEPTION", format!("{value} {word} is too long"));
    let (whole, fraction) = match value.split_once('.') {
        Some((whole, fraction)) => (whole, Some(fraction)),
        None => (value, None),
    };
    let negative = whole.starts_with('-');
    let digits = whole.trim_start_matches(['+', '-']);
    let number: i64 = match (digits, fraction) {
        ("", Some(fraction)) if !fraction.is_empty() => 0,
        _ => whole.parse().map_err(|_| invalid())?,
    };
    let micros = match fraction {
        None => 0,
        Some(fraction) if !fraction.bytes().all(|byte| byte.is_ascii_digit()) => return Err(invalid()),
        Some(fraction) if fraction.len() > 9 => return Err(("INVALID_PRECISION", format!("'{value}' has more than nine decimal places"))),
        Some(fraction) if word.to_ascii_lowercase().trim_end_matches('s') == "second" => {
            let micros: i64 = format!("{fraction:0<6}").get(..6).unwrap_or("0").parse().map_err(|_| invalid())?;
            if negative { -micros } else { micros }
        }
        Some(_) => return Err(("INVALID_FRACTION", format!("'{value}': only seconds have fractions"))),
    };
    let (months, base) = match unit {
        _ if word.to_ascii_lowercase().starts_with("nanosecond") => (0, number / 1_000),
        unit if unit.is_year_month() => (number.checked_mul(length).ok_or_else(too_long)?, 0),
        _ => (0, number.checked_mul(length).ok_or_else(too_long)?),
    };
    interval.add(unit, months, base.checked_add(micros).ok_or_else(too_long)?).ok_or_else(too_long)
}

/// Reads `1-2` from years to months, `1 02:03:04.5` from days to seconds.
fn unit_to_unit(text: &str, from: Unit, to: Unit) -> Result<Interval, Refusal> {
    let unmatched = || {
        let format = match (from, to) {
            (Unit::Year, _) => "[+|-]y-m",
            (Unit::Day, Unit::Hour) => "[+|-]d h",
            (Unit::Day, Unit::Minute) => "[+|-]d h:m",
            (Unit::Day, _) => "[+|-]d h:m:s.n",
            (Unit::Hour, Unit::Minute) => "[+|-]h:m",
            (Unit::Hour, _) => "[+|-]h:m:s.n",
            _ => "[+|-]m:s.n",
        };
        ("UNMATCHED_FORMAT_STRING_WITH_NOTICE", format!("'{text}' does not have the format {format}"))
    };
    let text = text.trim();
    let (negative, unsigned) = match text.strip_prefix('-') {
        Some(rest) => (true, rest.trim_start()),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    let units: Vec<Unit> = [Unit::Year, Unit::Month, Unit::Day, Unit::Hour, Unit::Minute, Unit::Second]
        .into_iter()
        .filter(|unit| (from..=to).contains(unit))
        .collect();
    let mut rest = unsigned;
    let mut interval = Interval::default();
    for (n, unit) in units.iter().enumerate() {
        let last = n + 1 == units.len();
        let part = if last {
            std::mem::take(&mut rest)
        } else {
            let separator = match unit {
                Unit::Year => '-',
                Unit::Day => ' ',
                _ => ':',
            };
            let (part, after) = rest.split_once(separator).ok_or_else(unmatched)?;
            rest = after.trim_start();
            part
        };
        let (whole, fraction) = match part.split_once('.') {
            Some((whole, fraction)) if *unit == Unit::Second && fraction.len() <= 9 => (whole, fraction),
            Some(_) => return Err(unmatched()),
            None => (part, ""),
        };
        if whole.is_empty() || whole.len() > 10 || !whole.bytes().chain(fraction.bytes()).all(|byte| byte.is_ascii_digit()) {
            return Err(unmatched());
        }
        let number: i64 = whole.parse().map_err(|_| unmatched())?;
        let limit = match unit {
            _ if n == 0 => i64::MAX,
            Unit::Month => 11,
            Unit::Hour => 23,
            _ => 59,
        };
        if number > limit {
            return Err(("INTERVAL_PARSING", format!("{number} in '{text}' is outside of [0, {limit}]")));
        }
        let micros: i64 = format!("{fraction:0<6}").get(..6).unwrap_or("0").parse().map_err(|_| unmatched())?;
        let sign = if negative { -1 } else { 1 };
        let scaled = number.checked_mul(unit.length()).and_then(|scaled| scaled.checked_add(micros)).ok_or_else(unmatched)? * sign;
        let (months, micros) = if unit.is_year_month() { (scaled, 0) } else { (0, scaled) };
        interval.add(*unit, months, micros).ok_or_else(unmatched)?;
    }
    Ok(interval)
}
