//! Threads for work that keeps a core busy, so that it never runs on the async threads.

use std::any::Any;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use rayon::{ThreadPool, ThreadPoolBuilder};
use tokio::sync::oneshot;
use tracing::{Span, error};

use crate::process::simulation;
use crate::telemetry::trace_context::TraceContext;

/// The reason why work did not run on a pool.
#[derive(Debug, thiserror::Error)]
pub enum CpuPoolError {
    /// A pool of no threads was requested.
    #[error("a pool of 0 threads would never run anything; allowed: 1 or more")]
    NoThreads,
    /// The threads cannot be started.
    #[error("{threads} threads cannot be started: {reason}")]
    Start {
        /// The number of threads.
        threads: usize,
        /// The reason, as text.
        reason: String,
    },
    /// The work ran in part; whatever it shared with others may be half changed.
    #[error("work on the pool panicked: {message}")]
    Panicked {
        /// The panic's message.
        message: String,
    },
}

/// A cheap handle: clones share the threads.
#[derive(Clone)]
pub struct CpuPool {
    /// `None` in a simulation: work runs on the caller's thread.
    pool: Option<Arc<ThreadPool>>,
}

impl CpuPool {
    /// Returns a pool of `threads` threads.
    pub fn new(threads: usize) -> Result<CpuPool, CpuPoolError> {
        CpuPool::named("cpu", threads)
    }

    /// Creates a pool whose threads are called `name-0`, `name-1`, …
    pub fn named(name: &'static str, threads: usize) -> Result<CpuPool, CpuPoolError> {
        CpuPool::started(name, threads, |_| {})
    }

    /// Returns a pool whose threads each stay on one of the cores that this process may use, in turn: on
    /// machines with several memory nodes, rows are then made next to their state.
    pub fn pinned(threads: usize) -> Result<CpuPool, CpuPoolError> {
        let cores = crate::process::affinity::allowed_cores();
        CpuPool::started("cpu", threads, move |index| {
            if let Some(core) = cores.get(index % cores.len().max(1)) {
                crate::process::affinity::stay_on(*core);
            }
        })
    }

    fn started(
        name: &'static str,
        threads: usize,
        start: impl Fn(usize) + Send + Sync + 'static,
    ) -> Result<CpuPool, CpuPoolError> {
        // Rayon reads 0 as "as many as there are cores".
        if threads == 0 {
            return Err(CpuPoolError::NoThreads);
        }
        if simulation::is_on() {
            return Ok(CpuPool { pool: None });
        }
        let pool = ThreadPoolBuilder::new()
            .num_threads(threads)
            .thread_name(move |index| format!("{name}-{index}"))
            .start_handler(start)
            // Without a handler, rayon aborts the process. What can still panic is the drop of an unwanted
            // result.
            .panic_handler(|panic| error!(message = panic_message(&*panic), "panic on the pool"))
            .build()
            .map_err(|error| CpuPoolError::Start { threads, reason: error.to_string() })?;
        Ok(CpuPool { pool: Some(Arc::new(pool)) })
    }

    /// Returns the number of threads.
    pub fn threads(&self) -> usize {
        self.pool.as_ref().map_or(1, |pool| pool.current_num_threads())
    }

    /// Runs `work` on the pool, within the caller's span and trace. Parallel iterators in `work` use this
    /// pool.
    ///
    /// If the returned future is dropped before a thread takes the work up, the work never runs; once begun
    /// it runs to its end, and its result is dropped.
    pub async fn run<T, F>(&self, work: F) -> Result<T, CpuPoolError>
    where
        T: Send + 'static,
        F: FnOnce() -> T + Send + 'static,
    {
        let (sender, receiver) = oneshot::channel();
        let span = Span::current();
        let trace = TraceContext::current();
        let work = move || {
            if sender.is_closed() {
                return;
            }
            let in_span = || span.in_scope(work);
            let outcome = catch_unwind(AssertUnwindSafe(|| match trace {
                Some(trace) => trace.sync_scope(in_span),
                None => in_span(),
            }));
            // The receiver may have left meanwhile.
            let _ = sender.send(outcome);
        };
        match &self.pool {
            Some(pool) => pool.spawn(work),
            None => work(),
        }
        match receiver.await {
            Ok(Ok(value)) => Ok(value),
            Ok(Err(panic)) => Err(CpuPoolError::Panicked { message: panic_message(&*panic) }),
            Err(_) => Err(CpuPoolError::Panicked { message: "the work was lost".to_owned() }),
        }
    }
}

impl fmt::Debug for CpuPool {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("CpuPool").field("threads", &self.threads()).finish()
    }
}

fn panic_message(panic: &(dyn Any + Send)) -> String {
    let text =
        panic.downcast_ref::<&str>().copied().or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    text.unwrap_or("no message").to_owned()
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::sync::mpsc;
    use std::thread;

    use super::*;

    #[tokio::test]
    async fn work_runs_on_a_named_thread() {
        let name = CpuPool::new(1).unwrap().run(|| thread::current().name().map(String::from)).await.unwrap();
        assert_eq!(name.as_deref(), Some("cpu-0"));
    }

    #[tokio::test]
    async fn a_panic_is_an_error_and_the_pool_lives_on() {
        let pool = CpuPool::new(1).unwrap();
        let error = pool.run(|| -> u32 { panic!("no such row: {}", 7) }).await.unwrap_err();
        assert!(
            matches!(&error, CpuPoolError::Panicked { message } if message == "no such row: 7"),
            "{error}"
        );
        assert_eq!(pool.run(|| 5).await.unwrap(), 5);
    }

    #[tokio::test]
    async fn work_whose_caller_left_before_it_began_does_not_run() {
        let pool = CpuPool::new(1).unwrap();
        let (release, held) = mpsc::channel::<()>();
        let blocker = tokio::spawn({
            let pool = pool.clone();
            async move { pool.run(move || held.recv().is_ok()).await }
        });
        tokio::task::yield_now().await;
        let ran = Arc::new(AtomicBool::new(false));
        let queued = pool.run({
            let ran = ran.clone();
            move || ran.store(true, Ordering::SeqCst)
        });
        // One poll queues it; then the caller leaves.
        assert!(tokio::time::timeout(std::time::Duration::from_millis(20), queued).await.is_err());
        release.send(()).unwrap();
        assert!(blocker.await.unwrap().unwrap());
        pool.run(|| ()).await.unwrap();
        assert!(!ran.load(Ordering::SeqCst));
    }

    #[tokio::test]
    async fn the_trace_goes_along() {
        let pool = CpuPool::new(1).unwrap();
        let trace = TraceContext::root();
        let seen = trace.scope(pool.run(TraceContext::current)).await.unwrap();
        assert_eq!(seen, Some(trace));
        assert_eq!(pool.run(TraceContext::current).await.unwrap(), None);
    }

    #[cfg(target_os = "linux")]
    #[tokio::test]
    async fn a_pinned_thread_has_one_core() {
        let seen = CpuPool::pinned(1).unwrap().run(crate::process::affinity::allowed_cores).await.unwrap();
        assert_eq!(seen, crate::process::affinity::allowed_cores()[..1]);
    }

    #[test]
    fn zero_threads_are_refused() {
        assert!(matches!(CpuPool::new(0), Err(CpuPoolError::NoThreads)));
    }
}
