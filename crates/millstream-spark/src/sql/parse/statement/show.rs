//! `SHOW`, `DESCRIBE`, `SET` and `RESET`.

use datafusion::sql::sqlparser::tokenizer::Token;

use super::{Describe, Name, Set, Show, Statement};
use crate::sql::Diagnostic;
use crate::sql::parse::parser::Parser;

/// The property of `SET TIME ZONE`.
const TIME_ZONE: &str = "spark.sql.session.timeZone";

impl Parser<'_> {
    pub(super) fn show(&mut self) -> Result<Statement, Diagnostic> {
        self.cursor.expect(&["SHOW"])?;
        let show = if self.cursor.eat(&["TABLES"]) {
            let (database, pattern) = self.in_and_like()?;
            Show::Tables { database, pattern, extended: false }
        } else if self.cursor.eat(&["TABLE", "EXTENDED"]) {
            let (database, pattern) = self.in_and_like()?;
            Show::Tables { database, pattern, extended: true }
        } else if self.cursor.eat(&["VIEWS"]) {
            let (database, pattern) = self.in_and_like()?;
            Show::Views { database, pattern }
        } else if self.eat_any(&["DATABASES", "SCHEMAS", "NAMESPACES"]) {
            let (_, pattern) = self.in_and_like()?;
            Show::Databases { pattern }
        } else if self.cursor.eat(&["CATALOGS"]) {
            Show::Catalogs { pattern: self.pattern()? }
        } else if self.cursor.eat(&["COLUMNS"]) {
            self.in_or_from()?;
            let mut table = self.names("a table")?;
            if self.is_any(&["IN", "FROM"]) {
                self.in_or_from()?;
                let mut database = self.names("a database")?;
                database.append(&mut table);
                table = database;
            }
            Show::Columns { table }
        } else if self.cursor.eat(&["CREATE", "TABLE"]) {
            let table = self.names("a table")?;
            self.cursor.eat(&["AS", "SERDE"]);
            Show::CreateTable { table }
        } else if self.cursor.eat(&["TBLPROPERTIES"]) {
            let table = self.names("a table")?;
            let key = if self.cursor.eat_token(&Token::LParen) {
                let key = if self.nth_is_string(0) { self.cursor.string("a key")? } else { self.names("a key")?.join(".") };
                self.cursor.expect_token(&Token::RParen)?;
                Some(key)
            } else {
                None
            };
            Show::Properties { table, key }
        } else if self.cursor.eat(&["PARTITIONS"]) {
            let table = self.names("a table")?;
            self.cursor.rest();
            Show::Partitions { table }
        } else if self.cursor.eat(&["CURRENT", "NAMESPACE"]) {
            Show::CurrentNamespace
        } else {
            self.show_functions()?
        };
        Ok(Statement::Show(show))
    }

    /// `SHOW USER FUNCTIONS IN db LIKE 'pattern'`.
    fn show_functions(&mut self) -> Result<Show, Diagnostic> {
        let kind = match self.keyword().as_deref() {
            Some(kind @ ("USER" | "SYSTEM" | "ALL")) => {
                self.cursor.advance();
                kind.to_owned()
            }
            _ => "ALL".to_owned(),
        };
        self.cursor.expect(&["FUNCTIONS"])?;
        if self.is_any(&["IN", "FROM"]) {
            self.in_or_from()?;
            self.names("a database")?;
        }
        let pattern = match self.pattern()? {
            Some(pattern) => Some(pattern),
            None if self.nth_is_word(0) => Some(self.names("a function")?.join(".")),
            None => None,
        };
        Ok(Show::Functions { pattern, kind })
    }

    fn in_or_from(&mut self) -> Result<(), Diagnostic> {
        if self.eat_any(&["IN", "FROM"]) { Ok(()) } else { Err(self.cursor.expected("IN")) }
    }

    fn in_and_like(&mut self) -> Result<(Option<Name>, Option<String>), Diagnostic> {
        let database = if self.eat_any(&["IN", "FROM"]) { Some(self.names("a database")?) } else { None };
        Ok((database, self.pattern()?))
    }

    /// `LIKE 'pattern'`, where the word may be left out.
    fn pattern(&mut self) -> Result<Option<String>, Diagnostic> {
        let word = self.cursor.eat(&["LIKE"]);
        if word || self.nth_is_string(0) { self.cursor.string("a pattern").map(Some) } else { Ok(None) }
    }

    pub(super) fn describe(&mut self) -> Result<Statement, Diagnostic> {
        self.cursor.advance();
        if self.eat_any(&["DATABASE", "SCHEMA", "NAMESPACE"]) {
            let extended = self.cursor.is("EXTENDED") && self.nth_is_word(1) && self.cursor.eat(&["EXTENDED"]);
            return Ok(Statement::Describe(Describe::Database { name: self.names("a database")?, extended }));
        }
        if self.cursor.is("FUNCTION") && (self.nth_is_word(1) || self.nth_is_string(1)) {
            self.cursor.advance();
            let extended = self.cursor.is("EXTENDED") && self.nth_is_word(1) && self.cursor.eat(&["EXTENDED"]);
            let name = if self.nth_is_string(0) { vec![self.cursor.string("a function")?] } else { self.function_name()? };
            return Ok(Statement::Describe(Describe::Function { name, extended }));
        }
        if let Some(described) = self.described_table()? {
            return Ok(described);
        }
        if self.cursor.is("QUERY") && self.nth_is_any(1, &["SELECT", "WITH", "VALUES", "TABLE", "FROM"]) {
            self.cursor.advance();
        }
        // `DESCRIBE TABLE t` is about the table, though `TABLE t` alone is a query.
        if self.cursor.is("TABLE") && self.nth_is_word(1) {
            self.cursor.advance();
        } else if self.at_query(0) {
            return Ok(Statement::Describe(Describe::Query(Box::new(self.query()?))));
        }
        let extended = self.is_any(&["EXTENDED", "FORMATTED"]) && self.nth_is_word(1) && self.eat_any(&["EXTENDED", "FORMATTED"]);
        let name = self.names("a table")?;
        let column = if self.nth_is_word(0) { Some(self.names("a column's name")?) } else { None };
        Ok(Statement::Describe(Describe::Table { name, extended, column }))
    }

    /// A function's name, which may be an operator.
    fn function_name(&mut self) -> Result<Name, Diagnostic> {
        if self.nth_is_word(0) {
            return self.names("a function");
        }
        match self.cursor.advance() {
            Some(token) => Ok(vec![token.token.to_string()]),
            None => Err(self.cursor.expected("a function")),
        }
    }

    /// `SET key = value`: the value is everything up to the end, as it stands there.
    pub(super) fn set(&mut self) -> Result<Statement, Diagnostic> {
        self.cursor.expect(&["SET"])?;
        if self.cursor.at_end() || self.is_token(&Token::SemiColon) {
            return Ok(Statement::Set(Set::All { verbose: false }));
        }
        if self.is_token(&Token::Minus) && self.cursor.nth_is(1, "v") {
            self.cursor.rest();
            return Ok(Statement::Set(Set::All { verbose: true }));
        }
        if self.cursor.are(&["TIME", "ZONE"]) {
            return self.set_time_zone();
        }
        if self.cursor.is("CATALOG") && (self.nth_is_word(1) || self.nth_is_string(1)) {
            self.cursor.advance();
            let name = if self.nth_is_string(0) { self.cursor.string("a catalog")? } else { self.name("a catalog")? };
            return Ok(Statement::UseCatalog { name });
        }
        let text = self.text_ahead().trim().trim_end_matches(';').trim_end().to_owned();
        self.cursor.rest();
        let unquoted = |text: &str| {
            let text = text.trim();
            match text.strip_prefix('`').and_then(|rest| rest.strip_suffix('`')) {
                Some(inner) => inner.replace("``", "`"),
                None => text.to_owned(),
            }
        };
        Ok(Statement::Set(match text.split_once('=') {
            Some((key, value)) => Set::Put(unquoted(key), unquoted(value)),
            None => Set::Get(unquoted(&text)),
        }))
    }

    fn set_time_zone(&mut self) -> Result<Statement, Diagnostic> {
        self.cursor.expect(&["TIME", "ZONE"])?;
        if self.cursor.eat(&["LOCAL"]) {
            return Ok(Statement::Set(Set::TimeZoneLocal));
        }
        let zone = if self.cursor.is("INTERVAL") {
            let position = self.position();
            let seconds = self.interval()?.micros / 1_000_000;
            if seconds.abs() > 18 * 3600 {
                let message = "the offset of a time zone is at most 18 hours";
                return Err(Diagnostic::new("INVALID_INTERVAL_FORMAT", "22006", position, message));
            }
            let (sign, seconds) = (if seconds < 0 { '-' } else { '+' }, seconds.abs());
            format!("{sign}{:02}:{:02}", seconds / 3600, seconds / 60 % 60)
        } else {
            self.cursor.string("a time zone")?
        };
        Ok(Statement::Set(Set::Put(TIME_ZONE.to_owned(), zone)))
    }

    pub(super) fn reset_key(&mut self) -> Result<Statement, Diagnostic> {
        self.cursor.expect(&["RESET"])?;
        let text = self.text_ahead().trim().trim_end_matches(';').trim().trim_matches('`').to_owned();
        self.cursor.rest();
        Ok(Statement::Reset { key: (!text.is_empty()).then_some(text) })
    }
}
