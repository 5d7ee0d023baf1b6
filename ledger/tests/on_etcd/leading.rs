//! Only one leader: an old one can't change anything, a new one finds everything, and writes whose answers are lost.

use std::{thread, time::Duration};

use ledger::{
    Ledger, LedgerError,
    etcd::{Candidacy, Election},
};
use proto::{Commitment, ServiceError};

use crate::{LEASE, Place, commitment, elected, etcd::Cable, etcdctl, id, rows};

fn bind(ledger: &Ledger, row: u64, text: &str) -> ledger::Result<u64> {
    ledger.bind(&id("j"), 0, rows(row, row + 1), &[commitment(text)]).map(|bound| bound.newly)
}

fn bound(ledger: &Ledger) -> Vec<(u64, Commitment)> {
    ledger.bindings(&id("j"), 0, 0..100).unwrap()
}

#[test]
fn a_leader_that_was_replaced_without_knowing_it_binds_nothing() {
    let place = Place::new();
    let old = place.with_job();
    bind(&old, 0, "zero").unwrap();
    // As if its lease had ended and its clock had stood still.
    etcdctl(&["del", &place.key("leader")]);
    let new = place.open();
    // The log's next place is still empty: only the leader's key distinguishes the two leaders.
    for (row, text) in [(1, "old"), (2, "old"), (0, "zero")] {
        let error = bind(&old, row, text).unwrap_err();
        assert!(matches!(error, LedgerError::NotLeader { .. }), "{error}");
    }
    // It knows by now, and answers nothing from what it had read.
    assert!(matches!(old.job(&id("j")), Err(LedgerError::NotLeader { .. })));
    bind(&new, 1, "new").unwrap();
    bind(&new, 2, "new too").unwrap();
    let expected = [(0, "zero"), (1, "new"), (2, "new too")].map(|(row, text)| (row, commitment(text)));
    assert_eq!(bound(&new), expected);
    drop((old, new));
    assert_eq!(bound(&place.open()), expected);
}

#[test]
fn one_leads_and_the_others_learn_its_address() {
    let place = Place::new();
    let one = Election::connect(&place.config()).unwrap();
    let other = Election::connect(&place.config()).unwrap();
    assert_eq!(one.ledger(), other.ledger());
    let Candidacy::Elected(term) = one.campaign("http://one").unwrap() else {
        panic!("there is no other candidate")
    };
    let Candidacy::LedBy(leader) = other.campaign("http://other").unwrap() else { panic!("two leaders") };
    assert_eq!(leader, "http://one");
    assert!(term.lease().left().is_some_and(|left| left < LEASE));
    one.resign(term.lease());
    assert!(term.lease().left().is_none());
    let Candidacy::Elected(_) = other.campaign("http://other").unwrap() else {
        panic!("the lead was given up")
    };
}

#[test]
fn epochs_rise_with_every_leader() {
    let place = Place::new();
    let epochs: Vec<u64> = (0..3).map(|_| place.open().next_coordinator_epoch().unwrap()).collect();
    assert_eq!(epochs, [1, 2, 3]);
}

#[test]
fn a_lease_that_is_kept_lasts() {
    let place = Place::new();
    let ledger = place.with_job();
    thread::sleep(LEASE + LEASE / 2);
    bind(&ledger, 0, "zero").unwrap();
}

/// The binding gets to etcd, the answer does not, and then the connection is whole again.
#[test]
fn a_binding_whose_answer_is_lost_is_bound_once() {
    let place = Place::new();
    let cable = Cable::to(place.config().members[0].clone());
    drop(place.with_job());
    let election = Election::connect(&place.config_over(&cable.address())).unwrap();
    let ledger = Ledger::lead(elected(&election)).unwrap();
    cable.cut_answers();
    thread::scope(|scope| {
        let binding = scope.spawn(|| bind(&ledger, 0, "zero"));
        // Longer than an attempt lasts.
        thread::sleep(LEASE / 3);
        cable.mend();
        assert_eq!(binding.join().unwrap().unwrap(), 1);
    });
    let records = etcdctl(&["get", "--prefix", "--keys-only", &place.key("log/")]);
    assert_eq!(records.lines().filter(|line| !line.is_empty()).count(), 2, "{records}");
    assert_eq!(bind(&ledger, 0, "zero").unwrap(), 0);
}

/// Answers are lost until the lease has run out: nothing is reported as bound, and the next leader reports what is.
#[test]
fn a_binding_without_an_answer_is_open_until_the_next_leader() {
    let place = Place::new();
    let cable = Cable::to(place.config().members[0].clone());
    drop(place.with_job());
    let election = Election::connect(&place.config_over(&cable.address())).unwrap();
    let term = elected(&election);
    let lease = term.lease().clone();
    let ledger = Ledger::lead(term).unwrap();
    bind(&ledger, 0, "zero").unwrap();
    // The answer is lost and the request is not: the row is bound, and no caller may hear so.
    cable.cut_answers();
    let error = bind(&ledger, 1, "one").unwrap_err();
    // The job may call the next leader, and gets the answer there.
    assert!(matches!(error, LedgerError::Unreachable { .. }), "{error}");
    assert!(ServiceError::from(error).retry_safe());
    assert!(lease.left().is_none());
    let error = bind(&ledger, 0, "zero").unwrap_err();
    assert!(matches!(error, LedgerError::NotLeader { .. }), "{error}");

    let new = place.open();
    assert!(matches!(bind(&new, 1, "another"), Err(LedgerError::AlreadyBound { row: 1, .. })));
    assert_eq!(bind(&new, 1, "one").unwrap(), 0);
    // What was held back arrives now, too late to count.
    cable.mend();
    thread::sleep(Duration::from_millis(300));
    assert_eq!(bound(&new), [(0, commitment("zero")), (1, commitment("one"))]);
    drop((ledger, new));
    assert_eq!(bound(&place.open()).len(), 2);
}

/// A partition that lasts: this process stops before etcd lets another one lead, and its request arrives after that,
/// and is refused.
#[test]
fn a_leader_that_is_cut_off_stops_before_another_may_lead() {
    let place = Place::new();
    let cable = Cable::to(place.config().members[0].clone());
    drop(place.with_job());
    let election = Election::connect(&place.config_over(&cable.address())).unwrap();
    let ledger = Ledger::lead(elected(&election)).unwrap();
    cable.cut();
    bind(&ledger, 0, "late").unwrap_err();
    let leader = etcdctl(&["get", "--print-value-only", &place.key("leader")]);
    assert!(leader.contains("http://here"), "etcd ended the lease before this process stopped");
    let new = place.open();
    cable.mend();
    thread::sleep(Duration::from_millis(300));
    assert_eq!(bind(&new, 0, "new").unwrap(), 1);
    drop((ledger, new));
    assert_eq!(bound(&place.open()), [(0, commitment("new"))]);
}
