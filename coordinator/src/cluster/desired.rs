//! The desired state: who should own which shard, compared with who does.

use std::collections::BTreeSet;

use proto::{CoordinateRange, Incarnation, JobId, WorkerId};
use tokio::time::Instant;

use super::candidates::{Candidate, Candidates, Suitability};
use super::handover::needed_from;
use super::layout::{PendingShard, Preparation, Standby, Unschedulable};
use super::{Cluster, JobView, ShardView};
use crate::placement::{self, Rules, Shard, Worker};

type Process = (WorkerId, Incarnation);

/// New owners for shards of one job, and the processes that get the leases.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnerChanges {
    pub job: JobId,
    pub owners: Vec<(u32, Option<Process>)>,
}

impl OwnerChanges {
    /// Returns the changes as the ledger records them, without processes.
    pub fn for_ledger(&self) -> Vec<(u32, Option<WorkerId>)> {
        let without_process = |(shard, owner): &(u32, Option<Process>)| {
            (*shard, owner.as_ref().map(|(worker, _)| worker.clone()))
        };
        self.owners.iter().map(without_process).collect()
    }
}

/// New shards for one job: their ranges in order, and the process that gets each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LayoutChange {
    pub job: JobId,
    pub ranges: Vec<CoordinateRange>,
    pub owners: Vec<(u32, Option<Process>)>,
}

/// The changes that placement wants.
#[derive(Clone, Debug, Default)]
pub struct DesiredState {
    /// Changes to make now: they interrupt nothing that is served, or the successor is ready.
    pub changes: Vec<OwnerChanges>,
    /// Preparations to make first, while the present owners serve.
    pub preparations: Vec<Preparation>,
    /// Shards that no worker may take or has memory for.
    pub unschedulable: BTreeSet<Unschedulable>,
}

/// The desired change of a shard's owner.
#[derive(Clone, Debug, PartialEq, Eq)]
enum OwnerChange {
    /// The owner stays. One that is gone keeps the shard until another worker can take it, so that it continues should
    /// it come back with its state before that.
    Keep,
    /// The shard goes to this process, or to none.
    Assign(Option<Process>),
}

/// A shard of the present layout, or of the pending one.
#[derive(Clone, Copy)]
enum LayoutShard<'a> {
    Present(&'a JobView, &'a ShardView),
    Pending(&'a JobView, &'a PendingShard),
}

impl<'a> LayoutShard<'a> {
    fn view(self) -> &'a JobView {
        match self {
            Self::Present(view, _) | Self::Pending(view, _) => view,
        }
    }

    fn range(self) -> CoordinateRange {
        match self {
            Self::Present(_, shard) => shard.record.range,
            Self::Pending(_, shard) => shard.range,
        }
    }

    fn standby(self) -> Option<&'a Standby> {
        match self {
            Self::Present(_, shard) => shard.standby.as_ref(),
            Self::Pending(_, shard) => shard.standby.as_ref(),
        }
    }
}

impl Cluster {
    /// Returns the changes that bring owners to what they should be; none if all is well.
    pub fn desired_state(&self, now: Instant) -> DesiredState {
        let candidates = self.candidates(now);
        let mut layout_shards = Vec::new();
        for view in self.jobs().filter(|view| view.is_served()) {
            layout_shards.extend(view.shards.iter().map(|shard| LayoutShard::Present(view, shard)));
            let pending = view.pending.iter().flat_map(|pending| &pending.shards);
            layout_shards.extend(pending.map(|shard| LayoutShard::Pending(view, shard)));
        }
        let ranges = layout_shards.iter().map(|shard| (shard.view(), shard.range()));
        let suitability = Suitability::new(self, now, &candidates, ranges);
        let shard = |(at, shard): (usize, &LayoutShard<'_>)| {
            let shard = self.placement_input(now, *shard, &candidates);
            Shard { has_taker: shard.holder.is_some() || suitability.has_taker(at), ..shard }
        };
        let shards: Vec<Shard> = layout_shards.iter().enumerate().map(shard).collect();
        let rules = Rules {
            may_take: |at: usize, worker: usize| suitability.may_take(at, worker),
            is_far: |at: usize, worker: usize| suitability.is_far(at, worker),
        };
        let workers: Vec<Worker> = candidates.iter().map(|candidate| candidate.as_placed).collect();
        let owners = placement::assign(&workers, &shards, &rules);
        let mut desired = DesiredState::default();
        for (shard, owner) in layout_shards.into_iter().zip(owners) {
            desired.add(self, now, shard, owner.map(|owner| &candidates[owner]));
        }
        desired
    }

    fn placement_input(&self, now: Instant, shard: LayoutShard<'_>, candidates: &Candidates<'_>) -> Shard {
        let view = shard.view();
        let bytes = view.shard_bytes(shard.range());
        let memory = view.shard_memory(shard.range());
        // A move under way counts as done.
        let standby = shard.standby().and_then(|standby| {
            let is_it = |at: &usize| candidates[*at].process == Some(standby.process);
            let at = candidates.position(&standby.worker).filter(is_it);
            at.filter(|&at| self.may_take(now, &view.record.job, &candidates[at]))
        });
        let LayoutShard::Present(_, shard) = shard else {
            return Shard { bytes, memory, holder: standby, is_pinned: false, has_taker: true };
        };
        let owner = shard.record.owner.as_ref();
        let holder = owner.and_then(|owner| candidates.position(owner));
        let process = holder.and_then(|at| candidates[at].process);
        if view.pending.is_some() && shard.is_ready && process.is_some() {
            // It ends when the pending layout is ready. Until then it stays, and only its memory counts.
            return Shard { bytes: 0, memory, holder, is_pinned: true, has_taker: true };
        }
        let wants_away = holder.is_some_and(|at| process.is_some() && !candidates[at].takes_shards);
        // A worker keeps a shard that it serves, even if another shard of the job failed on it.
        let is_in_cooldown = process.is_some_and(|process| {
            !shard.is_ready
                && owner.is_some_and(|owner| self.cooldowns.is_active(now, &view.record.job, owner, process))
        });
        Shard {
            bytes,
            memory,
            holder: standby.or(holder.filter(|_| !is_in_cooldown && !wants_away)),
            is_pinned: holder.is_some() && process.is_none(),
            has_taker: true,
        }
    }

    /// Returns whether the owner serves the shard now, so that a change would interrupt it.
    pub(super) fn is_served(&self, now: Instant, shard: &ShardView) -> bool {
        let owner = shard.record.owner.as_ref().and_then(|owner| self.members.live(owner, now));
        shard.is_ready && owner.is_some_and(|member| shard.holder == Some(member.incarnation))
    }

    /// Returns whether the owner must write its piece of a checkpoint first. An owner that is about to end does not
    /// wait for that: a failed checkpoint costs time, and rows without an owner cost more.
    fn is_held_back(&self, view: &JobView, shard: &ShardView) -> bool {
        let owner = shard.record.owner.as_ref().and_then(|owner| self.members.member(owner));
        view.unwritten_pieces.contains(&shard.record.shard) && !owner.is_some_and(|member| member.is_leaving)
    }

    /// Returns what should happen to a shard's owner, given the worker that placement chose.
    fn owner_change(
        &self,
        now: Instant,
        view: &JobView,
        shard: &ShardView,
        chosen: Option<&Candidate<'_>>,
    ) -> OwnerChange {
        let owner = shard.record.owner.as_ref();
        let Some(candidate) = chosen else { return self.change_without_candidate(now, view, shard) };
        let Some(process) = candidate.process else { return OwnerChange::Keep };
        let worker = candidate.worker;
        let is_new_owner = owner != Some(worker);
        let is_new_process = match shard.holder {
            Some(holder) => holder != process,
            // It may still hold the lease from before this coordinator; its first heartbeat reports whether it does.
            None => self.members.live(worker, now).is_some_and(|member| member.has_reported),
        };
        if is_new_owner || is_new_process {
            return OwnerChange::Assign(Some((worker.clone(), process)));
        }
        OwnerChange::Keep
    }

    /// Takes a shard from an owner that can't make it ready; any other owner keeps it.
    fn change_without_candidate(&self, now: Instant, view: &JobView, shard: &ShardView) -> OwnerChange {
        let Some(owner) = shard.record.owner.as_ref() else { return OwnerChange::Keep };
        let Some(member) = self.members.live(owner, now) else { return OwnerChange::Keep };
        let is_in_cooldown = self.cooldowns.is_active(now, &view.record.job, owner, member.incarnation);
        if is_in_cooldown && !shard.is_ready { OwnerChange::Assign(None) } else { OwnerChange::Keep }
    }

    /// Returns the layouts that take the place of the present ones now: their shards are ready, or nothing is served
    /// anyway.
    pub fn ready_layouts(&self, now: Instant) -> Vec<LayoutChange> {
        let ready = |view: &JobView| {
            let pending = view.pending.as_ref()?;
            let is_lost = !view.shards.iter().any(|shard| self.is_served(now, shard));
            let is_ready = pending.shards.iter().all(|it| {
                it.standby.as_ref().is_some_and(|standby| self.is_caught_up(now, view, it.range, standby))
            });
            let process = |it: &PendingShard| {
                let standby = it.standby.as_ref()?;
                let member = self.members.live(&standby.worker, now)?;
                (member.incarnation == standby.process).then(|| (standby.worker.clone(), standby.process))
            };
            (is_lost || (is_ready && view.unwritten_pieces.is_empty())).then(|| LayoutChange {
                job: view.record.job.clone(),
                ranges: pending.shards.iter().map(|it| it.range).collect(),
                owners: pending.shards.iter().map(|it| (it.shard, process(it))).collect(),
            })
        };
        self.jobs().filter(|view| view.is_served()).filter_map(ready).collect()
    }

    /// Returns whether a standby lives and has reached the next row that its job may request.
    fn is_caught_up(&self, now: Instant, view: &JobView, range: CoordinateRange, standby: &Standby) -> bool {
        let member = self.members.live(&standby.worker, now);
        let is_alive = member.is_some_and(|member| member.incarnation == standby.process);
        let needed = needed_from(view, range).min(view.record.iterations);
        is_alive && standby.is_ready && standby.next_row >= needed
    }
}

impl DesiredState {
    fn add(
        &mut self,
        cluster: &Cluster,
        now: Instant,
        shard: LayoutShard<'_>,
        candidate: Option<&Candidate<'_>>,
    ) {
        let job = &shard.view().record.job;
        let (view, shard) = match shard {
            LayoutShard::Present(view, shard) => (view, shard),
            LayoutShard::Pending(_, shard) => {
                let process = candidate.and_then(|it| it.process.map(|process| (it.worker.clone(), process)));
                if process.is_none() {
                    self.add_unschedulable(job, shard.shard, true);
                }
                return self.prepare(job, shard.shard, true, process);
            }
        };
        let number = shard.record.shard;
        if candidate.is_none() && !cluster.is_served(now, shard) {
            self.add_unschedulable(job, number, false);
        }
        let OwnerChange::Assign(owner) = cluster.owner_change(now, view, shard, candidate) else {
            if shard.standby.is_some() {
                self.prepare(job, number, false, None);
            }
            return;
        };
        let is_handed_over = shard.standby.as_ref().is_some_and(|standby| {
            let is_it = owner.as_ref().is_some_and(|(worker, _)| *worker == standby.worker);
            is_it && cluster.is_caught_up(now, view, shard.record.range, standby)
        });
        let is_served = cluster.is_served(now, shard);
        if is_served && (!is_handed_over || cluster.is_held_back(view, shard)) {
            self.prepare(job, number, false, owner);
        } else {
            self.change(job, number, owner);
        }
    }

    fn add_unschedulable(&mut self, job: &JobId, shard: u32, is_pending: bool) {
        self.unschedulable.insert(Unschedulable { job: job.clone(), shard, is_pending });
    }

    fn prepare(&mut self, job: &JobId, shard: u32, is_pending: bool, by: Option<Process>) {
        self.preparations.push(Preparation { job: job.clone(), shard, is_pending, by });
    }

    fn change(&mut self, job: &JobId, shard: u32, owner: Option<Process>) {
        match self.changes.last_mut().filter(|last| last.job == *job) {
            Some(last) => last.owners.push((shard, owner)),
            None => self.changes.push(OwnerChanges { job: job.clone(), owners: vec![(shard, owner)] }),
        }
    }
}
