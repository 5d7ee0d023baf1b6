//! The workers that shards may be placed on, and which of them suit which shard.

use std::cell::OnceCell;
use std::collections::HashMap;

use proto::model::WorkerPlace;
use proto::{CoordinateRange, Incarnation, JobId, WorkerId};
use tokio::time::Instant;

use super::{Cluster, JobView};
use crate::placement::Worker;

/// A worker that shards may be placed on.
pub struct Candidate {
    pub worker: WorkerId,
    /// `None` for one that is only waited for.
    pub process: Option<Incarnation>,
    pub takes_shards: bool,
    pub as_placed: Worker,
    place: WorkerPlace,
}

impl Candidate {
    fn is_at(&self, near: &str) -> bool {
        let place = &self.place;
        self.worker.as_str() == near || place.host == near || place.labels.iter().any(|label| label == near)
    }
}

/// Candidates are in order of names.
pub fn position(candidates: &[Candidate], worker: &WorkerId) -> Option<usize> {
    candidates.binary_search_by(|candidate| candidate.worker.cmp(worker)).ok()
}

impl Cluster {
    /// In order of names, so that the outcome does not hang on who came first.
    pub fn candidates(&self, now: Instant) -> Vec<Candidate> {
        let live = self.members.all_live(now).map(|(worker, member)| Candidate {
            worker: worker.clone(),
            process: Some(member.incarnation),
            takes_shards: member.takes_shards() && !self.speeds.is_avoided(worker, now),
            as_placed: Worker { speed: self.speeds.speed(worker), memory: member.place.memory_bytes },
            place: member.place.clone(),
        });
        let awaited = self.members.awaited().map(|worker| Candidate {
            worker: worker.clone(),
            process: None,
            takes_shards: false,
            as_placed: Worker::default(),
            place: WorkerPlace::default(),
        });
        let mut candidates: Vec<Candidate> = live.chain(awaited).collect();
        candidates.sort_by(|a, b| a.worker.cmp(&b.worker));
        candidates
    }

    pub fn may_take(&self, now: Instant, job: &JobId, candidate: &Candidate) -> bool {
        let Some(process) = candidate.process else { return false };
        candidate.takes_shards && !self.cooldowns.is_active(now, job, &candidate.worker, process)
    }
}

/// Placement asks of every pair of shard and worker; the answers are the same for all shards of a job, and for all that
/// are wished near the same. Each is found once a pass, and only where it is asked for.
pub struct Suitable<'a> {
    cluster: &'a Cluster,
    now: Instant,
    candidates: &'a [Candidate],
    jobs: Vec<(&'a JobId, OnceCell<Vec<bool>>)>,
    /// `None`: nobody is there, and no place is better than another.
    wishes: Vec<Option<Vec<bool>>>,
    /// The job of each shard, and its wish.
    of: Vec<(usize, Option<usize>)>,
}

impl<'a> Suitable<'a> {
    /// Shards of one job come together.
    pub fn new(
        cluster: &'a Cluster,
        now: Instant,
        candidates: &'a [Candidate],
        shards: impl Iterator<Item = (&'a JobView, CoordinateRange)>,
    ) -> Self {
        let jobs = Vec::new();
        let wishes = Vec::new();
        let of = Vec::new();
        let mut suitable = Self { cluster, now, candidates, jobs, wishes, of };
        let mut known = HashMap::new();
        for (view, range) in shards {
            if suitable.jobs.last().is_none_or(|(job, _)| **job != view.record.job) {
                suitable.jobs.push((&view.record.job, OnceCell::new()));
            }
            let wish = view.wished_near(range);
            let wish = wish.map(|near| *known.entry(near).or_insert_with(|| suitable.look_for(near)));
            suitable.of.push((suitable.jobs.len() - 1, wish));
        }
        suitable
    }

    fn look_for(&mut self, near: &str) -> usize {
        let there: Vec<bool> = self.candidates.iter().map(|candidate| candidate.is_at(near)).collect();
        self.wishes.push(there.contains(&true).then_some(there));
        self.wishes.len() - 1
    }

    fn takers(&self, shard: usize) -> &[bool] {
        let (job, takers) = &self.jobs[self.of[shard].0];
        let may_take = |candidate| self.cluster.may_take(self.now, job, candidate);
        takers.get_or_init(|| self.candidates.iter().map(may_take).collect())
    }

    pub fn may_take(&self, shard: usize, worker: usize) -> bool {
        self.takers(shard)[worker]
    }

    /// Whether anybody may, whatever its memory.
    pub fn has_taker(&self, shard: usize) -> bool {
        self.takers(shard).contains(&true)
    }

    pub fn is_far(&self, shard: usize, worker: usize) -> bool {
        let there = self.of[shard].1.and_then(|wish| self.wishes[wish].as_ref());
        there.is_some_and(|there| !there[worker])
    }
}
