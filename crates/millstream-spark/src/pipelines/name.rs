//! Names of tables and views.

use std::fmt;
use std::hash::{Hash, Hasher};

use datafusion::sql::sqlparser::ast::Ident;

/// The catalog and schema that names without one belong to, before any `USE`.
pub const DEFAULT_CATALOG: &str = "spark_catalog";
/// See [`DEFAULT_CATALOG`].
pub const DEFAULT_SCHEMA: &str = "default";

/// The full name of a table or view. Names are the same when they differ in case only; they keep the spelling of their definition.
#[derive(Clone, Debug)]
pub struct TableName {
    /// The catalog.
    pub catalog: String,
    /// The schema.
    pub schema: String,
    /// The name itself.
    pub name: String,
}

impl TableName {
    /// A name in the default schema.
    pub fn new(name: impl Into<String>) -> Self {
        TableName { catalog: DEFAULT_CATALOG.to_owned(), schema: DEFAULT_SCHEMA.to_owned(), name: name.into() }
    }

    fn key(&self) -> (String, String, String) {
        (self.catalog.to_lowercase(), self.schema.to_lowercase(), self.name.to_lowercase())
    }
}

impl PartialEq for TableName {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
    }
}

impl Eq for TableName {}

impl PartialOrd for TableName {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for TableName {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.key().cmp(&other.key())
    }
}

impl Hash for TableName {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.key().hash(state);
    }
}

impl fmt::Display for TableName {
    /// As short as it is unambiguous: the defaults are left out.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.catalog.eq_ignore_ascii_case(DEFAULT_CATALOG) {
            write!(f, "{}.{}.{}", self.catalog, self.schema, self.name)
        } else if self.schema.eq_ignore_ascii_case(DEFAULT_SCHEMA) {
            f.write_str(&self.name)
        } else {
            write!(f, "{}.{}", self.schema, self.name)
        }
    }
}

/// Where names without catalog or schema belong: what `USE` and `SET CATALOG` set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Namespace {
    /// The current catalog.
    pub catalog: String,
    /// The current schema.
    pub schema: String,
}

impl Default for Namespace {
    fn default() -> Self {
        Namespace { catalog: DEFAULT_CATALOG.to_owned(), schema: DEFAULT_SCHEMA.to_owned() }
    }
}

impl Namespace {
    /// The table that a name means here. `LIVE.t` is `t` of the pipeline's own schema. `None` for more parts than three.
    pub fn resolve(&self, parts: &[Ident]) -> Option<TableName> {
        let name = |catalog: &str, schema: &str, name: &Ident| TableName {
            catalog: catalog.to_owned(),
            schema: schema.to_owned(),
            name: name.value.clone(),
        };
        match parts {
            [table] => Some(name(&self.catalog, &self.schema, table)),
            [live, table] if live.quote_style.is_none() && live.value.eq_ignore_ascii_case("LIVE") => {
                Some(TableName::new(table.value.clone()))
            }
            [schema, table] => Some(name(&self.catalog, &schema.value, table)),
            [catalog, schema, table] => Some(name(&catalog.value, &schema.value, table)),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_completed_and_compared_without_case() {
        let parts = |text: &str| text.split('.').map(Ident::new).collect::<Vec<_>>();
        let space = Namespace { catalog: DEFAULT_CATALOG.into(), schema: "silver".into() };
        for (text, shown) in [("Orders", "silver.Orders"), ("live.t", "t"), ("default.t", "t"), ("c.s.t", "c.s.t")] {
            assert_eq!(space.resolve(&parts(text)).unwrap().to_string(), shown);
        }
        assert_eq!(space.resolve(&parts("SILVER.orders")), space.resolve(&parts("Orders")));
        assert_eq!(space.resolve(&parts("a.b.c.d")), None);
    }
}
