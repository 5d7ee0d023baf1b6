//! launch.sbatch: rows to files through requeues, preemption and a kill, by another number of ranks each time.

use plan::Mechanism;
use sha2::{Digest, Sha256};
use tests::{job, made_by_noise, on_grid, record_in, sha256, sha256_of_integers, small_plan};

use crate::{cluster::Slurm, run::Run};

const DIMENSION: u64 = 3_700;

#[test]
fn rows_are_the_oracles_through_requeues_and_a_kill_with_other_ranks_each_time() {
    let Some(slurm) = Slurm::start() else { return };
    // More rows than any machine makes before it is stopped.
    let plan = small_plan(Mechanism::BandSqrt { bands: 9 }, 1 << 20);
    let run = Run::new(&plan, DIMENSION);
    let all = run.variables(&[("RUSTLE_FILE_ROWS", "1000000")]);
    let first = slurm.submit("--nodes=2 --ntasks=3", "launch.sbatch", &all, &[]);
    first.wait_for("rows are written", || run.writes_rows());
    first.warn();
    first.starts_again(1, &[(0, "NumTasks=4 NumCPUs=4")]);
    assert!(first.output().contains("queued again after 0 restarts"), "{}", first.output());
    first.wait_for("rows are written again", || run.writes_rows());
    first.preempt();
    first.starts_again(2, &[(0, "NumTasks=2 NumCPUs=2")]);
    first.wait_for("rows are written once more", || run.writes_rows());
    first.kill_ranks(0);
    first.ends("FAILED");
    assert!(first.output().contains("were not made"), "{}", first.output());
    assert!(first.output().contains("restored from a checkpoint"), "{}", first.output());

    // Of the launch that was killed no file is left, but its rows are bound.
    let next = run.next_row();
    let end = next + 100;
    let last = [("RUSTLE_ROWS", &*end.to_string()), ("RUSTLE_FILE_ROWS", "64")];
    let mut other = run.variables(&last);
    other.push(("RUSTLE_COMMITMENT", "another".to_owned()));
    let other = slurm.submit("--ntasks=2", "launch.sbatch", &other, &[]);
    other.ends("FAILED");
    let refused = format!("row {next} of job default, branch 0, is bound to another commitment");
    assert!(other.output().contains(&refused), "{}", other.output());
    slurm.submit("--nodes=2 --ntasks=5", "launch.sbatch", &run.variables(&last), &[]).ends("COMPLETED");
    let kept = std::fs::read_to_string(run.path("commitment")).unwrap();
    assert_eq!(kept.lines().nth(1), Some("complete"));
    // Once more in the same folder: nothing says that it is for the same data.
    let more = [("RUSTLE_ROWS", &*(end + 1).to_string())];
    let once_more = slurm.submit("--ntasks=1", "launch.sbatch", &run.variables(&more), &[]);
    once_more.ends("FAILED");
    assert!(once_more.output().contains("RUSTLE_COMMITMENT"), "{}", once_more.output());

    let ranks: Vec<_> = run.answers().iter().map(|answer| answer["ranks"].as_u64().unwrap()).collect();
    assert_eq!(ranks, [3, 4, 5, 5]);
    let oracle = sha256(&run.expected(&plan, 0..end));
    assert_eq!(hex::encode(Sha256::digest(run.rows())), oracle);
}

#[test]
fn rows_on_a_grid_are_those_of_noise_through_a_requeue_and_a_kill() {
    let Some(slurm) = Slurm::start() else { return };
    let plan = on_grid(&small_plan(Mechanism::BandSqrt { bands: 9 }, 1 << 20), DIMENSION);
    let run = Run::new(&plan, DIMENSION);
    let endless = run.variables(&[("RUSTLE_FILE_ROWS", "1000000")]);
    let first = slurm.submit("--nodes=2 --ntasks=3", "launch.sbatch", &endless, &[]);
    first.wait_for("rows are written", || run.writes_rows());
    first.warn();
    first.starts_again(1, &[(0, "NumTasks=4 NumCPUs=4")]);
    first.wait_for("rows are written again", || run.writes_rows());
    first.kill_ranks(0);
    first.ends("FAILED");
    let end = run.next_row() + 50;
    let last = [("RUSTLE_ROWS", &*end.to_string()), ("RUSTLE_FILE_ROWS", "64")];
    slurm.submit("--nodes=2 --ntasks=5", "launch.sbatch", &run.variables(&last), &[]).ends("COMPLETED");

    let noise_id = record_in(&run.path("ledger.redb"), &job("default")).noise_id();
    let oracle = made_by_noise(run.dir.path(), &noise_id, &plan, 0..end, 0..DIMENSION);
    assert_eq!(hex::encode(Sha256::digest(run.rows())), sha256_of_integers(&oracle));
}
