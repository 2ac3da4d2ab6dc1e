//! Calls of functions, and what may follow them: `FILTER`, `WITHIN GROUP`, `IGNORE NULLS`, `OVER`.

use datafusion::sql::sqlparser::tokenizer::Token;
use spark_connect_proto::expression::ExprType;
use spark_connect_proto::subquery_expression::{SubqueryType, TableArgOptions};
use spark_connect_proto::{Expression, NamedArgumentExpression, SubqueryExpression};

use crate::sql::Diagnostic;
use crate::sql::parse::parser::Parser;
use crate::sql::parse::proto::{boolean, call, dotted, expression, function_mut, integer, is_plain_star};

/// Aggregates that take whether they ignore nulls as their last argument.
const WITH_IGNORE_ARGUMENT: &[(&str, &str)] =
    &[("first", "first"), ("first_value", "first"), ("last", "last"), ("last_value", "last"), ("any_value", "any_value")];

impl Parser<'_> {
    /// `( … )` of a call, which may be empty.
    pub(super) fn arguments_of<T>(&mut self, read: impl FnMut(&mut Self) -> Result<T, Diagnostic>) -> Result<Vec<T>, Diagnostic> {
        if self.is_token(&Token::LParen) && self.nth_is_token(1, &Token::RParen) {
            self.cursor.advance();
            self.cursor.advance();
            return Ok(Vec::new());
        }
        self.parenthesized_list(read)
    }

    /// A call, its name being read.
    pub(super) fn function_call(&mut self, name: Vec<String>) -> Result<Expression, Diagnostic> {
        let quantified =
            !matches!(self.cursor.peek_nth(2), Some(Token::RParen | Token::Comma | Token::Period | Token::RArrow | Token::Arrow));
        let distinct = quantified && self.cursor.nth_is(1, "DISTINCT");
        let all = self.cursor.nth_is(1, "ALL")
            && (matches!(self.cursor.peek_nth(2), Some(Token::Word(_) | Token::Number(..) | Token::Mul)) || self.nth_is_string(2));
        let mut arguments = if distinct || all {
            self.cursor.advance();
            self.cursor.advance();
            let arguments = self.comma_separated(Parser::argument)?;
            self.cursor.expect_token(&Token::RParen)?;
            arguments
        } else {
            self.arguments_of(Parser::argument)?
        };
        let is_count = matches!(name.as_slice(), [single] if single.eq_ignore_ascii_case("count"));
        if is_count && !distinct && matches!(arguments.as_slice(), [single] if is_plain_star(single)) {
            arguments = vec![integer(1)];
        }
        let name = match name.as_slice() {
            [single] => single.clone(),
            parts => dotted(parts),
        };
        let mut value = call(name, arguments);
        if let Some(function) = function_mut(&mut value) {
            function.is_distinct = distinct;
        }
        self.function_suffix(value)
    }

    /// One argument: `name => value`, `TABLE(…)`, or a value.
    pub(in crate::sql::parse) fn argument(&mut self) -> Result<Expression, Diagnostic> {
        if self.nth_is_word(0) && self.nth_is_token(1, &Token::RArrow) {
            let key = self.cursor.identifier("a name")?.value;
            self.cursor.expect_token(&Token::RArrow)?;
            let value = Some(Box::new(self.argument_value()?));
            return Ok(expression(ExprType::NamedArgumentExpression(Box::new(NamedArgumentExpression { key, value }))));
        }
        self.argument_value()
    }

    fn argument_value(&mut self) -> Result<Expression, Diagnostic> {
        if self.cursor.is("TABLE") && (self.nth_is_token(1, &Token::LParen) || self.nth_is_word(1)) {
            return self.table_argument();
        }
        self.expression()
    }

    /// `TABLE(t) PARTITION BY a ORDER BY b`.
    fn table_argument(&mut self) -> Result<Expression, Diagnostic> {
        self.cursor.expect(&["TABLE"])?;
        let bracketed = self.cursor.eat_token(&Token::LParen);
        let query = if bracketed && self.at_query(0) { self.query()? } else { self.table_by_name()? };
        if bracketed {
            self.cursor.expect_token(&Token::RParen)?;
        }
        let mut options = TableArgOptions::default();
        if self.cursor.eat(&["WITH", "SINGLE", "PARTITION"]) {
            options.with_single_partition = Some(true);
        } else if self.cursor.eat(&["PARTITION", "BY"]) || self.cursor.eat(&["DISTRIBUTE", "BY"]) {
            options.partition_spec = if self.is_token(&Token::LParen) {
                self.parenthesized_list(Parser::expression)?
            } else {
                self.comma_separated(Parser::expression)?
            };
        }
        if self.cursor.eat(&["ORDER", "BY"]) || self.cursor.eat(&["SORT", "BY"]) {
            options.order_spec = self.comma_separated(Parser::sort_item)?;
        }
        let plan_id = self.keep_subquery(query);
        Ok(expression(ExprType::SubqueryExpression(SubqueryExpression {
            plan_id,
            subquery_type: SubqueryType::TableArg.into(),
            table_arg_options: Some(options),
            in_subquery_values: Vec::new(),
        })))
    }

    /// What follows the brackets of a call.
    pub(super) fn function_suffix(&mut self, mut value: Expression) -> Result<Expression, Diagnostic> {
        if self.cursor.eat(&["WITHIN", "GROUP"]) {
            self.cursor.expect_token(&Token::LParen)?;
            self.cursor.expect(&["ORDER", "BY"])?;
            let orders = self.comma_separated(Parser::sort_item)?;
            self.cursor.expect_token(&Token::RParen)?;
            let orders = orders.into_iter().map(|order| expression(ExprType::SortOrder(Box::new(order))));
            value = call("__within_group", std::iter::once(value).chain(orders).collect());
        }
        if self.cursor.is("FILTER") && self.nth_is_token(1, &Token::LParen) && self.cursor.nth_is(2, "WHERE") {
            self.cursor.advance();
            self.cursor.advance();
            self.cursor.advance();
            let condition = self.expression()?;
            self.cursor.expect_token(&Token::RParen)?;
            value = call("__filter", vec![value, condition]);
        }
        if self.cursor.eat(&["IGNORE", "NULLS"]) {
            value = ignoring_nulls(value);
        } else {
            self.cursor.eat(&["RESPECT", "NULLS"]);
        }
        if self.cursor.is("OVER") && (self.nth_is_token(1, &Token::LParen) || self.nth_is_word(1)) {
            return self.over(value);
        }
        Ok(value)
    }
}

/// `first(x) IGNORE NULLS` is `first(x, true)`; other functions are wrapped.
fn ignoring_nulls(mut value: Expression) -> Expression {
    if let Some(function) = function_mut(&mut value)
        && function.arguments.len() == 1
        && let Some((_, name)) = WITH_IGNORE_ARGUMENT.iter().find(|(known, _)| function.function_name.eq_ignore_ascii_case(known))
    {
        function.function_name = (*name).to_owned();
        function.arguments.push(boolean(true));
        return value;
    }
    call("__ignore_nulls", vec![value])
}
