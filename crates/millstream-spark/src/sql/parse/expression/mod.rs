//! Expressions: operators by precedence, without one stack frame per operator of a chain.

mod function;
mod primary;
mod reference;
mod special;
mod window;

use datafusion::sql::sqlparser::tokenizer::Token;
use spark_connect_proto::expression::sort_order::{NullOrdering, SortDirection};
use spark_connect_proto::expression::{ExprType, SortOrder};
use spark_connect_proto::subquery_expression::SubqueryType;
use spark_connect_proto::{Expression, SubqueryExpression};

use super::lexer::SHIFT_RIGHT_UNSIGNED;
use super::parser::Parser;
use super::proto::{alias, call, expression, function, function_mut, sort_order, syntax_call};
use crate::sql::Diagnostic;

pub(super) use window::NamedWindow;

/// An operator between two values: how strongly it binds, and its function.
struct Operator {
    binds: u8,
    name: &'static str,
    /// Spark names the column after the operator and not after this function.
    syntax: bool,
}

/// The precedence of comparisons, the loosest between values.
const COMPARISON: u8 = 1;

/// Words that go on with a query where a name without `AS` could stand after a column.
const NOT_COLUMN_ALIASES: &[&str] = &[
    "FROM",
    "WHERE",
    "GROUP",
    "HAVING",
    "ORDER",
    "SORT",
    "CLUSTER",
    "DISTRIBUTE",
    "LIMIT",
    "OFFSET",
    "UNION",
    "EXCEPT",
    "INTERSECT",
    "MINUS",
    "WINDOW",
    "LATERAL",
    "QUALIFY",
    "INTO",
    "AND",
    "OR",
    "IS",
    "IN",
    "LIKE",
    "ILIKE",
    "RLIKE",
    "REGEXP",
    "BETWEEN",
    "NOT",
    "DIV",
    "DELAY",
    "COLLATE",
    "ON",
    "USING",
    "JOIN",
    "FOR",
];

impl Parser<'_> {
    /// An expression of any type.
    pub(in crate::sql::parse) fn expression(&mut self) -> Result<Expression, Diagnostic> {
        self.nested(Parser::disjunction)
    }

    /// An expression that may have a name: `a + 1 AS b`, `explode(m) AS (k, v)`.
    pub(in crate::sql::parse) fn named_expression(&mut self) -> Result<Expression, Diagnostic> {
        let value = self.expression()?;
        let names = if self.cursor.eat(&["AS"]) {
            if self.is_token(&Token::LParen) { self.name_list("a column's name")? } else { vec![self.name("a column's name")?] }
        } else if self.is_token(&Token::LParen)
            && self.nth_is_word(1)
            && matches!(self.cursor.peek_nth(2), Some(Token::Comma | Token::RParen))
        {
            self.name_list("a column's name")?
        } else if self.at_column_alias() {
            vec![self.name("a column's name")?]
        } else {
            return Ok(value);
        };
        if names.len() > 1 && function(&value).is_none() {
            let message = format!("there are {} names for an expression that gives one column", names.len());
            self.defer(Diagnostic::new("MULTI_ALIAS_WITHOUT_GENERATOR", "42K0E", self.position(), message));
        }
        Ok(alias(value, names))
    }

    fn at_column_alias(&self) -> bool {
        let Some(Token::Word(word)) = self.cursor.peek() else { return false };
        if word.quote_style.is_some() {
            return true;
        }
        let upper = word.value.to_ascii_uppercase();
        if !NOT_COLUMN_ALIASES.contains(&upper.as_str()) {
            return true;
        }
        // A clause's word is a name where its clause cannot begin.
        match upper.as_str() {
            "GROUP" | "ORDER" | "SORT" | "CLUSTER" | "DISTRIBUTE" => !self.cursor.nth_is(1, "BY"),
            "LIMIT" | "OFFSET" | "FROM" | "WINDOW" | "LATERAL" | "DELAY" | "WHERE" | "FOR" => {
                matches!(self.cursor.peek_nth(1), None | Some(Token::Comma | Token::RParen | Token::SemiColon))
                    || (upper != "FROM" && self.cursor.nth_is(1, "FROM"))
            }
            _ => false,
        }
    }

    /// `a OR b OR …`, as a balanced tree.
    fn disjunction(&mut self) -> Result<Expression, Diagnostic> {
        let first = self.conjunction()?;
        if !self.cursor.is("OR") {
            return Ok(first);
        }
        let mut operands = vec![first];
        while self.cursor.eat(&["OR"]) {
            operands.push(self.nested(Parser::conjunction)?);
        }
        self.balanced("or", operands)
    }

    fn conjunction(&mut self) -> Result<Expression, Diagnostic> {
        let first = self.condition()?;
        if !self.cursor.is("AND") {
            return Ok(first);
        }
        let mut operands = vec![first];
        while self.cursor.eat(&["AND"]) {
            operands.push(self.nested(Parser::condition)?);
        }
        self.balanced("and", operands)
    }

    /// The operands of an associative operator as a tree of the least height, halved as Spark halves it.
    pub(super) fn balanced(&mut self, name: &str, operands: Vec<Expression>) -> Result<Expression, Diagnostic> {
        self.grow(usize::BITS.saturating_sub(operands.len().leading_zeros()) as usize)?;
        let mut operands: Vec<Option<Expression>> = operands.into_iter().map(Some).collect();
        halve(name, &mut operands).ok_or_else(|| self.cursor.expected("an expression"))
    }

    /// `NOT …`, `EXISTS (…)`, or a value with at most one predicate.
    fn condition(&mut self) -> Result<Expression, Diagnostic> {
        let negated = self.is_token(&Token::ExclamationMark) || (self.cursor.is("NOT") && !self.nth_is_token(1, &Token::Period));
        if negated {
            self.cursor.advance();
            let inner = self.nested(Parser::condition)?;
            return Ok(call("not", vec![inner]));
        }
        if self.cursor.is("EXISTS") && self.nth_is_token(1, &Token::LParen) && self.at_query(2) {
            self.cursor.advance();
            return self.subquery(SubqueryType::Exists, Vec::new());
        }
        let value = self.value(COMPARISON)?;
        self.predicate(value)
    }

    /// Values and the operators between them that bind at least as strongly as `least`.
    pub(super) fn value(&mut self, least: u8) -> Result<Expression, Diagnostic> {
        let mut left = self.signed()?;
        while let Some(operator) = self.operator().filter(|operator| operator.binds >= least) {
            self.cursor.advance();
            let right = self.nested(|parser| parser.value(operator.binds + 1))?;
            if operator.name == "concat"
                && self.is_high()
                && let Some(longer) = function_mut(&mut left).filter(|function| function.function_name == "concat")
            {
                longer.arguments.push(right);
                continue;
            }
            self.grow(1)?;
            left = match operator.name {
                "!=" => call("not", vec![call("==", vec![left, right])]),
                name if operator.syntax => syntax_call(name, vec![left, right]),
                name => call(name, vec![left, right]),
            };
        }
        Ok(left)
    }

    fn operator(&self) -> Option<Operator> {
        let plain = |binds, name| Some(Operator { binds, name, syntax: false });
        let syntax = |binds, name| Some(Operator { binds, name, syntax: true });
        match self.cursor.peek()? {
            Token::Mul => plain(7, "*"),
            Token::Div => plain(7, "/"),
            Token::Mod => plain(7, "%"),
            Token::Word(word) if word.quote_style.is_none() && word.value.eq_ignore_ascii_case("DIV") => plain(7, "div"),
            Token::Plus => plain(6, "+"),
            Token::Minus => plain(6, "-"),
            Token::StringConcat => plain(6, "concat"),
            Token::ShiftLeft => syntax(5, "shiftleft"),
            Token::ShiftRight => syntax(5, "shiftright"),
            Token::CustomBinaryOperator(text) if text == SHIFT_RIGHT_UNSIGNED => syntax(5, "shiftrightunsigned"),
            Token::Ampersand => plain(4, "&"),
            Token::Caret => plain(3, "^"),
            Token::Pipe => plain(2, "|"),
            Token::Eq | Token::DoubleEq => plain(COMPARISON, "=="),
            Token::Spaceship => plain(COMPARISON, "<=>"),
            Token::Neq => plain(COMPARISON, "!="),
            Token::Lt => plain(COMPARISON, "<"),
            Token::LtEq => plain(COMPARISON, "<="),
            Token::Gt => plain(COMPARISON, ">"),
            Token::GtEq => plain(COMPARISON, ">="),
            _ => None,
        }
    }

    /// A value with signs before it. A minus before a number is part of the number.
    fn signed(&mut self) -> Result<Expression, Diagnostic> {
        let name = match self.cursor.peek() {
            Some(Token::Minus) if !matches!(self.cursor.peek_nth(1), Some(Token::Number(..))) => "negative",
            Some(Token::Plus) => "positive",
            Some(Token::Tilde) => "~",
            _ => return self.primary(),
        };
        self.cursor.advance();
        let operand = self.nested(Parser::signed)?;
        Ok(if name == "~" { call(name, vec![operand]) } else { syntax_call(name, vec![operand]) })
    }

    /// What may follow a value once: `IS NULL`, `IN (…)`, `BETWEEN`, `LIKE` and their like.
    fn predicate(&mut self, value: Expression) -> Result<Expression, Diagnostic> {
        if self.cursor.eat(&["IS"]) {
            return self.is_predicate(value);
        }
        let negated = self.cursor.is("NOT") && self.nth_is_any(1, &["BETWEEN", "IN", "RLIKE", "REGEXP", "LIKE", "ILIKE"]);
        if negated {
            self.cursor.advance();
        }
        let predicate = match self.keyword().as_deref() {
            Some("BETWEEN") => {
                self.cursor.advance();
                let low = self.nested(|parser| parser.value(COMPARISON))?;
                self.cursor.expect(&["AND"])?;
                let high = self.nested(|parser| parser.value(COMPARISON))?;
                call("between", vec![value, low, high])
            }
            Some("IN") => {
                self.cursor.advance();
                self.in_predicate(value)?
            }
            Some("RLIKE" | "REGEXP") => {
                self.cursor.advance();
                let pattern = self.nested(|parser| parser.value(COMPARISON))?;
                call("rlike", vec![value, pattern])
            }
            Some(name @ ("LIKE" | "ILIKE")) => {
                self.cursor.advance();
                return self.like_predicate(value, if name == "LIKE" { "like" } else { "ilike" }, negated);
            }
            _ => return Ok(value),
        };
        Ok(if negated { call("not", vec![predicate]) } else { predicate })
    }

    fn is_predicate(&mut self, value: Expression) -> Result<Expression, Diagnostic> {
        let negated = self.cursor.eat(&["NOT"]);
        let negate = |expression, negated: bool| if negated { call("not", vec![expression]) } else { expression };
        Ok(match self.keyword().as_deref() {
            Some("NULL" | "UNKNOWN") => {
                self.cursor.advance();
                call(if negated { "isnotnull" } else { "isnull" }, vec![value])
            }
            Some(word @ ("TRUE" | "FALSE")) => {
                self.cursor.advance();
                negate(call("<=>", vec![value, super::proto::boolean(word == "TRUE")]), negated)
            }
            Some("DISTINCT") => {
                self.cursor.advance();
                self.cursor.expect(&["FROM"])?;
                let right = self.nested(|parser| parser.value(COMPARISON))?;
                negate(call("<=>", vec![value, right]), !negated)
            }
            _ => return Err(self.cursor.expected("NULL, TRUE, FALSE, UNKNOWN or DISTINCT FROM")),
        })
    }

    fn in_predicate(&mut self, value: Expression) -> Result<Expression, Diagnostic> {
        if self.at_query(1) {
            // A row on the left is compared column by column.
            let values = match function(&value) {
                Some(row) if row.function_name == "struct" && row.is_internal == Some(true) => row.arguments.clone(),
                _ => vec![value],
            };
            return self.subquery(SubqueryType::In, values);
        }
        let mut arguments = vec![value];
        arguments.extend(self.parenthesized_list(Parser::expression)?);
        Ok(call("in", arguments))
    }

    fn like_predicate(&mut self, value: Expression, name: &str, negated: bool) -> Result<Expression, Diagnostic> {
        let not = |like| if negated { call("not", vec![like]) } else { like };
        let every = self.cursor.is("ALL");
        if self.is_any(&["ANY", "SOME", "ALL"]) && self.nth_is_token(1, &Token::LParen) {
            self.cursor.advance();
            let position = self.position();
            if self.nth_is_token(1, &Token::RParen) {
                self.cursor.advance();
                self.cursor.advance();
                self.defer(Diagnostic::syntax(position, "expected a pattern between the brackets"));
                return Ok(value);
            }
            let patterns = self.parenthesized_list(Parser::expression)?;
            let likes: Vec<Expression> = patterns.into_iter().map(|pattern| not(call(name, vec![value.clone(), pattern]))).collect();
            let mut all = self.balanced(if every { "and" } else { "or" }, likes)?;
            // Spark names its column `likeany(…)`.
            if let Some(function) = function_mut(&mut all).filter(|function| matches!(function.function_name.as_str(), "and" | "or")) {
                function.is_internal = Some(true);
            }
            return Ok(all);
        }
        let mut arguments = vec![value, self.nested(|parser| parser.value(COMPARISON))?];
        if self.cursor.eat(&["ESCAPE"]) {
            let position = self.position();
            let escape = self.cursor.string("one character as a string")?;
            if escape.chars().count() != 1 {
                self.defer(Diagnostic::new("INVALID_ESC", "42604", position, format!("the escape '{escape}' is not one character")));
            }
            arguments.push(super::proto::string(escape));
        }
        Ok(not(call(name, arguments)))
    }

    /// Whether a query begins at the token `n`, which follows an opening bracket.
    pub(in crate::sql::parse) fn at_query(&self, n: usize) -> bool {
        let next_is_word = self.nth_is_word(n + 1);
        if self.cursor.nth_is(n, "SELECT") || (self.nth_is_any(n, &["WITH", "FROM", "TABLE"]) && next_is_word) {
            return !self.cursor.nth_is(n + 1, "AS");
        }
        if self.cursor.nth_is(n, "VALUES") {
            return matches!(self.cursor.peek_nth(n + 1), Some(Token::LParen | Token::Number(..))) || self.nth_is_string(n + 1);
        }
        // Brackets in brackets: a query if what follows the inner ones goes on with one.
        self.nth_is_token(n, &Token::LParen)
            && self.at_query(n + 1)
            && match self.after_closing(n) {
                Some(Token::RParen) | None => true,
                Some(Token::Word(word)) => {
                    ["UNION", "EXCEPT", "INTERSECT", "MINUS", "ORDER", "SORT", "CLUSTER", "DISTRIBUTE", "LIMIT", "OFFSET"]
                        .iter()
                        .any(|keyword| keyword.eq_ignore_ascii_case(&word.value))
                }
                _ => false,
            }
    }

    /// A query in brackets as a value.
    pub(super) fn subquery(&mut self, kind: SubqueryType, values: Vec<Expression>) -> Result<Expression, Diagnostic> {
        self.cursor.expect_token(&Token::LParen)?;
        let query = self.query()?;
        self.cursor.expect_token(&Token::RParen)?;
        let plan_id = self.keep_subquery(query);
        Ok(expression(ExprType::SubqueryExpression(SubqueryExpression {
            plan_id,
            subquery_type: kind.into(),
            table_arg_options: None,
            in_subquery_values: values,
        })))
    }

    /// `a DESC NULLS LAST`.
    pub(in crate::sql::parse) fn sort_item(&mut self) -> Result<SortOrder, Diagnostic> {
        let child = self.expression()?;
        let descending = self.cursor.eat(&["DESC"]);
        if !descending {
            self.cursor.eat(&["ASC"]);
        }
        let nulls_first = if self.cursor.eat(&["NULLS", "FIRST"]) {
            true
        } else if self.cursor.eat(&["NULLS", "LAST"]) {
            false
        } else {
            !descending
        };
        Ok(sort_order(
            child,
            if descending { SortDirection::Descending } else { SortDirection::Ascending },
            if nulls_first { NullOrdering::SortNullsFirst } else { NullOrdering::SortNullsLast },
        ))
    }
}

/// Takes the operands out and joins them; `None` only if there are none.
fn halve(name: &str, operands: &mut [Option<Expression>]) -> Option<Expression> {
    if let [single] = operands {
        return single.take();
    }
    let middle = operands.len().saturating_sub(1) / 2 + 1;
    let (left, right) = operands.split_at_mut_checked(middle)?;
    Some(call(name, vec![halve(name, left)?, halve(name, right)?]))
}
