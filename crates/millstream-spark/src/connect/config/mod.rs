//! The settings of a session (`spark.conf`).

use std::collections::BTreeMap;

use parking_lot::RwLock;

use crate::functions::{Settings, TimeZone};

/// The settings of a session: what was set, over Spark's defaults. Names are compared with case, as in Spark.
#[derive(Debug)]
pub struct Confs(RwLock<BTreeMap<String, String>>);

impl Clone for Confs {
    fn clone(&self) -> Self {
        Confs(RwLock::new(self.0.read().clone()))
    }
}

impl Confs {
    /// Nothing set but what the server decides.
    pub fn new(warehouse: &str) -> Self {
        let decided = [("spark.sql.warehouse.dir", warehouse), ("spark.app.name", "millstream"), ("spark.master", "local[*]")];
        Confs(RwLock::new(decided.map(|(key, value)| (key.to_owned(), value.to_owned())).into()))
    }

    /// What was set, or Spark's default if it has one.
    pub fn get(&self, key: &str) -> Option<String> {
        self.0.read().get(key).cloned()
    }

    /// A setting as a truth value; anything else than `true` is false.
    pub fn is_true(&self, key: &str) -> bool {
        self.get(key).is_some_and(|value| value.trim().eq_ignore_ascii_case("true"))
    }

    /// What expressions are compiled for.
    pub fn settings(&self) -> Settings {
        Settings {
            ansi: self.get("spark.sql.ansi.enabled").is_none_or(|value| value.eq_ignore_ascii_case("true")),
            time_zone: TimeZone::Region(chrono_tz::UTC),
            case_sensitive: self.is_true("spark.sql.caseSensitive"),
            timestamp_ntz: self.get("spark.sql.timestampType").is_some_and(|value| value.eq_ignore_ascii_case("TIMESTAMP_NTZ")),
        }
    }

    /// The format of `read` and `write` without `format(…)`.
    pub fn default_source(&self) -> String {
        self.get("spark.sql.sources.default").unwrap_or_else(|| "parquet".to_owned())
    }
}
