//! Noise ranks beside training ranks of the same launch.

use tests::{plans, sha256};

use crate::launch::{Job, mpirun, python, training};

const DIMENSION: u64 = 3_700;

fn rows(job: &Job, steps: std::ops::Range<u64>, range: std::ops::Range<u64>) -> String {
    sha256(&job.expected(&plans()[3], steps, range))
}

#[test]
fn training_ranks_in_rust_get_the_same_bytes_sent_and_in_the_window() {
    for (trainers, noise) in [(1, 1), (2, 3)] {
        let job = Job::new(&plans()[3], DIMENSION);
        let sent = mpirun(&[training(trainers, "--steps 0..9"), job.noise(noise, "--serve")]);
        assert_eq!(sent.sha256(), rows(&job, 0..9, 0..DIMENSION), "{trainers} beside {noise}");
        let placed = "--steps 5..20 --range 300..3001 --window";
        let placed = mpirun(&[job.noise(noise, "--serve"), training(trainers, placed)]);
        assert_eq!(placed.sha256(), rows(&job, 5..20, 300..3_001), "{trainers} beside {noise}");
    }
}

#[test]
fn training_ranks_in_python_get_the_same_bytes_in_three_ways() {
    let job = Job::new(&plans()[3], DIMENSION);
    let answer = mpirun(&[python(2, "fetch 6"), job.noise(2, "--serve")]).answer();
    assert_eq!(answer["sha256"], rows(&job, 0..6, 0..DIMENSION));
    assert_eq!(answer["same"], true);
}

#[test]
fn a_row_has_one_commitment_and_a_range_ends_with_the_vector() {
    let job = Job::new(&plans()[3], DIMENSION);
    let answer = mpirun(&[python(2, "refusals 1"), job.noise(2, "--serve")]).answer();
    let refused = ["already_bound", "already_bound", "range", "row", "out", "5", "range_beyond_dimension"]
        .map(String::from);
    assert_eq!(answer["refused"], serde_json::json!(refused));
    assert_eq!(answer["same"], true);
}

#[test]
fn checkpoints_are_written_while_rows_are_served() {
    let job = Job::new(&plans()[3], DIMENSION);
    let served = mpirun(&[training(1, "--steps 0..20"), job.noise(3, "--serve --checkpoint-every 6")]);
    assert_eq!(served.sha256(), rows(&job, 0..20, 0..DIMENSION));
    assert!(served.err.matches("checkpoint written").count() >= 2, "{}", served.err);
    let after = mpirun(&[job.noise(2, "--sha256")]);
    assert!(after.err.contains("restored from a checkpoint"), "{}", after.err);
    assert_eq!(after.sha256(), rows(&job, 20..40, 0..DIMENSION));
}
