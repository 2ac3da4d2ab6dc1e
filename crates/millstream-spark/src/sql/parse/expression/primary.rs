//! The smallest expressions, and what may follow them: `a.b`, `m['k']`, `x::int`, `v:a.b[0]`.

use datafusion::sql::sqlparser::tokenizer::Token;
use spark_connect_proto::Expression;
use spark_connect_proto::expression::cast::EvalMode;
use spark_connect_proto::expression::literal::LiteralType;
use spark_connect_proto::expression::{ExprType, LambdaFunction, UnresolvedNamedLambdaVariable};
use spark_connect_proto::subquery_expression::SubqueryType;

use super::COMPARISON;
use crate::sql::Diagnostic;
use crate::sql::parse::number::number;
use crate::sql::parse::parser::Parser;
use crate::sql::parse::proto::{boolean, call, cast, expression, extract, literal, null, string, syntax_call};

/// Words that are no columns without backticks.
const NOT_COLUMNS: &[&str] = &[
    "SELECT", "FROM", "WHERE", "HAVING", "UNION", "JOIN", "ON", "USING", "AND", "OR", "NOT", "IN", "IS", "BETWEEN", "LIKE", "ILIKE",
    "RLIKE", "AS", "THEN",
];

impl Parser<'_> {
    /// A value without operators.
    pub(super) fn primary(&mut self) -> Result<Expression, Diagnostic> {
        let mut value = self.atom()?;
        loop {
            match self.cursor.peek() {
                Some(Token::LBracket) => {
                    self.cursor.advance();
                    let index = self.nested(|parser| parser.value(COMPARISON))?;
                    self.cursor.expect_token(&Token::RBracket)?;
                    value = extract(value, index);
                }
                Some(Token::Period) if self.nth_is_word(1) => {
                    self.cursor.advance();
                    let field = self.cursor.identifier("a field")?.value;
                    value = match value.expr_type {
                        // Brackets around a column change nothing.
                        Some(ExprType::UnresolvedAttribute(mut column)) => {
                            column.unparsed_identifier = format!("{}.{}", column.unparsed_identifier, crate::types::quote(&field));
                            expression(ExprType::UnresolvedAttribute(column))
                        }
                        kind => extract(Expression { common: None, expr_type: kind }, string(field)),
                    };
                }
                Some(Token::DoubleColon) => {
                    self.cursor.advance();
                    value = cast(value, self.data_type()?, EvalMode::Unspecified);
                }
                Some(Token::Colon) if self.nth_is_word(1) || self.nth_is_token(1, &Token::LBracket) => {
                    self.cursor.advance();
                    let path = self.json_path()?;
                    value = syntax_call("variant_get", vec![value, string(path), string("variant")]);
                }
                Some(Token::Word(_)) if self.cursor.is("COLLATE") && self.nth_is_word(1) => {
                    self.cursor.advance();
                    let collation = self.names("a collation")?.join(".");
                    value = call("collate", vec![value, string(collation)]);
                }
                _ => return Ok(value),
            }
            self.grow(1)?;
        }
    }

    fn atom(&mut self) -> Result<Expression, Diagnostic> {
        match self.cursor.peek() {
            Some(Token::Number(..)) => self.number(false),
            Some(Token::Minus) if matches!(self.cursor.peek_nth(1), Some(Token::Number(..))) => {
                self.cursor.advance();
                self.number(true)
            }
            Some(Token::SingleQuotedString(_) | Token::DoubleQuotedString(_)) => Ok(string(self.cursor.string("a string")?)),
            Some(Token::Mul) => self.star(Vec::new()),
            Some(Token::LParen) => self.parenthesized(),
            Some(Token::Colon | Token::Question) => self.parameter(),
            Some(Token::Word(word)) if word.quote_style.is_some() => self.reference(),
            Some(Token::Word(_)) => self.word(),
            _ => Err(self.cursor.expected("an expression")),
        }
    }

    fn number(&mut self, negative: bool) -> Result<Expression, Diagnostic> {
        let position = self.position();
        let Some(Token::Number(text, _)) = self.cursor.peek() else { return Err(self.cursor.expected("a number")) };
        self.cursor.advance();
        let read = number(text, negative).map(literal);
        Ok(self.or_defer(read.map_err(|(code, sqlstate, message)| Diagnostic::new(code, sqlstate, position, message))))
    }

    /// A word without quotes at the beginning of a value.
    fn word(&mut self) -> Result<Expression, Diagnostic> {
        let upper = self.keyword().unwrap_or_default();
        let before_bracket = self.nth_is_token(1, &Token::LParen);
        match upper.as_str() {
            "TRUE" | "FALSE" => {
                self.cursor.advance();
                return Ok(boolean(upper == "TRUE"));
            }
            "NULL" => {
                self.cursor.advance();
                return Ok(null());
            }
            "CASE" if !self.nth_is_token(1, &Token::Period) && !before_bracket || self.is_case_of_brackets() => return self.case(),
            "INTERVAL" if self.at_interval() => return self.interval_literal(),
            _ => {}
        }
        if self.nth_is_string(1) {
            return self.typed_literal(&upper);
        }
        if before_bracket && let Some(special) = self.special(&upper)? {
            return Ok(special);
        }
        if self.nth_is_token(1, &Token::Arrow) {
            let name = self.cursor.identifier("a parameter")?.value;
            return self.lambda(vec![name]);
        }
        let begins_clause =
            matches!(upper.as_str(), "GROUP" | "ORDER" | "SORT" | "CLUSTER" | "DISTRIBUTE" | "PARTITION") && self.cursor.nth_is(1, "BY");
        let is_name = before_bracket && !matches!(upper.as_str(), "SELECT" | "FROM" | "WHERE") || self.nth_is_token(1, &Token::Period);
        if begins_clause || (!is_name && NOT_COLUMNS.contains(&upper.as_str())) {
            return Err(self.cursor.expected("an expression"));
        }
        self.reference()
    }

    /// `CASE (a) WHEN …`, and not a function of that name.
    fn is_case_of_brackets(&self) -> bool {
        self.nth_is_token(1, &Token::LParen)
            && match self.after_closing(1) {
                Some(Token::Word(word)) => !["FROM", "AS"].iter().any(|stop| stop.eq_ignore_ascii_case(&word.value)),
                Some(token) => !matches!(token, Token::Comma | Token::RParen | Token::SemiColon),
                None => false,
            }
    }

    /// `( … )`: an expression, a query, a row, or the parameters of a lambda function.
    fn parenthesized(&mut self) -> Result<Expression, Diagnostic> {
        if let Some(parameters) = self.lambda_parameters() {
            for _ in 0..=parameters.len() * 2 {
                self.cursor.advance();
            }
            return self.lambda(parameters);
        }
        if self.at_query(1) {
            return self.subquery(SubqueryType::Scalar, Vec::new());
        }
        self.cursor.advance();
        let mut values = self.comma_separated(Parser::named_expression)?;
        let single = match values.as_slice() {
            [single] => !matches!(single.expr_type, Some(ExprType::Alias(_))),
            _ => false,
        };
        if single || values.len() > 1 {
            self.cursor.expect_token(&Token::RParen)?;
        } else {
            return Err(self.cursor.expected("','"));
        }
        match values.pop() {
            Some(value) if single => Ok(value),
            last => {
                values.extend(last);
                Ok(syntax_call("struct", values))
            }
        }
    }

    /// The names in `(x, y) ->`, if that comes next.
    fn lambda_parameters(&self) -> Option<Vec<String>> {
        let mut names = Vec::new();
        let mut tokens = self.tokens_from(1);
        loop {
            match tokens.next()? {
                Token::Word(word) => names.push(word.value.clone()),
                _ => return None,
            }
            match tokens.next()? {
                Token::Comma => {}
                Token::RParen => return (names.len() > 1 && tokens.next()? == &Token::Arrow).then_some(names),
                _ => return None,
            }
        }
    }

    /// `-> body`, the parameters being read.
    fn lambda(&mut self, parameters: Vec<String>) -> Result<Expression, Diagnostic> {
        self.cursor.expect_token(&Token::Arrow)?;
        let arguments = parameters.iter().map(|name| UnresolvedNamedLambdaVariable { name_parts: vec![name.clone()] }).collect();
        self.lambdas.push(parameters);
        let body = self.expression();
        self.lambdas.pop();
        Ok(expression(ExprType::LambdaFunction(Box::new(LambdaFunction { function: Some(Box::new(body?)), arguments }))))
    }

    /// `:name` or `?`, replaced by its argument.
    fn parameter(&mut self) -> Result<Expression, Diagnostic> {
        let position = self.position();
        let (argument, name) = if self.cursor.eat_token(&Token::Question) {
            self.positional += 1;
            (self.arguments.positional.get(self.positional - 1).cloned(), format!("number {}", self.positional))
        } else {
            self.cursor.expect_token(&Token::Colon)?;
            let name = self.cursor.identifier("the name of a parameter")?.value;
            (self.arguments.named.get(&name).cloned(), format!("'{name}'"))
        };
        let bound = argument.map(|argument| match argument {
            // A client's alias gives the argument its name and nothing more.
            Expression { expr_type: Some(ExprType::Alias(alias)), .. } => alias.expr.map_or_else(null, |inner| *inner),
            argument => argument,
        });
        Ok(self.or_defer(bound.ok_or_else(|| {
            Diagnostic::new("UNBOUND_SQL_PARAMETER", "42P02", position, format!("parameter {name} has no argument"))
                .with_hint("give it in args of sql()")
        })))
    }

    /// `a.b[0]['k']` as the path of a variant.
    fn json_path(&mut self) -> Result<String, Diagnostic> {
        let mut path = String::from("$");
        if self.nth_is_word(0) {
            path.push_str(&json_key(&self.cursor.identifier("a key")?.value));
        }
        loop {
            if self.is_token(&Token::Period) && self.nth_is_word(1) {
                self.cursor.advance();
                path.push_str(&json_key(&self.cursor.identifier("a key")?.value));
            } else if self.cursor.eat_token(&Token::LBracket) {
                if self.nth_is_string(0) {
                    path.push_str(&json_key(&self.cursor.string("a key")?));
                } else {
                    path.push_str(&format!("[{}]", self.cursor.integer("an index")?));
                }
                self.cursor.expect_token(&Token::RBracket)?;
            } else {
                return Ok(path);
            }
        }
    }

    /// An expression of `IDENTIFIER(…)`: its constant text, cut at the dots.
    pub(in crate::sql::parse) fn identifier_clause(&mut self) -> Result<Vec<String>, Diagnostic> {
        self.cursor.expect(&["IDENTIFIER"])?;
        self.cursor.expect_token(&Token::LParen)?;
        let position = self.position();
        let value = self.expression()?;
        self.cursor.expect_token(&Token::RParen)?;
        match constant_text(&value) {
            Some(text) => crate::sql::parse::multipart_identifier(&text)
                .map_err(|_| Diagnostic::syntax(position, format!("'{text}' in IDENTIFIER is not a name"))),
            None => Err(Diagnostic::new(
                "NOT_A_CONSTANT_STRING.NOT_CONSTANT",
                "42601",
                position,
                "the expression of IDENTIFIER is not a constant string",
            )),
        }
    }
}

fn json_key(key: &str) -> String {
    if key.chars().all(|c| c.is_ascii_alphanumeric() || c == '_') { format!(".{key}") } else { format!("['{key}']") }
}

/// A string that is known without running anything: a literal, or literals joined.
fn constant_text(value: &Expression) -> Option<String> {
    match &value.expr_type {
        Some(ExprType::Literal(literal)) => match &literal.literal_type {
            Some(LiteralType::String(text)) => Some(text.clone()),
            _ => None,
        },
        Some(ExprType::UnresolvedFunction(function)) if function.function_name.eq_ignore_ascii_case("concat") => {
            function.arguments.iter().map(constant_text).collect()
        }
        _ => None,
    }
}
