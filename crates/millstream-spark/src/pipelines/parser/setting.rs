//! `SET` and `USE`.

use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};

use super::{Reader, Session, not_of_a_pipeline};
use crate::sql::{Cursor, Diagnostic};

impl Session {
    /// `SET key = value`, `SET CATALOG name`, `SET TIME ZONE …`.
    pub(super) fn set(&mut self, cursor: &mut Reader<'_>) -> Result<(), Diagnostic> {
        let position = cursor.position();
        cursor.expect(&["SET"])?;
        if cursor.eat(&["CATALOG"]) {
            self.settings.namespace.catalog = self.catalog_name(cursor)?;
            return Ok(());
        }
        if cursor.eat(&["TIME", "ZONE"]) {
            let zone = match cursor.peek() {
                Some(Token::Word(word)) if word.value.eq_ignore_ascii_case("LOCAL") => {
                    return Err(Diagnostic::unsupported(cursor.position(), "SET TIME ZONE LOCAL").with_hint("name the time zone"));
                }
                _ => cursor.string("the time zone as a string")?,
            };
            self.configure("spark.sql.session.timeZone", &zone);
            return Ok(());
        }
        if cursor.at_end() || cursor.eat_token(&Token::Minus) {
            return Err(not_of_a_pipeline(position, "SET without a key and a value"));
        }
        let key = match cursor.peek() {
            Some(Token::Word(_)) => cursor.object_name("a key")?.iter().map(|part| part.value.as_str()).collect::<Vec<_>>().join("."),
            _ => cursor.string("a key")?,
        };
        cursor.expect_token(&Token::Eq)?;
        let value = cursor.remainder();
        let value = match value.tokens() {
            [] => return Err(cursor.expected("a value")),
            [TokenWithSpan { token: Token::Word(word), .. }] => word.value.clone(),
            // Quotes belong to the value: `SET day = '2024-01-01'` makes `WHERE d > ${day}` a comparison with a string.
            _ => value.written().to_owned(),
        };
        self.configure(&key, &value);
        Ok(())
    }

    fn configure(&mut self, key: &str, value: &str) {
        self.variables.set(key, value);
        self.settings.configuration.insert(key.to_owned(), value.to_owned());
    }

    /// `USE name`, `USE SCHEMA name`, `USE CATALOG name`.
    pub(super) fn use_namespace(&mut self, cursor: &mut Cursor<'_>) -> Result<(), Diagnostic> {
        cursor.expect(&["USE"])?;
        if cursor.eat(&["CATALOG"]) {
            self.settings.namespace.catalog = self.catalog_name(cursor)?;
            return Ok(());
        }
        for word in ["SCHEMA", "DATABASE", "NAMESPACE"] {
            if cursor.peek_nth(1).is_some() && cursor.eat(&[word]) {
                break;
            }
        }
        let position = cursor.position();
        match cursor.object_name("the name of a schema")?.as_slice() {
            [schema] => self.settings.namespace.schema = schema.value.clone(),
            [catalog, schema] => {
                self.settings.namespace.catalog = catalog.value.clone();
                self.settings.namespace.schema = schema.value.clone();
            }
            _ => return Err(Diagnostic::syntax(position, "a schema is named by one or two parts")),
        }
        Ok(())
    }

    fn catalog_name(&self, cursor: &mut Cursor<'_>) -> Result<String, Diagnostic> {
        match cursor.peek() {
            Some(Token::Word(_)) => Ok(cursor.identifier("the name of a catalog")?.value),
            _ => cursor.string("the name of a catalog"),
        }
    }
}
