//! Tests the release protocol over the whole state space of a small configuration, and that a planted bug is found there.

#![allow(clippy::unwrap_used)]

use std::collections::{BTreeSet, HashSet};

use dice::Dice;
use simulation::explore::{
    AnchorRule, BindRule, CopyModel, CopyRules, Exploration, FreshRule, Model, Packed, Rules, State, explore,
};

/// Most states needed to find any planted bug.
const STATES_TO_FIND_A_BUG: usize = 300_000;

/// Each bug, and what it leads to.
fn broken_rules() -> [(Rules, &'static str); 6] {
    let none = Rules::default();
    [
        (Rules { acks_before_sync: true, ..none }, "bound to 0"),
        (Rules { binds_twice: true, ..none }, "is bound to"),
        (Rules { no_epoch_check: true, ..none }, "under epoch"),
        (Rules { no_token_check: true, ..none }, "bound to 0"),
        (Rules { lease_never_ends: true, ..none }, "fenced epoch"),
        (Rules { keeps_epoch_of_new_owner: true, ..none }, "fenced epoch"),
    ]
}

fn is_long() -> bool {
    std::env::var_os("RUSTLE_LONG").is_some()
}

#[test]
fn no_state_releases_a_row_twice_or_under_an_old_epoch() {
    let bind = BindRule::of_the_ledger().unwrap();
    let all = [(1, 3), (2, 1), (2, 2), (2, 3)];
    for (jobs, rows) in all.into_iter().take(if is_long() { all.len() } else { 2 }) {
        let model = Model { bind: &bind, rules: Rules::default(), jobs, rows };
        let Exploration { states, transitions, depth, is_complete, violation } = explore(&model, usize::MAX);
        println!("jobs {jobs}, rows {rows}: {states} states, {transitions} transitions, depth {depth}");
        assert_eq!(violation, None);
        assert!(is_complete, "jobs {jobs}, rows {rows}: {states} states");
    }
}

#[test]
fn every_planted_bug_is_found() {
    let bind = BindRule::of_the_ledger().unwrap();
    for (rules, expected) in broken_rules() {
        let explored = explore(&Model { bind: &bind, rules, jobs: 2, rows: 3 }, STATES_TO_FIND_A_BUG);
        let (violation, way) = explored.violation.unwrap_or_else(|| panic!("{rules:?} was not found"));
        println!("{violation}: {way:?} ({} states)", explored.states);
        assert!(violation.contains(expected), "{rules:?}: {violation}");
    }
}

/// Where a state's steps lead, each in canonical form; `None` is a violation.
fn ends(model: &Model<'_>, state: &State) -> BTreeSet<Option<Packed>> {
    let end = |outcome: Result<State, String>| outcome.ok().map(|reached| model.canonical(&reached));
    model.steps(state).into_iter().map(|(_, outcome)| end(outcome)).collect()
}

/// A state must lead where its canonical form leads, or what was explored is not what there is.
fn compare_with_canonical(model: &Model<'_>, state: &State) {
    let canonical = model.canonical(state).state();
    assert_eq!(ends(model, state), ends(model, &canonical), "{:?}\n{state:?}\n{canonical:?}", model.rules);
}

#[test]
fn states_as_they_are_have_the_canonical_forms_that_are_explored() {
    let bind = BindRule::of_the_ledger().unwrap();
    let rows = if is_long() { 2 } else { 1 };
    let model = Model { bind: &bind, rules: Rules::default(), jobs: 1, rows };
    let mut seen = HashSet::from([State::first(1)]);
    let mut open: Vec<State> = seen.iter().copied().collect();
    while let Some(state) = open.pop() {
        compare_with_canonical(&model, &state);
        let reached = model.steps(&state).into_iter().map(|(_, outcome)| outcome.unwrap());
        open.extend(reached.filter(|reached| seen.insert(*reached)));
    }
    let canonical: HashSet<Packed> = seen.iter().map(|state| model.canonical(state)).collect();
    println!("{} states, {} canonical ones", seen.len(), canonical.len());
    assert_eq!(canonical.len(), explore(&model, usize::MAX).states);
}

#[test]
fn on_any_way_a_state_leads_where_its_canonical_form_leads() {
    let bind = BindRule::of_the_ledger().unwrap();
    let ways = if is_long() { 20_000 } else { 1_000 };
    for (number, (rules, _)) in [(Rules::default(), "")].into_iter().chain(broken_rules()).enumerate() {
        let model = Model { bind: &bind, rules, jobs: 2, rows: 3 };
        let mut dice = Dice::named(number as u64, "ways");
        for _ in 0..ways {
            let mut state = State::first(2);
            for _ in 0..50 {
                compare_with_canonical(&model, &state);
                let on: Vec<State> =
                    model.steps(&state).into_iter().filter_map(|(_, outcome)| outcome.ok()).collect();
                state = *dice.pick(&on);
            }
        }
    }
}

/// How two copies of one ledger may be treated wrongly.
fn broken_copy_rules() -> [CopyRules; 6] {
    let none = CopyRules::default();
    [
        CopyRules { is_not_watched: true, ..none },
        CopyRules { writes_over: true, ..none },
        CopyRules { writes_unwatched: true, ..none },
        CopyRules { outlives_lease: true, ..none },
        CopyRules { ignores_height: true, ..none },
        CopyRules { keeps_branch: true, ..none },
    ]
}

#[test]
fn two_ledgers_of_one_key_release_no_row_twice() {
    let bind = BindRule::of_the_ledger().unwrap();
    let anchor = AnchorRule::of_the_ledger().unwrap();
    let fresh = FreshRule::of_the_program().unwrap();
    let model = |rules| CopyModel { bind: &bind, anchor: &anchor, fresh: &fresh, rules };
    let explored = model(CopyRules::default()).explore();
    println!("{explored:?}");
    assert_eq!(explored.violation, None);
    assert!(explored.taken_over > 0 && explored.adopted > 0, "{explored:?}");
    for rules in broken_copy_rules() {
        let explored = model(rules).explore();
        let (violation, way) = explored.violation.unwrap_or_else(|| panic!("{rules:?} was not found"));
        println!("{rules:?}: {violation}: {way:?} ({} states)", explored.states);
    }
}
