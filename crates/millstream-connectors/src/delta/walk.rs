//! From positions to files: what a range of a table's history contains, and what to do where the log has a gap.

use std::collections::BTreeMap;
use std::sync::Arc;

use millstream_core::{Clock, Error, ErrorKind, ReadLimit, Result};

use super::actions::{Add, Commit};
use super::changes::{Change, Piece, Rules};
use super::history;
use super::log::TableLog;
use super::offset::{BEFORE, Position};
use super::options::Starting;

/// Commits whose files are kept between planning and reading.
const KEPT_COMMITS: usize = 1024;
/// How often a missing next commit is checked against the log, in milliseconds.
const CONFIRM_MS: i64 = 60_000;

#[derive(Debug, Default)]
pub(super) struct State {
    /// The files of the table at the version with which the query begins.
    pub initial: Option<(u64, Arc<Vec<Arc<Add>>>)>,
    pub commits: BTreeMap<u64, Arc<Vec<Change>>>,
    /// The last version to read, once the end of the input is fixed.
    pub last: Option<u64>,
    /// A position, and the one up to which nothing follows it.
    pub quiet: Option<(Position, Position)>,
    /// When the log was last checked for commits that are gone.
    confirmed_ms: Option<i64>,
}

/// How much of a batch's limit is left. The first file is always admitted.
pub(super) struct Budget {
    files: Option<u64>,
    bytes: Option<u64>,
    empty: bool,
}

impl Budget {
    pub(super) fn of(limit: &ReadLimit) -> Self {
        Budget { files: limit.max_files(), bytes: limit.max_bytes(), empty: true }
    }

    fn take(&mut self, bytes: u64) -> bool {
        let room = self.files != Some(0) && self.bytes != Some(0);
        if !room && !self.empty {
            return false;
        }
        self.empty = false;
        self.files = self.files.map(|files| files.saturating_sub(1));
        self.bytes = self.bytes.map(|left| left.saturating_sub(bytes));
        true
    }
}

/// Files of a range.
pub(super) struct Walk {
    pub files: Vec<Piece>,
    pub end: Position,
    /// Files, and their bytes, known to follow.
    pub left: (u64, u64),
}

/// Where a query without a checkpoint begins.
pub(super) enum First {
    /// Read on from here.
    At(Position),
    /// This position has to be written down before anything that follows is read: the same question gives another answer later.
    Pin(Position),
    /// There is nothing yet; this version would be news.
    Nothing(u64),
}

/// Walks along the history of one table.
#[derive(Debug)]
pub(super) struct Walker {
    pub log: TableLog,
    pub rules: Rules,
    pub clock: Arc<dyn Clock>,
}

impl Walker {
    pub(super) async fn newest(&self, state: &State) -> Result<u64> {
        let newest = history::newest(&self.log, self.rules.schema_version).await?;
        Ok(state.last.map_or(newest, |last| newest.min(last)))
    }

    /// Where a query without a checkpoint begins.
    pub(super) async fn first(&self, state: &mut State) -> Result<First> {
        match self.rules.options.starting {
            Starting::Version(version) => {
                let newest = self.newest(state).await?;
                if version > newest {
                    return Err(history::no_such_version(&self.log, version, newest));
                }
                Ok(First::At(Position::before(version)))
            }
            Starting::Latest => Ok(First::Pin(Position::before(self.newest(state).await? + 1))),
            Starting::Timestamp(time_ms) => match history::first_at_or_after(&self.log, time_ms).await? {
                Some(version) => Ok(First::At(Position::before(version))),
                None => Ok(First::Pin(Position::before(self.newest(state).await? + 1))),
            },
            Starting::Snapshot => {
                let version = match &state.initial {
                    Some((version, _)) if self.log.commit_time(version + 1).await?.is_none() => *version,
                    _ => self.newest(state).await?,
                };
                if self.initial(state, version).await?.is_empty() {
                    return Ok(First::Nothing(version + 1));
                }
                Ok(First::At(Position::table_at(version)))
            }
        }
    }

    /// Where the range of a first batch begins whose end is known.
    pub(super) async fn first_before(&self, end: Position) -> Result<Position> {
        if end.initial {
            return Ok(Position::table_at(end.version));
        }
        match self.rules.options.starting {
            Starting::Version(version) => Ok(Position::before(version)),
            Starting::Latest => Ok(end),
            Starting::Timestamp(time_ms) => Ok(history::first_at_or_after(&self.log, time_ms).await?.map_or(end, Position::before)),
            Starting::Snapshot => match (end.version.checked_sub(1), end.index) {
                (Some(version), BEFORE) => Ok(Position::table_at(version)),
                _ => {
                    let message = format!(
                        "the first batch of the checkpoint ends inside version {} of table {}, which a query that begins with the whole \
                         table never does: restore the options of the query, or start a new checkpoint",
                        end.version,
                        self.log.url()
                    );
                    Err(Error::new(ErrorKind::CheckpointIncompatible, "DELTA_OFFSET_NOT_OF_THIS_QUERY", message))
                }
            },
        }
    }

    /// The files of the table at a version, in the order in which they are read.
    async fn initial(&self, state: &mut State, version: u64) -> Result<Arc<Vec<Arc<Add>>>> {
        if let Some((known, files)) = &state.initial
            && *known == version
        {
            return Ok(files.clone());
        }
        let read = async {
            match self.log.snapshot(Some(version)).await? {
                Some(snapshot) => snapshot.files().await,
                None => Err(history::no_table(&self.log)),
            }
        };
        let mut files = match read.await {
            Ok(files) => files,
            Err(error) => return Err(self.explain_initial(version, error).await),
        };
        files.sort_by(|left, right| (left.modification_time, &left.path).cmp(&(right.modification_time, &right.path)));
        let files: Arc<Vec<Arc<Add>>> = Arc::new(files.into_iter().map(|file| Arc::new(Add { stats: None, ..file })).collect());
        state.initial = Some((version, files.clone()));
        Ok(files)
    }

    /// Whether a table cannot be read at a version because its log no longer reaches back, or for another reason.
    async fn explain_initial(&self, version: u64, error: Error) -> Error {
        let Ok(files) = self.log.files_from(0).await else { return error };
        let checkpoint = files.iter().filter(|file| file.checkpoint && file.version <= version).map(|file| file.version).max();
        let from = checkpoint.map_or(0, |checkpoint| checkpoint + 1);
        let complete = (from..=version).all(|version| files.iter().any(|file| !file.checkpoint && file.version == version));
        if complete {
            return error;
        }
        let earliest = files.iter().map(|file| file.version).min().unwrap_or(0);
        lost(&self.log, version, earliest).caused_by(error)
    }

    /// When a version was committed, milliseconds since the epoch.
    async fn time_of(&self, version: u64, commit: Option<&Commit>) -> Result<i64> {
        match commit.and_then(Commit::in_commit_timestamp) {
            Some(time_ms) => Ok(time_ms),
            None => Ok(self.log.commit_time(version).await?.unwrap_or(0)),
        }
    }

    /// The files that a commit passes on, or `None` when there is no such commit.
    async fn changes(&self, state: &mut State, version: u64) -> Result<Option<Arc<Vec<Change>>>> {
        if let Some(changes) = state.commits.get(&version) {
            return Ok(Some(changes.clone()));
        }
        let Some(commit) = self.log.read_commit(version).await? else { return Ok(None) };
        let changes = match self.rules.options.change_feed {
            false => self.rules.changes(version, &commit)?,
            true => self.rules.feed(version, self.time_of(version, Some(&commit)).await?, &commit)?,
        };
        let changes = Arc::new(changes);
        state.commits.insert(version, changes.clone());
        if state.commits.len() > KEPT_COMMITS {
            state.commits.pop_first();
        }
        Ok(Some(changes))
    }

    /// Where the log goes on if it lacks `version` and has later ones.
    async fn gap(&self, state: &mut State, version: u64) -> Result<Option<u64>> {
        let now_ms = self.clock.now_ms();
        if let Some(confirmed_ms) = state.confirmed_ms {
            if now_ms.saturating_sub(confirmed_ms) < CONFIRM_MS {
                return Ok(None);
            }
            state.confirmed_ms = Some(now_ms);
            if self.log.last_checkpoint().await.is_none_or(|checkpoint| checkpoint < version) {
                return Ok(None);
            }
        }
        state.confirmed_ms = Some(now_ms);
        let files = self.log.files_from(version).await?;
        let commit = files.iter().filter(|file| !file.checkpoint).map(|file| file.version).min();
        let checkpoint = files.iter().filter(|file| file.checkpoint).map(|file| file.version + 1).max();
        Ok(commit.or(checkpoint).filter(|earliest| *earliest > version))
    }

    /// Collects files from a position on, until the budget is spent, `until` is reached or nothing follows.
    pub(super) async fn walk(&self, state: &mut State, from: Position, budget: &mut Budget, until: Option<Position>) -> Result<Walk> {
        let mut walk = Walk { files: Vec::new(), end: from, left: (0, 0) };
        if from.initial && !until.is_some_and(|until| from.reached(until)) {
            let files = match self.initial(state, from.version).await {
                Ok(files) => files,
                Err(error) if error.kind() == ErrorKind::DataLost && !self.rules.options.fail_on_data_loss => {
                    tracing::warn!(%error, "going on without the rest of the table, because failOnDataLoss is false");
                    Arc::default()
                }
                Err(error) => return Err(error),
            };
            let next = usize::try_from(from.index + 1).unwrap_or(0);
            let timestamp_ms = if self.rules.options.change_feed { self.time_of(from.version, None).await? } else { 0 };
            for (index, add) in (0_i64..).zip(files.iter()).skip(next) {
                if until.is_some_and(|until| until.initial && until.version == from.version && index > until.index) {
                    return Ok(walk);
                }
                if self.rules.wanted(add) {
                    if !budget.take(add.size) {
                        let rest = files.iter().skip(usize::try_from(index).unwrap_or(0));
                        walk.left = rest.fold((0, 0), |(files, bytes), add| (files + 1, bytes + add.size));
                        return Ok(walk);
                    }
                    walk.files.push(self.rules.initial(from.version, timestamp_ms, add));
                }
                walk.end.index = index;
            }
            // A batch never goes beyond the end of the table as it was, so that its beginning can be told from its end.
            walk.end = Position::before(from.version + 1);
            if until.is_none() {
                return Ok(walk);
            }
        }
        while until.is_none_or(|until| !walk.end.reached(until)) && state.last.is_none_or(|last| walk.end.version <= last) {
            let Some(changes) = self.changes(state, walk.end.version).await? else {
                match self.missing(state, walk.end.version, until).await? {
                    Some(position) => walk.end = position,
                    None => break,
                }
                continue;
            };
            let after = walk.end.index;
            for change in changes.iter().filter(|change| change.index > after) {
                if until.is_some_and(|until| until.version == walk.end.version && change.index > until.index) {
                    return Ok(walk);
                }
                if !budget.take(change.piece.size()) {
                    let rest = changes.iter().filter(|other| other.index >= change.index);
                    walk.left = rest.fold((0, 0), |(files, bytes), other| (files + 1, bytes + other.piece.size()));
                    return Ok(walk);
                }
                walk.files.push(change.piece.clone());
                walk.end.index = change.index;
            }
            walk.end = Position::before(walk.end.version + 1);
        }
        Ok(walk)
    }

    /// What to do about a commit that is not there: wait (`None`), go on elsewhere, or fail.
    async fn missing(&self, state: &mut State, version: u64, until: Option<Position>) -> Result<Option<Position>> {
        let earliest = match until {
            Some(_) => self.log.files_from(version).await?.iter().map(|file| file.version).min().unwrap_or(version).max(version + 1),
            None => match self.gap(state, version).await? {
                Some(earliest) => earliest,
                None => return Ok(None),
            },
        };
        let error = lost(&self.log, version, earliest);
        if self.rules.options.fail_on_data_loss {
            return Err(error);
        }
        tracing::warn!(%error, "going on at the earliest version there is, because failOnDataLoss is false");
        let next = until.map_or(earliest, |until| earliest.min(until.version.max(version + 1)));
        Ok(Some(Position::before(next)))
    }
}

/// The error for versions that were cleaned up before they were read.
fn lost(log: &TableLog, expected: u64, earliest: u64) -> Error {
    let message = format!(
        "the stream from table {} was expecting to process data from version {expected}, but the earliest available version in the \
         _delta_log directory is {earliest}. The files in the transaction log may have been deleted due to log cleanup. In order to avoid \
         losing data, start a new checkpoint, or set the option 'failOnDataLoss' to 'false' to go on without the lost versions.",
        log.url()
    );
    Error::new(ErrorKind::DataLost, "DELTA_MISSING_FILES_UNEXPECTED_VERSION", message).with_sqlstate("XXKDS")
}
