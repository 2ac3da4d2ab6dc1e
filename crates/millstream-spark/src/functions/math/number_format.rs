//! Number formats such as `$99,999.99S`: `to_number`, `try_to_number`, and `to_char` of numbers.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, StringArray};
use arrow::datatypes::{DataType, Decimal128Type};
use millstream_core::{Error, Result};

use crate::functions::cast::push_decimal;
use crate::functions::coercion::{decimal_for, is_numeric};
use crate::functions::{Arguments, Call, Functions, Kernel, Typed, cast, faults, kernel};

pub(super) fn register(functions: &mut Functions) {
    functions.add("to_number", |call| to_number(call, false));
    functions.add("try_to_number", |call| to_number(call, true));
}

fn to_number(call: &Call<'_>, attempt: bool) -> Result<Typed> {
    call.arity(2..=2)?;
    let text = call.string(0)?;
    let Some(format) = call.constant_text(1)? else { return Ok(Typed::null(&DataType::Decimal128(10, 0))) };
    let format = Format::parse(&format)?;
    let (precision, scale) = format.decimal();
    let nullable = text.nullable || attempt;
    let kernel = ToNumber { format, attempt };
    Ok(kernel::scalar("to_number", kernel, vec![text], DataType::Decimal128(precision, scale), nullable))
}

/// `to_char(number, format)`.
///
/// # Errors
/// Those of the format, and `DATATYPE_MISMATCH` for what is not a number.
pub(in crate::functions) fn number_to_char(call: &Call<'_>) -> Result<Typed> {
    let value = call.value(0)?.clone();
    let (precision, scale) = match &value.data_type {
        data_type if is_numeric(data_type) => decimal_for(data_type).unwrap_or((38, 0)),
        DataType::Utf8 | DataType::Null => (38, 18),
        other => return Err(faults::unexpected_type(call.name, 0, "\"NUMERIC\"", other)),
    };
    let value = cast::implicit(value, &DataType::Decimal128(precision, scale), call.settings)?;
    let Some(format) = call.constant_text(1)? else { return Ok(Typed::null(&DataType::Utf8)) };
    let kernel = ToChar { format: Format::parse(&format)? };
    let nullable = value.nullable;
    Ok(kernel::scalar("to_char", kernel, vec![value], DataType::Utf8, nullable))
}

/// One part of a format.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Token {
    /// Digits between separators, from left to right.
    Digits(Vec<Group>),
    Point,
    Dollar,
    /// `S`: a sign, also of positive numbers.
    Sign,
    /// `MI`: a sign of negative numbers.
    Minus,
    /// The brackets of `PR`, around negative numbers.
    Open,
    Close,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Group {
    digits: usize,
    /// It begins with `0`, so that all of its digits must be there.
    exact: bool,
}

/// A number format.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Format {
    text: String,
    tokens: Vec<Token>,
}

impl Format {
    fn parse(text: &str) -> Result<Format> {
        let upper = text.to_ascii_uppercase();
        let mut tokens: Vec<Token> = Vec::new();
        let mut rest = upper.as_str();
        let bad = |condition: &'static str, what: &str| {
            Error::invalid(
                format!("INVALID_FORMAT.{condition}"),
                format!("the number format '{text}' {what}: write one like 'S$99,999.99'"),
            )
            .with_sqlstate("42601")
        };
        if text.is_empty() {
            return Err(bad("EMPTY", "is empty"));
        }
        if !text.contains(['0', '9']) {
            return Err(bad("WRONG_NUM_DIGIT", "has no digits"));
        }
        while let Some(first) = rest.chars().next() {
            let mut taken = first.len_utf8();
            match first {
                '0' | '9' => {
                    let run = rest.find(|c| c != '0' && c != '9').unwrap_or(rest.len());
                    taken = run;
                    let group = Group { digits: run, exact: first == '0' && !tokens.contains(&Token::Point) };
                    match tokens.last_mut() {
                        Some(Token::Digits(groups)) => groups.push(group),
                        _ => tokens.push(Token::Digits(vec![group])),
                    }
                }
                ',' | 'G' => {
                    let followed = rest.get(1..).is_some_and(|rest| rest.starts_with(['0', '9']));
                    if !followed || !matches!(tokens.last(), Some(Token::Digits(_))) {
                        return Err(bad("CONT_THOUSANDS_SEPS", "has a separator without digits on both sides"));
                    }
                    if tokens.contains(&Token::Point) {
                        return Err(bad("THOUSANDS_SEPS_MUST_BEFORE_DEC", "has a separator behind the point"));
                    }
                }
                '.' | 'D' => tokens.push(Token::Point),
                '$' => tokens.push(Token::Dollar),
                'S' => tokens.push(Token::Sign),
                'M' if rest.starts_with("MI") => {
                    taken = 2;
                    tokens.push(Token::Minus);
                }
                'P' if rest == "PR" => {
                    taken = 2;
                    tokens.insert(0, Token::Open);
                    tokens.push(Token::Close);
                }
                other => return Err(bad("UNEXPECTED_TOKEN", &format!("has an unexpected '{other}'"))),
            }
            rest = rest.get(taken..).unwrap_or("");
        }
        let format = Format { text: text.to_owned(), tokens };
        format.check(bad)?;
        Ok(format)
    }

    /// Checks the order `[MI|S] [$] digits [. digits] [$] [PR|MI|S]`.
    fn check(&self, bad: impl Fn(&'static str, &str) -> Error) -> Result<()> {
        let count = |wanted: fn(&Token) -> bool| self.tokens.iter().filter(|token| wanted(token)).count();
        let repeated = [
            count(|token| *token == Token::Point),
            count(|token| *token == Token::Dollar),
            count(|token| matches!(token, Token::Sign | Token::Minus | Token::Open)),
        ];
        if repeated.iter().any(|count| *count > 1) {
            return Err(bad("WRONG_NUM_TOKEN", "has a sign, a point or a currency twice"));
        }
        let last = self.tokens.len().saturating_sub(1);
        let edges = self.tokens.iter().enumerate().filter(|(_, token)| matches!(token, Token::Sign | Token::Minus));
        if edges.into_iter().any(|(place, _)| place != 0 && place != last) {
            return Err(bad("UNEXPECTED_TOKEN", "has a sign in its middle"));
        }
        let dollar = self.tokens.iter().position(|token| *token == Token::Dollar);
        let digits = |token: &Token| matches!(token, Token::Digits(_) | Token::Point);
        if let (Some(dollar), Some(first)) = (dollar, self.tokens.iter().position(digits))
            && dollar > first
            && self.tokens.iter().skip(dollar).any(digits)
        {
            return Err(bad("CUR_MUST_BEFORE_DIGIT", "has a currency in its middle"));
        }
        Ok(())
    }

    /// The decimal that numbers of this format fit.
    fn decimal(&self) -> (u8, i8) {
        let (mut whole, mut fraction, mut behind) = (0, 0, false);
        for token in &self.tokens {
            match token {
                Token::Point => behind = true,
                Token::Digits(groups) => {
                    let digits: usize = groups.iter().map(|group| group.digits).sum();
                    if behind { fraction += digits } else { whole += digits }
                }
                _ => {}
            }
        }
        let precision = u8::try_from(whole + fraction).unwrap_or(38).min(38);
        (precision.max(1), i8::try_from(fraction).unwrap_or(38).min(38))
    }

    /// The number that a text shows, with this many digits behind the point. `None` when it is not of this format.
    fn read(&self, text: &str, scale: i8) -> Option<i128> {
        let mut rest = text;
        let (mut negative, mut behind) = (false, false);
        let (mut whole, mut fraction) = (String::new(), String::new());
        let take = |rest: &mut &str, wanted: char| match rest.strip_prefix(wanted) {
            Some(after) => {
                *rest = after;
                true
            }
            None => false,
        };
        for token in &self.tokens {
            match token {
                Token::Digits(groups) if behind => {
                    let end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
                    let (digits, after) = rest.split_at_checked(end)?;
                    if digits.len() > groups.iter().map(|group| group.digits).sum() {
                        return None;
                    }
                    fraction.push_str(digits);
                    rest = after;
                }
                Token::Digits(groups) => {
                    rest = rest.trim_start_matches(' ');
                    let end = rest.find(|c: char| !c.is_ascii_digit() && c != ',').unwrap_or(rest.len());
                    let (run, after) = rest.split_at_checked(end)?;
                    let parts: Vec<&str> = if run.is_empty() { Vec::new() } else { run.split(',').collect() };
                    if parts.len() > groups.len() {
                        return None;
                    }
                    // Groups are matched from the right.
                    for (place, group) in groups.iter().rev().enumerate() {
                        let length = parts.len().checked_sub(place + 1).and_then(|index| parts.get(index)).map_or(0, |part| part.len());
                        if length > group.digits || group.exact && length != group.digits {
                            return None;
                        }
                    }
                    parts.iter().for_each(|part| whole.push_str(part));
                    rest = after;
                }
                Token::Point => behind = take(&mut rest, '.') || behind,
                Token::Dollar => {
                    if !take(&mut rest, '$') {
                        return None;
                    }
                }
                Token::Sign => {
                    if !take(&mut rest, '+') && take(&mut rest, '-') {
                        negative = !negative;
                    }
                }
                Token::Minus => negative ^= take(&mut rest, '-'),
                Token::Open => {
                    take(&mut rest, '<');
                }
                Token::Close => negative ^= take(&mut rest, '>'),
            }
        }
        if !rest.is_empty() || whole.len() + fraction.len() == 0 {
            return None;
        }
        let digits = format!("{whole}{fraction:0<width$}", width = usize::try_from(scale).ok()?);
        let number: i128 = digits.parse().ok()?;
        Some(if negative { -number } else { number })
    }

    /// A number as text, with `#` for its digits when they are too many.
    fn write(&self, unscaled: i128, scale: i8) -> String {
        let mut plain = String::new();
        push_decimal(&mut plain, unscaled.saturating_abs(), scale, true);
        let (whole, fraction) = plain.split_once('.').unwrap_or((&plain, ""));
        let (whole, fraction) = (whole.trim_start_matches('0'), fraction.trim_end_matches('0'));
        let negative = unscaled < 0;
        let (mut text, mut behind, mut fits) = (String::new(), false, true);
        // A sign before the digits stands right before the first of them, behind the spaces for those that are missing.
        let mut sign: Option<char> = None;
        let mut signed = |text: &mut String, c: char| {
            if text.is_empty() {
                sign = Some(c);
            } else {
                text.push(c);
            }
        };
        for token in &self.tokens {
            match token {
                Token::Digits(groups) if behind => {
                    let room: usize = groups.iter().map(|group| group.digits).sum();
                    fits &= fraction.len() <= room;
                    text.push_str(&format!("{fraction:0<room$}"));
                }
                Token::Digits(groups) => fits &= push_groups(&mut text, groups, whole),
                Token::Point => {
                    if text.ends_with(' ') {
                        text.pop();
                        text.push('0');
                    }
                    text.push('.');
                    behind = true;
                }
                Token::Dollar => text.push('$'),
                Token::Sign => signed(&mut text, if negative { '-' } else { '+' }),
                Token::Minus if negative => signed(&mut text, '-'),
                Token::Minus => text.push(' '),
                Token::Open if !negative => {}
                // So that positive numbers are as wide as negative ones.
                Token::Close if !negative => text.push_str("  "),
                Token::Open => signed(&mut text, '<'),
                Token::Close => text.push('>'),
            }
        }
        if let Some(sign) = sign {
            let digits = text.find(|c| c != ' ').unwrap_or(text.len());
            text.insert(digits, sign);
        }
        if !behind {
            fits &= fraction.is_empty();
        }
        if !fits {
            return self.overflowing();
        }
        text
    }

    /// What stands for a number that does not fit.
    fn overflowing(&self) -> String {
        let shown = |c: char| match c.to_ascii_uppercase() {
            '0' | '9' => '#',
            '.' | 'D' => '.',
            _ => ' ',
        };
        self.text.chars().map(shown).collect()
    }
}

/// Digits from the right into groups; what is missing is a zero or a space. Returns whether there was room.
fn push_groups(text: &mut String, groups: &[Group], digits: &str) -> bool {
    let room: usize = groups.iter().map(|group| group.digits).sum();
    let mut missing = room.saturating_sub(digits.len());
    let mut digits = digits.chars();
    let mut any = false;
    for (number, group) in groups.iter().enumerate() {
        if number > 0 {
            text.push(if any { ',' } else { ' ' });
        }
        for _ in 0..group.digits {
            if missing > 0 {
                missing -= 1;
                let zero = group.exact || any;
                any |= zero;
                text.push(if zero { '0' } else { ' ' });
            } else if let Some(digit) = digits.next() {
                any = true;
                text.push(digit);
            }
        }
    }
    digits.next().is_none()
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct ToNumber {
    format: Format,
    attempt: bool,
}

impl Kernel for ToNumber {
    fn evaluate(&self, arguments: &Arguments<'_>) -> Result<ArrayRef> {
        let values = arguments.array(0)?;
        let texts = values.as_string_opt::<i32>().ok_or_else(|| Error::internal("text is due"))?;
        let (precision, scale) = self.format.decimal();
        let mut builder = arrow::array::Decimal128Builder::with_capacity(texts.len());
        for text in texts {
            match text.map(|text| (text, self.format.read(text, scale))) {
                Some((_, Some(number))) => builder.append_value(number),
                Some((text, None)) if !self.attempt => {
                    let message =
                        format!("'{text}' is not a number of the format '{}': use `try_to_number` to get NULL instead", self.format.text);
                    return Err(faults::row("INVALID_FORMAT.MISMATCH_INPUT", "42601", message));
                }
                _ => builder.append_null(),
            }
        }
        let array = builder.finish().with_data_type(DataType::Decimal128(precision, scale));
        Ok(Arc::new(array))
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct ToChar {
    format: Format,
}

impl Kernel for ToChar {
    fn evaluate(&self, arguments: &Arguments<'_>) -> Result<ArrayRef> {
        let values = arguments.array(0)?;
        let (Some(numbers), DataType::Decimal128(_, scale)) = (values.as_primitive_opt::<Decimal128Type>(), values.data_type()) else {
            return Err(Error::internal("a decimal is due"));
        };
        Ok(Arc::new(numbers.iter().map(|number| number.map(|number| self.format.write(number, *scale))).collect::<StringArray>()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::functions::math::tests::check;

    #[test]
    fn texts_to_numbers() {
        check(&[
            ("to_number", "'454'; '999'", "decimal(3,0) 454"),
            ("to_number", "'454.00'; '000D00'", "decimal(5,2) 454.00"),
            ("to_number", "'12,454'; '99,999'", "decimal(5,0) 12454"),
            ("to_number", "'$78.12'; '$99.99'", "decimal(4,2) 78.12"),
            ("to_number", "'12,454.8-'; '99,999.9S'", "decimal(6,1) -12454.8"),
            ("to_number", "'<12>'; '99PR'", "decimal(2,0) -12"),
            ("to_number", "'abc'; '999'", "INVALID_FORMAT.MISMATCH_INPUT"),
            ("try_to_number", "'abc'; '999'", "decimal(3,0) null"),
            ("try_to_number", "'12,345.6'; '99,999.9'", "decimal(6,1) 12345.6"),
            ("to_number", "'- 12'; 'S99'", "decimal(2,0) -12"),
            ("to_number", "'.5'; '.9'", "decimal(1,1) 0.5"),
            ("to_number", "''; '999'", "INVALID_FORMAT.MISMATCH_INPUT"),
            ("to_number", "'1'; 'abc'", "INVALID_FORMAT.WRONG_NUM_DIGIT"),
            ("to_number", "'$1'; 'L9'", "INVALID_FORMAT.UNEXPECTED_TOKEN"),
        ]);
    }

    #[test]
    fn numbers_to_texts() {
        for (unscaled, scale, format, expected) in [
            (454, 0, "999", "454"),
            (45_400, 2, "000D00", "454.00"),
            (12_454, 0, "99,999", "12,454"),
            (7_812, 2, "$99.99", "$78.12"),
            (-124_548, 1, "99,999.9S", "12,454.8-"),
            (12, 0, "9999", "  12"),
            (12, 0, "0000", "0012"),
            (12_345_678, 3, "99,999.99", "## ###.##"),
            (1_234, 0, "999", "###"),
            (5, 1, "9.99", "0.50"),
            (0, 0, "9", " "),
            (0, 0, "0", "0"),
            (1_234, 3, "9.9", "#.#"),
            (-1, 1, "S0.0", "-0.1"),
            (12, 0, "99PR", "12  "),
            (-12, 0, "99PR", "<12>"),
            (12, 0, "MI99", " 12"),
            (-7, 0, "S9999", "   -7"),
            (0, 0, "S999", "   +"),
            (-35, 1, "9999.9PR", "   <3.5>"),
            (-5, 1, "S99.9", " -0.5"),
            (5, 0, "9,999", "    5"),
            (-5, 0, "$9,999S", "$    5-"),
            (0, 2, "$99.99", "$ 0.00"),
        ] {
            assert_eq!(Format::parse(format).unwrap().write(unscaled, scale), expected, "{format}");
        }
    }
}
