//! Patterns as programs for a backtracking machine.

use super::class::{Class, Fold};
use super::syntax::{Anchor, Greed, Node};

/// One step of a program.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Step {
    Char(char),
    Class(Class),
    Anchor(Anchor),
    /// Goes on at the first place, and at the second when that fails.
    Split(usize, usize),
    Jump(usize),
    /// Remembers the place in the text in a slot.
    Save(usize),
    /// Leaves a loop whose body matched nothing: goes to a place if the text has not moved since a slot was saved.
    Unmoved(usize, usize),
    /// A repetition of one character.
    Span {
        class: Class,
        min: u32,
        max: u32,
        greed: Greed,
    },
    /// What a group captured.
    Back(usize, Fold),
    /// Another program must or must not match ahead.
    Ahead {
        program: Box<Program>,
        negative: bool,
    },
    /// Another program must or must not match what ends here and has so many characters.
    Behind {
        program: Box<Program>,
        negative: bool,
        min: usize,
        max: usize,
    },
    /// Another program matches from here on, in one way only.
    Atomic(Box<Program>),
    /// Done, if the text is at the end that was asked for.
    Match,
}

/// Steps, and how many slots they use.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Program {
    pub(super) steps: Vec<Step>,
    pub(super) slots: usize,
}

/// The longest program; repetitions are written out.
const MAX_STEPS: usize = 50_000;

struct Compiler<'a> {
    steps: Vec<Step>,
    slots: &'a mut usize,
}

/// The program of a pattern with so many groups. The error says why there is none.
pub(super) fn compile(node: &Node, groups: usize) -> Result<Program, String> {
    let mut slots = 2 * (groups + 1);
    let mut program = part(node, &mut slots)?;
    program.slots = slots;
    Ok(program)
}

fn part(node: &Node, slots: &mut usize) -> Result<Program, String> {
    let mut compiler = Compiler { steps: Vec::new(), slots };
    compiler.node(node)?;
    compiler.steps.push(Step::Match);
    Ok(Program { steps: compiler.steps, slots: 0 })
}

impl Compiler<'_> {
    fn push(&mut self, step: Step) -> Result<usize, String> {
        if self.steps.len() >= MAX_STEPS {
            return Err("it is too large".to_owned());
        }
        self.steps.push(step);
        Ok(self.steps.len() - 1)
    }

    fn set(&mut self, place: usize, step: Step) {
        if let Some(old) = self.steps.get_mut(place) {
            *old = step;
        }
    }

    fn node(&mut self, node: &Node) -> Result<(), String> {
        match node {
            Node::Empty => {}
            Node::Char(character) => drop(self.push(Step::Char(*character))?),
            Node::Class(class) => drop(self.push(Step::Class(class.as_ref().clone()))?),
            Node::Anchor(anchor) => drop(self.push(Step::Anchor(*anchor))?),
            Node::Group(inner, None) => self.node(inner)?,
            Node::Group(inner, Some(number)) => {
                self.push(Step::Save(2 * number))?;
                self.node(inner)?;
                self.push(Step::Save(2 * number + 1))?;
            }
            Node::Concat(nodes) => nodes.iter().try_for_each(|node| self.node(node))?,
            Node::Alternation(branches) => self.alternation(branches)?,
            Node::Repeat { node, min, max, greed } => self.repeat(node, *min, *max, *greed)?,
            Node::Look { node, ahead: true, negative } => {
                let program = Box::new(part(node, self.slots)?);
                self.push(Step::Ahead { program, negative: *negative })?;
            }
            Node::Look { node, ahead: false, negative } => {
                let (min, max) = width(node);
                let max = max.ok_or("what is behind must have a greatest length")?;
                let program = Box::new(part(node, self.slots)?);
                self.push(Step::Behind { program, negative: *negative, min, max })?;
            }
            Node::Atomic(inner) => {
                let program = Box::new(part(inner, self.slots)?);
                self.push(Step::Atomic(program))?;
            }
            Node::Back(group, fold) => drop(self.push(Step::Back(*group, *fold))?),
        }
        Ok(())
    }

    fn alternation(&mut self, branches: &[Node]) -> Result<(), String> {
        let mut ends = Vec::new();
        for (number, branch) in branches.iter().enumerate() {
            if number + 1 == branches.len() {
                self.node(branch)?;
            } else {
                let split = self.push(Step::Match)?;
                self.node(branch)?;
                ends.push(self.push(Step::Match)?);
                self.set(split, Step::Split(split + 1, self.steps.len()));
            }
        }
        let end = self.steps.len();
        ends.into_iter().for_each(|place| self.set(place, Step::Jump(end)));
        Ok(())
    }

    fn repeat(&mut self, node: &Node, min: u32, max: Option<u32>, greed: Greed) -> Result<(), String> {
        let class = match node {
            Node::Char(character) => Some(Class::new(super::class::Set::Range(*character, *character), Fold::None)),
            Node::Class(class) => Some(class.as_ref().clone()),
            _ => None,
        };
        if let Some(class) = class {
            self.push(Step::Span { class, min, max: max.unwrap_or(u32::MAX), greed })?;
            return Ok(());
        }
        if greed == Greed::Possessive {
            let longest = Node::Repeat { node: Box::new(node.clone()), min, max, greed: Greed::Greedy };
            let program = Box::new(part(&longest, self.slots)?);
            self.push(Step::Atomic(program))?;
            return Ok(());
        }
        for _ in 0..min {
            self.node(node)?;
        }
        let split = |body: usize, end: usize| if greed == Greed::Greedy { Step::Split(body, end) } else { Step::Split(end, body) };
        // A body that may match nothing would never end.
        let slot = if width(node).0 == 0 {
            *self.slots += 1;
            Some(*self.slots - 1)
        } else {
            None
        };
        match max {
            None => {
                let start = self.push(Step::Match)?;
                if let Some(slot) = slot {
                    self.push(Step::Save(slot))?;
                }
                self.node(node)?;
                let check = match slot {
                    Some(slot) => Some((slot, self.push(Step::Match)?)),
                    None => None,
                };
                self.push(Step::Jump(start))?;
                let end = self.steps.len();
                self.set(start, split(start + 1, end));
                if let Some((slot, place)) = check {
                    self.set(place, Step::Unmoved(slot, end));
                }
            }
            Some(max) => {
                let mut splits = Vec::new();
                for _ in min..max {
                    splits.push(self.push(Step::Match)?);
                    self.node(node)?;
                }
                let end = self.steps.len();
                splits.into_iter().for_each(|place| self.set(place, split(place + 1, end)));
            }
        }
        Ok(())
    }
}

/// The least and the greatest number of characters that a node matches, `None` if there is no greatest.
pub(super) fn width(node: &Node) -> (usize, Option<usize>) {
    match node {
        Node::Empty | Node::Anchor(_) | Node::Look { .. } => (0, Some(0)),
        Node::Char(_) | Node::Class(_) => (1, Some(1)),
        Node::Group(inner, _) | Node::Atomic(inner) => width(inner),
        Node::Concat(nodes) => nodes.iter().map(width).fold((0, Some(0)), |(min, max), (more_min, more_max)| {
            (min + more_min, max.zip(more_max).map(|(max, more)| max.saturating_add(more)))
        }),
        Node::Alternation(branches) => {
            let mut widths = branches.iter().map(width);
            let first = widths.next().unwrap_or((0, Some(0)));
            widths.fold(first, |(min, max), (other_min, other_max)| {
                (min.min(other_min), max.zip(other_max).map(|(max, other)| max.max(other)))
            })
        }
        Node::Repeat { node, min, max, .. } => {
            let (least, most) = width(node);
            let times = |count: u32, width: usize| width.saturating_mul(count as usize);
            (times(*min, least), most.zip(*max).map(|(most, max)| times(max, most)))
        }
        Node::Back(..) => (0, None),
    }
}
