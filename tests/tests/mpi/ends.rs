//! A rank that fails ends the launch, and nothing is released twice by the next.

use tests::{plans, sha256};

use crate::launch::{App, Job, folder, mpirun, python, training};

const DIMENSION: u64 = 3_700;

#[test]
fn an_exception_ends_the_launch_and_the_next_start_knows_what_was_bound() {
    let plan = &plans()[3];
    let job = Job::new(plan, DIMENSION);
    let failed = mpirun(&[python(2, "fails 5"), job.noise(2, "--serve")]);
    failed.failed_with(&["RuntimeError: no such batch", "ends the launch"]);
    // The first five rows are bound, each to its own step; the job resumes after them.
    for row in [0, 4] {
        let other =
            mpirun(&[training(1, &format!("--steps {row}..5 --commitment x")), job.noise(2, "--serve")]);
        other.failed_with(&[&format!("row {row} of job default, branch 0, is bound to another commitment")]);
    }
    let rest = mpirun(&[job.noise(3, "--sha256")]).answer();
    assert_eq!(rest["first_row"], 5);
    assert_eq!(rest["sha256"], sha256(&job.expected(plan, 5..40, 0..DIMENSION)));
}

#[test]
fn a_panic_ends_the_launch() {
    let program = folder().join("mpi_panic").display().to_string();
    for thread in ["main", "other"] {
        let ended = mpirun(&[App::new(3, &format!("{program} {thread}"))]);
        ended.failed_with(&["rank 1 ends the launch", "a rank that fails on purpose"]);
    }
}

#[test]
fn a_killed_rank_ends_the_launch() {
    let job = Job::new(&plans()[3], DIMENSION);
    let killed = mpirun(&[python(2, "killed 2"), job.noise(2, "--serve")]);
    killed.failed_with(&["signal 9"]);
}
