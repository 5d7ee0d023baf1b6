//! What workers have on their own disks of what they released: the ledger must never know less.

use ledger::{BindingSummary, Opened};
use proto::model::JobMark;
use proto::{JobId, Result, ServiceError};

use super::{Cluster, JobView, ShardView};

impl Cluster {
    /// The highest mark told of the job.
    pub fn mark(&self, job: &JobId) -> Option<JobMark> {
        self.marks.get(job).cloned()
    }

    /// Keeps the highest of each job. True where it rose above what is known to be bound.
    pub fn take_mark(&mut self, mark: JobMark) -> bool {
        let height = |mark: &JobMark| (mark.branch, mark.next_row);
        if self.marks.get(&mark.job).is_some_and(|known| height(known) >= height(&mark)) {
            return false;
        }
        let is_above = self.jobs.get(&mark.job).is_some_and(|view| exceeds(&mark, view));
        self.marks.insert(mark.job.clone(), mark);
        is_above
    }

    /// Before rows are bound: a mark above what is known here, for the ledger itself to judge. Error: a worker that
    /// held the job before this process started has not yet said what it released.
    pub fn mark_to_check(&self, job: &JobId) -> Result<Option<JobMark>> {
        let Ok(view) = self.job(job) else { return Ok(self.mark(job)) };
        let is_awaited = |shard: &ShardView| {
            let owner = shard.record.owner.as_ref();
            owner.is_some_and(|owner| self.members.is_awaited(owner))
        };
        if view.shards.iter().any(is_awaited) {
            let what = format!("word from the workers that held job {job} before the coordinator started");
            return Err(ServiceError::Unavailable { what });
        }
        Ok(self.mark(job).filter(|mark| exceeds(mark, view)))
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

fn exceeds(mark: &JobMark, view: &JobView) -> bool {
    let (branch, next_row) = (view.record.branch, view.bound.next_row);
    mark.branch > branch || (mark.branch == branch && mark.next_row > next_row)
}
