//! `FROM` and the relations in it.

use datafusion::sql::sqlparser::tokenizer::Token;
use spark_connect_proto::join::JoinType;
use spark_connect_proto::relation::RelType;
use spark_connect_proto::{Relation, UnresolvedTableValuedFunction};

use super::join::{crossed, lateral};
use crate::sql::Diagnostic;
use crate::sql::parse::parser::Parser;
use crate::sql::parse::proto::{aliased, relation, renamed};

/// The name of a query in `FROM` that has none.
const UNNAMED_SUBQUERY: &str = "__auto_generated_subquery_name";

/// Words that go on after a relation, where a name without `AS` could stand.
const NOT_TABLE_ALIASES: &[&str] = &[
    "ANTI",
    "CROSS",
    "EXCEPT",
    "FULL",
    "INNER",
    "INTERSECT",
    "JOIN",
    "LATERAL",
    "LEFT",
    "NATURAL",
    "ON",
    "RIGHT",
    "SEMI",
    "MINUS",
    "UNION",
    "USING",
    "WHERE",
    "GROUP",
    "HAVING",
    "ORDER",
    "SORT",
    "CLUSTER",
    "DISTRIBUTE",
    "LIMIT",
    "OFFSET",
    "WINDOW",
    "TABLESAMPLE",
    "PIVOT",
    "UNPIVOT",
    "WATERMARK",
    "SELECT",
    "SET",
    "WHEN",
    "QUALIFY",
    "VALUES",
    "WITH",
    "AS",
    "TABLE",
    "BY",
    "REPLACE",
    "IDENTIFIED",
    "CHANGES",
];

impl Parser<'_> {
    /// `FROM a, b JOIN c …`.
    pub(super) fn clause_from(&mut self) -> Result<Relation, Diagnostic> {
        self.cursor.expect(&["FROM"])?;
        let mut all = self.nested(Parser::relation)?;
        while self.cursor.eat_token(&Token::Comma) {
            let is_lateral = self.at_lateral() && self.cursor.eat(&["LATERAL"]);
            let next = self.nested(Parser::relation)?;
            self.grow(1)?;
            all = if is_lateral { lateral(all, next, JoinType::Inner, None) } else { crossed(all, next) };
        }
        while self.cursor.are(&["LATERAL", "VIEW"]) {
            all = self.lateral_view(all)?;
        }
        self.pivots(all)
    }

    /// `LATERAL` before a query or a table function.
    pub(super) fn at_lateral(&self) -> bool {
        self.cursor.is("LATERAL") && !self.cursor.nth_is(1, "VIEW") && (self.nth_is_token(1, &Token::LParen) || self.nth_is_word(1))
    }

    /// A relation with its joins and pivots.
    pub(super) fn relation(&mut self) -> Result<Relation, Diagnostic> {
        let mut left = self.relation_primary()?;
        loop {
            left = match self.join(left)? {
                (joined, true) => joined,
                (left, false) => return self.pivots(left),
            };
            self.grow(1)?;
        }
    }

    fn pivots(&mut self, mut input: Relation) -> Result<Relation, Diagnostic> {
        loop {
            input = if self.cursor.is("PIVOT") && self.nth_is_token(1, &Token::LParen) {
                self.pivot(input)?
            } else if self.cursor.is("UNPIVOT") && (self.nth_is_token(1, &Token::LParen) || self.cursor.nth_is(2, "NULLS")) {
                self.unpivot(input)?
            } else {
                return Ok(input);
            };
            self.grow(1)?;
        }
    }

    pub(in crate::sql::parse) fn relation_primary(&mut self) -> Result<Relation, Diagnostic> {
        if self.is_token(&Token::LParen) {
            return self.relation_in_brackets();
        }
        if self.cursor.is("VALUES") && !matches!(self.cursor.peek_nth(1), None | Some(Token::Comma | Token::RParen)) {
            return self.inline_table();
        }
        if self.at_stream() {
            return self.stream();
        }
        if !self.nth_is_word(0) {
            return Err(self.cursor.expected("a table, a query in brackets or a table function"));
        }
        self.table()
    }

    fn relation_in_brackets(&mut self) -> Result<Relation, Diagnostic> {
        if !self.at_query(1) {
            self.cursor.advance();
            let inner = self.nested(Parser::relation)?;
            self.cursor.expect_token(&Token::RParen)?;
            let inner = self.sampled(inner)?;
            return self.called(inner, None);
        }
        self.cursor.advance();
        let query = self.query()?;
        self.cursor.expect_token(&Token::RParen)?;
        let query = self.sampled(query)?;
        let query = self.with_watermark(query)?;
        self.called(query, Some(UNNAMED_SUBQUERY))
    }

    /// A relation under the alias that comes next, or under another name.
    pub(super) fn called(&mut self, input: Relation, otherwise: Option<&str>) -> Result<Relation, Diagnostic> {
        match self.table_alias()? {
            Some((name, columns)) => Ok(aliased(renamed(input, columns), name)),
            None => Ok(match otherwise {
                Some(name) => aliased(input, name),
                None => input,
            }),
        }
    }

    /// `AS x (a, b)`, where all but the name may be left out.
    pub(in crate::sql::parse) fn table_alias(&mut self) -> Result<Option<(String, Vec<String>)>, Diagnostic> {
        if !self.cursor.eat(&["AS"]) && !self.at_table_alias() {
            return Ok(None);
        }
        let name = self.name("an alias")?;
        let columns = if self.is_token(&Token::LParen) { self.name_list("a column's name")? } else { Vec::new() };
        Ok(Some((name, columns)))
    }

    pub(super) fn at_table_alias(&self) -> bool {
        match self.cursor.peek() {
            Some(Token::Word(word)) => {
                word.quote_style.is_some() || !NOT_TABLE_ALIASES.iter().any(|known| known.eq_ignore_ascii_case(&word.value))
            }
            _ => false,
        }
    }

    /// `LATERAL VIEW OUTER explode(x) t AS a, b`.
    pub(super) fn lateral_view(&mut self, left: Relation) -> Result<Relation, Diagnostic> {
        self.cursor.expect(&["LATERAL", "VIEW"])?;
        let outer = self.cursor.is("OUTER") && !self.nth_is_token(1, &Token::LParen);
        if outer {
            self.cursor.advance();
        }
        let function_name = self.names("a table function")?.join(".");
        let arguments = self.table_function_arguments()?;
        let name = if self.cursor.is("AS") || !self.at_table_alias() { None } else { Some(self.name("an alias")?) };
        let columns = if self.cursor.eat(&["AS"]) || self.at_table_alias() {
            self.comma_separated(|parser| parser.name("a column's name"))?
        } else {
            Vec::new()
        };
        let function = UnresolvedTableValuedFunction { function_name, arguments };
        let right = renamed(relation(RelType::UnresolvedTableValuedFunction(function)), columns);
        let right = match name {
            Some(name) => aliased(right, name),
            None => right,
        };
        self.grow(1)?;
        Ok(lateral(left, right, if outer { JoinType::LeftOuter } else { JoinType::Inner }, None))
    }
}
