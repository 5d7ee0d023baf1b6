//! What workers have on their own disks of what they released: the ledger must never know less.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use ledger::{BindingSummary, JobRecord, JobState, Opened};
use proto::model::JobMark;
use proto::{JobId, Result, ServiceError, WorkerId};
use tokio::time::Instant;

use super::{Cluster, JobView, ShardView};

/// Branch and next row that each worker has told of a job.
pub type Told = BTreeMap<WorkerId, (u64, u64)>;

/// Of jobs that the ledger does not know, a worker: names cost memory.
const MOST_OF_STRANGERS: usize = 4096;

/// What becomes of a worker's mark.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Taken {
    /// It says nothing new, or what is known to be bound.
    Known,
    /// To be compared with the ledger before anything is bound.
    ToCheck,
    /// The same; it is above what this process knows to be bound.
    Above,
    /// No worker can have released that.
    Impossible,
}

impl Cluster {
    /// Keeps the highest of each job that is not known to agree with the ledger. Gives what became of each.
    pub fn take_marks(&mut self, worker: &WorkerId, marks: &[JobMark]) -> Vec<Taken> {
        let is_stranger =
            |(job, told): (&JobId, &Told)| !self.jobs.contains_key(job) && told.contains_key(worker);
        let mut strangers = self.marks.iter().filter(|kept| is_stranger(*kept)).count();
        let mut take = |mark: &JobMark| {
            let view = self.jobs.get(&mark.job);
            let taken = match view {
                None if mark.branch == 0 && mark.next_row == 0 => Taken::Known,
                None => Taken::ToCheck,
                Some(view) => judge(mark, view),
            };
            if !matches!(taken, Taken::ToCheck | Taken::Above) {
                return taken;
            }
            let (is_unknown, height) = (view.is_none(), (mark.branch, mark.next_row));
            let kept = self.marks.get(&mark.job).and_then(|told| told.get(worker));
            if kept.is_some_and(|kept| *kept >= height) {
                return Taken::Known;
            }
            if is_unknown && kept.is_none() {
                if strangers >= MOST_OF_STRANGERS {
                    return Taken::Impossible;
                }
                strangers += 1;
            }
            self.marks.entry(mark.job.clone()).or_default().insert(worker.clone(), height);
            taken
        };
        marks.iter().map(&mut take).collect()
    }

    /// Before rows are bound or a branch is opened: marks for the ledger itself to judge, with who told them. Error: this
    /// process has started so lately that a worker may not have said yet what it released.
    pub fn marks_to_check(&self, job: &JobId, now: Instant) -> Result<Vec<(WorkerId, JobMark)>> {
        let is_awaited = |shard: &ShardView| {
            let owner = shard.record.owner.as_ref();
            owner.is_some_and(|owner| self.members.is_awaited(owner))
        };
        if self.members.is_word_awaited(now)
            || self.job(job).is_ok_and(|view| view.shards.iter().any(is_awaited))
        {
            let what =
                format!("word from the workers that may have held job {job} before the coordinator started");
            return Err(ServiceError::Unavailable { what });
        }
        let mark = |(worker, (branch, next_row)): (&WorkerId, &(u64, u64))| {
            (worker.clone(), JobMark { job: job.clone(), branch: *branch, next_row: *next_row })
        };
        Ok(self.marks.get(job).into_iter().flatten().map(mark).collect())
    }

    /// The ledger knows all that these say.
    pub fn marks_agree(&mut self, marks: &[(WorkerId, JobMark)]) {
        for (worker, mark) in marks {
            let Some(told) = self.marks.get_mut(&mark.job) else { continue };
            told.retain(|of, height| of != worker || *height > (mark.branch, mark.next_row));
            if told.is_empty() {
                self.marks.remove(&mark.job);
            }
        }
    }

    /// After the ledger has opened a branch: owners stay, and must say anew that they are ready.
    pub fn branch_opened(&mut self, opened: Opened, bound: BindingSummary) -> Result<()> {
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
    let JobRecord { branch, iterations, state, .. } = &view.record;
    let is_bound = match mark.branch.cmp(branch) {
        Ordering::Less => mark.next_row == 0,
        Ordering::Equal => mark.next_row <= view.bound.next_row,
        Ordering::Greater => false,
    };
    match () {
        () if mark.next_row > *iterations => Taken::Impossible,
        // Nothing is bound of it any more, nor of another of its name.
        () if is_bound || *state == JobState::Destroyed => Taken::Known,
        () if mark.branch < *branch => Taken::ToCheck,
        () => Taken::Above,
    }
}
