//! A store that fails on purpose, for tests of everything that must survive a store's failures.

mod gate;
mod upload;

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::ops::Range;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use futures::future::BoxFuture;
use futures::stream::BoxStream;
use futures::{FutureExt, StreamExt, stream};
use object_store::path::Path;
use object_store::{
    CopyOptions, GetOptions, GetResult, GetResultPayload, ListResult, MultipartUpload, ObjectMeta, ObjectStore, ObjectStoreExt, PutMode,
    PutMultipartOptions, PutOptions, PutPayload, PutResult, RenameOptions, Result,
};
use parking_lot::Mutex;

pub use gate::Gate;

const STORE: &str = "FaultStore";

/// The kinds of requests that rules tell apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Operation {
    /// A whole object written at once.
    Put,
    /// The beginning of an upload in parts.
    StartUpload,
    /// One part of an upload.
    PutPart,
    /// The end of an upload, by which the object appears.
    CompleteUpload,
    /// Giving up an upload.
    AbortUpload,
    /// Reading an object or ranges of it.
    Get,
    /// Asking for an object's metadata.
    Head,
    /// Deleting one object.
    Delete,
    /// Listing, of either kind; the path of the request is the prefix.
    List,
    /// Copying; the path of the request is the target's.
    Copy,
    /// Renaming; the path of the request is the target's.
    Rename,
}

impl Operation {
    /// Every operation, for tests that try them all.
    pub const ALL: &[Operation] = &[
        Operation::Put,
        Operation::StartUpload,
        Operation::PutPart,
        Operation::CompleteUpload,
        Operation::AbortUpload,
        Operation::Get,
        Operation::Head,
        Operation::Delete,
        Operation::List,
        Operation::Copy,
        Operation::Rename,
    ];
}

/// The error that a request is answered with, in the shape that `object_store` gives it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Failure {
    /// 409: S3 asks to try a conditional request again; `object_store` reports `AlreadyExists`.
    Conflict,
    /// 412: the condition does not hold; `AlreadyExists` for a create, `Precondition` otherwise.
    PreconditionFailed,
    /// 429, after `object_store`'s own attempts.
    TooManyRequests,
    /// 500, after `object_store`'s own attempts.
    InternalError,
    /// 503, after `object_store`'s own attempts.
    Unavailable,
    /// No answer in time.
    Timeout,
    /// `ENOSPC` of a local disk.
    NoSpace,
}

impl Failure {
    /// Every failure, for tests that try them all.
    pub const ALL: &[Failure] = &[
        Failure::Conflict,
        Failure::PreconditionFailed,
        Failure::TooManyRequests,
        Failure::InternalError,
        Failure::Unavailable,
        Failure::Timeout,
        Failure::NoSpace,
    ];

    fn error(self, location: &Path, creating: bool) -> object_store::Error {
        let (path, source) = (location.to_string(), Box::new(Injected { failure: self, path: location.to_string() }));
        match self {
            Failure::Conflict => object_store::Error::AlreadyExists { path, source },
            Failure::PreconditionFailed if creating => object_store::Error::AlreadyExists { path, source },
            Failure::PreconditionFailed => object_store::Error::Precondition { path, source },
            Failure::NoSpace => {
                let source = Box::new(io::Error::from_raw_os_error(rustix::io::Errno::NOSPC.raw_os_error()));
                object_store::Error::Generic { store: STORE, source }
            }
            _ => object_store::Error::Generic { store: STORE, source },
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Failure::Conflict => "409",
            Failure::PreconditionFailed => "412",
            Failure::TooManyRequests => "429",
            Failure::InternalError => "500",
            Failure::Unavailable => "503",
            Failure::Timeout => "timeout",
            Failure::NoSpace => "ENOSPC",
        })
    }
}

/// The source of every injected error but `ENOSPC`, which has the operating system's.
#[derive(Clone, Debug)]
pub struct Injected {
    /// What was injected.
    pub failure: Failure,
    /// The path of the request.
    pub path: String,
}

impl fmt::Display for Injected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "injected {} at {}", self.failure, self.path)
    }
}

impl std::error::Error for Injected {}

/// What happens to a request. A fault that makes no sense for an operation is never chosen for it.
#[derive(Clone, Debug)]
pub enum Fault {
    /// The request fails and was not applied.
    Before(Failure),
    /// The request is applied, then fails: the answer is lost. A list fails after its last entry.
    After(Failure),
    /// The request waits for the gate, then runs.
    Stall(Gate),
    /// The request is answered with a timeout and applied later, when the gate is released: a zombie. Needs a Tokio runtime. For requests
    /// that change something, parts excepted.
    Zombie(Gate),
    /// The request is acknowledged and forgotten: puts, parts and deletes.
    Lose,
    /// A create overwrites: a store that ignores `If-None-Match`.
    IgnoreCondition,
    /// A read is cut to at most so many bytes, without an error.
    TruncateRead(usize),
    /// One bit of what is read is turned over, counted from the first; beyond the end it wraps around.
    FlipBit(u64),
    /// A listing ends after so many entries, without an error.
    PartialList(usize),
}

impl Fault {
    fn applies_to(&self, operation: Operation) -> bool {
        use Operation as O;
        match self {
            Fault::Before(_) | Fault::After(_) | Fault::Stall(_) => true,
            Fault::Zombie(_) => matches!(operation, O::Put | O::CompleteUpload | O::Delete | O::Copy | O::Rename),
            Fault::Lose => matches!(operation, O::Put | O::PutPart | O::Delete),
            Fault::IgnoreCondition => operation == O::Put,
            Fault::TruncateRead(_) | Fault::FlipBit(_) => operation == O::Get,
            Fault::PartialList(_) => operation == O::List,
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fault::Before(failure) => write!(f, "{failure} before"),
            Fault::After(failure) => write!(f, "{failure} after"),
            Fault::Stall(_) => f.write_str("stall"),
            Fault::Zombie(_) => f.write_str("zombie"),
            Fault::Lose => f.write_str("lose"),
            Fault::IgnoreCondition => f.write_str("ignore condition"),
            Fault::TruncateRead(_) => f.write_str("truncate read"),
            Fault::FlipBit(_) => f.write_str("flip bit"),
            Fault::PartialList(_) => f.write_str("partial list"),
        }
    }
}

/// Which of the requests that match a rule are hit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hit {
    /// Only the nth, counted from 1.
    Nth(u64),
    /// The first so many.
    First(u64),
    /// The nth, counted from 1, and all after it: the store is gone from then on.
    From(u64),
    /// All of them.
    Every,
}

#[derive(Debug)]
struct Rule {
    operation: Operation,
    path: String,
    hit: Hit,
    fault: Fault,
    seen: u64,
}

/// A wrapper that makes requests of the inner store fail by a script of rules. Clones share the store, the rules and the counts.
///
/// A rule hits requests of one [`Operation`] whose path contains a text. Every rule that matches counts the request; the first one added that
/// is due decides what happens.
///
/// ```
/// # use millstream_checkpoint::store::{Failure, Fault, FaultStore, Hit, Operation};
/// # use object_store::{ObjectStoreExt, memory::InMemory, path::Path};
/// # futures::executor::block_on(async {
/// let store = FaultStore::new(InMemory::new());
/// store.on(Operation::Put, "commits/", Hit::Nth(2), Fault::After(Failure::Timeout));
/// assert!(store.put(&Path::from("commits/0"), "a".into()).await.is_ok());
/// assert!(store.put(&Path::from("commits/1"), "b".into()).await.is_err());
/// assert!(store.get(&Path::from("commits/1")).await.is_ok());
/// # });
/// ```
pub struct FaultStore<S> {
    inner: Arc<S>,
    script: Arc<Mutex<Script>>,
}

#[derive(Debug, Default)]
struct Script {
    rules: Vec<Rule>,
    calls: BTreeMap<Operation, u64>,
    hits: BTreeMap<(Operation, String), u64>,
}

impl<S: ObjectStore> FaultStore<S> {
    /// A store without faults so far.
    pub fn new(inner: S) -> Self {
        FaultStore { inner: Arc::new(inner), script: Arc::default() }
    }

    /// Adds a rule. An empty `path` matches every path.
    pub fn on(&self, operation: Operation, path: impl Into<String>, hit: Hit, fault: Fault) {
        self.script.lock().rules.push(Rule { operation, path: path.into(), hit, fault, seen: 0 });
    }

    /// Removes all rules; counts stay.
    pub fn clear(&self) {
        self.script.lock().rules.clear();
    }

    /// Requests of one operation so far, hit or not.
    pub fn calls(&self, operation: Operation) -> u64 {
        self.script.lock().calls.get(&operation).copied().unwrap_or(0)
    }

    /// How often each fault has hit each operation. Sum these over tests for a coverage table.
    pub fn hits(&self) -> BTreeMap<(Operation, String), u64> {
        self.script.lock().hits.clone()
    }

    /// The hits as a table of one line per operation and fault.
    pub fn coverage(&self) -> String {
        let line = |((operation, fault), count): (&(Operation, String), &u64)| {
            let operation = format!("{operation:?}");
            format!("{operation:<16}{fault:<18}{count:>8}\n")
        };
        self.script.lock().hits.iter().map(line).collect()
    }

    /// The store without faults.
    pub fn inner(&self) -> &Arc<S> {
        &self.inner
    }
}

impl Script {
    /// Counts a request and says what is to happen to it.
    fn strike(&mut self, operation: Operation, location: &Path) -> Option<Fault> {
        *self.calls.entry(operation).or_default() += 1;
        let mut struck = None;
        for rule in &mut self.rules {
            if rule.operation != operation || !rule.fault.applies_to(operation) || !location.as_ref().contains(&rule.path) {
                continue;
            }
            rule.seen += 1;
            let due = match rule.hit {
                Hit::Nth(n) => rule.seen == n,
                Hit::First(n) => rule.seen <= n,
                Hit::From(n) => rule.seen >= n,
                Hit::Every => true,
            };
            if due && struck.is_none() {
                struck = Some(rule.fault.clone());
            }
        }
        if let Some(fault) = &struck {
            *self.hits.entry((operation, fault.to_string())).or_default() += 1;
        }
        struck
    }
}

/// A request on its way: where it goes, whether it creates, and what it answers when it is lost.
struct Request<T> {
    location: Path,
    creating: bool,
    lost: Option<T>,
}

impl<T: Send + 'static> Request<T> {
    fn to(location: &Path) -> Self {
        Request { location: location.clone(), creating: false, lost: None }
    }

    /// Runs `work` as `fault` wants it.
    async fn run(self, fault: Option<Fault>, work: BoxFuture<'static, Result<T>>) -> Result<T> {
        match fault {
            Some(Fault::Before(failure)) => Err(failure.error(&self.location, self.creating)),
            Some(Fault::After(failure)) => {
                work.await?;
                Err(failure.error(&self.location, self.creating))
            }
            Some(Fault::Stall(gate)) => {
                gate.pass().await;
                let outcome = work.await;
                gate.land();
                outcome
            }
            Some(Fault::Zombie(gate)) => {
                tokio::spawn(async move {
                    gate.pass().await;
                    let _ = work.await;
                    gate.land();
                });
                Err(Failure::Timeout.error(&self.location, self.creating))
            }
            Some(Fault::Lose) if self.lost.is_some() => self.lost.ok_or_else(|| Failure::InternalError.error(&self.location, false)),
            _ => work.await,
        }
    }
}

fn damage(bytes: Bytes, fault: &Fault) -> Bytes {
    match fault {
        Fault::TruncateRead(keep) => bytes.slice(..bytes.len().min(*keep)),
        Fault::FlipBit(bit) if !bytes.is_empty() => {
            let mut damaged = bytes.to_vec();
            let bit = bit % (damaged.len() as u64 * 8);
            if let Some(byte) = damaged.get_mut((bit / 8) as usize) {
                *byte ^= 1 << (bit % 8);
            }
            damaged.into()
        }
        _ => bytes,
    }
}

#[async_trait]
impl<S: ObjectStore> ObjectStore for FaultStore<S> {
    async fn put_opts(&self, location: &Path, payload: PutPayload, mut options: PutOptions) -> Result<PutResult> {
        let fault = self.script.lock().strike(Operation::Put, location);
        let creating = options.mode == PutMode::Create;
        if matches!(fault, Some(Fault::IgnoreCondition)) {
            options.mode = PutMode::Overwrite;
        }
        let (inner, target) = (Arc::clone(&self.inner), location.clone());
        let work = async move { inner.put_opts(&target, payload, options).await }.boxed();
        let lost = Some(PutResult { e_tag: None, version: None });
        Request { location: location.clone(), creating, lost }.run(fault, work).await
    }

    async fn put_multipart_opts(&self, location: &Path, options: PutMultipartOptions) -> Result<Box<dyn MultipartUpload>> {
        let fault = self.script.lock().strike(Operation::StartUpload, location);
        let (inner, target) = (Arc::clone(&self.inner), location.clone());
        let work = async move { inner.put_multipart_opts(&target, options).await }.boxed();
        let upload = Request::to(location).run(fault, work).await?;
        Ok(Box::new(upload::FaultUpload::new(upload, location.clone(), Arc::clone(&self.script))))
    }

    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        let operation = if options.head { Operation::Head } else { Operation::Get };
        let fault = self.script.lock().strike(operation, location);
        let (inner, target) = (Arc::clone(&self.inner), location.clone());
        let work = async move { inner.get_opts(&target, options).await }.boxed();
        let found = Request::to(location).run(fault.clone(), work).await?;
        let Some(fault @ (Fault::TruncateRead(_) | Fault::FlipBit(_))) = fault else { return Ok(found) };
        let (meta, range, attributes) = (found.meta.clone(), found.range.clone(), found.attributes.clone());
        let bytes = damage(found.bytes().await?, &fault);
        let payload = GetResultPayload::Stream(stream::once(async move { Ok(bytes) }).boxed());
        Ok(GetResult { payload, meta, range, attributes })
    }

    async fn get_ranges(&self, location: &Path, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        let fault = self.script.lock().strike(Operation::Get, location);
        let (inner, target, ranges) = (Arc::clone(&self.inner), location.clone(), ranges.to_vec());
        let work = async move { inner.get_ranges(&target, &ranges).await }.boxed();
        let found = Request::to(location).run(fault.clone(), work).await?;
        Ok(match fault {
            Some(fault) => found.into_iter().map(|bytes| damage(bytes, &fault)).collect(),
            None => found,
        })
    }

    fn delete_stream(&self, locations: BoxStream<'static, Result<Path>>) -> BoxStream<'static, Result<Path>> {
        let (inner, script) = (Arc::clone(&self.inner), Arc::clone(&self.script));
        locations
            .then(move |location| {
                let (inner, script) = (Arc::clone(&inner), Arc::clone(&script));
                async move {
                    let location = location?;
                    let fault = script.lock().strike(Operation::Delete, &location);
                    let target = location.clone();
                    let work = async move { inner.delete(&target).await }.boxed();
                    Request { location: location.clone(), creating: false, lost: Some(()) }.run(fault, work).await?;
                    Ok(location)
                }
            })
            .boxed()
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        self.disturb_list(prefix, self.inner.list(prefix))
    }

    fn list_with_offset(&self, prefix: Option<&Path>, offset: &Path) -> BoxStream<'static, Result<ObjectMeta>> {
        self.disturb_list(prefix, self.inner.list_with_offset(prefix, offset))
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        let location = prefix.cloned().unwrap_or_default();
        let fault = self.script.lock().strike(Operation::List, &location);
        let (inner, prefix) = (Arc::clone(&self.inner), prefix.cloned());
        let work = async move { inner.list_with_delimiter(prefix.as_ref()).await }.boxed();
        let mut found = Request::to(&location).run(fault.clone(), work).await?;
        if let Some(Fault::PartialList(keep)) = fault {
            found.objects.truncate(keep);
        }
        Ok(found)
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        let fault = self.script.lock().strike(Operation::Copy, to);
        let (inner, from, target) = (Arc::clone(&self.inner), from.clone(), to.clone());
        let work = async move { inner.copy_opts(&from, &target, options).await }.boxed();
        Request::to(to).run(fault, work).await
    }

    async fn rename_opts(&self, from: &Path, to: &Path, options: RenameOptions) -> Result<()> {
        let fault = self.script.lock().strike(Operation::Rename, to);
        let (inner, from, target) = (Arc::clone(&self.inner), from.clone(), to.clone());
        let work = async move { inner.rename_opts(&from, &target, options).await }.boxed();
        Request::to(to).run(fault, work).await
    }
}

impl<S: ObjectStore> FaultStore<S> {
    fn disturb_list(&self, prefix: Option<&Path>, found: BoxStream<'static, Result<ObjectMeta>>) -> BoxStream<'static, Result<ObjectMeta>> {
        let location = prefix.cloned().unwrap_or_default();
        let fault = self.script.lock().strike(Operation::List, &location);
        match fault {
            Some(Fault::Before(failure)) => stream::iter([Err(failure.error(&location, false))]).boxed(),
            Some(Fault::After(failure)) => found.chain(stream::iter([Err(failure.error(&location, false))])).boxed(),
            Some(Fault::Stall(gate)) => stream::once(async move { gate.pass().await }).flat_map(|()| stream::empty()).chain(found).boxed(),
            Some(Fault::PartialList(keep)) => found.take(keep).boxed(),
            _ => found,
        }
    }
}

impl<S> Clone for FaultStore<S> {
    fn clone(&self) -> Self {
        FaultStore { inner: Arc::clone(&self.inner), script: Arc::clone(&self.script) }
    }
}

impl<S: fmt::Debug> fmt::Debug for FaultStore<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct(STORE).field("inner", &self.inner).field("script", &self.script).finish()
    }
}

impl<S: fmt::Display> fmt::Display for FaultStore<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{STORE}({})", self.inner)
    }
}

#[cfg(test)]
mod tests;
