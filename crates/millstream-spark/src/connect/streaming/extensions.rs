//! What Spark's queries do not have: options of a writer that begin with `millstream.`. The same names behind `spark.` are settings of a
//! session, for all queries that do not say otherwise.

use std::collections::BTreeSet;
use std::sync::Arc;

use millstream_core::options::OptionKind;
use millstream_core::registry::WriteRequest;
use millstream_core::sink::Sink;
use millstream_core::{Error, OptionSpec, Options, Result};
use millstream_engine::QuerySettings;
use millstream_engine::stateful::{ACCEPTABLE_CHANGES, ChangePolicy};

use crate::connect::session::ConnectSession;

const LATE_ROWS: &str = "millstream.lateRows.path";
const IDLE_TIMEOUT: &str = "millstream.watermark.idleTimeout";
const RESTORE: &str = "millstream.watermark.restore";
const CHANGES: &str = "millstream.queryChanges";
const ACCEPT: &str = "millstream.queryChanges.accept";

/// The options.
pub const QUERY_OPTIONS: &[OptionSpec] = &[
    OptionSpec {
        name: LATE_ROWS,
        kind: OptionKind::Text,
        default: None,
        doc: "A Delta table for rows that are left out because they are late: when and where, and the row as JSON. They are counted in any case.",
    },
    OptionSpec {
        name: IDLE_TIMEOUT,
        kind: OptionKind::Duration,
        default: None,
        doc: "How long one of several streams may be without rows before it no longer holds back the watermark. Without it, for ever.",
    },
    OptionSpec {
        name: RESTORE,
        kind: OptionKind::Bool,
        default: Some("false"),
        doc: "Whether the watermark of each of several streams goes on after a restart; in Spark each has to have rows first.",
    },
    OptionSpec {
        name: CHANGES,
        kind: OptionKind::OneOf(&["warn", "refuse"]),
        default: Some("warn"),
        doc: "What happens when a query is restarted that means something else than the one that made its state: run as in Spark, with a warning \
              in the log and in the first progress report, or refuse to start.",
    },
    OptionSpec {
        name: ACCEPT,
        kind: OptionKind::Text,
        default: None,
        doc: "Changes that are not refused, with commas: window, keys, aggregates, session, join, event-time, output-mode, or all.",
    },
];

/// Takes the options out of those of a writer, completed by the settings of the session, and puts them into the settings of a query.
///
/// # Errors
/// `INVALID_OPTION_VALUE`, and those of opening the table for late rows.
pub(super) async fn apply(session: &ConnectSession, options: &mut Options, settings: &mut QuerySettings) -> Result<()> {
    let mut own = Options::new();
    for spec in QUERY_OPTIONS {
        let given = options.remove(spec.name).or_else(|| session.confs.get(&format!("spark.{}", spec.name)));
        if let Some(value) = given {
            own.set(spec.name, value);
        }
    }
    own.check(QUERY_OPTIONS)?;
    settings.idle_timeout_ms = own.duration(IDLE_TIMEOUT)?.and_then(|timeout| i64::try_from(timeout.as_millis()).ok());
    settings.restore_watermarks = own.bool(RESTORE, false)?;
    let accepted: BTreeSet<String> =
        own.get(ACCEPT).unwrap_or_default().split(',').map(|name| name.trim().to_lowercase()).filter(|name| !name.is_empty()).collect();
    if let Some(unknown) = accepted.iter().find(|change| !ACCEPTABLE_CHANGES.contains(&change.as_str())) {
        let message = format!("option '{ACCEPT}' has '{unknown}', which is no change: use {}", ACCEPTABLE_CHANGES.join(", "));
        return Err(Error::invalid("INVALID_OPTION_VALUE", message));
    }
    settings.changes = ChangePolicy { refuse: own.get(CHANGES).is_some_and(|answer| answer.eq_ignore_ascii_case("refuse")), accepted };
    settings.late_rows = match own.get(LATE_ROWS) {
        Some(path) => Some(late_rows(session, path).await?),
        None => None,
    };
    Ok(())
}

async fn late_rows(session: &ConnectSession, path: &str) -> Result<Arc<dyn Sink>> {
    let request = WriteRequest { path: Some(path.to_owned()), options: Options::new().with("path", path), ..WriteRequest::default() };
    session.engine.registry().sink("delta")?.sink(&request).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_options_and_of_settings() {
        for spec in QUERY_OPTIONS {
            assert!(spec.name.starts_with("millstream."), "{}", spec.name);
            assert!(spec.doc.ends_with('.'), "{}", spec.name);
        }
    }
}
