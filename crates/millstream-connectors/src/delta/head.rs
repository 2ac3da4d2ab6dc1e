//! What a long-lived writer knows of its table: version, protocol, metadata and its own transaction, kept up to date by reading each new
//! commit once. The list of files is not part of it, so that neither memory nor time per commit grows with the table.

use std::collections::BTreeMap;
use std::sync::Arc;

use millstream_core::{ErrorKind, Result};

use super::actions::{Add, Commit, Metadata, Protocol};
use super::log::TableLog;
use super::plan::Current;
use super::schema::TableSchema;
use super::snapshot::TableSnapshot;

/// After this long without a look at the log, a missing next commit is confirmed by a listing: it may have been written and cleaned up.
const TRUSTED_MS: i64 = 10 * 60 * 1000;

/// The newest known state of a table.
#[derive(Debug)]
pub(super) struct Head {
    pub version: u64,
    pub protocol: Protocol,
    pub metadata: Metadata,
    pub schema: Arc<TableSchema>,
    /// Grows whenever protocol or metadata change.
    pub epoch: u64,
    /// The application asked for, and its newest transaction.
    app: Option<(String, Option<i64>)>,
    /// Until an application is asked for: the snapshot to ask, and the transactions of later commits.
    opened: Option<TableSnapshot>,
    later: BTreeMap<String, i64>,
    /// The files of the table; only for writers that replace them all.
    files: Option<BTreeMap<(String, Option<String>), Add>>,
    checked_ms: i64,
}

impl Head {
    /// The newest state of a table, or `None` when there is no table.
    pub(super) async fn open(log: &TableLog, now_ms: i64) -> Result<Option<Self>> {
        let Some(snapshot) = log.snapshot(None).await? else { return Ok(None) };
        let mut head = Head {
            version: snapshot.version(),
            protocol: snapshot.protocol.clone(),
            metadata: snapshot.metadata.clone(),
            schema: Arc::new(TableSchema::of(&snapshot.metadata, log.kind())?),
            epoch: 1,
            app: None,
            opened: Some(snapshot),
            later: BTreeMap::new(),
            files: None,
            checked_ms: now_ms,
        };
        head.follow(log, now_ms).await?;
        Ok(Some(head))
    }

    /// What a write finds.
    pub(super) fn current(&self) -> Current<'_> {
        Current { protocol: &self.protocol, metadata: &self.metadata, schema: &self.schema, cared_for: &[] }
    }

    /// The state after the table's first commit, which was ours.
    pub(super) fn created(commit: &Commit, now_ms: i64, kind: ErrorKind) -> Result<Self> {
        let metadata = commit.metadata.clone().unwrap_or_default();
        let mut head = Head {
            version: 0,
            protocol: Protocol::default(),
            schema: Arc::new(TableSchema::of(&metadata, kind)?),
            metadata,
            epoch: 0,
            app: None,
            opened: None,
            later: BTreeMap::new(),
            files: Some(BTreeMap::new()),
            checked_ms: now_ms,
        };
        head.apply(0, commit, kind)?;
        Ok(head)
    }

    /// Reads the commits that are new.
    pub(super) async fn follow(&mut self, log: &TableLog, now_ms: i64) -> Result<()> {
        while let Some(commit) = log.read_commit(self.version + 1).await? {
            self.apply(self.version + 1, &commit, log.kind())?;
            self.checked_ms = now_ms;
        }
        if now_ms.saturating_sub(self.checked_ms) < TRUSTED_MS {
            return Ok(());
        }
        let newer = log.files_from(self.version).await?;
        let own = newer.iter().any(|file| file.version == self.version);
        if !own || newer.iter().any(|file| file.version > self.version) {
            self.reopen(log, now_ms).await?;
        }
        self.checked_ms = now_ms;
        Ok(())
    }

    /// Starts over from the log: the commits between were cleaned up, or the table was replaced.
    async fn reopen(&mut self, log: &TableLog, now_ms: i64) -> Result<()> {
        let Some(snapshot) = log.snapshot(None).await? else { return Ok(()) };
        self.version = snapshot.version();
        self.protocol = snapshot.protocol.clone();
        self.metadata = snapshot.metadata.clone();
        self.schema = Arc::new(TableSchema::of(&self.metadata, log.kind())?);
        self.epoch += 1;
        self.files = None;
        self.later.clear();
        self.app = None;
        self.opened = Some(snapshot);
        self.checked_ms = now_ms;
        Ok(())
    }

    /// Takes the next commit into account, ours or another writer's.
    pub(super) fn apply(&mut self, version: u64, commit: &Commit, kind: ErrorKind) -> Result<()> {
        if let Some(metadata) = &commit.metadata {
            self.schema = Arc::new(TableSchema::of(metadata, kind)?);
            self.metadata = metadata.clone();
        }
        if let Some(protocol) = &commit.protocol {
            self.protocol = protocol.clone();
        }
        if commit.metadata.is_some() || commit.protocol.is_some() {
            self.epoch += 1;
        }
        for txn in &commit.txns {
            match &mut self.app {
                Some((app, newest)) if *app == txn.app_id => *newest = Some(txn.version),
                Some(_) => {}
                None => drop(self.later.insert(txn.app_id.clone(), txn.version)),
            }
        }
        if let Some(files) = &mut self.files {
            for remove in &commit.removes {
                files.remove(&remove.key());
            }
            for add in &commit.adds {
                files.insert(add.key(), add.clone());
            }
        }
        self.version = version;
        Ok(())
    }

    /// The newest transaction of an application.
    pub(super) async fn txn(&mut self, app_id: &str) -> Result<Option<i64>> {
        if let Some((app, newest)) = &self.app
            && app == app_id
        {
            return Ok(*newest);
        }
        let newest = match (self.later.get(app_id), &self.opened) {
            (Some(version), _) => Some(*version),
            (None, Some(snapshot)) => snapshot.txn(app_id).await?,
            (None, None) => None,
        };
        self.app = Some((app_id.to_owned(), newest));
        self.opened = None;
        self.later.clear();
        Ok(newest)
    }

    /// Every file of the table. Read once, then kept up to date.
    pub(super) async fn files(&mut self, log: &TableLog) -> Result<impl Iterator<Item = &Add>> {
        if self.files.is_none() {
            let mut files = BTreeMap::new();
            if let Some(snapshot) = log.snapshot(Some(self.version)).await? {
                snapshot.each_file(|file| drop(files.insert(file.key(), file))).await?;
            }
            self.files = Some(files);
        }
        Ok(self.files.iter().flat_map(BTreeMap::values))
    }

    /// Forgets the files, when the writer only appends.
    pub(super) fn forget_files(&mut self) {
        self.files = None;
    }
}
