//! Runs programs over text, trying one way after the other as Java does.

use super::class::{LINE_ENDS, same};
use super::program::{Program, Step};
use super::syntax::{Anchor, Greed};

/// How many steps one search may take. Patterns that need more try exponentially many ways.
const MAX_STEPS: u64 = 100_000_000;

/// The search took too many steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TooManySteps;

/// A search in a text.
pub(super) struct Machine<'t> {
    text: &'t str,
    /// Where the last match ended.
    last_end: usize,
    steps: u64,
    /// Where groups begin and end.
    pub(super) slots: Vec<Option<usize>>,
}

/// What to do when the present way fails.
enum Undo {
    /// Go on at a step with the text at a place.
    Retry(usize, usize),
    /// Put an old place back into a slot.
    Restore(usize, Option<usize>),
    /// Go on at a step with one character less, down to a place.
    Shorten { next: usize, at: usize, least: usize },
    /// Go on behind a span with one character more.
    Lengthen { span: usize, at: usize, left: u32 },
}

impl<'t> Machine<'t> {
    pub(super) fn new(text: &'t str, last_end: usize) -> Self {
        Machine { text, last_end, steps: 0, slots: Vec::new() }
    }

    /// Whether a program matches from a place on; the slots tell where.
    pub(super) fn matches(&mut self, program: &Program, at: usize) -> Result<bool, TooManySteps> {
        self.slots.clear();
        self.slots.resize(program.slots.max(2), None);
        let end = self.run(program, at, None)?;
        if let (Some(end), [start, stop, ..]) = (end, self.slots.as_mut_slice()) {
            (*start, *stop) = (Some(at), Some(end));
        }
        Ok(end.is_some())
    }

    fn char_at(&self, at: usize) -> Option<char> {
        self.text.get(at..).and_then(|rest| rest.chars().next())
    }

    fn char_before(&self, at: usize) -> Option<char> {
        self.text.get(..at).and_then(|before| before.chars().next_back())
    }

    /// Where a match that begins at a place ends; it must be `due` if that is given.
    fn run(&mut self, program: &Program, start: usize, due: Option<usize>) -> Result<Option<usize>, TooManySteps> {
        let mut undo: Vec<Undo> = Vec::new();
        let (mut step, mut at) = (0, start);
        loop {
            self.steps += 1;
            if self.steps > MAX_STEPS {
                return Err(TooManySteps);
            }
            let next = match program.steps.get(step) {
                None | Some(Step::Match) => {
                    if due.is_none_or(|due| due == at) {
                        return Ok(Some(at));
                    }
                    None
                }
                Some(Step::Char(expected)) => self.char_at(at).filter(|c| c == expected).map(|c| (step + 1, at + c.len_utf8())),
                Some(Step::Class(class)) => self.char_at(at).filter(|c| class.has(*c)).map(|c| (step + 1, at + c.len_utf8())),
                Some(Step::Anchor(anchor)) => self.holds(*anchor, at).then_some((step + 1, at)),
                Some(Step::Split(first, second)) => {
                    undo.push(Undo::Retry(*second, at));
                    Some((*first, at))
                }
                Some(Step::Jump(to)) => Some((*to, at)),
                Some(Step::Save(slot)) => {
                    if let Some(kept) = self.slots.get_mut(*slot) {
                        undo.push(Undo::Restore(*slot, *kept));
                        *kept = Some(at);
                    }
                    Some((step + 1, at))
                }
                Some(Step::Unmoved(slot, to)) => {
                    let unmoved = self.slots.get(*slot).copied().flatten() == Some(at);
                    Some((if unmoved { *to } else { step + 1 }, at))
                }
                Some(Step::Span { class, min, max, greed }) => {
                    let limit = if *greed == Greed::Lazy { *min } else { *max };
                    let (mut end, mut count, mut least) = (at, 0, if *min == 0 { Some(at) } else { None });
                    while count < limit
                        && let Some(found) = self.char_at(end).filter(|c| class.has(*c))
                    {
                        (end, count) = (end + found.len_utf8(), count + 1);
                        if count == *min {
                            least = Some(end);
                        }
                    }
                    self.steps += u64::from(count);
                    match (least, greed) {
                        (None, _) => None,
                        (Some(least), Greed::Greedy) if end > least => {
                            undo.push(Undo::Shorten { next: step + 1, at: end, least });
                            Some((step + 1, end))
                        }
                        (Some(_), Greed::Lazy) if max > min => {
                            undo.push(Undo::Lengthen { span: step, at: end, left: max - min });
                            Some((step + 1, end))
                        }
                        _ => Some((step + 1, end)),
                    }
                }
                Some(Step::Back(group, fold)) => {
                    let captured = self.slots.get(2 * group).copied().flatten().zip(self.slots.get(2 * group + 1).copied().flatten());
                    let captured = captured.and_then(|(start, end)| self.text.get(start..end));
                    captured.and_then(|captured| {
                        let mut rest = self.text.get(at..)?.chars();
                        let equal = captured.chars().all(|expected| rest.next().is_some_and(|found| same(*fold, expected, found)));
                        equal.then(|| (step + 1, self.text.len() - rest.as_str().len()))
                    })
                }
                Some(Step::Ahead { program: inner, negative }) => self
                    .look(*negative, &mut undo, |machine| machine.run(inner, at, None).map(|end| end.is_some()))?
                    .then_some((step + 1, at)),
                Some(Step::Behind { program: inner, negative, min, max }) => {
                    self.look(*negative, &mut undo, |machine| machine.behind(inner, at, *min, *max))?.then_some((step + 1, at))
                }
                Some(Step::Atomic(inner)) => {
                    let before = self.slots.clone();
                    let end = self.run(inner, at, None)?;
                    self.remember(&before, &mut undo);
                    end.map(|end| (step + 1, end))
                }
            };
            (step, at) = match next {
                Some(next) => next,
                None => match self.back(program, &mut undo) {
                    Some(next) => next,
                    None => return Ok(None),
                },
            };
        }
    }

    /// Takes back what was done since the last choice, and chooses anew.
    fn back(&mut self, program: &Program, undo: &mut Vec<Undo>) -> Option<(usize, usize)> {
        loop {
            match undo.pop()? {
                Undo::Retry(step, at) => return Some((step, at)),
                Undo::Restore(slot, place) => {
                    if let Some(kept) = self.slots.get_mut(slot) {
                        *kept = place;
                    }
                }
                Undo::Shorten { next, at, least } => {
                    let at = at - self.char_before(at).map_or(1, char::len_utf8);
                    if at > least {
                        undo.push(Undo::Shorten { next, at, least });
                    }
                    return Some((next, at));
                }
                Undo::Lengthen { span, at, left } => {
                    let Some(Step::Span { class, .. }) = program.steps.get(span) else { continue };
                    if let Some(found) = self.char_at(at).filter(|c| class.has(*c)) {
                        let at = at + found.len_utf8();
                        if left > 1 {
                            undo.push(Undo::Lengthen { span, at, left: if left == u32::MAX { left } else { left - 1 } });
                        }
                        return Some((span + 1, at));
                    }
                }
            }
        }
    }

    /// Asks whether something is there, and keeps what it captured if it should be.
    fn look(
        &mut self,
        negative: bool,
        undo: &mut Vec<Undo>,
        ask: impl FnOnce(&mut Self) -> Result<bool, TooManySteps>,
    ) -> Result<bool, TooManySteps> {
        let before = self.slots.clone();
        let found = ask(self)?;
        if negative || !found {
            self.slots = before;
        } else {
            self.remember(&before, undo);
        }
        Ok(found != negative)
    }

    /// Notes how to take back changes of slots.
    fn remember(&self, before: &[Option<usize>], undo: &mut Vec<Undo>) {
        for (slot, (old, new)) in before.iter().zip(&self.slots).enumerate() {
            if old != new {
                undo.push(Undo::Restore(slot, *old));
            }
        }
    }

    /// Whether a program matches so many characters that end at a place.
    fn behind(&mut self, program: &Program, at: usize, min: usize, max: usize) -> Result<bool, TooManySteps> {
        let mut start = at;
        for length in 0..=max {
            if length >= min && self.run(program, start, Some(at))?.is_some() {
                return Ok(true);
            }
            match self.char_before(start) {
                Some(character) => start -= character.len_utf8(),
                None => break,
            }
        }
        Ok(false)
    }

    fn holds(&self, anchor: Anchor, at: usize) -> bool {
        let is_end = |c: char| LINE_ENDS.iter().any(|(low, high)| (*low..=*high).contains(&c));
        match anchor {
            Anchor::TextStart => at == 0,
            Anchor::TextEnd => at == self.text.len(),
            Anchor::LastEnd => at == self.last_end,
            Anchor::FinalEnd => match self.text.get(at..) {
                Some("" | "\r\n") => true,
                // The end of a line of two characters is not between them.
                Some("\n") => self.char_before(at) != Some('\r'),
                Some(rest) => rest.chars().next().is_some_and(|c| is_end(c) && c.len_utf8() == rest.len()),
                None => false,
            },
            Anchor::LineStart => match self.char_before(at) {
                None => true,
                Some(_) if at == self.text.len() => false,
                Some('\r') => self.char_at(at) != Some('\n'),
                Some(before) => is_end(before),
            },
            Anchor::LineEnd => match self.char_at(at) {
                None => true,
                Some('\n') => self.char_before(at) != Some('\r'),
                Some(character) => is_end(character),
            },
            Anchor::Word | Anchor::NotWord => {
                let is_word = |c: Option<char>| c.is_some_and(|c| c == '_' || c.is_alphanumeric());
                (is_word(self.char_before(at)) != is_word(self.char_at(at))) == (anchor == Anchor::Word)
            }
        }
    }
}
