//! Tokio's runtime and its tasks, with each future behind a pointer.
//!
//! Tokio compiles what `block_on` and `spawn` are given, and so everything that is awaited there, for each of its
//! schedulers. Behind a pointer it is compiled once, where it is written; what that costs when it runs is nothing beside
//! what a task costs anyway.

use std::future::Future;
use std::ops::Deref;
use std::pin::Pin;

use futures::FutureExt;
use tokio::runtime::Builder;
use tokio::task::JoinHandle;

/// A runtime with timers and sockets.
#[derive(Debug)]
pub struct Runtime(tokio::runtime::Runtime);

impl Runtime {
    /// Returns a runtime with as many threads as there are processors.
    pub fn new() -> std::io::Result<Self> {
        Builder::new_multi_thread().enable_all().build().map(Self)
    }

    /// Returns a runtime of so many threads.
    pub fn with_threads(threads: usize) -> std::io::Result<Self> {
        Builder::new_multi_thread().worker_threads(threads).enable_all().build().map(Self)
    }

    /// Runs `work` to its end on this thread.
    pub fn block_on<T>(&self, work: impl Future<Output = T>) -> T {
        let work: Pin<Box<dyn Future<Output = T> + '_>> = Box::pin(work);
        self.0.block_on(work)
    }

    /// Spawns `work` as [`spawn`] does, from outside of the runtime.
    #[track_caller]
    pub fn spawn<T: Send + 'static>(&self, work: impl Future<Output = T> + Send + 'static) -> JoinHandle<T> {
        self.0.spawn(work.boxed())
    }

    /// Ends the runtime without waiting for its tasks.
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

/// Spawns `work` as [`tokio::spawn`] does. Code that spawns by other means boxes its futures itself.
#[track_caller]
pub fn spawn<T: Send + 'static>(work: impl Future<Output = T> + Send + 'static) -> JoinHandle<T> {
    tokio::spawn(work.boxed())
}
