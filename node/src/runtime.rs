//! Tokio's runtime and its tasks, with each future behind a pointer.
//!
//! Tokio compiles what `block_on` and `spawn` are given for either of its schedulers, once as it is and once boxed: four
//! times the code of everything that is awaited there. Behind a pointer it is compiled once; what that costs when it runs
//! is nothing beside what a task costs anyway.

use std::future::Future;
use std::ops::Deref;
use std::pin::{Pin, pin};

use futures::FutureExt;
use tokio::runtime::Builder;
use tokio::task::JoinHandle;

/// A runtime with timers and sockets.
#[derive(Debug)]
pub struct Runtime(tokio::runtime::Runtime);

impl Runtime {
    /// As many threads as there are processors.
    pub fn new() -> std::io::Result<Self> {
        Builder::new_multi_thread().enable_all().build().map(Self)
    }

    pub fn with_threads(threads: usize) -> std::io::Result<Self> {
        Builder::new_multi_thread().worker_threads(threads).enable_all().build().map(Self)
    }

    /// Runs `work` to its end on this thread.
    pub fn block_on<T>(&self, work: impl Future<Output = T>) -> T {
        let work: Pin<&mut dyn Future<Output = T>> = pin!(work);
        self.0.block_on(work)
    }

    /// Ends it without a wait for what it still runs.
    pub fn shutdown_background(self) {
        self.0.shutdown_background();
    }
}

impl Deref for Runtime {
    type Target = tokio::runtime::Runtime;

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

/// As [`tokio::spawn`]. What spawns by other means is given futures that are `boxed`.
pub fn spawn<T: Send + 'static>(work: impl Future<Output = T> + Send + 'static) -> JoinHandle<T> {
    tokio::spawn(work.boxed())
}
