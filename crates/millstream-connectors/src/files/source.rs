//! The file stream source: new files become batches of its own log, and a range of the log is the same files for ever.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use async_trait::async_trait;
use futures::{StreamExt, TryStreamExt};
use millstream_core::registry::SourceContext;
use millstream_core::source::{FilterColumns, Source, Split};
use millstream_core::{Error, ErrorKind, Offset, ReadLimit, Result, crash};
use object_store::ObjectStoreExt;
use parking_lot::RwLock;

use super::backlog::Backlog;
use super::clean::Cleaner;
use super::listing::{FileStatus, Lister, cannot_list};
use super::local_listing::modified_ms;
use super::log::{self, LogEntry, SeenFiles};
use super::options::{CleanSource, StreamOptions};
use super::scan::Scan;
use super::uri;
use super::watch::{MOST_CHANGES, QUIET, Watch};

/// Batches of the log whose files are remembered as they were listed, so that planning them asks nothing of the store.
const REMEMBERED_BATCHES: usize = 4;

/// Requests to a store at the same time, when the files of an old batch are looked up.
const CONCURRENCY: usize = 32;

/// Reads the files of a directory, as they arrive, into a stream.
#[derive(Debug)]
pub struct FileSource {
    lister: Arc<Lister>,
    scan: Arc<Scan>,
    options: StreamOptions,
    context: SourceContext,
    cleaner: Option<Cleaner>,
    watch: Watch,
    seen: Arc<RwLock<SeenFiles>>,
    state: tokio::sync::Mutex<State>,
    report: parking_lot::Mutex<Report>,
}

#[derive(Debug)]
struct State {
    /// The next batch of the log.
    next: u64,
    backlog: Backlog,
    /// Files of the last listing that are not read because of their age.
    too_old: u64,
    /// Whether files that are too old were looked for in the log of earlier runs.
    log_was_asked: bool,
    /// Whether the last look found something to read.
    busy: bool,
    /// Files of the newest batches of the log.
    recent: BTreeMap<u64, Vec<FileStatus>>,
    /// The first batch of the log that may not have been cleaned up.
    uncleaned: u64,
    /// The first batch of the log after the newest known batch of the query.
    committed: u64,
}

/// What progress shows, and whether there is more to read at once.
#[derive(Debug, Default)]
struct Report {
    files: u64,
    bytes: u64,
    too_old: u64,
    more: bool,
}

impl FileSource {
    pub(crate) async fn open(
        lister: Arc<Lister>,
        scan: Arc<Scan>,
        options: StreamOptions,
        cleaner: Option<Cleaner>,
        context: SourceContext,
    ) -> Result<Self> {
        let mut seen = SeenFiles::new(options.max_file_age_ms, options.file_name_only);
        let mut read_before = |_, line: &str| {
            let entry = LogEntry::parse(line)?;
            seen.add(&entry.path, entry.timestamp);
            // Those that are too old go at once: a log has every file that was ever read.
            seen.purge();
            seen.sweep();
            Ok(())
        };
        context.log.each(&log::batch_of, &mut read_before).await?;
        if options.file_name_only {
            tracing::warn!("'fileNameOnly' is set: of several files with one name in different directories only the first is read");
        }
        let next = context.log.latest().await?.map_or(0, |latest| latest + 1);
        // Below the root of the file system there is too much that is not ours.
        let local = lister.inputs.first().and_then(|input| input.root.local.clone()).filter(|local| local.parent().is_some());
        Ok(FileSource {
            scan,
            cleaner,
            watch: Watch::new(local),
            seen: Arc::new(RwLock::new(seen)),
            state: tokio::sync::Mutex::new(State {
                next,
                backlog: Backlog::new(&options),
                too_old: 0,
                log_was_asked: false,
                busy: false,
                recent: BTreeMap::new(),
                uncleaned: 0,
                committed: 0,
            }),
            report: parking_lot::Mutex::default(),
            options,
            lister,
            context,
        })
    }

    /// Lists the files that were not read and offers them to the backlog. Gives the time at which the last of them arrived, if it is known.
    async fn list(&self, state: &mut State) -> Result<Option<i64>> {
        let seen = self.seen.clone();
        let listing = self.lister.list(Some(Arc::new(move |url: &str| seen.read().contains(url)))).await?;
        if self.lister.reads_manifest() && self.options.clean != CleanSource::Off {
            return Err(Error::invalid(
                "INVALID_OPTION_VALUE",
                "cleanSource is not supported when reading the output directory of a streaming file sink: set it to 'off'",
            ));
        }
        let mut files = listing.files;
        let mut too_old = self.seen.write().sift(&mut files);
        // What an earlier run read may have been swept out since; from the first listing on, nothing is without having been looked at.
        if !too_old.is_empty() && !state.log_was_asked {
            let mut unread = self.seen.read().by_key(too_old);
            let mut read_before = |_, line: &str| {
                self.seen.write().read_before(&mut unread, &LogEntry::parse(line)?.path);
                Ok(())
            };
            self.context.log.each(&log::batch_of, &mut read_before).await?;
            too_old = unread.into_values().collect();
        }
        state.log_was_asked = true;
        if let Some(file) = too_old.first().filter(|_| state.too_old == 0) {
            tracing::warn!(
                files = too_old.len(),
                file,
                "files are not read because they are older than the newest file by more than 'maxFileAge': set it higher to read them"
            );
        }
        state.too_old = too_old.len() as u64;
        if !files.is_empty() {
            self.watch.found();
        }
        state.backlog.offer(files);
        Ok(listing.newest_arrival_ms)
    }

    /// Lists as [`FileSource::list`] does. Where nothing was waiting and the first file has only just come, those that come with it are
    /// waited for. A busy source finds them in its next batch.
    async fn list_settled(&self, state: &mut State, limit: &ReadLimit) -> Result<()> {
        let mut newest_ms = self.list(state).await?;
        if state.busy || !takes_several(limit) {
            return Ok(());
        }
        for _ in 0..MOST_CHANGES {
            let age_ms = newest_ms.map(|newest_ms| self.context.clock.now_ms().saturating_sub(newest_ms));
            if age_ms.is_none_or(|age_ms| age_ms < 0 || u128::from(age_ms.unsigned_abs()) >= QUIET.as_millis()) {
                break;
            }
            self.context.clock.sleep(QUIET).await;
            newest_ms = self.list(state).await?;
        }
        Ok(())
    }

    /// Makes files durable as the next batch of the log.
    async fn write_log(&self, state: &mut State, batch: Vec<FileStatus>) -> Result<()> {
        let id = state.next;
        let mut lines = Vec::with_capacity(batch.len());
        for file in &batch {
            lines.push(LogEntry { path: file.url.clone(), timestamp: file.modified_ms, batch_id: id }.to_line()?);
        }
        if let Err(error) = self.context.log.add(id, &lines).await {
            state.backlog.give_back(batch);
            return Err(error);
        }
        let mut seen = self.seen.write();
        for file in &batch {
            seen.add(&file.url, file.modified_ms);
        }
        seen.purge();
        drop(seen);
        state.next = id + 1;
        state.recent.insert(id, batch);
        while state.recent.len() > REMEMBERED_BATCHES {
            state.recent.pop_first();
        }
        Ok(())
    }

    /// The entries of a batch of the log.
    async fn entries(&self, id: u64) -> Result<Vec<LogEntry>> {
        let lines = self.context.log.get(id).await?.ok_or_else(|| {
            Error::new(
                ErrorKind::DataLost,
                "BATCH_METADATA_NOT_FOUND",
                format!("batch {id} is missing from the source's log: restore the checkpoint, or start a new one"),
            )
            .with_sqlstate("42K03")
        })?;
        let entries = lines.iter().map(|line| LogEntry::parse(line)).collect::<Result<Vec<_>>>()?;
        // A compacted batch repeats all before it.
        Ok(entries.into_iter().filter(|entry| entry.batch_id == id).collect())
    }

    /// The files of a batch of the log as they are now; `true` marks those that are gone.
    async fn look_up(&self, id: u64) -> Result<Vec<(FileStatus, bool)>> {
        let entries = self.entries(id).await?;
        let files = match self.lister.inputs.first().and_then(|input| input.root.local.clone().map(|local| (local, input.root.clone()))) {
            Some((local, root)) => {
                for entry in &entries {
                    self.lister.root_of(&entry.path)?;
                }
                let looking = tokio::task::spawn_blocking(move || {
                    let look = |entry: LogEntry| {
                        let relative = root.relative(&entry.path).unwrap_or_default();
                        let path = match relative {
                            "" => local.clone(),
                            relative => local.join(super::local_file::path_from_bytes(uri::decode(relative))),
                        };
                        match std::fs::metadata(&path) {
                            Ok(metadata) => Ok(found(entry, metadata.len(), modified_ms(&metadata))),
                            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(gone(entry)),
                            Err(error) => Err(cannot_list(&entry.path, error)),
                        }
                    };
                    entries.into_iter().map(look).collect::<Result<Vec<_>>>()
                });
                looking.await.map_err(|error| Error::internal("looking up files broke off").caused_by(error))??
            }
            None => {
                let look = |entry: LogEntry| async move {
                    let file = self.lister.root_of(&entry.path)?.file_ref(&entry.path, 0)?;
                    match file.store.head(&file.path).await {
                        Ok(meta) => Ok(found(entry, meta.size, meta.last_modified.timestamp_millis())),
                        Err(object_store::Error::NotFound { .. }) => Ok(gone(entry)),
                        Err(error) => Err(cannot_list(&entry.path, error)),
                    }
                };
                futures::stream::iter(entries).map(look).buffered(CONCURRENCY).try_collect().await?
            }
        };
        Ok(files)
    }

    fn show(&self, state: &State, more: bool) {
        let (files, bytes) = state.backlog.waiting();
        *self.report.lock() = Report { files, bytes, too_old: state.too_old, more: more || files > 0 };
    }
}

/// Whether a batch can have more than one file.
fn takes_several(limit: &ReadLimit) -> bool {
    limit.max_files() != Some(1)
}

fn found(entry: LogEntry, size: u64, modified_ms: i64) -> (FileStatus, bool) {
    if modified_ms != entry.timestamp {
        tracing::warn!(file = %entry.path, "the file was written again after it had been planned; it is read as it is now");
    }
    (FileStatus { url: entry.path, size, modified_ms }, false)
}

fn gone(entry: LogEntry) -> (FileStatus, bool) {
    (FileStatus { url: entry.path, size: 0, modified_ms: entry.timestamp }, true)
}

#[async_trait]
impl Source for FileSource {
    fn description(&self) -> String {
        let path = self.lister.inputs.first().map_or("", |input| &input.display);
        format!("FileStreamSource[{path}]")
    }

    fn schema(&self) -> SchemaRef {
        self.scan.schema.clone()
    }

    fn filters(&self) -> FilterColumns {
        self.scan.filters()
    }

    fn read_limit(&self) -> ReadLimit {
        self.options.read_limit()
    }

    fn supports_available_now(&self) -> bool {
        true
    }

    async fn prepare_available_now(&self) -> Result<()> {
        let mut state = self.state.lock().await;
        self.list(&mut state).await?;
        state.backlog.freeze();
        self.show(&state, false);
        Ok(())
    }

    async fn restore(&self, committed: Option<&Offset>) -> Result<()> {
        let Some(committed) = committed else { return Ok(()) };
        let next = log::next_batch(Some(committed))?;
        let mut state = self.state.lock().await;
        if next > state.next {
            return Err(Error::new(
                ErrorKind::DataLost,
                "BATCH_METADATA_NOT_FOUND",
                format!("the checkpoint stands at {committed} but the source's log ends before batch {}: restore the log", state.next),
            )
            .with_sqlstate("42K03"));
        }
        let Some(last) = next.checked_sub(1) else { return Ok(()) };
        // The batch before the last one may not have been cleaned up, if the last one was not committed.
        state.uncleaned = last.saturating_sub(1);
        state.committed = next;
        // Spark, too, refuses a moved path here, before anything new is planned. Patterns may change.
        if self.lister.inputs.iter().all(|input| !input.is_pattern()) {
            for entry in self.entries(last).await? {
                self.lister.root_of(&entry.path)?;
            }
        }
        Ok(())
    }

    async fn latest_offset(&self, start: Option<&Offset>, limit: &ReadLimit) -> Result<Option<Offset>> {
        let after = log::next_batch(start)?;
        let mut state = self.state.lock().await;
        // What a run logged and did not live to plan comes first and, under a limit, alone.
        let planned_before = state.next > after && *limit != ReadLimit::AllAvailable;
        if !planned_before {
            if state.backlog.needs_listing() {
                self.list_settled(&mut state, limit).await?;
            }
            let batch = state.backlog.take(limit);
            state.busy = !batch.is_empty();
            if !batch.is_empty() {
                self.write_log(&mut state, batch).await?;
            }
        }
        let last = if planned_before { after } else { state.next.saturating_sub(1) };
        self.show(&state, last + 1 < state.next);
        if state.next > after { log::offset(last).map(Some) } else { Ok(start.cloned()) }
    }

    async fn plan(&self, start: Option<&Offset>, end: &Offset) -> Result<Vec<Arc<dyn Split>>> {
        let (first, next) = (log::next_batch(start)?, log::next_batch(Some(end))?);
        let mut files = Vec::new();
        for id in first..next {
            let recent = self.state.lock().await.recent.get(&id).cloned();
            match recent {
                Some(recent) => files.extend(recent.into_iter().map(|file| (file, false))),
                None => files.extend(self.look_up(id).await?),
            }
        }
        let mut state = self.state.lock().await;
        state.uncleaned = state.uncleaned.min(first);
        drop(state);
        self.scan.splits(files)
    }

    async fn commit(&self, end: &Offset) -> Result<()> {
        let next = log::next_batch(Some(end))?;
        let mut state = self.state.lock().await;
        // As in Spark, a batch is cleaned up when the one after it is through. The first commit after a restart may be a repeated one.
        let until = if next > state.committed { state.committed } else { next.saturating_sub(1) };
        crash::point("source.commit.before");
        if let Some(cleaner) = &self.cleaner {
            let mut files = Vec::new();
            for id in state.uncleaned..until {
                let entries = self.entries(id).await?.into_iter();
                files.extend(entries.map(|entry| FileStatus { url: entry.path, size: 0, modified_ms: entry.timestamp }));
            }
            cleaner.clean(&self.lister, files).await;
        }
        crash::point("source.commit.after");
        state.uncleaned = state.uncleaned.max(until);
        state.committed = state.committed.max(next);
        state.recent.retain(|id, _| *id >= next);
        Ok(())
    }

    async fn changed(&self) {
        if !self.report.lock().more {
            self.watch.changed(self.context.clock.as_ref(), takes_several(&self.options.read_limit())).await;
        }
    }

    fn metrics(&self) -> BTreeMap<String, String> {
        let report = self.report.lock();
        let mut metrics = BTreeMap::from([
            ("numFilesOutstanding".to_owned(), report.files.to_string()),
            ("numBytesOutstanding".to_owned(), report.bytes.to_string()),
        ]);
        // Spark has no such metric: it leaves such files out without a word.
        if report.too_old > 0 {
            metrics.insert("numFilesTooOld".to_owned(), report.too_old.to_string());
        }
        metrics
    }

    async fn stop(&self) {
        self.watch.stop();
    }
}
