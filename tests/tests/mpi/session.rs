//! `rustle.connect("mpi://")`: the same session as by every other scheme.

use tests::{expected, job, plans, sha256};

use crate::launch::{Job, mpirun, session};

const DIMENSION: u64 = 3_700;

#[test]
fn a_session_has_the_same_life_as_in_the_process_itself() {
    for (way, ranks) in [("sent", 1), ("window", 3)] {
        let job_here = Job::new(&plans()[3], DIMENSION);
        let script = session(1, "same", &job_here, way);
        let answer = mpirun(&[script, job_here.noise(ranks, "--serve --checkpoint-every 4")]).answer();
        let by_mpi = answer["by_mpi"].as_array().unwrap();
        let here = answer["here"].as_array().unwrap();
        for (index, (theirs, ours)) in by_mpi.iter().zip(here).enumerate() {
            assert_eq!(theirs, ours, "number {index}, {way}");
        }
        assert_eq!((by_mpi.len(), here.len()), (20, 20));
        assert_eq!((&answer["second"], &answer["closed"]), (&"SessionBusy".into(), &"SessionClosed".into()));
        assert_eq!(by_mpi[0], sha256(&expected(&job("default"), &plans()[3], 0..3, 0..DIMENSION)));
        let refused = |index: usize| by_mpi[index][0].as_str().unwrap();
        let classes = [4, 5, 6, 7, 16].map(refused);
        let names = ["CommitmentRefused", "StepError", "InvalidArgument", "InvalidArgument", "StepError"];
        assert_eq!(classes, names);
        // A row is for one sum, divided by one number.
        assert_eq!([17, 18].map(refused), ["CommitmentRefused"; 2]);
        assert_eq!(by_mpi[19], true);
    }
}

#[test]
fn ranks_share_a_session_and_go_back_together() {
    let job = Job::new(&plans()[3], DIMENSION);
    let answer = mpirun(&[session(2, "ranks", &job, "sent"), job.noise(2, "--serve")]).answer();
    assert_eq!((&answer["same"], &answer["count"]), (&true.into(), &6.into()));
    // A rank that has not heard gets nothing of the branch that the job has left.
    assert_eq!(answer["stale"], serde_json::json!(["BranchSuperseded", "BranchSuperseded"]));
}

#[test]
fn the_next_launch_must_be_told_where_to_go_on() {
    let job = Job::new(&plans()[3], DIMENSION);
    let launch = || mpirun(&[session(1, "again", &job, "sent"), job.noise(2, "--serve")]).answer();
    assert_eq!(launch(), serde_json::json!({ "next_step": 0 }));
    let next = serde_json::json!({ "next_step": 4, "refused": "NotResumed", "opened": true, "branch": 1 });
    assert_eq!(launch(), next);
}
