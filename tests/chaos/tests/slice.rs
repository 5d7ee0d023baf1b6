//! A few rounds of `make chaos`, one of each fault that costs little time. `make chaos` has the figures.

use chaos::{
    figures::Figures,
    history::Broken,
    nemesis::Fault::{self, *},
    run,
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
fn a_ledger_that_forgets_is_seen() {
    let figures = rounds(0..1, vec![Rollback]);
    assert!(!figures.is_good() && figures.count(Broken::Lost) > 0, "{:?}", figures.violations);
}
