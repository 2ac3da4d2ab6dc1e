//! Names of datasets and flows inside of a graph. They are compared as they are written: in a graph `Trips` is not `trips`.

use std::fmt;

use millstream_core::{Error, Result};

use crate::connect::catalog::{CATALOG, TableName};

/// A name in its parts: catalog, schema and name of what the catalog keeps, the name alone of temporary views and sinks.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Identifier(Vec<String>);

impl Identifier {
    /// A name of the graph's own, as it is written.
    pub(super) fn of(parts: Vec<String>) -> Self {
        Identifier(parts)
    }

    /// The last part.
    pub(super) fn last(&self) -> &str {
        self.0.last().map_or("", String::as_str)
    }

    /// All parts, outermost first.
    pub(super) fn parts(&self) -> &[String] {
        &self.0
    }

    /// The table of the catalog; `None` for a name that is the graph's own.
    pub(super) fn table(&self) -> Option<TableName> {
        match self.0.as_slice() {
            [_, database, table] => Some(TableName { database: database.to_lowercase(), table: table.to_lowercase() }),
            _ => None,
        }
    }
}

impl fmt::Display for Identifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.join("."))
    }
}

/// Where names without catalog and schema belong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Namespace {
    pub(super) catalog: String,
    pub(super) database: String,
}

impl Namespace {
    /// The full name that a name in one to three parts means here.
    ///
    /// # Errors
    /// `REQUIRES_SINGLE_PART_NAMESPACE` for more parts than a table's name has.
    pub(super) fn qualify(&self, parts: &[String]) -> Result<Identifier> {
        let full = |catalog: &str, database: &str, name: &str| Identifier(vec![catalog.to_owned(), database.to_owned(), name.to_owned()]);
        match parts {
            [name] => Ok(full(&self.catalog, &self.database, name)),
            [database, name] => Ok(full(&self.catalog, database, name)),
            [catalog, database, name] => Ok(full(catalog, database, name)),
            _ => {
                let message =
                    format!("'{}' is no name of a table: it has {} parts, and at most three are allowed", parts.join("."), parts.len());
                Err(Error::invalid("REQUIRES_SINGLE_PART_NAMESPACE", message).with_sqlstate("42K05"))
            }
        }
    }

    /// Refuses another catalog than the one that there is.
    ///
    /// # Errors
    /// `CATALOG_NOT_FOUND`.
    pub(super) fn check_catalog(name: &str) -> Result<()> {
        match name.eq_ignore_ascii_case(CATALOG) {
            true => Ok(()),
            false => {
                let message = format!("The catalog `{name}` not found: there is only `{CATALOG}`.");
                Err(Error::invalid("CATALOG_NOT_FOUND", message).with_sqlstate("42P08"))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_completed_and_keep_their_spelling() {
        let here = Namespace { catalog: "spark_catalog".into(), database: "db".into() };
        let of = |text: &str| here.qualify(&text.split('.').map(str::to_owned).collect::<Vec<_>>());
        assert_eq!(of("Trips").unwrap().to_string(), "spark_catalog.db.Trips");
        assert_eq!(of("other.t").unwrap().to_string(), "spark_catalog.other.t");
        assert_ne!(of("Trips").unwrap(), of("trips").unwrap());
        assert_eq!(of("Trips").unwrap().table(), of("trips").unwrap().table());
        assert_eq!(of("a.b.c.d").unwrap_err().code(), "REQUIRES_SINGLE_PART_NAMESPACE");
        assert_eq!(Namespace::check_catalog("nowhere").unwrap_err().code(), "CATALOG_NOT_FOUND");
    }
}
