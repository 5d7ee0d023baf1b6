//! The whole state space of the release protocol in the small, and the same with a bug.

#![allow(clippy::unwrap_used)]

use simulation::explore::{BindRule, Explored, Rules, explore};

/// `RUSTLE_LONG` is for all states there are.
const MOST: usize = 300_000;

fn with(rules: Rules) -> Explored {
    let most = if std::env::var_os("RUSTLE_LONG").is_some() { usize::MAX } else { MOST };
    explore(rules, &BindRule::of_the_ledger().unwrap(), most)
}

#[test]
fn no_state_releases_a_row_twice_or_under_an_old_epoch() {
    let explored = with(Rules::default());
    let Explored { states, transitions, depth, is_complete, .. } = explored;
    println!("{states} states, {transitions} transitions, depth {depth}, complete: {is_complete}");
    assert_eq!(explored.violation, None);
    assert!(is_complete || states > MOST, "{states} states");
}

#[test]
fn every_planted_bug_is_found() {
    let none = Rules::default();
    for (rules, expected) in [
        (Rules { acks_before_sync: true, ..none }, "bound to 0"),
        (Rules { binds_twice: true, ..none }, "is bound to"),
        (Rules { no_epoch_check: true, ..none }, "under epoch"),
        (Rules { no_token_check: true, ..none }, "bound to 0"),
        (Rules { lease_never_ends: true, ..none }, "fenced epoch"),
        (Rules { keeps_epoch_of_new_owner: true, ..none }, "fenced epoch"),
    ] {
        let (violation, way) = with(rules).violation.unwrap_or_else(|| panic!("{rules:?} was not found"));
        println!("{violation}: {way:?}");
        assert!(violation.contains(expected), "{rules:?}: {violation}");
    }
}
