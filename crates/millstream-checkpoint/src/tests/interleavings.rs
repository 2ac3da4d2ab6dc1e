//! The real protocol under every schedule of a few switches between two runs, with stalls and crashes.
//!
//! Both runs use one store whose every request first gives way to the other run, so that a schedule is a list of how many requests each makes.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use async_trait::async_trait;
use futures::StreamExt;
use futures::stream::BoxStream;
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{
    CopyOptions, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta, ObjectStore, ObjectStoreExt, PutMultipartOptions,
    PutOptions, PutPayload, PutResult, Result,
};

use super::program::{Sink, hurried, run};
use super::setup::takeover;

const BATCHES: u64 = 3;

/// A store in memory that gives way before each request.
#[derive(Debug)]
struct Yielding(InMemory);

impl fmt::Display for Yielding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Yielding")
    }
}

/// Is pending once.
async fn give_way() {
    let mut gave_way = false;
    std::future::poll_fn(|_| if std::mem::replace(&mut gave_way, true) { Poll::Ready(()) } else { Poll::Pending }).await
}

#[async_trait]
impl ObjectStore for Yielding {
    async fn put_opts(&self, location: &Path, payload: PutPayload, options: PutOptions) -> Result<PutResult> {
        // Neither the probe of the store nor anything else concerns the other run.
        if !location.as_ref().contains(".millstream-") {
            give_way().await;
        }
        self.0.put_opts(location, payload, options).await
    }

    async fn put_multipart_opts(&self, location: &Path, options: PutMultipartOptions) -> Result<Box<dyn MultipartUpload>> {
        self.0.put_multipart_opts(location, options).await
    }

    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        give_way().await;
        self.0.get_opts(location, options).await
    }

    fn delete_stream(&self, locations: BoxStream<'static, Result<Path>>) -> BoxStream<'static, Result<Path>> {
        let inner = self.0.clone();
        locations
            .then(move |location| {
                let inner = inner.clone();
                async move {
                    let location = location?;
                    if !location.as_ref().contains(".millstream-") {
                        give_way().await;
                    }
                    inner.delete(&location).await?;
                    Ok(location)
                }
            })
            .boxed()
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        self.0.list(prefix)
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        give_way().await;
        self.0.list_with_delimiter(prefix).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        self.0.copy_opts(from, to, options).await
    }
}

type Run<'a> = Pin<Box<dyn Future<Output = millstream_core::Result<()>> + 'a>>;

/// Polls a run so many times. Returns whether it has ended.
fn advance(run: &mut Option<Run<'_>>, steps: usize, ended: &mut Vec<&'static str>) -> bool {
    for _ in 0..steps {
        let Some(future) = run else { return true };
        if let Poll::Ready(outcome) = future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            let name = match outcome {
                Ok(()) => "finished",
                Err(error) if error.code() == "STALE_EPOCH" => "STALE_EPOCH",
                Err(error) if error.code() == "CONCURRENT_STREAM_LOG_UPDATE" => "CONCURRENT_STREAM_LOG_UPDATE",
                Err(error) => panic!("{error}"),
            };
            ended.push(name);
            *run = None;
        }
    }
    run.is_none()
}

/// Runs a schedule: numbers of requests of the two runs in turn, the first beginning; then both to their ends, unless they crash there; then a
/// third run that must finish.
fn schedule(steps: &[usize], crash: [bool; 2]) -> Vec<&'static str> {
    let store: Arc<dyn ObjectStore> = Arc::new(Yielding(InMemory::new()));
    let sink = Sink::default();
    let start = |owner: &str| -> Option<Run<'_>> { Some(Box::pin(run(&store, hurried(takeover(owner)), &sink, BATCHES))) };
    let mut runs = [start("a"), start("b")];
    let mut ended = Vec::new();
    for (turn, steps) in steps.iter().enumerate() {
        advance(&mut runs[turn % 2], *steps, &mut ended);
        sink.check().unwrap();
    }
    for (run, crash) in runs.iter_mut().zip(crash) {
        if !crash {
            assert!(advance(run, 10_000, &mut ended), "a run does not end");
        }
        *run = None;
        sink.check().unwrap();
    }
    let mut last = start("c");
    let mut outcome = Vec::new();
    advance(&mut last, 10_000, &mut outcome);
    assert_eq!(outcome, ["finished"], "steps {steps:?}, crash {crash:?}");
    sink.check().unwrap();
    assert_eq!(sink.batches(), BATCHES);
    ended
}

/// How many requests a run makes that is not disturbed.
fn length() -> usize {
    (1..).find(|steps| schedule(&[*steps], [true, true]) == ["finished"]).unwrap()
}

#[test]
fn two_runs_under_every_schedule_of_two_switches() {
    let length = length();
    assert!(length > 40, "{length}");
    let mut seen = std::collections::BTreeMap::<Vec<&str>, u64>::new();
    for first in 0..=length {
        for second in 0..=length {
            for crash in [[false, false], [true, false], [false, true]] {
                *seen.entry(schedule(&[first, second], crash)).or_default() += 1;
            }
        }
    }
    println!("{length} requests: {seen:#?}");
    assert!(seen.keys().any(|ended| ended.contains(&"STALE_EPOCH")), "no schedule fenced anybody");
}

#[test]
fn two_runs_under_schedules_of_four_switches() {
    let length = length();
    let mut seen = std::collections::BTreeMap::<Vec<&str>, u64>::new();
    for first in (0..length).step_by(2) {
        for second in (0..length).step_by(3) {
            for third in [1, 3, 8] {
                for fourth in [1, 4, 20] {
                    *seen.entry(schedule(&[first, second, third, fourth], [false, false])).or_default() += 1;
                }
            }
        }
    }
    println!("{seen:#?}");
    assert!(seen.keys().any(|ended| ended.contains(&"CONCURRENT_STREAM_LOG_UPDATE")), "no record ever landed late");
}
