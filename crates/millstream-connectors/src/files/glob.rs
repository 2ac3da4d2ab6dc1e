//! Path patterns in Hadoop's syntax: `*`, `?`, `[a-c]`, `[!a]`, `{a,b}`, and `\` to take the next character literally.

use millstream_core::{Error, Result};
use regex::Regex;

use super::listing::is_hidden;

/// Whether a path has a character that means something in a pattern.
pub(crate) fn is_pattern(path: &str) -> bool {
    path.contains(['{', '}', '[', ']', '*', '?', '\\'])
}

/// A pattern for one name (no `/`).
#[derive(Clone, Debug)]
pub(crate) struct Glob {
    expression: Regex,
    /// Whether the pattern asks for hidden names, by beginning as they do.
    hidden: bool,
}

impl Glob {
    /// Compiles a pattern.
    ///
    /// # Errors
    /// `INVALID_GLOB_PATTERN` for an unclosed `{` or `[`, or a `\` at the end.
    pub(crate) fn new(pattern: &str) -> Result<Self> {
        let bad = |why: &str| Error::invalid("INVALID_GLOB_PATTERN", format!("the path pattern '{pattern}' {why}"));
        let mut expression = String::from("(?s)^");
        let mut groups = 0_u32;
        let mut chars = pattern.chars().peekable();
        while let Some(c) = chars.next() {
            match c {
                '\\' => push_literal(&mut expression, chars.next().ok_or_else(|| bad("ends with a backslash"))?),
                '*' => expression.push_str(".*"),
                '?' => expression.push('.'),
                '{' => {
                    groups += 1;
                    expression.push_str("(?:");
                }
                ',' if groups > 0 => expression.push('|'),
                '}' if groups > 0 => {
                    groups -= 1;
                    expression.push(')');
                }
                '[' => {
                    expression.push('[');
                    if chars.next_if(|c| matches!(c, '!' | '^')).is_some() {
                        expression.push('^');
                    }
                    let mut members = 0;
                    loop {
                        match chars.next().ok_or_else(|| bad("has a '[' without ']'"))? {
                            ']' if members > 0 => break,
                            '\\' => push_member(&mut expression, chars.next().ok_or_else(|| bad("ends with a backslash"))?),
                            '-' if members > 0 && chars.peek().is_some_and(|next| *next != ']') => expression.push('-'),
                            member => push_member(&mut expression, member),
                        }
                        members += 1;
                    }
                    expression.push(']');
                }
                other => push_literal(&mut expression, other),
            }
        }
        if groups > 0 {
            return Err(bad("has a '{' without '}'"));
        }
        expression.push('$');
        let expression = Regex::new(&expression).map_err(|error| bad("is not a pattern").caused_by(error))?;
        Ok(Glob { expression, hidden: pattern.starts_with(['_', '.']) })
    }

    /// Whether the whole name matches. A byte that is not UTF-8 counts as one character.
    pub(crate) fn matches(&self, name: &[u8]) -> bool {
        self.expression.is_match(&String::from_utf8_lossy(name))
    }
}

fn push_literal(expression: &mut String, c: char) {
    expression.push_str(&regex::escape(c.encode_utf8(&mut [0; 4])));
}

fn push_member(expression: &mut String, c: char) {
    if matches!(c, '[' | ']' | '\\' | '^' | '-' | '&' | '~') {
        expression.push('\\');
    }
    expression.push(c);
}

/// One part of a path pattern.
#[derive(Clone, Debug)]
pub(crate) enum Component {
    /// Exactly this name.
    Literal(String),
    /// Every name that matches, and is not hidden unless the pattern asks for that.
    Pattern(Glob),
}

impl Component {
    /// Whether a name of a path is meant.
    pub(crate) fn matches(&self, name: &[u8]) -> bool {
        match self {
            Component::Literal(literal) => literal.as_bytes() == name,
            Component::Pattern(glob) => glob.matches(name) && (glob.hidden || !is_hidden(name)),
        }
    }
}

/// Splits a path pattern into the directory before its first pattern, and the alternatives of what follows it.
///
/// There are several alternatives where braces hold a `/`, as in `/in/{a/b,c}/x`.
///
/// # Errors
/// `INVALID_GLOB_PATTERN`.
pub(crate) fn split(path: &str) -> Result<(&str, Vec<Vec<Component>>)> {
    let first = path.find(['{', '}', '[', ']', '*', '?', '\\']).unwrap_or(path.len());
    let (directory, rest) = match path[..first].rfind('/') {
        Some(slash) => (&path[..=slash], &path[slash + 1..]),
        None => (".", path),
    };
    let mut alternatives = Vec::new();
    for pattern in expand(rest) {
        let mut components = Vec::new();
        for part in pattern.split('/').filter(|part| !part.is_empty()) {
            components.push(if is_pattern(part) { Component::Pattern(Glob::new(part)?) } else { Component::Literal(part.to_owned()) });
        }
        alternatives.push(components);
    }
    Ok((directory, alternatives))
}

/// Replaces braces that hold a `/` by one pattern for each of their parts.
fn expand(pattern: &str) -> Vec<String> {
    let Some((open, close, parts)) = braces_over_slash(pattern) else { return vec![pattern.to_owned()] };
    parts.iter().flat_map(|part| expand(&format!("{}{part}{}", &pattern[..open], &pattern[close + 1..]))).collect()
}

/// The first top-level braces that hold a `/`: where they open and close, and their parts.
fn braces_over_slash(pattern: &str) -> Option<(usize, usize, Vec<&str>)> {
    let mut escaped = false;
    let mut depth = 0_u32;
    let (mut open, mut part, mut slash) = (0, 0, false);
    let mut parts = Vec::new();
    for (at, c) in pattern.char_indices() {
        if std::mem::take(&mut escaped) {
            continue;
        }
        match c {
            '\\' => escaped = true,
            '{' => {
                if depth == 0 {
                    (open, part, slash) = (at, at + 1, false);
                    parts.clear();
                }
                depth += 1;
            }
            ',' if depth == 1 => {
                parts.push(&pattern[part..at]);
                part = at + 1;
            }
            '/' if depth > 0 => slash = true,
            '}' if depth > 0 => {
                depth -= 1;
                if depth == 0 {
                    parts.push(&pattern[part..at]);
                    if slash {
                        return Some((open, at, parts));
                    }
                }
            }
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_syntax_of_hadoop() {
        for (pattern, yes, no) in [
            ("*.json", &["a.json", ".json", "a b.json", "žluť.json"][..], &["a.txt", "json-c.json.bak", "d.JSON"][..]),
            ("{a,b}.*", &["a.json", "b."], &["c.json", "{a,b}.x"]),
            ("[!a].???", &["b.txt", "ž.txt"], &["a.txt", "b.json"]),
            ("[a-c]?", &["ax", "cž"], &["dx", "a"]),
            ("[]a]", &["]", "a"], &["b"]),
            ("[a-]", &["a", "-"], &["b"]),
            ("a\\*b", &["a*b"], &["axb"]),
            ("{x,{y,z}1}", &["x", "y1", "z1"], &["y", "x1"]),
            ("a.b+(c)|$", &["a.b+(c)|$"], &["aab+(c)|$"]),
            ("a,b", &["a,b"], &["a", "b"]),
        ] {
            let glob = Glob::new(pattern).unwrap();
            for name in yes {
                assert!(glob.matches(name.as_bytes()), "{pattern} on {name}");
            }
            for name in no {
                assert!(!glob.matches(name.as_bytes()), "{pattern} on {name}");
            }
        }
        assert!(Glob::new("*.x").unwrap().matches(b"\xff\xfe.x"));
        for pattern in ["{a", "[a", "a\\", "["] {
            assert_eq!(Glob::new(pattern).unwrap_err().code(), "INVALID_GLOB_PATTERN", "{pattern}");
        }
    }

    #[test]
    fn a_path_is_split_before_its_first_pattern() {
        let (directory, alternatives) = split("/data/in/2024-*/x/{a,b}.json").unwrap();
        assert_eq!(directory, "/data/in/");
        assert_eq!(alternatives.len(), 1);
        assert_eq!(alternatives[0].len(), 3);
        assert!(matches!(&alternatives[0][1], Component::Literal(name) if name == "x"));

        let (directory, alternatives) = split("s3://bucket/{a/b,c}/*.json").unwrap();
        assert_eq!(directory, "s3://bucket/");
        assert_eq!(alternatives.iter().map(Vec::len).collect::<Vec<_>>(), [3, 2]);
    }

    proptest::proptest! {
        #[test]
        fn any_text_compiles_or_is_refused(pattern: String, name: Vec<u8>) {
            if let Ok(glob) = Glob::new(&pattern) {
                glob.matches(&name);
            }
        }
    }
}
