//! `ALTER`, `CACHE`, `REFRESH` and `COMMENT ON`.

use datafusion::sql::sqlparser::tokenizer::Token;

use super::{AlterAction, ColumnChange, ObjectKind, Statement};
use crate::sql::Diagnostic;
use crate::sql::parse::parser::Parser;

impl Parser<'_> {
    pub(super) fn alter(&mut self) -> Result<Statement, Diagnostic> {
        self.cursor.expect(&["ALTER"])?;
        let kind = match self.keyword().as_deref() {
            Some("TABLE") => ObjectKind::Table,
            Some("VIEW") => ObjectKind::View,
            Some("DATABASE" | "SCHEMA" | "NAMESPACE") => ObjectKind::Database,
            _ => return Err(self.cursor.expected("TABLE, VIEW or DATABASE")),
        };
        self.cursor.advance();
        let name = self.names("a name")?;
        let action = self.alter_action(kind)?;
        Ok(Statement::Alter { kind, name, action })
    }

    fn alter_action(&mut self, kind: ObjectKind) -> Result<AlterAction, Diagnostic> {
        if self.cursor.eat(&["RENAME", "TO"]) {
            return Ok(AlterAction::Rename(self.names("the new name")?));
        }
        if self.cursor.eat(&["RENAME", "COLUMN"]) {
            let column = self.names("a column's name")?;
            self.cursor.expect(&["TO"])?;
            return Ok(AlterAction::RenameColumn { column, to: self.name("the new name")? });
        }
        if self.cursor.eat(&["SET", "TBLPROPERTIES"])
            || self.cursor.eat(&["SET", "DBPROPERTIES"])
            || self.cursor.eat(&["SET", "PROPERTIES"])
        {
            return Ok(AlterAction::SetProperties(self.properties()?));
        }
        if self.cursor.eat(&["UNSET", "TBLPROPERTIES"]) || self.cursor.eat(&["UNSET", "DBPROPERTIES"]) {
            self.cursor.eat(&["IF", "EXISTS"]);
            return Ok(AlterAction::UnsetProperties(self.properties()?.into_keys().collect()));
        }
        if self.cursor.eat(&["SET", "LOCATION"]) {
            return Ok(AlterAction::SetLocation(self.cursor.string("the location")?));
        }
        if self.cursor.eat(&["CLUSTER", "BY"]) {
            if self.cursor.eat(&["NONE"]) {
                return Ok(AlterAction::ClusterBy(Vec::new()));
            }
            return Ok(AlterAction::ClusterBy(self.parenthesized_list(|parser| Ok(parser.names("a column's name")?.join(".")))?));
        }
        if kind == ObjectKind::View {
            self.cursor.eat(&["AS"]);
            let mark = self.cursor.mark();
            let query = Box::new(self.query()?);
            return Ok(AlterAction::As { query, text: self.text_since(mark).to_owned() });
        }
        if self.cursor.eat(&["ADD", "COLUMNS"]) || self.cursor.eat(&["ADD", "COLUMN"]) {
            let columns = match self.is_token(&Token::LParen) {
                true => self.parenthesized_list(Parser::added_column)?,
                false => self.comma_separated(Parser::added_column)?,
            };
            return Ok(AlterAction::AddColumns(columns));
        }
        if self.cursor.eat(&["ADD", "CONSTRAINT"]) {
            let name = self.name("a constraint's name")?;
            self.cursor.expect(&["CHECK"])?;
            self.cursor.expect_token(&Token::LParen)?;
            let mark = self.cursor.mark();
            let check = Box::new(self.expression()?);
            let text = self.text_since(mark).to_owned();
            self.cursor.expect_token(&Token::RParen)?;
            return Ok(AlterAction::AddConstraint { name, check, text });
        }
        if self.cursor.eat(&["DROP", "CONSTRAINT"]) {
            let if_exists = self.cursor.eat(&["IF", "EXISTS"]);
            return Ok(AlterAction::DropConstraint { name: self.name("a constraint's name")?, if_exists });
        }
        if self.cursor.eat(&["DROP", "COLUMNS"]) || self.cursor.eat(&["DROP", "COLUMN"]) {
            let if_exists = self.cursor.eat(&["IF", "EXISTS"]);
            let columns = if self.is_token(&Token::LParen) {
                self.parenthesized_list(|parser| parser.names("a column's name"))?
            } else {
                self.comma_separated(|parser| parser.names("a column's name"))?
            };
            return Ok(AlterAction::DropColumns { columns, if_exists });
        }
        if self.cursor.eat(&["ALTER", "COLUMN"]) || self.cursor.eat(&["CHANGE", "COLUMN"]) || self.cursor.eat(&["ALTER"]) {
            return self.altered_column();
        }
        if self.is_any(&["ADD", "DROP", "RECOVER", "PARTITION"]) {
            self.cursor.rest();
            return Ok(AlterAction::Partitions);
        }
        Err(self.cursor.expected("RENAME, ADD COLUMNS, DROP COLUMNS, ALTER COLUMN, SET TBLPROPERTIES or SET LOCATION"))
    }

    fn added_column(&mut self) -> Result<(arrow::datatypes::Field, Option<String>), Diagnostic> {
        let name = self.names("a column's name")?.join(".");
        let field = self.column_type(&name)?;
        let after = if self.cursor.eat(&["AFTER"]) {
            Some(self.names("a column's name")?.join("."))
        } else if self.cursor.eat(&["FIRST"]) {
            Some(String::new())
        } else {
            None
        };
        Ok((field, after))
    }

    fn altered_column(&mut self) -> Result<AlterAction, Diagnostic> {
        let column = self.names("a column's name")?;
        let change = if self.cursor.eat(&["TYPE"]) {
            ColumnChange::Type(self.column_type(&column.join("."))?)
        } else if self.cursor.eat(&["COMMENT"]) {
            ColumnChange::Comment(self.cursor.string("the comment")?)
        } else if self.cursor.eat(&["DROP", "NOT", "NULL"]) {
            ColumnChange::Nullable(true)
        } else if self.cursor.eat(&["SET", "NOT", "NULL"]) {
            ColumnChange::Nullable(false)
        } else {
            return Err(self.cursor.expected("TYPE, COMMENT, DROP NOT NULL or SET NOT NULL"));
        };
        Ok(AlterAction::AlterColumn { column, change })
    }

    pub(super) fn cache(&mut self) -> Result<Statement, Diagnostic> {
        self.cursor.expect(&["CACHE"])?;
        let lazy = self.cursor.eat(&["LAZY"]);
        self.cursor.expect(&["TABLE"])?;
        let name = self.names("a table")?;
        if self.cursor.eat(&["OPTIONS"]) {
            self.properties()?;
        }
        let has_query = self.cursor.eat(&["AS"]) || self.is_any(&["SELECT", "WITH", "VALUES", "FROM"]);
        let query = if has_query { Some(self.query()?) } else { None };
        Ok(Statement::Cache { name, lazy, query })
    }

    pub(super) fn refresh(&mut self) -> Result<Statement, Diagnostic> {
        self.cursor.expect(&["REFRESH"])?;
        if self.nth_is_string(0) {
            return Ok(Statement::RefreshPath { path: self.cursor.string("a path")? });
        }
        if self.cursor.is("TABLE") && self.nth_is_word(1) {
            self.cursor.advance();
            return Ok(Statement::RefreshTable { name: self.names("a table")? });
        }
        let path = self.text_ahead().trim().trim_end_matches(';').to_owned();
        self.cursor.rest();
        Ok(Statement::RefreshPath { path })
    }

    pub(super) fn comment_on(&mut self) -> Result<Statement, Diagnostic> {
        self.cursor.expect(&["COMMENT", "ON"])?;
        let kind = match self.keyword().as_deref() {
            Some("TABLE") => ObjectKind::Table,
            Some("VIEW") => ObjectKind::View,
            Some("DATABASE" | "SCHEMA" | "NAMESPACE") => ObjectKind::Database,
            _ => return Err(self.cursor.expected("TABLE or DATABASE")),
        };
        self.cursor.advance();
        let name = self.names("a name")?;
        self.cursor.expect(&["IS"])?;
        let comment = if self.cursor.eat(&["NULL"]) { None } else { Some(self.cursor.string("the comment")?) };
        Ok(Statement::Comment { kind, name, comment })
    }
}
