//! Launches of plans on a grid: the integers that `rustle noise` makes, and never floats.

use std::{fs, ops::Range, path::Path};

use plan::{Mechanism, Plan};
use proto::NoiseId;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;
use tests::{
    answer_of, integers, job, made_by_noise, on_grid, plans, record_in, sha256_of_integers, small_plan,
};

use crate::launch::{Job, Running, mpirun, python, session, training};

const DIMENSION: u64 = 1_300;

fn noise_id(job_here: &Job) -> NoiseId {
    record_in(job_here.path("ledger.redb").as_ref(), &job("default")).noise_id()
}

fn made(job: &Job, plan: &Plan, steps: Range<u64>, range: Range<u64>) -> Vec<Vec<i32>> {
    made_by_noise(job.dir.path(), &noise_id(job), plan, steps, range)
}

fn digest(job: &Job, plan: &Plan, steps: Range<u64>, range: Range<u64>) -> String {
    sha256_of_integers(&made(job, plan, steps, range))
}

#[test]
fn every_mechanism_gives_the_integers_of_noise_by_any_number_of_ranks() {
    for (plan, ranks) in plans().iter().zip([1, 2, 3].into_iter().cycle()) {
        let plan = on_grid(plan, DIMENSION);
        let job = Job::new(&plan, DIMENSION);
        let name = plan.mechanism().name();
        let first = mpirun(&[job.noise(ranks, "--steps 0..5 --commitment a --sha256")]);
        assert_eq!(first.sha256(), digest(&job, &plan, 0..5, 0..DIMENSION), "{name}");
        // From the checkpoint that the launch before wrote, by another number of ranks.
        let flags = format!("--steps 5..9 --commitment a --out {}", job.path("x.npy"));
        let after = mpirun(&[job.noise(ranks % 3 + 1, &flags)]);
        assert!(after.err.contains("restored from a checkpoint"), "{name}: {}", after.err);
        let rows = made(&job, &plan, 5..9, 0..DIMENSION);
        assert_eq!(after.sha256(), sha256_of_integers(&rows), "{name}");
        assert_eq!(integers(Path::new(&job.path("x.npy")), DIMENSION as usize), rows, "{name}");
        let id = noise_id(&job);
        let named = format!("--plan plan.toml --key-file job.key --noise-id {id}");
        let verify = format!("verify {named} --step 7 --range 0..{DIMENSION} --row 2 x.npy");
        assert_eq!(answer_of(job.dir.path(), &verify)["equal"], true, "{name}");
    }
}

#[test]
fn a_launch_that_was_killed_goes_on_with_the_same_integers() {
    // More rows than any machine makes before the kill.
    for mechanism in
        [Mechanism::BandSqrt { bands: 4 }, Mechanism::Blt { theta: vec![0.9, 0.3], omega: vec![0.2, 0.3] }]
    {
        let plan = on_grid(&small_plan(mechanism, 100_000), DIMENSION);
        let name = plan.mechanism().name();
        let job = Job::new(&plan, DIMENSION);
        let running = Running::start(&[job.noise(2, "--commitment a --sha256 --checkpoint-every 20")]);
        running.wait_for("checkpoint written");
        for process in job.processes() {
            kill_process(Pid::from_raw(process as i32).unwrap(), Signal::KILL).unwrap();
        }
        running.end().failed_with(&[]);
        for ranks in [3, 1] {
            let on = mpirun(&[job.noise(ranks, "--steps 3..33 --commitment a --sha256")]);
            assert_eq!(on.sha256(), digest(&job, &plan, 3..33, 0..DIMENSION), "{name}, {ranks} ranks");
        }
    }
}

#[test]
fn training_ranks_get_integers_sent_and_in_the_window_and_never_floats() {
    let plan = on_grid(&plans()[3], DIMENSION);
    let job = Job::new(&plan, DIMENSION);
    let sent = mpirun(&[training(1, "--steps 0..6"), job.noise(2, "--serve")]);
    assert_eq!(sent.sha256(), digest(&job, &plan, 0..6, 0..DIMENSION));
    let placed = mpirun(&[job.noise(3, "--serve"), training(2, "--steps 4..9 --range 300..1200 --window")]);
    assert_eq!(placed.sha256(), digest(&job, &plan, 4..9, 300..1_200));

    let job = Job::new(&plan, DIMENSION);
    let refused = mpirun(&[python(1, "floats_of_a_grid 1"), job.noise(2, "--serve")]).answer();
    let first = "out is float32 of shape (1300,); allowed: contiguous int32 of (1300,): the plan is on a grid, and its rows \
                 are integers";
    assert_eq!(
        refused,
        json!({ "refused": [first, "grid_rows_are_integers", "grid_rows_are_integers"], "bound": 0 })
    );
    let fetched = mpirun(&[python(2, "fetch 6"), job.noise(2, "--serve")]).answer();
    let oracle = digest(&job, &plan, 0..6, 0..DIMENSION);
    assert_eq!((&fetched["sha256"], &fetched["same"]), (&oracle.into(), &true.into()));
}

#[test]
fn a_job_of_floats_hands_out_no_integers() {
    let job = Job::new(&plans()[3], DIMENSION);
    let refused = mpirun(&[python(1, "integers_of_floats 1"), job.noise(2, "--serve")]).answer();
    assert_eq!(refused, json!({ "refused": ["invalid_argument"], "bound": 0 }));
}

/// By the package: rows, a float sum that is rounded to the grid, and a sum of integers.
#[test]
fn a_session_adds_integers_and_goes_back() {
    let plan = on_grid(&plans()[3], DIMENSION);
    let gamma = plan.on_grid().unwrap().grid().step_size();
    for (way, ranks) in [("sent", 1), ("window", 3)] {
        let job = Job::new(&plan, DIMENSION);
        let answer = mpirun(&[session(1, "on_grid", &job, way), job.noise(ranks, "--serve")]).answer();
        let rows = made(&job, &plan, 0..5, 0..DIMENSION);
        assert_eq!(answer["rows"], sha256_of_integers(&rows[..2]), "{way}");
        let noised: Vec<Vec<i32>> =
            rows[2..3].iter().map(|row| row.iter().map(|noise| noise + 7).collect()).collect();
        assert_eq!(answer["released"], sha256_of_integers(&noised), "{way}");
        let read = |name: &str| {
            let bytes = fs::read(job.path(name)).unwrap();
            bytes.as_chunks::<4>().0.iter().map(|value| f32::from_le_bytes(*value)).collect::<Vec<_>>()
        };
        let rounded = |sum: f32| (f64::from(sum) / gamma).round_ties_even();
        let oracle = read("sums.f32").into_iter().zip(&rows[3]);
        let oracle: Vec<f32> =
            oracle.map(|(sum, noise)| ((rounded(sum) + f64::from(*noise)) * gamma) as f32).collect();
        assert_eq!(read("private.f32"), oracle, "{way}");
        assert_eq!((&answer["replayed"], &answer["on_grid"]), (&true.into(), &true.into()), "{way}");
        assert_eq!(answer["refused"], json!(["buffer", "invalid_argument"]), "{way}");
    }
}
