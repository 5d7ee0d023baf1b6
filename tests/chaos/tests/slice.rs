//! A few rounds of `make chaos`, one of each fault that costs little time. `make chaos` has the figures.

use chaos::{
    nemesis::Fault::{self, *},
    run,
};

fn rounds(seeds: std::ops::Range<u64>, faults: Vec<Fault>) {
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
    assert!(figures.is_good(), "{:?}", figures.violations);
}

#[test]
fn six_rounds_of_faults_lose_double_and_change_nothing() {
    rounds(0..6, vec![KillWorker, KillCoordinator, KillAll, Zombie, LedgerDamage, CheckpointDamage]);
}
