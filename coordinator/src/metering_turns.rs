//! Whose privacy is computed next: a job whose account takes long, such as one of hundreds of branches, keeps no other waiting.

use std::collections::BTreeMap;
use std::time::Duration;

use proto::JobId;

/// Accounts computed at once.
const AT_ONCE: usize = 2;
/// Of these, how many may be of jobs whose last account was slow.
const SLOW_AT_ONCE: usize = 1;
/// The time from which on an account counts as slow.
const SLOW: Duration = Duration::from_secs(1);
/// Jobs whose time is remembered.
const REMEMBERED_JOBS: usize = 1024;

/// The jobs that are due, and those whose account is being computed.
#[derive(Debug, Default)]
pub struct MeteringTurns {
    /// Quick ones first.
    due: Vec<JobId>,
    /// Whether each counts as slow.
    under_way: BTreeMap<JobId, bool>,
    /// How long the last account of each took.
    took: BTreeMap<JobId, Duration>,
}

impl MeteringTurns {
    /// Replaces the jobs that are due.
    pub fn set_due(&mut self, mut due: Vec<JobId>) {
        if self.took.len() > REMEMBERED_JOBS {
            self.took.clear();
        }
        due.sort_by_key(|job| self.took.get(job).copied());
        self.due = due;
    }

    /// Returns the next job whose turn it is.
    pub fn begin(&mut self) -> Option<JobId> {
        if self.under_way.len() >= AT_ONCE {
            return None;
        }
        let has_slow_turn = self.under_way.values().filter(|is_slow| **is_slow).count() < SLOW_AT_ONCE;
        let is_free =
            |job: &JobId| !self.under_way.contains_key(job) && (has_slow_turn || !self.is_slow(job));
        let at = self.due.iter().position(is_free)?;
        let job = self.due.remove(at);
        self.under_way.insert(job.clone(), self.is_slow(&job));
        Some(job)
    }

    /// Notes that a job's account is computed, and how long that took.
    pub fn end(&mut self, job: &JobId, took: Duration) {
        self.under_way.remove(job);
        self.took.insert(job.clone(), took);
    }

    fn is_slow(&self, job: &JobId) -> bool {
        self.took.get(job).is_some_and(|took| *took >= SLOW)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slow_jobs_wait_for_each_other_and_no_other_job_waits_for_them() {
        let job = |name: &str| JobId::new(name).unwrap();
        let jobs = || ["a-slow", "b-slow", "c", "d"].map(job).to_vec();
        let mut turns = MeteringTurns::default();
        turns.set_due(jobs());
        // At first nothing is known of them.
        assert_eq!(
            (turns.begin(), turns.begin(), turns.begin()),
            (Some(job("a-slow")), Some(job("b-slow")), None)
        );
        turns.end(&job("a-slow"), Duration::from_secs(80));
        turns.end(&job("b-slow"), Duration::from_secs(90));
        assert_eq!((turns.begin(), turns.begin()), (Some(job("c")), Some(job("d"))));
        turns.end(&job("c"), Duration::from_millis(3));
        turns.end(&job("d"), Duration::from_millis(2));
        // A branch opened, rows bound: all are due again.
        turns.set_due(jobs());
        assert_eq!((turns.begin(), turns.begin()), (Some(job("d")), Some(job("c"))));
        turns.end(&job("d"), Duration::from_millis(2));
        assert_eq!((turns.begin(), turns.begin()), (Some(job("a-slow")), None));
        turns.end(&job("c"), Duration::from_millis(2));
        assert_eq!(turns.begin(), None, "one slow one at a time");
        turns.set_due(jobs());
        assert_eq!(turns.begin(), Some(job("c")), "and all the others beside it");
        turns.end(&job("a-slow"), Duration::from_secs(80));
        assert_eq!(turns.begin(), Some(job("d")));
    }
}
