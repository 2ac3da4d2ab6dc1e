//! Patterns that the `regex` crate finds in the same way, and faster: those without looking around, captured text and atomic groups.
//!
//! DataFusion compiles them, so that the crate is not a dependency of ours.

use std::fmt::Write;

use super::class::{Class, Fold, Set, variants};
use super::program::width;
use super::syntax::{Anchor, Greed, Node};

/// Finds the first match from a place on, and writes where the groups are.
pub(super) type Find = Box<dyn Fn(&str, usize, &mut Vec<Option<usize>>) -> bool + Send + Sync>;

/// A pattern of the `regex` crate.
pub(super) struct Linear {
    /// Whether it finds the same as Java only in text where no line ends but at `\n`, and not with one.
    pub(super) plain_lines: bool,
    pub(super) find: Find,
}

impl std::fmt::Debug for Linear {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Linear").field("plain_lines", &self.plain_lines).finish_non_exhaustive()
    }
}

/// The pattern for the `regex` crate, if it can be written so.
pub(super) fn compile(node: &Node) -> Option<Linear> {
    let mut writer = Writer { pattern: String::new(), plain_lines: false };
    writer.node(node)?;
    let regex = datafusion::functions::regex::compile_regex(&writer.pattern, None).ok()?;
    let find = move |text: &str, at: usize, slots: &mut Vec<Option<usize>>| {
        slots.clear();
        if regex.captures_len() == 1 {
            let Some(found) = regex.find_at(text, at) else { return false };
            slots.extend([Some(found.start()), Some(found.end())]);
            return true;
        }
        let mut places = regex.capture_locations();
        if regex.captures_read_at(&mut places, text, at).is_none() {
            return false;
        }
        for group in 0..places.len() {
            let place = places.get(group);
            slots.extend([place.map(|(start, _)| start), place.map(|(_, end)| end)]);
        }
        true
    };
    Some(Linear { plain_lines: writer.plain_lines, find: Box::new(find) })
}

struct Writer {
    pattern: String,
    plain_lines: bool,
}

impl Writer {
    fn node(&mut self, node: &Node) -> Option<()> {
        match node {
            Node::Empty => self.pattern.push_str("(?:)"),
            Node::Char(character) => self.character(*character),
            Node::Class(class) => self.class(class)?,
            Node::Anchor(Anchor::TextStart) => self.pattern.push_str(r"\A"),
            Node::Anchor(Anchor::TextEnd) => self.pattern.push_str(r"\z"),
            Node::Anchor(Anchor::FinalEnd) => {
                self.plain_lines = true;
                self.pattern.push_str(r"\z");
            }
            Node::Anchor(anchor @ (Anchor::LineStart | Anchor::LineEnd)) => {
                self.plain_lines = true;
                self.pattern.push_str(if *anchor == Anchor::LineStart { "(?m:^)" } else { "(?m:$)" });
            }
            Node::Anchor(Anchor::Word) => self.pattern.push_str(r"\b"),
            Node::Anchor(Anchor::NotWord) => self.pattern.push_str(r"\B"),
            Node::Group(inner, number) => {
                self.pattern.push_str(if number.is_some() { "(" } else { "(?:" });
                self.node(inner)?;
                self.pattern.push(')');
            }
            Node::Concat(nodes) => {
                self.pattern.push_str("(?:");
                nodes.iter().try_for_each(|node| self.node(node))?;
                self.pattern.push(')');
            }
            Node::Alternation(branches) => {
                self.pattern.push_str("(?:");
                for (number, branch) in branches.iter().enumerate() {
                    if number > 0 {
                        self.pattern.push('|');
                    }
                    self.node(branch)?;
                }
                self.pattern.push(')');
            }
            Node::Repeat { node, min, max, greed } => {
                // What captures see of empty repetitions differs.
                if *greed == Greed::Possessive || width(node).0 == 0 {
                    return None;
                }
                self.pattern.push_str("(?:");
                self.node(node)?;
                self.pattern.push(')');
                match (min, max) {
                    (0, None) => self.pattern.push('*'),
                    (1, None) => self.pattern.push('+'),
                    (0, Some(1)) => self.pattern.push('?'),
                    (min, None) => write!(self.pattern, "{{{min},}}").ok()?,
                    (min, Some(max)) => write!(self.pattern, "{{{min},{max}}}").ok()?,
                }
                if *greed == Greed::Lazy {
                    self.pattern.push('?');
                }
            }
            Node::Look { .. } | Node::Atomic(_) | Node::Back(..) | Node::Anchor(Anchor::LastEnd) => return None,
        }
        Some(())
    }

    fn character(&mut self, character: char) {
        // Writing to a string does not fail.
        let _ = write!(self.pattern, "\\x{{{:x}}}", u32::from(character));
    }

    fn class(&mut self, class: &Class) -> Option<()> {
        self.pattern.push('[');
        self.set(&class.set, class.fold)?;
        self.pattern.push(']');
        Some(())
    }

    fn set(&mut self, set: &Set, fold: Fold) -> Option<()> {
        match set {
            Set::Range(low, high) => {
                self.range(*low, *high);
                if fold != Fold::None {
                    // Ranges within ASCII have a few other characters; longer ones are rarely asked for in any case.
                    if u32::from(*high).saturating_sub(u32::from(*low)) > 128 {
                        return None;
                    }
                    for character in *low..=*high {
                        for variant in variants(fold, character).into_iter().flatten() {
                            self.range(variant, variant);
                        }
                        // Characters of other forms fold to this one too.
                        if fold == Fold::Unicode && !character.is_ascii() {
                            return None;
                        }
                    }
                    if fold == Fold::Unicode && ((*low..=*high).contains(&'k') || (*low..=*high).contains(&'s')) {
                        return None;
                    }
                }
            }
            Set::Property(_) if fold != Fold::None => return None,
            Set::Property(property) => write!(self.pattern, "\\p{{{}}}", property.name).ok()?,
            Set::Union(parts) => {
                self.pattern.push('[');
                parts.iter().try_for_each(|part| self.set(part, fold))?;
                self.pattern.push(']');
            }
            Set::Intersection(parts) => {
                self.pattern.push('[');
                for (number, part) in parts.iter().enumerate() {
                    if number > 0 {
                        self.pattern.push_str("&&");
                    }
                    self.set(part, fold)?;
                }
                self.pattern.push(']');
            }
            Set::Not(inner) => {
                self.pattern.push_str("[^");
                self.set(inner, fold)?;
                self.pattern.push(']');
            }
        }
        Some(())
    }

    fn range(&mut self, low: char, high: char) {
        self.character(low);
        if high > low {
            self.pattern.push('-');
            self.character(high);
        }
    }
}
