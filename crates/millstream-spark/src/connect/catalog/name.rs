//! Names of tables in one to three parts.

use std::fmt;

use millstream_core::{Error, Result};

use crate::connect::session::ConnectSession;

/// The only catalog.
pub(in crate::connect) const CATALOG: &str = "spark_catalog";

/// A table of the catalog. Names are in lower case, as Spark stores them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::connect) struct TableName {
    pub(in crate::connect) database: String,
    pub(in crate::connect) table: String,
}

impl TableName {
    /// The table that a name in parts means in a session; `None` for names that no table can have.
    pub(in crate::connect) fn of(session: &ConnectSession, parts: &[String]) -> Option<TableName> {
        let (database, table) = match parts {
            [table] => (session.database(), table),
            [database, table] => (database.clone(), table),
            [catalog, database, table] if catalog.eq_ignore_ascii_case(CATALOG) => (database.clone(), table),
            _ => return None,
        };
        Some(TableName { database: database.to_lowercase(), table: table.to_lowercase() })
    }

    /// The same for a text such as `db.t` or `` `my db`.t ``.
    ///
    /// # Errors
    /// `INVALID_ATTRIBUTE_NAME_SYNTAX` for backticks that do not close, `TABLE_OR_VIEW_NOT_FOUND` for too many parts.
    pub(in crate::connect) fn parse(session: &ConnectSession, text: &str) -> Result<TableName> {
        let parts = parts(text)?;
        TableName::of(session, &parts).ok_or_else(|| not_found(&parts))
    }

    /// Refuses names that a new table cannot have.
    ///
    /// # Errors
    /// `INVALID_SCHEMA_OR_RELATION_NAME`.
    pub(in crate::connect) fn check_new(&self) -> Result<()> {
        check_word(&self.table)
    }
}

/// Spark's tables and databases are called by letters, digits and underscores.
///
/// # Errors
/// `INVALID_SCHEMA_OR_RELATION_NAME`.
pub(super) fn check_word(name: &str) -> Result<()> {
    if !name.is_empty() && name.chars().all(|c| c.is_alphanumeric() || c == '_') {
        return Ok(());
    }
    let message = format!("`{name}` is not a valid name for tables/schemas. Valid names only contain alphabet characters, numbers and _.");
    Err(Error::invalid("INVALID_SCHEMA_OR_RELATION_NAME", message).with_sqlstate("42602"))
}

impl fmt::Display for TableName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{CATALOG}`.`{}`.`{}`", self.database, self.table)
    }
}

/// The parts of a dotted name; a part in backticks may have dots in it.
///
/// # Errors
/// `INVALID_ATTRIBUTE_NAME_SYNTAX`.
pub(in crate::connect) fn parts(text: &str) -> Result<Vec<String>> {
    let mut parts = Vec::new();
    let mut part = String::new();
    let mut chars = text.trim().chars().peekable();
    let mut quoted = false;
    while let Some(c) = chars.next() {
        match c {
            '`' if quoted && chars.peek() == Some(&'`') => {
                chars.next();
                part.push('`');
            }
            '`' => quoted = !quoted,
            '.' if !quoted => parts.push(std::mem::take(&mut part)),
            other => part.push(other),
        }
    }
    parts.push(part);
    if quoted || parts.iter().any(String::is_empty) {
        let message = format!("Syntax error in the name: {text}. Check that backticks appear in pairs and that no part is empty.");
        return Err(Error::invalid("INVALID_ATTRIBUTE_NAME_SYNTAX", message).with_sqlstate("42601"));
    }
    Ok(parts)
}

/// There is nothing of that name.
pub(in crate::connect) fn not_found(parts: &[String]) -> Error {
    let name = parts.iter().map(|part| format!("`{part}`")).collect::<Vec<_>>().join(".");
    Error::invalid(
        "TABLE_OR_VIEW_NOT_FOUND",
        format!("The table or view {name} cannot be found. Check its name, its schema and the temporary views of this session."),
    )
    .with_sqlstate("42P01")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_names() {
        let cases: [(&str, Option<&[&str]>); 6] = [
            ("t", Some(&["t"])),
            ("db.t", Some(&["db", "t"])),
            ("`my.db`.`t``x`", Some(&["my.db", "t`x"])),
            ("delta.`/tmp/x`", Some(&["delta", "/tmp/x"])),
            ("`open", None),
            ("a..b", None),
        ];
        for (text, expected) in cases {
            assert_eq!(parts(text).ok(), expected.map(|parts| parts.iter().map(|part| (*part).to_owned()).collect()), "{text}");
        }
    }
}
