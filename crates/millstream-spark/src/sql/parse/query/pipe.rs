//! Pipes: `FROM t |> WHERE a > 1 |> SELECT b`.

use datafusion::sql::sqlparser::tokenizer::Token;
use spark_connect_proto::expression::{Alias, ExprType};
use spark_connect_proto::relation::RelType;
use spark_connect_proto::{Drop as DropColumns, Relation, WithColumns};

use super::group::Grouping;
use super::projected;
use super::select::{filtered, grouped};
use crate::sql::Diagnostic;
use crate::sql::parse::parser::Parser;
use crate::sql::parse::proto::{aliased, attribute, relation, star};

impl Parser<'_> {
    /// A query and the operators piped after it.
    pub(super) fn piped(&mut self, mut input: Relation) -> Result<Relation, Diagnostic> {
        while self.cursor.eat_token(&Token::VerticalBarRightAngleBracket) {
            input = self.pipe_operator(input)?;
            self.grow(1)?;
        }
        Ok(input)
    }

    fn pipe_operator(&mut self, input: Relation) -> Result<Relation, Diagnostic> {
        match self.keyword().as_deref() {
            Some("SELECT") => self.select(Some(input)),
            Some("WHERE") => {
                self.cursor.advance();
                let condition = self.expression()?;
                Ok(filtered(input, condition))
            }
            Some("EXTEND") => {
                self.cursor.advance();
                let mut items = vec![star::<&str>(&[])];
                items.extend(self.comma_separated(Parser::named_expression)?);
                Ok(projected(Some(input), items))
            }
            Some("SET") => {
                self.cursor.advance();
                let aliases = self.comma_separated(|parser| {
                    let name = vec![parser.name("a column's name")?];
                    parser.cursor.expect_token(&Token::Eq)?;
                    Ok(Alias { expr: Some(Box::new(parser.expression()?)), name, metadata: None })
                })?;
                Ok(relation(RelType::WithColumns(Box::new(WithColumns { input: Some(Box::new(input)), aliases }))))
            }
            Some("DROP") => {
                self.cursor.advance();
                let columns = self.comma_separated(|parser| Ok(attribute(&parser.names("a column's name")?)))?;
                let drop = DropColumns { input: Some(Box::new(input)), columns, column_names: Vec::new() };
                Ok(relation(RelType::Drop(Box::new(drop))))
            }
            Some("AS") => {
                self.cursor.advance();
                Ok(aliased(input, self.name("an alias")?))
            }
            Some("AGGREGATE") => self.pipe_aggregate(input),
            Some("ORDER" | "SORT" | "CLUSTER" | "DISTRIBUTE" | "LIMIT" | "OFFSET") => self.organized(input),
            Some("UNION" | "EXCEPT" | "MINUS" | "INTERSECT") => self.more_set_operations(input),
            Some("TABLESAMPLE") => self.sampled(input),
            Some("PIVOT") => self.pivot(input),
            Some("UNPIVOT") => self.unpivot(input),
            _ => match self.join(input)? {
                (joined, true) => Ok(joined),
                _ => Err(self
                    .cursor
                    .expected("a pipe operator: SELECT, WHERE, EXTEND, SET, DROP, AS, AGGREGATE, JOIN, ORDER BY, LIMIT or UNION")),
            },
        }
    }

    /// `AGGREGATE sum(a) GROUP BY b`: the keys come first in the result.
    fn pipe_aggregate(&mut self, input: Relation) -> Result<Relation, Diagnostic> {
        self.cursor.expect(&["AGGREGATE"])?;
        let aggregates = if self.cursor.is("GROUP") { Vec::new() } else { self.comma_separated(Parser::named_expression)? };
        let keys = if self.cursor.eat(&["GROUP", "BY"]) { self.comma_separated(Parser::named_expression)? } else { Vec::new() };
        let unnamed = keys.iter().map(|key| match &key.expr_type {
            Some(ExprType::Alias(alias)) => alias.expr.as_deref().unwrap_or(key).clone(),
            _ => key.clone(),
        });
        let grouping = Grouping { keys: unnamed.collect(), sets: None };
        Ok(grouped(input, grouping, keys.into_iter().chain(aggregates).collect()))
    }
}
