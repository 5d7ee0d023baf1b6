//! What was answered is on the disk, whatever the disk does: a failing sync, no room, or a power cut at every single
//! operation of a short history; and a ledger that met one of these answers nothing more.

mod disk;
mod fault;
mod history;
mod life;

use std::panic::{AssertUnwindSafe, catch_unwind};

use dice::Dice;

use disk::Disk;
use fault::Fault;
use history::Picture;
use life::{Life, undisturbed};

/// Returns the number of faults that struck.
fn live(pictures: &[Picture], seed: u64, faults: &[(usize, Fault)]) -> usize {
    let disk = Disk::new(Dice::named(seed, "disk"));
    let life = Life::new(disk.clone(), pictures, Dice::named(seed, "life"));
    catch_unwind(AssertUnwindSafe(|| life.live(faults)))
        .unwrap_or_else(|_| panic!("seed {seed}, after so many operations each: {faults:?}"));
    disk.strikes()
}

fn is_long() -> bool {
    std::env::var_os("RUSTLE_LONG").is_some()
}

/// Once for every operation of the history that the fault concerns, ten times with RUSTLE_LONG: what is lost is drawn.
fn at_every_operation(fault: Fault) {
    let (pictures, operations) = undisturbed();
    let concerned = operations.iter().enumerate().filter(|(_, operation)| fault.concerns(**operation));
    let mut count = 0;
    let draws = if is_long() { 10 } else { 1 };
    for (at, _) in concerned {
        for draw in 0..draws {
            let seed = draw * 1_000 + at as u64;
            assert_eq!(live(&pictures, seed, &[(at, fault)]), 1, "{fault:?} at operation {at}");
        }
        count += 1;
    }
    println!("{fault:?}: {draws} times at each of {count} of {} operations", operations.len());
}

#[test]
fn a_sync_that_fails_ends_the_ledger_and_the_next_process_has_all_that_was_answered() {
    at_every_operation(Fault::Sync { then_power_goes: false });
}

#[test]
fn a_sync_that_fails_and_then_the_power_lose_nothing_that_was_answered() {
    at_every_operation(Fault::Sync { then_power_goes: true });
}

#[test]
fn a_write_that_finds_no_room_ends_the_ledger_and_loses_nothing() {
    at_every_operation(Fault::Full { lasts: false });
}

#[test]
fn a_full_disk_loses_nothing_and_is_gone_on_with_once_there_is_room() {
    at_every_operation(Fault::Full { lasts: true });
}

#[test]
fn a_power_cut_at_any_operation_loses_nothing_that_was_answered() {
    at_every_operation(Fault::PowerCut);
}

/// Up to three in one life, also while the ledger is opened after the one before. 200 lives, 10,000 with RUSTLE_LONG.
#[test]
fn power_cuts_and_failing_syncs_one_after_the_other_lose_nothing() {
    let lives = if is_long() { 10_000 } else { 200 };
    let (pictures, operations) = undisturbed();
    let operations = operations.len() as u64;
    let mut strikes = 0;
    for seed in 0..lives {
        let mut dice = Dice::named(seed, "faults");
        let faults: Vec<_> = (0..dice.within(1, 3)).map(|_| drawn(operations, &mut dice)).collect();
        strikes += live(&pictures, seed, &faults);
    }
    println!(
        "{lives} lives of {operations} operations, {strikes} power cuts and failing syncs: nothing lost"
    );
}

fn drawn(operations: u64, dice: &mut Dice) -> (usize, Fault) {
    let fault =
        if dice.one_in(2) { Fault::PowerCut } else { Fault::Sync { then_power_goes: dice.one_in(2) } };
    (dice.below(operations) as usize, fault)
}
