//! Whether a checkpoint is whole: every record, every file that a record names, and nothing missing in between.

use std::collections::{BTreeMap, BTreeSet};

use millstream_core::recovery::resume;
use millstream_core::recovery::{CommitRecord, LogTail, OffsetRecord};
use millstream_core::{ErrorKind, Result};

use super::CheckpointReader;
use crate::layout::Log;
use crate::state::{StateFile, StateManifest, blocks};

/// What a finding means for the query.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// Nothing has to be done.
    Note,
    /// The query cannot go on, or not with what it had.
    Fault,
}

/// Something that was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// What it means.
    pub severity: Severity,
    /// The file or log, below the checkpoint.
    pub place: String,
    /// What is the matter, and what to do.
    pub what: String,
}

#[derive(Default)]
struct Findings(Vec<Finding>);

impl Findings {
    fn note(&mut self, place: impl Into<String>, what: impl Into<String>) {
        self.0.push(Finding { severity: Severity::Note, place: place.into(), what: what.into() });
    }

    fn fault(&mut self, place: impl Into<String>, what: impl Into<String>) {
        self.0.push(Finding { severity: Severity::Fault, place: place.into(), what: what.into() });
    }
}

impl CheckpointReader {
    /// Reads all there is and lists what is not as it should be, faults first.
    ///
    /// # Errors
    /// Those of the store, and `CHECKPOINT_NOT_FOUND`. What is wrong with the checkpoint is a finding and no error.
    pub async fn verify(&self) -> Result<Vec<Finding>> {
        let mut findings = Findings::default();
        match self.query_id().await {
            Ok(_) => {}
            Err(error) if error.code() == "CHECKPOINT_NOT_FOUND" && !self.batches().await?.is_empty() => {
                findings.fault("metadata", "it is missing: restore it, or start a new checkpoint");
            }
            Err(error) if error.kind() == ErrorKind::CheckpointIncompatible => findings.fault("metadata", error.message()),
            Err(error) => return Err(error),
        }
        let (offsets, commits) = self.logs(&mut findings).await?;
        sequence(Log::Offsets, offsets.keys(), &mut findings);
        sequence(Log::Commits, commits.keys(), &mut findings);
        let latest = |batch: &u64| offsets.get(batch).cloned().map(|record| (*batch, record));
        let latest_offsets = offsets.keys().next_back().and_then(latest);
        let previous = latest_offsets.as_ref().and_then(|(batch, _)| batch.checked_sub(1));
        let tail = LogTail {
            previous_offsets: previous.as_ref().and_then(latest),
            latest_offsets,
            latest_commit: commits.iter().next_back().map(|(batch, record)| (*batch, record.clone())),
        };
        if let Err(error) = resume(&tail) {
            findings.fault("offsets", error.message());
        }
        self.state(&commits, &mut findings).await?;
        self.sources(&mut findings).await?;
        findings.0.sort_by(|a, b| (b.severity, &a.place).cmp(&(a.severity, &b.place)));
        Ok(findings.0)
    }

    async fn logs(&self, findings: &mut Findings) -> Result<(BTreeMap<u64, OffsetRecord>, BTreeMap<u64, CommitRecord>)> {
        let (mut offsets, mut commits) = (BTreeMap::new(), BTreeMap::new());
        let batches = self.batches().await?;
        let newest = batches.keys().next_back().copied();
        for (batch, records) in batches {
            if records.planned_ms.is_some() {
                match self.offsets(batch).await {
                    Ok(Some(record)) => drop(offsets.insert(batch, record)),
                    Ok(None) => {}
                    // The write of the newest record may have been cut off, and is then done again.
                    Err(error) if Some(batch) == newest && records.committed_ms.is_none() => {
                        findings
                            .note(format!("offsets/{batch}"), format!("{} It is the newest: a restart sets it aside.", error.message()));
                    }
                    Err(error) => findings.fault(format!("offsets/{batch}"), error.message()),
                }
            }
            if records.committed_ms.is_some() {
                match self.commit(batch).await {
                    Ok(Some(record)) => drop(commits.insert(batch, record)),
                    Ok(None) => {}
                    Err(error) => findings.fault(format!("commits/{batch}"), error.message()),
                }
            }
        }
        Ok((offsets, commits))
    }

    async fn state(&self, commits: &BTreeMap<u64, CommitRecord>, findings: &mut Findings) -> Result<()> {
        let mut named: BTreeMap<String, StateFile> = BTreeMap::new();
        let Some((newest, record)) = commits.iter().next_back() else { return Ok(()) };
        let manifest = match StateManifest::of(record) {
            Ok(manifest) => manifest,
            Err(error) => {
                findings.fault(format!("commits/{newest}"), error.message());
                return Ok(());
            }
        };
        let needed = match &manifest {
            None => BTreeSet::new(),
            Some(_) => match self.state_after(*newest).await {
                Ok(files) => files.unwrap_or_default().into_iter().map(|file| file.name).collect(),
                Err(error) => {
                    findings.fault("state", error.message());
                    BTreeSet::new()
                }
            },
        };
        for record in commits.values() {
            if let Ok(Some(manifest)) = StateManifest::of(record) {
                let files = manifest.snapshot.into_iter().chain(manifest.changes);
                named.extend(files.map(|file| (file.name.clone(), file)));
            }
        }
        let stored = self.state_files().await?;
        let mut unnamed = (0, 0);
        for file in stored.iter().filter(|file| !named.contains_key(&file.name)) {
            unnamed = (unnamed.0 + 1, unnamed.1 + file.length);
        }
        if unnamed.0 > 0 {
            findings
                .note("state", format!("{} files ({} bytes) that no commit names: leavings that retention removes", unnamed.0, unnamed.1));
        }
        for (name, file) in &named {
            let place = format!("state/{name}");
            let checked = match self.read_state(file).await {
                Ok(bytes) => blocks::decode(name, &bytes).map(drop),
                Err(error) => Err(error),
            };
            match checked {
                Ok(()) => {}
                Err(error) if error.kind() == ErrorKind::StoreUnavailable => return Err(error),
                Err(error) if needed.contains(name) => findings.fault(place, error.message()),
                Err(error) => findings.note(place, format!("{} Only earlier batches need it.", error.message())),
            }
        }
        Ok(())
    }

    async fn sources(&self, findings: &mut Findings) -> Result<()> {
        for log in self.source_logs().await? {
            for (batch, compact) in &log.files {
                let name = if *compact { format!("{batch}.compact") } else { batch.to_string() };
                if let Err(error) = self.source_entries(&self.layout.source(&log.name).join(name.as_str())).await {
                    findings.fault(format!("sources/{}/{name}", log.name), error.message());
                }
            }
            // What a compacted file covers may be gone.
            let from = log.files.iter().filter(|(_, compact)| **compact).map(|(batch, _)| *batch).next_back();
            let since: Vec<u64> = log.files.keys().copied().filter(|batch| from.is_none_or(|from| *batch >= from)).collect();
            for pair in since.windows(2) {
                if let [before, after] = pair
                    && *after > before + 1
                {
                    findings
                        .fault(format!("sources/{}", log.name), format!("batch {} is missing between {before} and {after}", before + 1));
                }
            }
        }
        Ok(())
    }
}

/// Records are numbered without gaps.
fn sequence<'a>(log: Log, batches: impl Iterator<Item = &'a u64>, findings: &mut Findings) {
    let mut last: Option<u64> = None;
    for batch in batches {
        if let Some(last) = last.filter(|last| *batch > last + 1) {
            findings.fault(log.name(), format!("batch {} is missing between {last} and {batch}: restore it from a backup", last + 1));
        }
        last = Some(*batch);
    }
}
