use super::*;

const TTL: Duration = Duration::from_secs(2);
const OLD: Incarnation = Incarnation([1; 16]);
const NEW: Incarnation = Incarnation([2; 16]);

fn worker() -> WorkerId {
    WorkerId::new("w").unwrap()
}

fn with_old(now: Instant) -> Membership {
    let mut membership = Membership::new(TTL);
    membership.register(now, &worker(), "http://a:1".into(), None, OLD, [1; 32]).unwrap();
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
        membership.register(start + TTL / 2, &worker(), "http://b:1".into(), None, NEW, [2; 32]).unwrap_err();
    assert!(early.retry_safe() && early.to_string().contains("the name w (in use"), "{early}");
    assert!(early.to_string().contains("ends in 1.0s"), "{early}");
    membership.register(start + TTL, &worker(), "http://b:1".into(), None, NEW, [2; 32]).unwrap();
    let old = membership.record_heartbeat(start + TTL, &worker(), OLD).unwrap_err();
    assert!(matches!(old, ServiceError::MustRegister { .. }));
    assert!(!membership.deregister(&worker(), OLD));
    assert!(membership.deregister(&worker(), NEW));
}

#[test]
fn the_same_process_may_register_again() {
    let start = Instant::now();
    with_old(start).register(start, &worker(), "http://a:2".into(), None, OLD, [1; 32]).unwrap();
}

#[test]
fn registering_renews_no_lease() {
    let start = Instant::now();
    let mut membership = with_old(start);
    let again = |membership: &mut Membership, at| {
        membership.register(at, &worker(), "http://a:1".into(), None, OLD, [1; 32]).unwrap()
    };
    assert!(!again(&mut membership, start + TTL / 2));
    assert!(membership.live(&worker(), start + TTL).is_none(), "registering again renews nothing");
    assert!(again(&mut membership, start + TTL) && !membership.members[&worker()].takes_shards());
    assert_eq!(membership.expire(start + TTL * 2), [worker()]);
    assert!(again(&mut membership, start + TTL * 3) && !membership.members[&worker()].takes_shards());
    membership.record_heartbeat(start + TTL * 3, &worker(), OLD).unwrap();
    assert!(membership.members[&worker()].takes_shards(), "now it has reported its leases");
    assert_eq!(membership.expire(start + TTL * 4), [worker()]);
    assert!(again(&mut membership, start + TTL * 5) && membership.members[&worker()].takes_shards());
}

#[test]
fn unknown_workers_must_register() {
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
fn a_frozen_coordinator_blames_no_worker() {
    let start = Instant::now();
    let mut membership = with_old(start);
    membership.extend_leases(TTL * 5);
    assert!(membership.live(&worker(), start + TTL * 11 / 2).is_some());
}
