//! `INSERT`, `MERGE`, `UPDATE`, `DELETE` and `TRUNCATE`.

use std::collections::BTreeMap;

use datafusion::sql::sqlparser::tokenizer::Token;
use spark_connect_proto::expression::ExprType;
use spark_connect_proto::merge_action::{ActionType, Assignment};
use spark_connect_proto::{Expression, MergeAction, MergeIntoTableCommand};

use super::{Insert, InsertTarget, Statement};
use crate::sql::Diagnostic;
use crate::sql::parse::parser::Parser;
use crate::sql::parse::proto::{attribute, dotted, expression};

impl Parser<'_> {
    pub(super) fn insert(&mut self) -> Result<Statement, Diagnostic> {
        self.cursor.expect(&["INSERT"])?;
        let evolves = self.cursor.eat(&["WITH", "SCHEMA", "EVOLUTION"]);
        let overwrite = self.cursor.eat(&["OVERWRITE"]);
        if overwrite && (self.cursor.is("DIRECTORY") || self.cursor.are(&["LOCAL", "DIRECTORY"])) {
            return self.insert_directory();
        }
        if !overwrite {
            self.cursor.expect(&["INTO"])?;
        }
        if self.nth_is_word(1) {
            self.cursor.eat(&["TABLE"]);
        }
        let name = self.names("the name of a table")?;
        let options = if self.cursor.is("WITH") && self.nth_is_token(1, &Token::LParen) {
            self.cursor.advance();
            self.properties()?
        } else {
            BTreeMap::new()
        };
        let mut insert = Insert {
            target: InsertTarget::Table { name, options },
            overwrite,
            columns: Vec::new(),
            by_name: false,
            partition: Vec::new(),
            if_not_exists: false,
            replace_where: None,
            evolves,
            query: Default::default(),
        };
        if self.cursor.eat(&["PARTITION"]) {
            insert.partition = self.parenthesized_list(|parser| {
                let name = parser.name("a column's name")?;
                let value = if parser.cursor.eat_token(&Token::Eq) { Some(parser.nested(|parser| parser.value(2))?) } else { None };
                Ok((name, value))
            })?;
            insert.if_not_exists = self.cursor.eat(&["IF", "NOT", "EXISTS"]);
        }
        insert.by_name = self.cursor.eat(&["BY", "NAME"]);
        if self.cursor.are(&["REPLACE", "ON"]) || self.cursor.are(&["REPLACE", "USING"]) {
            let message = "INSERT INTO … REPLACE ON is not supported";
            return Err(Diagnostic::unsupported(self.position(), message).with_hint("use REPLACE WHERE, or MERGE INTO"));
        }
        if self.cursor.eat(&["REPLACE", "WHERE"]) {
            insert.replace_where = Some(self.expression()?);
        }
        if insert.by_name || self.cursor.eat(&["BY", "NAME"]) {
            insert.by_name = true;
        } else if self.is_token(&Token::LParen) && !self.at_query(1) {
            insert.columns = self.name_list("a column's name")?;
        }
        insert.query = self.query()?;
        Ok(Statement::Insert(insert))
    }

    fn insert_directory(&mut self) -> Result<Statement, Diagnostic> {
        self.cursor.eat(&["LOCAL"]);
        self.cursor.expect(&["DIRECTORY"])?;
        let path = if self.nth_is_string(0) { Some(self.cursor.string("a path")?) } else { None };
        self.cursor.expect(&["USING"])?;
        let provider = self.names("a format")?.join(".");
        let options = if self.cursor.eat(&["OPTIONS"]) { self.properties()? } else { BTreeMap::new() };
        Ok(Statement::Insert(Insert {
            target: InsertTarget::Directory { path, provider, options },
            overwrite: true,
            columns: Vec::new(),
            by_name: false,
            partition: Vec::new(),
            if_not_exists: false,
            replace_where: None,
            evolves: false,
            query: self.query()?,
        }))
    }

    pub(super) fn merge(&mut self) -> Result<Statement, Diagnostic> {
        self.cursor.expect(&["MERGE"])?;
        let with_schema_evolution = self.cursor.eat(&["WITH", "SCHEMA", "EVOLUTION"]);
        self.cursor.expect(&["INTO"])?;
        let target = self.names("the name of a table")?;
        let alias = self.table_alias()?.map(|alias| alias.0);
        self.cursor.expect(&["USING"])?;
        let source = self.relation_primary()?;
        self.cursor.expect(&["ON"])?;
        let mut command = MergeIntoTableCommand {
            target_table_name: dotted(&target),
            source_table_plan: Some(source),
            merge_condition: Some(self.expression()?),
            with_schema_evolution,
            ..Default::default()
        };
        while self.cursor.eat(&["WHEN"]) {
            if self.cursor.eat(&["MATCHED"]) {
                let action = self.merge_action(false)?;
                command.match_actions.push(action);
            } else if self.cursor.eat(&["NOT", "MATCHED", "BY", "SOURCE"]) {
                let action = self.merge_action(false)?;
                command.not_matched_by_source_actions.push(action);
            } else {
                self.cursor.expect(&["NOT", "MATCHED"])?;
                self.cursor.eat(&["BY", "TARGET"]);
                let action = self.merge_action(true)?;
                command.not_matched_actions.push(action);
            }
        }
        if command.match_actions.is_empty() && command.not_matched_actions.is_empty() && command.not_matched_by_source_actions.is_empty() {
            return Err(self.cursor.expected("WHEN"));
        }
        Ok(Statement::Merge { alias, command })
    }

    /// `AND condition THEN …`.
    fn merge_action(&mut self, inserts: bool) -> Result<Expression, Diagnostic> {
        let condition = if self.cursor.eat(&["AND"]) { Some(Box::new(self.expression()?)) } else { None };
        self.cursor.expect(&["THEN"])?;
        let (kind, assignments) = if inserts {
            self.cursor.expect(&["INSERT"])?;
            if self.cursor.eat_token(&Token::Mul) {
                (ActionType::InsertStar, Vec::new())
            } else {
                let columns = self.parenthesized_list(|parser| Ok(attribute(&parser.names("a column's name")?)))?;
                self.cursor.expect(&["VALUES"])?;
                let position = self.position();
                let values = self.parenthesized_list(Parser::expression)?;
                if columns.len() != values.len() {
                    let message = format!("there are {} columns and {} values", columns.len(), values.len());
                    self.defer(Diagnostic::syntax(position, message));
                }
                (ActionType::Insert, columns.into_iter().zip(values).collect())
            }
        } else if self.cursor.eat(&["DELETE"]) {
            (ActionType::Delete, Vec::new())
        } else {
            self.cursor.expect(&["UPDATE", "SET"])?;
            if self.cursor.eat_token(&Token::Mul) {
                (ActionType::UpdateStar, Vec::new())
            } else {
                (ActionType::Update, self.assignments()?)
            }
        };
        let assignments = assignments.into_iter().map(|(key, value)| Assignment { key: Some(key), value: Some(value) }).collect();
        let action = MergeAction { action_type: kind.into(), condition, assignments };
        Ok(expression(ExprType::MergeAction(Box::new(action))))
    }

    /// `a = 1, b.c = 2`.
    fn assignments(&mut self) -> Result<Vec<(Expression, Expression)>, Diagnostic> {
        self.comma_separated(|parser| {
            let key = attribute(&parser.names("a column's name")?);
            parser.cursor.expect_token(&Token::Eq)?;
            Ok((key, parser.expression()?))
        })
    }

    pub(super) fn update(&mut self) -> Result<Statement, Diagnostic> {
        self.cursor.expect(&["UPDATE"])?;
        let table = self.names("the name of a table")?;
        let alias = self.table_alias()?.map(|alias| alias.0);
        self.cursor.expect(&["SET"])?;
        let assignments = self.assignments()?;
        let condition = if self.cursor.eat(&["WHERE"]) { Some(self.expression()?) } else { None };
        Ok(Statement::Update { table, alias, assignments, condition })
    }

    pub(super) fn delete(&mut self) -> Result<Statement, Diagnostic> {
        self.cursor.expect(&["DELETE", "FROM"])?;
        let table = self.names("the name of a table")?;
        let alias = self.table_alias()?.map(|alias| alias.0);
        let condition = if self.cursor.eat(&["WHERE"]) { Some(self.expression()?) } else { None };
        Ok(Statement::Delete { table, alias, condition })
    }

    pub(super) fn truncate(&mut self) -> Result<Statement, Diagnostic> {
        self.cursor.expect(&["TRUNCATE", "TABLE"])?;
        let table = self.names("the name of a table")?;
        if self.cursor.is("PARTITION") {
            return Err(
                Diagnostic::unsupported(self.position(), "TRUNCATE of a partition is not supported").with_hint("use DELETE FROM … WHERE")
            );
        }
        Ok(Statement::Truncate { table })
    }
}
