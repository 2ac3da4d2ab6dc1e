//! The log of one source, `sources/<name>/N`, compacted as Spark's file source compacts its own.
//!
//! Every `compact_interval`-th batch (9, 19, … by default) is the file `N.compact` with the entries of all batches up to N, so that reading the
//! log takes one large file and a few small ones. Only entries that say which batch they belong to (`"batchId":N`, as Spark's do) can be
//! compacted; a log of other entries stays as it is. Batches are numbered from 0 without gaps.

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use millstream_core::source_log::{BatchOf, SourceLog, VisitEntry, conflicting};
use millstream_core::{Error, ErrorKind, Result, crash};
use object_store::path::Path;
use tokio::sync::Mutex;

use crate::checkpoint::Shared;
use crate::codec::{Flaw, lines};
use crate::layout::Entry;
use crate::objects::Created;

const HOLE: &str = "CHECKPOINT_LOG_HOLE";

/// The log of one source.
#[derive(Debug)]
pub(crate) struct CheckpointSourceLog {
    shared: Arc<Shared>,
    name: String,
    folder: Path,
    files: Mutex<Option<Files>>,
}

/// The files of a log, as this run knows them.
#[derive(Debug, Default)]
struct Files {
    known: BTreeMap<u64, Form>,
    /// When to look again whether files have become old enough to go, milliseconds since the epoch.
    look_again_ms: i64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    Plain,
    Compact,
}

impl CheckpointSourceLog {
    pub fn new(shared: Arc<Shared>, name: &str) -> Self {
        let folder = shared.layout.source(name);
        CheckpointSourceLog { shared, name: name.to_owned(), folder, files: Mutex::default() }
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    fn path(&self, id: u64, form: Form) -> Path {
        match form {
            Form::Plain => self.folder.clone().join(id.to_string()),
            Form::Compact => self.folder.clone().join(format!("{id}.compact")),
        }
    }

    fn is_compaction(&self, id: u64) -> bool {
        (id + 1).is_multiple_of(self.shared.options.compact_interval.max(1))
    }

    /// Lists the log once, and asks for what the listing may lack at its end.
    async fn load<'a>(&self, files: &'a mut Option<Files>) -> Result<&'a mut Files> {
        if let Some(files) = files {
            return Ok(files);
        }
        let mut known = BTreeMap::new();
        for object in self.shared.objects.list(&self.folder).await? {
            match Entry::parse(object.location.filename().unwrap_or_default()) {
                Entry::Record(id) => drop(known.entry(id).or_insert(Form::Plain)),
                Entry::Compact(id) => drop(known.insert(id, Form::Compact)),
                Entry::HadoopChecksum(_) => self.shared.note_hadoop_checksum(object.location),
                Entry::Temporary(_) | Entry::Other => {}
            }
        }
        let boundary = self.shared.boundary.lock().sources.get(&self.name).copied();
        if let Some(boundary) = boundary {
            known = known.split_off(&boundary);
            known.insert(boundary, Form::Compact);
        }
        let mut next = known.keys().next_back().map_or(0, |last| last + 1);
        while let Some(form) = self.find(next).await? {
            known.insert(next, form);
            next += 1;
        }
        Ok(files.insert(Files { known, look_again_ms: i64::MIN }))
    }

    async fn find(&self, id: u64) -> Result<Option<Form>> {
        let forms = if self.is_compaction(id) { &[Form::Compact, Form::Plain][..] } else { &[Form::Plain][..] };
        for form in forms {
            if self.shared.objects.exists(&self.path(id, *form)).await? {
                return Ok(Some(*form));
            }
        }
        Ok(None)
    }

    /// What a file that must be there has in it, read with `decode`.
    async fn file<T>(&self, id: u64, form: Form, decode: impl Fn(&Bytes) -> Result<T, Flaw>) -> Result<T> {
        let path = self.path(id, form);
        match self.shared.record(&path, decode).await? {
            Some(contents) => Ok(contents),
            None => Err(self.missing(id, form).await),
        }
    }

    /// The error for a file that must be there. For a run that no longer owns the checkpoint it is no wonder.
    async fn missing(&self, id: u64, form: Form) -> Error {
        if let Err(fenced) = self.shared.ensure_owner().await {
            return fenced;
        }
        Error::new(
            ErrorKind::CheckpointIncompatible,
            HOLE,
            format!(
                "{} is missing from the checkpoint: it was edited or damaged. Restore the file from a backup, or start a new checkpoint.",
                self.path(id, form)
            ),
        )
    }

    /// The files that together hold the entries of all batches before `end`, oldest first.
    async fn chain(&self, files: &Files, end: u64) -> Result<Vec<(u64, Form)>> {
        let compacted = files.known.range(..end).rev().find(|(_, form)| **form == Form::Compact).map(|(id, form)| (*id, *form));
        let first = compacted.map_or(0, |(id, _)| id + 1);
        let mut chain: Vec<(u64, Form)> = compacted.into_iter().collect();
        for id in first..end {
            let form = match files.known.get(&id) {
                Some(form) => *form,
                None => match self.find(id).await? {
                    Some(form) => form,
                    None => return Err(self.missing(id, Form::Plain).await),
                },
            };
            if form == Form::Compact {
                chain.clear();
            }
            chain.push((id, form));
        }
        Ok(chain)
    }

    /// The text of all batches before `id`, if every entry tells its batch.
    async fn history(&self, files: &Files, id: u64) -> Result<Option<Vec<Vec<Bytes>>>> {
        let mut history = Vec::new();
        for (batch, form) in self.chain(files, id).await? {
            if form == Form::Plain {
                let entries = self.file(batch, form, lines::decode).await?;
                if entries.iter().any(|entry| lines::batch_of(entry) != Some(batch)) {
                    return Ok(None);
                }
            }
            history.push(self.file(batch, form, lines::body).await?);
        }
        Ok(Some(history))
    }

    async fn entries(&self, files: &Files, id: u64) -> Result<Option<Vec<String>>> {
        let newest = files.known.keys().next_back();
        let (batch, form) = match files.known.get(&id) {
            Some(form) => (id, *form),
            None if newest.is_none_or(|newest| *newest < id) => return Ok(None),
            None => match files.known.range(id..).find(|(_, form)| **form == Form::Compact) {
                Some((batch, form)) => (*batch, *form),
                None => return Ok(None),
            },
        };
        let mut entries = self.file(batch, form, lines::decode).await?;
        if form == Form::Compact {
            entries.retain(|entry| lines::batch_of(entry) == Some(id));
        }
        Ok((batch == id || !entries.is_empty()).then_some(entries))
    }

    async fn read_each(&self, files: &Files, batch_of: &BatchOf<'_>, visit: &mut VisitEntry<'_>) -> Result<()> {
        let Some(newest) = files.known.keys().next_back().copied() else { return Ok(()) };
        for (batch, form) in self.chain(files, newest + 1).await? {
            // The text of a file is all that is in memory of it: a compacted one can have millions of entries.
            let parts = self.file(batch, form, lines::text).await?;
            for entry in lines::entries(&parts) {
                let batch = if form == Form::Compact { batch_of(entry).unwrap_or(batch) } else { batch };
                visit(batch, entry)?;
            }
        }
        Ok(())
    }

    /// The compacted batch below which files may go by Spark's rule, if there are any.
    pub async fn removable(&self) -> Result<Option<u64>> {
        let files = self.files.lock().await;
        let Some(files) = files.as_ref() else { return Ok(None) };
        let interval = self.shared.options.compact_interval.max(1);
        let newest = files.known.keys().next_back().copied();
        let Some(first_kept) = newest.and_then(|newest| (newest + 1).checked_sub(self.shared.options.min_batches_to_retain)) else {
            return Ok(None);
        };
        let covered = (first_kept - first_kept % interval).checked_sub(1);
        let due = self.shared.options.clock.now_ms() >= files.look_again_ms;
        Ok(covered.filter(|covered| {
            due && files.known.get(covered) == Some(&Form::Compact) && files.known.keys().next().is_some_and(|oldest| oldest < covered)
        }))
    }

    /// Removes files below the compacted batch `covered` that are old enough for no reader to be in the middle of them.
    pub async fn remove_below(&self, covered: u64) -> Result<()> {
        let mut files = self.files.lock().await;
        let Some(files) = files.as_mut() else { return Ok(()) };
        let now_ms = self.shared.options.clock.now_ms();
        let delay_ms = i64::try_from(self.shared.options.cleanup_delay.as_millis()).unwrap_or(i64::MAX);
        let (mut old, mut young) = (Vec::new(), false);
        for object in self.shared.objects.list(&self.folder).await? {
            let (Entry::Record(id) | Entry::Compact(id) | Entry::HadoopChecksum(id) | Entry::Temporary(id)) =
                Entry::parse(object.location.filename().unwrap_or_default())
            else {
                continue;
            };
            if id >= covered {
                continue;
            }
            if object.last_modified.timestamp_millis() <= now_ms.saturating_sub(delay_ms) {
                old.push(object.location);
            } else {
                young = true;
            }
        }
        self.shared.objects.delete_all(old).await?;
        if young {
            files.look_again_ms = now_ms.saturating_add(delay_ms);
        } else {
            files.known = files.known.split_off(&covered);
        }
        Ok(())
    }
}

#[async_trait]
impl SourceLog for CheckpointSourceLog {
    async fn add(&self, id: u64, entries: &[String]) -> Result<()> {
        if let Some(entry) = entries.iter().find(|entry| !lines::is_entry(entry)) {
            return Err(Error::internal(format!(
                "{entry:?} is not an entry of a source's log: one line, and JSON if it starts with a brace"
            )));
        }
        let mut files = self.files.lock().await;
        let files = self.load(&mut files).await?;
        if let Some(known) = self.entries(files, id).await? {
            self.shared.ensure_owner().await?;
            return if known == entries { Ok(()) } else { Err(conflicting(id)) };
        }
        let compactable = self.is_compaction(id) && entries.iter().all(|entry| lines::batch_of(entry) == Some(id));
        let history = if compactable { self.history(files, id).await? } else { None };
        let (form, parts) = match history {
            Some(history) => (Form::Compact, lines::encode(&history, entries)),
            None => (Form::Plain, lines::encode(&[], entries)),
        };
        let path = self.path(id, form);
        crash::point("source.log.before");
        let created = self.shared.publish(&path, &parts).await?;
        files.known.insert(id, form);
        if let Created::Other(_) = created
            && self.entries(files, id).await?.as_deref() != Some(entries)
        {
            return Err(conflicting(id));
        }
        crash::point("source.log.after");
        Ok(())
    }

    async fn get(&self, id: u64) -> Result<Option<Vec<String>>> {
        let mut files = self.files.lock().await;
        let files = self.load(&mut files).await?;
        self.entries(files, id).await
    }

    async fn latest(&self) -> Result<Option<u64>> {
        let mut files = self.files.lock().await;
        Ok(self.load(&mut files).await?.known.keys().next_back().copied())
    }

    async fn each(&self, batch_of: &BatchOf, visit: &mut VisitEntry) -> Result<()> {
        let mut files = self.files.lock().await;
        match self.read_each(self.load(&mut files).await?, batch_of, visit).await {
            Err(error) if error.code() == HOLE => {
                // The run before may have ended with a clean-up that came after our listing.
                *files = None;
                self.read_each(self.load(&mut files).await?, batch_of, visit).await
            }
            outcome => outcome,
        }
    }
}
