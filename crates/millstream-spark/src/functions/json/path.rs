//! `get_json_object`: what a path leads to, with Hive's peculiarities of wildcards.

use millstream_core::json::{Cursor, Fault, Number, non_number_text, quote, unescape};

use super::LENIENT;
use crate::functions::cast::push_double;

/// A path such as `$.a[0].b`.
#[derive(Debug)]
pub(super) struct Path {
    steps: Vec<Step>,
}

#[derive(Debug, PartialEq)]
enum Step {
    Named(String),
    Index(usize),
    /// All elements of an array.
    Elements,
    /// All fields of an object, which leads nowhere.
    Fields,
}

/// How what is found is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Style {
    /// Strings without quotes.
    Raw,
    Quoted,
    /// The elements of arrays one by one.
    Flat,
}

impl Path {
    /// Reads a path, `None` if it is none.
    pub(super) fn parse(text: &str) -> Option<Path> {
        let mut rest = text.trim_start().strip_prefix('$')?.trim_start();
        let mut steps = Vec::new();
        while !rest.is_empty() {
            let (step, behind) = step(rest)?;
            steps.push(step);
            rest = behind.trim_start();
        }
        Some(Path { steps })
    }

    /// Appends what the path leads to in a text; `false` if it leads nowhere or the text is no JSON.
    pub(super) fn find(&self, text: &str, out: &mut String) -> bool {
        let mut cursor = Cursor::new(text.as_bytes(), &LENIENT);
        let mut generator = Generator::default();
        let found = match cursor.next_token() {
            Ok(Some(_)) => follow(&mut cursor, &mut generator, Style::Raw, &self.steps).unwrap_or(false),
            _ => false,
        };
        if found {
            out.push_str(&String::from_utf8_lossy(&generator.out));
        }
        found
    }
}

fn step(text: &str) -> Option<(Step, &str)> {
    // White space may stand between the tokens.
    if let Some(rest) = text.strip_prefix(".*").filter(|rest| !rest.starts_with(|c: char| c != '.' && c != '[' && !c.is_whitespace())) {
        return Some((Step::Fields, rest));
    }
    if let Some(rest) = text.strip_prefix("['*']") {
        return Some((Step::Fields, rest));
    }
    if let Some(rest) = text.strip_prefix('.') {
        let rest = rest.trim_start();
        let (name, rest) = rest.split_at(rest.find(['.', '[']).unwrap_or(rest.len()));
        return (!name.is_empty()).then(|| (Step::Named(name.to_owned()), rest));
    }
    if let Some(rest) = text.strip_prefix("['") {
        let rest = rest.trim_start();
        let (name, rest) = rest.split_at(rest.find('\'')?);
        let rest = rest.strip_prefix("']")?;
        return (!name.is_empty()).then(|| (Step::Named(name.to_owned()), rest));
    }
    let rest = text.strip_prefix('[')?.trim_start();
    let (step, rest) = match rest.strip_prefix('*') {
        Some(rest) => (Step::Elements, rest),
        None => {
            let (digits, rest) = rest.split_at(rest.find(|c: char| !c.is_ascii_digit())?);
            (Step::Index(digits.parse().ok()?), rest)
        }
    };
    Some((step, rest.trim_start().strip_prefix(']')?))
}

/// Follows steps from the value at the cursor, and steps over it; whether anything was written.
fn follow(cursor: &mut Cursor<'_>, out: &mut Generator, style: Style, steps: &[Step]) -> Result<bool, Fault> {
    let first = cursor.token()?;
    match (first, steps) {
        (b'"' | b'\'', []) if style == Style::Raw => {
            let text = cursor.string(first)?;
            unescape(text, &mut out.out);
            Ok(true)
        }
        (b'[', []) if style == Style::Flat => {
            cursor.enter()?;
            let (mut found, mut first) = (false, true);
            while cursor.next_element(first)? {
                first = false;
                found |= follow(cursor, out, style, &[])?;
            }
            Ok(found)
        }
        (_, []) => {
            out.separate();
            copy(cursor, &mut out.out)?;
            Ok(true)
        }
        (b'{', [Step::Named(name), rest @ ..]) => {
            cursor.enter()?;
            let (mut found, mut first) = (false, true);
            while cursor.next_member(first)? {
                first = false;
                let field = super::name_of(cursor)?;
                cursor.colon()?;
                // The first field that leads anywhere counts.
                if found || field != *name || cursor.token()? == b'n' {
                    cursor.skip()?;
                } else {
                    found = follow(cursor, out, style, rest)?;
                }
            }
            Ok(found)
        }
        (b'[', [Step::Elements, Step::Elements, rest @ ..]) => {
            out.start_array();
            let found = each(cursor, |cursor| follow(cursor, out, Style::Flat, rest))?;
            out.end_array();
            Ok(found > 0)
        }
        (b'[', [Step::Elements, rest @ ..]) if style != Style::Quoted => {
            let next = if style == Style::Raw { Style::Quoted } else { Style::Flat };
            let mut matches = Generator::default();
            matches.start_array();
            let found = each(cursor, |cursor| follow(cursor, &mut matches, next, rest))?;
            matches.end_array();
            // A single match is no array.
            let written = match found {
                0 => return Ok(false),
                1 => matches.out.get(1..matches.out.len() - 1).unwrap_or_default(),
                _ => &matches.out,
            };
            out.separate();
            out.out.extend_from_slice(written);
            Ok(true)
        }
        (b'[', [Step::Elements, rest @ ..]) => {
            out.start_array();
            let found = each(cursor, |cursor| follow(cursor, out, Style::Quoted, rest))?;
            out.end_array();
            Ok(found > 0)
        }
        (b'[', [Step::Index(index), rest @ ..]) => {
            let style = if rest.first() == Some(&Step::Elements) { Style::Quoted } else { style };
            let mut place = 0;
            let found = each(cursor, |cursor| {
                place += 1;
                if place == index + 1 {
                    follow(cursor, out, style, rest)
                } else {
                    cursor.skip()?;
                    Ok(false)
                }
            })?;
            Ok(found > 0)
        }
        _ => {
            cursor.skip()?;
            Ok(false)
        }
    }
}

/// Looks at each element of the array at the cursor; how many led anywhere.
fn each<'a>(cursor: &mut Cursor<'a>, mut look: impl FnMut(&mut Cursor<'a>) -> Result<bool, Fault>) -> Result<usize, Fault> {
    cursor.enter()?;
    let (mut found, mut first) = (0, true);
    while cursor.next_element(first)? {
        first = false;
        found += usize::from(look(cursor)?);
    }
    Ok(found)
}

/// JSON being written, with commas between the elements of arrays.
#[derive(Default)]
struct Generator {
    out: Vec<u8>,
    /// Whether the arrays that are open have elements.
    arrays: Vec<bool>,
}

impl Generator {
    /// Begins a value.
    fn separate(&mut self) {
        if let Some(filled) = self.arrays.last_mut()
            && std::mem::replace(filled, true)
        {
            self.out.push(b',');
        }
    }

    fn start_array(&mut self) {
        self.separate();
        self.out.push(b'[');
        self.arrays.push(false);
    }

    fn end_array(&mut self) {
        self.out.push(b']');
        self.arrays.pop();
    }
}

/// Appends the value at the cursor as Jackson copies it: without white space, numbers with a fraction as Java writes doubles.
pub(super) fn copy(cursor: &mut Cursor<'_>, out: &mut Vec<u8>) -> Result<(), Fault> {
    match cursor.token()? {
        mark @ (b'"' | b'\'') => copy_string(cursor.string(mark)?, out),
        b'{' => {
            cursor.enter()?;
            out.push(b'{');
            let mut first = true;
            while cursor.next_member(first)? {
                if !first {
                    out.push(b',');
                }
                first = false;
                copy_string(cursor.name()?, out);
                cursor.colon()?;
                out.push(b':');
                copy(cursor, out)?;
            }
            out.push(b'}');
        }
        b'[' => {
            cursor.enter()?;
            out.push(b'[');
            let mut first = true;
            while cursor.next_element(first)? {
                if !first {
                    out.push(b',');
                }
                first = false;
                copy(cursor, out)?;
            }
            out.push(b']');
        }
        b'-' | b'0'..=b'9' => match cursor.non_number() {
            Some(value) => out.extend_from_slice(non_number_text(value).as_bytes()),
            None => copy_number(&cursor.number()?, out),
        },
        _ => match cursor.non_number() {
            Some(value) => out.extend_from_slice(non_number_text(value).as_bytes()),
            None => {
                let start = cursor.at();
                cursor.skip()?;
                out.extend_from_slice(cursor.since(start));
            }
        },
    }
    Ok(())
}

fn copy_string(text: millstream_core::json::Quoted<'_>, out: &mut Vec<u8>) {
    let mut plain = Vec::new();
    unescape(text, &mut plain);
    quote(&plain, out);
}

/// Appends a number as Jackson copies it.
pub(super) fn copy_number(number: &Number<'_>, out: &mut Vec<u8>) {
    if number.integral {
        return number.append_to(out);
    }
    let value = number.double();
    if value.is_finite() {
        let mut text = String::new();
        push_double(&mut text, value);
        out.extend_from_slice(text.as_bytes());
    } else {
        out.extend_from_slice(non_number_text(value).as_bytes());
    }
}
