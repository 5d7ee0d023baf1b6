//! launch.sbatch at the end of its time, which Slurm counts in minutes: RUSTLE_LONG=1 alone.

use std::{thread, time::Duration};

use plan::Mechanism;
use sha2::{Digest, Sha256};
use tests::{sha256, small_plan};

use crate::{cluster::Slurm, run::Run};

const DIMENSION: u64 = 3_700;
/// The least that Slurm knows.
const LIMIT: Duration = Duration::from_secs(60);

#[test]
fn a_job_whose_time_is_up_goes_on_after_it_whether_it_was_told_or_not() {
    if std::env::var_os("RUSTLE_LONG").is_none() {
        return;
    }
    let Some(slurm) = Slurm::start() else { return };
    let plan = small_plan(Mechanism::BandSqrt { bands: 9 }, 1 << 20);
    let run = Run::new(&plan, DIMENSION);
    let all = run.variables(&[("RUSTLE_FILE_ROWS", "1000000")]);
    let signalled = slurm.submit("--ntasks=2 --time=1 --signal=B:USR1@10", "launch.sbatch", &all, &[]);
    signalled.wait_for("rows are written", || run.writes_rows());
    thread::sleep(LIMIT / 2);
    signalled.starts_again(1, &[]);
    assert!(signalled.output().contains("the time is nearly up; queued again"), "{}", signalled.output());
    let stood = run.next_row();
    assert!(stood > 0);
    signalled.wait_for("rows are written again", || run.writes_rows());
    signalled.cancel();
    signalled.ends("CANCELLED");

    // Ahead of its end it hears a signal that means nothing.
    let untold = slurm.submit("--ntasks=3 --time=1 --signal=B:URG@10", "launch.sbatch", &all, &[]);
    untold.wait_for("rows are written once more", || run.writes_rows());
    thread::sleep(LIMIT);
    untold.ends("TIMEOUT");

    let end = run.next_row() + 10;
    let rest = run.variables(&[("RUSTLE_ROWS", &*end.to_string())]);
    let last = slurm.submit("--ntasks=1", "launch.sbatch", &rest, &[]);
    last.ends("COMPLETED");
    let oracle = sha256(&run.expected(&plan, 0..end));
    assert_eq!(hex::encode(Sha256::digest(run.rows())), oracle);
}
