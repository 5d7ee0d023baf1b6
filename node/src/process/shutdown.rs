//! Ending a process in order: a signal cancels a token, tasks see it and finish, and a deadline bounds the
//! wait.

use std::io;
use std::time::Duration;

use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::info;

use crate::process::runtime::spawn;

/// The error of a shutdown whose deadline passed.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("{unfinished} tasks were still running {deadline:?} after shutdown began")]
pub struct DrainTimeout {
    /// The tasks that were still running.
    pub unfinished: usize,
    /// The time that they had.
    pub deadline: Duration,
}

/// A token that SIGTERM and SIGINT cancel. From the call on neither signal kills the process by itself. Must
/// be called inside a tokio runtime.
pub fn token_on_signals() -> io::Result<CancellationToken> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let token = CancellationToken::new();
    let cancelled = token.clone();
    spawn(async move {
        let name = tokio::select! {
            _ = terminate.recv() => "SIGTERM",
            _ = interrupt.recv() => "SIGINT",
        };
        info!(signal = name, "shutting down");
        cancelled.cancel();
    });
    Ok(token)
}

/// Cancels `token`, then waits for the tasks of `tracker`. Tasks that outlive `deadline` are left to the
/// caller, who normally exits.
pub async fn drain(
    token: &CancellationToken,
    tracker: &TaskTracker,
    deadline: Duration,
) -> Result<(), DrainTimeout> {
    token.cancel();
    tracker.close();
    let drained = tokio::time::timeout(deadline, tracker.wait()).await;
    drained.map_err(|_| DrainTimeout { unfinished: tracker.len(), deadline })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn sigterm_cancels_the_token() {
        let token = token_on_signals().unwrap();
        assert!(!token.is_cancelled());
        rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::TERM).unwrap();
        tokio::time::timeout(Duration::from_secs(5), token.cancelled()).await.unwrap();
    }

    #[tokio::test]
    async fn drain_waits_for_tasks_that_heed_the_token() {
        let token = CancellationToken::new();
        let tracker = TaskTracker::new();
        tracker.spawn(token.clone().cancelled_owned());
        assert_eq!(drain(&token, &tracker, Duration::from_secs(5)).await, Ok(()));
    }

    #[tokio::test]
    async fn drain_gives_up_on_tasks_that_do_not() {
        let token = CancellationToken::new();
        let tracker = TaskTracker::new();
        tracker.spawn(std::future::pending::<()>());
        let deadline = Duration::from_millis(20);
        assert_eq!(drain(&token, &tracker, deadline).await, Err(DrainTimeout { unfinished: 1, deadline }));
    }
}
