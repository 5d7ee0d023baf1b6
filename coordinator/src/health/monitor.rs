//! What health needs and a status must not wait for: the room on the disk, read now and then, and when each problem began.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use node::process::disk::DiskSpace;
use tokio::time::Instant;

use super::problem::Problem;

/// A problem's name and subject: what makes it the same one at two looks.
type Key = (&'static str, String);

/// The conditions of this machine, and the dates of problems.
#[derive(Debug, Default)]
pub struct HealthMonitor {
    conditions: Mutex<Conditions>,
    began: Mutex<BTreeMap<Key, Instant>>,
}

/// The conditions of this machine at the last look.
#[derive(Clone, Copy, Debug, Default)]
pub struct Conditions {
    /// The room on the data folder's disk; `None` until it was looked at, or if it can't be.
    pub disk: Option<DiskSpace>,
    /// The end of this process's certificate; `None` without TLS.
    pub certificate_ends: Option<SystemTime>,
}

impl HealthMonitor {
    /// Returns the conditions at the last look.
    pub fn conditions(&self) -> Conditions {
        *lock(&self.conditions)
    }

    /// Sets the conditions.
    pub fn set_conditions(&self, conditions: Conditions) {
        *lock(&self.conditions) = conditions;
    }

    /// Dates the problems: one that says when it began keeps that, any other began when it was first seen. Those that are
    /// not among them are over.
    pub fn date(&self, now: Instant, problems: &mut [Problem]) {
        let mut began = lock(&self.began);
        let before = std::mem::take(&mut *began);
        for problem in problems {
            let key = (problem.kind, problem.subject.clone());
            let first = problem.since.or_else(|| before.get(&key).copied()).unwrap_or(now);
            problem.since = Some(first);
            began.insert(key, first);
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
