//! Walks over the bytes of one record, token by token, and checks its syntax as Jackson does.
//!
//! Strings are found by looking at eight bytes at a time. The cursor hands out pieces of the record and copies nothing; a tokenizer that
//! finds the structure of a whole record at once could take its place behind the same functions.

use super::number::Number;

/// What is allowed beyond standard JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Syntax {
    /// `//` and `/* */` comments.
    pub comments: bool,
    /// Field names without quotes.
    pub unquoted_names: bool,
    /// Strings in single quotes.
    pub single_quotes: bool,
    /// `007`.
    pub leading_zeros: bool,
    /// `NaN`, `Infinity`, `-INF`, …
    pub non_numeric: bool,
    /// A backslash before any character.
    pub any_escape: bool,
    /// Control characters inside strings.
    pub control_chars: bool,
    /// How deep objects and arrays may be nested.
    pub max_depth: u32,
}

impl Default for Syntax {
    /// What Spark allows without options.
    fn default() -> Self {
        Syntax {
            comments: false,
            unquoted_names: false,
            single_quotes: true,
            leading_zeros: false,
            non_numeric: true,
            any_escape: false,
            control_chars: false,
            max_depth: 1000,
        }
    }
}

/// Why a record cannot be read at all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// It is no JSON.
    Syntax {
        /// Where in the record.
        at: usize,
        /// What is wrong there.
        what: &'static str,
    },
    /// It is nested deeper than allowed.
    TooDeep,
}

/// A string between its quotes.
#[derive(Clone, Copy, Debug)]
pub struct Quoted<'a> {
    /// The bytes as written.
    pub raw: &'a [u8],
    /// Whether there is a backslash among them.
    pub escaped: bool,
}

/// The cursor.
#[derive(Clone, Debug)]
pub struct Cursor<'a> {
    bytes: &'a [u8],
    at: usize,
    depth: u32,
    syntax: &'a Syntax,
}

const ONES: u64 = 0x0101_0101_0101_0101;
const HIGHS: u64 = 0x8080_8080_8080_8080;

/// Marks the high bit of every byte of `word` that is zero. Bytes above the first such byte may be marked wrongly.
#[inline(always)]
const fn zeros(word: u64) -> u64 {
    word.wrapping_sub(ONES) & !word & HIGHS
}

/// Whether two pieces of the same length are equal. Names and words are so short that a call to compare memory costs more than comparing.
#[inline(always)]
fn same(one: &[u8], other: &[u8]) -> bool {
    match (one.first_chunk::<8>(), other.first_chunk::<8>()) {
        (Some(first), Some(expected)) if first == expected => {
            // The last eight bytes overlap the first ones.
            one.len() <= 8 || (one.len() <= 16 && one.last_chunk::<8>() == other.last_chunk::<8>()) || (one.len() > 16 && one == other)
        }
        (Some(_), _) | (None, Some(_)) => false,
        (None, None) => match (one.first_chunk::<4>(), other.first_chunk::<4>()) {
            (Some(first), Some(expected)) => first == expected && one.last_chunk::<4>() == other.last_chunk::<4>(),
            _ => one.iter().zip(other).all(|(byte, expected)| byte == expected),
        },
    }
}

impl<'a> Cursor<'a> {
    /// At the beginning of a record.
    #[inline]
    pub fn new(bytes: &'a [u8], syntax: &'a Syntax) -> Self {
        Cursor { bytes, at: 0, depth: 0, syntax }
    }

    /// Where it stands.
    #[inline(always)]
    pub fn at(&self) -> usize {
        self.at
    }

    /// The bytes from a place to where it stands.
    #[inline]
    pub fn since(&self, start: usize) -> &'a [u8] {
        self.bytes.get(start..self.at).unwrap_or_default()
    }

    /// What the syntax allows.
    #[inline]
    pub fn syntax(&self) -> &'a Syntax {
        self.syntax
    }

    /// A fault at the present place.
    #[cold]
    pub fn fault(&self, what: &'static str) -> Fault {
        Fault::Syntax { at: self.at, what }
    }

    #[inline(always)]
    fn byte(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    /// Goes over white space, and comments where they are allowed, and returns the byte there.
    #[inline(always)]
    pub fn token(&mut self) -> Result<u8, Fault> {
        match self.byte() {
            Some(byte) if byte > b' ' && byte != b'/' => Ok(byte),
            _ => self.token_after_space(),
        }
    }

    fn token_after_space(&mut self) -> Result<u8, Fault> {
        self.next_token()?.ok_or_else(|| self.fault("unexpected end"))
    }

    /// As [`Cursor::token`], `None` at the end.
    pub fn next_token(&mut self) -> Result<Option<u8>, Fault> {
        loop {
            match self.byte() {
                Some(b' ' | b'\t' | b'\r' | b'\n') => self.at += 1,
                Some(b'/') if self.syntax.comments => self.comment()?,
                found => return Ok(found),
            }
        }
    }

    fn comment(&mut self) -> Result<(), Fault> {
        let rest = self.bytes.get(self.at + 1..).unwrap_or_default();
        let length = match rest.first() {
            Some(b'/') => rest.iter().position(|byte| matches!(byte, b'\n' | b'\r')).unwrap_or(rest.len()),
            Some(b'*') => {
                let body = rest.get(1..).unwrap_or_default();
                body.windows(2).position(|pair| pair == b"*/").ok_or_else(|| self.fault("a comment is not closed"))? + 3
            }
            _ => return Err(self.fault("'/' begins no comment")),
        };
        self.at += 1 + length;
        Ok(())
    }

    /// Steps into an object or array.
    #[inline(always)]
    pub fn enter(&mut self) -> Result<(), Fault> {
        self.at += 1;
        self.depth += 1;
        if self.depth > self.syntax.max_depth { Err(Fault::TooDeep) } else { Ok(()) }
    }

    /// Goes to the next element of the array it is in, or behind its end (`false`).
    #[inline(always)]
    pub fn next_element(&mut self, first: bool) -> Result<bool, Fault> {
        match self.token()? {
            b']' => {
                self.at += 1;
                self.depth -= 1;
                Ok(false)
            }
            _ if first => Ok(true),
            b',' => {
                self.at += 1;
                Ok(true)
            }
            _ => Err(self.fault("',' or ']' is missing")),
        }
    }

    /// Goes to the next name of the object it is in, or behind its end (`false`).
    #[inline(always)]
    pub fn next_member(&mut self, first: bool) -> Result<bool, Fault> {
        match self.token()? {
            b'}' => {
                self.at += 1;
                self.depth -= 1;
                Ok(false)
            }
            _ if first => Ok(true),
            b',' => {
                self.at += 1;
                self.token()?;
                Ok(true)
            }
            _ => Err(self.fault("',' or '}' is missing")),
        }
    }

    /// Whether the bytes here are exactly `expected`; then it steps over them.
    #[inline(always)]
    pub fn take(&mut self, expected: &[u8]) -> bool {
        let found = self.bytes.get(self.at..self.at + expected.len()).is_some_and(|found| same(found, expected));
        if found {
            self.at += expected.len();
        }
        found
    }

    /// Reads a field name.
    pub fn name(&mut self) -> Result<Quoted<'a>, Fault> {
        match self.byte() {
            Some(b'"') => self.string(b'"'),
            Some(b'\'') if self.syntax.single_quotes => self.string(b'\''),
            Some(_) if self.syntax.unquoted_names => {
                let rest = self.bytes.get(self.at..).unwrap_or_default();
                let is_part = |byte: &u8| byte.is_ascii_alphanumeric() || *byte >= 0x80 || b"_$@#*+-".contains(byte);
                let length = rest.iter().position(|byte| !is_part(byte)).unwrap_or(rest.len());
                if length == 0 {
                    return Err(self.fault("a field name is missing"));
                }
                self.at += length;
                Ok(Quoted { raw: rest.get(..length).unwrap_or_default(), escaped: false })
            }
            _ => Err(self.fault("a field name must be in quotes")),
        }
    }

    /// Steps over the colon behind a name, and white space after it.
    #[inline(always)]
    pub fn colon(&mut self) -> Result<(), Fault> {
        if self.token()? != b':' {
            return Err(self.fault("':' is missing"));
        }
        self.at += 1;
        Ok(())
    }

    /// Reads a string that begins here with `quote`.
    #[inline]
    pub fn string(&mut self, quote: u8) -> Result<Quoted<'a>, Fault> {
        let start = self.at + 1;
        self.at = start;
        let mut escaped = false;
        loop {
            self.seek_special(quote);
            match self.byte() {
                Some(byte) if byte == quote => {
                    let raw = self.since(start);
                    self.at += 1;
                    return Ok(Quoted { raw, escaped });
                }
                Some(b'\\') => {
                    escaped = true;
                    self.escape()?;
                }
                Some(_) if self.syntax.control_chars => self.at += 1,
                Some(_) => return Err(self.fault("a control character inside a string must be escaped")),
                None => return Err(self.fault("a string is not closed")),
            }
        }
    }

    /// Goes to the next quote, backslash or control character, or to the end.
    #[inline(always)]
    fn seek_special(&mut self, quote: u8) {
        let quotes = ONES.wrapping_mul(quote as u64);
        while let Some(chunk) = self.bytes.get(self.at..).and_then(|rest| rest.first_chunk::<8>()) {
            let word = u64::from_le_bytes(*chunk);
            let control = word.wrapping_sub(ONES * 0x20) & !word & HIGHS;
            let special = zeros(word ^ quotes) | zeros(word ^ (ONES * b'\\' as u64)) | control;
            if special != 0 {
                self.at += (special.trailing_zeros() / 8) as usize;
                return;
            }
            self.at += 8;
        }
        while self.byte().is_some_and(|byte| byte != quote && byte != b'\\' && byte >= 0x20) {
            self.at += 1;
        }
    }

    /// Checks the escape that begins here, and steps over it.
    fn escape(&mut self) -> Result<(), Fault> {
        match self.bytes.get(self.at + 1) {
            Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => self.at += 2,
            Some(b'u') => {
                let digits = self.bytes.get(self.at + 2..self.at + 6);
                if !digits.is_some_and(|digits| digits.iter().all(u8::is_ascii_hexdigit)) {
                    return Err(self.fault("\\u needs four hexadecimal digits"));
                }
                self.at += 6;
            }
            // A whole character follows the backslash; only its first byte could be mistaken for anything else.
            Some(_) if self.syntax.any_escape => self.at += 2,
            Some(_) => return Err(self.fault("an unknown escape")),
            None => return Err(self.fault("a string is not closed")),
        }
        Ok(())
    }

    /// Reads a number that begins here with a digit or a minus.
    #[inline]
    pub fn number(&mut self) -> Result<Number<'a>, Fault> {
        let rest = self.bytes.get(self.at..).unwrap_or_default();
        match Number::scan(rest, self.syntax.leading_zeros) {
            Ok(number) => {
                self.at += number.raw.len();
                Ok(number)
            }
            Err((offset, what)) => Err(Fault::Syntax { at: self.at + offset, what }),
        }
    }

    /// Whether a number that is none (`NaN`, `-INF`) begins here, and then reads it.
    pub fn non_number(&mut self) -> Option<f64> {
        let word = match self.byte()? {
            b'N' | b'I' => true,
            b'-' | b'+' => self.bytes.get(self.at + 1) == Some(&b'I'),
            _ => false,
        };
        if !word || !self.syntax.non_numeric {
            return None;
        }
        const WORDS: [(&[u8], f64); 6] = [
            (b"NaN", f64::NAN),
            (b"Infinity", f64::INFINITY),
            (b"+Infinity", f64::INFINITY),
            (b"+INF", f64::INFINITY),
            (b"-Infinity", f64::NEG_INFINITY),
            (b"-INF", f64::NEG_INFINITY),
        ];
        WORDS.iter().find_map(|(word, value)| self.take(word).then_some(*value))
    }

    /// Reads one of `true`, `false` and `null`.
    #[inline]
    pub fn word(&mut self, word: &'static [u8]) -> Result<(), Fault> {
        if self.take(word) { Ok(()) } else { Err(self.fault("an unknown word")) }
    }

    /// Steps over a whole value, checking its syntax.
    pub fn skip(&mut self) -> Result<(), Fault> {
        match self.token()? {
            b'"' => self.string(b'"').map(drop),
            b'-' if self.bytes.get(self.at + 1) == Some(&b'I') => self.skip_non_number(),
            b'-' | b'0'..=b'9' => self.number().map(drop),
            b't' => self.word(b"true"),
            b'f' => self.word(b"false"),
            b'n' => self.word(b"null"),
            b'{' => {
                self.enter()?;
                let mut first = true;
                while self.next_member(first)? {
                    first = false;
                    self.name()?;
                    self.colon()?;
                    self.skip()?;
                }
                Ok(())
            }
            b'[' => {
                self.enter()?;
                self.skip_elements(true)
            }
            b'\'' if self.syntax.single_quotes => self.string(b'\'').map(drop),
            _ => self.skip_non_number(),
        }
    }

    /// Steps over the rest of the array it is in.
    pub fn skip_elements(&mut self, mut first: bool) -> Result<(), Fault> {
        while self.next_element(first)? {
            first = false;
            self.skip()?;
        }
        Ok(())
    }

    fn skip_non_number(&mut self) -> Result<(), Fault> {
        match self.non_number() {
            Some(_) => Ok(()),
            None => Err(self.fault("a value was expected")),
        }
    }
}
