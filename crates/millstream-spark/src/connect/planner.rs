//! Threads for analyzing and planning, which are long computations at times: calls that only look something up never wait for them.

use std::future::Future;
use std::panic::AssertUnwindSafe;

use futures::FutureExt;
use millstream_core::{Error, Result};
use tokio::runtime::{Builder, Handle, Runtime};

use super::execute::panicked;

/// Threads. Each waits most of its time for rows.
const THREADS: usize = 4;

/// Stack of a thread, bytes: optimizers recurse over plans. Memory is used only as far as they do.
const STACK: usize = 64 << 20;

/// The threads.
#[derive(Debug)]
pub(super) struct Planner {
    handle: Handle,
    runtime: Option<Runtime>,
}

impl Planner {
    /// # Errors
    /// `INTERNAL_ERROR` when the system gives no threads.
    pub(super) fn new() -> Result<Self> {
        let runtime = Builder::new_multi_thread()
            .worker_threads(THREADS)
            .thread_name("millstream-plan")
            .thread_stack_size(STACK)
            .enable_all()
            .build()
            .map_err(|error| Error::internal("cannot start the planner's threads").caused_by(error))?;
        Ok(Planner { handle: runtime.handle().clone(), runtime: Some(runtime) })
    }

    /// Runs something to its end, whatever becomes of the caller.
    pub(super) fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) {
        self.handle.spawn(work);
    }

    /// Runs something and waits for it. It ends when the caller goes away.
    ///
    /// # Errors
    /// Its own; `INTERNAL_ERROR` when it panics.
    pub(super) async fn run<T: Send + 'static>(&self, work: impl Future<Output = Result<T>> + Send + 'static) -> Result<T> {
        let work = AssertUnwindSafe(work).catch_unwind();
        let task = tokio_util::task::AbortOnDropHandle::new(self.handle.spawn(work));
        match task.await {
            Ok(Ok(outcome)) => outcome,
            Ok(Err(panic)) => Err(panicked(panic.as_ref())),
            Err(_) => Err(Error::cancelled()),
        }
    }
}

impl Drop for Planner {
    fn drop(&mut self) {
        // A runtime must not be dropped, which waits, inside another one.
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}
