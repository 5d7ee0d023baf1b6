//! training.sbatch: a training program in Python that comes back to its model, beside other numbers of noise ranks.

use std::fs;

use plan::Mechanism;
use serde_json::Value;
use tests::small_plan;

use crate::{
    cluster::Slurm,
    run::{Run, mpi_folder},
};

const DIMENSION: u64 = 3_700;

fn program(run: &Run, steps: u64) -> Vec<String> {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/slurm/train.py");
    let python = mpi_folder().join("venv/bin/python").display().to_string();
    vec![python, script.to_owned(), run.dir.path().display().to_string(), steps.to_string()]
}

/// The step that the program has come to, saved or not.
fn step(run: &Run) -> u64 {
    fs::read_to_string(run.path("step")).ok().and_then(|text| text.trim().parse().ok()).unwrap_or(0)
}

#[test]
fn a_model_is_the_sum_of_the_oracles_rows_through_a_requeue_and_a_kill() {
    let Some(slurm) = Slurm::start() else { return };
    let plan = small_plan(Mechanism::BandSqrt { bands: 9 }, 1 << 20);
    let run = Run::new(&plan, DIMENSION);
    let variables = run.variables(&[("RUSTLE_CHECKPOINT_EVERY", "10")]);
    let words = program(&run, 1 << 20);
    let first = slurm.submit("--ntasks=2 : --ntasks=2", "training.sbatch", &variables, &words);
    first.wait_for("the program trains", || step(&run) >= 12);
    first.warn();
    first.starts_again(1, &[(1, "NumTasks=3 NumCPUs=3")]);
    let saved: Value = serde_json::from_str(&fs::read_to_string(run.path("saved.json")).unwrap()).unwrap();
    let saved = saved["step"].as_u64().unwrap();
    assert!(saved >= 12, "{saved}");
    first.wait_for("the program trains on", || step(&run) >= saved + 5);
    first.kill_ranks(0);
    first.ends("FAILED");
    assert!(first.output().contains("restored from a checkpoint"), "{}", first.output());

    // Steps that the killed run took are taken again, with the same commitments and the same rows.
    let end = step(&run) + 5;
    let last = slurm.submit("--ntasks=1 : --ntasks=1", "training.sbatch", &variables, &program(&run, end));
    last.ends("COMPLETED");
    let mut model = vec![0f32; DIMENSION as usize];
    for row in run.expected(&plan, 0..end) {
        model.iter_mut().zip(row).for_each(|(value, noise)| *value += noise);
    }
    let bytes: Vec<u8> = model.iter().flat_map(|value| value.to_le_bytes()).collect();
    assert_eq!(fs::read(run.path("model.f32")).unwrap(), bytes);
}
