//! What workers have on their own disks of what they released: the ledger must never know less.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::time::Duration;

use ledger::{BindingSummary, JobRecord, JobState, OpenedBranch};
use proto::{JobId, MAX_MARKS_PER_MESSAGE, Result, WorkerId, model::JobMark};
use tokio::time::Instant;

use super::{Cluster, JobView, ShardView};

/// The next row that each worker has told of a branch of a job.
type Told = BTreeMap<(WorkerId, u64), u64>;

/// A worker that has more to say sends it at once.
const NEXT_MESSAGE: Duration = Duration::from_millis(20);

/// Of one worker: names and numbers that it makes up cost memory.
const MOST_KEPT: usize = 65_536;

/// What workers have told, where the ledger is not known to have it.
#[derive(Debug, Default)]
pub struct Marks {
    of: BTreeMap<JobId, Told>,
    kept: BTreeMap<WorkerId, usize>,
}

/// What becomes of a worker's mark.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Taken {
    /// It says nothing new, or what is known to be bound.
    Known,
    /// To be compared with the ledger before anything is bound.
    ToCheck,
    /// The same; it is above what this process knows to be bound.
    Above,
    /// There is no room for another of this worker.
    TooMany,
}

impl Marks {
    /// `is_real`: the branch is one of a job that there is. Of those there are as many as there are, and none is left out.
    fn keep(&mut self, worker: &WorkerId, mark: &JobMark, as_what: Taken, is_real: bool) -> Taken {
        let JobMark { job, branch, next_row } = mark;
        let key = (worker.clone(), *branch);
        if let Some(kept) = self.of.get_mut(job).and_then(|told| told.get_mut(&key)) {
            let is_news = *kept < *next_row;
            *kept = (*kept).max(*next_row);
            return if is_news { as_what } else { Taken::Known };
        }
        let kept = self.kept.entry(worker.clone()).or_default();
        if *kept >= MOST_KEPT && !is_real {
            return Taken::TooMany;
        }
        *kept += 1;
        self.of.entry(job.clone()).or_default().insert(key, *next_row);
        as_what
    }

    fn of(&self, job: &JobId) -> Vec<(WorkerId, JobMark)> {
        let mark = |((worker, branch), next_row): (&(WorkerId, u64), &u64)| {
            (worker.clone(), JobMark { job: job.clone(), branch: *branch, next_row: *next_row })
        };
        self.of.get(job).into_iter().flatten().map(mark).collect()
    }

    fn drop_known(&mut self, worker: &WorkerId, mark: &JobMark) {
        let Some(told) = self.of.get_mut(&mark.job) else { return };
        let key = (worker.clone(), mark.branch);
        if told.get(&key).is_none_or(|next_row| *next_row > mark.next_row) {
            return;
        }
        told.remove(&key);
        if told.is_empty() {
            self.of.remove(&mark.job);
        }
        if let Some(kept) = self.kept.get_mut(worker) {
            *kept -= 1;
        }
    }
}

impl Cluster {
    /// Keeps those that are not known to agree with the ledger. Gives what became of each.
    pub fn take_marks(&mut self, worker: &WorkerId, marks: &[JobMark]) -> Vec<Taken> {
        let take = |mark: &JobMark| {
            let taken = match self.jobs.get(&mark.job) {
                None if mark.branch == 0 && mark.next_row == 0 => Taken::Known,
                None => Taken::ToCheck,
                Some(view) => judge(mark, view),
            };
            let view = self.jobs.get(&mark.job);
            let is_real = view.is_some_and(|view| mark.branch <= view.record.branch);
            if taken == Taken::Known { taken } else { self.marks.keep(worker, mark, taken, is_real) }
        };
        let taken = marks.iter().map(take).collect();
        self.members.note_telling(worker, marks.len() >= MAX_MARKS_PER_MESSAGE);
        taken
    }

    /// How long to wait before rows of the job are bound or a branch of it is opened: this process has started so lately
    /// that a worker may not have said yet what it released. `None`: all have, or had the time.
    pub fn grace_left(&self, job: &JobId, now: Instant) -> Option<Duration> {
        let owners = self
            .job(job)
            .into_iter()
            .flat_map(|view| &view.shards)
            .filter_map(|shard| shard.record.owner.as_ref());
        let until = owners.filter_map(|owner| self.members.awaited_until(owner)).max();
        let until = until.max(self.members.grace_until());
        let wait = until.map_or(Duration::ZERO, |until| until.saturating_duration_since(now));
        let wait = if self.members.is_any_telling(now) { wait.max(NEXT_MESSAGE) } else { wait };
        (wait > Duration::ZERO).then_some(wait)
    }

    /// For the ledger itself to judge before anything is bound, with who told them.
    pub fn marks_to_check(&self, job: &JobId) -> Vec<(WorkerId, JobMark)> {
        self.marks.of(job)
    }

    /// The ledger knows all that these say.
    pub fn marks_agree(&mut self, marks: &[(WorkerId, JobMark)]) {
        marks.iter().for_each(|(worker, mark)| self.marks.drop_known(worker, mark));
    }

    /// After the ledger has opened a branch: owners stay, and must say anew that they are ready.
    pub fn branch_opened(&mut self, opened: OpenedBranch, bound: BindingSummary) -> Result<()> {
        let view = self.job_mut(&opened.job.job)?;
        let holders: Vec<_> = view.shards.iter().map(|shard| shard.holder).collect();
        let shards = opened.shards.into_iter().zip(holders);
        view.shards = shards.map(|(record, holder)| ShardView { holder, ..ShardView::new(record) }).collect();
        (view.record, view.bound, view.written) = (opened.job, bound, None);
        // What was made ready is of the branch before, and so are the leases before the new ones.
        view.retiring.clear();
        if let Some(coming) = &mut view.coming {
            coming.shards.iter_mut().for_each(|shard| shard.standby = None);
        }
        Ok(())
    }
}

fn judge(mark: &JobMark, view: &JobView) -> Taken {
    let JobRecord { branch, state, .. } = &view.record;
    // Nothing is bound of a destroyed one any more, nor of another of its name.
    if *state == JobState::Destroyed {
        return Taken::Known;
    }
    match mark.branch.cmp(branch) {
        Ordering::Less if mark.next_row == 0 => Taken::Known,
        Ordering::Less => Taken::ToCheck,
        Ordering::Equal if mark.next_row <= view.bound.next_row => Taken::Known,
        _ => Taken::Above,
    }
}
