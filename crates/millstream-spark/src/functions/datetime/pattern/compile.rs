//! From the text of a pattern to its items, with the letters and lengths that Spark refuses.

use millstream_core::{Error, Result};

use super::offset::OffsetStyle;
use super::{Field, Item, Number, Sign, Use};

/// Why a pattern is refused.
enum Refusal {
    WeekBased(char),
    IllegalCharacter(char),
    Length(char),
    Malformed,
}

/// The most digits of a number without a width.
const MAX_DIGITS: usize = 19;

/// Compiles a pattern.
///
/// # Errors
/// See [`super::Pattern::compile`].
pub(super) fn compile(pattern: &str, to_be_used_for: Use) -> Result<Vec<Item>> {
    let items = check(pattern, to_be_used_for).and_then(|()| {
        let mut builder = Builder { frames: vec![Frame::default()], years_of_era: has_era(pattern) };
        match to_be_used_for {
            Use::Formatting => builder.append(pattern)?,
            Use::Parsing | Use::ParsingAnew => builder.append_with_fractions(pattern)?,
        }
        Ok(builder.finish())
    });
    items.map_err(|refusal| {
        let refusal = if to_be_used_for == Use::ParsingAnew { Refusal::Malformed } else { refusal };
        describe(pattern, &refusal, to_be_used_for)
    })
}

/// The error of a refusal: patterns that older Sparks took have a condition of their own.
fn describe(pattern: &str, refusal: &Refusal, to_be_used_for: Use) -> Error {
    if to_be_used_for != Use::ParsingAnew && older_sparks_took(pattern) {
        return Error::invalid(
            "INCONSISTENT_BEHAVIOR_CROSS_VERSION.DATETIME_PATTERN_RECOGNITION",
            format!("the datetime pattern '{pattern}' is not recognised since Spark 3.0: write it by Spark's datetime patterns"),
        )
        .with_sqlstate("42K0B");
    }
    match refusal {
        Refusal::WeekBased(letter) => Error::invalid(
            "INCONSISTENT_BEHAVIOR_CROSS_VERSION.DATETIME_WEEK_BASED_PATTERN",
            format!("week-based letters are not supported since Spark 3.0, and '{pattern}' has '{letter}': use EXTRACT instead"),
        )
        .with_sqlstate("42K0B"),
        Refusal::IllegalCharacter(letter) => Error::invalid(
            "INVALID_DATETIME_PATTERN.ILLEGAL_CHARACTER",
            format!("the datetime pattern '{pattern}' has the letter '{letter}', which is not allowed here"),
        )
        .with_sqlstate("22007"),
        Refusal::Length(letter) => Error::invalid(
            "INVALID_DATETIME_PATTERN.LENGTH",
            format!("the datetime pattern '{pattern}' has too many letters '{letter}': write fewer"),
        )
        .with_sqlstate("22007"),
        Refusal::Malformed => Error::invalid(
            "INVALID_DATETIME_PATTERN.WITH_SUGGESTION",
            format!("'{pattern}' is no datetime pattern: write it by Spark's datetime patterns"),
        )
        .with_sqlstate("22007"),
    }
}

/// Whether `java.text.SimpleDateFormat` takes the pattern.
fn older_sparks_took(pattern: &str) -> bool {
    let mut quoted = false;
    let mut run = (' ', 0);
    for character in pattern.chars() {
        if character == '\'' {
            quoted = !quoted;
        } else if !quoted && character.is_ascii_alphabetic() {
            run = if run.0 == character { (character, run.1 + 1) } else { (character, 1) };
            if !"GyYMLwWDdFEuaHkKhmsSzZX".contains(character) || run.0 == 'X' && run.1 > 3 {
                return false;
            }
            continue;
        }
        run = (' ', 0);
    }
    !quoted
}

/// The parts of a pattern outside of quotes.
fn unquoted(pattern: &str) -> impl Iterator<Item = &str> {
    pattern.split('\'').step_by(2)
}

fn has_era(pattern: &str) -> bool {
    unquoted(pattern).any(|part| part.contains('G'))
}

/// The letters and lengths that Spark refuses before the pattern is looked at any further.
fn check(pattern: &str, to_be_used_for: Use) -> std::result::Result<(), Refusal> {
    for part in unquoted(pattern) {
        if let Some(letter) = part.chars().find(|letter| "YWwuec".contains(*letter)) {
            return Err(Refusal::WeekBased(letter));
        }
        let illegal = if to_be_used_for != Use::Formatting { "ABnNpEFqQ" } else { "ABnNp" };
        if let Some(letter) = part.chars().find(|letter| illegal.contains(*letter)) {
            return Err(Refusal::IllegalCharacter(letter));
        }
        for (letter, count) in [('G', 5), ('M', 5), ('L', 5), ('E', 5), ('Q', 5), ('q', 5), ('y', 7)] {
            if part.contains(&letter.to_string().repeat(count)) {
                return Err(Refusal::Length(letter));
            }
        }
    }
    Ok(())
}

/// An optional section under construction, or the whole pattern.
#[derive(Default)]
struct Frame {
    items: Vec<Item>,
    /// The number that takes the digits left over by the fixed numbers directly after it.
    active: Option<usize>,
}

struct Builder {
    frames: Vec<Frame>,
    years_of_era: bool,
}

impl Builder {
    fn top(&mut self) -> &mut Frame {
        if self.frames.is_empty() {
            self.frames.push(Frame::default());
        }
        let last = self.frames.len() - 1;
        &mut self.frames[last]
    }

    fn push(&mut self, item: Item) {
        let frame = self.top();
        frame.active = None;
        frame.items.push(item);
    }

    /// Adds a number. A number of fixed width directly after another takes its digits from what that one would take.
    fn push_number(&mut self, item: Item, fixed: Option<usize>) {
        let frame = self.top();
        let index = frame.items.len();
        match (frame.active, fixed) {
            (Some(active), Some(width)) => {
                if let Some(Item::Number(number)) = frame.items.get_mut(active) {
                    number.leaves += width;
                }
            }
            _ => frame.active = Some(index),
        }
        frame.items.push(item);
    }

    fn number(&mut self, field: Field, min: usize, max: usize, sign: Sign) {
        let fixed = (min == max && sign == Sign::Never).then_some(min);
        self.push_number(Item::Number(Number { field, min, max, sign, leaves: 0, two_digits: false }), fixed);
    }

    fn end_optional(&mut self) -> std::result::Result<(), Refusal> {
        match self.frames.pop() {
            Some(frame) if !self.frames.is_empty() => {
                self.push(Item::Optional(frame.items));
                Ok(())
            }
            _ => Err(Refusal::Malformed),
        }
    }

    fn finish(mut self) -> Vec<Item> {
        while self.frames.len() > 1 {
            let _ = self.end_optional();
        }
        self.frames.pop().unwrap_or_default().items
    }

    /// As [`Builder::append`], but a run of `S` takes any number of digits up to its length.
    fn append_with_fractions(&mut self, pattern: &str) -> std::result::Result<(), Refusal> {
        let mut rest = pattern;
        while let Some(start) = rest.find('S') {
            let (before, after) = rest.split_at(start);
            self.append(before)?;
            let letters = after.chars().take_while(|letter| *letter == 'S').count();
            self.fraction(1, letters)?;
            rest = after.get(letters..).unwrap_or_default();
        }
        self.append(rest)
    }

    fn fraction(&mut self, min: usize, max: usize) -> std::result::Result<(), Refusal> {
        if max > 9 {
            return Err(Refusal::Malformed);
        }
        let item = Item::Fraction { min, max };
        if min == max {
            self.push_number(item, Some(max))
        } else {
            self.push(item)
        }
        Ok(())
    }

    fn append(&mut self, pattern: &str) -> std::result::Result<(), Refusal> {
        let mut characters = pattern.chars().peekable();
        while let Some(character) = characters.next() {
            match character {
                'A'..='Z' | 'a'..='z' => {
                    let mut count = 1;
                    while characters.next_if_eq(&character).is_some() {
                        count += 1;
                    }
                    self.letters(character, count)?;
                }
                '\'' => {
                    let mut literal = String::new();
                    loop {
                        match characters.next() {
                            Some('\'') if characters.next_if_eq(&'\'').is_some() => literal.push('\''),
                            Some('\'') => break,
                            Some(character) => literal.push(character),
                            None => return Err(Refusal::Malformed),
                        }
                    }
                    // Two quotes are one.
                    let literal = if literal.is_empty() { "'" } else { &literal };
                    literal.chars().for_each(|character| self.push(Item::Literal(character)));
                }
                '[' => {
                    self.top().active = None;
                    self.frames.push(Frame::default());
                }
                ']' => self.end_optional()?,
                '{' | '}' | '#' => return Err(Refusal::Malformed),
                _ => self.push(Item::Literal(character)),
            }
        }
        Ok(())
    }

    fn letters(&mut self, letter: char, count: usize) -> std::result::Result<(), Refusal> {
        let malformed = Err(Refusal::Malformed);
        match letter {
            'y' => {
                let field = if self.years_of_era { Field::YearOfEra } else { Field::Year };
                match count {
                    2 => {
                        let number = Number { field, min: 2, max: 2, sign: Sign::Never, leaves: 0, two_digits: true };
                        self.push_number(Item::Number(number), Some(2));
                    }
                    1 | 3 => self.number(field, count, MAX_DIGITS, Sign::Normal),
                    _ => self.number(field, count, MAX_DIGITS, Sign::ExceedsPad),
                }
            }
            'M' | 'L' | 'Q' | 'q' => {
                let field = if matches!(letter, 'M' | 'L') { Field::Month } else { Field::Quarter };
                match count {
                    1 => self.number(field, 1, MAX_DIGITS, Sign::Normal),
                    2 => self.number(field, 2, 2, Sign::Never),
                    3 | 4 => self.push(Item::Text { field, short: count == 3 }),
                    _ => return malformed,
                }
            }
            'E' if count <= 4 => self.push(Item::Text { field: Field::DayOfWeek, short: count < 4 }),
            'G' if count <= 4 => self.push(Item::Text { field: Field::Era, short: count < 4 }),
            'a' if count == 1 => self.push(Item::Text { field: Field::AmPm, short: true }),
            'S' => self.fraction(count, count)?,
            'F' if count == 1 => self.number(Field::AlignedDayOfWeek, 1, MAX_DIGITS, Sign::Normal),
            'D' if count <= 3 => match count {
                1 => self.number(Field::DayOfYear, 1, MAX_DIGITS, Sign::Normal),
                _ => self.number(Field::DayOfYear, count, 3, Sign::Never),
            },
            'g' => self.number(Field::ModifiedJulianDay, count.min(MAX_DIGITS), MAX_DIGITS, Sign::Normal),
            'd' | 'h' | 'H' | 'k' | 'K' | 'm' | 's' => {
                let field = match letter {
                    'd' => Field::DayOfMonth,
                    'h' => Field::ClockHourOfAmPm,
                    'H' => Field::HourOfDay,
                    'k' => Field::ClockHourOfDay,
                    'K' => Field::HourOfAmPm,
                    'm' => Field::Minute,
                    _ => Field::Second,
                };
                match count {
                    1 => self.number(field, 1, MAX_DIGITS, Sign::Normal),
                    2 => self.number(field, 2, 2, Sign::Never),
                    _ => return malformed,
                }
            }
            'V' if count == 2 => self.push(Item::ZoneId),
            'z' if count <= 4 => self.push(Item::ZoneName { full: count == 4, generic: false }),
            'v' if count == 1 || count == 4 => self.push(Item::ZoneName { full: count == 4, generic: true }),
            'O' if count == 1 || count == 4 => self.push(Item::LocalizedOffset { full: count == 4 }),
            'Z' => match count {
                1..=3 => self.push(Item::Offset(OffsetStyle::RFC)),
                4 => self.push(Item::LocalizedOffset { full: true }),
                5 => self.push(Item::Offset(OffsetStyle::ID)),
                _ => return malformed,
            },
            'X' | 'x' => match OffsetStyle::iso(count, letter == 'X') {
                Some(style) => self.push(Item::Offset(style)),
                None => return malformed,
            },
            _ => return malformed,
        }
        Ok(())
    }
}
