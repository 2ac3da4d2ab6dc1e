//! Getting a commit file into the log: whatever the store answers, the log itself decides what happened.
//!
//! After every answer but a plain success the commit file is read back. Its bytes are ours only if we wrote them, since each attempt has its
//! own transaction id.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use millstream_core::{Clock, Error, ErrorKind, Result};

use super::actions::Commit;
use super::log::{Put, TableLog};

/// How often one commit file is put while nobody's is there.
const PUTS: u32 = 5;
/// The first pause between two puts; each later one is twice as long.
const PAUSE: Duration = Duration::from_millis(50);

/// Whose commit a version became.
pub(super) enum Published {
    Ours,
    Theirs(Box<Commit>),
}

/// Writes commits of one table.
#[derive(Debug)]
pub(super) struct Publisher {
    log: TableLog,
    clock: Arc<dyn Clock>,
    unresolved: AtomicBool,
}

impl Publisher {
    pub(super) fn new(log: TableLog, clock: Arc<dyn Clock>) -> Self {
        Publisher { log, clock, unresolved: AtomicBool::new(false) }
    }

    /// Whether a put was begun whose outcome is not known: its files may be part of the table, whatever the caller thinks.
    pub(super) fn is_unresolved(&self) -> bool {
        self.unresolved.load(Ordering::Acquire)
    }

    /// Gets `bytes` into version `version`, or finds out who has it.
    ///
    /// # Errors
    /// `DELTA_COMMIT_OUTCOME_UNKNOWN`, `DELTA_LOG_CORRUPT` for another writer's commit that cannot be read.
    pub(super) async fn publish(&self, version: u64, bytes: &Bytes) -> Result<Published> {
        let mut pause = PAUSE;
        let mut cause: Option<Error> = None;
        for attempt in 1..=PUTS {
            self.unresolved.store(true, Ordering::Release);
            let put = self.log.put_commit(version, bytes.clone()).await?;
            if let Put::Written = put {
                self.unresolved.store(false, Ordering::Release);
                return Ok(Published::Ours);
            }
            match self.log.read_commit_bytes(version).await {
                Ok(Some(found)) => {
                    self.unresolved.store(false, Ordering::Release);
                    if found == *bytes {
                        return Ok(Published::Ours);
                    }
                    return Commit::parse(version, &found, self.log.kind()).map(|commit| Published::Theirs(Box::new(commit)));
                }
                Ok(None) => {
                    if let Put::Unknown(error) = put {
                        cause = Some(self.log.unavailable(format!("cannot write commit {version}"), error));
                    }
                }
                Err(error) => cause = Some(error),
            }
            if attempt < PUTS {
                self.clock.sleep(pause).await;
                pause *= 2;
            }
        }
        let error = Error::new(
            ErrorKind::SinkUnavailable,
            "DELTA_COMMIT_OUTCOME_UNKNOWN",
            format!(
                "commit {version} of table {} could not be written and it cannot be told whether a late write will still arrive; restarting \
                 the query is safe: it looks first and commits only what is missing",
                self.log.url()
            ),
        );
        Err(match cause {
            Some(cause) => error.caused_by(cause),
            None => error,
        })
    }
}
