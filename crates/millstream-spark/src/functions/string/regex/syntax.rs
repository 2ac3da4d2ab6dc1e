//! Reads the patterns of `java.util.regex`.

use super::class::{Class, Fold, LINE_ENDS, Set, named, negated, shorthand, union};

/// A pattern as a tree.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Node {
    Empty,
    Char(char),
    Class(Box<Class>),
    Anchor(Anchor),
    /// A group, with its number if it captures.
    Group(Box<Node>, Option<usize>),
    Concat(Vec<Node>),
    Alternation(Vec<Node>),
    Repeat {
        node: Box<Node>,
        min: u32,
        max: Option<u32>,
        greed: Greed,
    },
    /// What must or must not be ahead or behind.
    Look {
        node: Box<Node>,
        ahead: bool,
        negative: bool,
    },
    /// A group that is not entered again once it has matched.
    Atomic(Box<Node>),
    /// What a group captured.
    Back(usize, Fold),
}

/// A place without characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Anchor {
    TextStart,
    LineStart,
    TextEnd,
    /// The end, or before the line end there.
    FinalEnd,
    LineEnd,
    Word,
    NotWord,
    /// Where the last match ended.
    LastEnd,
}

/// In which order the lengths of a repetition are tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Greed {
    Greedy,
    Lazy,
    /// The longest only.
    Possessive,
}

/// A pattern that was read.
#[derive(Debug)]
pub(super) struct Syntax {
    pub(super) node: Node,
    /// How many groups capture.
    pub(super) groups: usize,
    /// The numbers of groups with names.
    pub(super) names: Vec<(String, usize)>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Flags {
    any_case: bool,
    unicode_case: bool,
    multi_line: bool,
    dot_all: bool,
    comments: bool,
    unix_lines: bool,
    unicode_classes: bool,
}

impl Flags {
    fn fold(self) -> Fold {
        match (self.any_case, self.unicode_case) {
            (false, _) => Fold::None,
            (true, false) => Fold::Ascii,
            (true, true) => Fold::Unicode,
        }
    }
}

/// How deep groups and sets may be nested.
const MAX_DEPTH: usize = 200;

struct Parser {
    pattern: Vec<char>,
    at: usize,
    flags: Flags,
    groups: usize,
    names: Vec<(String, usize)>,
    depth: usize,
}

impl Syntax {
    /// Reads a pattern. The error says what is wrong with it.
    pub(super) fn parse(pattern: &str) -> Result<Syntax, String> {
        let mut parser =
            Parser { pattern: unquote(pattern).chars().collect(), at: 0, flags: Flags::default(), groups: 0, names: Vec::new(), depth: 0 };
        let node = parser.alternation()?;
        if parser.at < parser.pattern.len() {
            return Err("a ')' closes nothing".to_owned());
        }
        Ok(Syntax { node, groups: parser.groups, names: parser.names })
    }
}

/// Writes what is between `\Q` and `\E` with escapes.
fn unquote(pattern: &str) -> String {
    let (mut text, mut rest) = (String::new(), pattern);
    while let Some(at) = rest.find('\\') {
        let (before, escape) = rest.split_at(at);
        text.push_str(before);
        let Some(quoted) = escape.strip_prefix("\\Q") else {
            let length = 1 + escape.chars().nth(1).map_or(0, char::len_utf8);
            text.push_str(escape.get(..length).unwrap_or(escape));
            rest = escape.get(length..).unwrap_or_default();
            continue;
        };
        let (inner, behind) = quoted.split_once("\\E").unwrap_or((quoted, ""));
        for character in inner.chars() {
            if !character.is_alphanumeric() {
                text.push('\\');
            }
            text.push(character);
        }
        rest = behind;
    }
    text + rest
}

impl Parser {
    /// The next character; in comments mode the next that is neither blank nor comment.
    fn peek(&mut self) -> Option<char> {
        if self.flags.comments {
            while let Some(character) = self.pattern.get(self.at) {
                match character {
                    ' ' | '\t'..='\r' => self.at += 1,
                    '#' => {
                        while self.pattern.get(self.at).is_some_and(|c| *c != '\n' && *c != '\r') {
                            self.at += 1;
                        }
                    }
                    _ => break,
                }
            }
        }
        self.pattern.get(self.at).copied()
    }

    fn next(&mut self) -> Option<char> {
        let character = self.peek();
        self.at += usize::from(character.is_some());
        character
    }

    /// The next character as it is.
    fn raw(&mut self) -> Option<char> {
        let character = self.pattern.get(self.at).copied();
        self.at += usize::from(character.is_some());
        character
    }

    fn eat(&mut self, text: &str) -> bool {
        let found = text.chars().enumerate().all(|(place, character)| self.pattern.get(self.at + place) == Some(&character));
        if found {
            self.at += text.chars().count();
        }
        found
    }

    fn alternation(&mut self) -> Result<Node, String> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err("its groups are nested too deeply".to_owned());
        }
        let mut branches = vec![self.sequence()?];
        while self.peek() == Some('|') {
            self.at += 1;
            branches.push(self.sequence()?);
        }
        self.depth -= 1;
        Ok(match branches.pop() {
            Some(only) if branches.is_empty() => only,
            last => {
                branches.extend(last);
                Node::Alternation(branches)
            }
        })
    }

    fn sequence(&mut self) -> Result<Node, String> {
        let mut nodes = Vec::new();
        while let Some(character) = self.peek() {
            if character == '|' || character == ')' {
                break;
            }
            let Some(atom) = self.atom()? else { continue };
            nodes.push(self.repeated(atom)?);
        }
        Ok(match nodes.len() {
            0 => Node::Empty,
            1 => nodes.pop().unwrap_or(Node::Empty),
            _ => Node::Concat(nodes),
        })
    }

    /// One element, `None` for a change of flags.
    fn atom(&mut self) -> Result<Option<Node>, String> {
        let flags = self.flags;
        let node = match self.next() {
            Some('(') => return self.group(),
            Some('[') => {
                let set = self.class()?;
                Node::Class(Box::new(Class::new(set, flags.fold())))
            }
            Some('.') => Node::Class(Box::new(Class::new(
                match flags {
                    Flags { dot_all: true, .. } => union(&[('\0', char::MAX)]),
                    Flags { unix_lines: true, .. } => negated(union(&[('\n', '\n')])),
                    _ => negated(union(&LINE_ENDS)),
                },
                Fold::None,
            ))),
            Some('^') => Node::Anchor(if flags.multi_line { Anchor::LineStart } else { Anchor::TextStart }),
            Some('$') => Node::Anchor(if flags.multi_line { Anchor::LineEnd } else { Anchor::FinalEnd }),
            Some(dangling @ ('*' | '+' | '?')) => return Err(format!("'{dangling}' repeats nothing")),
            Some('{') => return Err("'{' repeats nothing".to_owned()),
            Some('\\') => self.escape()?,
            Some(character) => literal(character, flags.fold()),
            None => Node::Empty,
        };
        Ok(Some(node))
    }

    fn group(&mut self) -> Result<Option<Node>, String> {
        let outer = self.flags;
        let node = if self.eat("?") {
            if self.eat(":") {
                Node::Group(Box::new(self.alternation()?), None)
            } else if self.eat("=") {
                Node::Look { node: Box::new(self.alternation()?), ahead: true, negative: false }
            } else if self.eat("!") {
                Node::Look { node: Box::new(self.alternation()?), ahead: true, negative: true }
            } else if self.eat("<=") {
                Node::Look { node: Box::new(self.alternation()?), ahead: false, negative: false }
            } else if self.eat("<!") {
                Node::Look { node: Box::new(self.alternation()?), ahead: false, negative: true }
            } else if self.eat(">") {
                Node::Atomic(Box::new(self.alternation()?))
            } else if self.eat("<") {
                let name = self.name()?;
                self.groups += 1;
                let number = self.groups;
                if self.names.iter().any(|(known, _)| *known == name) {
                    return Err(format!("the group '{name}' is there twice"));
                }
                self.names.push((name, number));
                Node::Group(Box::new(self.alternation()?), Some(number))
            } else {
                self.change_flags()?;
                match self.raw() {
                    // Flags hold up to the end of the group around them.
                    Some(')') => return Ok(None),
                    Some(':') => Node::Group(Box::new(self.alternation()?), None),
                    _ => return Err("'(?' begins nothing".to_owned()),
                }
            }
        } else {
            self.groups += 1;
            let number = self.groups;
            Node::Group(Box::new(self.alternation()?), Some(number))
        };
        self.flags = outer;
        if self.raw() != Some(')') {
            return Err("a '(' is not closed".to_owned());
        }
        Ok(Some(node))
    }

    fn name(&mut self) -> Result<String, String> {
        let mut name = String::new();
        loop {
            match self.raw() {
                Some('>') if !name.is_empty() => return Ok(name),
                Some(c) if c.is_ascii_alphabetic() || (c.is_ascii_digit() && !name.is_empty()) => name.push(c),
                _ => return Err("the name of a group consists of letters and digits".to_owned()),
            }
        }
    }

    fn change_flags(&mut self) -> Result<(), String> {
        let mut on = true;
        while let Some(letter) = self.pattern.get(self.at).copied() {
            let flag = match letter {
                'i' => &mut self.flags.any_case,
                'u' => &mut self.flags.unicode_case,
                'm' => &mut self.flags.multi_line,
                's' => &mut self.flags.dot_all,
                'x' => &mut self.flags.comments,
                'd' => &mut self.flags.unix_lines,
                'U' => &mut self.flags.unicode_classes,
                '-' if on => {
                    (on, self.at) = (false, self.at + 1);
                    continue;
                }
                ')' | ':' => return Ok(()),
                other => return Err(format!("there is no flag '{other}'")),
            };
            *flag = on;
            if letter == 'U' {
                self.flags.unicode_case = on;
            }
            self.at += 1;
        }
        Ok(())
    }

    fn repeated(&mut self, node: Node) -> Result<Node, String> {
        let (min, max) = match self.peek() {
            Some('?') => (0, Some(1)),
            Some('*') => (0, None),
            Some('+') => (1, None),
            Some('{') => {
                self.at += 1;
                let min = self.number()?;
                let max = if self.next_is(',') { if self.peek() == Some('}') { None } else { Some(self.number()?) } } else { Some(min) };
                if self.peek() != Some('}') {
                    return Err("a '{' is not closed".to_owned());
                }
                if max.is_some_and(|max| max < min) {
                    return Err("a repetition has more at least than at most".to_owned());
                }
                (min, max)
            }
            _ => return Ok(node),
        };
        self.at += 1;
        let greed = if self.next_is('?') {
            Greed::Lazy
        } else if self.next_is('+') {
            Greed::Possessive
        } else {
            Greed::Greedy
        };
        Ok(Node::Repeat { node: Box::new(node), min, max, greed })
    }

    fn next_is(&mut self, character: char) -> bool {
        let found = self.peek() == Some(character);
        self.at += usize::from(found);
        found
    }

    fn number(&mut self) -> Result<u32, String> {
        let mut digits = String::new();
        while let Some(digit) = self.peek().filter(char::is_ascii_digit) {
            digits.push(digit);
            self.at += 1;
        }
        digits.parse().map_err(|_| "a '{' must be followed by a number".to_owned())
    }

    /// What follows a backslash outside of sets.
    fn escape(&mut self) -> Result<Node, String> {
        let flags = self.flags;
        let Some(letter) = self.raw() else { return Err("it ends with a backslash".to_owned()) };
        let node = match letter {
            'A' => Node::Anchor(Anchor::TextStart),
            'z' => Node::Anchor(Anchor::TextEnd),
            'Z' => Node::Anchor(Anchor::FinalEnd),
            'b' => Node::Anchor(Anchor::Word),
            'B' => Node::Anchor(Anchor::NotWord),
            'G' => Node::Anchor(Anchor::LastEnd),
            'R' => {
                let ends =
                    Node::Class(Box::new(Class::new(union(&[('\n', '\r'), ('\u{85}', '\u{85}'), ('\u{2028}', '\u{2029}')]), Fold::None)));
                Node::Group(Box::new(Node::Alternation(vec![Node::Concat(vec![Node::Char('\r'), Node::Char('\n')]), ends])), None)
            }
            'X' => {
                let any = Node::Class(Box::new(Class::new(union(&[('\0', char::MAX)]), Fold::None)));
                let marks = named("M", true).ok_or("there is no property M")?;
                let marks = Node::Class(Box::new(Class::new(marks, Fold::None)));
                Node::Concat(vec![any, Node::Repeat { node: Box::new(marks), min: 0, max: None, greed: Greed::Greedy }])
            }
            'k' => {
                if self.raw() != Some('<') {
                    return Err("\\k must be followed by '<' and the name of a group".to_owned());
                }
                let name = self.name()?;
                match self.names.iter().find(|(known, _)| *known == name) {
                    Some((_, number)) => Node::Back(*number, flags.fold()),
                    None => return Err(format!("there is no group '{name}'")),
                }
            }
            '1'..='9' => {
                let mut number = letter.to_digit(10).unwrap_or(0) as usize;
                // More digits belong to the number as long as there is such a group.
                while let Some(digit) = self.pattern.get(self.at).and_then(|c| c.to_digit(10)) {
                    let longer = number * 10 + digit as usize;
                    if longer > self.groups {
                        break;
                    }
                    (number, self.at) = (longer, self.at + 1);
                }
                Node::Back(number, flags.fold())
            }
            _ => match self.escaped_set(letter)? {
                Some(set) => Node::Class(Box::new(Class::new(set, flags.fold()))),
                None => literal(self.escaped_char(letter)?, flags.fold()),
            },
        };
        Ok(node)
    }

    /// The set that an escape stands for, if it stands for one.
    fn escaped_set(&mut self, letter: char) -> Result<Option<Set>, String> {
        let unicode = self.flags.unicode_classes;
        if let Some(set) = shorthand(letter, unicode) {
            return Ok(Some(set));
        }
        if letter != 'p' && letter != 'P' {
            return Ok(None);
        }
        let name: String = match self.raw() {
            Some('{') => {
                let mut name = String::new();
                loop {
                    match self.raw() {
                        Some('}') => break name,
                        Some(character) => name.push(character),
                        None => return Err("the name of a property is not closed".to_owned()),
                    }
                }
            }
            Some(character) => character.to_string(),
            None => return Err("the name of a property is missing".to_owned()),
        };
        let set = named(&name, unicode).ok_or_else(|| format!("there is no property '{name}'"))?;
        Ok(Some(if letter == 'P' { negated(set) } else { set }))
    }

    /// The character that an escape stands for.
    fn escaped_char(&mut self, letter: char) -> Result<char, String> {
        let character = match letter {
            't' => '\t',
            'n' => '\n',
            'r' => '\r',
            'f' => '\u{c}',
            'a' => '\u{7}',
            'e' => '\u{1b}',
            'c' => match self.raw() {
                Some(control) if control.is_ascii() => char::from(control as u8 ^ 64),
                _ => return Err("\\c must be followed by a character".to_owned()),
            },
            '0' => {
                let start = self.at;
                let mut code = 0;
                while let Some(digit) = self.pattern.get(self.at).and_then(|c| c.to_digit(8))
                    && self.at - start < 3
                    && code * 8 + digit <= 0o377
                {
                    (code, self.at) = (code * 8 + digit, self.at + 1);
                }
                if self.at == start {
                    return Err("\\0 must be followed by an octal number".to_owned());
                }
                code_point(code)?
            }
            'x' if self.eat("{") => {
                let mut digits = String::new();
                loop {
                    match self.raw() {
                        Some('}') => break,
                        Some(digit) => digits.push(digit),
                        None => return Err("a '{' is not closed".to_owned()),
                    }
                }
                code_point(u32::from_str_radix(&digits, 16).map_err(|_| "\\x{…} takes hexadecimal digits".to_owned())?)?
            }
            'x' => code_point(self.hexadecimal(2)?)?,
            'u' => {
                let unit = self.hexadecimal(4)?;
                // Two escapes may make one character.
                if (0xd800..0xdc00).contains(&unit) && self.eat("\\u") {
                    let low = self.hexadecimal(4)?;
                    code_point(0x1_0000 + ((unit - 0xd800) << 10) + low.wrapping_sub(0xdc00))?
                } else {
                    code_point(unit)?
                }
            }
            other if other.is_ascii_alphabetic() => return Err(format!("'\\{other}' means nothing")),
            other => other,
        };
        Ok(character)
    }

    fn hexadecimal(&mut self, count: usize) -> Result<u32, String> {
        let mut code = 0;
        for _ in 0..count {
            let digit = self.raw().and_then(|c| c.to_digit(16)).ok_or_else(|| format!("{count} hexadecimal digits are due"))?;
            code = code * 16 + digit;
        }
        Ok(code)
    }

    /// A set behind its `[`.
    fn class(&mut self) -> Result<Set, String> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err("its sets are nested too deeply".to_owned());
        }
        let inverted = self.next_is('^');
        let (mut operands, mut items) = (Vec::new(), Vec::new());
        let mut first = true;
        loop {
            match self.next() {
                Some(']') if !first => break,
                Some('[') => items.push(self.class()?),
                Some('&') if self.peek() == Some('&') => {
                    self.at += 1;
                    operands.push(std::mem::take(&mut items));
                }
                Some(character) => {
                    let low = match character {
                        '\\' => {
                            let letter = self.raw().ok_or("it ends with a backslash")?;
                            match self.escaped_set(letter)? {
                                Some(set) => {
                                    items.push(set);
                                    first = false;
                                    continue;
                                }
                                None => self.escaped_char(letter)?,
                            }
                        }
                        other => other,
                    };
                    let high = self.range_end()?.unwrap_or(low);
                    if high < low {
                        return Err(format!("the range {low}-{high} runs backwards"));
                    }
                    items.push(Set::Range(low, high));
                }
                None => return Err("a '[' is not closed".to_owned()),
            }
            first = false;
        }
        self.depth -= 1;
        operands.push(items);
        operands.retain(|items| !items.is_empty());
        let set = match operands.len() {
            0 => return Err("a set is empty".to_owned()),
            1 => Set::Union(operands.pop().unwrap_or_default()),
            _ => Set::Intersection(operands.into_iter().map(Set::Union).collect()),
        };
        Ok(if inverted { negated(set) } else { set })
    }

    /// The last character of a range whose first was just read, if it is one.
    fn range_end(&mut self) -> Result<Option<char>, String> {
        if self.peek() != Some('-') {
            return Ok(None);
        }
        let start = self.at;
        self.at += 1;
        match self.next() {
            // The minus is an element.
            Some(']' | '[') | None => {}
            Some('\\') => {
                let letter = self.raw().ok_or("it ends with a backslash")?;
                if shorthand(letter, false).is_none() && !matches!(letter, 'p' | 'P') {
                    return self.escaped_char(letter).map(Some);
                }
            }
            Some(high) => return Ok(Some(high)),
        }
        self.at = start;
        Ok(None)
    }
}

fn literal(character: char, fold: Fold) -> Node {
    let is_cased = match fold {
        Fold::None => false,
        Fold::Ascii => character.is_ascii_alphabetic(),
        Fold::Unicode => character.is_alphabetic(),
    };
    if is_cased { Node::Class(Box::new(Class::new(Set::Range(character, character), fold))) } else { Node::Char(character) }
}

fn code_point(code: u32) -> Result<char, String> {
    char::from_u32(code).ok_or_else(|| format!("{code:x} is the number of no character"))
}
