//! launch.sbatch where Slurm does not do as it is asked: a node is gone in the middle of it, or it may not be queued
//! again.

use std::{fs, os::unix::fs::PermissionsExt, time::Duration};

use plan::{Mechanism, Plan};
use tests::small_plan;

use crate::{
    cluster::Slurm,
    run::{Run, mpi_folder},
    site::NODES,
};

const DIMENSION: u64 = 3_700;

/// Rows in files, from the first on, are the oracle's.
fn assert_rows(run: &Run, plan: &Plan) {
    let rows = run.expected(plan, 0..run.next_row());
    let bytes: Vec<u8> = rows.iter().flatten().flat_map(|value| value.to_le_bytes()).collect();
    assert!(run.rows() == bytes, "{} rows differ from the oracle's", run.next_row());
}

/// A worker whose ranks wait for each other for twenty seconds, and not for two minutes.
fn impatient(run: &Run) -> String {
    let path = run.path("worker.sh");
    let worker = mpi_folder().join("noise-worker");
    fs::write(&path, format!("#!/bin/sh\nexec {} \"$@\" --time-limit 20s\n", worker.display())).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    path.display().to_string()
}

#[test]
fn a_node_lost_in_the_middle_ends_the_launch_and_the_job_goes_on_without_it() {
    let Some(slurm) = Slurm::start() else { return };
    let plan = small_plan(Mechanism::BandSqrt { bands: 9 }, 1 << 20);
    let run = Run::new(&plan, DIMENSION);
    let worker = impatient(&run);
    let all = run.variables(&[("RUSTLE_FILE_ROWS", "1000000"), ("RUSTLE_NOISE_WORKER", &worker)]);
    let launched = slurm.submit("--nodes=2 --ntasks=3", "launch.sbatch", &all, &[]);
    launched.wait_for("rows are written", || run.writes_rows());
    let script_on = launched.shown("BatchHost");
    let lost = NODES.into_iter().find(|node| *node != script_on).unwrap();
    slurm.lose(lost);
    let said = format!("node {lost} is lost; queued again after 0 restarts");
    launched.wait_for("the script finds the node lost", || launched.output().contains(&said));
    // Of the run that ended: a new one has yet to write its own.
    fs::remove_file(run.path(&format!("rows/{}.npy.partial", run.next_row()))).unwrap();
    // Slurm starts the job as soon as it learns of the node. A request signed within the second in which the other node
    // ended the previous run is refused by that node, and the job would fail.
    launched.wait_for("the run is ended", || launched.shown("JobState") != "RUNNING");
    std::thread::sleep(Duration::from_secs(2));
    slurm.is_down(lost);
    launched.starts_again(1, &[(0, "NumNodes=1 NumTasks=2 NumCPUs=2")]);
    launched.wait_for("rows are written again", || run.writes_rows());
    launched.warn();
    launched.wait_for("the file is finished", || run.next_row() > 0);
    assert_eq!(run.answers()[0]["ranks"], 2);
    assert_rows(&run, &plan);
}

#[test]
fn a_job_that_may_not_be_queued_again_says_so_and_goes_on_when_submitted_again() {
    let Some(slurm) = Slurm::start_with("JobRequeue=0\n") else { return };
    let plan = small_plan(Mechanism::BandSqrt { bands: 9 }, 1 << 20);
    let run = Run::new(&plan, DIMENSION);
    let all = run.variables(&[("RUSTLE_FILE_ROWS", "1000000")]);
    let first = slurm.submit("--ntasks=2 --no-requeue", "launch.sbatch", &all, &[]);
    first.wait_for("rows are written", || run.writes_rows());
    first.warn();
    first.ends("FAILED");
    let said = "Slurm does not requeue this job; submit it again";
    assert!(first.output().contains(said), "{}", first.output());
    let stood = run.next_row();
    assert!(stood > 0, "what was made is in a file");

    let end = stood + 20;
    let rest = run.variables(&[("RUSTLE_ROWS", &*end.to_string())]);
    slurm.submit("--ntasks=1", "launch.sbatch", &rest, &[]).ends("COMPLETED");
    assert_eq!(run.next_row(), end);
    assert_rows(&run, &plan);
}
