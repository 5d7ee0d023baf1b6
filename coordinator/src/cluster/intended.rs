//! Who should own what now, against who does.

use std::collections::HashMap;

use ledger::ShardRecord;
use proto::{Incarnation, JobId, WorkerId};
use tokio::time::Instant;

use super::{Cluster, JobView, ShardView};
use crate::placement::{self, Shard};

/// New owners for shards of one job, and the processes that get the leases.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnerChanges {
    pub job: JobId,
    pub owners: Vec<(u32, Option<(WorkerId, Incarnation)>)>,
}

impl OwnerChanges {
    pub fn for_ledger(&self) -> Vec<(u32, Option<WorkerId>)> {
        let without_process = |(shard, owner): &(u32, Option<(WorkerId, Incarnation)>)| {
            (*shard, owner.as_ref().map(|(worker, _)| worker.clone()))
        };
        self.owners.iter().map(without_process).collect()
    }
}

/// A worker that shards may be placed on; `None` as process for one that is only waited for.
type Candidate = (WorkerId, Option<Incarnation>);

impl Cluster {
    /// The changes that bring owners to what they should be. Nothing where all is well.
    pub fn owner_changes(&self, now: Instant) -> Vec<OwnerChanges> {
        let candidates = self.candidates(now);
        let views: Vec<(&JobView, &ShardView)> = self
            .jobs()
            .filter(|view| view.is_served())
            .flat_map(|view| view.shards.iter().map(move |shard| (view, shard)))
            .collect();
        let shards: Vec<Shard> =
            views.iter().map(|(view, shard)| self.to_place(now, view, shard, &candidates)).collect();
        let may_take = |at: usize, worker: usize| {
            let (name, process) = &candidates[worker];
            let job = &views[at].0.record.job;
            process.is_some_and(|process| !self.exclusions.is_excluded(now, job, name, process))
        };
        let owners = placement::assign(candidates.len(), &shards, may_take);

        let mut changes: Vec<OwnerChanges> = Vec::new();
        for ((view, shard), owner) in views.into_iter().zip(owners) {
            let Some(change) = self.change_of(now, view, shard, owner.map(|owner| &candidates[owner])) else {
                continue;
            };
            let job = &view.record.job;
            match changes.last_mut().filter(|last| last.job == *job) {
                Some(last) => last.owners.push((shard.record.shard, change)),
                None => changes
                    .push(OwnerChanges { job: job.clone(), owners: vec![(shard.record.shard, change)] }),
            }
        }
        changes
    }

    /// In order of names, so that the outcome does not hang on who came first.
    fn candidates(&self, now: Instant) -> Vec<Candidate> {
        let live =
            self.members.all_live(now).map(|(worker, member)| (worker.clone(), Some(member.incarnation)));
        let awaited = self.members.awaited().map(|worker| (worker.clone(), None));
        let mut candidates: Vec<Candidate> = live.chain(awaited).collect();
        candidates.sort_by(|a, b| a.0.cmp(&b.0));
        candidates
    }

    fn to_place(&self, now: Instant, view: &JobView, shard: &ShardView, candidates: &[Candidate]) -> Shard {
        let owner = shard.record.owner.as_ref();
        let holder =
            owner.and_then(|owner| candidates.binary_search_by(|(worker, _)| worker.cmp(owner)).ok());
        let process = holder.and_then(|at| candidates[at].1);
        // What a worker serves well it keeps, also where another shard of the job failed on it.
        let is_barred = process.is_some_and(|process| {
            !shard.is_ready
                && owner
                    .is_some_and(|owner| self.exclusions.is_excluded(now, &view.record.job, owner, process))
        });
        Shard {
            bytes: view.shard_bytes(shard.record.range),
            holder: holder.filter(|_| !is_barred),
            is_pinned: holder.is_some() && process.is_none(),
        }
    }

    /// `None`: leave it. An owner that is gone keeps its name on the shard until another can take it: should it come
    /// back with its state before that, it goes on.
    fn change_of(
        &self,
        now: Instant,
        view: &JobView,
        shard: &ShardView,
        intended: Option<&Candidate>,
    ) -> Option<Option<(WorkerId, Incarnation)>> {
        let owner = shard.record.owner.as_ref();
        match intended {
            Some((_, None)) => None,
            Some((worker, Some(process))) => {
                let is_new_owner = owner != Some(worker);
                let has_reported = self.members.live(worker, now).is_some_and(|member| member.has_reported);
                let is_new_process = match shard.holder {
                    Some(holder) => holder != *process,
                    // It may still hold the lease from before this coordinator: its first heartbeat says so.
                    None => has_reported,
                };
                (is_new_owner || is_new_process).then(|| Some((worker.clone(), *process)))
            }
            None => {
                let owner = owner?;
                let member = self.members.live(owner, now)?;
                let is_excluded =
                    self.exclusions.is_excluded(now, &view.record.job, owner, member.incarnation);
                is_excluded.then_some(None)
            }
        }
    }

    /// After the ledger has taken the changes.
    pub fn owners_changed(&mut self, changes: &OwnerChanges, records: Vec<ShardRecord>) {
        let Ok(view) = self.job_mut(&changes.job) else { return };
        let records: HashMap<u32, ShardRecord> =
            records.into_iter().map(|record| (record.shard, record)).collect();
        let owners: HashMap<u32, _> = changes.owners.iter().map(|(shard, owner)| (*shard, owner)).collect();
        for held in &mut view.shards {
            let shard = held.record.shard;
            let (Some(record), Some(owner)) = (records.get(&shard), owners.get(&shard)) else { continue };
            *held = ShardView::new(record.clone());
            held.holder = owner.as_ref().map(|(_, process)| *process);
        }
    }
}
