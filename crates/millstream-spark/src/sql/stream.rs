//! `STREAM …` and `read_files(…)`: what Spark's `FROM` allows and the SQL parser does not, replaced by plain names before parsing.

use datafusion::sql::sqlparser::ast::Ident;
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};
use millstream_core::Options;

use super::cursor::Cursor;
use super::diagnostic::Diagnostic;
use super::relation::{Relation, RelationSource, START, Watermark, interval, named_source, property_list, read_files, word};
use super::source::SourceFile;

/// Tokens of a query in which every `STREAM …` and `read_files(…)` has become a name, and what the names stand for.
#[derive(Debug)]
pub(super) struct Rewritten {
    pub(super) tokens: Vec<TokenWithSpan>,
    pub(super) relations: Vec<Relation>,
}

/// What the text between two parentheses is.
#[derive(Clone, Copy, Default)]
struct Frame {
    /// A `SELECT` was seen, so that `FROM` begins a clause (and is not a part of `trim(… FROM …)`).
    select: bool,
    /// Inside of the `FROM` clause.
    from: bool,
    /// A relation comes next.
    expected: bool,
}

/// Words that end a `FROM` clause.
const CLAUSES: &[&str] = &[
    "WHERE",
    "GROUP",
    "ORDER",
    "HAVING",
    "LIMIT",
    "OFFSET",
    "WINDOW",
    "QUALIFY",
    "UNION",
    "INTERSECT",
    "EXCEPT",
    "MINUS",
    "CLUSTER",
    "DISTRIBUTE",
    "SORT",
];

/// Words that follow a relation, and therefore are no name after the word `stream` and no alias.
const AFTER_RELATION: &[&str] = &[
    "AS",
    "JOIN",
    "INNER",
    "LEFT",
    "RIGHT",
    "FULL",
    "CROSS",
    "NATURAL",
    "SEMI",
    "ANTI",
    "ON",
    "USING",
    "LATERAL",
    "TABLESAMPLE",
    "PIVOT",
    "UNPIVOT",
    "WITH",
    "WATERMARK",
    "IDENTIFIED",
    "CHANGES",
];

/// Replaces the streaming relations and files of a query. `prefix` makes the new names unique.
pub(super) fn rewrite(file: &SourceFile, tokens: &[TokenWithSpan], prefix: &str) -> Result<Rewritten, Diagnostic> {
    let mut cursor = Cursor::new(file, tokens, START);
    let mut out = Rewritten { tokens: Vec::with_capacity(tokens.len()), relations: Vec::new() };
    let mut frames = vec![Frame::default()];
    let mut before: [Option<&Token>; 2] = [None, None];
    while let Some(token) = cursor.peek() {
        let depth = frames.len();
        let Some(frame) = frames.last_mut() else { return Err(cursor.expected("a query")) };
        if frame.expected {
            if cursor.is("STREAM") && begins_relation(&cursor) {
                frame.expected = false;
                stream(&mut cursor, &mut out, prefix)?;
                before = [None, None];
                continue;
            }
            if cursor.is("read_files") && cursor.peek_nth(1) == Some(&Token::LParen) {
                frame.expected = false;
                let position = cursor.position();
                let Some(at) = cursor.advance() else { continue };
                let source = read_files(&mut cursor)?;
                let placeholder = placeholder(prefix, out.relations.len());
                out.tokens.push(word(&placeholder, Some('`'), at));
                out.relations.push(Relation { placeholder, position, streaming: false, source, options: Options::new(), watermark: None });
                continue;
            }
        }
        match token {
            Token::Word(found) if found.quote_style.is_none() => {
                let is = |text: &str| found.value.eq_ignore_ascii_case(text);
                if is("SELECT") {
                    *frame = Frame { select: true, ..Frame::default() };
                } else if is("FROM") {
                    let comparison = before[1].is_some_and(|token| token_is(token, "DISTINCT"))
                        && before[0].is_some_and(|token| token_is(token, "IS") || token_is(token, "NOT"));
                    if frame.select && !comparison {
                        (frame.from, frame.expected) = (true, true);
                    }
                } else if is("JOIN") {
                    (frame.from, frame.expected) = (true, true);
                } else if CLAUSES.iter().any(|clause| is(clause)) {
                    (frame.from, frame.expected) = (false, false);
                } else if !is("LATERAL") {
                    frame.expected = false;
                }
            }
            Token::Comma => frame.expected = frame.from,
            Token::LParen => {
                let relation = std::mem::take(&mut frame.expected);
                frames.push(Frame { select: false, from: relation, expected: relation });
            }
            Token::RParen => {
                if depth == 1 {
                    return Err(Diagnostic::syntax(cursor.position(), "')' without its '('"));
                }
                frames.pop();
            }
            _ => frame.expected = false,
        }
        before = [before[1], Some(token)];
        out.tokens.extend(cursor.advance().cloned());
    }
    Ok(out)
}

fn token_is(token: &Token, text: &str) -> bool {
    matches!(token, Token::Word(word) if word.quote_style.is_none() && word.value.eq_ignore_ascii_case(text))
}

pub(super) fn placeholder(prefix: &str, index: usize) -> String {
    format!("__{prefix}_{index}")
}

/// Whether the word `STREAM` that comes next is the keyword, and not a table of that name.
fn begins_relation(cursor: &Cursor<'_>) -> bool {
    match cursor.peek_nth(1) {
        Some(Token::LParen) => true,
        Some(Token::Word(word)) => {
            word.quote_style.is_some() || !CLAUSES.iter().chain(AFTER_RELATION).any(|after| after.eq_ignore_ascii_case(&word.value))
        }
        _ => false,
    }
}

fn stream(cursor: &mut Cursor<'_>, out: &mut Rewritten, prefix: &str) -> Result<(), Diagnostic> {
    cursor.expect(&["STREAM"])?;
    let parenthesized = cursor.eat_token(&Token::LParen);
    if cursor.is("STREAM") && matches!(cursor.peek_nth(1), Some(Token::Word(_) | Token::LParen)) {
        return Err(Diagnostic::syntax(cursor.position(), "STREAM inside of STREAM").with_hint("write it once"));
    }
    if cursor.is("SELECT") || cursor.is("WITH") || cursor.is("VALUES") || cursor.peek() == Some(&Token::LParen) {
        return Err(Diagnostic::syntax(cursor.position(), "STREAM takes the name of a table or view, or read_files(…), but not a query")
            .with_hint("write STREAM inside of the query: (SELECT … FROM STREAM t)"));
    }
    let (position, mark) = (cursor.position(), cursor.mark());
    let name = cursor.object_name("the name of a table or view, or read_files(…)")?;
    let Some(at) = cursor.since(mark).first().cloned() else { return Err(cursor.expected("a name")) };
    let source = if cursor.peek() == Some(&Token::LParen) {
        match name.as_slice() {
            [function] if function.value.eq_ignore_ascii_case("read_files") => read_files(cursor)?,
            _ => {
                let name = dotted(&name);
                return Err(Diagnostic::unsupported(position, format!("table function '{name}' cannot be read as a stream"))
                    .with_hint("use read_files(…)"));
            }
        }
    } else {
        named_source(name.clone())
    };
    if parenthesized {
        cursor.expect_token(&Token::RParen)?;
    }
    let mut options = Options::new();
    if cursor.is("WITH") && cursor.peek_nth(1) == Some(&Token::LParen) {
        cursor.advance();
        options = property_list(cursor)?.into_iter().map(|(key, value, _)| (key, value)).collect();
    }
    if cursor.are(&["IDENTIFIED", "BY"]) {
        let message = "IDENTIFIED BY needs spark.sql.streaming.queryEvolution.enableSourceEvolution, which is not supported";
        return Err(Diagnostic::new("STREAMING_QUERY_EVOLUTION_ERROR.SOURCE_NAMING_NOT_SUPPORTED", "42KI1", cursor.position(), message)
            .with_hint("leave the clause out"));
    }
    if cursor.is("CHANGES") {
        return Err(Diagnostic::unsupported(cursor.position(), "CHANGES, the change feed of a table, is not supported"));
    }
    let placeholder = placeholder(prefix, out.relations.len());
    let relation = word(&placeholder, Some('`'), &at);
    let watermark = match watermark(cursor)? {
        None => {
            out.tokens.push(relation);
            None
        }
        Some(clause) => {
            match clause.computed {
                None => out.tokens.push(relation),
                Some(expression) => derived(cursor, out, relation, &source, expression, &clause.watermark.column, &at),
            }
            Some(clause.watermark)
        }
    };
    out.relations.push(Relation { placeholder, position, streaming: true, source, options, watermark });
    Ok(())
}

struct WatermarkClause<'a> {
    watermark: Watermark,
    /// The expression, unless it is a column of the relation.
    computed: Option<&'a [TokenWithSpan]>,
}

fn watermark<'a>(cursor: &mut Cursor<'a>) -> Result<Option<WatermarkClause<'a>>, Diagnostic> {
    let position = cursor.position();
    if !cursor.eat(&["WATERMARK"]) {
        return Ok(None);
    }
    let (start, mark) = (cursor.position(), cursor.mark());
    let mut depth = 0_usize;
    while depth > 0 || !(cursor.is("DELAY") || cursor.is("AS")) {
        match cursor.advance().map(|token| &token.token) {
            Some(Token::LParen) => depth += 1,
            Some(Token::RParen) if depth > 0 => depth -= 1,
            Some(Token::RParen) | None => return Err(cursor.expected("DELAY OF INTERVAL …")),
            _ => {}
        }
    }
    let expression = cursor.since(mark);
    let alias = if cursor.eat(&["AS"]) { Some(cursor.identifier("a name for the event time")?.value) } else { None };
    cursor.expect(&["DELAY", "OF"])?;
    let delay_us = interval(cursor)?;
    let column = match expression.last().map(|token| &token.token) {
        Some(Token::Word(word)) if expression.iter().all(|token| matches!(token.token, Token::Word(_) | Token::Period)) => {
            Some(word.value.clone())
        }
        None => return Err(Diagnostic::syntax(start, "expected the event-time column, found DELAY")),
        _ => None,
    };
    let (column, computed) = match (column, alias) {
        (Some(column), None) => (column, None),
        (_, Some(alias)) => (alias, Some(expression)),
        (None, None) => {
            let message = "the event time of a watermark is an expression and needs a name";
            return Err(Diagnostic::new("REQUIRES_EXPLICIT_NAME_IN_WATERMARK_CLAUSE", "42000", start, message)
                .with_hint("write WATERMARK expression AS name DELAY OF …"));
        }
    };
    Ok(Some(WatermarkClause { watermark: Watermark { column, delay_us, position }, computed }))
}

/// Writes `(SELECT *, expression AS column FROM relation) AS name`.
fn derived(
    cursor: &Cursor<'_>,
    out: &mut Rewritten,
    relation: TokenWithSpan,
    source: &RelationSource,
    expression: &[TokenWithSpan],
    column: &str,
    at: &TokenWithSpan,
) {
    let punctuation = |token: Token| TokenWithSpan { token, span: at.span };
    out.tokens.extend([punctuation(Token::LParen), word("SELECT", None, at), punctuation(Token::Mul), punctuation(Token::Comma)]);
    out.tokens.extend(expression.iter().cloned());
    out.tokens.extend([word("AS", None, at), word(column, Some('`'), at), word("FROM", None, at), relation, punctuation(Token::RParen)]);
    let aliased = cursor.is("AS")
        || matches!(cursor.peek(), Some(Token::Word(next))
            if next.quote_style.is_some() || !CLAUSES.iter().chain(AFTER_RELATION).any(|after| after.eq_ignore_ascii_case(&next.value)));
    if let (false, RelationSource::Table(name)) = (aliased, source)
        && let Some(last) = name.last()
    {
        out.tokens.extend([word("AS", None, at), word(&last.value, Some('`'), at)]);
    }
}

pub(super) fn dotted(parts: &[Ident]) -> String {
    parts.iter().map(|part| part.value.as_str()).collect::<Vec<_>>().join(".")
}
