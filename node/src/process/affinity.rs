//! Which cores a thread runs on.

#[cfg(target_os = "linux")]
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// The cores that the calling thread may run on; none where the system doesn't say.
#[cfg(target_os = "linux")]
pub fn allowed_cores() -> Vec<usize> {
    let allowed = sched_getaffinity(None);
    (0..CpuSet::MAX_CPU).filter(|&core| allowed.as_ref().is_ok_and(|set| set.is_set(core))).collect()
}

/// Keeps the calling thread on one core. A system that refuses is only slower, so that it is told and no more.
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
