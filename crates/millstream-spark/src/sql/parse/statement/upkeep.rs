//! `OPTIMIZE`, `VACUUM`, `RESTORE`, and the descriptions of tables with versions.

use datafusion::sql::sqlparser::tokenizer::Token;

use super::{Describe, Name, Statement};
use crate::sql::Diagnostic;
use crate::sql::parse::parser::Parser;

impl Parser<'_> {
    /// A table by its name, or by its path as a text.
    fn table_or_path(&mut self) -> Result<Name, Diagnostic> {
        if self.nth_is_string(0) {
            return Ok(vec!["delta".to_owned(), self.cursor.string("a path")?]);
        }
        self.names("a table")
    }

    /// `OPTIMIZE t WHERE p = 1 ZORDER BY (a, b)`.
    pub(super) fn optimize(&mut self) -> Result<Statement, Diagnostic> {
        self.cursor.expect(&["OPTIMIZE"])?;
        let table = self.table_or_path()?;
        self.cursor.eat(&["FULL"]);
        let condition = if self.cursor.eat(&["WHERE"]) { Some(self.expression()?) } else { None };
        let zorder = if self.cursor.eat(&["ZORDER", "BY"]) {
            let column = |parser: &mut Self| Ok(parser.names("a column's name")?.join("."));
            if self.is_token(&Token::LParen) { self.parenthesized_list(column)? } else { self.comma_separated(column)? }
        } else {
            Vec::new()
        };
        Ok(Statement::Optimize { table, condition, zorder })
    }

    /// `VACUUM t RETAIN 168 HOURS DRY RUN`.
    pub(super) fn vacuum(&mut self) -> Result<Statement, Diagnostic> {
        self.cursor.expect(&["VACUUM"])?;
        let table = self.table_or_path()?;
        self.eat_any(&["FULL", "LITE"]);
        let (mut hours, mut dry_run) = (None, false);
        loop {
            if self.cursor.eat(&["RETAIN"]) {
                hours = Some(self.hours()?);
                self.cursor.expect(&["HOURS"])?;
            } else if self.cursor.eat(&["DRY", "RUN"]) {
                dry_run = true;
            } else {
                return Ok(Statement::Vacuum { table, hours, dry_run });
            }
        }
    }

    fn hours(&mut self) -> Result<f64, Diagnostic> {
        let negative = self.cursor.eat_token(&Token::Minus);
        let number = match self.cursor.peek() {
            Some(Token::Number(digits, _)) => digits.parse::<f64>().ok(),
            _ => None,
        };
        let number = number.ok_or_else(|| self.cursor.expected("a number of hours"))?;
        self.cursor.advance();
        Ok(if negative { -number } else { number })
    }

    /// `RESTORE TABLE t TO VERSION AS OF 3`.
    pub(super) fn restore(&mut self) -> Result<Statement, Diagnostic> {
        self.cursor.expect(&["RESTORE"])?;
        if self.nth_is_word(1) || self.nth_is_string(1) {
            self.cursor.eat(&["TABLE"]);
        }
        let table = self.table_or_path()?;
        self.cursor.eat(&["TO"]);
        if self.cursor.eat(&["VERSION", "AS", "OF"]) {
            let version = self.cursor.integer("a version")?;
            return Ok(Statement::Restore { table, version: Some(i64::try_from(version).unwrap_or(i64::MAX)), time: None });
        }
        self.cursor.expect(&["TIMESTAMP", "AS", "OF"])?;
        Ok(Statement::Restore { table, version: None, time: Some(self.cursor.string("a time")?) })
    }

    /// `DESCRIBE HISTORY t LIMIT 3` and `DESCRIBE DETAIL t`, after `DESCRIBE`; `None` for another description.
    pub(super) fn described_table(&mut self) -> Result<Option<Statement>, Diagnostic> {
        let is_named = self.nth_is_word(1) || self.nth_is_string(1);
        if self.cursor.is("HISTORY") && is_named {
            self.cursor.advance();
            let table = self.table_or_path()?;
            let limit = if self.cursor.eat(&["LIMIT"]) { Some(self.cursor.integer("a number of versions")?) } else { None };
            let limit = limit.map(|limit| usize::try_from(limit).unwrap_or(usize::MAX));
            return Ok(Some(Statement::Describe(Describe::History { table, limit })));
        }
        if self.cursor.is("DETAIL") && is_named {
            self.cursor.advance();
            return Ok(Some(Statement::Describe(Describe::Detail { table: self.table_or_path()? })));
        }
        Ok(None)
    }
}
