//! `SELECT` and its clauses.

use datafusion::sql::sqlparser::tokenizer::Token;
use spark_connect_proto::aggregate::{GroupType, GroupingSets};
use spark_connect_proto::relation::RelType;
use spark_connect_proto::{Aggregate, Expression, Filter, Hint, Relation};

use super::group::Grouping;
use super::{is_star, projected};
use crate::sql::Diagnostic;
use crate::sql::parse::expression::NamedWindow;
use crate::sql::parse::lexer::{HINT, HINT_END};
use crate::sql::parse::parser::Parser;
use crate::sql::parse::proto::{relation, star};

/// Words after which another query begins.
const SET_OPERATORS: &[&str] = &["UNION", "INTERSECT", "MINUS"];

impl Parser<'_> {
    /// `SELECT …`, its `FROM` being read where that came first.
    pub(super) fn select(&mut self, from: Option<Relation>) -> Result<Relation, Diagnostic> {
        self.cursor.expect(&["SELECT"])?;
        self.refuse_transform()?;
        let hints = self.hints()?;
        let next_is_value = !matches!(self.cursor.peek_nth(1), Some(Token::Comma | Token::Period | Token::RParen) | None);
        let distinct = next_is_value && !self.cursor.nth_is(1, "FROM") && self.cursor.eat(&["DISTINCT"]);
        if next_is_value && self.cursor.is("ALL") && !self.cursor.nth_is(1, "FROM") {
            self.cursor.advance();
        }
        self.windows_ahead()?;
        let items = self.comma_separated(Parser::named_expression)?;
        let width = (!items.iter().any(is_star)).then_some(items.len());
        let mut input = match from {
            Some(from) => Some(from),
            None if self.cursor.is("FROM") => Some(self.clause_from()?),
            None => None,
        };
        for (name, parameters) in hints {
            if let Some(hinted) = input.take() {
                input = Some(relation(RelType::Hint(Box::new(Hint { input: Some(Box::new(hinted)), name, parameters }))));
            }
        }
        while self.cursor.are(&["LATERAL", "VIEW"]) {
            let left = input.take().unwrap_or_else(one_row);
            input = Some(self.lateral_view(left)?);
        }
        if self.cursor.eat(&["WHERE"]) {
            let condition = self.expression()?;
            input = Some(filtered(input.unwrap_or_else(one_row), condition));
        }
        let grouping = if self.cursor.eat(&["GROUP", "BY"]) { Some(self.grouping(&items)?) } else { None };
        let having = if self.cursor.eat(&["HAVING"]) { Some(self.expression()?) } else { None };
        let mut query = match (grouping, &having) {
            (None, None) => projected(input, items),
            (grouping, _) => grouped(input.unwrap_or_else(one_row), grouping.unwrap_or_default(), items),
        };
        if let Some(condition) = having {
            query = filtered(query, condition);
        }
        if self.cursor.eat(&["QUALIFY"]) {
            let condition = self.expression()?;
            query = filtered(query, condition);
        }
        self.skip_window_clause()?;
        // Subqueries in between have lists of their own.
        self.select_width = width;
        Ok(if distinct { distinct_rows(query) } else { query })
    }

    fn refuse_transform(&self) -> Result<(), Diagnostic> {
        if self.cursor.is("TRANSFORM")
            && self.nth_is_token(1, &Token::LParen)
            && matches!(self.after_closing(1), Some(Token::Word(word)) if ["USING", "ROW", "RECORDWRITER"].iter().any(|next| next.eq_ignore_ascii_case(&word.value)))
        {
            return Err(Diagnostic::unsupported(self.position(), "SELECT TRANSFORM runs a script over the rows, which is not supported"));
        }
        Ok(())
    }

    /// `/*+ BROADCAST(a), REPARTITION(3) */`.
    fn hints(&mut self) -> Result<Vec<(String, Vec<Expression>)>, Diagnostic> {
        let mut hints = Vec::new();
        while self.cursor.eat_token(&Token::CustomBinaryOperator(HINT.to_owned())) {
            loop {
                let name = self.cursor.identifier("a hint")?.value;
                let parameters = if self.is_token(&Token::LParen) && !self.nth_is_token(1, &Token::RParen) {
                    self.parenthesized_list(Parser::expression)?
                } else {
                    if self.cursor.eat_token(&Token::LParen) {
                        self.cursor.expect_token(&Token::RParen)?;
                    }
                    Vec::new()
                };
                hints.push((name, parameters));
                self.cursor.eat_token(&Token::Comma);
                if self.cursor.eat_token(&Token::CustomBinaryOperator(HINT_END.to_owned())) {
                    break;
                }
            }
        }
        Ok(hints)
    }

    /// Reads the `WINDOW` clause of this query before the expressions that use its names.
    fn windows_ahead(&mut self) -> Result<(), Diagnostic> {
        self.windows.clear();
        let mut depth = 0_usize;
        let mut found = None;
        for (n, token) in self.tokens_from(0).enumerate() {
            match token {
                Token::LParen => depth += 1,
                Token::RParen if depth == 0 => break,
                Token::RParen => depth -= 1,
                Token::SemiColon | Token::VerticalBarRightAngleBracket if depth == 0 => break,
                Token::Word(_) if depth == 0 && self.nth_is_any(n, SET_OPERATORS) => break,
                Token::Word(_) if depth == 0 && self.at_window_clause(n) => {
                    found = Some(n);
                    break;
                }
                _ => {}
            }
        }
        let Some(n) = found else { return Ok(()) };
        let (mark, positional) = (self.cursor.mark(), self.positional);
        self.reset(mark + n);
        self.window_clause()?;
        self.reset(mark);
        self.positional = positional;
        Ok(())
    }

    fn at_window_clause(&self, n: usize) -> bool {
        self.cursor.nth_is(n, "WINDOW")
            && self.nth_is_word(n + 1)
            && self.cursor.nth_is(n + 2, "AS")
            && (self.nth_is_token(n + 3, &Token::LParen) || self.nth_is_word(n + 3))
    }

    fn window_clause(&mut self) -> Result<(), Diagnostic> {
        self.cursor.expect(&["WINDOW"])?;
        self.comma_separated(|parser| {
            let name = parser.name("the name of a window")?;
            parser.cursor.expect(&["AS"])?;
            let spec = parser.window_spec()?;
            parser.windows.push(NamedWindow { name, spec });
            Ok(())
        })?;
        Ok(())
    }

    /// Reads over a `WINDOW` clause, whose names are known.
    pub(super) fn skip_window_clause(&mut self) -> Result<(), Diagnostic> {
        if self.at_window_clause(0) {
            let known = self.windows.len();
            self.window_clause()?;
            self.windows.truncate(known);
        }
        Ok(())
    }
}

pub(super) fn filtered(input: Relation, condition: Expression) -> Relation {
    relation(RelType::Filter(Box::new(Filter { input: Some(Box::new(input)), condition: Some(condition) })))
}

/// An aggregation that gives exactly `items`.
pub(super) fn grouped(input: Relation, grouping: Grouping, items: Vec<Expression>) -> Relation {
    let Grouping { keys, sets } = grouping;
    let grouping_sets = sets.into_iter().flatten().map(|grouping_set| GroupingSets { grouping_set }).collect();
    relation(RelType::Aggregate(Box::new(Aggregate {
        input: Some(Box::new(input)),
        group_type: GroupType::Unspecified.into(),
        grouping_expressions: keys,
        aggregate_expressions: items,
        pivot: None,
        grouping_sets,
    })))
}

pub(super) fn distinct_rows(input: Relation) -> Relation {
    let all = || vec![star::<&str>(&[])];
    grouped(input, Grouping { keys: all(), sets: None }, all())
}

/// One row, for clauses without a `FROM`.
fn one_row() -> Relation {
    projected(None, vec![crate::sql::parse::proto::alias(crate::sql::parse::proto::integer(1), vec!["1".to_owned()])])
}
