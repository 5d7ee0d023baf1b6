//! Who should own what now, against who does.

use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use proto::{CoordinateRange, Incarnation, JobId, WorkerId};
use tokio::time::Instant;

use super::candidates::{Candidate, Suitable, position};
use super::handover::{PendingShard, needed_from};
use super::stragglers::Measure;
use super::{Cluster, JobView, Preparation, ShardView, Standby};
use crate::placement::{self, Rules, Shard, Worker};

/// A row may take so many times as long as its worker's rows usually do.
const PATIENCE: u32 = 4;

type Process = (WorkerId, Incarnation);

/// New owners for shards of one job, and the processes that get the leases.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnerChanges {
    pub job: JobId,
    pub owners: Vec<(u32, Option<Process>)>,
}

impl OwnerChanges {
    pub fn for_ledger(&self) -> Vec<(u32, Option<WorkerId>)> {
        let without_process = |(shard, owner): &(u32, Option<Process>)| {
            (*shard, owner.as_ref().map(|(worker, _)| worker.clone()))
        };
        self.owners.iter().map(without_process).collect()
    }
}

/// A job's shards replaced by others: their ranges in order, and who gets each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LayoutChange {
    pub job: JobId,
    pub ranges: Vec<CoordinateRange>,
    pub owners: Vec<(u32, Option<Process>)>,
}

/// What placement wants.
#[derive(Clone, Debug, Default)]
pub struct DesiredState {
    /// At once: nothing is served that would break off, or its successor is ready.
    pub changes: Vec<OwnerChanges>,
    /// First: what is served now goes on until they are ready.
    pub preparations: Vec<Preparation>,
    /// Shards that no worker may take or has memory for: job, shard, whether it is of a layout to come.
    pub unplaced: BTreeSet<(JobId, u32, bool)>,
}

/// A shard of the present layout, or of the one to come.
#[derive(Clone, Copy)]
enum Place<'a> {
    Present(&'a JobView, &'a ShardView),
    PendingLayout(&'a JobView, &'a PendingShard),
}

impl<'a> Place<'a> {
    fn view(self) -> &'a JobView {
        match self {
            Self::Present(view, _) | Self::PendingLayout(view, _) => view,
        }
    }

    fn range(self) -> CoordinateRange {
        match self {
            Self::Present(_, shard) => shard.record.range,
            Self::PendingLayout(_, shard) => shard.range,
        }
    }

    fn standby(self) -> Option<&'a Standby> {
        match self {
            Self::Present(_, shard) => shard.standby.as_ref(),
            Self::PendingLayout(_, shard) => shard.standby.as_ref(),
        }
    }
}

impl Cluster {
    /// What brings owners to what they should be. Nothing where all is well.
    pub fn desired_state(&self, now: Instant) -> DesiredState {
        let candidates = self.candidates(now);
        let mut places = Vec::new();
        for view in self.jobs().filter(|view| view.is_served()) {
            places.extend(view.shards.iter().map(|shard| Place::Present(view, shard)));
            let coming = view.coming.iter().flat_map(|coming| &coming.shards);
            places.extend(coming.map(|shard| Place::PendingLayout(view, shard)));
        }
        let wanted = places.iter().map(|place| (place.view(), place.range()));
        let suitable = Suitable::new(self, now, &candidates, wanted);
        let shard = |(at, place): (usize, &Place<'_>)| {
            let shard = self.to_place(now, *place, &candidates);
            Shard { has_taker: shard.holder.is_some() || suitable.has_taker(at), ..shard }
        };
        let shards: Vec<Shard> = places.iter().enumerate().map(shard).collect();
        let rules = Rules {
            may_take: |at: usize, worker: usize| suitable.may_take(at, worker),
            is_far: |at: usize, worker: usize| suitable.is_far(at, worker),
        };
        let workers: Vec<Worker> = candidates.iter().map(|candidate| candidate.as_placed).collect();
        let owners = placement::assign(&workers, &shards, &rules);
        let mut intended = DesiredState::default();
        for (place, owner) in places.into_iter().zip(owners) {
            intended.add(self, now, place, owner.map(|owner| &candidates[owner]));
        }
        intended
    }

    /// Looks at how fast workers are, and whether they make rows at all. `lasting`: zero for never.
    pub fn measure(&mut self, now: Instant, lasting: Duration) {
        if lasting.is_zero() {
            return;
        }
        let mut longest: HashMap<&WorkerId, Duration> = HashMap::new();
        for shard in self.jobs.values().filter(|view| view.is_served()).flat_map(|view| &view.shards) {
            let (Some(owner), Some(report)) = (&shard.record.owner, &shard.last_report) else { continue };
            // A row of a large shard may take its time.
            let stalled = report.stalled.saturating_sub(report.row_time.saturating_mul(PATIENCE));
            let longest = longest.entry(owner).or_default();
            *longest = stalled.max(*longest);
        }
        let measure = |(worker, member): (&WorkerId, &super::Member)| {
            let stalled = longest.get(worker).copied().unwrap_or_default();
            (worker.clone(), Measure { process: member.incarnation, rate: member.rate, stalled })
        };
        let measures = self.members.all_live(now).map(measure).collect();
        self.speeds.observe(now, lasting, &measures);
    }

    fn to_place(&self, now: Instant, place: Place<'_>, candidates: &[Candidate]) -> Shard {
        let view = place.view();
        let bytes = view.shard_bytes(place.range());
        let memory = view.shard_memory(place.range());
        // A move under way is reckoned as done.
        let standby = place.standby().and_then(|standby| {
            let is_it = |at: &usize| candidates[*at].process == Some(standby.process);
            let at = position(candidates, &standby.worker).filter(is_it);
            at.filter(|&at| self.may_take(now, &view.record.job, &candidates[at]))
        });
        let Place::Present(_, shard) = place else {
            return Shard { bytes, memory, holder: standby, is_pinned: false, has_taker: true };
        };
        let owner = shard.record.owner.as_ref();
        let holder = owner.and_then(|owner| position(candidates, owner));
        let process = holder.and_then(|at| candidates[at].process);
        if view.coming.is_some() && shard.is_ready && process.is_some() {
            // It goes when the new layout is ready, and till then it stays and counts for nothing but its memory.
            return Shard { bytes: 0, memory, holder, is_pinned: true, has_taker: true };
        }
        let wants_away = holder.is_some_and(|at| process.is_some() && !candidates[at].takes_shards);
        // What a worker serves well it keeps, also where another shard of the job failed on it.
        let is_barred = process.is_some_and(|process| {
            !shard.is_ready
                && owner
                    .is_some_and(|owner| self.cooldowns.is_active(now, &view.record.job, owner, process))
        });
        Shard {
            bytes,
            memory,
            holder: standby.or(holder.filter(|_| !is_barred && !wants_away)),
            is_pinned: holder.is_some() && process.is_none(),
            has_taker: true,
        }
    }

    /// Whether the owner serves the shard now: a change would break that off.
    pub(super) fn is_served(&self, now: Instant, shard: &ShardView) -> bool {
        let owner = shard.record.owner.as_ref().and_then(|owner| self.members.live(owner, now));
        shard.is_ready && owner.is_some_and(|member| shard.holder == Some(member.incarnation))
    }

    /// Whether its owner is to write its piece of a checkpoint first. One that is about to end does not wait for that: a
    /// checkpoint that fails costs time, and rows that have no owner cost more.
    fn is_held_back(&self, view: &JobView, shard: &ShardView) -> bool {
        let owner = shard.record.owner.as_ref().and_then(|owner| self.members.member(owner));
        view.unwritten_pieces.contains(&shard.record.shard) && !owner.is_some_and(|member| member.is_leaving)
    }

    /// `None`: leave it. An owner that is gone keeps its name on the shard until another can take it: should it come
    /// back with its state before that, it goes on.
    fn owner_change(
        &self,
        now: Instant,
        view: &JobView,
        shard: &ShardView,
        intended: Option<&Candidate>,
    ) -> Option<Option<Process>> {
        let owner = shard.record.owner.as_ref();
        match intended.map(|candidate| (&candidate.worker, candidate.process)) {
            Some((_, None)) => None,
            Some((worker, Some(process))) => {
                let is_new_owner = owner != Some(worker);
                let has_reported = self.members.live(worker, now).is_some_and(|member| member.has_reported);
                let is_new_process = match shard.holder {
                    Some(holder) => holder != process,
                    // It may still hold the lease from before this coordinator: its first heartbeat says so.
                    None => has_reported,
                };
                (is_new_owner || is_new_process).then(|| Some((worker.clone(), process)))
            }
            None => {
                let owner = owner?;
                let member = self.members.live(owner, now)?;
                let is_active =
                    self.cooldowns.is_active(now, &view.record.job, owner, member.incarnation);
                (is_active && !shard.is_ready).then_some(None)
            }
        }
    }

    /// Layouts that are ready to take the place of the present ones; or that may as well, since nothing is served.
    pub fn ready_layouts(&self, now: Instant) -> Vec<LayoutChange> {
        let ready = |view: &JobView| {
            let coming = view.coming.as_ref()?;
            let is_lost = !view.shards.iter().any(|shard| self.is_served(now, shard));
            let is_ready = coming.shards.iter().all(|it| {
                it.standby.as_ref().is_some_and(|standby| self.is_caught_up(now, view, it.range, standby))
            });
            let process = |it: &PendingShard| {
                let standby = it.standby.as_ref()?;
                let member = self.members.live(&standby.worker, now)?;
                (member.incarnation == standby.process).then(|| (standby.worker.clone(), standby.process))
            };
            (is_lost || (is_ready && view.unwritten_pieces.is_empty())).then(|| LayoutChange {
                job: view.record.job.clone(),
                ranges: coming.shards.iter().map(|it| it.range).collect(),
                owners: coming.shards.iter().map(|it| (it.shard, process(it))).collect(),
            })
        };
        self.jobs().filter(|view| view.is_served()).filter_map(ready).collect()
    }

    /// Whether a standby lives and has made what its job will ask for next.
    fn is_caught_up(&self, now: Instant, view: &JobView, range: CoordinateRange, standby: &Standby) -> bool {
        let member = self.members.live(&standby.worker, now);
        let is_alive = member.is_some_and(|member| member.incarnation == standby.process);
        let needed = needed_from(view, range).min(view.record.iterations);
        is_alive && standby.is_ready && standby.next_row >= needed
    }
}

impl DesiredState {
    fn add(&mut self, cluster: &Cluster, now: Instant, place: Place<'_>, candidate: Option<&Candidate>) {
        let job = &place.view().record.job;
        let process = candidate.and_then(|it| it.process.map(|process| (it.worker.clone(), process)));
        let (view, shard) = match place {
            Place::Present(view, shard) => (view, shard),
            Place::PendingLayout(_, shard) => {
                if process.is_none() {
                    self.unplaced.insert((job.clone(), shard.shard, true));
                }
                return self.prepare(job, shard.shard, true, process);
            }
        };
        let number = shard.record.shard;
        if candidate.is_none() && !cluster.is_served(now, shard) {
            self.unplaced.insert((job.clone(), number, false));
        }
        let Some(change) = cluster.owner_change(now, view, shard, candidate) else {
            if shard.standby.is_some() {
                self.prepare(job, number, false, None);
            }
            return;
        };
        let is_handed_over = shard.standby.as_ref().is_some_and(|standby| {
            let is_it = change.as_ref().is_some_and(|(worker, _)| *worker == standby.worker);
            is_it && cluster.is_caught_up(now, view, shard.record.range, standby)
        });
        match cluster.is_served(now, shard) {
            true if !is_handed_over || cluster.is_held_back(view, shard) => {
                self.prepare(job, number, false, change);
            }
            _ => self.change(job, number, change),
        }
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
