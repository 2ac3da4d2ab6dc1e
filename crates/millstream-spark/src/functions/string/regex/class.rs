//! Sets of characters.

use std::fmt;
use std::sync::Arc;

/// A set of characters as a pattern writes it.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Set {
    /// From one character to another.
    Range(char, char),
    /// A property of Unicode.
    Property(Property),
    /// In any of these.
    Union(Vec<Set>),
    /// In all of these.
    Intersection(Vec<Set>),
    /// In none of this.
    Not(Box<Set>),
}

/// A property of characters.
#[derive(Clone)]
pub(super) struct Property {
    /// How the `regex` crate writes it.
    pub(super) name: String,
    has: Arc<dyn Fn(char) -> bool + Send + Sync>,
}

impl fmt::Debug for Property {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

impl PartialEq for Property {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

/// How characters of different case are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fold {
    /// They differ.
    None,
    /// Letters of ASCII are equal.
    Ascii,
    /// Letters of all scripts are equal.
    Unicode,
}

/// A set ready to be asked.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Class {
    /// What it was made of.
    pub(super) set: Set,
    /// How case counts.
    pub(super) fold: Fold,
    ascii: u128,
}

impl Class {
    pub(super) fn new(set: Set, fold: Fold) -> Class {
        let ascii = (0_u8..128).filter(|code| folded(&set, fold, char::from(*code))).fold(0, |bits, code| bits | 1_u128 << code);
        Class { set, fold, ascii }
    }

    /// Whether a character is in the set.
    #[inline]
    pub(super) fn has(&self, character: char) -> bool {
        let code = u32::from(character);
        if code < 128 { self.ascii >> code & 1 == 1 } else { folded(&self.set, self.fold, character) }
    }

    /// The characters of ASCII in it, by bit.
    pub(super) fn ascii(&self) -> u128 {
        self.ascii
    }
}

fn folded(set: &Set, fold: Fold, character: char) -> bool {
    match set {
        // What is left out is left out in both cases.
        Set::Not(inner) => !folded(inner, fold, character),
        Set::Union(parts) => parts.iter().any(|part| folded(part, fold, character)),
        Set::Intersection(parts) => parts.iter().all(|part| folded(part, fold, character)),
        Set::Range(low, high) => variants(fold, character).into_iter().flatten().any(|c| (*low..=*high).contains(&c)),
        Set::Property(property) => variants(fold, character).into_iter().flatten().any(|c| (property.has)(c)),
    }
}

/// A character and those that are equal to it.
pub(super) fn variants(fold: Fold, character: char) -> [Option<char>; 3] {
    match fold {
        Fold::None => [Some(character), None, None],
        Fold::Ascii => [Some(character), Some(character.to_ascii_lowercase()), Some(character.to_ascii_uppercase())],
        Fold::Unicode => {
            let upper = single(character.to_uppercase(), character);
            [Some(character), Some(single(upper.to_lowercase(), upper)), Some(upper)]
        }
    }
}

fn single(mut mapped: impl Iterator<Item = char>, otherwise: char) -> char {
    match (mapped.next(), mapped.next()) {
        (Some(character), None) => character,
        _ => otherwise,
    }
}

/// Whether two characters are equal.
pub(super) fn same(fold: Fold, one: char, other: char) -> bool {
    one == other || variants(fold, one).into_iter().flatten().any(|variant| variants(fold, other).contains(&Some(variant)))
}

pub(super) fn union(ranges: &[(char, char)]) -> Set {
    Set::Union(ranges.iter().map(|(low, high)| Set::Range(*low, *high)).collect())
}

pub(super) fn negated(set: Set) -> Set {
    Set::Not(Box::new(set))
}

/// What ends a line.
pub(super) const LINE_ENDS: [(char, char); 4] = [('\n', '\n'), ('\r', '\r'), ('\u{85}', '\u{85}'), ('\u{2028}', '\u{2029}')];

const HORIZONTAL: [(char, char); 9] = [
    ('\t', '\t'),
    (' ', ' '),
    ('\u{a0}', '\u{a0}'),
    ('\u{1680}', '\u{1680}'),
    ('\u{180e}', '\u{180e}'),
    ('\u{2000}', '\u{200a}'),
    ('\u{202f}', '\u{202f}'),
    ('\u{205f}', '\u{205f}'),
    ('\u{3000}', '\u{3000}'),
];
const VERTICAL: [(char, char); 3] = [('\n', '\r'), ('\u{85}', '\u{85}'), ('\u{2028}', '\u{2029}')];

/// The set of an escape such as `\d`; of all scripts if `unicode`.
pub(super) fn shorthand(letter: char, unicode: bool) -> Option<Set> {
    let set = match (letter.to_ascii_lowercase(), unicode) {
        ('d', false) => union(&[('0', '9')]),
        ('d', true) => property("Nd")?,
        ('s', false) => union(&[('\t', '\r'), (' ', ' ')]),
        ('s', true) => property("White_Space")?,
        ('w', false) => union(&[('a', 'z'), ('A', 'Z'), ('0', '9'), ('_', '_')]),
        ('w', true) => Set::Union(vec![property("Alphabetic")?, property("M")?, property("Nd")?, property("Pc")?]),
        ('h', _) => union(&HORIZONTAL),
        ('v', _) => union(&VERTICAL),
        _ => return None,
    };
    Some(if letter.is_ascii_uppercase() { negated(set) } else { set })
}

/// The set of a name in `\p{…}`.
pub(super) fn named(name: &str, unicode: bool) -> Option<Set> {
    let posix = match name {
        "Lower" => Some(union(&[('a', 'z')])),
        "Upper" => Some(union(&[('A', 'Z')])),
        "ASCII" => Some(union(&[('\0', '\u{7f}')])),
        "Alpha" => Some(union(&[('a', 'z'), ('A', 'Z')])),
        "Digit" => Some(union(&[('0', '9')])),
        "Alnum" => Some(union(&[('a', 'z'), ('A', 'Z'), ('0', '9')])),
        "Punct" => Some(union(&[('!', '/'), (':', '@'), ('[', '`'), ('{', '~')])),
        "Graph" => Some(union(&[('!', '~')])),
        "Print" => Some(union(&[(' ', '~')])),
        "Blank" => Some(union(&[(' ', ' '), ('\t', '\t')])),
        "Cntrl" => Some(union(&[('\0', '\u{1f}'), ('\u{7f}', '\u{7f}')])),
        "XDigit" => Some(union(&[('0', '9'), ('a', 'f'), ('A', 'F')])),
        "Space" => Some(union(&[('\t', '\r'), (' ', ' ')])),
        _ => None,
    };
    if let Some(set) = posix {
        return match (unicode, name) {
            (false, _) | (true, "ASCII" | "XDigit") => Some(set),
            (true, "Lower") => property("Lowercase"),
            (true, "Upper") => property("Uppercase"),
            (true, "Alpha") => property("Alphabetic"),
            (true, "Digit") => property("Nd"),
            (true, "Punct") => property("P"),
            (true, "Space") => property("White_Space"),
            (true, "Cntrl") => property("Cc"),
            (true, _) => Some(set),
        };
    }
    if let Some(java) = name.strip_prefix("java") {
        return match java {
            "LowerCase" => property("Lowercase"),
            "UpperCase" => property("Uppercase"),
            "Alphabetic" => property("Alphabetic"),
            "Digit" => property("Nd"),
            "Letter" => property("L"),
            "LetterOrDigit" => Some(Set::Union(vec![property("L")?, property("Nd")?])),
            "SpaceChar" => property("Z"),
            "TitleCase" => property("Lt"),
            "ISOControl" => property("Cc"),
            "Whitespace" => Some(Set::Union(vec![
                union(&[('\t', '\r'), ('\u{1c}', '\u{1f}')]),
                Set::Intersection(vec![
                    property("Z")?,
                    negated(union(&[('\u{a0}', '\u{a0}'), ('\u{2007}', '\u{2007}'), ('\u{202f}', '\u{202f}')])),
                ]),
            ])),
            _ => None,
        };
    }
    if let Some((key, value)) = name.split_once('=') {
        return match key.to_ascii_lowercase().as_str() {
            "script" | "sc" => property(&format!("Script={value}")),
            "general_category" | "gc" => property(&format!("gc={value}")),
            "block" | "blk" => block(value),
            _ => None,
        };
    }
    if let Some(block_name) = name.strip_prefix("In") {
        return block(block_name);
    }
    let plain = name.strip_prefix("Is").unwrap_or(name);
    match plain {
        "L1" => Some(union(&[('\0', '\u{ff}')])),
        "LC" => property("LC"),
        "LD" => Some(Set::Union(vec![property("L")?, property("Nd")?])),
        "all" => Some(union(&[('\0', char::MAX)])),
        _ => property(plain),
    }
}

/// A block of Unicode by one of its common names.
fn block(name: &str) -> Option<Set> {
    let plain: String = name.chars().filter(char::is_ascii_alphanumeric).map(|c| c.to_ascii_lowercase()).collect();
    let range = match plain.as_str() {
        "basiclatin" => ('\0', '\u{7f}'),
        "latin1supplement" => ('\u{80}', '\u{ff}'),
        "latinextendeda" => ('\u{100}', '\u{17f}'),
        "latinextendedb" => ('\u{180}', '\u{24f}'),
        "combiningdiacriticalmarks" => ('\u{300}', '\u{36f}'),
        "greek" | "greekandcoptic" => ('\u{370}', '\u{3ff}'),
        "cyrillic" => ('\u{400}', '\u{4ff}'),
        "armenian" => ('\u{530}', '\u{58f}'),
        "hebrew" => ('\u{590}', '\u{5ff}'),
        "arabic" => ('\u{600}', '\u{6ff}'),
        "devanagari" => ('\u{900}', '\u{97f}'),
        "thai" => ('\u{e00}', '\u{e7f}'),
        "generalpunctuation" => ('\u{2000}', '\u{206f}'),
        "hiragana" => ('\u{3040}', '\u{309f}'),
        "katakana" => ('\u{30a0}', '\u{30ff}'),
        "cjkunifiedideographs" => ('\u{4e00}', '\u{9fff}'),
        "hangulsyllables" => ('\u{ac00}', '\u{d7af}'),
        "emoticons" => ('\u{1f600}', '\u{1f64f}'),
        _ => return None,
    };
    Some(union(&[range]))
}

/// A property by its name, if there is one.
fn property(name: &str) -> Option<Set> {
    let regex = datafusion::functions::regex::compile_regex(&format!("^\\p{{{name}}}$"), None).ok()?;
    let has = move |character: char| regex.is_match(character.encode_utf8(&mut [0; 4]));
    Some(Set::Property(Property { name: name.to_owned(), has: Arc::new(has) }))
}
