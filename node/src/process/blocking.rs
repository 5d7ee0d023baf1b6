//! Work that waits for a disk, away from the async threads.

use tokio::task::JoinHandle;

use crate::process::runtime::spawn;
use crate::process::simulation;

/// Runs `work` on a thread where it may block. It runs to its end even if the caller leaves. In a
/// simulation it runs on the simulation's thread, some virtual time after the call and some before the answer.
pub fn run<T, F>(work: F) -> JoinHandle<T>
where
    T: Send + 'static,
    F: FnOnce() -> T + Send + 'static,
{
    let (Some(before), Some(after)) = (simulation::wait(), simulation::wait()) else {
        return tokio::task::spawn_blocking(work);
    };
    spawn(async move {
        tokio::time::sleep(before).await;
        let done = work();
        tokio::time::sleep(after).await;
        done
    })
}
