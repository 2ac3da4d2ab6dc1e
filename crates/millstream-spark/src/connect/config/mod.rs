//! The settings of a session (`spark.conf`).

mod known;
mod rpc;

use std::collections::BTreeMap;
use std::time::Duration;

use millstream_core::options::parse_duration;
use millstream_core::{Error, Result};
use parking_lot::RwLock;

use crate::functions::{Settings, TimeZone};

pub(super) use rpc::answer;

/// The settings of a session: what was set, over Spark's defaults. Names are compared with case, as in Spark.
#[derive(Debug)]
pub struct Confs {
    set: RwLock<BTreeMap<String, String>>,
    /// What the server decides, to which `RESET` and `unset` return.
    decided: BTreeMap<String, String>,
}

impl Clone for Confs {
    fn clone(&self) -> Self {
        Confs { set: RwLock::new(self.set.read().clone()), decided: self.decided.clone() }
    }
}

impl Confs {
    /// Nothing set but what the server decides: where tables are, and the time zone of the process.
    pub fn new(warehouse: &str, time_zone: &str) -> Self {
        let decided = [
            ("spark.sql.warehouse.dir", warehouse),
            ("spark.sql.session.timeZone", time_zone),
            ("spark.app.name", "millstream"),
            ("spark.app.id", "millstream"),
            ("spark.master", "local[*]"),
            ("spark.executor.id", "driver"),
            ("spark.driver.host", "localhost"),
        ];
        Confs { set: RwLock::default(), decided: decided.map(|(key, value)| (key.to_owned(), value.to_owned())).into() }
    }

    /// What was set, or the default if there is one.
    pub fn get(&self, key: &str) -> Option<String> {
        self.get_set(key).or_else(|| known::find(key)?.default.map(str::to_owned))
    }

    /// What was set or decided, without Spark's defaults.
    fn get_set(&self, key: &str) -> Option<String> {
        self.set.read().get(key).or_else(|| self.decided.get(key)).cloned()
    }

    /// What was set, or the default, as `spark.conf.get` does it: `None` for a setting that Spark knows and that has no default.
    ///
    /// # Errors
    /// `SQL_CONF_NOT_FOUND` for a name that means nothing and was not set.
    pub fn require(&self, key: &str) -> Result<Option<String>> {
        match self.get(key) {
            None if known::find(key).is_none() => Err(Error::invalid(
                "SQL_CONF_NOT_FOUND",
                format!("The SQL config \"{key}\" cannot be found. Please verify that the config exists."),
            )
            .with_sqlstate("42K0I")),
            found => Ok(found),
        }
    }

    /// Sets a value. Names that Spark does not know are kept as they are.
    ///
    /// # Errors
    /// `CANNOT_MODIFY_STATIC_CONFIG` and `CANNOT_MODIFY_CONFIG` for what is fixed when a server starts, `INVALID_CONF_VALUE.*` for a value
    /// that does not fit.
    pub fn set(&self, key: &str, value: &str) -> Result<()> {
        modifiable(key)?;
        known::check(key, value)?;
        self.set.write().insert(key.to_owned(), value.to_owned());
        Ok(())
    }

    /// Returns to the default.
    ///
    /// # Errors
    /// `CANNOT_MODIFY_STATIC_CONFIG` and `CANNOT_MODIFY_CONFIG`.
    pub fn unset(&self, key: &str) -> Result<()> {
        modifiable(key)?;
        self.set.write().remove(key);
        Ok(())
    }

    /// Returns every setting to its default, as `RESET` does.
    pub fn reset(&self) {
        self.set.write().clear();
    }

    /// Whether `key` is a setting that Spark knows and that can be set in a session.
    pub fn is_modifiable(&self, key: &str) -> bool {
        known::find(key).is_some() && !known::is_static(key)
    }

    /// What was set and what the server decided, by name.
    pub fn all(&self) -> BTreeMap<String, String> {
        let mut all = self.decided.clone();
        all.extend(self.set.read().iter().map(|(key, value)| (key.clone(), value.clone())));
        all
    }

    /// A setting as a truth value; anything else than `true` is false.
    pub fn is_true(&self, key: &str) -> bool {
        self.get(key).is_some_and(|value| value.trim().eq_ignore_ascii_case("true"))
    }

    /// A setting as a whole number, if it is one.
    pub fn integer(&self, key: &str) -> Option<i64> {
        self.get(key)?.trim().parse().ok()
    }

    /// A setting as a span of time (`10ms`, `2m`; milliseconds without a unit), if it is one.
    pub fn duration(&self, key: &str) -> Option<Duration> {
        let value = self.get(key)?;
        let value = value.trim();
        match value.parse::<u64>() {
            Ok(milliseconds) => Some(Duration::from_millis(milliseconds)),
            Err(_) => parse_duration(key, value).ok(),
        }
    }

    /// What expressions are compiled for.
    pub fn settings(&self) -> Settings {
        Settings {
            ansi: self.is_true("spark.sql.ansi.enabled"),
            time_zone: TimeZone::parse(&self.time_zone()).unwrap_or(TimeZone::Region(chrono_tz::UTC)),
            case_sensitive: self.is_true("spark.sql.caseSensitive"),
            timestamp_ntz: self.get("spark.sql.timestampType").is_some_and(|value| value.eq_ignore_ascii_case("TIMESTAMP_NTZ")),
            time_type: self.is_true("spark.sql.timeType.enabled"),
            running_time_zone: None,
            last_key_wins: self.get("spark.sql.mapKeyDedupPolicy").is_some_and(|value| value.eq_ignore_ascii_case("LAST_WIN")),
            insert_before_last: self.is_true("spark.sql.legacy.negativeIndexInArrayInsert"),
        }
    }

    /// `spark.sql.session.timeZone` as it was set.
    pub fn time_zone(&self) -> String {
        self.get("spark.sql.session.timeZone").unwrap_or_else(|| "UTC".to_owned())
    }

    /// The format of `read` and `write` without `format(…)`.
    pub fn default_source(&self) -> String {
        self.get("spark.sql.sources.default").unwrap_or_else(|| "parquet".to_owned())
    }
}

/// Settings of Spark's processes, which Millstream does not have.
const PROCESSES: &[&str] = &[
    "spark.executor.",
    "spark.driver.",
    "spark.memory.",
    "spark.shuffle.",
    "spark.task.",
    "spark.scheduler.",
    "spark.network.",
    "spark.rpc.",
    "spark.storage.",
    "spark.dynamicAllocation.",
    "spark.speculation",
    "spark.serializer",
    "spark.kryo",
    "spark.eventLog.",
    "spark.history.",
    "spark.ui.",
    "spark.broadcast.",
    "spark.submit.",
    "spark.cores.",
    "spark.master",
    "spark.plugins",
    "spark.jars",
];

fn modifiable(key: &str) -> Result<()> {
    if known::is_static(key) {
        let message = format!("Cannot modify the value of the static Spark config: \"{key}\": give it to the server when it starts");
        return Err(Error::invalid("CANNOT_MODIFY_STATIC_CONFIG", message).with_sqlstate("46110"));
    }
    if known::find(key).is_none() && PROCESSES.iter().any(|prefix| key.starts_with(prefix)) {
        let message = format!("Cannot modify the value of the Spark config: \"{key}\": it belongs to a process, not to a session");
        return Err(Error::invalid("CANNOT_MODIFY_CONFIG", message).with_sqlstate("46110"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defaults_decisions_and_what_was_set() {
        let confs = Confs::new("file:/w", "Europe/Paris");
        assert_eq!(confs.get("spark.sql.shuffle.partitions").as_deref(), Some("200"));
        assert_eq!(confs.get("spark.sql.session.timeZone").as_deref(), Some("Europe/Paris"));
        confs.set("spark.sql.session.timeZone", "UTC").unwrap();
        confs.set("my.key", "1").unwrap();
        assert_eq!(confs.time_zone(), "UTC");
        confs.unset("spark.sql.session.timeZone").unwrap();
        assert_eq!(confs.time_zone(), "Europe/Paris");
        assert_eq!(confs.require("my.key").unwrap().as_deref(), Some("1"));
        assert_eq!(confs.require("spark.sql.streaming.checkpointLocation").unwrap(), None);
        assert_eq!(confs.require("no.such.key").unwrap_err().code(), "SQL_CONF_NOT_FOUND");
        assert_eq!(confs.set("spark.sql.warehouse.dir", "/x").unwrap_err().code(), "CANNOT_MODIFY_STATIC_CONFIG");
        assert_eq!(confs.set("spark.executor.memory", "1g").unwrap_err().code(), "CANNOT_MODIFY_CONFIG");
        assert!(confs.is_modifiable("spark.sql.ansi.enabled") && !confs.is_modifiable("my.key"));
        assert_eq!(confs.duration("spark.sql.streaming.pollingDelay"), Some(Duration::from_millis(10)));
    }
}
