//! What `regexp_replace` puts in the place of a match: text with references to groups, as Java writes them.

use millstream_core::{Error, Result};

use super::super::super::faults;
use super::super::regex::{Groups, Regex};

/// A replacement, read as far as that is possible without the pattern.
#[derive(Debug)]
pub(super) struct Replacement {
    text: String,
    parts: Vec<Part>,
    /// What is wrong behind the parts.
    fault: Option<&'static str>,
}

#[derive(Debug, PartialEq)]
enum Part {
    Literal(String),
    /// `$12`: the group of as many of the digits as there are groups.
    Number(Vec<usize>),
    /// `${name}`
    Name(String),
}

impl Replacement {
    pub(super) fn parse(text: &str) -> Replacement {
        let (mut parts, mut fault) = (Vec::new(), None);
        let mut literal = String::new();
        let mut rest = text.chars().peekable();
        while let Some(character) = rest.next() {
            match character {
                '\\' => match rest.next() {
                    Some(escaped) => literal.push(escaped),
                    None => fault = Some("it ends with a backslash"),
                },
                '$' => {
                    if !literal.is_empty() {
                        parts.push(Part::Literal(std::mem::take(&mut literal)));
                    }
                    match rest.peek() {
                        Some('{') => {
                            rest.next();
                            let name: String = std::iter::from_fn(|| rest.next_if(char::is_ascii_alphanumeric)).collect();
                            if name.is_empty() || rest.next() != Some('}') || name.starts_with(|c: char| c.is_ascii_digit()) {
                                fault = Some("'${' must be followed by the name of a group and '}'");
                            }
                            parts.push(Part::Name(name));
                        }
                        Some(digit) if digit.is_ascii_digit() => {
                            let digits = std::iter::from_fn(|| rest.next_if(char::is_ascii_digit));
                            parts.push(Part::Number(digits.filter_map(|digit| digit.to_digit(10)).map(|digit| digit as usize).collect()));
                        }
                        _ => fault = Some("'$' must be followed by the number or the name of a group"),
                    }
                }
                other => literal.push(other),
            }
            if fault.is_some() {
                break;
            }
        }
        if !literal.is_empty() {
            parts.push(Part::Literal(literal));
        }
        Replacement { text: text.to_owned(), parts, fault }
    }

    /// Appends the replacement for a match.
    ///
    /// # Errors
    /// When it refers to a group that the pattern does not have, or cannot be read.
    pub(super) fn write(&self, regex: &Regex, groups: &Groups, text: &str, out: &mut String) -> Result<()> {
        let group = |number: usize, out: &mut String| {
            out.push_str(groups.get(number).and_then(|(start, end)| text.get(start..end)).unwrap_or_default());
        };
        for part in &self.parts {
            match part {
                Part::Literal(literal) => out.push_str(literal),
                Part::Name(name) => match regex.group_named(name) {
                    Some(number) => group(number, out),
                    None => return Err(self.invalid(&format!("there is no group '{name}'"))),
                },
                Part::Number(digits) => {
                    let (first, more) = digits.split_first().unwrap_or((&0, &[]));
                    if *first > regex.groups() {
                        return Err(self.invalid(&format!("there is no group {first}")));
                    }
                    let (mut number, mut taken) = (*first, 0);
                    for digit in more {
                        let longer = number * 10 + digit;
                        if longer > regex.groups() {
                            break;
                        }
                        (number, taken) = (longer, taken + 1);
                    }
                    group(number, out);
                    out.extend(more.iter().skip(taken).filter_map(|digit| char::from_digit(u32::try_from(*digit).ok()?, 10)));
                }
            }
        }
        match self.fault {
            Some(fault) => Err(self.invalid(fault)),
            None => Ok(()),
        }
    }

    fn invalid(&self, what: &str) -> Error {
        let message = format!("the replacement '{}' of `regexp_replace` is invalid: {what}", self.text);
        faults::row("INVALID_REGEXP_REPLACE", "22023", message)
    }
}
