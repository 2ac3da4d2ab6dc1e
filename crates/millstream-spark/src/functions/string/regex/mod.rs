//! Regular expressions of `java.util.regex`.
//!
//! A pattern is read into a tree. Patterns that the `regex` crate finds alike are given to it; the others, and text in which the two would
//! differ, go to a machine that tries one way after the other as Java does.

mod class;
mod linear;
mod machine;
mod program;
mod syntax;

use linear::Linear;
use machine::{Machine, TooManySteps};
use millstream_core::{Error, Result};
use program::{Program, Step};
use syntax::{Anchor, Syntax};

use super::super::faults;

/// A compiled pattern.
#[derive(Debug)]
pub(super) struct Regex {
    pattern: String,
    groups: usize,
    names: Vec<(String, usize)>,
    program: Program,
    linear: Option<Linear>,
    /// A match begins at the beginning of the text.
    anchored: bool,
    /// The characters of ASCII that a match may begin with; others may, too.
    first: Option<u128>,
}

/// Where the groups of a match are; group 0 is the whole match.
#[derive(Clone, Debug, Default)]
pub(super) struct Groups {
    slots: Vec<Option<usize>>,
}

impl Groups {
    /// From where to where a group is, if it took part in the match.
    pub(super) fn get(&self, group: usize) -> Option<(usize, usize)> {
        let slot = |index: usize| self.slots.get(index).copied().flatten();
        slot(2 * group).zip(slot(2 * group + 1))
    }

    /// From where to where the match is.
    pub(super) fn whole(&self) -> (usize, usize) {
        self.get(0).unwrap_or((0, 0))
    }
}

impl Regex {
    /// Compiles a pattern. The error says what is wrong with it.
    pub(super) fn compile(pattern: &str) -> Result<Regex, String> {
        let syntax = Syntax::parse(pattern)?;
        let program = program::compile(&syntax.node, syntax.groups)?;
        let linear = linear::compile(&syntax.node);
        let start = program.steps.iter().find(|step| !matches!(step, Step::Save(_)));
        let anchored = matches!(start, Some(Step::Anchor(Anchor::TextStart)));
        let first = match start {
            Some(Step::Char(character)) if character.is_ascii() => Some(1 << (u32::from(*character))),
            Some(Step::Char(_)) => Some(0),
            Some(Step::Class(class)) => Some(class.ascii()),
            Some(Step::Span { class, min: 1.., .. }) => Some(class.ascii()),
            _ => None,
        };
        Ok(Regex { pattern: pattern.to_owned(), groups: syntax.groups, names: syntax.names, program, linear, anchored, first })
    }

    /// How many groups capture.
    pub(super) fn groups(&self) -> usize {
        self.groups
    }

    /// The number of a group with a name.
    pub(super) fn group_named(&self, name: &str) -> Option<usize> {
        self.names.iter().find(|(known, _)| known == name).map(|(_, number)| *number)
    }

    /// Whether the pattern is found anywhere in a text.
    ///
    /// # Errors
    /// As [`Regex::find_at`].
    pub(super) fn is_match(&self, text: &str) -> Result<bool> {
        self.find_at(text, 0, &mut Groups::default())
    }

    /// Finds the first match that begins at or behind a place.
    ///
    /// # Errors
    /// When it takes too many steps.
    pub(super) fn find_at(&self, text: &str, at: usize, groups: &mut Groups) -> Result<bool> {
        if let Some(linear) = &self.linear
            && (!linear.plain_lines || has_plain_lines(text))
        {
            return Ok((linear.find)(text, at, &mut groups.slots));
        }
        let mut machine = Machine::new(text, at);
        machine.slots = std::mem::take(&mut groups.slots);
        let found = self.search(&mut machine, text, at);
        groups.slots = machine.slots;
        found.map_err(|TooManySteps| self.too_slow())
    }

    fn search(&self, machine: &mut Machine<'_>, text: &str, from: usize) -> Result<bool, TooManySteps> {
        let rest = text.get(from..).unwrap_or_default();
        let starts = rest.char_indices().map(|(offset, character)| (from + offset, Some(character))).chain([(text.len(), None)]);
        for (start, character) in starts {
            if self.anchored && start > 0 {
                return Ok(false);
            }
            let possible = match (self.first, character) {
                (None, _) => true,
                (Some(_), None) => false,
                (Some(first), Some(character)) => !character.is_ascii() || first >> u32::from(character) & 1 == 1,
            };
            if possible && machine.matches(&self.program, start)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn too_slow(&self) -> Error {
        let message = format!(
            "the regular expression '{}' tries too many ways to match a value: write it with fewer nested repetitions",
            self.pattern
        );
        faults::row("REGEX_TOO_COMPLEX", "22000", message)
    }
}

/// Whether lines end with `\n` only, and the text does not.
fn has_plain_lines(text: &str) -> bool {
    !text.ends_with('\n') && !text.contains(['\r', '\u{85}', '\u{2028}', '\u{2029}'])
}

/// All matches of a pattern in a text, one behind the other.
pub(super) struct Matches<'a> {
    regex: &'a Regex,
    text: &'a str,
    at: Option<usize>,
    groups: Groups,
}

impl<'a> Matches<'a> {
    /// The matches from a place on.
    pub(super) fn new(regex: &'a Regex, text: &'a str, at: usize) -> Self {
        Matches { regex, text, at: Some(at), groups: Groups::default() }
    }

    /// The next match.
    ///
    /// # Errors
    /// As [`Regex::find_at`].
    pub(super) fn next(&mut self) -> Result<Option<&Groups>> {
        let Some(at) = self.at else { return Ok(None) };
        if !self.regex.find_at(self.text, at, &mut self.groups)? {
            self.at = None;
            return Ok(None);
        }
        let (start, end) = self.groups.whole();
        // Behind an empty match the search goes on one character later.
        self.at = if end > start {
            Some(end)
        } else {
            self.text.get(end..).and_then(|rest| rest.chars().next()).map(|character| end + character.len_utf8())
        };
        Ok(Some(&self.groups))
    }
}

#[cfg(test)]
mod tests;
