//! Tests a few seeds of `make simulate`, which gives the full figures.

use simulation::Tally;

#[test]
fn fifty_seeds_hold_every_promise_and_repeat_themselves() {
    let figures = simulation::simulate(0..50, 2, 1, false).unwrap();
    println!("{figures}");
    assert!(figures.violations.is_empty(), "{:?}", figures.violations);
    assert!(figures.unrepeatable.is_empty(), "went another way the second time: {:?}", figures.unrepeatable);
    assert!(figures.repeated > 0);
    for kind in ["kill", "power cut", "partition", "one-way partition", "hold", "disk full", "reshard"] {
        assert!(figures.faults.contains_key(kind), "no {kind}: {:?}", figures.faults);
    }
    let Tally { rewinds, rows_drawn_anew, rows_abandoned, refused_by_ledger, refused_by_workers, .. } =
        figures.tally;
    for seen in [rewinds, rows_drawn_anew, rows_abandoned, refused_by_ledger, refused_by_workers] {
        assert!(seen >= 50, "too few rewinds to say anything: {:?}", figures.tally);
    }
}

/// What happens to the ledger's file, or to its anchor.
const MISHAPS: [&str; 9] = [
    "copied ledger",
    "adopted copy",
    "old copy put back",
    "deleted ledger",
    "live clone",
    "clone of a fenced ledger",
    "volume moved",
    "anchors answer badly",
    "lost anchor",
];

#[test]
fn two_hundred_more_seeds_release_no_row_twice_whatever_becomes_of_the_ledger() {
    let figures = simulation::simulate(50..250, 2, 0, false).unwrap();
    println!("{figures}");
    assert!(figures.violations.is_empty(), "{:?}", figures.violations);
    for kind in MISHAPS {
        assert!(figures.faults.contains_key(kind), "no {kind}: {:?}", figures.faults);
    }
    let Tally { rows_bound_on_clones, rows_bound_on_copies, refused_by_copies, costs_compared, .. } =
        figures.tally;
    for seen in [rows_bound_on_clones, rows_bound_on_copies, refused_by_copies, costs_compared] {
        assert!(seen >= 10, "too few copies to say anything: {:?}", figures.tally);
    }
    let Tally { jobs_admitted, jobs_refused, budgets_granted, charges_given_back, .. } = figures.tally;
    for seen in [jobs_admitted, jobs_refused, budgets_granted, charges_given_back] {
        assert!(seen >= 20, "too few charges to say anything: {:?}", figures.tally);
    }
}

/// For `make mutants`: as many seeds as it takes to find a planted bug, or COUNT.
#[test]
#[ignore = "a clean tree goes through all of its seeds"]
fn a_violation_ends_it() {
    let count = std::env::var("COUNT").map_or(200, |count| count.parse().expect("COUNT is a number"));
    let figures = simulation::simulate(0..count, 2, 0, true).unwrap();
    println!("{figures}");
    assert!(figures.violations.is_empty(), "{:?}", figures.violations);
}
