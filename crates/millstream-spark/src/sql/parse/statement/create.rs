//! `CREATE` and `DROP`.

use std::collections::BTreeMap;

use arrow::datatypes::Field;
use datafusion::sql::sqlparser::tokenizer::Token;

use super::{CreateTable, CreateView, ObjectKind, Statement, ViewScope};
use crate::sql::Diagnostic;
use crate::sql::parse::parser::Parser;
use crate::sql::parse::proto::{attribute, call};

impl Parser<'_> {
    pub(super) fn create(&mut self) -> Result<Statement, Diagnostic> {
        let position = self.position();
        if self.cursor.eat(&["REPLACE"]) {
            self.cursor.expect(&["TABLE"])?;
            return self.create_table(CreateTable { replace: true, must_exist: true, ..CreateTable::default() });
        }
        self.cursor.expect(&["CREATE"])?;
        let replace = self.cursor.eat(&["OR", "REPLACE"]);
        if !replace && self.eat_any(&["DATABASE", "SCHEMA", "NAMESPACE"]) {
            return self.create_database();
        }
        self.cursor.eat(&["EXTERNAL"]);
        if self.cursor.eat(&["TABLE"]) {
            return self.create_table(CreateTable { replace, ..CreateTable::default() });
        }
        let global = self.cursor.eat(&["GLOBAL"]);
        let temporary = self.eat_any(&["TEMPORARY", "TEMP"]);
        if temporary && !global && self.cursor.is("TABLE") {
            return Err(Diagnostic::unsupported(position, "CREATE TEMPORARY TABLE is not supported").with_hint("create a temporary view"));
        }
        if !self.cursor.eat(&["VIEW"]) || (global && !temporary) {
            return Err(self.cursor.expected("TABLE, VIEW or DATABASE"));
        }
        let scope = match (global, temporary) {
            (true, _) => ViewScope::GlobalTemporary,
            (false, true) => ViewScope::Temporary,
            (false, false) => ViewScope::Permanent,
        };
        self.create_view(scope, replace, position)
    }

    fn create_view(&mut self, scope: ViewScope, replace: bool, position: crate::sql::Position) -> Result<Statement, Diagnostic> {
        let if_not_exists = self.cursor.eat(&["IF", "NOT", "EXISTS"]);
        let name = self.names("the name of a view")?;
        let temporary = scope != ViewScope::Permanent;
        if temporary && if_not_exists {
            let fault = Diagnostic::new(
                "_LEGACY_ERROR_TEMP_0053",
                "42000",
                position.clone(),
                "It is not allowed to define a TEMPORARY view with IF NOT EXISTS.",
            );
            self.defer(Diagnostic { sqlstate: None, ..fault });
        } else if if_not_exists && replace {
            let message = "a view is either replaced or left as it is: OR REPLACE with IF NOT EXISTS";
            self.defer(Diagnostic::new("CREATE_VIEW_WITH_IF_NOT_EXISTS_AND_REPLACE", "42601", position.clone(), message));
        }
        if temporary && name.len() > 1 && !self.cursor.is("USING") {
            let message = format!("the temporary view '{}' has the name of a database", name.join("."));
            self.defer(Diagnostic::new("INVALID_TEMP_OBJ_QUALIFIER", "42602", position.clone(), message));
        }
        if temporary
            && (self.cursor.is("USING") || (self.is_token(&Token::LParen) && self.nth_is_word(2) && !self.cursor.nth_is(2, "COMMENT")))
        {
            let columns = if self.is_token(&Token::LParen) { self.columns()? } else { Vec::new() };
            self.cursor.expect(&["USING"])?;
            let provider = self.names("a format")?.join(".");
            let options = if self.cursor.eat(&["OPTIONS"]) { self.properties()? } else { BTreeMap::new() };
            let global = scope == ViewScope::GlobalTemporary;
            let name = name.into_iter().next_back().unwrap_or_default();
            return Ok(Statement::CreateTemporaryViewUsing { name, replace, global, columns, provider, options });
        }
        let mut columns = Vec::new();
        if self.is_token(&Token::LParen) {
            columns = self.parenthesized_list(|parser| {
                let name = parser.name("a column's name")?;
                let comment = if parser.cursor.eat(&["COMMENT"]) { Some(parser.cursor.string("the comment")?) } else { None };
                Ok((name, comment))
            })?;
        }
        let (mut comment, mut properties) = (None, BTreeMap::new());
        loop {
            if self.cursor.eat(&["COMMENT"]) {
                comment = Some(self.cursor.string("the comment")?);
            } else if self.cursor.eat(&["TBLPROPERTIES"]) {
                properties = self.properties()?;
            } else if self.cursor.eat(&["DEFAULT", "COLLATION"]) {
                self.names("a collation")?;
            } else if self.cursor.eat(&["SCHEMA"]) {
                self.cursor.identifier("BINDING, COMPENSATION or EVOLUTION")?;
                self.cursor.eat(&["EVOLUTION"]);
            } else {
                break;
            }
        }
        self.cursor.expect(&["AS"])?;
        let mark = self.cursor.mark();
        let query = self.query()?;
        let text = self.text_since(mark).to_owned();
        Ok(Statement::CreateView(CreateView { name, scope, replace, if_not_exists, columns, comment, properties, query, text }))
    }

    fn create_table(&mut self, mut table: CreateTable) -> Result<Statement, Diagnostic> {
        table.if_not_exists = self.cursor.eat(&["IF", "NOT", "EXISTS"]);
        table.name = self.names("the name of a table")?;
        if self.cursor.eat(&["LIKE"]) {
            table.like = Some(self.names("a table")?);
        } else if self.is_token(&Token::LParen) && !self.at_query(1) {
            table.columns = self.columns()?;
        }
        self.table_clauses(&mut table)?;
        let has_query = self.cursor.eat(&["AS"]) || self.is_any(&["SELECT", "WITH", "VALUES"]) || self.at_query(0);
        if has_query {
            table.query = Some(self.query()?);
        }
        Ok(Statement::CreateTable(table))
    }

    /// The clauses between the columns of a table and its query, in any order.
    pub(super) fn table_clauses(&mut self, table: &mut CreateTable) -> Result<(), Diagnostic> {
        loop {
            if self.cursor.eat(&["USING"]) {
                table.provider = Some(self.names("a format")?.join("."));
            } else if self.cursor.eat(&["STORED", "AS"]) {
                table.provider = Some(self.cursor.identifier("a format")?.value);
            } else if self.cursor.eat(&["OPTIONS"]) {
                table.options = self.properties()?;
            } else if self.cursor.eat(&["TBLPROPERTIES"]) {
                table.properties = self.properties()?;
            } else if self.cursor.eat(&["PARTITIONED", "BY"]) {
                self.partitioning(table)?;
            } else if self.cursor.eat(&["CLUSTER", "BY"]) {
                table.clustering = self.parenthesized_list(|parser| Ok(parser.names("a column's name")?.join(".")))?;
            } else if self.cursor.eat(&["LOCATION"]) {
                table.location = Some(self.cursor.string("the location")?);
            } else if self.cursor.eat(&["COMMENT"]) {
                table.comment = Some(self.cursor.string("the comment")?);
            } else if self.cursor.are(&["CLUSTERED", "BY"]) || self.cursor.are(&["ROW", "FORMAT"]) || self.cursor.are(&["STORED", "BY"]) {
                return Err(Diagnostic::unsupported(self.position(), "tables with buckets or Hive's formats of rows are not supported"));
            } else {
                return Ok(());
            }
        }
    }

    /// `(a, b)`, typed columns, or transforms such as `days(ts)`.
    fn partitioning(&mut self, table: &mut CreateTable) -> Result<(), Diagnostic> {
        let mut typed: Vec<Field> = Vec::new();
        table.partitioning = self.parenthesized_list(|parser| {
            if parser.nth_is_token(1, &Token::LParen) {
                let name = parser.cursor.identifier("a transform")?.value;
                let arguments = parser.parenthesized_list(Parser::expression)?;
                return Ok(call(name, arguments));
            }
            let name = parser.names("a column's name")?;
            if parser.nth_is_word(0) {
                let field = parser.column_type(&name.join("."))?;
                typed.push(field);
            }
            Ok(attribute(&name))
        })?;
        table.columns.extend(typed);
        Ok(())
    }

    /// `(a INT NOT NULL COMMENT 'x', b STRING)`.
    pub(super) fn columns(&mut self) -> Result<Vec<Field>, Diagnostic> {
        let mut fields: Vec<Field> = Vec::new();
        self.parenthesized_list(|parser| {
            if parser.is_any(&["CONSTRAINT", "PRIMARY", "FOREIGN", "CHECK"])
                && (parser.nth_is_word(1) || parser.nth_is_token(1, &Token::LParen))
                && !parser.nth_is_any(1, TYPE_WORDS)
            {
                return Err(Diagnostic::unsupported(parser.position(), "constraints of tables are not supported"));
            }
            let position = parser.position();
            let name = parser.name("a column's name")?;
            if let Some(fault) = crate::types::same_name_twice(fields.iter().map(|field| field.name().as_str()), &name, &position) {
                parser.defer(fault);
            }
            fields.push(parser.column_type(&name)?);
            Ok(())
        })?;
        Ok(fields)
    }

    /// A column's type and what may follow it.
    pub(super) fn column_type(&mut self, name: &str) -> Result<Field, Diagnostic> {
        self.cursor.eat_token(&Token::Colon);
        let mut field = crate::types::column_type(&mut self.cursor, name)?;
        loop {
            if self.cursor.eat(&["NOT", "NULL"]) {
                field = field.with_nullable(false);
            } else if self.cursor.eat(&["COMMENT"]) {
                let comment = self.cursor.string("the comment")?;
                let mut metadata = field.metadata().clone();
                metadata.insert(crate::types::COMMENT.to_owned(), comment);
                field = field.with_metadata(metadata);
            } else if self.cursor.eat(&["DEFAULT"]) {
                let mark = self.cursor.mark();
                self.expression()?;
                let mut metadata = field.metadata().clone();
                metadata.insert("CURRENT_DEFAULT".to_owned(), self.text_since(mark).to_owned());
                field = field.with_metadata(metadata);
            } else if self.cursor.is("GENERATED") {
                let position = self.position();
                if !self.cursor.eat(&["GENERATED", "ALWAYS", "AS"]) || !self.is_token(&Token::LParen) {
                    return Err(Diagnostic::unsupported(position, "identity columns are not supported"));
                }
                self.cursor.expect_token(&Token::LParen)?;
                let mark = self.cursor.mark();
                self.expression()?;
                let mut metadata = field.metadata().clone();
                metadata.insert("delta.generationExpression".to_owned(), self.text_since(mark).to_owned());
                field = field.with_metadata(metadata);
                self.cursor.expect_token(&Token::RParen)?;
            } else {
                return Ok(field);
            }
        }
    }

    fn create_database(&mut self) -> Result<Statement, Diagnostic> {
        let if_not_exists = self.cursor.eat(&["IF", "NOT", "EXISTS"]);
        let name = self.names("the name of a database")?;
        let (mut comment, mut location, mut properties) = (None, None, BTreeMap::new());
        loop {
            if self.cursor.eat(&["COMMENT"]) {
                comment = Some(self.cursor.string("the comment")?);
            } else if self.cursor.eat(&["LOCATION"]) {
                location = Some(self.cursor.string("the location")?);
            } else if self.cursor.eat(&["WITH", "DBPROPERTIES"]) || self.cursor.eat(&["WITH", "PROPERTIES"]) {
                properties = self.properties()?;
            } else {
                return Ok(Statement::CreateDatabase { name, if_not_exists, comment, location, properties });
            }
        }
    }

    pub(super) fn drop_object(&mut self) -> Result<Statement, Diagnostic> {
        self.cursor.expect(&["DROP"])?;
        let temporary = self.cursor.is("TEMPORARY") && self.cursor.nth_is(1, "FUNCTION") && self.cursor.eat(&["TEMPORARY"]);
        if self.cursor.eat(&["FUNCTION"]) {
            let if_exists = self.cursor.eat(&["IF", "EXISTS"]);
            return Ok(Statement::DropFunction { name: self.names("a function")?, if_exists, temporary });
        }
        let kind = match self.keyword().as_deref() {
            Some("TABLE") => ObjectKind::Table,
            Some("VIEW") => ObjectKind::View,
            Some("DATABASE" | "SCHEMA" | "NAMESPACE") => ObjectKind::Database,
            _ => return Err(self.cursor.expected("TABLE, VIEW or DATABASE")),
        };
        self.cursor.advance();
        let if_exists = self.cursor.eat(&["IF", "EXISTS"]);
        let name = self.names("a name")?;
        let is_database = kind == ObjectKind::Database;
        let cascade = is_database && self.cursor.eat(&["CASCADE"]);
        if is_database && !cascade {
            self.cursor.eat(&["RESTRICT"]);
        }
        let purge = kind == ObjectKind::Table && self.cursor.eat(&["PURGE"]);
        Ok(Statement::Drop { kind, name, if_exists, cascade, purge })
    }
}

/// Words that begin a type, where a column has the name of a keyword.
const TYPE_WORDS: &[&str] =
    &["STRING", "INT", "INTEGER", "BIGINT", "LONG", "BOOLEAN", "DOUBLE", "FLOAT", "DATE", "TIMESTAMP", "DECIMAL", "BINARY"];
