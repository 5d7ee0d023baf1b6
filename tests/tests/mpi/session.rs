//! `rustle.connect("mpi://")`: the same session as by every other scheme.

use std::{fs, path::Path};

use ledger::{Event, Ledger, Stamp};
use proto::{Lineage, NoiseId};
use serde_json::Value;
use tests::{expected_of, job, plans, record_in, sha256};

use crate::launch::{Job, mpirun, session};

const DIMENSION: u64 = 3_700;

/// Returns what identifies the noise of each branch, by the ledger's chain of events.
fn noise_ids(ledger: &Path) -> Vec<NoiseId> {
    let name = job("default");
    let job_nonce = record_in(ledger, &name).nonce;
    let mut lineages = vec![Lineage::of_job(job_nonce)];
    for entry in Ledger::open(ledger).unwrap().entries(&name, 0, 10_000, 1 << 24).unwrap() {
        let event: Event = serde_json::from_str(&Stamp::split(&entry.event).unwrap().1).unwrap();
        if let Event::BranchOpened { branch, parent, from_row, nonce, .. } = event {
            let opened = lineages[parent as usize].rewound(from_row, branch, nonce);
            lineages.push(opened);
        }
    }
    lineages.into_iter().map(|lineage| NoiseId { job_nonce, lineage }).collect()
}

fn rows(noise_id: &NoiseId, steps: std::ops::Range<u64>) -> Vec<Vec<f32>> {
    expected_of(noise_id, DIMENSION, &plans()[3], steps, 0..DIMENSION)
}

fn values(file: &Path) -> Vec<f32> {
    fs::read(file).unwrap().as_chunks::<4>().0.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect()
}

/// Checks the noise of a life in session.py: rows of the three branches that it went through, and a sum with noise.
fn assert_noise(ledger: &Path, life: &Value, folder: &Path) {
    let [first, resumed, restarted]: [NoiseId; 3] = noise_ids(ledger).try_into().unwrap();
    let oracle = [(&first, 0..3), (&first, 3..4), (&resumed, 5..9), (&restarted, 2..4), (&restarted, 39..40)];
    let digests = oracle.map(|(noise_id, steps)| sha256(&rows(noise_id, steps)));
    assert_eq!(life["noise"], serde_json::json!(digests), "{}", folder.display());
    let noise = rows(&first, 4..5).remove(0);
    let sums = values(&folder.join("sums.f32"));
    let private = values(&folder.join("private.f32"));
    assert_eq!((sums.len(), private.len()), (noise.len(), noise.len()));
    for ((private, sum), noise) in private.iter().zip(sums).zip(noise) {
        let exact = f64::from(sum) + f64::from(noise) / 7.0;
        assert!((f64::from(*private) - exact).abs() < 1e-6 * (1.0 + exact.abs()), "{private} is not {exact}");
    }
}

#[test]
fn a_session_has_the_same_life_as_in_the_process_itself() {
    for (way, ranks) in [("sent", 1), ("window", 3)] {
        let job_here = Job::new(&plans()[3], DIMENSION);
        let script = session(1, "same", &job_here, way);
        let answer = mpirun(&[script, job_here.noise(ranks, "--serve --checkpoint-every 4")]).answer();
        let by_mpi = answer["by_mpi"]["said"].as_array().unwrap();
        let here = answer["here"]["said"].as_array().unwrap();
        for (index, (theirs, ours)) in by_mpi.iter().zip(here).enumerate() {
            assert_eq!(theirs, ours, "number {index}, {way}");
        }
        assert_eq!((by_mpi.len(), here.len()), (15, 15));
        assert_eq!((&answer["second"], &answer["closed"]), (&"SessionBusy".into(), &"SessionClosed".into()));
        // Each has a ledger, and so noise, of its own.
        let folder = job_here.dir.path();
        assert_noise(&folder.join("ledger.redb"), &answer["by_mpi"], &folder.join("by_mpi"));
        assert_noise(&folder.join("local/ledger.redb"), &answer["here"], &folder.join("here"));
        let refused = |index: usize| by_mpi[index][0].as_str().unwrap();
        let classes = [0, 1, 2, 3, 11].map(refused);
        let names = ["CommitmentRefused", "StepError", "InvalidArgument", "InvalidArgument", "StepError"];
        assert_eq!(classes, names);
        // A row is for one sum, divided by one number.
        assert_eq!([12, 13].map(refused), ["CommitmentRefused"; 2]);
        assert_eq!(by_mpi[14], true);
    }
}

#[test]
fn ranks_share_a_session_and_go_back_together() {
    let job = Job::new(&plans()[3], DIMENSION);
    let answer = mpirun(&[session(2, "ranks", &job, "sent"), job.noise(2, "--serve")]).answer();
    let [first, second]: [NoiseId; 2] = noise_ids(&job.dir.path().join("ledger.redb")).try_into().unwrap();
    let oracle = [rows(&first, 0..3), rows(&second, 1..4)].concat();
    let digests: Vec<_> = oracle.iter().map(|row| sha256(std::slice::from_ref(row))).collect();
    assert_eq!(answer["digests"], serde_json::json!(digests));
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
