//! Who is here: a worker lives while its last heartbeat is younger than the lease's time to live.
//!
//! The clock is handed in, so that time in tests is a number.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use proto::model::{LocalAccess, WorkerPlace};
use proto::{Incarnation, LONGEST_WORKER_BACKOFF, Result, ServiceError, WorkerId};
use tokio::time::Instant;

#[derive(Clone, Debug)]
pub struct Member {
    pub endpoint: String,
    pub local: Option<LocalAccess>,
    pub incarnation: Incarnation,
    pub last_heartbeat: Instant,
    /// Whether it has said which leases it holds.
    pub has_reported: bool,
    /// It has registered before, and then not said so for the time of a lease.
    pub is_unreported: bool,
    pub place: WorkerPlace,
    /// An operator wants its shards elsewhere.
    pub is_draining: bool,
    /// It is about to end, and wants its shards elsewhere.
    pub is_leaving: bool,
    /// Bytes of state and rows that it goes through in a second; 0 for unknown.
    pub rate: f64,
}

impl Member {
    /// Whether it may get shards that it does not have.
    pub fn takes_shards(&self) -> bool {
        !self.is_draining && !self.is_leaving && !self.is_unreported
    }
}

#[derive(Debug)]
pub struct Membership {
    ttl: Duration,
    members: BTreeMap<WorkerId, Member>,
    /// Owners from before this coordinator started, and how long their shards wait for them.
    awaited: BTreeMap<WorkerId, Instant>,
    /// Processes that registered and never told what they hold: nothing is placed on them until they do.
    unreported: BTreeMap<WorkerId, Incarnation>,
    /// The end of the grace period after a start, in which any worker may have something to say of what it released under
    /// the coordinator before: an old copy of a ledger does not name them all. `None` where there were no jobs.
    grace_until: Option<Instant>,
    /// Workers whose last message did not hold all that they have to say of what they released.
    telling: BTreeSet<WorkerId>,
}

impl Membership {
    pub fn new(ttl: Duration) -> Self {
        Self {
            ttl,
            members: BTreeMap::new(),
            awaited: BTreeMap::new(),
            unreported: BTreeMap::new(),
            grace_until: None,
            telling: BTreeSet::new(),
        }
    }

    /// Workers of before this coordinator started that live find it within the time of a lease, and the longest delay of
    /// theirs between two attempts.
    pub fn begin_grace_period(&mut self, now: Instant) {
        self.grace_until = Some(now + self.ttl + self.ttl.min(LONGEST_WORKER_BACKOFF));
    }

    pub fn grace_until(&self) -> Option<Instant> {
        self.grace_until
    }

    pub fn set_reporting(&mut self, worker: &WorkerId, has_more: bool) {
        if has_more {
            self.telling.insert(worker.clone());
        } else {
            self.telling.remove(worker);
        }
    }

    /// Whether a worker that lives has more to say.
    pub fn is_any_reporting(&self, now: Instant) -> bool {
        self.telling.iter().any(|worker| self.live(worker, now).is_some())
    }

    pub fn await_owner(&mut self, worker: WorkerId, now: Instant) {
        self.awaited.insert(worker, now + self.ttl);
    }

    /// Another process takes a name over only when the lease of the one before has ended. False where the process is known
    /// and goes on: who registers again and again, and never says what it holds, does not live by that.
    pub fn register(
        &mut self,
        now: Instant,
        worker: &WorkerId,
        endpoint: String,
        local: Option<LocalAccess>,
        incarnation: Incarnation,
    ) -> Result<bool> {
        if let Some(member) = self.members.get(worker)
            && member.incarnation != incarnation
            && self.is_fresh(member, now)
        {
            return Err(ServiceError::Unavailable {
                what: format!("the name {worker}, which another process holds until its lease has ended,"),
            });
        }
        self.awaited.remove(worker);
        let place = WorkerPlace::default();
        let rate = 0.0;
        if let Some(member) = self.members.get(worker).filter(|member| member.incarnation == incarnation) {
            if self.is_fresh(member, now) {
                let goes_on = Member { endpoint, local, place, rate, is_leaving: false, ..member.clone() };
                self.members.insert(worker.clone(), goes_on);
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
        };
        self.members.insert(worker.clone(), member);
        Ok(true)
    }

    /// Its lease has ended: did it ever say what it holds?
    fn note_if_unreported(&mut self, worker: WorkerId) {
        if let Some(member) = self.members.get(&worker).filter(|member| !member.has_reported) {
            self.unreported.insert(worker, member.incarnation);
        }
    }

    pub fn member(&self, worker: &WorkerId) -> Option<&Member> {
        self.members.get(worker)
    }

    pub fn member_mut(&mut self, worker: &WorkerId) -> Option<&mut Member> {
        self.members.get_mut(worker)
    }

    /// The worker says that it lives, and which leases it holds.
    pub fn record_heartbeat(&mut self, now: Instant, worker: &WorkerId, incarnation: Incarnation) -> Result<()> {
        let refused =
            |reason: &str| ServiceError::MustRegister { worker: worker.to_string(), reason: reason.into() };
        let ttl = self.ttl;
        let member =
            self.members.get_mut(worker).ok_or_else(|| error_to_status("this coordinator doesn't know it"))?;
        if member.incarnation != incarnation {
            return Err(error_to_status("another process has registered under its name"));
        }
        if now.duration_since(member.last_heartbeat) >= ttl {
            return Err(error_to_status("its lease has ended"));
        }
        member.last_heartbeat = now;
        (member.has_reported, member.is_unreported) = (true, false);
        self.unreported.remove(worker);
        Ok(())
    }

    /// False where the name is another process's by now.
    pub fn deregister(&mut self, worker: &WorkerId, incarnation: Incarnation) -> bool {
        let is_its_own = self.members.get(worker).is_some_and(|member| member.incarnation == incarnation);
        if is_its_own {
            self.members.remove(worker);
            self.unreported.remove(worker);
            self.telling.remove(worker);
        }
        is_its_own
    }

    /// Removes those whose lease has ended, and gives up on owners that have not come back.
    pub fn expire(&mut self, now: Instant) -> Vec<WorkerId> {
        let ttl = self.ttl;
        let ended = |member: &Member| now.duration_since(member.last_heartbeat) >= ttl;
        let gone: Vec<_> = self
            .members
            .iter()
            .filter(|(_, member)| ended(member))
            .map(|(worker, _)| worker.clone())
            .collect();
        gone.iter().for_each(|worker| self.note_if_unreported(worker.clone()));
        self.telling.retain(|worker| !gone.contains(worker));
        self.members.retain(|_, member| !ended(member));
        self.awaited.retain(|_, until| now < *until);
        gone
    }

    /// This process itself stood still for `gap`: no worker is to blame.
    pub fn extend_leases(&mut self, gap: Duration) {
        self.members.values_mut().for_each(|member| member.last_heartbeat += gap);
        self.awaited.values_mut().chain(&mut self.grace_until).for_each(|until| *until += gap);
    }

    pub fn live(&self, worker: &WorkerId, now: Instant) -> Option<&Member> {
        self.members.get(worker).filter(|member| self.is_fresh(member, now))
    }

    pub fn all_live(&self, now: Instant) -> impl Iterator<Item = (&WorkerId, &Member)> {
        self.members.iter().filter(move |(_, member)| self.is_fresh(member, now))
    }

    pub fn awaited(&self) -> impl Iterator<Item = &WorkerId> {
        self.awaited.keys()
    }

    pub fn awaited_until(&self, worker: &WorkerId) -> Option<Instant> {
        self.awaited.get(worker).copied()
    }

    fn is_fresh(&self, member: &Member, now: Instant) -> bool {
        now.duration_since(member.last_heartbeat) < self.ttl
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TTL: Duration = Duration::from_secs(2);
    const OLD: Incarnation = Incarnation([1; 16]);
    const NEW: Incarnation = Incarnation([2; 16]);

    fn worker() -> WorkerId {
        WorkerId::new("w").unwrap()
    }

    fn with_old(now: Instant) -> Membership {
        let mut membership = Membership::new(TTL);
        membership.register(now, &worker(), "http://a:1".into(), None, OLD).unwrap();
        membership
    }

    #[test]
    fn a_worker_lives_by_its_heartbeats() {
        let start = Instant::now();
        let mut membership = with_old(start);
        membership.record_heartbeat(start + TTL / 2, &worker(), OLD).unwrap();
        assert!(membership.live(&worker(), start + TTL).is_some());
        assert!(membership.expire(start + TTL).is_empty());
        assert!(membership.live(&worker(), start + TTL * 3 / 2).is_none());
        let late = membership.record_heartbeat(start + TTL * 3 / 2, &worker(), OLD).unwrap_err();
        assert!(matches!(late, ServiceError::MustRegister { .. }));
        assert_eq!(membership.expire(start + TTL * 3 / 2), [worker()]);
    }

    #[test]
    fn a_name_changes_hands_only_after_the_lease() {
        let start = Instant::now();
        let mut membership = with_old(start);
        let early =
            membership.register(start + TTL / 2, &worker(), "http://b:1".into(), None, NEW).unwrap_err();
        assert!(early.retry_safe() && early.to_string().contains("the name w"), "{early}");
        membership.register(start + TTL, &worker(), "http://b:1".into(), None, NEW).unwrap();
        let old = membership.record_heartbeat(start + TTL, &worker(), OLD).unwrap_err();
        assert!(matches!(old, ServiceError::MustRegister { .. }));
        assert!(!membership.deregister(&worker(), OLD));
        assert!(membership.deregister(&worker(), NEW));
    }

    #[test]
    fn the_same_process_may_register_again() {
        let start = Instant::now();
        with_old(start).register(start, &worker(), "http://a:2".into(), None, OLD).unwrap();
    }

    #[test]
    fn nobody_lives_by_registering() {
        let start = Instant::now();
        let mut membership = with_old(start);
        let again = |membership: &mut Membership, at| {
            membership.register(at, &worker(), "http://a:1".into(), None, OLD).unwrap()
        };
        assert!(!again(&mut membership, start + TTL / 2));
        assert!(membership.live(&worker(), start + TTL).is_none(), "its first word is what it lives by");
        assert!(again(&mut membership, start + TTL) && !membership.members[&worker()].takes_shards());
        assert_eq!(membership.expire(start + TTL * 2), [worker()]);
        assert!(again(&mut membership, start + TTL * 3) && !membership.members[&worker()].takes_shards());
        membership.record_heartbeat(start + TTL * 3, &worker(), OLD).unwrap();
        assert!(membership.members[&worker()].takes_shards(), "now it has said what it holds");
        assert_eq!(membership.expire(start + TTL * 4), [worker()]);
        assert!(again(&mut membership, start + TTL * 5) && membership.members[&worker()].takes_shards());
    }

    #[test]
    fn strangers_must_register() {
        let mut membership = Membership::new(TTL);
        let error = membership.record_heartbeat(Instant::now(), &worker(), OLD).unwrap_err();
        assert!(matches!(error, ServiceError::MustRegister { .. }));
    }

    #[test]
    fn owners_from_before_are_awaited_for_one_lease() {
        let start = Instant::now();
        let mut membership = Membership::new(TTL);
        membership.await_owner(worker(), start);
        membership.expire(start + TTL / 2);
        assert_eq!(membership.awaited().count(), 1);
        membership.expire(start + TTL);
        assert_eq!(membership.awaited().count(), 0);
    }

    #[test]
    fn a_frozen_coordinator_blames_nobody() {
        let start = Instant::now();
        let mut membership = with_old(start);
        membership.extend_leases(TTL * 5);
        assert!(membership.live(&worker(), start + TTL * 11 / 2).is_some());
    }
}
