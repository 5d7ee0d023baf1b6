//! Waits that Ctrl-C ends.

use std::future::Future;
use std::pin::pin;
use std::time::Duration;

use node::process::runtime::Runtime;
use pyo3::prelude::*;

use crate::error::Result;

/// How often a wait looks for signals.
const LOOK: Duration = Duration::from_millis(50);

/// A check between pieces of long work. Its error is an exception that Python raises, such as KeyboardInterrupt.
pub type Stop = fn() -> Result<()>;

/// Runs Python's own signal handlers. Outside of the main thread it does nothing.
pub fn signals() -> Result<()> {
    Ok(Python::attach(|py| py.check_signals())?)
}

/// Waits for a future on this thread, from which the interpreter is detached.
pub fn wait<T, E>(
    runtime: &Runtime,
    stop: Stop,
    future: impl Future<Output = std::result::Result<T, E>>,
) -> Result<T>
where
    crate::error::Refused: From<E>,
{
    runtime.block_on(async {
        let mut future = pin!(future);
        let mut look = tokio::time::interval(LOOK);
        loop {
            tokio::select! {
                done = &mut future => return Ok(done?),
                _ = look.tick() => stop()?,
            }
        }
    })
}

/// Runs long work on a thread of its own, which calls no Python. If Python raises meanwhile, `end` is called, and the
/// work is waited for.
pub fn work<T: Send>(stop: Stop, end: impl Fn(), work: impl FnOnce() -> T + Send) -> Result<T> {
    std::thread::scope(|scope| {
        let (sender, receiver) = std::sync::mpsc::sync_channel(1);
        scope.spawn(move || sender.send(work()));
        let mut raised = None;
        loop {
            match receiver.recv_timeout(LOOK) {
                Ok(done) => return raised.map_or(Ok(done), Err),
                Err(std::sync::mpsc::RecvTimeoutError::Timeout) => {
                    if raised.is_none()
                        && let Err(error) = stop()
                    {
                        raised = Some(error);
                        end();
                    }
                }
                Err(std::sync::mpsc::RecvTimeoutError::Disconnected) => {
                    return Err(crate::error::Refused::Here("internal", "a thread panicked".into()));
                }
            }
        }
    })
}
