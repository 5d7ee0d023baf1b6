//! Tests a job that stops under MPI and resumes under gRPC, and back, with other numbers of ranks: one ledger, the same
//! checkpoints, the same bytes.

use std::time::Duration;

use ledger::Ledger;
use plan::Mechanism;
use proto::{Commitment, Nonce, RowRange, model::OpenBranch};
use rustix::process::Signal;
use tests::{assert_same_bits, expected_in, job, plans, sha256, small_plan, start};

use crate::launch::{Job, Running, mpirun};

const DIMENSION: u64 = 3_700;

#[test]
fn a_job_goes_on_from_launch_to_cluster_and_back() {
    let plan = &plans()[3];
    let name = job("default");
    let job = Job::new(plan, DIMENSION);
    let mut cluster = start(2);
    let ledger = cluster.dir.path().join("coordinator/ledger.redb").display().to_string();

    cluster.cluster.kill_coordinator().unwrap();
    let first = mpirun(&[job.noise_on(4, &ledger, "--steps 0..13 --commitment cli --sha256")]);
    let oracle = expected_in(ledger.as_ref(), &name, plan, 0..40, 0..DIMENSION);
    let rows = |steps: std::ops::Range<usize>| &oracle[steps];
    assert_eq!(first.sha256(), sha256(rows(0..13)));
    assert!(first.answer()["checkpoint"].is_u64(), "{first:?}");

    cluster.cluster.start_coordinator().unwrap();
    cluster.wait_ready(&name);
    let texts = |steps: std::ops::Range<u64>| steps.map(|_| "cli".to_owned()).collect::<Vec<_>>();
    let patience = Duration::from_secs(20);
    let over_grpc = cluster.fetch_bound(&name, 13..25, 0..DIMENSION, texts(13..25), patience).unwrap();
    assert_same_bits(&over_grpc, rows(13..25));
    let log =
        (0..2).map(|index| std::fs::read_to_string(cluster.cluster.worker(index).unwrap().log()).unwrap());
    let log: String = log.collect();
    assert!(log.contains("restored from a checkpoint"), "{log}");
    cluster.runtime.block_on(cluster.client.jobs().checkpoint(&name)).unwrap();

    cluster.cluster.kill_coordinator().unwrap();
    let second = mpirun(&[job.noise_on(7, &ledger, "--steps 25..31 --commitment cli --sha256")]);
    assert_eq!(second.sha256(), sha256(rows(25..31)));
    assert!(second.err.contains("restored from a checkpoint"), "{}", second.err);
    // From where the ledger stands, and rows of before again, under the same commitment.
    let third = mpirun(&[job.noise_on(2, &ledger, "--commitment cli --sha256")]);
    assert_eq!((third.sha256(), &third.answer()["first_row"]), (sha256(rows(31..40)), &31.into()));
    assert!(third.err.contains("restored from a checkpoint"), "{}", third.err);
    let again = mpirun(&[job.noise_on(1, &ledger, "--steps 10..40 --commitment cli --sha256")]);
    assert_eq!(again.sha256(), sha256(rows(10..40)));
    let other = mpirun(&[job.noise_on(2, &ledger, "--steps 12..13 --commitment another --sha256")]);
    other.failed_with(&["row 12 of job default, branch 0, is bound to another commitment"]);
    assert!(!other.out.contains("sha256"), "{}", other.out);

    cluster.cluster.start_coordinator().unwrap();
    cluster.wait_ready(&name);
    let all = cluster.fetch_bound(&name, 0..40, 0..DIMENSION, texts(0..40), patience).unwrap();
    assert_eq!(sha256(&all), sha256(rows(0..40)));
}

#[test]
fn a_signal_stops_a_launch_after_a_row_and_the_next_goes_on_there() {
    // More rows than any machine makes before the signal.
    let job = Job::new(&small_plan(Mechanism::Identity, 1 << 31), 1_300);
    let running = Running::start(&[job.noise(2, "--sha256 --checkpoint-every 100")]);
    running.wait_for("checkpoint written");
    running.signal(Signal::USR1);
    let stopped = running.end().answer();
    let next = stopped["next_row"].as_u64().unwrap();
    assert!(next >= 100 && stopped["checkpoint"].is_u64(), "{stopped}");
    let flags = format!("--steps {next}..{} --sha256", next + 3);
    let on = mpirun(&[job.noise(3, &flags)]);
    assert!(on.err.contains("restored from a checkpoint"), "{}", on.err);
    assert_eq!(on.answer()["rows"], 3);
}

#[test]
fn a_ledger_that_knows_less_than_a_rank_binds_nothing() {
    let job = Job::new(&plans()[3], DIMENSION);
    let flags = format!("--sha256 --state-dir {}", job.path("records"));
    mpirun(&[job.noise(2, &format!("--steps 0..4 {flags}"))]).answer();
    std::fs::copy(job.path("ledger.redb"), job.path("old")).unwrap();
    mpirun(&[job.noise(2, &format!("--steps 4..6 {flags}"))]).answer();
    std::fs::copy(job.path("old"), job.path("ledger.redb")).unwrap();
    let behind = mpirun(&[job.noise(2, &format!("--steps 4..6 --commitment other {flags}"))]);
    behind.failed_with(&["the ledger knows branch 0 up to row 4", "seen branch 0 up to row 6"]);
}

/// The job has gone back, in an old copy of its ledger too; the copy lacks rows of the branch that was left alone.
#[test]
fn an_old_ledger_is_found_by_a_branch_that_was_left_and_stays_as_it_was() {
    let job = Job::new(&plans()[3], DIMENSION);
    let flags = format!("--sha256 --state-dir {}", job.path("records"));
    mpirun(&[job.noise(2, &format!("--steps 0..4 {flags}"))]).answer();
    std::fs::copy(job.path("ledger.redb"), job.path("old")).unwrap();
    mpirun(&[job.noise(2, &format!("--steps 4..6 {flags}"))]).answer();
    let name = tests::job("default");
    for ledger in ["ledger.redb", "old"] {
        let ledger = Ledger::open(job.path(ledger).as_ref()).unwrap();
        let request = OpenBranch { job: name.clone(), from_row: 1, expected_branch: 0, parent: None };
        ledger.open_branch(&request, Nonce::from_bytes([1; 32])).unwrap();
        let row = RowRange { start: 1, end: 2 };
        ledger.bind(&name, 1, row, &[Commitment::of_text("cli")]).unwrap();
    }
    mpirun(&[job.noise(2, &format!("--steps 1..2 --commitment cli {flags}"))]).answer();
    let contents = || {
        let ledger = Ledger::open(job.path("old").as_ref()).unwrap();
        let head = ledger.head(&name).unwrap();
        let shards = ledger.shards(&name).unwrap();
        format!("{head:?} {shards:?} {:?}", ledger.cursor(&name, [0; 32], None).unwrap())
    };
    let before = contents();
    let old = job.path("old");
    let behind = mpirun(&[job.noise_on(3, &old, &format!("--steps 2..3 --commitment other {flags}"))]);
    behind.failed_with(&["the ledger knows branch 0 up to row 4", "rank 0", "seen branch 0 up to row 6"]);
    assert_eq!(contents(), before, "a launch that is refused changes nothing");
}
