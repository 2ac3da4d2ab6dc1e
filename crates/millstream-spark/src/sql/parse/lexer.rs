//! Cuts Spark SQL text into tokens by Spark's own lexical rules: hints are tokens, strings have Spark's escapes, `1a` is a name and
//! `1L` a number.

use std::ops::Range;

use datafusion::sql::sqlparser::tokenizer::{Location, Span, Token, TokenWithSpan};

use crate::sql::{Diagnostic, SourceFile};

/// The token that begins a hint.
pub(super) const HINT: &str = "/*+";
/// The token that ends a hint.
pub(super) const HINT_END: &str = "*/";
/// The token of the unsigned shift.
pub(crate) const SHIFT_RIGHT_UNSIGNED: &str = ">>>";

/// The tokens of a text and the bytes that each stands at.
#[derive(Debug)]
pub(crate) struct Lexed {
    pub(crate) tokens: Vec<TokenWithSpan>,
    pub(crate) ranges: Vec<Range<usize>>,
    /// The end of the text.
    pub(super) end: Location,
}

/// Reads all of a text. Blanks and comments are left out. Faults are told as being in `file`, at their places in the text.
pub(crate) fn lex(file: &SourceFile, text: &str) -> Result<Lexed, Diagnostic> {
    let mut lexer = Lexer {
        file,
        text,
        at: 0,
        line: 1,
        column: 1,
        in_hint: false,
        out: Lexed { tokens: Vec::new(), ranges: Vec::new(), end: Location::new(1, 1) },
    };
    while lexer.at < lexer.text.len() {
        lexer.step()?;
    }
    lexer.out.end = lexer.location();
    Ok(lexer.out)
}

struct Lexer<'a> {
    file: &'a SourceFile,
    text: &'a str,
    at: usize,
    line: u64,
    column: u64,
    in_hint: bool,
    out: Lexed,
}

/// Punctuation, the longest first.
const PUNCTUATION: &[(&str, Token)] = &[
    ("<=>", Token::Spaceship),
    ("<>", Token::Neq),
    ("!=", Token::Neq),
    ("<=", Token::LtEq),
    ("!>", Token::LtEq),
    (">=", Token::GtEq),
    ("!<", Token::GtEq),
    ("<<", Token::ShiftLeft),
    (">>", Token::ShiftRight),
    ("==", Token::DoubleEq),
    ("=>", Token::RArrow),
    ("->", Token::Arrow),
    ("||", Token::StringConcat),
    ("|>", Token::VerticalBarRightAngleBracket),
    ("::", Token::DoubleColon),
    ("=", Token::Eq),
    ("<", Token::Lt),
    (">", Token::Gt),
    ("!", Token::ExclamationMark),
    (";", Token::SemiColon),
    ("(", Token::LParen),
    (")", Token::RParen),
    ("[", Token::LBracket),
    ("]", Token::RBracket),
    (",", Token::Comma),
    (".", Token::Period),
    ("+", Token::Plus),
    ("-", Token::Minus),
    ("*", Token::Mul),
    ("/", Token::Div),
    ("%", Token::Mod),
    ("~", Token::Tilde),
    ("&", Token::Ampersand),
    ("|", Token::Pipe),
    ("^", Token::Caret),
    (":", Token::Colon),
    ("?", Token::Question),
];

impl<'a> Lexer<'a> {
    fn rest(&self) -> &'a str {
        self.text.get(self.at..).unwrap_or_default()
    }

    fn location(&self) -> Location {
        Location::new(self.line, self.column)
    }

    /// Moves forward to a byte.
    fn move_to(&mut self, end: usize) {
        let passed = self.text.get(self.at..end).unwrap_or_default();
        for c in passed.chars() {
            if c == '\n' {
                (self.line, self.column) = (self.line + 1, 1);
            } else {
                self.column += 1;
            }
        }
        self.at = end;
    }

    fn push(&mut self, token: Token, end: usize) {
        let (start, location) = (self.at, self.location());
        self.move_to(end);
        self.out.tokens.push(TokenWithSpan::new(token, Span::new(location, self.location())));
        self.out.ranges.push(start..end);
    }

    fn fault(&self, message: impl Into<String>) -> Diagnostic {
        Diagnostic::syntax(self.file.position(self.location()), message)
    }

    fn step(&mut self) -> Result<(), Diagnostic> {
        let rest = self.rest();
        let Some(first) = rest.chars().next() else { return Ok(()) };
        if first.is_whitespace() {
            let end = rest.find(|c: char| !c.is_whitespace()).map_or(self.text.len(), |n| self.at + n);
            self.move_to(end);
            return Ok(());
        }
        if rest.starts_with("--") {
            let end = line_comment_end(rest);
            self.move_to(self.at + end);
            return Ok(());
        }
        if rest.starts_with(HINT) {
            self.in_hint = true;
            self.push(Token::CustomBinaryOperator(HINT.to_owned()), self.at + HINT.len());
            return Ok(());
        }
        if self.in_hint && rest.starts_with(HINT_END) {
            self.in_hint = false;
            self.push(Token::CustomBinaryOperator(HINT_END.to_owned()), self.at + HINT_END.len());
            return Ok(());
        }
        if rest.starts_with("/*") {
            let Some(end) = block_comment_end(rest) else {
                return Err(Diagnostic::new(
                    "UNCLOSED_BRACKETED_COMMENT",
                    "42601",
                    self.file.position(self.location()),
                    "the comment that begins here has no '*/'",
                ));
            };
            self.move_to(self.at + end);
            return Ok(());
        }
        match first {
            '\'' | '"' => self.string(first),
            'r' | 'R' if matches!(rest.as_bytes().get(1), Some(b'\'' | b'"')) => self.raw_string(),
            '`' => self.quoted_name(),
            c if c.is_ascii_digit() || c == '.' => self.number_or_name(),
            c if is_word(c) => self.name(),
            _ => {
                self.punctuation();
                Ok(())
            }
        }
    }

    fn string(&mut self, quote: char) -> Result<(), Diagnostic> {
        let rest = self.rest();
        let mut chars = rest.char_indices().skip(1).peekable();
        let mut end = None;
        while let Some((i, c)) = chars.next() {
            if c == '\\' {
                chars.next();
            } else if c == quote {
                if chars.peek().is_some_and(|(_, next)| *next == quote) {
                    chars.next();
                } else {
                    end = Some(i);
                    break;
                }
            }
        }
        let Some(end) = end else { return Err(self.fault(format!("the string that begins here has no closing {quote}"))) };
        let content = unescape(rest.get(1..end).unwrap_or_default(), quote);
        let token = if quote == '"' { Token::DoubleQuotedString(content) } else { Token::SingleQuotedString(content) };
        self.push(token, self.at + end + 1);
        Ok(())
    }

    fn raw_string(&mut self) -> Result<(), Diagnostic> {
        let rest = self.rest();
        let quote = rest.chars().nth(1).unwrap_or('\'');
        let body = rest.get(2..).unwrap_or_default();
        let Some(length) = body.find(quote) else {
            return Err(self.fault(format!("the string that begins here has no closing {quote}")));
        };
        let token = Token::SingleQuotedString(body.get(..length).unwrap_or_default().to_owned());
        self.push(token, self.at + length + 3);
        Ok(())
    }

    fn quoted_name(&mut self) -> Result<(), Diagnostic> {
        let body = self.rest().get(1..).unwrap_or_default();
        let mut name = String::new();
        let mut chars = body.char_indices().peekable();
        while let Some((i, c)) = chars.next() {
            if c != '`' {
                name.push(c);
            } else if chars.peek().is_some_and(|(_, next)| *next == '`') {
                chars.next();
                name.push('`');
            } else {
                let end = self.at + i + 2;
                self.push(Token::make_word(&name, Some('`')), end);
                return Ok(());
            }
        }
        Err(self.fault("the name that begins here has no closing `"))
    }

    fn number_or_name(&mut self) -> Result<(), Diagnostic> {
        let rest = self.rest();
        match number(rest) {
            Some(length) => {
                let digits = rest.get(..length).unwrap_or_default().to_owned();
                self.push(Token::Number(digits, false), self.at + length);
                Ok(())
            }
            None if rest.starts_with('.') => {
                self.punctuation();
                Ok(())
            }
            None => self.name(),
        }
    }

    fn name(&mut self) -> Result<(), Diagnostic> {
        let rest = self.rest();
        let length = word_length(rest);
        let name = rest.get(..length).unwrap_or_default();
        if !name.is_ascii() {
            return Err(Diagnostic::new(
                "INVALID_IDENTIFIER",
                "42602",
                self.file.position(self.location()),
                format!("the unquoted name '{name}' has a letter that is not ASCII"),
            )
            .with_hint(format!("write `{name}` in backticks")));
        }
        let token = Token::make_word(name, None);
        self.push(token, self.at + length);
        Ok(())
    }

    fn punctuation(&mut self) {
        let rest = self.rest();
        if rest.starts_with(SHIFT_RIGHT_UNSIGNED) {
            self.push(Token::CustomBinaryOperator(SHIFT_RIGHT_UNSIGNED.to_owned()), self.at + 3);
            return;
        }
        match PUNCTUATION.iter().find(|(text, _)| rest.starts_with(text)) {
            Some((text, token)) => self.push(token.clone(), self.at + text.len()),
            // No rule of the grammar has it, but the value of a SET may.
            None => {
                let other = rest.chars().next().unwrap_or(' ');
                self.push(Token::Char(other), self.at + other.len_utf8());
            }
        }
    }
}

fn is_word(c: char) -> bool {
    c == '_' || c.is_ascii_alphanumeric() || (!c.is_ascii() && c.is_alphabetic())
}

fn word_length(text: &str) -> usize {
    text.find(|c| !is_word(c)).unwrap_or(text.len())
}

/// The end of a comment to the end of the line; a backslash there continues it.
fn line_comment_end(text: &str) -> usize {
    let mut from = 0;
    while let Some(n) = text.get(from..).and_then(|rest| rest.find('\n')) {
        let newline = from + n;
        if !text.get(..newline).is_some_and(|line| line.ends_with('\\')) {
            return newline;
        }
        from = newline + 1;
    }
    text.len()
}

/// The end of a comment in brackets, which nest.
fn block_comment_end(text: &str) -> Option<usize> {
    let (mut at, mut depth) = (0, 0_usize);
    loop {
        let rest = text.get(at..)?;
        let open = rest.find("/*");
        let close = rest.find("*/");
        match (open, close) {
            (Some(open), Some(close)) if open < close => (at, depth) = (at + open + 2, depth + 1),
            (_, Some(close)) => {
                (at, depth) = (at + close + 2, depth.saturating_sub(1));
                if depth == 0 {
                    return Some(at);
                }
            }
            (_, None) => return None,
        }
    }
}

/// The length of the number that a text begins with; none if it begins with a name or a dot.
fn number(text: &str) -> Option<usize> {
    let bytes = text.as_bytes();
    let digits = |from: usize| bytes.get(from..).map_or(0, |rest| rest.iter().take_while(|byte| byte.is_ascii_digit()).count());
    let whole = digits(0);
    let word_at = |at: usize| text.get(at..).and_then(|rest| rest.chars().next()).is_some_and(is_word);
    let exponent = |at: usize| match bytes.get(at) {
        Some(b'e' | b'E') => {
            let sign = usize::from(matches!(bytes.get(at + 1), Some(b'+' | b'-')));
            match digits(at + 1 + sign) {
                0 => 0,
                n => 1 + sign + n,
            }
        }
        _ => 0,
    };
    let suffix = |at: usize, allowed: &[&str]| {
        let rest = text.get(at..).unwrap_or_default();
        let found = allowed.iter().find(|suffix| rest.get(..suffix.len()).is_some_and(|head| head.eq_ignore_ascii_case(suffix)));
        found.map_or(0, |suffix| suffix.len())
    };
    let complete = |mut at: usize, plain: bool| {
        let power = exponent(at);
        at += power;
        let allowed: &[&str] = if plain && power == 0 { &["BD", "L", "S", "Y", "F", "D"] } else { &["BD", "F", "D"] };
        at += suffix(at, allowed);
        (!word_at(at)).then_some(at)
    };
    if bytes.get(whole) == Some(&b'.') {
        let fraction = digits(whole + 1);
        if (whole > 0 || fraction > 0)
            && let Some(end) = complete(whole + 1 + fraction, false)
        {
            return Some(end);
        }
    }
    if whole == 0 { None } else { complete(whole, true) }
}

/// What stands between the quotes of a string, with its escapes replaced.
fn unescape(text: &str, quote: char) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        rest = rest.get(c.len_utf8()..).unwrap_or_default();
        if c == quote {
            // Two quotes are one.
            rest = rest.strip_prefix(quote).unwrap_or(rest);
            out.push(quote);
        } else if c == '\\' {
            rest = escape(rest, &mut out);
        } else {
            out.push(c);
        }
    }
    out
}

/// Writes what an escape stands for; `rest` begins after the backslash.
fn escape<'a>(rest: &'a str, out: &mut String) -> &'a str {
    let code = |radix: u32, from: usize, length: usize| {
        let digits = rest.get(from..from + length).filter(|digits| digits.chars().all(|c| c.is_digit(radix)))?;
        Some((u32::from_str_radix(digits, radix).ok()?, rest.get(from + length..)?))
    };
    let Some(first) = rest.chars().next() else {
        out.push('\\');
        return rest;
    };
    let unicode = match first {
        'u' => surrogates(rest).or_else(|| code(16, 1, 4)),
        'U' => code(16, 1, 8),
        '0' | '1' => code(8, 0, 3),
        _ => None,
    };
    if let Some((number, after)) = unicode
        && let Some(c) = char::from_u32(number)
    {
        out.push(c);
        return after;
    }
    match first {
        '0' => out.push('\0'),
        'b' => out.push('\u{8}'),
        'n' => out.push('\n'),
        'r' => out.push('\r'),
        't' => out.push('\t'),
        'Z' => out.push('\u{1a}'),
        // LIKE takes the backslash away.
        '%' => out.push_str("\\%"),
        '_' => out.push_str("\\_"),
        other => out.push(other),
    }
    rest.get(first.len_utf8()..).unwrap_or_default()
}

/// Two `\uXXXX` that make one character.
fn surrogates(rest: &str) -> Option<(u32, &str)> {
    let high = u32::from_str_radix(rest.get(1..5)?, 16).ok().filter(|high| (0xD800..0xDC00).contains(high))?;
    let low = rest.get(5..)?.strip_prefix("\\u")?;
    let value = u32::from_str_radix(low.get(..4)?, 16).ok().filter(|low| (0xDC00..0xE000).contains(low))?;
    Some((0x10000 + ((high - 0xD800) << 10) + (value - 0xDC00), low.get(4..)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tokens(text: &str) -> Vec<String> {
        let file = SourceFile::new("sql", text);
        lex(&file, text).unwrap().tokens.into_iter().map(|token| token.token.to_string()).collect()
    }

    #[test]
    fn numbers_and_names_are_told_apart_as_spark_does() {
        for (text, expected) in [
            ("1 1L 1.5 .5 5. 1e3 1.5e-3D 1BD 2f", vec!["1", "1L", "1.5", ".5", "5.", "1e3", "1.5e-3D", "1BD", "2f"]),
            ("1a 1e 0x1F _1", vec!["1a", "1e", "0x1F", "_1"]),
            ("1.e a.b t.1a", vec!["1", ".", "e", "a", ".", "b", "t", ".", "1a"]),
            ("a>>>1 a>>1 a<=>b a!<b", vec!["a", ">>>", "1", "a", ">>", "1", "a", "<=>", "b", "a", ">=", "b"]),
            ("/*+ x */ 1 /* a /* b */ c */ -- d\\\n e\n2", vec!["/*+", "x", "*/", "1", "2"]),
            ("`a``b`", vec!["`a`b`"]),
        ] {
            assert_eq!(tokens(text), expected, "{text}");
        }
    }

    #[test]
    fn strings_have_sparks_escapes() {
        for (text, expected) in [
            (r"'it\'s'", "it's"),
            ("'a''b'", "a'b"),
            (r#""a""b""#, "a\"b"),
            (r"'a\tb\nc\\d'", "a\tb\nc\\d"),
            (r"'uni\u00e9 \U0001F600 \ud83d\ude00'", "unié 😀 😀"),
            (r"'\101\0'", "A\0"),
            (r"'\%\_\z'", r"\%\_z"),
            (r"r'raw\n'", r"raw\n"),
            (r#"R"\d+""#, r"\d+"),
            ("'two\nlines'", "two\nlines"),
        ] {
            let file = SourceFile::new("sql", text);
            let lexed = lex(&file, text).unwrap();
            assert_eq!(lexed.tokens.len(), 1, "{text}");
            match &lexed.tokens[0].token {
                Token::SingleQuotedString(found) | Token::DoubleQuotedString(found) => assert_eq!(found, expected, "{text}"),
                other => panic!("{text}: {other:?}"),
            }
        }
    }

    #[test]
    fn what_is_not_closed_is_a_fault_at_its_beginning() {
        for (text, code, column) in [
            ("a 'open", "PARSE_SYNTAX_ERROR", 3),
            ("a `open", "PARSE_SYNTAX_ERROR", 3),
            ("a /* open", "UNCLOSED_BRACKETED_COMMENT", 3),
            ("é", "INVALID_IDENTIFIER", 1),
        ] {
            let fault = lex(&SourceFile::new("sql", text), text).unwrap_err();
            assert_eq!((fault.code.as_ref(), fault.position.column), (code, column), "{text}");
        }
    }
}
