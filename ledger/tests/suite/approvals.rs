//! Approvals: a change that takes two persons is made once, as one of them approved it, by the other, in time.

use std::sync::atomic::Ordering;

use ledger::{DataSetRecord, LedgerError, Principal, Recharge};
use proto::{
    PersonId,
    model::{GuardedChange, OpenBranch, PrivacyBudget},
};

use crate::{
    Place,
    approval_fixture::{Fixture, HOUR_MS, back, budget, charged, mails, name, refused, rewind, share},
    id, nonce,
};

#[test]
fn a_budget_rises_once_by_another_person_than_the_one_who_approved() {
    let fixture = Fixture::new(0);
    let before = fixture.head();
    refused(fixture.grant("ann", 6.0), "no person has approved it");
    refused(fixture.grant("", 6.0), "no person");
    fixture.approve("ben", &budget(6.0)).unwrap();
    refused(fixture.grant("", 6.0), "no person");
    refused(fixture.grant("ben", 6.0), "ben has approved it, who makes it");
    refused(fixture.grant("ann", 6.5), "what ben approved is a budget of ε = 6 at δ = 0.000001");
    refused(
        fixture
            .set_share("ann", "ads", Some(1.0))
            .and_then(|()| fixture.set_share("ann", "search", Some(1.0))),
        "no person has",
    );
    fixture.grant("ann", 6.0).unwrap();
    assert_eq!(fixture.kinds(before.entries), ["approved", "share_set", "approval_used", "budget_granted"]);

    // Back down takes no approval, and up again one.
    fixture.grant("ann", 5.0).unwrap();
    refused(fixture.grant("ann", 6.0), "no person has approved it");
    assert!((fixture.budget() - 5.0).abs() < 1e-12);
    fixture.assert_whole();
}

#[test]
fn an_approval_ends_by_the_ledgers_clock_and_a_later_one_takes_its_place() {
    let fixture = Fixture::new(0);
    fixture.approve("ben", &budget(6.0)).unwrap();
    fixture.now_ms.store(2 * HOUR_MS, Ordering::SeqCst);
    refused(fixture.grant("ann", 6.0), "the approval of ben has ended");
    fixture.approve("ben", &budget(7.0)).unwrap();
    fixture.approve("eve", &budget(6.0)).unwrap();
    refused(fixture.grant("ann", 7.0), "what eve approved is");
    fixture.now_ms.store(3 * HOUR_MS - 1, Ordering::SeqCst);
    fixture.grant("ben", 6.0).unwrap();
    fixture.assert_whole();
}

#[test]
fn delta_counts_as_epsilon_does() {
    let fixture = Fixture::new(0);
    let grant = |epsilon, delta| {
        let budget = PrivacyBudget::new(epsilon, delta).unwrap();
        fixture.by("ann").grant_budget(&name(), budget, fixture.head())
    };
    refused(grant(1.0, 2e-6), "no person has");
    refused(grant(4.1, 1e-9), "no person has");
    grant(4.0, 1e-7).unwrap();
    refused(grant(4.0, 1e-6), "no person has");
}

#[test]
fn no_one_gets_more_of_a_budget_by_shares_alone() {
    let fixture = Fixture::new(0);
    // Everybody may spend the whole before.
    fixture.set_share("ann", "ads", Some(1.0)).unwrap();
    refused(fixture.set_share("ann", "ads", Some(1.5)), "no person has");
    refused(fixture.set_share("ann", "search", Some(0.1)), "no person has");
    // Without it everybody may, and ads itself may get a larger first share.
    refused(fixture.set_share("ann", "ads", None), "no person has");
    fixture.set_share("ann", "ads", Some(0.5)).unwrap();
    fixture.approve("ben", &share("search", Some(0.1))).unwrap();
    refused(fixture.set_share("ann", "ads", Some(0.6)), "no person has");
    refused(fixture.set_share("ann", "search", Some(0.2)), "what ben approved is a share of ε = 0.1");
    fixture.set_share("ann", "search", Some(0.1)).unwrap();
    fixture.set_share("ann", "search", None).unwrap();
    refused(fixture.set_share("ann", "search", Some(0.1)), "no person has");
    fixture.approve("ben", &share("ads", None)).unwrap();
    fixture.set_share("ann", "ads", None).unwrap();
    fixture.assert_whole();
}

#[test]
fn rewinds_beyond_the_free_ones_are_as_approved_unless_they_cost_nothing() {
    let fixture = Fixture::new(1);
    charged(&fixture);
    rewind(&fixture, "", &back(0), "{\"more\":1}").unwrap();
    refused(rewind(&fixture, "", &back(1), "{\"more\":2}"), "no person");
    refused(rewind(&fixture, "ann", &back(1), "{\"more\":2}"), "no person has");
    rewind(&fixture, "", &back(1), "{\"more\":1}").unwrap();
    fixture.approve("ben", &GuardedChange::from(&OpenBranch { from_row: 0, ..back(2) })).unwrap();
    refused(
        rewind(&fixture, "ann", &back(2), "{\"more\":2}"),
        "what ben approved is a rewind of job j to row 0",
    );
    fixture.approve("ben", &GuardedChange::from(&back(2))).unwrap();
    refused(rewind(&fixture, "ann", &OpenBranch { parent: Some(0), ..back(2) }, "{\"more\":2}"), "what ben");
    refused(rewind(&fixture, "ben", &back(2), "{\"more\":2}"), "who makes it");
    let before = fixture.head();
    rewind(&fixture, "ann", &back(2), "{\"more\":2}").unwrap();
    assert_eq!(fixture.kinds(before.entries), ["approval_used", "recharged"]);
    refused(rewind(&fixture, "ann", &back(3), "{\"more\":3}"), "no person has");
    assert_eq!(fixture.ledger.job(&id("j")).unwrap().unwrap().branch, 3);
    fixture.assert_whole();
}

/// An operator who adopts a ledger has its folder: all jobs get fresh noise, with no approval.
#[test]
fn an_adoption_takes_no_approval_and_the_chain_says_that_it_is_one() {
    let fixture = Fixture::new(0);
    charged(&fixture);
    let recharge = Recharge { event: "{\"more\":1}".to_owned(), expected: fixture.head(), rows_bound: 2 };
    fixture.ledger.open_adopted_branch(&back(0), nonce(1), Some(&recharge)).unwrap();
    let last = fixture.ledger.data_set_entries(&name(), fixture.head().entries - 1, 1, 1 << 20).unwrap();
    assert!(last[0].event.ends_with("\"adopted\":true}"), "{}", last[0].event);
    fixture.assert_whole();
}

#[test]
fn only_persons_make_rules_and_approve_and_only_where_there_is_a_rule() {
    let place = Place::new();
    let ledger = place.open();
    let refused_rule = ledger.create_data_set(&mails(0)).unwrap_err();
    assert!(matches!(&refused_rule, LedgerError::Invalid { field: "approval_rule", .. }), "{refused_rule}");
    let without = DataSetRecord { approvals: None, ..mails(0) };
    ledger.create_data_set(&without).unwrap();
    let ben = ledger.acting_as(Principal::new("ben").of_person(PersonId::new("ben").ok()));
    let pointless = ben.approve(&name(), &budget(6.0), HOUR_MS).unwrap_err();
    assert!(matches!(&pointless, LedgerError::Invalid { field: "approval", .. }), "{pointless}");
    for other in [mails(0), mails(1)] {
        let other = ben.create_data_set(&other).unwrap_err();
        assert!(other.to_string().contains("approval_rule is none"), "{other}");
    }
    let fixture = Fixture::new(0);
    refused(fixture.approve("", &budget(6.0)), "no person who could consent");
}

#[test]
fn approvals_that_wait_are_bounded_and_those_that_have_ended_make_room() {
    let fixture = Fixture::new(0);
    let of = |number: u32| share(&format!("t{number}"), Some(1.0));
    for number in 0..100 {
        fixture.approve("ben", &of(number)).unwrap();
    }
    let full = fixture.approve("ben", &of(100)).unwrap_err();
    assert!(matches!(&full, LedgerError::Invalid { field: "approvals", .. }), "{full}");
    fixture.approve("eve", &of(5)).unwrap();
    fixture.now_ms.store(2 * HOUR_MS, Ordering::SeqCst);
    fixture.approve("ben", &of(100)).unwrap();
    let pending = fixture.ledger.data_set(&name()).unwrap().record.approvals.unwrap().pending;
    assert_eq!(pending.len(), 1);
    fixture.assert_whole();
}
