//! Expressions with a grammar of their own: `CASE`, `CAST`, `EXTRACT`, `TRIM`, typed literals and their like.

use datafusion::sql::sqlparser::tokenizer::Token;
use spark_connect_proto::expression::cast::EvalMode;
use spark_connect_proto::expression::literal::{LiteralType, Time};
use spark_connect_proto::{Expression, data_type};

use super::COMPARISON;
use crate::functions::datetime::parse::parse_time;
use crate::sql::Diagnostic;
use crate::sql::parse::parser::Parser;
use crate::sql::parse::proto::{boolean, call, cast, integer, literal, null, string, typed_literal};
use crate::sql::parse::temporal;

/// The units that `timestampadd` and its like take without quotes.
const DATETIME_UNITS: &[&str] =
    &["YEAR", "QUARTER", "MONTH", "WEEK", "DAY", "DAYOFYEAR", "HOUR", "MINUTE", "SECOND", "MILLISECOND", "MICROSECOND"];

/// Types whose parameters are types.
const NESTED_TYPES: &[&str] = &["ARRAY", "MAP", "STRUCT"];

impl Parser<'_> {
    /// An expression that begins with `word (`, if the word has a grammar of its own.
    pub(super) fn special(&mut self, word: &str) -> Result<Option<Expression>, Diagnostic> {
        Ok(Some(match word {
            "CAST" | "TRY_CAST" => self.cast(word == "TRY_CAST")?,
            "STRUCT" => {
                self.cursor.advance();
                call("struct", self.arguments_of(Parser::named_expression)?)
            }
            "EXTRACT" => self.extract()?,
            "POSITION" if self.has_at_depth_one("IN") => self.position_in()?,
            "SUBSTRING" | "SUBSTR" if self.has_at_depth_one("FROM") => self.substring_from()?,
            "TRIM" if self.has_at_depth_one("FROM") => self.trim_from()?,
            "OVERLAY" if self.has_at_depth_one("PLACING") => self.overlay_placing()?,
            "FIRST" | "LAST" | "ANY_VALUE" if self.has_at_depth_one("IGNORE") => self.ignoring_nulls(word)?,
            "TIMESTAMPADD" | "DATEADD" | "DATE_ADD" | "TIMESTAMPDIFF" | "DATEDIFF" | "DATE_DIFF" | "TIMEDIFF" => {
                match self.datetime_arithmetic(word)? {
                    Some(expression) => expression,
                    None => return Ok(None),
                }
            }
            _ => return Ok(None),
        }))
    }

    /// Whether a word is directly inside of the brackets that come after the next token.
    fn has_at_depth_one(&self, word: &str) -> bool {
        let mut depth = 0_usize;
        for (n, token) in self.tokens_from(1).enumerate() {
            match token {
                Token::LParen => depth += 1,
                Token::RParen if depth <= 1 => return false,
                Token::RParen => depth -= 1,
                Token::Word(_) if depth == 1 && n > 0 && self.cursor.nth_is(n + 1, word) => return true,
                _ => {}
            }
        }
        false
    }

    fn operand(&mut self) -> Result<Expression, Diagnostic> {
        self.nested(|parser| parser.value(COMPARISON))
    }

    pub(super) fn case(&mut self) -> Result<Expression, Diagnostic> {
        self.cursor.expect(&["CASE"])?;
        let subject = if self.cursor.is("WHEN") { None } else { Some(self.expression()?) };
        let mut arguments = Vec::new();
        while self.cursor.eat(&["WHEN"]) {
            let condition = self.expression()?;
            arguments.push(match &subject {
                Some(subject) => call("==", vec![subject.clone(), condition]),
                None => condition,
            });
            self.cursor.expect(&["THEN"])?;
            arguments.push(self.expression()?);
        }
        if arguments.is_empty() {
            return Err(self.cursor.expected("WHEN"));
        }
        if self.cursor.eat(&["ELSE"]) {
            arguments.push(self.expression()?);
        }
        self.cursor.expect(&["END"])?;
        self.grow(1)?;
        Ok(call("when", arguments))
    }

    fn cast(&mut self, tries: bool) -> Result<Expression, Diagnostic> {
        self.cursor.advance();
        self.cursor.expect_token(&Token::LParen)?;
        let value = self.expression()?;
        self.cursor.expect(&["AS"])?;
        let to = self.data_type()?;
        self.cursor.expect_token(&Token::RParen)?;
        self.grow(1)?;
        Ok(cast(value, to, if tries { EvalMode::Try } else { EvalMode::Unspecified }))
    }

    /// The text of a type. Whether there is such a type is checked when the grammar is known to be right.
    pub(in crate::sql::parse) fn data_type(&mut self) -> Result<String, Diagnostic> {
        let (position, mark) = (self.position(), self.cursor.mark());
        let word = self.cursor.identifier("a type")?.value.to_ascii_uppercase();
        if NESTED_TYPES.contains(&word.as_str()) && matches!(self.cursor.peek(), Some(Token::Lt | Token::Neq)) {
            self.type_parameters()?;
        } else if self.is_token(&Token::LParen) {
            self.cursor.parenthesized()?;
        } else if word == "INTERVAL" && self.is_any(&["YEAR", "MONTH", "DAY", "HOUR", "MINUTE", "SECOND"]) {
            self.cursor.advance();
            if self.cursor.eat(&["TO"]) {
                self.cursor.identifier("a smaller unit")?;
            }
        } else if word == "TIMESTAMP" && self.cursor.eat(&["WITHOUT", "TIME", "ZONE"]) {
            return Ok("TIMESTAMP_NTZ".to_owned());
        } else if word == "TIMESTAMP" && self.cursor.eat(&["WITH", "LOCAL", "TIME", "ZONE"]) {
            return Ok("TIMESTAMP_LTZ".to_owned());
        } else if word == "STRING" && self.cursor.eat(&["COLLATE"]) {
            self.names("a collation")?;
        }
        let text = self.text_since(mark).to_owned();
        if let Some(fault) = incomplete(&text) {
            self.defer(Diagnostic::new(fault.0, fault.1, position, fault.2));
        } else if let Err(error) = crate::types::parse_data_type(&text) {
            self.defer(Diagnostic::of(&position, &error));
        }
        Ok(text)
    }

    /// `< … >` with whatever is inside.
    fn type_parameters(&mut self) -> Result<(), Diagnostic> {
        let mut depth = 0_usize;
        loop {
            match self.cursor.peek() {
                Some(Token::Lt) => depth += 1,
                Some(Token::Gt) => depth = depth.saturating_sub(1),
                Some(Token::ShiftRight) => depth = depth.saturating_sub(2),
                Some(Token::CustomBinaryOperator(text)) if text == crate::sql::parse::lexer::SHIFT_RIGHT_UNSIGNED => {
                    depth = depth.saturating_sub(3);
                }
                None => return Err(self.cursor.expected("'>'")),
                _ => {}
            }
            self.cursor.advance();
            if depth == 0 {
                return Ok(());
            }
        }
    }

    /// `DATE '2024-01-01'` and the other words with a string after them.
    pub(super) fn typed_literal(&mut self, word: &str) -> Result<Expression, Diagnostic> {
        let position = self.position();
        self.cursor.advance();
        let text = self.cursor.string("a string")?;
        let value = match word {
            "DATE" => date(&text),
            "TIMESTAMP" | "TIMESTAMP_LTZ" => timestamp(&text),
            "TIMESTAMP_NTZ" => timestamp_ntz(&text),
            "TIME" => parse_time(&text).map(|nano| literal(LiteralType::Time(Time { nano, precision: Some(6) }))),
            "X" => hex(&text).map(|bytes| literal(LiteralType::Binary(bytes.into()))),
            _ => {
                let message = format!("there are no literals of the type {word}");
                self.defer(
                    Diagnostic::new("UNSUPPORTED_TYPED_LITERAL", "0A000", position, message)
                        .with_hint("there are DATE, TIMESTAMP, TIMESTAMP_NTZ, TIMESTAMP_LTZ, TIME, INTERVAL and X"),
                );
                return Ok(null());
            }
        };
        Ok(self.or_defer(value.ok_or_else(|| {
            Diagnostic::new("INVALID_TYPED_LITERAL", "42604", position, format!("'{text}' is not a value of the type {word}"))
        })))
    }

    /// `EXTRACT(field FROM source)`.
    fn extract(&mut self) -> Result<Expression, Diagnostic> {
        self.cursor.advance();
        self.cursor.expect_token(&Token::LParen)?;
        let field = if self.nth_is_string(0) { self.cursor.string("a field")? } else { self.cursor.identifier("a field")?.value };
        self.cursor.expect(&["FROM"])?;
        let source = self.operand()?;
        self.cursor.expect_token(&Token::RParen)?;
        Ok(call("extract", vec![string(field), source]))
    }

    /// `POSITION(part IN text)`.
    fn position_in(&mut self) -> Result<Expression, Diagnostic> {
        self.cursor.advance();
        self.cursor.expect_token(&Token::LParen)?;
        let part = self.operand()?;
        self.cursor.expect(&["IN"])?;
        let text = self.operand()?;
        self.cursor.expect_token(&Token::RParen)?;
        Ok(call("locate", vec![part, text]))
    }

    /// `SUBSTRING(text FROM start FOR length)`.
    fn substring_from(&mut self) -> Result<Expression, Diagnostic> {
        self.cursor.advance();
        self.cursor.expect_token(&Token::LParen)?;
        let mut arguments = vec![self.operand()?];
        self.cursor.expect(&["FROM"])?;
        arguments.push(self.operand()?);
        if self.cursor.eat(&["FOR"]) {
            arguments.push(self.operand()?);
        }
        self.cursor.expect_token(&Token::RParen)?;
        Ok(call("substring", arguments))
    }

    /// `TRIM(BOTH characters FROM text)`.
    fn trim_from(&mut self) -> Result<Expression, Diagnostic> {
        self.cursor.advance();
        self.cursor.expect_token(&Token::LParen)?;
        let name = match self.keyword().as_deref() {
            Some("LEADING") => "ltrim",
            Some("TRAILING") => "rtrim",
            _ => "trim",
        };
        self.eat_any(&["BOTH", "LEADING", "TRAILING"]);
        let mut arguments = if self.cursor.is("FROM") { Vec::new() } else { vec![self.operand()?] };
        self.cursor.expect(&["FROM"])?;
        arguments.push(self.operand()?);
        self.cursor.expect_token(&Token::RParen)?;
        Ok(call(name, arguments))
    }

    /// `OVERLAY(text PLACING new FROM start FOR length)`.
    fn overlay_placing(&mut self) -> Result<Expression, Diagnostic> {
        self.cursor.advance();
        self.cursor.expect_token(&Token::LParen)?;
        let text = self.operand()?;
        self.cursor.expect(&["PLACING"])?;
        let new = self.operand()?;
        self.cursor.expect(&["FROM"])?;
        let start = self.operand()?;
        let length = if self.cursor.eat(&["FOR"]) { self.operand()? } else { integer(-1) };
        self.cursor.expect_token(&Token::RParen)?;
        Ok(call("overlay", vec![text, new, start, length]))
    }

    /// `FIRST(value IGNORE NULLS)`.
    fn ignoring_nulls(&mut self, word: &str) -> Result<Expression, Diagnostic> {
        self.cursor.advance();
        self.cursor.expect_token(&Token::LParen)?;
        let value = self.expression()?;
        self.cursor.expect(&["IGNORE", "NULLS"])?;
        self.cursor.expect_token(&Token::RParen)?;
        let aggregate = call(word.to_ascii_lowercase(), vec![value, boolean(true)]);
        self.function_suffix(aggregate)
    }

    /// `TIMESTAMPADD(DAY, 1, ts)`; none if it is the function of days with two arguments.
    fn datetime_arithmetic(&mut self, word: &str) -> Result<Option<Expression>, Diagnostic> {
        let Some(Token::Word(unit)) = self.cursor.peek_nth(2) else { return Ok(None) };
        let is_unit = unit.quote_style.is_none() && DATETIME_UNITS.iter().any(|known| known.eq_ignore_ascii_case(&unit.value));
        let three = self.commas_at_depth_one() == 2;
        if !is_unit || !three || !self.nth_is_token(3, &Token::Comma) {
            return Ok(None);
        }
        self.cursor.advance();
        self.cursor.expect_token(&Token::LParen)?;
        let mut arguments = vec![string(self.cursor.identifier("a unit")?.value)];
        for _ in 0..2 {
            self.cursor.expect_token(&Token::Comma)?;
            arguments.push(self.operand()?);
        }
        self.cursor.expect_token(&Token::RParen)?;
        let name = if word.ends_with("ADD") { "timestampadd" } else { "timestampdiff" };
        Ok(Some(call(name, arguments)))
    }

    fn commas_at_depth_one(&self) -> usize {
        let (mut depth, mut commas) = (0_usize, 0);
        for token in self.tokens_from(1) {
            match token {
                Token::LParen | Token::LBracket => depth += 1,
                Token::RParen | Token::RBracket if depth <= 1 => break,
                Token::RParen | Token::RBracket => depth -= 1,
                Token::Comma if depth == 1 => commas += 1,
                _ => {}
            }
        }
        commas
    }
}

/// A type that lacks what it needs: condition, SQLSTATE and message.
fn incomplete(text: &str) -> Option<(&'static str, &'static str, String)> {
    let message = format!("the type {text} needs more");
    match text.to_ascii_uppercase().as_str() {
        "ARRAY" => Some(("INCOMPLETE_TYPE_DEFINITION.ARRAY", "42K01", format!("{message}: ARRAY<elements>"))),
        "MAP" => Some(("INCOMPLETE_TYPE_DEFINITION.MAP", "42K01", format!("{message}: MAP<keys, values>"))),
        "STRUCT" => Some(("INCOMPLETE_TYPE_DEFINITION.STRUCT", "42K01", format!("{message}: STRUCT<name: type>"))),
        "CHAR" | "CHARACTER" | "VARCHAR" => Some(("DATATYPE_MISSING_SIZE", "42K01", format!("{message}: its length"))),
        _ => None,
    }
}

fn date(text: &str) -> Option<Expression> {
    let today = || call("current_date", Vec::new());
    match text.trim().to_ascii_lowercase().as_str() {
        "epoch" => Some(literal(LiteralType::Date(0))),
        "now" | "today" => Some(today()),
        "yesterday" => Some(call("date_add", vec![today(), integer(-1)])),
        "tomorrow" => Some(call("date_add", vec![today(), integer(1)])),
        _ => temporal::days(text).map(|days| literal(LiteralType::Date(days))),
    }
}

/// A timestamp. Without a zone it is in the session's, which only the cast knows.
fn timestamp(text: &str) -> Option<Expression> {
    if text.trim().eq_ignore_ascii_case("now") {
        return Some(call("current_timestamp", Vec::new()));
    }
    if text.trim().eq_ignore_ascii_case("epoch") {
        return Some(literal(LiteralType::Timestamp(0)));
    }
    if let Some(day) = special_day(text) {
        return Some(cast(day, "TIMESTAMP", EvalMode::Ansi));
    }
    let written = temporal::timestamp(text)?;
    Some(match written.instant {
        Some(micros) => literal(LiteralType::Timestamp(micros)),
        None => {
            let text = written.local.format("%Y-%m-%d %H:%M:%S%.6f").to_string();
            let text = text.trim_end_matches('0').trim_end_matches('.');
            cast(string(text), "TIMESTAMP", EvalMode::Ansi)
        }
    })
}

fn timestamp_ntz(text: &str) -> Option<Expression> {
    if text.trim().eq_ignore_ascii_case("now") {
        return Some(call("localtimestamp", Vec::new()));
    }
    if text.trim().eq_ignore_ascii_case("epoch") {
        return Some(literal(LiteralType::TimestampNtz(0)));
    }
    if let Some(day) = special_day(text) {
        return Some(cast(day, "TIMESTAMP_NTZ", EvalMode::Ansi));
    }
    // A zone is read and has no effect.
    let local = temporal::timestamp(text)?.local;
    Some(typed_literal(LiteralType::TimestampNtz(temporal::micros(local)), data_type::Kind::TimestampNtz(Default::default())))
}

/// `today` and its neighbours.
fn special_day(text: &str) -> Option<Expression> {
    matches!(text.trim().to_ascii_lowercase().as_str(), "today" | "yesterday" | "tomorrow").then(|| date(text)).flatten()
}

/// The bytes of hexadecimal digits; an odd number has a zero before it.
fn hex(text: &str) -> Option<Vec<u8>> {
    let padded = if text.len() % 2 == 1 { format!("0{text}") } else { text.to_owned() };
    if !padded.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return None;
    }
    (0..padded.len()).step_by(2).map(|at| u8::from_str_radix(padded.get(at..at + 2)?, 16).ok()).collect()
}
