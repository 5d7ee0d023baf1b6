//! Launches that can't go well: a clear error, and never a hang.

use tests::{plans, start};

use crate::launch::{Job, mpirun, python, training};

const DIMENSION: u64 = 3_700;

fn the_job() -> Job {
    Job::new(&plans()[3], DIMENSION)
}

#[test]
fn ranks_of_different_plans_keys_or_dimensions_name_each_other() {
    let job = the_job();
    job.write_plan("other.toml", &plans()[0]);
    job.write_key("other.key", *b"zyxwvutsrqponmlkjihgfedcba987654");
    let plan = job.path("plan.toml");
    let key = job.path("job.key");
    let ledger = job.path("ledger.redb");
    let other_plan = job.path("other.toml");
    let other_key = job.path("other.key");
    let before = std::fs::read(&ledger).unwrap();
    let launches = [
        (format!("--plan {other_plan} --key-file {key}"), "rank 2 has the plan"),
        (format!("--plan {plan} --key-file {other_key}"), "rank 2 has the key with commitment"),
        (format!("--plan {plan} --key-file {key} --job another"), "rank 2 has another job"),
        (format!("--plan {plan} --broadcast-key"), "rank 2 has the key with commitment 0000"),
    ];
    for (flags, words) in launches {
        let others = job.bare_noise(1, &format!("{flags} --ledger {ledger} --sha256"));
        let ended = mpirun(&[job.noise(2, "--sha256"), others]);
        ended.failed_with(&["the ranks can't go together", words]);
        assert_eq!(ended.err.matches("can't go together").count(), 1, "{}", ended.err);
        assert!(std::fs::read(&ledger).unwrap() == before, "nothing is written by ranks that disagree");
    }
    let shorter = Job { dimension: 3_000, ..the_job() };
    mpirun(&[job.noise(1, "--sha256"), shorter.noise(1, "--sha256")])
        .failed_with(&["rank 1 has dimension 3000, rank 0 has 3700"]);
}

#[test]
fn more_ranks_than_blocks() {
    let job = Job::new(&plans()[3], 1_000);
    let ended = mpirun(&[job.noise(3, "--sha256")]);
    ended.failed_with(&["noise ranks is 3; allowed: 1 to 2 for dimension 1000"]);
    assert_eq!(ended.err.matches("noise ranks is 3").count(), 1, "{}", ended.err);
}

#[test]
fn ranks_beyond_what_there_is() {
    let job = the_job();
    let beyond = [
        ("--steps 0..2 --range 3000..3701", "range 3000..3701 is beyond the dimension 3700"),
        ("--steps 39..41", "row 40 is beyond the plan's 40 iterations"),
    ];
    for (flags, words) in beyond {
        mpirun(&[training(1, flags), job.noise(2, "--serve")]).failed_with(&[words, "ends the launch"]);
    }
    let unnamed = job.path("x.npy");
    mpirun(&[job.noise(2, &format!("--out {unnamed}"))]).failed_with(&["without --steps and --commitment"]);
    assert!(!std::path::Path::new(&unnamed).with_added_extension("commitment").exists());
    mpirun(&[job.noise(2, "--steps 39..41 --commitment trained --sha256")])
        .failed_with(&["row 40 is beyond the plan's 40 iterations"]);
}

#[test]
fn a_launch_without_the_other_side() {
    let job = the_job();
    mpirun(&[job.noise(2, "--serve")]).failed_with(&["no rank of this launch is a training rank"]);
    mpirun(&[training(2, "--steps 0..2")]).failed_with(&["no rank of this launch is a noise rank"]);
    mpirun(&[training(1, "--steps 0..2"), job.noise(1, "--sha256")])
        .failed_with(&["start the noise ranks with --serve"]);
}

#[test]
fn a_rank_that_never_joins_costs_the_time_limit() {
    let job = the_job();
    let ended = mpirun(&[python(1, "stays_away 0"), job.noise(2, "--serve --time-limit 3s")]);
    ended.failed_with(&["the ranks of the launch, to send their handshakes", "did not come within 3s"]);
}

#[test]
fn a_ledger_that_a_coordinator_holds() {
    let job = the_job();
    let cluster = start(1);
    let ledger = cluster.dir.path().join("coordinator/ledger.redb").display().to_string();
    mpirun(&[job.noise_on(2, &ledger, "--sha256")]).failed_with(&["is held by another process"]);
}

#[test]
fn a_ledger_that_was_never_begun_or_is_lost() {
    let job = the_job();
    let lost = job.path("lost.redb");
    mpirun(&[job.noise_on(2, &lost, "--sha256")])
        .failed_with(&["there is no ledger at", "rustle ledger init"]);
    assert!(!std::path::Path::new(&lost).exists(), "an empty ledger was begun in silence");
}

#[test]
fn files_that_are_missing_or_open_to_others() {
    let job = the_job();
    let plan = job.path("plan.toml");
    let key = job.path("no.key");
    let ledger = job.path("ledger.redb");
    let missing = job.bare_noise(2, &format!("--plan {plan} --key-file {key} --ledger {ledger}"));
    mpirun(&[missing]).failed_with(&["no.key"]);
    let plan = job.path("no.toml");
    let missing = job.bare_noise(2, &format!("--plan {plan} --key-file {key} --ledger {ledger}"));
    mpirun(&[missing]).failed_with(&["no.toml"]);
}
