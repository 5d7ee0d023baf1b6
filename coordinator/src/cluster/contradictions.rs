//! Proofs that the ledger is an old copy, which stop the binding of one job or of all. They are kept as long as the process
//! lives: what a worker reports later takes none of them back.

use std::collections::BTreeMap;

use ledger::JobState;
use proto::{JobId, ServiceError, WorkerId};

use super::Cluster;

/// What workers have proved.
#[derive(Debug, Default)]
pub struct Contradictions {
    /// The error that every binding of the job gets, which names the worker.
    jobs: BTreeMap<JobId, ServiceError>,
    /// The highest epoch above this coordinator's, and the worker that has seen it.
    epoch: Option<(WorkerId, u64)>,
}

impl Cluster {
    /// Returns why no row of the job may be bound and no branch of it opened; `None` where nothing speaks against it.
    pub fn refusal(&self, job: &JobId) -> Option<ServiceError> {
        let by_epoch = self.contradictions.epoch.as_ref();
        let by_epoch = by_epoch.map(|(worker, epoch)| ServiceError::LedgerBehind {
            job: job.to_string(),
            known: format!("coordinator epoch {}", self.epoch),
            witness: format!("worker {worker}"),
            seen: format!("coordinator epoch {epoch}"),
        });
        by_epoch.or_else(|| self.contradictions.jobs.get(job).cloned())
    }

    /// Takes in the highest epoch that a worker has seen on this ledger. One above this coordinator's proves that the
    /// ledger is old. Returns whether that is new.
    pub fn accept_epoch(&mut self, worker: &WorkerId, epoch: u64) -> bool {
        if epoch <= self.epoch || self.contradictions.epoch.is_some() {
            return false;
        }
        self.contradictions.epoch = Some((worker.clone(), epoch));
        true
    }

    /// Returns the worker that has proved the whole ledger to be old, and the epoch that it has seen.
    pub fn epoch_proof(&self) -> Option<(WorkerId, u64)> {
        self.contradictions.epoch.clone()
    }

    /// Stops the binding of a job for good. Returns whether it was not stopped before.
    pub fn stop_job(&mut self, job: &JobId, proof: &ServiceError) -> bool {
        self.contradictions.jobs.insert(job.clone(), proof.clone()).is_none()
    }

    /// Returns whether a worker's proof has stopped the job.
    pub fn is_stopped(&self, job: &JobId) -> bool {
        self.contradictions.jobs.contains_key(job)
    }

    /// Returns the number of jobs for which nothing is bound because a worker has proved the ledger to be old: of those
    /// that there are, apart from destroyed ones, and of those that the ledger has lost.
    pub fn contradicted_jobs(&self) -> usize {
        let is_stopped = |job: &JobId, state| {
            state != JobState::Destroyed && (self.contradictions.epoch.is_some() || self.is_stopped(job))
        };
        let stopped = self.jobs().filter(|view| is_stopped(&view.record.job, view.record.state)).count();
        let lost = self.watermarks.jobs().filter(|job| !self.jobs.contains_key(*job)).count();
        // An epoch proves it of a ledger without jobs too.
        (stopped + lost).max(usize::from(self.contradictions.epoch.is_some()))
    }
}
