//! How many schedules a test goes through, and which.

use shuttle::{
    Config, Runner,
    scheduler::{PctScheduler, RandomScheduler},
};

const SEED: u64 = 1;

/// Changes of thread that a schedule by priorities makes at most.
const CHANGES: usize = 3;

/// Half of them draw the next thread at every lock, the other half by priorities that change a few times (PCT), which
/// finds sooner what takes one thread to stand still for long. `RUSTLE_LONG` is for 100,000 of them, by default 1,000.
pub fn each_schedule(test: impl Fn() + Send + Sync + Clone + 'static) {
    let half = if std::env::var_os("RUSTLE_LONG").is_some() { 50_000 } else { 500 };
    let drawn = Runner::new(RandomScheduler::new_from_seed(SEED, half), Config::new()).run(test.clone());
    let by_priority = Runner::new(PctScheduler::new_from_seed(SEED, CHANGES, half), Config::new()).run(test);
    println!("{} schedules", drawn + by_priority);
    assert_eq!(drawn + by_priority, 2 * half);
}
