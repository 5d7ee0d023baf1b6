//! Tests a few rounds of `make chaos`, one of each fault that takes little time; `make chaos` gives the figures.

use chaos::{
    figures::Figures,
    history::Violation,
    nemesis::Fault::{self, *},
    run, slow_link,
};

fn rounds(seeds: std::ops::Range<u64>, faults: Vec<Fault>) -> Figures {
    let dir = tempfile::TempDir::new().expect("a folder");
    let options = run::Options {
        program: run::program().expect("the binary under test"),
        dir: dir.path().to_owned(),
        workers: 3,
        seeds,
        faults,
    };
    let figures = run::run(&options, |seed, what| println!("seed {seed}: {what}")).expect("a session");
    figures.skipped.iter().for_each(|skipped| println!("SKIPPED: {skipped}"));
    println!("{figures}");
    figures
}

#[test]
fn six_rounds_of_faults_lose_double_and_change_nothing() {
    let faults = vec![KillWorker, KillCoordinator, KillAll, Zombie, LedgerDamage, CheckpointDamage];
    let figures = rounds(0..6, faults);
    assert!(figures.is_good(), "{:?}", figures.violations);
    assert!(figures.stale_refused > 0, "nothing was asked under a lost lease");
}

#[test]
fn jobs_that_go_back_while_processes_are_killed_get_fresh_rows() {
    let figures = rounds(0..3, vec![Rewind]);
    assert!(figures.is_good(), "{:?}", figures.violations);
}

/// A copy in the original's place binds nothing; one that is adopted makes rows that the original has not.
#[test]
fn a_copy_of_the_ledger_binds_nothing_until_it_is_adopted() {
    // The turn of a round is its seed, where there is one fault.
    let figures = rounds(2..4, vec![CopiedLedger]);
    assert!(figures.is_good(), "{:?}", figures.violations);
    assert!(figures.copies_refused["ledger_copied"] > 0 && figures.fresh_rows > 0, "{figures}");
}

/// In its file with its anchor, and then with the workers' records too: the anchor in the store is left to know better.
#[test]
fn an_old_ledger_in_its_place_binds_nothing_until_the_right_one_is_back() {
    let figures = rounds(2..4, vec![OldLedger]);
    assert!(figures.is_good(), "{:?}", figures.violations);
    assert!(!figures.copies_refused.is_empty(), "{figures}");
}

#[test]
fn a_deleted_ledger_is_not_begun_again_and_records_and_stores_that_go_release_nothing_twice() {
    let figures = rounds(0..4, vec![DeletedLedger, OldRecords, StoreGone]);
    assert!(figures.is_good(), "{:?}", figures.violations);
    let refused = |kind| figures.copies_refused.get(kind).copied().unwrap_or(0);
    // The second deletion is followed by a ledger of its own.
    assert_eq!((refused("not_started"), refused("not_begun")), (2, 1), "{figures}");
    assert!(refused("unavailable") > 0 && figures.fresh_rows > 0, "{figures}");
}

/// Processes die before, within and after the commits of a new branch and of a binding. `make ends` has all points.
#[test]
fn processes_ended_around_a_commit_lose_double_and_change_nothing() {
    if !durable_io::ARE_ARMABLE {
        println!("SKIPPED: built without the feature ledger/failpoints");
        return;
    }
    let figures = rounds(15..21, vec![EndAt]);
    assert!(figures.is_good(), "{:?}", figures.violations);
    assert_eq!(figures.faults[&EndAt], 6);
}

/// A worker dies before, within and after it reopens its record, whose last line is cut.
#[test]
fn a_worker_ended_as_it_reads_its_record_keeps_every_whole_line() {
    if !durable_io::ARE_ARMABLE {
        println!("SKIPPED: built without the feature ledger/failpoints");
        return;
    }
    let points = chaos::points::all();
    let first = points.iter().position(|point| point.name == "released::reopen::begin").expect("a point");
    // The turn of a round is its seed, where there is one fault.
    let figures = rounds(first as u64..first as u64 + 4, vec![EndAt]);
    assert!(figures.is_good(), "{:?}", figures.violations);
    assert_eq!(figures.ends["alone"], 4);
}

/// None counts unless it was met: a write that failed, a line of a log with the other time, a connection that was reset.
#[test]
fn a_full_disk_another_clock_and_resets_are_met_by_who_should_meet_them() {
    // The last is possible everywhere.
    let figures = rounds(0..4, vec![DiskFull, Clock, Reset, KillWorker]);
    assert!(figures.is_good(), "{:?}", figures.violations);
    let count = |fault| figures.faults.get(&fault).copied().unwrap_or(0);
    assert_eq!((figures.full_disks_met, figures.other_clocks_seen), (count(DiskFull), count(Clock)));
    assert!(figures.connections_reset >= count(Reset));
}

/// Where disks can be mounted, acknowledged data survives and data that was only written may not.
#[test]
fn machines_that_lose_power_keep_what_they_acknowledged() {
    // The workers' machine, then the coordinator's; the fault between them is possible everywhere.
    let figures = rounds(0..3, vec![PowerCut, KillWorker]);
    assert!(figures.is_good(), "{:?}", figures.violations);
    assert_eq!(figures.power_cuts, figures.faults.get(&PowerCut).copied().unwrap_or(0));
}

/// Rows come, and from those who did; `make slow-link` has the times.
#[test]
fn rows_come_over_a_slow_link_and_shards_stay_where_they_are() {
    let dir = tempfile::TempDir::new().expect("a folder");
    let options = slow_link::Options { dimension: 100_000, workers: 2, turns: 1 };
    let program = run::program().expect("the binary under test");
    match slow_link::run(&program, dir.path(), &options, || ()) {
        Ok(figures) => println!("{figures}"),
        Err(error) if error.to_string().contains("no link can be made slow here") => {
            println!("SKIPPED: {error:#}");
        }
        Err(error) => panic!("{error:#}"),
    }
}

#[test]
fn a_ledger_that_forgets_is_seen() {
    let figures = rounds(0..1, vec![Rollback]);
    assert!(!figures.is_good() && figures.count(Violation::Lost) > 0, "{:?}", figures.violations);
}
