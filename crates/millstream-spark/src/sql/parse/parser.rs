//! What all parts of the grammar share: where the reader is, how deep it is, and what the names in reach stand for.

use std::collections::HashMap;
use std::ops::Range;

use datafusion::sql::sqlparser::tokenizer::Token;
use spark_connect_proto::{Expression, Relation, RelationCommon};

use super::expression::NamedWindow;
use super::{Arguments, lexer};
use crate::sql::relation::LEAF;
use crate::sql::{Cursor, Diagnostic, Fragment, Position, RelationSource, SourceFile};

/// How deep the text may be nested: brackets, functions in functions, queries in queries.
const MAX_DEPTH: usize = 200;

/// How deep an expression or a query may become, long chains of one operator included. Everything that walks over plans later recurses as
/// deep.
const MAX_HEIGHT: usize = 300;

/// Reads one text.
pub(super) struct Parser<'a> {
    pub(super) cursor: Cursor<'a>,
    text: &'a str,
    ranges: &'a [Range<usize>],
    pub(super) arguments: &'a Arguments<'a>,
    /// How many `?` were read.
    pub(super) positional: usize,
    /// The windows that the `WINDOW` clause of the query being read names.
    pub(super) windows: Vec<NamedWindow>,
    /// The parameters of the lambda functions around, the innermost last.
    pub(super) lambdas: Vec<Vec<String>>,
    /// How many columns the select list read last has, if that can be seen.
    pub(super) select_width: Option<usize>,
    /// The subqueries of the query being read.
    pub(super) subqueries: Vec<Relation>,
    plan_ids: PlanIds,
    depth: usize,
    height: usize,
    /// Whether only what open Spark has is taken: without the functions that others added to SQL.
    pub(super) open_spark: bool,
    /// Where the text names what it reads, for a text of which that is asked.
    pub(super) places: Option<Vec<Place>>,
    /// The first thing that is wrong with the meaning of a text whose grammar is right.
    deferred: Option<Diagnostic>,
}

/// A place where a text names something to read.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    pub(crate) position: Position,
    pub(crate) source: RelationSource,
}

/// Ids for subqueries. They are negative, where clients' ids are not, and differ between texts.
#[derive(Debug)]
struct PlanIds {
    base: i64,
    next: i64,
}

impl PlanIds {
    fn new(text: &str) -> Self {
        let hash = text.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3));
        PlanIds { base: i64::try_from(hash >> 34).unwrap_or_default() << 24, next: 0 }
    }

    fn take(&mut self) -> i64 {
        self.next += 1;
        -(self.base + self.next)
    }
}

/// Reads all of a text with one rule of the grammar.
pub(super) fn parse<T>(
    text: &str,
    arguments: &Arguments<'_>,
    read: impl FnOnce(&mut Parser<'_>) -> Result<T, Diagnostic>,
) -> Result<T, Diagnostic> {
    match parse_with_fault(text, arguments, read)? {
        (_, Some(fault)) => Err(fault),
        (parsed, None) => Ok(parsed),
    }
}

/// Reads all of a text with one rule of the grammar. What is wrong with the meaning of a text whose grammar is right comes beside it.
pub(super) fn parse_with_fault<T>(
    text: &str,
    arguments: &Arguments<'_>,
    read: impl FnOnce(&mut Parser<'_>) -> Result<T, Diagnostic>,
) -> Result<(T, Option<Diagnostic>), Diagnostic> {
    let file = SourceFile::new("sql", text);
    let lexed = lexer::lex(&file, text)?;
    let cursor = Cursor::new(&file, &lexed.tokens, lexed.end);
    Parser::new(cursor, text, &lexed.ranges, arguments).read_all(read)
}

/// Reads all of a fragment with one rule of the grammar. Faults are told at their places in the file.
pub(super) fn parse_fragment<T>(
    fragment: &Fragment,
    arguments: &Arguments<'_>,
    read: impl FnOnce(&mut Parser<'_>) -> Result<T, Diagnostic>,
) -> Result<T, Diagnostic> {
    match Parser::new(fragment.cursor(), fragment.whole_text(), fragment.ranges(), arguments).read_all(read)? {
        (_, Some(fault)) => Err(fault),
        (parsed, None) => Ok(parsed),
    }
}

impl<'a> Parser<'a> {
    fn new(cursor: Cursor<'a>, text: &'a str, ranges: &'a [Range<usize>], arguments: &'a Arguments<'a>) -> Self {
        Parser {
            cursor,
            text,
            ranges,
            arguments,
            positional: 0,
            windows: Vec::new(),
            select_width: None,
            lambdas: Vec::new(),
            subqueries: Vec::new(),
            plan_ids: PlanIds::new(text),
            depth: 0,
            height: 0,
            open_spark: false,
            places: None,
            deferred: None,
        }
    }

    fn read_all<T>(mut self, read: impl FnOnce(&mut Self) -> Result<T, Diagnostic>) -> Result<(T, Option<Diagnostic>), Diagnostic> {
        let parsed = read(&mut self)?;
        if !self.cursor.at_end() {
            return Err(self.cursor.expected("the end of the text"));
        }
        Ok((parsed, self.deferred))
    }

    /// Notes that something is read here. Gives the options by which the leaf of the plan is known.
    pub(super) fn read_at(&mut self, position: Position, source: &RelationSource) -> HashMap<String, String> {
        let Some(places) = &mut self.places else { return HashMap::new() };
        places.push(Place { position, source: source.clone() });
        HashMap::from([(LEAF.to_owned(), (places.len() - 1).to_string())])
    }

    /// Reads a part that is one level deeper, and counts it.
    pub(super) fn nested<T>(&mut self, read: impl FnOnce(&mut Self) -> Result<T, Diagnostic>) -> Result<T, Diagnostic> {
        if self.depth >= MAX_DEPTH {
            return Err(self.too_complex());
        }
        let outer = std::mem::take(&mut self.height);
        self.depth += 1;
        let read = stacker::maybe_grow(128 * 1024, 2 * 1024 * 1024, || read(self));
        self.depth -= 1;
        self.height = outer.max(self.height + 1);
        if self.height > MAX_HEIGHT { Err(self.too_complex()) } else { read }
    }

    /// Counts levels that are put on top of what was read at this depth, such as the next operator of a chain.
    pub(super) fn grow(&mut self, levels: usize) -> Result<(), Diagnostic> {
        self.height += levels;
        if self.height > MAX_HEIGHT { Err(self.too_complex()) } else { Ok(()) }
    }

    /// Whether a chain is about to become too deep.
    pub(super) fn is_high(&self) -> bool {
        self.height >= MAX_HEIGHT / 2
    }

    fn too_complex(&self) -> Diagnostic {
        Diagnostic::new(
            "FAILED_TO_PARSE_TOO_COMPLEX",
            "54001",
            self.cursor.position(),
            format!("the text is nested more than {MAX_DEPTH} deep, or a chain of operators more than {MAX_HEIGHT}"),
        )
        .with_hint("split it: common table expressions, or columns computed before")
    }

    /// Notes a fault that a text has only if its grammar is right. The first one counts.
    pub(super) fn defer(&mut self, fault: Diagnostic) {
        self.deferred.get_or_insert(fault);
    }

    /// Defers a fault and goes on with something in its place.
    pub(super) fn or_defer(&mut self, outcome: Result<Expression, Diagnostic>) -> Expression {
        outcome.unwrap_or_else(|fault| {
            self.defer(fault);
            super::proto::null()
        })
    }

    /// The text from a mark of the cursor up to here.
    pub(super) fn text_since(&self, mark: usize) -> &'a str {
        let start = self.ranges.get(mark).map(|range| range.start);
        let end = self.cursor.mark().checked_sub(1).and_then(|last| self.ranges.get(last)).map(|range| range.end);
        match (start, end) {
            (Some(start), Some(end)) if start < end => self.text.get(start..end).unwrap_or_default(),
            _ => "",
        }
    }

    /// The text from the next token on.
    pub(super) fn text_ahead(&self) -> &'a str {
        self.ranges.get(self.cursor.mark()).and_then(|range| self.text.get(range.start..)).unwrap_or_default()
    }

    /// Whether the next token begins right where the last one ended.
    pub(super) fn is_adjacent(&self) -> bool {
        let next = self.cursor.mark();
        let before = next.checked_sub(1).and_then(|last| self.ranges.get(last));
        matches!((before, self.ranges.get(next)), (Some(before), Some(next)) if before.end == next.start)
    }

    pub(super) fn position(&self) -> Position {
        self.cursor.position()
    }

    /// Reads one of these words.
    pub(super) fn eat_any(&mut self, words: &[&str]) -> bool {
        words.iter().any(|word| self.cursor.eat(&[word]))
    }

    pub(super) fn is_any(&self, words: &[&str]) -> bool {
        self.nth_is_any(0, words)
    }

    pub(super) fn nth_is_any(&self, n: usize, words: &[&str]) -> bool {
        words.iter().any(|word| self.cursor.nth_is(n, word))
    }

    pub(super) fn is_token(&self, token: &Token) -> bool {
        self.cursor.peek() == Some(token)
    }

    pub(super) fn nth_is_token(&self, n: usize, token: &Token) -> bool {
        self.cursor.peek_nth(n) == Some(token)
    }

    pub(super) fn nth_is_word(&self, n: usize) -> bool {
        matches!(self.cursor.peek_nth(n), Some(Token::Word(_)))
    }

    pub(super) fn nth_is_string(&self, n: usize) -> bool {
        matches!(self.cursor.peek_nth(n), Some(Token::SingleQuotedString(_) | Token::DoubleQuotedString(_)))
    }

    /// The next word without quotes, in upper case.
    pub(super) fn keyword(&self) -> Option<String> {
        match self.cursor.peek() {
            Some(Token::Word(word)) if word.quote_style.is_none() => Some(word.value.to_ascii_uppercase()),
            _ => None,
        }
    }

    /// Reads one name.
    pub(super) fn name(&mut self, what: &str) -> Result<String, Diagnostic> {
        if self.cursor.is("IDENTIFIER") && self.nth_is_token(1, &Token::LParen) {
            let position = self.position();
            let mut parts = self.identifier_clause()?;
            if parts.len() == 1
                && let Some(part) = parts.pop()
            {
                return Ok(part);
            }
            return Err(Diagnostic::syntax(position, "IDENTIFIER gives more than one name here"));
        }
        let name = self.cursor.identifier(what)?.value;
        self.no_hyphen(&name)?;
        Ok(name)
    }

    /// Refuses `a-b` where a name stands.
    fn no_hyphen(&self, name: &str) -> Result<(), Diagnostic> {
        if self.is_token(&Token::Minus) && self.is_adjacent() && self.nth_is_word(1) {
            let message = format!("the unquoted name '{name}-…' has a hyphen");
            return Err(Diagnostic::new("INVALID_IDENTIFIER", "42602", self.position(), message).with_hint("write it in backticks"));
        }
        Ok(())
    }

    /// Reads names joined by dots, or `IDENTIFIER('…')`.
    pub(super) fn names(&mut self, what: &str) -> Result<Vec<String>, Diagnostic> {
        if self.cursor.is("IDENTIFIER") && self.nth_is_token(1, &Token::LParen) {
            return self.identifier_clause();
        }
        let mut parts = vec![self.cursor.identifier(what)?.value];
        while self.cursor.eat_token(&Token::Period) {
            parts.push(self.cursor.identifier("a name after '.'")?.value);
        }
        self.no_hyphen(parts.last().map_or("", String::as_str))?;
        Ok(parts)
    }

    /// Reads `(a, b, c)`.
    pub(super) fn name_list(&mut self, what: &str) -> Result<Vec<String>, Diagnostic> {
        self.parenthesized_list(|parser| parser.name(what))
    }

    /// Reads what is between brackets, separated by commas.
    pub(super) fn parenthesized_list<T>(&mut self, read: impl FnMut(&mut Self) -> Result<T, Diagnostic>) -> Result<Vec<T>, Diagnostic> {
        self.cursor.expect_token(&Token::LParen)?;
        let list = self.comma_separated(read)?;
        self.cursor.expect_token(&Token::RParen)?;
        Ok(list)
    }

    pub(super) fn comma_separated<T>(&mut self, mut read: impl FnMut(&mut Self) -> Result<T, Diagnostic>) -> Result<Vec<T>, Diagnostic> {
        let mut list = vec![read(self)?];
        while self.cursor.eat_token(&Token::Comma) {
            list.push(read(self)?);
        }
        Ok(list)
    }

    /// The token after the bracket that closes the one at `n`, counted from the next token.
    pub(super) fn after_closing(&self, n: usize) -> Option<&'a Token> {
        let mut depth = 0_usize;
        for at in n.. {
            match self.cursor.peek_nth(at)? {
                Token::LParen => depth += 1,
                Token::RParen => {
                    depth = depth.saturating_sub(1);
                    if depth == 0 {
                        return self.cursor.peek_nth(at + 1);
                    }
                }
                _ => {}
            }
        }
        None
    }

    /// Keeps a subquery; the id under which an expression refers to it.
    pub(super) fn keep_subquery(&mut self, mut query: Relation) -> i64 {
        let plan_id = self.plan_ids.take();
        query.common.get_or_insert_with(RelationCommon::default).plan_id = Some(plan_id);
        self.subqueries.push(query);
        plan_id
    }

    /// The tokens between here and a mark, for looking ahead.
    pub(super) fn tokens_from(&self, n: usize) -> impl Iterator<Item = &'a Token> + use<'a, '_> {
        (n..).map_while(|at| self.cursor.peek_nth(at))
    }

    /// Goes back or forward to a mark.
    pub(super) fn reset(&mut self, mark: usize) {
        self.cursor.reset(mark);
    }
}
