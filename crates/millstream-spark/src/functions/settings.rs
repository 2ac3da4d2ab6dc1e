//! The settings of a session that change what expressions mean.

use chrono_tz::Tz;

/// What an expression is compiled for. It becomes part of the compiled functions, so a plan keeps the settings that it was made with.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Settings {
    /// `spark.sql.ansi.enabled`: overflow, bad casts and missing elements are errors instead of nulls.
    pub ansi: bool,
    /// `spark.sql.session.timeZone`.
    pub time_zone: TimeZone,
    /// `spark.sql.caseSensitive`.
    pub case_sensitive: bool,
    /// `spark.sql.timestampType` is `TIMESTAMP_NTZ`.
    pub timestamp_ntz: bool,
    /// `spark.sql.timeType.enabled`: there is the type `TIME`.
    pub time_type: bool,
    /// The zone that `current_timezone()` tells, where it is not `time_zone`: Spark computes it when a query runs, and everything else when
    /// it is resolved.
    pub running_time_zone: Option<TimeZone>,
    /// `spark.sql.mapKeyDedupPolicy` is `LAST_WIN`: of equal keys of a map the last one counts instead of being an error.
    pub last_key_wins: bool,
    /// `spark.sql.legacy.negativeIndexInArrayInsert`: `array_insert` at -1 inserts before the last element instead of behind it.
    pub insert_before_last: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            ansi: true,
            time_zone: TimeZone::Region(Tz::UTC),
            case_sensitive: false,
            timestamp_ntz: false,
            time_type: false,
            running_time_zone: None,
            last_key_wins: false,
            insert_before_last: false,
        }
    }
}

/// A time zone as Spark accepts it: a region (`Europe/Paris`), an offset (`+05:30`, `UTC-8`), or `Z`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TimeZone {
    /// A region of the IANA database.
    Region(Tz),
    /// Seconds east of UTC.
    Offset(i32),
}
