//! Datetime patterns (`yyyy-MM-dd'T'HH:mm:ss[.SSS][XXX]`) and reading text by them, with the rules of Java's strict `DateTimeFormatter` as
//! Spark sets it up: names in English and in any case, fractions of any length up to the pattern's, missing fields from 1970-01-01 00:00.

mod fields;

use millstream_core::{Error, Result};

use super::zone::Zone;
pub(super) use fields::Field;
use fields::Fields;

/// A pattern, ready to read text with.
#[derive(Clone, Debug)]
pub struct DateTimePattern {
    items: Vec<Item>,
}

/// One element of a pattern.
#[derive(Clone, Debug)]
enum Item {
    Literal(String),
    /// A number of `min` to `max` digits; of fixed width when both are equal.
    Number {
        field: Field,
        min: usize,
        max: usize,
        sign: Sign,
    },
    /// Two digits of a year from 2000 on.
    ShortYear(Field),
    /// One to `max` digits behind the decimal point of the second.
    Fraction {
        max: usize,
    },
    /// One of the names of a field.
    Name {
        field: Field,
        names: &'static [(&'static str, i64)],
    },
    Offset(OffsetForm),
    /// `GMT`, alone or followed by an offset.
    GmtOffset,
    /// A zone's id or name.
    ZoneId,
    Optional(Vec<Item>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sign {
    /// A minus may stand before it.
    Minus,
    /// Longer than `min` only with a sign, as years beyond 9999 are written.
    WhenLong,
    /// Digits only.
    None,
}

#[derive(Clone, Copy, Debug)]
struct OffsetForm {
    colon: bool,
    minutes_optional: bool,
    seconds: bool,
    /// `Z` stands for no offset.
    zulu: bool,
}

const MONTHS_SHORT: &[(&str, i64)] = &[
    ("Jan", 1),
    ("Feb", 2),
    ("Mar", 3),
    ("Apr", 4),
    ("May", 5),
    ("Jun", 6),
    ("Jul", 7),
    ("Aug", 8),
    ("Sep", 9),
    ("Oct", 10),
    ("Nov", 11),
    ("Dec", 12),
];
const MONTHS_LONG: &[(&str, i64)] = &[
    ("January", 1),
    ("February", 2),
    ("March", 3),
    ("April", 4),
    ("May", 5),
    ("June", 6),
    ("July", 7),
    ("August", 8),
    ("September", 9),
    ("October", 10),
    ("November", 11),
    ("December", 12),
];
const HALVES_OF_DAY: &[(&str, i64)] = &[("AM", 0), ("PM", 1)];
const ERAS: &[(&str, i64)] = &[("BC", 0), ("AD", 1)];
const ERAS_LONG: &[(&str, i64)] = &[("Before Christ", 0), ("Anno Domini", 1)];

impl DateTimePattern {
    /// Compiles a pattern.
    ///
    /// # Errors
    /// `INVALID_DATETIME_PATTERN.ILLEGAL_CHARACTER` for letters that Spark does not read (`E`, `Q`, …), `.LENGTH` for too many of one,
    /// `INCONSISTENT_BEHAVIOR_CROSS_VERSION.DATETIME_WEEK_BASED_PATTERN` for week-based letters, `INVALID_DATETIME_PATTERN` otherwise.
    pub fn compile(pattern: &str) -> Result<Self> {
        let mut compiler = Compiler { pattern, rest: pattern.chars().peekable().collect(), at: 0, era: has_letter(pattern, 'G') };
        let items = compiler.items(0)?;
        Ok(DateTimePattern { items })
    }

    /// The date in days since 1970; the time of day and a zone are read and ignored.
    pub fn date(&self, text: &str) -> Option<i32> {
        i32::try_from(self.read(text)?.days()?).ok()
    }

    /// The instant in microseconds since 1970; `zone` applies where the text names none.
    pub fn timestamp(&self, text: &str, zone: Zone) -> Option<i64> {
        let fields = self.read(text)?;
        fields.zone().unwrap_or(zone).instant(fields.local_micros()?)
    }

    /// The local time in microseconds since 1970; text that names a zone is refused.
    pub fn timestamp_ntz(&self, text: &str) -> Option<i64> {
        let fields = self.read(text)?;
        if fields.zone().is_some() { None } else { fields.local_micros() }
    }

    fn read(&self, text: &str) -> Option<Fields> {
        let mut fields = Fields::default();
        let end = read_items(&self.items, text.as_bytes(), 0, &mut fields)?;
        (end == text.len()).then_some(fields)
    }
}

/// Whether a letter occurs outside of quotes.
fn has_letter(pattern: &str, letter: char) -> bool {
    pattern.split('\'').step_by(2).any(|part| part.contains(letter))
}

struct Compiler<'a> {
    pattern: &'a str,
    rest: Vec<char>,
    at: usize,
    /// The pattern has an era: `y` is the year of the era then.
    era: bool,
}

impl Compiler<'_> {
    fn bad(&self, subclass: &str, what: &str) -> Error {
        let code = if subclass.is_empty() { "INVALID_DATETIME_PATTERN".to_owned() } else { format!("INVALID_DATETIME_PATTERN.{subclass}") };
        Error::invalid(code, format!("the datetime pattern '{}' cannot be used: {what}", self.pattern)).with_sqlstate("22007")
    }

    /// Elements up to the end, or to the bracket that closes this level.
    fn items(&mut self, depth: usize) -> Result<Vec<Item>> {
        let mut items = Vec::new();
        while let Some(c) = self.rest.get(self.at).copied() {
            self.at += 1;
            match c {
                '[' if depth < 16 => items.push(Item::Optional(self.items(depth + 1)?)),
                ']' if depth > 0 => return Ok(items),
                '[' | ']' | '{' | '}' | '#' => return Err(self.bad("", &format!("'{c}' is out of place"))),
                '\'' => literal(&mut items, &self.quoted()?),
                letter if letter.is_ascii_alphabetic() => {
                    let start = self.at;
                    while self.rest.get(self.at) == Some(&letter) {
                        self.at += 1;
                    }
                    items.push(self.letters(letter, self.at - start + 1)?);
                }
                other => literal(&mut items, other.encode_utf8(&mut [0; 4])),
            }
        }
        // Java closes optional sections that are left open.
        Ok(items)
    }

    fn quoted(&mut self) -> Result<String> {
        let mut text = String::new();
        while let Some(c) = self.rest.get(self.at).copied() {
            self.at += 1;
            if c != '\'' {
                text.push(c);
            } else if self.rest.get(self.at) == Some(&'\'') && !text.is_empty() {
                self.at += 1;
                text.push('\'');
            } else {
                return Ok(if text.is_empty() { "'".to_owned() } else { text });
            }
        }
        Err(self.bad("", "a quote is not closed"))
    }

    fn letters(&self, letter: char, count: usize) -> Result<Item> {
        let number = |field, sign: Sign, longest: usize| Item::Number { field, min: count, max: longest, sign };
        let fixed_or_free = |field| if count == 1 { number(field, Sign::Minus, 19) } else { number(field, Sign::None, count) };
        let year = if self.era && letter == 'y' { Field::YearOfEra } else { Field::Year };
        let item = match (letter, count) {
            ('Y' | 'W' | 'w' | 'u' | 'e' | 'c', _) => {
                return Err(Error::invalid(
                    "INCONSISTENT_BEHAVIOR_CROSS_VERSION.DATETIME_WEEK_BASED_PATTERN",
                    format!("the datetime pattern '{}' has the week-based letter '{letter}', which cannot be read back", self.pattern),
                ));
            }
            ('A' | 'B' | 'n' | 'N' | 'p' | 'E' | 'F' | 'q' | 'Q', _) => {
                return Err(self.bad("ILLEGAL_CHARACTER", &format!("the letter '{letter}' cannot be read from text")));
            }
            ('y', 7..) | ('G' | 'M' | 'L', 5..) => return Err(self.bad("LENGTH", &format!("too many of the letter '{letter}'"))),
            ('y', 2) => Item::ShortYear(year),
            ('y', 1 | 3) => number(year, Sign::Minus, 19),
            ('y', _) => number(year, Sign::WhenLong, 19),
            ('M' | 'L', 1 | 2) => fixed_or_free(Field::Month),
            ('M' | 'L', 3) => Item::Name { field: Field::Month, names: MONTHS_SHORT },
            ('M' | 'L', _) => Item::Name { field: Field::Month, names: MONTHS_LONG },
            ('d', 1 | 2) => fixed_or_free(Field::Day),
            ('D', 1 | 3) => fixed_or_free(Field::DayOfYear),
            ('D', 2) => number(Field::DayOfYear, Sign::None, 3),
            ('H', 1 | 2) => fixed_or_free(Field::Hour),
            ('k', 1 | 2) => fixed_or_free(Field::ClockHour),
            ('h', 1 | 2) => fixed_or_free(Field::ClockHourOfHalf),
            ('K', 1 | 2) => fixed_or_free(Field::HourOfHalf),
            ('m', 1 | 2) => fixed_or_free(Field::Minute),
            ('s', 1 | 2) => fixed_or_free(Field::Second),
            ('S', 1..=9) => Item::Fraction { max: count },
            ('a', 1) => Item::Name { field: Field::HalfOfDay, names: HALVES_OF_DAY },
            ('G', 4) => Item::Name { field: Field::Era, names: ERAS_LONG },
            ('G', _) => Item::Name { field: Field::Era, names: ERAS },
            ('X' | 'x', 1..=5) => Item::Offset(OffsetForm {
                colon: count == 3 || count == 5,
                minutes_optional: count == 1,
                seconds: count > 3,
                zulu: letter == 'X',
            }),
            ('Z', 1..=3) => Item::Offset(OffsetForm { colon: false, minutes_optional: false, seconds: false, zulu: false }),
            ('Z', 5) => Item::Offset(OffsetForm { colon: true, minutes_optional: false, seconds: true, zulu: true }),
            ('Z', 4) | ('O', 1 | 4) => Item::GmtOffset,
            ('V', 2) | ('z', 1..=4) => Item::ZoneId,
            _ => return Err(self.bad("", &format!("'{}' means nothing", letter.to_string().repeat(count)))),
        };
        Ok(item)
    }
}

fn literal(items: &mut Vec<Item>, text: &str) {
    match items.last_mut() {
        Some(Item::Literal(before)) => before.push_str(text),
        _ => items.push(Item::Literal(text.to_owned())),
    }
}

/// Reads elements from `at` on and returns where they end.
fn read_items(items: &[Item], text: &[u8], mut at: usize, fields: &mut Fields) -> Option<usize> {
    for (index, item) in items.iter().enumerate() {
        at = match item {
            Item::Literal(literal) => starts_with_any_case(text, at, literal)?,
            Item::Number { field, min, max, sign } => {
                let reserved = if min == max { 0 } else { digits_reserved(items.get(index + 1..).unwrap_or_default()) };
                let (value, end) = read_number(text, at, (*min, *max), *sign, reserved)?;
                fields.set(*field, value)?;
                end
            }
            Item::ShortYear(field) => {
                let (value, end) = read_number(text, at, (2, 2), Sign::None, 0)?;
                fields.set(*field, 2000 + value)?;
                end
            }
            Item::Fraction { max } => {
                let (value, end) = read_number(text, at, (1, *max), Sign::None, 0)?;
                let places = u32::try_from(9_usize.checked_sub(end - at)?).ok()?;
                fields.set(Field::Nano, value * 10_i64.pow(places))?;
                end
            }
            Item::Name { field, names } => {
                let (end, value) = names
                    .iter()
                    .filter_map(|(name, value)| Some((starts_with_any_case(text, at, name)?, *value)))
                    .max_by_key(|found| found.0)?;
                fields.set(*field, value)?;
                end
            }
            Item::Offset(form) => {
                let (seconds, end) = read_offset(text, at, *form)?;
                fields.set(Field::Offset, i64::from(seconds))?;
                end
            }
            Item::GmtOffset => {
                let end = starts_with_any_case(text, at, "GMT")?;
                let (zone, end) = longest_zone(text, end).unwrap_or((Zone::UTC, end));
                fields.region = Some(zone);
                end
            }
            Item::ZoneId => {
                let (zone, end) = longest_zone(text, at)?;
                fields.region = Some(zone);
                end
            }
            Item::Optional(inner) => {
                let mut tried = fields.clone();
                match read_items(inner, text, at, &mut tried) {
                    Some(end) => {
                        *fields = tried;
                        end
                    }
                    None => at,
                }
            }
        };
    }
    Some(at)
}

/// How many digits belong to the fixed-width numbers that follow directly.
fn digits_reserved(following: &[Item]) -> usize {
    following
        .iter()
        .map_while(|item| match item {
            Item::Number { min, max, .. } if min == max => Some(*max),
            Item::ShortYear(_) => Some(2),
            _ => None,
        })
        .sum()
}

fn starts_with_any_case(text: &[u8], at: usize, word: &str) -> Option<usize> {
    let end = at + word.len();
    text.get(at..end)?.eq_ignore_ascii_case(word.as_bytes()).then_some(end)
}

fn read_number(text: &[u8], at: usize, (min, max): (usize, usize), sign: Sign, reserved: usize) -> Option<(i64, usize)> {
    let (mut start, mut negative, mut plus) = (at, false, false);
    match text.get(at) {
        Some(b'-') if sign != Sign::None => (start, negative) = (at + 1, true),
        Some(b'+') if sign == Sign::WhenLong => (start, plus) = (at + 1, true),
        _ => {}
    }
    let digits = text.get(start..)?.iter().take(max + reserved).take_while(|byte| byte.is_ascii_digit()).count();
    let taken = if reserved > 0 { digits.saturating_sub(reserved).max(min) } else { digits };
    if taken < min || taken > digits {
        return None;
    }
    if sign == Sign::WhenLong && !negative && plus != (taken > min) {
        return None;
    }
    let value = super::parse_long(text.get(start..start + taken)?)?;
    if negative && value == 0 {
        return None;
    }
    Some((if negative { -value } else { value }, start + taken))
}

fn read_offset(text: &[u8], at: usize, form: OffsetForm) -> Option<(i32, usize)> {
    let sign = match text.get(at)? {
        b'Z' | b'z' if form.zulu => return Some((0, at + 1)),
        b'+' => 1,
        b'-' => -1,
        _ => return None,
    };
    let two = |at: usize| -> Option<i32> {
        let (tens, ones) = (text.get(at)?.wrapping_sub(b'0'), text.get(at + 1)?.wrapping_sub(b'0'));
        (tens < 10 && ones < 10).then(|| i32::from(tens) * 10 + i32::from(ones))
    };
    // Minutes or seconds at a place, behind a colon where the form has colons.
    let part = |at: usize| -> Option<(i32, usize)> {
        let at = if form.colon { (text.get(at)? == &b':').then_some(at + 1)? } else { at };
        two(at).filter(|value| *value < 60).map(|value| (value, at + 2))
    };
    let hours = two(at + 1)?;
    let (mut minutes, mut seconds, mut end) = (0, 0, at + 3);
    match part(end) {
        Some(found) => (minutes, end) = found,
        None if form.minutes_optional => {}
        None => return None,
    }
    if form.seconds
        && let Some(found) = part(end)
    {
        (seconds, end) = found;
    }
    let total = hours * 3600 + minutes * 60 + seconds;
    (total <= 18 * 3600).then_some((sign * total, end))
}

/// The longest text at a place that names a zone.
fn longest_zone(text: &[u8], at: usize) -> Option<(Zone, usize)> {
    let rest = text.get(at..)?;
    let most = rest.iter().take(64).take_while(|byte| byte.is_ascii_alphanumeric() || b"/_+-:".contains(byte)).count();
    (1..=most).rev().find_map(|length| {
        let id = std::str::from_utf8(rest.get(..length)?).ok()?;
        let daylight = match id {
            "PDT" => "PST",
            "MDT" => "America/Denver",
            "CDT" => "CST",
            "EDT" => "America/New_York",
            "CEST" | "CET" => "Europe/Paris",
            other => other,
        };
        Some((Zone::parse(daylight)?, at + length))
    })
}
