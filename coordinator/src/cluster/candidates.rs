//! The workers that shards may be placed on, and which of them may take which shard.

use std::cell::OnceCell;
use std::collections::HashMap;
use std::ops::Deref;

use proto::model::WorkerPlace;
use proto::{CoordinateRange, Incarnation, JobId, WorkerId};
use tokio::time::Instant;

use super::{Cluster, JobView};
use crate::placement::Worker;

/// A worker that shards may be placed on.
pub struct Candidate<'a> {
    pub worker: &'a WorkerId,
    /// `None` for an owner that has not come back yet.
    pub process: Option<Incarnation>,
    pub takes_shards: bool,
    /// The worker's speed and memory, as placement counts them.
    pub as_placed: Worker,
    /// `None` for an owner that has not come back yet.
    place: Option<&'a WorkerPlace>,
}

impl Candidate<'_> {
    fn is_at(&self, near: &str) -> bool {
        let is_at_place =
            |place: &WorkerPlace| place.host == near || place.labels.iter().any(|label| label == near);
        self.worker.as_str() == near || self.place.is_some_and(is_at_place)
    }
}

/// The candidates, and where each is among them.
pub struct Candidates<'a> {
    list: Vec<Candidate<'a>>,
    /// By name: every pass looks each shard's worker up.
    positions: HashMap<&'a WorkerId, usize>,
}

impl<'a> Candidates<'a> {
    /// Orders them by name, so that placement does not depend on the order of registration.
    fn new(mut list: Vec<Candidate<'a>>) -> Self {
        list.sort_by(|a, b| a.worker.cmp(b.worker));
        let positions = list.iter().enumerate().map(|(at, candidate)| (candidate.worker, at)).collect();
        Self { list, positions }
    }

    /// Returns the index of a worker among the candidates.
    pub fn position(&self, worker: &WorkerId) -> Option<usize> {
        self.positions.get(worker).copied()
    }
}

impl<'a> Deref for Candidates<'a> {
    type Target = [Candidate<'a>];

    fn deref(&self) -> &Self::Target {
        &self.list
    }
}

impl Cluster {
    /// Returns the candidates.
    pub fn candidates(&self, now: Instant) -> Candidates<'_> {
        let live = self.members.all_live(now).map(|(worker, member)| {
            let pace = self.stragglers.pace(worker, now);
            Candidate {
                worker,
                process: Some(member.incarnation),
                takes_shards: member.takes_shards() && !pace.is_avoided,
                as_placed: Worker { speed: pace.speed, memory: member.place.memory_bytes },
                place: Some(&member.place),
            }
        });
        let awaited = self.members.awaited().map(|worker| Candidate {
            worker,
            process: None,
            takes_shards: false,
            as_placed: Worker::default(),
            place: None,
        });
        Candidates::new(live.chain(awaited).collect())
    }

    /// Returns whether the candidate may get a shard of the job.
    pub fn may_take(&self, now: Instant, job: &JobId, candidate: &Candidate<'_>) -> bool {
        let Some(process) = candidate.process else { return false };
        candidate.takes_shards && !self.cooldowns.is_active(now, job, candidate.worker, process)
    }
}

/// The workers that may take each shard, and those that are far from its users.
///
/// Placement looks at every pair of shard and worker. The answers are the same for all shards of a job, and for all
/// shards with the same hint, so that each is computed once a pass, and only if it is needed.
pub struct Suitability<'a> {
    cluster: &'a Cluster,
    now: Instant,
    candidates: &'a [Candidate<'a>],
    jobs: Vec<(&'a JobId, OnceCell<Vec<bool>>)>,
    /// For each hint, whether each candidate is near; `None` if none is, so that no place is better than another.
    hints: Vec<Option<Vec<bool>>>,
    /// For each shard, its index in `jobs` and in `hints`.
    shards: Vec<(usize, Option<usize>)>,
}

impl<'a> Suitability<'a> {
    /// Prepares the answers for these shards. Shards of one job must be adjacent.
    pub fn new(
        cluster: &'a Cluster,
        now: Instant,
        candidates: &'a [Candidate<'a>],
        shards: impl Iterator<Item = (&'a JobView, CoordinateRange)>,
    ) -> Self {
        let jobs = Vec::new();
        let hints = Vec::new();
        let mut suitability = Self { cluster, now, candidates, jobs, hints, shards: Vec::new() };
        let mut known = HashMap::new();
        for (view, range) in shards {
            if suitability.jobs.last().is_none_or(|(job, _)| **job != view.record.job) {
                suitability.jobs.push((&view.record.job, OnceCell::new()));
            }
            let hint = view.hint_for(range);
            let hint = hint.map(|near| *known.entry(near).or_insert_with(|| suitability.add_hint(near)));
            suitability.shards.push((suitability.jobs.len() - 1, hint));
        }
        suitability
    }

    fn add_hint(&mut self, near: &str) -> usize {
        let is_near: Vec<bool> = self.candidates.iter().map(|candidate| candidate.is_at(near)).collect();
        self.hints.push(is_near.contains(&true).then_some(is_near));
        self.hints.len() - 1
    }

    fn takers(&self, shard: usize) -> &[bool] {
        let (job, takers) = &self.jobs[self.shards[shard].0];
        let may_take = |candidate| self.cluster.may_take(self.now, job, candidate);
        takers.get_or_init(|| self.candidates.iter().map(may_take).collect())
    }

    /// Returns whether the worker may take the shard.
    pub fn may_take(&self, shard: usize, worker: usize) -> bool {
        self.takers(shard)[worker]
    }

    /// Returns whether any worker may take the shard, whatever its memory.
    pub fn has_taker(&self, shard: usize) -> bool {
        self.takers(shard).contains(&true)
    }

    /// Returns whether the worker is far from the shard's users.
    pub fn is_far(&self, shard: usize, worker: usize) -> bool {
        let is_near = self.shards[shard].1.and_then(|hint| self.hints[hint].as_ref());
        is_near.is_some_and(|is_near| !is_near[worker])
    }
}
