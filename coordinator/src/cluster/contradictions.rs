//! Proofs that the ledger is an old copy, which stop the binding of one job or of all. They are kept as long as the process
//! lives: what a worker reports later takes none of them back.

use std::collections::{BTreeMap, BTreeSet};

use ledger::JobState;
use proto::{JobId, ServiceError, WorkerId};

use super::Cluster;
use super::watermarks::behind;

/// What workers have proved.
#[derive(Debug, Default)]
pub struct Contradictions {
    /// The error that every binding of the job gets, which names the worker.
    jobs: BTreeMap<JobId, ServiceError>,
    /// The highest epoch above this coordinator's, and the worker that has seen it.
    epoch: Option<(WorkerId, u64)>,
}

impl Contradictions {
    /// Stops the binding of a job for good. Returns whether it was not stopped before.
    pub fn stop(&mut self, job: &JobId, proof: ServiceError) -> bool {
        self.jobs.insert(job.clone(), proof).is_none()
    }
}

impl Cluster {
    /// Returns why no row of the job may be bound and no branch of it opened; `None` where nothing speaks against it.
    pub fn refusal(&self, job: &JobId) -> Option<ServiceError> {
        self.refusal_by_epoch(job.as_str()).or_else(|| self.contradictions.jobs.get(job).cloned())
    }

    /// Returns why the ledger may lack rows of the job that were released; `None` where nothing says so.
    pub fn ledger_doubt(&self, job: &JobId) -> Option<ServiceError> {
        self.copied.clone().or_else(|| self.refusal(job))
    }

    fn refusal_by_epoch(&self, job: &str) -> Option<ServiceError> {
        let (worker, epoch) = self.contradictions.epoch.as_ref()?;
        Some(ServiceError::LedgerBehind {
            job: job.to_owned(),
            known: format!("coordinator epoch {}", self.epoch),
            witness: format!("worker {worker}"),
            seen: format!("coordinator epoch {epoch}"),
        })
    }

    /// Returns why nothing may be charged to a budget, and no budget be replaced; `None` where nothing speaks against it.
    /// What is said of any job counts: an older copy has lost the charges after it, of whichever job.
    pub fn budget_refusal(&self) -> Option<ServiceError> {
        let by_job = || {
            let mut open = self.jobs().filter(|view| view.record.state != JobState::Destroyed);
            open.find_map(|view| self.contradictions.jobs.get(&view.record.job)).cloned()
        };
        let by_mark = || {
            let (worker, mark) = self.contradictions().next()?;
            Some(behind(&worker, &mark, self.jobs.get(&mark.job)))
        };
        let by_copy = || self.copied.clone();
        self.refusal_by_epoch("(any)").or_else(by_copy).or_else(by_job).or_else(by_mark)
    }

    /// Returns the jobs of which more was released than the ledger knows, or something else, or may have been because it is a
    /// copy: their ε is not known either.
    pub fn jobs_behind(&self) -> BTreeSet<JobId> {
        let marked = self.contradictions().map(|(_, mark)| mark.job);
        let is_old = self.contradictions.epoch.is_some() || self.copied.is_some();
        let is_stopped = |job: &&JobId| is_old || self.is_stopped(job);
        marked.chain(self.jobs.keys().filter(is_stopped).cloned()).collect()
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
        self.contradictions.stop(job, proof.clone())
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
