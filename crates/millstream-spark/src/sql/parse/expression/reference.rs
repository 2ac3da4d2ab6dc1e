//! Names: columns and their fields, stars, and the variables of lambda functions.

use datafusion::sql::sqlparser::tokenizer::Token;
use spark_connect_proto::Expression;
use spark_connect_proto::expression::{ExprType, UnresolvedNamedLambdaVariable};

use crate::sql::Diagnostic;
use crate::sql::parse::parser::Parser;
use crate::sql::parse::proto::{attribute, expression, extract, star, string, syntax_call};

impl Parser<'_> {
    /// `a`, `a.b.c`, `a.b.*`, or a call of the function with that name.
    pub(super) fn reference(&mut self) -> Result<Expression, Diagnostic> {
        let mut parts = if self.cursor.is("IDENTIFIER") && self.nth_is_token(1, &Token::LParen) {
            self.identifier_clause()?
        } else {
            vec![self.cursor.identifier("a name")?.value]
        };
        while self.is_token(&Token::Period) {
            if self.nth_is_token(1, &Token::Mul) {
                self.cursor.advance();
                return self.star(parts);
            }
            if !self.nth_is_word(1) {
                break;
            }
            self.cursor.advance();
            parts.push(self.cursor.identifier("a name after '.'")?.value);
        }
        if self.is_token(&Token::LParen) {
            return self.function_call(parts);
        }
        Ok(self.named(parts))
    }

    /// What a name in reach stands for: a variable of a lambda function around, or a column.
    fn named(&self, parts: Vec<String>) -> Expression {
        let variable =
            parts.first().and_then(|first| self.lambdas.iter().rev().flatten().find(|parameter| parameter.eq_ignore_ascii_case(first)));
        let Some(variable) = variable else { return attribute(&parts) };
        let variable = UnresolvedNamedLambdaVariable { name_parts: vec![variable.clone()] };
        let start = expression(ExprType::UnresolvedNamedLambdaVariable(variable));
        parts.into_iter().skip(1).fold(start, |value, field| extract(value, string(field)))
    }

    /// `*` after the parts of its target, with `EXCEPT (…)`.
    pub(super) fn star(&mut self, target: Vec<String>) -> Result<Expression, Diagnostic> {
        self.cursor.expect_token(&Token::Mul)?;
        let star = star(&target);
        if !(self.cursor.is("EXCEPT") && self.nth_is_token(1, &Token::LParen) && !self.at_query(2)) {
            return Ok(star);
        }
        self.cursor.advance();
        let mut arguments = vec![star];
        arguments.extend(self.parenthesized_list(|parser| Ok(attribute(&parser.names("a column's name")?)))?);
        Ok(syntax_call("star except", arguments))
    }
}
