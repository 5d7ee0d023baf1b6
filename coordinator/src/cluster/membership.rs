//! Membership: a worker lives while its last heartbeat is younger than the lease's time to live.
//!
//! Callers pass the time in, so that tests choose it.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use proto::model::{LocalAccess, WorkerPlace};
use proto::{Incarnation, JobId, LONGEST_WORKER_BACKOFF, Result, ServiceError, WorkerId};
use tokio::time::Instant;

use super::absences::{AbsenceCause, Absences};

/// A registered worker.
#[derive(Clone, Debug)]
pub struct Member {
    pub endpoint: String,
    pub local: Option<LocalAccess>,
    pub incarnation: Incarnation,
    pub last_heartbeat: Instant,
    /// Whether it has reported which leases it holds.
    pub has_reported: bool,
    /// Whether this process registered before and then reported no leases until its lease ended.
    pub is_unreported: bool,
    pub place: WorkerPlace,
    /// Whether an operator wants its shards elsewhere.
    pub is_draining: bool,
    /// Whether it is about to end and wants its shards elsewhere.
    pub is_leaving: bool,
    /// Bytes of state and rows that it goes through per second; 0 if unknown.
    pub rate: f64,
    /// What its proofs of keys are signatures over: drawn for this registration.
    pub challenge: [u8; 32],
    /// The jobs whose keys it has proved to have since it registered.
    pub proved: BTreeSet<JobId>,
}

impl Member {
    /// Returns whether it may get shards that it does not have.
    pub fn takes_shards(&self) -> bool {
        !self.is_draining && !self.is_leaving && !self.is_unreported
    }
}

/// All registered workers, and the owners from before this coordinator started.
#[derive(Debug)]
pub struct Membership {
    ttl: Duration,
    members: BTreeMap<WorkerId, Member>,
    /// Owners from before this coordinator started, and how long their shards wait for them.
    awaited: BTreeMap<WorkerId, Instant>,
    /// Processes that registered and never reported their leases: nothing is placed on them until they do.
    unreported: BTreeMap<WorkerId, Incarnation>,
    /// The end of the grace period after a start, in which any worker may report what it released under the coordinator
    /// before: an old copy of a ledger does not name them all. `None` if there was no coordinator before.
    grace_until: Option<Instant>,
    absences: Absences,
}

impl Membership {
    /// Creates an empty membership for leases of this time to live.
    pub fn new(ttl: Duration) -> Self {
        Self {
            ttl,
            members: BTreeMap::new(),
            awaited: BTreeMap::new(),
            unreported: BTreeMap::new(),
            grace_until: None,
            absences: Absences::default(),
        }
    }

    /// Begins the grace period. Live workers from before this coordinator started find it within the time of a lease
    /// plus the longest delay between two of their attempts.
    pub fn begin_grace_period(&mut self, now: Instant) {
        self.grace_until = Some(now + self.ttl + self.ttl.min(LONGEST_WORKER_BACKOFF));
    }

    /// Returns the end of the grace period, if there is one.
    pub fn grace_until(&self) -> Option<Instant> {
        self.grace_until
    }

    /// Waits for an owner from before this coordinator started, for the time of a lease.
    pub fn await_owner(&mut self, worker: WorkerId, now: Instant) {
        self.awaited.insert(worker, now + self.ttl);
    }

    /// Registers a process under a worker's name. Another process takes the name over only when the lease of the one
    /// before has ended; until then this fails. Returns false if the process is a member already: re-registering
    /// without reporting leases does not renew the lease.
    pub fn register(
        &mut self,
        now: Instant,
        worker: &WorkerId,
        endpoint: String,
        local: Option<LocalAccess>,
        incarnation: Incarnation,
        challenge: [u8; 32],
    ) -> Result<bool> {
        if let Some(member) = self.members.get(worker)
            && member.incarnation != incarnation
            && self.is_fresh(member, now)
        {
            let left = self.ttl.saturating_sub(now.duration_since(member.last_heartbeat));
            return Err(ServiceError::Unavailable {
                what: format!(
                    "the name {worker} (in use by another process, whose lease ends in {left:.1?})"
                ),
            });
        }
        self.awaited.remove(worker);
        let place = WorkerPlace::default();
        let rate = 0.0;
        if let Some(member) = self.members.get(worker).filter(|member| member.incarnation == incarnation) {
            if self.is_fresh(member, now) {
                let renewed = Member {
                    endpoint,
                    local,
                    place,
                    rate,
                    is_leaving: false,
                    challenge,
                    proved: BTreeSet::new(),
                    ..member.clone()
                };
                self.members.insert(worker.clone(), renewed);
                return Ok(false);
            }
            self.note_if_unreported(worker.clone());
        }
        let member = Member {
            endpoint,
            local,
            incarnation,
            last_heartbeat: now,
            has_reported: false,
            place,
            is_draining: false,
            is_leaving: false,
            is_unreported: self.unreported.get(worker) == Some(&incarnation),
            rate,
            challenge,
            proved: BTreeSet::new(),
        };
        self.members.insert(worker.clone(), member);
        self.absences.end(worker);
        Ok(true)
    }

    /// Notes that a worker asked to be let in, and why it was not.
    pub fn note_refused(&mut self, worker: &WorkerId, cause: AbsenceCause, now: Instant) {
        if self.live(worker, now).is_none() {
            self.absences.note(worker.clone(), cause, now);
        }
    }

    /// Returns the workers that are not here, and why.
    pub fn absences(&self) -> &Absences {
        &self.absences
    }

    /// Notes a worker whose lease has ended without its ever reporting its leases.
    fn note_if_unreported(&mut self, worker: WorkerId) {
        if let Some(member) = self.members.get(&worker).filter(|member| !member.has_reported) {
            self.unreported.insert(worker, member.incarnation);
        }
    }

    /// Returns a member, whether or not its lease has ended.
    pub fn member(&self, worker: &WorkerId) -> Option<&Member> {
        self.members.get(worker)
    }

    /// Returns a member to be changed, whether or not its lease has ended.
    pub fn member_mut(&mut self, worker: &WorkerId) -> Option<&mut Member> {
        self.members.get_mut(worker)
    }

    /// Records a heartbeat, which renews the lease. Fails if the process must register again.
    pub fn record_heartbeat(
        &mut self,
        now: Instant,
        worker: &WorkerId,
        incarnation: Incarnation,
    ) -> Result<()> {
        let refuse =
            |reason: &str| ServiceError::MustRegister { worker: worker.to_string(), reason: reason.into() };
        let ttl = self.ttl;
        let member =
            self.members.get_mut(worker).ok_or_else(|| refuse("this coordinator doesn't know it"))?;
        if member.incarnation != incarnation {
            return Err(refuse("another process has registered under its name"));
        }
        if now.duration_since(member.last_heartbeat) >= ttl {
            return Err(refuse("its lease has ended"));
        }
        member.last_heartbeat = now;
        member.has_reported = true;
        member.is_unreported = false;
        self.unreported.remove(worker);
        Ok(())
    }

    /// Removes a worker that leaves. Returns false if its name belongs to another process by now.
    pub fn deregister(&mut self, worker: &WorkerId, incarnation: Incarnation) -> bool {
        let own = self.members.get(worker).filter(|member| member.incarnation == incarnation);
        let last_heartbeat = own.map(|member| member.last_heartbeat);
        if let Some(last_heartbeat) = last_heartbeat {
            self.absences.note(worker.clone(), AbsenceCause::Left, last_heartbeat);
            self.members.remove(worker);
            self.unreported.remove(worker);
        }
        last_heartbeat.is_some()
    }

    /// Removes and returns the workers whose lease has ended, and stops waiting for owners that have not come back in
    /// time.
    pub fn expire(&mut self, now: Instant) -> Vec<WorkerId> {
        let ttl = self.ttl;
        let ended = |member: &Member| now.duration_since(member.last_heartbeat) >= ttl;
        let mut gone = Vec::new();
        for (worker, member) in self.members.iter().filter(|(_, member)| ended(member)) {
            self.absences.note(worker.clone(), AbsenceCause::LeaseEnded, member.last_heartbeat);
            gone.push(worker.clone());
        }
        gone.iter().for_each(|worker| self.note_if_unreported(worker.clone()));
        self.members.retain(|_, member| !ended(member));
        self.awaited.retain(|_, until| now < *until);
        gone
    }

    /// Extends every lease and wait by `gap`, for which this process itself was not running.
    pub fn extend_leases(&mut self, gap: Duration) {
        self.members.values_mut().for_each(|member| member.last_heartbeat += gap);
        self.awaited.values_mut().chain(&mut self.grace_until).for_each(|until| *until += gap);
    }

    /// Returns a member whose lease has not ended.
    pub fn live(&self, worker: &WorkerId, now: Instant) -> Option<&Member> {
        self.members.get(worker).filter(|member| self.is_fresh(member, now))
    }

    /// Returns all members whose lease has not ended, by name.
    pub fn all_live(&self, now: Instant) -> impl Iterator<Item = (&WorkerId, &Member)> {
        self.members.iter().filter(move |(_, member)| self.is_fresh(member, now))
    }

    /// Returns the owners that are waited for.
    pub fn awaited(&self) -> impl Iterator<Item = &WorkerId> {
        self.awaited.keys()
    }

    /// Returns how long an owner is waited for.
    pub fn awaited_until(&self, worker: &WorkerId) -> Option<Instant> {
        self.awaited.get(worker).copied()
    }

    fn is_fresh(&self, member: &Member, now: Instant) -> bool {
        now.duration_since(member.last_heartbeat) < self.ttl
    }
}

#[cfg(test)]
mod tests;
