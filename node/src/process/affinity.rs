//! The cores that a thread runs on.

#[cfg(target_os = "linux")]
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// Returns the cores that the calling thread may run on; none where the system doesn't report them.
#[cfg(target_os = "linux")]
pub fn allowed_cores() -> Vec<usize> {
    let allowed = sched_getaffinity(None);
    (0..CpuSet::MAX_CPU).filter(|&core| allowed.as_ref().is_ok_and(|set| set.is_set(core))).collect()
}

/// Keeps the calling thread on one core. A refusal makes the process slower only, so it is logged and ignored.
#[cfg(target_os = "linux")]
pub fn stay_on(core: usize) {
    let mut one = CpuSet::new();
    one.set(core);
    if let Err(error) = sched_setaffinity(None, &one) {
        tracing::warn!(core, %error, "a thread could not be pinned");
    }
}

#[cfg(not(target_os = "linux"))]
pub fn allowed_cores() -> Vec<usize> {
    Vec::new()
}

#[cfg(not(target_os = "linux"))]
pub fn stay_on(_core: usize) {}
