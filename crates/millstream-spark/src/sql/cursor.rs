//! A reader over tokens.

use datafusion::sql::sqlparser::ast::Ident;
use datafusion::sql::sqlparser::tokenizer::{Location, Token, TokenWithSpan};

use super::diagnostic::{Diagnostic, Position};
use super::parse::SHIFT_RIGHT_UNSIGNED;
use super::source::SourceFile;

/// Reads tokens of one file from left to right.
#[derive(Clone, Debug)]
pub(crate) struct Cursor<'a> {
    file: &'a SourceFile,
    tokens: &'a [TokenWithSpan],
    next: usize,
    /// How many `>` of the next token were read as the ends of inner types.
    angles: usize,
    /// Where the text ends, for faults at the end.
    end: Location,
}

impl<'a> Cursor<'a> {
    /// A cursor before the first token. `end` is where the text ends when there is no token to say it.
    pub(crate) fn new(file: &'a SourceFile, tokens: &'a [TokenWithSpan], end: Location) -> Self {
        let end = tokens.last().map_or(end, |token| token.span.end);
        Cursor { file, tokens, next: 0, angles: 0, end }
    }

    /// The token `n` after the next one.
    pub(crate) fn peek_nth(&self, n: usize) -> Option<&'a Token> {
        self.tokens.get(self.next + n).map(|token| &token.token)
    }

    /// The next token.
    pub(crate) fn peek(&self) -> Option<&'a Token> {
        self.peek_nth(0)
    }

    /// Whether everything is read.
    pub(crate) fn at_end(&self) -> bool {
        self.next >= self.tokens.len()
    }

    /// The number of tokens read, to be given to [`Cursor::reset`].
    pub(crate) fn mark(&self) -> usize {
        self.next
    }

    /// Goes back, or forward, to a mark.
    pub(crate) fn reset(&mut self, mark: usize) {
        self.next = mark.min(self.tokens.len());
    }

    /// The tokens not read yet; the cursor goes to the end.
    pub(crate) fn rest(&mut self) -> &'a [TokenWithSpan] {
        let rest = self.tokens.get(self.next..).unwrap_or_default();
        self.next = self.tokens.len();
        rest
    }

    /// Where the next token is, or the end of the text.
    pub(crate) fn location(&self) -> Location {
        self.tokens.get(self.next).map_or(self.end, |token| token.span.start)
    }

    /// [`Cursor::location`] with the file.
    pub(crate) fn position(&self) -> Position {
        self.file.position(self.location())
    }

    /// Reads the next token.
    pub(crate) fn advance(&mut self) -> Option<&'a TokenWithSpan> {
        let token = self.tokens.get(self.next)?;
        self.next += 1;
        Some(token)
    }

    /// Whether the token `n` after the next one is this word, unquoted, in any case.
    pub(crate) fn nth_is(&self, n: usize, word: &str) -> bool {
        matches!(self.peek_nth(n), Some(Token::Word(found)) if found.quote_style.is_none() && found.value.eq_ignore_ascii_case(word))
    }

    /// Whether the next token is this word.
    pub(crate) fn is(&self, word: &str) -> bool {
        self.nth_is(0, word)
    }

    /// Whether the next tokens are these words.
    pub(crate) fn are(&self, words: &[&str]) -> bool {
        words.iter().enumerate().all(|(n, word)| self.nth_is(n, word))
    }

    /// Reads these words if they come next.
    pub(crate) fn eat(&mut self, words: &[&str]) -> bool {
        let found = self.are(words);
        if found {
            self.next += words.len();
        }
        found
    }

    /// Reads a punctuation token if it comes next.
    pub(crate) fn eat_token(&mut self, token: &Token) -> bool {
        let found = self.peek() == Some(token);
        if found {
            self.next += 1;
        }
        found
    }

    /// Reads these words.
    pub(crate) fn expect(&mut self, words: &[&str]) -> Result<(), Diagnostic> {
        for word in words {
            if !self.eat(&[word]) {
                return Err(self.expected(word));
            }
        }
        Ok(())
    }

    /// Reads a punctuation token.
    pub(crate) fn expect_token(&mut self, token: &Token) -> Result<(), Diagnostic> {
        if self.eat_token(token) { Ok(()) } else { Err(self.expected(&format!("'{token}'"))) }
    }

    /// Reads a `>`, also as a part of `>>` or `>>>`.
    pub(crate) fn expect_closing_angle(&mut self) -> Result<(), Diagnostic> {
        let width = match self.peek() {
            Some(Token::Gt) => 1,
            Some(Token::ShiftRight) => 2,
            Some(Token::CustomBinaryOperator(text)) if text == SHIFT_RIGHT_UNSIGNED => 3,
            _ => return Err(self.expected("'>'")),
        };
        self.angles += 1;
        if self.angles == width {
            (self.next, self.angles) = (self.next + 1, 0);
        }
        Ok(())
    }

    /// Reads a name, quoted or not.
    pub(crate) fn identifier(&mut self, what: &str) -> Result<Ident, Diagnostic> {
        match self.tokens.get(self.next) {
            Some(TokenWithSpan { token: Token::Word(word), span }) => {
                self.next += 1;
                Ok(Ident { value: word.value.clone(), quote_style: word.quote_style, span: *span })
            }
            _ => Err(self.expected(what)),
        }
    }

    /// Reads names joined by dots.
    pub(crate) fn object_name(&mut self, what: &str) -> Result<Vec<Ident>, Diagnostic> {
        let mut parts = vec![self.identifier(what)?];
        while self.eat_token(&Token::Period) {
            parts.push(self.identifier("a name after '.'")?);
        }
        Ok(parts)
    }

    /// Reads a string; strings side by side are one.
    pub(crate) fn string(&mut self, what: &str) -> Result<String, Diagnostic> {
        let mut whole: Option<String> = None;
        while let Some(Token::SingleQuotedString(text) | Token::DoubleQuotedString(text)) = self.peek() {
            whole.get_or_insert_default().push_str(text);
            self.next += 1;
        }
        whole.ok_or_else(|| self.expected(what))
    }

    /// Reads a whole number.
    pub(crate) fn integer(&mut self, what: &str) -> Result<u64, Diagnostic> {
        if let Some(Token::Number(digits, _)) = self.peek()
            && let Ok(number) = digits.parse()
        {
            self.next += 1;
            return Ok(number);
        }
        Err(self.expected(what))
    }

    /// Reads `( … )` with whatever is inside, and gives what is inside.
    pub(crate) fn parenthesized(&mut self) -> Result<&'a [TokenWithSpan], Diagnostic> {
        let opening = self.position();
        self.expect_token(&Token::LParen)?;
        let start = self.next;
        let mut depth = 1_usize;
        while let Some(token) = self.advance() {
            match token.token {
                Token::LParen => depth += 1,
                Token::RParen => depth -= 1,
                _ => {}
            }
            if depth == 0 {
                return Ok(self.tokens.get(start..self.next - 1).unwrap_or_default());
            }
        }
        Err(Diagnostic::syntax(opening, "'(' without its ')'"))
    }

    /// The fault that the next token is not `what`.
    pub(crate) fn expected(&self, what: &str) -> Diagnostic {
        Diagnostic::syntax(self.position(), format!("expected {what}, found {}", self.found()))
    }

    /// The next token for a message.
    pub(crate) fn found(&self) -> String {
        match self.peek() {
            Some(Token::Word(word)) => word.to_string(),
            Some(Token::SingleQuotedString(text) | Token::DoubleQuotedString(text)) => format!("the string '{text}'"),
            Some(token) => format!("'{token}'"),
            None => "the end of the statement".to_owned(),
        }
    }
}
