//! The watermarks that workers keep on their own disks: the highest row that each has released, and its commitment. The
//! ledger must never know less, nor anything else.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::time::Duration;

use ledger::{BindingSummary, JobRecord, JobState, OpenedBranch};
use proto::model::{JobMark, WorkerRecord};
use proto::{JobId, MAX_MARKS_PER_MESSAGE, Nonce, Result, ServiceError, WorkerId};
use release::watermarks::Watermark;
use tokio::time::Instant;

use super::{Cluster, JobView, ShardView};

/// A worker, the nonce of a job, and a branch of it.
type Source = (WorkerId, Nonce, u64);

/// The highest release that each worker has reported of each branch of a job.
type Reported = BTreeMap<Source, JobMark>;

/// The time to wait for a worker that has more to report: it sends the next message at once.
const NEXT_MESSAGE_WAIT: Duration = Duration::from_millis(20);

/// Watermarks kept of one worker: each costs some 100 bytes here, whether or not its job exists.
const MAX_PER_WORKER: usize = 65_536;

/// The watermarks that the ledger is not known to agree with.
#[derive(Debug, Default)]
pub struct Watermarks {
    jobs: BTreeMap<JobId, Reported>,
    /// The number of watermarks kept of each worker.
    kept: BTreeMap<WorkerId, usize>,
    /// The last watermark of each job that the ledger agreed with: all workers of a job report the same ones.
    confirmed: BTreeMap<JobId, JobMark>,
}

/// The use of a received watermark.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WatermarkVerdict {
    /// The watermark is not new, or is known to be bound.
    Known,
    /// The watermark must be compared with the ledger before anything is bound.
    ToCheck,
    /// The watermark must be compared too, and is above what this process knows to be bound.
    Above,
    /// Not kept: there is no room for another of this worker.
    TooMany,
}

impl Watermarks {
    /// Returns the names of the jobs of which watermarks are kept.
    pub fn jobs(&self) -> impl Iterator<Item = &JobId> {
        self.jobs.keys()
    }

    /// Keeps a watermark. `is_real` says that its branch and job exist: there are only so many of those, and all are
    /// kept.
    fn keep(
        &mut self,
        worker: &WorkerId,
        mark: &JobMark,
        verdict: WatermarkVerdict,
        is_real: bool,
    ) -> WatermarkVerdict {
        let key = (worker.clone(), mark.nonce, mark.branch);
        if let Some(kept) = self.jobs.get_mut(&mark.job).and_then(|marks| marks.get_mut(&key)) {
            let is_news = kept.next_row < mark.next_row;
            if is_news {
                *kept = mark.clone();
            }
            return if is_news { verdict } else { WatermarkVerdict::Known };
        }
        let kept = self.kept.entry(worker.clone()).or_default();
        if *kept >= MAX_PER_WORKER && !is_real {
            return WatermarkVerdict::TooMany;
        }
        *kept += 1;
        self.jobs.entry(mark.job.clone()).or_default().insert(key, mark.clone());
        verdict
    }

    fn of_job(&self, job: &JobId) -> Vec<(WorkerId, JobMark)> {
        let mark = |((worker, ..), mark): (&Source, &JobMark)| (worker.clone(), mark.clone());
        self.jobs.get(job).into_iter().flatten().map(mark).collect()
    }

    fn drop_known(&mut self, worker: &WorkerId, mark: &JobMark) {
        let Some(marks) = self.jobs.get_mut(&mark.job) else { return };
        let key = (worker.clone(), mark.nonce, mark.branch);
        if marks.get(&key).is_none_or(|kept| kept.next_row > mark.next_row) {
            return;
        }
        marks.remove(&key);
        if marks.is_empty() {
            self.jobs.remove(&mark.job);
        }
        if let Some(kept) = self.kept.get_mut(worker) {
            *kept -= 1;
        }
        self.confirmed.insert(mark.job.clone(), mark.clone());
    }
}

/// What a worker's record says against the ledger.
#[derive(Debug, Default)]
pub struct HeardRecord {
    /// The verdict on each watermark.
    pub verdicts: Vec<WatermarkVerdict>,
    /// Whether it proves for the first time that a later coordinator had this ledger.
    pub has_new_epoch: bool,
    /// Whether bindings do not wait for this worker any more, though it has more to report.
    pub is_given_up: bool,
}

impl Cluster {
    /// Takes in what a worker has on record of this ledger. What it has of another says nothing here. A worker that has
    /// just registered (`is_new`) without a word of this ledger is waited for until its next message.
    pub fn accept_record(
        &mut self,
        worker: &WorkerId,
        record: &WorkerRecord,
        is_new: bool,
        now: Instant,
    ) -> HeardRecord {
        let WorkerRecord { ledger, highest_epoch, marks } = record;
        if *ledger != Some(self.ledger) {
            let is_given_up = self.long_reports.note(worker, is_new, now);
            return HeardRecord { is_given_up, ..HeardRecord::default() };
        }
        HeardRecord {
            has_new_epoch: self.accept_epoch(worker, *highest_epoch),
            verdicts: self.accept_watermarks(worker, marks),
            is_given_up: self.long_reports.note(worker, marks.len() >= MAX_MARKS_PER_MESSAGE, now),
        }
    }

    /// Keeps the watermarks that are not known to agree with the ledger. Returns the verdict on each.
    fn accept_watermarks(&mut self, worker: &WorkerId, marks: &[JobMark]) -> Vec<WatermarkVerdict> {
        let accept = |mark: &JobMark| {
            let view = self.jobs.get(&mark.job);
            let verdict = match view {
                _ if self.watermarks.confirmed.get(&mark.job) == Some(mark) => WatermarkVerdict::Known,
                None if mark.branch == 0 && mark.next_row == 0 => WatermarkVerdict::Known,
                // The ledger has lost a job that it had: none is ever removed from it.
                None => WatermarkVerdict::Above,
                Some(view) => judge(mark, view),
            };
            if verdict == WatermarkVerdict::Known {
                return verdict;
            }
            let is_real =
                view.is_some_and(|view| view.record.nonce == mark.nonce && mark.branch <= view.record.branch);
            let kept = self.watermarks.keep(worker, mark, verdict, is_real);
            if (kept, verdict) == (WatermarkVerdict::TooMany, WatermarkVerdict::Above) && view.is_some() {
                // What is not kept is not compared later.
                self.contradictions.stop(&mark.job, behind(worker, mark, view));
                return verdict;
            }
            kept
        };
        marks.iter().map(accept).collect()
    }

    /// Returns how long to wait before rows of the job are bound or a branch of it is opened. This process may have
    /// started so recently that a worker has not reported what it released. `None` if all have, or had the time.
    pub fn grace_left(&self, job: &JobId, now: Instant) -> Option<Duration> {
        let owners = self
            .job(job)
            .into_iter()
            .flat_map(|view| &view.shards)
            .filter_map(|shard| shard.record.owner.as_ref());
        let until = owners.filter_map(|owner| self.members.awaited_until(owner)).max();
        let until = until.max(self.members.grace_until());
        let wait = until.map_or(Duration::ZERO, |until| until.saturating_duration_since(now));
        let is_any_reporting =
            self.long_reports.waited_for(now).any(|worker| self.members.live(worker, now).is_some());
        let wait = if is_any_reporting { wait.max(NEXT_MESSAGE_WAIT) } else { wait };
        (wait > Duration::ZERO).then_some(wait)
    }

    /// Returns a worker that [`grace_left`](Self::grace_left) waits for, if one is known by name.
    pub fn waited_for(&self, job: &JobId, now: Instant) -> Option<WorkerId> {
        let is_reporting = |worker: &&WorkerId| self.members.live(worker, now).is_some();
        let mut owners = self.job(job).into_iter().flat_map(|view| &view.shards);
        let absent = || {
            let owner = owners.find_map(|shard| {
                shard.record.owner.as_ref().filter(|owner| self.members.awaited_until(owner).is_some())
            });
            owner.or_else(|| self.members.awaited().next())
        };
        self.long_reports.waited_for(now).find(is_reporting).or_else(absent).cloned()
    }

    /// Returns the watermarks that the ledger must be compared with before anything is bound, with who reported them.
    pub fn watermarks_to_check(&self, job: &JobId) -> Vec<(WorkerId, JobMark)> {
        self.watermarks.of_job(job)
    }

    /// Returns the jobs of which watermarks are to be compared with the ledger, and that go on.
    pub fn jobs_to_check(&self) -> Vec<JobId> {
        let is_open = |job: &&JobId| self.jobs.contains_key(*job) && !self.is_stopped(job);
        self.watermarks.jobs().filter(is_open).cloned().collect()
    }

    /// Returns the first watermark of each job that contradicts the ledger: its worker has released a row or a branch that
    /// the ledger does not know, or rows of a job that it does not have.
    pub fn contradictions(&self) -> impl Iterator<Item = (WorkerId, JobMark)> {
        let contradicts = move |mark: &JobMark| match self.jobs.get(&mark.job) {
            Some(view) => judge(mark, view) == WatermarkVerdict::Above,
            None => (mark.branch, mark.next_row) != (0, 0),
        };
        let first = move |job| self.watermarks.of_job(job).into_iter().find(|(_, mark)| contradicts(mark));
        self.watermarks.jobs().filter_map(first)
    }

    /// Drops watermarks that the ledger agrees with.
    pub fn confirm_watermarks(&mut self, marks: &[(WorkerId, JobMark)]) {
        marks.iter().for_each(|(worker, mark)| self.watermarks.drop_known(worker, mark));
    }

    /// Applies a branch that the ledger has opened. Owners stay, and must report again that they are ready.
    pub fn branch_opened(&mut self, opened: OpenedBranch, bound: BindingSummary) -> Result<()> {
        let view = self.job_mut(&opened.job.job)?;
        let holders: Vec<_> = view.shards.iter().map(|shard| shard.holder).collect();
        let shards = opened.shards.into_iter().zip(holders);
        view.shards = shards.map(|(record, holder)| ShardView { holder, ..ShardView::new(record) }).collect();
        view.record = opened.job;
        view.bound = bound;
        view.last_checkpoint = None;
        // Preparations and superseded leases belong to the branch before.
        view.superseded.clear();
        if let Some(pending) = &mut view.pending {
            pending.shards.iter_mut().for_each(|shard| shard.standby = None);
        }
        Ok(())
    }
}

/// Converts watermarks of one job to those that [`release`] compares with the ledger.
pub fn for_release(marks: &[(WorkerId, JobMark)]) -> Vec<Watermark<String>> {
    let watermark = |(worker, mark): &(WorkerId, JobMark)| Watermark {
        witness: format!("worker {worker}"),
        nonce: mark.nonce,
        branch: mark.branch,
        next_row: mark.next_row,
        commitment: mark.commitment,
    };
    marks.iter().map(watermark).collect()
}

/// Returns the error for a mark above what the ledger knows of its job, or of a job that it has lost.
pub fn behind(worker: &WorkerId, mark: &JobMark, view: Option<&JobView>) -> ServiceError {
    let known = match view {
        None => "nothing".to_owned(),
        Some(view) if view.record.nonce != mark.nonce => "one with another nonce".to_owned(),
        Some(view) => format!("branch {} up to row {}", view.record.branch, view.bound.next_row),
    };
    ServiceError::LedgerBehind {
        job: mark.job.to_string(),
        known,
        witness: format!("worker {worker}"),
        seen: format!("branch {} up to row {}", mark.branch, mark.next_row),
    }
}

fn judge(mark: &JobMark, view: &JobView) -> WatermarkVerdict {
    let JobRecord { branch, state, nonce, .. } = &view.record;
    // Nothing more is bound of a destroyed job, nor of another of its name.
    if *state == JobState::Destroyed {
        return WatermarkVerdict::Known;
    }
    match mark.branch.cmp(branch) {
        _ if mark.nonce != *nonce => WatermarkVerdict::Above,
        Ordering::Greater => WatermarkVerdict::Above,
        Ordering::Equal if mark.next_row > view.bound.next_row => WatermarkVerdict::Above,
        _ if mark.next_row == 0 => WatermarkVerdict::Known,
        // As far as the ledger knows rows, they may be bound to other commitments.
        _ => WatermarkVerdict::ToCheck,
    }
}
