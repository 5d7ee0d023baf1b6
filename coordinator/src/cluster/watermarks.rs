//! The watermarks that workers keep on their own disks: the highest row that each has released. The ledger must never
//! know less.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::time::Duration;

use ledger::{BindingSummary, JobRecord, JobState, OpenedBranch};
use proto::model::JobMark;
use proto::{JobId, MAX_MARKS_PER_MESSAGE, Result, WorkerId};
use release::watermarks::Watermark;
use tokio::time::Instant;

use super::{Cluster, JobView, ShardView};

/// The next row that each worker has reported of each branch of a job.
type ReportedRows = BTreeMap<(WorkerId, u64), u64>;

/// The time to wait for a worker that has more to report: it sends the next message at once.
const NEXT_MESSAGE_WAIT: Duration = Duration::from_millis(20);

/// Watermarks kept of one worker: each costs some 100 bytes here, whether or not its job exists.
const MAX_PER_WORKER: usize = 65_536;

/// The watermarks that the ledger is not known to agree with.
#[derive(Debug, Default)]
pub struct Watermarks {
    jobs: BTreeMap<JobId, ReportedRows>,
    /// The number of watermarks kept of each worker.
    kept: BTreeMap<WorkerId, usize>,
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
    /// Keeps a watermark. `is_real` says that its branch and job exist: there are only so many of those, and all are
    /// kept.
    fn keep(
        &mut self,
        worker: &WorkerId,
        mark: &JobMark,
        verdict: WatermarkVerdict,
        is_real: bool,
    ) -> WatermarkVerdict {
        let JobMark { job, branch, next_row } = mark;
        let key = (worker.clone(), *branch);
        if let Some(kept) = self.jobs.get_mut(job).and_then(|rows| rows.get_mut(&key)) {
            let is_news = *kept < *next_row;
            *kept = (*kept).max(*next_row);
            return if is_news { verdict } else { WatermarkVerdict::Known };
        }
        let kept = self.kept.entry(worker.clone()).or_default();
        if *kept >= MAX_PER_WORKER && !is_real {
            return WatermarkVerdict::TooMany;
        }
        *kept += 1;
        self.jobs.entry(job.clone()).or_default().insert(key, *next_row);
        verdict
    }

    fn of_job(&self, job: &JobId) -> Vec<(WorkerId, JobMark)> {
        let mark = |((worker, branch), next_row): (&(WorkerId, u64), &u64)| {
            (worker.clone(), JobMark { job: job.clone(), branch: *branch, next_row: *next_row })
        };
        self.jobs.get(job).into_iter().flatten().map(mark).collect()
    }

    fn drop_known(&mut self, worker: &WorkerId, mark: &JobMark) {
        let Some(rows) = self.jobs.get_mut(&mark.job) else { return };
        let key = (worker.clone(), mark.branch);
        if rows.get(&key).is_none_or(|next_row| *next_row > mark.next_row) {
            return;
        }
        rows.remove(&key);
        if rows.is_empty() {
            self.jobs.remove(&mark.job);
        }
        if let Some(kept) = self.kept.get_mut(worker) {
            *kept -= 1;
        }
    }
}

impl Cluster {
    /// Keeps the watermarks that are not known to agree with the ledger. Returns the verdict on each.
    pub fn accept_watermarks(&mut self, worker: &WorkerId, marks: &[JobMark]) -> Vec<WatermarkVerdict> {
        let accept = |mark: &JobMark| {
            let verdict = match self.jobs.get(&mark.job) {
                None if mark.branch == 0 && mark.next_row == 0 => WatermarkVerdict::Known,
                None => WatermarkVerdict::ToCheck,
                Some(view) => judge(mark, view),
            };
            let view = self.jobs.get(&mark.job);
            let is_real = view.is_some_and(|view| mark.branch <= view.record.branch);
            if verdict == WatermarkVerdict::Known {
                return verdict;
            }
            self.watermarks.keep(worker, mark, verdict, is_real)
        };
        let verdicts = marks.iter().map(accept).collect();
        self.members.set_reporting(worker, marks.len() >= MAX_MARKS_PER_MESSAGE);
        verdicts
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
        let wait = if self.members.is_any_reporting(now) { wait.max(NEXT_MESSAGE_WAIT) } else { wait };
        (wait > Duration::ZERO).then_some(wait)
    }

    /// Returns the watermarks that the ledger must be compared with before anything is bound, with who reported them.
    pub fn watermarks_to_check(&self, job: &JobId) -> Vec<(WorkerId, JobMark)> {
        self.watermarks.of_job(job)
    }

    /// Returns the first watermark of each job that contradicts the ledger: its worker has released a row or a branch that
    /// the ledger does not know, or rows of a job that it does not have.
    pub fn contradictions(&self) -> impl Iterator<Item = (WorkerId, JobMark)> {
        let contradicts = move |mark: &JobMark| match self.jobs.get(&mark.job) {
            Some(view) => judge(mark, view) == WatermarkVerdict::Above,
            None => (mark.branch, mark.next_row) != (0, 0),
        };
        let first = move |job| self.watermarks.of_job(job).into_iter().find(|(_, mark)| contradicts(mark));
        self.watermarks.jobs.keys().filter_map(first)
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
        branch: mark.branch,
        next_row: mark.next_row,
    };
    marks.iter().map(watermark).collect()
}

fn judge(mark: &JobMark, view: &JobView) -> WatermarkVerdict {
    let JobRecord { branch, state, .. } = &view.record;
    // Nothing more is bound of a destroyed job, nor of another of its name.
    if *state == JobState::Destroyed {
        return WatermarkVerdict::Known;
    }
    match mark.branch.cmp(branch) {
        Ordering::Less if mark.next_row == 0 => WatermarkVerdict::Known,
        Ordering::Less => WatermarkVerdict::ToCheck,
        Ordering::Equal if mark.next_row <= view.bound.next_row => WatermarkVerdict::Known,
        _ => WatermarkVerdict::Above,
    }
}
