//! What a query reads.

use datafusion::sql::sqlparser::ast::Ident;
use datafusion::sql::sqlparser::tokenizer::{Location, Token};
use millstream_core::Options;

use super::cursor::Cursor;
use super::diagnostic::{Diagnostic, Position};

/// One place of a query where it reads something.
#[derive(Clone, Debug, PartialEq)]
pub struct Relation {
    /// Where the query names it.
    pub position: Position,
    /// Whether it is read as a stream.
    pub streaming: bool,
    /// What is read.
    pub source: RelationSource,
    /// Options of `WITH (…)`, and the version or time that is read.
    pub options: Options,
    /// By which the plan's leaf is known.
    pub(super) leaf: String,
}

/// The option by which a leaf of a query's plan says which of the query's relations it is.
pub(crate) const LEAF: &str = "__leaf";

/// What a relation reads.
#[derive(Clone, Debug, PartialEq)]
pub enum RelationSource {
    /// A table or view, by the parts of its name as written.
    Table(Vec<Ident>),
    /// `` json.`/path` ``.
    Path {
        /// The format.
        format: String,
        /// The path or glob.
        path: String,
    },
    /// `read_files('/path', format => 'csv', …)`.
    ReadFiles {
        /// The path or glob.
        path: String,
        /// The named arguments, in order.
        arguments: Vec<Argument>,
    },
}

/// A named argument.
#[derive(Clone, Debug, PartialEq)]
pub struct Argument {
    /// The name as written.
    pub name: String,
    /// The value as text; `None` for `NULL`.
    pub value: Option<String>,
    /// Where its value is.
    pub position: Position,
}

impl RelationSource {
    /// The relation as a user would write it.
    pub fn display(&self) -> String {
        match self {
            RelationSource::Table(parts) => parts.iter().map(|part| part.value.as_str()).collect::<Vec<_>>().join("."),
            RelationSource::Path { format, path } => format!("{format}.`{path}`"),
            RelationSource::ReadFiles { path, .. } => format!("read_files('{path}', …)"),
        }
    }

    /// A named argument of `read_files`, whatever its case.
    pub fn argument(&self, name: &str) -> Option<&Argument> {
        match self {
            RelationSource::ReadFiles { arguments, .. } => arguments.iter().find(|argument| argument.name.eq_ignore_ascii_case(name)),
            _ => None,
        }
    }
}

/// The words that make a two-part name with a quoted second part a path: `` csv.`/in` ``.
const PATH_FORMATS: &[&str] = &["csv", "json", "parquet", "text", "avro", "orc", "delta", "binaryfile", "xml"];

/// A name as the source that it means.
pub(crate) fn named_source(parts: Vec<Ident>) -> RelationSource {
    match parts.as_slice() {
        [format, path] if path.quote_style.is_some() && PATH_FORMATS.iter().any(|known| known.eq_ignore_ascii_case(&format.value)) => {
            RelationSource::Path { format: format.value.to_lowercase(), path: path.value.clone() }
        }
        _ => RelationSource::Table(parts),
    }
}

/// Reads the arguments of `read_files`, the cursor being before the `(`.
pub(crate) fn read_files(cursor: &mut Cursor<'_>) -> Result<RelationSource, Diagnostic> {
    cursor.expect_token(&Token::LParen)?;
    if cursor.is("path") && cursor.peek_nth(1) == Some(&Token::RArrow) {
        cursor.advance();
        cursor.advance();
    }
    let path = cursor.string("the path as a string")?;
    let mut arguments: Vec<Argument> = Vec::new();
    while cursor.eat_token(&Token::Comma) {
        let at = cursor.position();
        let mut name = cursor.identifier("an argument 'name => value'")?.value;
        while cursor.eat_token(&Token::Period) {
            name = format!("{name}.{}", cursor.identifier("a name after '.'")?.value);
        }
        cursor.expect_token(&Token::RArrow)?;
        let position = cursor.position();
        let value = literal(cursor)?;
        if arguments.iter().any(|argument| argument.name.eq_ignore_ascii_case(&name)) {
            let message = format!("argument '{name}' of read_files is given twice");
            return Err(Diagnostic::new("DUPLICATE_ROUTINE_PARAMETER_ASSIGNMENT.DOUBLE_NAMED_ARGUMENT_REFERENCE", "4274K", at, message));
        }
        arguments.push(Argument { name, value, position });
    }
    cursor.expect_token(&Token::RParen)?;
    Ok(RelationSource::ReadFiles { path, arguments })
}

/// Reads `(key = value, …)`; keys are strings or names joined by dots, and `=` may be left out.
pub(crate) fn property_list(cursor: &mut Cursor<'_>) -> Result<Vec<(String, String, Position)>, Diagnostic> {
    cursor.expect_token(&Token::LParen)?;
    let mut properties: Vec<(String, String, Position)> = Vec::new();
    loop {
        let position = cursor.position();
        let key = match cursor.peek() {
            Some(Token::Word(_)) => {
                let parts = cursor.object_name("a key")?;
                parts.iter().map(|part| part.value.as_str()).collect::<Vec<_>>().join(".")
            }
            Some(Token::SingleQuotedString(key) | Token::DoubleQuotedString(key)) => {
                cursor.advance();
                key.clone()
            }
            _ => return Err(cursor.expected("a key")),
        };
        let explicit = cursor.eat_token(&Token::Eq);
        let value = match cursor.peek() {
            Some(Token::Comma | Token::RParen) if !explicit => String::new(),
            _ => literal(cursor)?.unwrap_or_default(),
        };
        if properties.iter().any(|(known, ..)| *known == key) {
            return Err(Diagnostic::new("DUPLICATE_KEY", "23505", position, format!("key '{key}' is given twice")));
        }
        properties.push((key, value, position));
        if !cursor.eat_token(&Token::Comma) {
            break;
        }
    }
    cursor.expect_token(&Token::RParen)?;
    Ok(properties)
}

fn literal(cursor: &mut Cursor<'_>) -> Result<Option<String>, Diagnostic> {
    let sign = if cursor.eat_token(&Token::Minus) { "-" } else { "" };
    match cursor.peek() {
        Some(Token::Number(digits, _)) => {
            cursor.advance();
            Ok(Some(format!("{sign}{digits}")))
        }
        Some(Token::Word(word)) if sign.is_empty() && word.quote_style.is_none() => {
            let value = match word.value.to_ascii_lowercase().as_str() {
                "null" => None,
                word @ ("true" | "false") => Some(word.to_owned()),
                _ => return Err(cursor.expected("a string, a number, true, false or null")),
            };
            cursor.advance();
            Ok(value)
        }
        _ if sign.is_empty() => cursor.string("a string, a number, true, false or null").map(Some),
        _ => Err(cursor.expected("a number")),
    }
}

/// Where a text without tokens begins.
pub(crate) const START: Location = Location { line: 1, column: 1 };
