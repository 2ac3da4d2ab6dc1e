//! Stores that fail: every failure, at every kind of request, at every place of the checkpoint and of the tables.
//!
//! By default a seeded part of the cases is run; `MILL_SWEEP=all` runs every one.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use futures::{StreamExt, stream};
use millstream::ErrorKind;
use millstream::wiring::Wiring;
use millstream_checkpoint::store::{ConfirmedStore, DurableStore, Failure, Fault, FaultStore, Gate, Hit, Operation, Privacy};
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt};
use tempfile::TempDir;

use crate::power_cut::Unsynced;
use crate::scenario::{self, Places, sampled};

/// Input files when the faulty run starts.
const FILES: i64 = 4;
/// How many requests of a kind at a place are hit, one per case.
const HITS: u64 = 3;
/// Of the cases, one in so many is run by default.
const ONE_IN: u64 = 6;
/// Cases at once.
const AT_ONCE: usize = 4;

/// The places whose requests fail.
const SITES: &[&str] = &[
    "cp/metadata",
    "cp/epoch",
    "cp/offsets",
    "cp/commits",
    "cp/sources",
    "cp/boundary",
    "table/_delta_log",
    "table/part-",
    "bad/_delta_log",
    "bad/part-",
];

/// Where the faulty run starts, and on what.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Start {
    /// Nothing is there yet. An object store.
    Fresh,
    /// Two batches are in the table, the second without its commit record. An object store.
    Resumed,
    /// Nothing is there yet. A local disk.
    Disk,
}

/// What happens to the request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    Before(Failure),
    After(Failure),
    Stall,
    Zombie,
    Truncate(usize),
    Flip(u64),
    Partial(usize),
}

impl Kind {
    fn all() -> Vec<Kind> {
        let failures = Failure::ALL.iter().flat_map(|failure| [Kind::Before(*failure), Kind::After(*failure)]);
        let rest = [Kind::Stall, Kind::Zombie, Kind::Truncate(0), Kind::Truncate(25), Kind::Flip(0), Kind::Flip(101), Kind::Flip(1_234)];
        failures.chain(rest).chain([Kind::Partial(0), Kind::Partial(1)]).collect()
    }

    fn applies_to(self, operation: Operation, start: Start) -> bool {
        use Operation as O;
        match self {
            // What only a server answers does not come from a disk.
            Kind::Before(failure) | Kind::After(failure) if start == Start::Disk => {
                matches!(failure, Failure::NoSpace | Failure::InternalError)
            }
            Kind::Before(_) | Kind::After(_) | Kind::Stall => true,
            Kind::Zombie => matches!(operation, O::Put | O::CompleteUpload | O::Delete | O::Copy | O::Rename),
            Kind::Truncate(_) | Kind::Flip(_) => operation == O::Get,
            Kind::Partial(_) => operation == O::List,
        }
    }

    fn fault(self, gate: &Gate) -> Fault {
        match self {
            Kind::Before(failure) => Fault::Before(failure),
            Kind::After(failure) => Fault::After(failure),
            Kind::Stall => Fault::Stall(gate.clone()),
            Kind::Zombie => Fault::Zombie(gate.clone()),
            Kind::Truncate(keep) => Fault::TruncateRead(keep),
            Kind::Flip(bit) => Fault::FlipBit(bit),
            Kind::Partial(keep) => Fault::PartialList(keep),
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.fault(&Gate::new()), f)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Case {
    start: Start,
    site: &'static str,
    operation: Operation,
    hit: u64,
    kind: Kind,
}

/// A store that can fail, and everything on it.
struct Bench {
    store: FaultStore<Arc<dyn ObjectStore>>,
    places: Places,
    remote: bool,
    _directory: Option<TempDir>,
}

impl Bench {
    async fn new(start: Start, resumed: &InMemory) -> Bench {
        match start {
            Start::Fresh => Self::remote(InMemory::new(), FILES).await,
            Start::Resumed => Self::remote(resumed.fork(), FILES).await,
            Start::Disk => {
                let directory = tempfile::tempdir().unwrap();
                let root = directory.path().canonicalize().unwrap();
                let options = scenario::wiring().with_file_ops(Arc::new(Unsynced)).stores;
                let store: Arc<dyn ObjectStore> = Arc::new(DurableStore::new("/", Privacy::Shared, &options));
                let below = |name: &str| root.join(name).to_str().unwrap().to_owned();
                let places = Places::new(&below("in"), &below("disk"));
                let bench = Bench { store: FaultStore::new(store), places, remote: false, _directory: Some(directory) };
                bench.add_input(0..FILES).await;
                bench
            }
        }
    }

    async fn remote(store: InMemory, files: i64) -> Bench {
        let places = Places::new("memory:///in", "memory:///disk");
        let store: Arc<dyn ObjectStore> = Arc::new(store);
        let bench = Bench { store: FaultStore::new(store), places, remote: true, _directory: None };
        bench.add_input(0..files).await;
        bench
    }

    /// Two batches done but for the last commit record, as by a process that was killed.
    async fn resumed() -> InMemory {
        let store = InMemory::new();
        let bench = Bench::remote(store.clone(), 2).await;
        bench.run().await.unwrap();
        store.delete(&Path::from("disk/cp/commits/1")).await.unwrap();
        store.fork()
    }

    async fn add_input(&self, files: std::ops::Range<i64>) {
        let directory = Path::from(self.places.input.trim_start_matches("memory:///"));
        for file in files {
            let (name, text) = scenario::input(file);
            let path = directory.clone().join(name);
            if self.store.inner().head(&path).await.is_err() {
                self.store.inner().put(&path, text.into()).await.unwrap();
            }
        }
    }

    /// A new process on this store. Remote stores are wrapped as those of the product are.
    fn wiring(&self) -> Wiring {
        let wiring = scenario::wiring().with_file_ops(Arc::new(Unsynced));
        let (store, remote, clock) = (self.store.clone(), self.remote, wiring.clock.clone());
        wiring.with_store_decorator(move |_| -> Arc<dyn ObjectStore> {
            if remote { Arc::new(ConfirmedStore::new(store.clone(), clock.clone())) } else { Arc::new(store.clone()) }
        })
    }

    async fn run(&self) -> Result<(), scenario::Failed> {
        scenario::run(&self.wiring(), &self.places).await
    }

    async fn run_and_verify(&self, files: i64) -> Result<(), String> {
        self.run().await.map_err(|failed| format!("without faults, a run fails: {failed:?}"))?;
        scenario::verify(&self.wiring(), &self.places, files).await
    }
}

/// How the faulty run of a case ended: well, or with an error of that kind and code.
type Outcome = Option<(ErrorKind, String)>;

/// Runs a case. `None` if the fault was not met.
async fn try_case(case: Case, resumed: &InMemory) -> Option<(Outcome, Result<(), String>)> {
    let bench = Bench::new(case.start, resumed).await;
    let gate = Gate::new();
    bench.store.on(case.operation, case.site, Hit::Nth(case.hit), case.kind.fault(&gate));
    if case.kind == Kind::Stall {
        let gate = gate.clone();
        tokio::spawn(async move {
            gate.reached(1).await;
            tokio::time::sleep(Duration::from_millis(20)).await;
            gate.release();
        });
    }
    let ran = bench.run().await;
    if bench.store.hits().is_empty() {
        return None;
    }
    let outcome = ran.as_ref().err().map(|failed| (failed.kind, failed.code.clone()));
    bench.store.clear();
    let proof = async {
        if let Err(failed) = &ran
            && failed.kind == ErrorKind::Internal
        {
            return Err(format!("the error is not one for operators: {failed:?}"));
        }
        bench.run_and_verify(FILES).await.map_err(|wrong| format!("{wrong} (faulty run: {ran:?})"))?;
        if case.kind == Kind::Zombie {
            gate.release();
            let landed = tokio::time::timeout(Duration::from_secs(10), gate.landed(1)).await;
            // A data file's request ends with the attempt that made it; nothing waits for those of the logs.
            if landed.is_err() && !case.site.contains("part-") {
                return Err("the late request did not land".to_owned());
            }
            bench.add_input(FILES..FILES + 1).await;
            bench.run_and_verify(FILES + 1).await.map_err(|wrong| format!("after the late request: {wrong} (faulty run: {ran:?})"))?;
        }
        Ok(())
    };
    Some((outcome, proof.await))
}

/// The requests of a run: for each kind and place how many there are, up to [`HITS`].
async fn requests(start: Start, resumed: &InMemory) -> BTreeMap<(&'static str, Operation), u64> {
    let mut found = BTreeMap::new();
    for site in SITES {
        let bench = Bench::new(start, resumed).await;
        let open = Gate::new();
        open.release();
        for operation in Operation::ALL {
            bench.store.on(*operation, *site, Hit::First(HITS), Fault::Stall(open.clone()));
        }
        bench.run_and_verify(FILES).await.unwrap();
        for ((operation, _), hits) in bench.store.hits() {
            found.insert((*site, operation), hits);
        }
    }
    found
}

async fn cases(resumed: &InMemory) -> Vec<Case> {
    let mut cases = Vec::new();
    for start in [Start::Fresh, Start::Resumed, Start::Disk] {
        for ((site, operation), hits) in requests(start, resumed).await {
            for kind in Kind::all().into_iter().filter(|kind| kind.applies_to(operation, start)) {
                cases.extend((1..=hits).map(|hit| Case { start, site, operation, hit, kind }));
            }
        }
    }
    cases
}

#[derive(Default)]
struct Covered {
    hits: u64,
    succeeded: u64,
    codes: BTreeSet<String>,
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_failure_is_survived_or_named_and_made_good_by_the_next_run() {
    let panics = scenario::panics();
    let resumed = Bench::resumed().await;
    let cases = cases(&resumed).await;
    let all = cases.len();
    let everything = std::env::var("MILL_SWEEP").is_ok_and(|value| value == "all");
    let chosen: Vec<Case> =
        cases.into_iter().enumerate().filter(|(number, _)| everything || sampled(*number, ONE_IN)).map(|(_, case)| case).collect();
    println!("{} of {all} cases", chosen.len());
    let results: Vec<_> = stream::iter(chosen)
        .map(|case| {
            let resumed = resumed.fork();
            async move { (case, tokio::spawn(async move { try_case(case, &resumed).await }).await.unwrap()) }
        })
        .buffer_unordered(AT_ONCE)
        .collect()
        .await;

    let mut table: BTreeMap<(String, Operation), Covered> = BTreeMap::new();
    let mut places: BTreeMap<(&str, Operation), u64> = BTreeMap::new();
    let mut wrong = Vec::new();
    for (case, result) in results {
        let Some((outcome, proof)) = result else { continue };
        let line = table.entry((case.kind.to_string(), case.operation)).or_default();
        line.hits += 1;
        *places.entry((case.site, case.operation)).or_default() += 1;
        match outcome {
            None => line.succeeded += 1,
            Some((kind, code)) => {
                line.codes.insert(format!("{kind}/{code}"));
            }
        }
        wrong.extend(proof.err().map(|why| format!("{case:?}: {why}")));
    }
    println!("{:<18}{:<16}{:>6}{:>11}  otherwise", "fault", "request", "hits", "succeeded");
    for ((fault, operation), line) in &table {
        let codes = line.codes.iter().cloned().collect::<Vec<_>>().join(", ");
        println!("{fault:<18}{:<16}{:>6}{:>11}  {codes}", format!("{operation:?}"), line.hits, line.succeeded);
    }
    println!("\n{:<18}{:<16}{:>6}", "place", "request", "hits");
    for ((site, operation), hits) in &places {
        println!("{site:<18}{:<16}{hits:>6}", format!("{operation:?}"));
    }
    assert_eq!(scenario::panics(), panics, "somewhere, something panicked");
    assert!(wrong.is_empty(), "{} cases failed:\n{}", wrong.len(), wrong.join("\n"));
    assert!(table.len() > 30, "only {} combinations of fault and request", table.len());
}
