//! A record of text to values, by the rules of the parser that Spark uses: how quotes end, what escapes mean, and what is made of quotes in
//! the wrong places. A near copy of what the file source has, which is tried against Spark with thousands of random records.
//!
//! A quote means something only where a value begins. In a quoted value the escape character makes the quote after it, or another escape, a
//! part of the value; a quote ends the value if a separator, the end of the record, or only blanks before them follow.

/// What to make of a quote in a quoted value that is neither escaped nor its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum UnescapedQuotes {
    /// The value was not quoted after all: it is everything up to the next separator, quotes included.
    StopAtDelimiter,
    /// The quote belongs to the value, which goes on to its closing quote.
    StopAtClosingQuote,
    /// What came before falls into values at its separators; the quotes are lost.
    BackToDelimiter,
    /// The value is null.
    SkipValue,
    /// The record cannot be read.
    RaiseError,
}

/// How records are written.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Dialect {
    /// What separates values: at least one byte.
    pub(super) separator: Vec<u8>,
    /// The byte around values.
    pub(super) quote: Option<u8>,
    /// The byte before a quote inside of a quoted value; it may be the quote itself.
    pub(super) escape: Option<u8>,
    /// The byte before an escape inside of a quoted value.
    pub(super) escape_escape: Option<u8>,
    /// Blanks before values are left out.
    pub(super) trim_leading: bool,
    /// Blanks after values that are not quoted are left out.
    pub(super) trim_trailing: bool,
    /// What to make of quotes in the wrong places.
    pub(super) unescaped: UnescapedQuotes,
    /// The most values of a record.
    pub(super) max_columns: usize,
    /// The most bytes of a value.
    pub(super) max_bytes: Option<usize>,
}

/// A value of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Token {
    /// Nothing between two separators.
    Null,
    /// Nothing between two quotes.
    Empty,
    /// A part of the record.
    Verbatim(u32, u32),
    /// A part of the scratch text.
    Unescaped(u32, u32),
}

/// The text of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Text<'a> {
    /// Nothing between two separators, or no value at all.
    Null,
    /// Nothing between two quotes.
    Empty,
    /// A text.
    Some(&'a [u8]),
}

/// The values of a record.
#[derive(Debug, Default)]
pub(super) struct Tokens {
    tokens: Vec<Token>,
    scratch: Vec<u8>,
}

impl Tokens {
    /// How many values there are.
    #[inline]
    pub(super) fn len(&self) -> usize {
        self.tokens.len()
    }

    /// The text of a value of `record`, which the tokens were made from.
    #[inline]
    pub(super) fn text<'a>(&'a self, index: usize, record: &'a [u8]) -> Text<'a> {
        match self.tokens.get(index) {
            Some(Token::Verbatim(start, end)) => Text::Some(record.get(*start as usize..*end as usize).unwrap_or_default()),
            Some(Token::Unescaped(start, end)) => Text::Some(self.scratch.get(*start as usize..*end as usize).unwrap_or_default()),
            Some(Token::Empty) => Text::Empty,
            Some(Token::Null) | None => Text::Null,
        }
    }

    fn verbatim(&mut self, start: usize, end: usize) {
        self.tokens.push(if start == end { Token::Null } else { Token::Verbatim(offset(start), offset(end)) });
    }

    fn unescaped(&mut self, start: usize) {
        let end = self.scratch.len();
        self.tokens.push(if start == end { Token::Empty } else { Token::Unescaped(offset(start), offset(end)) });
    }
}

/// Records are at most 1 GiB.
#[inline]
fn offset(at: usize) -> u32 {
    at as u32
}

/// Why a record cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unreadable {
    /// It has more values than `maxColumns`.
    TooManyColumns,
    /// A value has more bytes than `maxCharsPerColumn`.
    ValueTooLong,
    /// It has a quote in the wrong place and `unescapedQuoteHandling` is `RAISE_ERROR`.
    UnescapedQuote,
}

impl Dialect {
    /// Splits a record into values.
    ///
    /// # Errors
    /// [`Unreadable`]; the tokens are then good for nothing.
    #[inline]
    pub(super) fn split(&self, record: &[u8], tokens: &mut Tokens) -> Result<(), Unreadable> {
        tokens.tokens.clear();
        tokens.scratch.clear();
        let plain = !self.trim_leading && !self.trim_trailing && self.quote.is_none_or(|quote| find(quote, record).is_none());
        match self.separator.as_slice() {
            [separator] if plain => {
                let mut start = 0;
                for value in record.split(|byte| byte == separator) {
                    tokens.verbatim(start, start + value.len());
                    start += value.len() + 1;
                }
            }
            _ => self.split_quoted(record, tokens)?,
        }
        self.check(tokens)
    }

    #[inline]
    fn check(&self, tokens: &Tokens) -> Result<(), Unreadable> {
        if tokens.len() > self.max_columns {
            return Err(Unreadable::TooManyColumns);
        }
        match self.max_bytes {
            Some(most) if tokens.tokens.iter().any(|token| token.len() > most) => Err(Unreadable::ValueTooLong),
            _ => Ok(()),
        }
    }

    fn split_quoted(&self, record: &[u8], tokens: &mut Tokens) -> Result<(), Unreadable> {
        let mut at = 0;
        // Blanks in the last value are an empty text where they are not skipped at once, or once a quoted value ended in an odd way;
        // elsewhere they are null.
        let mut blanks_are_empty = !self.trim_leading;
        loop {
            let from = at;
            while self.trim_leading && at < record.len() && self.is_blank(record, at) && record.get(at).copied() != self.quote {
                at += 1;
            }
            if at == record.len() {
                tokens.tokens.push(if at > from && blanks_are_empty { Token::Empty } else { Token::Null });
                return Ok(());
            }
            if self.quote.is_some() && record.get(at).copied() == self.quote {
                let odd;
                (at, odd) = self.quoted(record, at, tokens)?;
                blanks_are_empty |= odd;
            } else {
                let end = self.find_separator(record, at);
                let trimmed = self.trimmed(record, at, end);
                if trimmed == at && end > at && end == record.len() && blanks_are_empty {
                    tokens.tokens.push(Token::Empty)
                } else {
                    tokens.verbatim(at, trimmed)
                }
                at = end;
            }
            if at == record.len() {
                return Ok(());
            }
            at += self.separator.len();
        }
    }

    /// Reads the quoted value at `start` and returns where it ends, at a separator or the end of the record, and whether it ended otherwise
    /// than by its quote.
    fn quoted(&self, record: &[u8], start: usize, tokens: &mut Tokens) -> Result<(usize, bool), Unreadable> {
        let quote = self.quote.unwrap_or(b'"');
        let content = start + 1;
        if let Some(end) = self.simple_end(record, content) {
            tokens.tokens.push(if end == content { Token::Empty } else { Token::Verbatim(offset(content), offset(end)) });
            return Ok((end + 1, false));
        }
        let mut text = tokens.scratch.len();
        let (mut at, mut odd) = (content, false);
        while let Some(byte) = record.get(at).copied() {
            let next = record.get(at + 1).copied();
            if byte == quote && self.escape == Some(quote) && next == Some(quote) {
                tokens.scratch.push(quote);
                at += 2;
            } else if byte == quote {
                let after = at + 1;
                if after == record.len() || self.is_separator(record, after) {
                    tokens.unescaped(text);
                    return Ok((after, odd));
                }
                odd = true;
                if next == Some(quote) {
                    tokens.scratch.push(quote);
                    at = after;
                    continue;
                }
                if self.escape.is_some() && next == self.escape && self.unescaped != UnescapedQuotes::SkipValue {
                    tokens.scratch.push(quote);
                    at = self.after_quote_and_escape(record, after, &mut tokens.scratch);
                    if at == record.len() {
                        break;
                    }
                    at += self.separator.len();
                    continue;
                }
                let mut blanks = after;
                while blanks < record.len() && self.is_blank(record, blanks) {
                    blanks += 1;
                }
                if blanks > after && (blanks == record.len() || self.is_separator(record, blanks)) {
                    tokens.unescaped(text);
                    return Ok((blanks, true));
                }
                match self.unescaped {
                    UnescapedQuotes::BackToDelimiter if blanks == after => {
                        text = self.values_before(text, tokens);
                        at = after;
                    }
                    UnescapedQuotes::StopAtDelimiter | UnescapedQuotes::BackToDelimiter => {
                        let end = self.find_separator(record, after);
                        let rest = record.get(after..self.trimmed(record, after, end)).unwrap_or_default();
                        tokens.scratch.insert(text, quote);
                        tokens.scratch.push(quote);
                        tokens.scratch.extend_from_slice(rest);
                        tokens.unescaped(text);
                        return Ok((end, true));
                    }
                    UnescapedQuotes::StopAtClosingQuote => {
                        tokens.scratch.push(quote);
                        tokens.scratch.extend_from_slice(record.get(after..blanks).unwrap_or_default());
                        at = blanks;
                    }
                    UnescapedQuotes::SkipValue => {
                        tokens.tokens.push(Token::Null);
                        return Ok((self.find_separator(record, after), true));
                    }
                    UnescapedQuotes::RaiseError => return Err(Unreadable::UnescapedQuote),
                }
            } else if self.escape_escape == Some(byte) && next.is_some() && next == self.escape {
                tokens.scratch.extend(next);
                at += 2;
            } else if self.escape == Some(byte) || self.escape_escape == Some(byte) && next.is_none() {
                match next {
                    // An escape at the end of a value that is not closed escapes nothing and is lost.
                    None => at += 1,
                    Some(next) if next == quote => {
                        tokens.scratch.push(quote);
                        at += 2;
                    }
                    Some(_) => {
                        tokens.scratch.push(byte);
                        at += 1;
                    }
                }
            } else {
                let rest = record.get(at..).unwrap_or_default();
                let end = 1 + self.next_special(rest.get(1..).unwrap_or_default());
                tokens.scratch.extend_from_slice(rest.get(..end).unwrap_or_default());
                at += end;
            }
        }
        // The record ended before the value did.
        if record.len() == content {
            tokens.scratch.push(quote);
        }
        tokens.unescaped(text);
        Ok((record.len(), true))
    }

    /// Where the quoted value at `content` closes, if there is no escape in it and a separator or the record's end right behind its quote.
    #[inline]
    fn simple_end(&self, record: &[u8], content: usize) -> Option<usize> {
        let quote = self.quote?;
        let rest = record.get(content..)?;
        let end = match self.escape {
            Some(escape) if escape != quote => rest.iter().position(|byte| *byte == quote || *byte == escape),
            _ => find(quote, rest),
        }?;
        let at = content + end;
        if record.get(at) != Some(&quote)
            || self.escape_escape.is_some_and(|byte| find(byte, rest.get(..end).unwrap_or_default()).is_some())
        {
            return None;
        }
        (at + 1 == record.len() || self.is_separator(record, at + 1)).then_some(at)
    }

    fn next_special(&self, rest: &[u8]) -> usize {
        let special = |byte: u8| Some(byte) == self.quote || Some(byte) == self.escape || Some(byte) == self.escape_escape;
        rest.iter().position(|byte| special(*byte)).unwrap_or(rest.len())
    }

    /// A closing quote with an escape behind it: quotes and escapes are read by rules of their own up to the next separator, which Spark
    /// swallows before the quoted value goes on. Returns where that separator is, or the record's end.
    fn after_quote_and_escape(&self, record: &[u8], mut at: usize, text: &mut Vec<u8>) -> usize {
        let mut before = self.escape;
        while let Some(byte) = record.get(at).copied() {
            if self.is_separator(record, at) {
                break;
            }
            let mut seen = Some(byte);
            if Some(byte) != self.quote && Some(byte) != self.escape {
                if before.is_some() && before == self.quote {
                    text.extend(self.quote);
                    before = seen;
                    continue;
                }
                text.push(byte);
            } else if Some(byte) == self.escape && before.is_some() && before == self.escape_escape {
                text.push(byte);
                seen = None;
            } else if before.is_some() && before == self.escape {
                text.push(byte);
                if Some(byte) == self.quote {
                    seen = None;
                }
            } else if before.is_some() && before == self.quote {
                text.extend(self.quote);
                if Some(byte) != self.quote {
                    before = seen;
                    continue;
                }
            }
            before = seen;
            at += 1;
        }
        at
    }

    /// Makes values of the scratch text from `start` up to its last separator and returns where the rest begins.
    fn values_before(&self, start: usize, tokens: &mut Tokens) -> usize {
        let mut from = start;
        while let Some(found) = find_all(tokens.scratch.get(from..).unwrap_or_default(), &self.separator) {
            tokens.tokens.push(Token::Unescaped(offset(from), offset(from + found)));
            from += found + self.separator.len();
        }
        from
    }

    #[inline]
    fn is_separator(&self, record: &[u8], at: usize) -> bool {
        record.get(at..).is_some_and(|rest| rest.starts_with(&self.separator))
    }

    #[inline]
    fn is_blank(&self, record: &[u8], at: usize) -> bool {
        record.get(at).is_some_and(|byte| *byte <= b' ') && !self.is_separator(record, at)
    }

    /// Where the next separator begins, or the record's end.
    #[inline]
    fn find_separator(&self, record: &[u8], at: usize) -> usize {
        let rest = record.get(at..).unwrap_or_default();
        let found = match self.separator.as_slice() {
            [separator] => find(*separator, rest),
            separator => find_all(rest, separator),
        };
        at + found.unwrap_or(rest.len())
    }

    /// The end of the value without blanks behind it, if they are to be left out.
    fn trimmed(&self, record: &[u8], start: usize, end: usize) -> usize {
        if !self.trim_trailing {
            return end;
        }
        let value = record.get(start..end).unwrap_or_default();
        start + value.iter().rposition(|byte| *byte > b' ').map_or(0, |last| last + 1)
    }
}

impl Token {
    fn len(self) -> usize {
        match self {
            Token::Null | Token::Empty => 0,
            Token::Verbatim(start, end) | Token::Unescaped(start, end) => (end - start) as usize,
        }
    }
}

/// Where a byte is first.
fn find(byte: u8, within: &[u8]) -> Option<usize> {
    within.iter().position(|found| *found == byte)
}

/// Where some bytes are first.
fn find_all(within: &[u8], sought: &[u8]) -> Option<usize> {
    within.windows(sought.len()).position(|found| found == sought)
}
