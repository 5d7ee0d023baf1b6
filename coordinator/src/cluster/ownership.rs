//! An index from each worker to the shards that it owns and the jobs that hand shards over to or from it, so that a
//! heartbeat costs as much as the worker's own shards, not as much as all shards.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use proto::{JobId, WorkerId};

use super::JobView;

/// A job, and the index of one of its shards in its view.
pub type OwnedShard = (JobId, usize);

/// The index over the owners in the jobs' views, brought up to date when it is read.
#[derive(Debug, Default)]
pub struct OwnershipIndex {
    shards: HashMap<WorkerId, BTreeSet<OwnedShard>>,
    /// The owners as they were indexed, by position in the view.
    owners: HashMap<JobId, Vec<(usize, WorkerId)>>,
    /// Jobs that name the worker in a preparation or in a superseded lease.
    handovers: HashMap<WorkerId, BTreeSet<JobId>>,
    /// The workers named by each job as they were indexed.
    named: HashMap<JobId, BTreeSet<WorkerId>>,
    maybe_changed: BTreeSet<JobId>,
}

impl OwnershipIndex {
    /// Notes that the owners of the job's shards may have changed.
    pub fn may_have_changed(&mut self, job: &JobId) {
        if !self.maybe_changed.contains(job) {
            self.maybe_changed.insert(job.clone());
        }
    }

    /// Returns the shards that the worker owns, ordered by job and position.
    pub fn shards_of(&mut self, jobs: &BTreeMap<JobId, JobView>, worker: &WorkerId) -> Vec<OwnedShard> {
        self.bring_up_to_date(jobs);
        self.shards.get(worker).into_iter().flatten().cloned().collect()
    }

    /// Indexes the jobs that may have changed.
    pub fn bring_up_to_date(&mut self, jobs: &BTreeMap<JobId, JobView>) {
        while let Some(job) = self.maybe_changed.pop_first() {
            self.index(&job, jobs.get(&job));
            self.index_handovers(&job, jobs.get(&job));
        }
    }

    /// Returns the jobs that hand shards over to or from the worker, as of the last call of `bring_up_to_date`.
    pub fn handovers_of(&self, worker: &WorkerId) -> Vec<JobId> {
        self.handovers.get(worker).into_iter().flatten().cloned().collect()
    }

    fn index_handovers(&mut self, job: &JobId, view: Option<&JobView>) {
        let now: BTreeSet<WorkerId> = view.into_iter().flat_map(named_in).cloned().collect();
        let before = self.named.remove(job).unwrap_or_default();
        for worker in before.difference(&now) {
            if let Some(jobs) = self.handovers.get_mut(worker) {
                jobs.remove(job);
                if jobs.is_empty() {
                    self.handovers.remove(worker);
                }
            }
        }
        for worker in now.difference(&before) {
            self.handovers.entry(worker.clone()).or_default().insert(job.clone());
        }
        if !now.is_empty() {
            self.named.insert(job.clone(), now);
        }
    }

    fn index(&mut self, job: &JobId, view: Option<&JobView>) {
        let now: Vec<(usize, WorkerId)> =
            view.into_iter().flat_map(owners_of).map(|(at, owner)| (at, owner.clone())).collect();
        let before = self.owners.remove(job).unwrap_or_default();
        if before == now {
            self.owners.insert(job.clone(), now);
            return;
        }
        for (at, owner) in before {
            if let Some(held) = self.shards.get_mut(&owner) {
                held.remove(&(job.clone(), at));
                if held.is_empty() {
                    self.shards.remove(&owner);
                }
            }
        }
        for (at, owner) in &now {
            self.shards.entry(owner.clone()).or_default().insert((job.clone(), *at));
        }
        self.owners.insert(job.clone(), now);
    }
}

fn owners_of(view: &JobView) -> impl Iterator<Item = (usize, &WorkerId)> {
    let owners = view.shards.iter().map(|shard| shard.record.owner.as_ref()).enumerate();
    owners.filter_map(|(at, owner)| Some((at, owner?)))
}

fn named_in(view: &JobView) -> impl Iterator<Item = &WorkerId> {
    let present = view.shards.iter().filter_map(|shard| shard.standby.as_ref());
    let pending = view.pending.iter().flat_map(|pending| &pending.shards);
    let standbys = present.chain(pending.filter_map(|shard| shard.standby.as_ref()));
    standbys.map(|standby| &standby.worker).chain(view.superseded.iter().map(|lease| &lease.worker))
}

#[cfg(test)]
mod tests {
    use ledger::{JobRecord, JobState, ShardRecord};
    use proptest::prelude::*;
    use proto::{CoordinateRange, Lineage, Nonce};

    use super::*;

    fn view(job: &JobId, owners: &[Option<usize>]) -> JobView {
        let record = JobRecord {
            job: job.clone(),
            plan_digest: [0; 32],
            dimension: 512 * owners.len() as u64,
            layout_digest: [3; 32],
            iterations: 1,
            mechanism: String::new(),
            key_commitment: [0; 32],
            branch: 0,
            nonce: Nonce::from_bytes([0; 32]),
            lineage: Lineage::of_job(Nonce::from_bytes([0; 32])),
            shards: owners.len() as u32,
            layout_epoch: 0,
            state: JobState::Running,
            plan_toml: String::new(),
        };
        let shard = |(at, owner): (usize, &Option<usize>)| ShardRecord {
            shard: at as u32,
            range: CoordinateRange { start: 512 * at as u64, end: 512 * (at as u64 + 1) },
            epoch: 0,
            owner: owner.map(name),
        };
        JobView::new(record, owners.iter().enumerate().map(shard).collect(), None)
    }

    fn name(worker: usize) -> WorkerId {
        WorkerId::new(format!("w{worker}")).unwrap()
    }

    proptest! {
        /// After any sequence of changes the index returns what a search of every shard would.
        #[test]
        fn the_index_is_what_a_search_would_find(
            steps in prop::collection::vec(
                (0usize..4, prop::option::of(prop::collection::vec(prop::option::of(0usize..4), 1..6))),
                1..30,
            ),
        ) {
            let mut ownership = OwnershipIndex::default();
            let mut jobs = BTreeMap::new();
            for (job, owners) in steps {
                let job = JobId::new(format!("j{job}")).unwrap();
                ownership.may_have_changed(&job);
                match owners {
                    Some(owners) => jobs.insert(job.clone(), view(&job, &owners)),
                    None => jobs.remove(&job),
                };
                for worker in (0..4).map(name) {
                    let searched: Vec<OwnedShard> = jobs
                        .iter()
                        .flat_map(|(job, view)| owners_of(view).map(move |(at, owner)| (job, at, owner)))
                        .filter(|(_, _, owner)| **owner == worker)
                        .map(|(job, at, _)| (job.clone(), at))
                        .collect();
                    prop_assert_eq!(ownership.shards_of(&jobs, &worker), searched);
                }
            }
        }
    }
}
