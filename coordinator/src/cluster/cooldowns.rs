//! Workers that get no shard of a job for a while, and until when.

use std::collections::HashMap;
use std::time::Duration;

use proto::{Incarnation, JobId, WorkerId};
use tokio::time::Instant;

/// The cooldown after a first failure; each failure in a row doubles it.
const FIRST_COOLDOWN: Duration = Duration::from_secs(2);
/// The bound on that doubling: a worker that is mended is tried again within ten minutes.
const LONGEST_COOLDOWN: Duration = Duration::from_secs(600);

/// Why a worker gets no shard of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CooldownReason {
    /// The process has another key than the job, and can't serve this job while it runs.
    KeyMismatch,
    /// The worker failed to make a shard ready. Each failure in a row doubles the cooldown.
    Failed,
}

/// The cooldowns of all workers.
#[derive(Debug, Default)]
pub struct Cooldowns {
    /// The cooldowns, by job and then by worker.
    entries: HashMap<JobId, HashMap<WorkerId, Entry>>,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    incarnation: Incarnation,
    /// `None` means for as long as the process runs.
    until: Option<Instant>,
    reason: CooldownReason,
    next_wait: Duration,
}

impl Cooldowns {
    /// Starts a cooldown. Returns false if one is active: a failure is reported with every heartbeat and counts once.
    pub fn start(
        &mut self,
        now: Instant,
        job: &JobId,
        worker: &WorkerId,
        incarnation: Incarnation,
        reason: CooldownReason,
    ) -> bool {
        if self.is_active(now, job, worker, incarnation) {
            return false;
        }
        let before = self.entry(job, worker).filter(|entry| entry.incarnation == incarnation);
        let wait = before.map_or(FIRST_COOLDOWN, |entry| entry.next_wait);
        let until = match reason {
            CooldownReason::KeyMismatch => None,
            CooldownReason::Failed => Some(now + wait),
        };
        let entry = Entry { incarnation, until, reason, next_wait: (wait * 2).min(LONGEST_COOLDOWN) };
        self.entries.entry(job.clone()).or_default().insert(worker.clone(), entry);
        true
    }

    fn entry(&self, job: &JobId, worker: &WorkerId) -> Option<&Entry> {
        self.entries.get(job)?.get(worker)
    }

    /// Returns whether the process gets no shard of the job now.
    pub fn is_active(&self, now: Instant, job: &JobId, worker: &WorkerId, incarnation: Incarnation) -> bool {
        self.active(now, job, worker, incarnation).is_some()
    }

    /// Returns why the process gets no shard of the job now; `None` if it may.
    pub fn active(
        &self,
        now: Instant,
        job: &JobId,
        worker: &WorkerId,
        incarnation: Incarnation,
    ) -> Option<CooldownReason> {
        let entry = self.entry(job, worker)?;
        let is_active = entry.incarnation == incarnation && entry.until.is_none_or(|until| now < until);
        is_active.then_some(entry.reason)
    }

    /// Ends the cooldown of a worker that has made a shard of the job ready.
    pub fn clear(&mut self, job: &JobId, worker: &WorkerId) {
        if let Some(of_job) = self.entries.get_mut(job) {
            of_job.remove(worker);
            if of_job.is_empty() {
                self.entries.remove(job);
            }
        }
    }

    /// Ends every cooldown of the job.
    pub fn forget_job(&mut self, job: &JobId) {
        self.entries.remove(job);
    }

    /// Ends every cooldown of the worker.
    pub fn forget_worker(&mut self, worker: &WorkerId) {
        self.entries.retain(|_, of_job| {
            of_job.remove(worker);
            !of_job.is_empty()
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PROCESS: Incarnation = Incarnation([1; 16]);
    const NEXT: Incarnation = Incarnation([2; 16]);

    fn names() -> (JobId, WorkerId) {
        (JobId::new("j").unwrap(), WorkerId::new("w").unwrap())
    }

    #[test]
    fn failures_wait_longer_each_time() {
        let (job, worker) = names();
        let mut now = Instant::now();
        let mut cooldowns = Cooldowns::default();
        for wait in [FIRST_COOLDOWN, FIRST_COOLDOWN * 2, FIRST_COOLDOWN * 4] {
            assert!(cooldowns.start(now, &job, &worker, PROCESS, CooldownReason::Failed));
            assert!(!cooldowns.start(now, &job, &worker, PROCESS, CooldownReason::Failed));
            assert!(cooldowns.is_active(now + wait / 2, &job, &worker, PROCESS));
            now += wait;
            assert!(!cooldowns.is_active(now, &job, &worker, PROCESS));
        }
        cooldowns.clear(&job, &worker);
        cooldowns.start(now, &job, &worker, PROCESS, CooldownReason::Failed);
        assert!(!cooldowns.is_active(now + FIRST_COOLDOWN, &job, &worker, PROCESS));
    }

    #[test]
    fn a_wrong_key_excludes_the_process_and_not_its_successor() {
        let (job, worker) = names();
        let now = Instant::now();
        let mut cooldowns = Cooldowns::default();
        cooldowns.start(now, &job, &worker, PROCESS, CooldownReason::KeyMismatch);
        assert!(cooldowns.is_active(now + LONGEST_COOLDOWN * 100, &job, &worker, PROCESS));
        assert!(!cooldowns.is_active(now, &job, &worker, NEXT));
    }
}
