//! `SET` and `RESET`.

use arrow::array::RecordBatch;
use millstream_core::Result;

use super::Session;
use crate::connect::catalog::rows::{done, strict, texts};
use crate::sql::parse::Set;

/// What `SET key` answers for a key without a value.
const UNDEFINED: &str = "<undefined>";

/// The key of the session's time zone.
const TIME_ZONE: &str = "spark.sql.session.timeZone";

/// Sets or shows settings.
///
/// # Errors
/// Those of the settings.
pub(super) fn set(session: &Session, set: Set) -> Result<RecordBatch> {
    let confs = &session.confs;
    let pairs: Vec<(String, String)> = match set {
        Set::All { verbose: false } => confs.all().into_iter().collect(),
        Set::All { verbose: true } => {
            let all = confs.all();
            let nothing = all.keys().map(|_| Some(""));
            return strict(vec![
                ("key", texts(all.keys().map(Some))),
                ("value", texts(all.values().map(Some))),
                ("meaning", texts(nothing.clone())),
                ("Since version", texts(nothing)),
            ]);
        }
        Set::Get(key) => {
            let value = confs.get(&key).unwrap_or_else(|| UNDEFINED.to_owned());
            vec![(key, value)]
        }
        Set::Put(key, value) => {
            confs.set(&key, &value)?;
            vec![(key, value)]
        }
        Set::TimeZoneLocal => {
            let zone = session.host.time_zone();
            confs.set(TIME_ZONE, &zone)?;
            vec![(TIME_ZONE.to_owned(), zone)]
        }
    };
    strict(vec![("key", texts(pairs.iter().map(|(key, _)| Some(key)))), ("value", texts(pairs.iter().map(|(_, value)| Some(value))))])
}

/// Returns one setting or all of them to their defaults.
///
/// # Errors
/// `CANNOT_MODIFY_STATIC_CONFIG` and `CANNOT_MODIFY_CONFIG`.
pub(super) fn reset(session: &Session, key: Option<String>) -> Result<RecordBatch> {
    match key {
        Some(key) => session.confs.unset(&key)?,
        None => session.confs.reset(),
    }
    done()
}
