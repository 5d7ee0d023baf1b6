//! Jobs that can't go well: a clear error, soon, and never a hang.

use std::{fs, os::unix::fs::PermissionsExt, path::Path, process::Command};

use tempfile::TempDir;
use tests::{plans, program};

use crate::{
    cluster::{Slurm, scripts},
    run::{Run, mpi_folder},
};

#[test]
fn a_script_that_slurm_does_not_run_says_so() {
    for script in ["launch.sbatch", "training.sbatch", "service.sbatch"] {
        let run =
            Command::new("bash").arg(scripts().join(script)).env_remove("SLURM_JOB_ID").output().unwrap();
        let said = String::from_utf8_lossy(&run.stderr);
        assert!(!run.status.success() && said.contains("SLURM_JOB_ID is not set"), "{script}: {said}");
    }
}

#[test]
fn what_is_missing_or_too_much_is_named_and_ends_the_job() {
    let Some(slurm) = Slurm::start() else { return };
    // A run each: two launches on one ledger would refuse each other.
    let mut runs = Vec::new();
    let mut is = |more: &[(&'static str, &str)]| {
        runs.push(Run::new(&plans()[3], 1_000));
        runs[runs.len() - 1].variables(more)
    };
    let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    let rustle = program().display().to_string();
    let folder = TempDir::new().unwrap();
    let apart = without_slurm(&folder.path().join("worker.sh"));
    let unbegun = Run::new(&plans()[3], 1_000);
    fs::remove_file(unbegun.path("ledger.redb")).unwrap();
    let launch = "launch.sbatch";
    let training = "training.sbatch";
    let both = "--ntasks=1 : --ntasks=1";
    let jobs = [
        ("--ntasks=1", launch, vec![], "", "RUSTLE_RUN is not set"),
        ("--ntasks=1", launch, is(&[("RUSTLE_RUN", "/no/such/folder")]), "", "RUSTLE_RUN is no folder"),
        ("--ntasks=1", launch, unbegun.variables(&[]), "", "rustle ledger init --file"),
        ("--ntasks=1", launch, is(&[("RUSTLE_FILE_ROWS", "none")]), "", "RUSTLE_FILE_ROWS is none; allowed"),
        ("--ntasks=1", launch, is(&[("RUSTLE_NOISE_WORKER", &rustle)]), "", "has no command mpi"),
        ("--ntasks=1", launch, is(&[("RUSTLE_DIMENSION", "")]), "", "--dimension is missing"),
        ("--ntasks=1", launch, is(&[("RUSTLE_KEY_FILE", "/no.key")]), "", "/no.key"),
        ("--ntasks=3", launch, is(&[]), "", "noise ranks is 3; allowed: 1 to 2 for dimension 1000"),
        ("--ntasks=2", launch, is(&[("RUSTLE_SRUN_MPI", "none")]), "", "rows 0 to 40 were not made"),
        ("--ntasks=2", launch, is(&[("RUSTLE_NOISE_WORKER", &apart)]), "", "Slurm started 2 tasks"),
        ("--ntasks=1 : --ntasks=1", training, is(&[]), "", "the training program is missing"),
        (both, training, is(&[]), "/no/such/program", "/no/such/program"),
        // A rank that is gone before it has met the others.
        (both, training, is(&[]), "false", "Exited with exit code 1"),
        (both, "service.sbatch", is(&[]), "true", "rustle certs new --workers 1 --job default"),
    ];
    let submit =
        |(options, script, variables, program, _): &(&str, &str, Vec<(&str, String)>, &str, &str)| {
            slurm.submit(options, script, variables, &words(program))
        };
    let submitted: Vec<_> = jobs.iter().map(|job| (submit(job), job.4)).collect();
    for (job, said) in submitted {
        job.ends("FAILED");
        assert!(job.output().contains(said), "{said:?} is not in:\n{}", job.output());
    }
}

#[test]
fn an_srun_that_outlives_its_tasks_does_not_hold_the_nodes() {
    let Some(slurm) = Slurm::start() else { return };
    let folder = TempDir::new().unwrap();
    let real = Command::new("which").arg("srun").output().unwrap();
    let real = String::from_utf8(real.stdout).unwrap();
    // Not that of a node which is only asked whether it lives.
    let hangs = format!("{} \"$@\"\ncase \"$*\" in *--overlap*) ;; *) sleep 1000 ;; esac", real.trim());
    executable(&folder.path().join("srun"), &hangs);
    let run = Run::new(&plans()[3], 1_000);
    let path = format!("{}:{}", folder.path().display(), std::env::var("PATH").unwrap());
    let variables = run.variables(&[("PATH", &path), ("RUSTLE_SLURM_POLL", "1")]);
    let words = ["false".to_owned()];
    let job = slurm.submit("--ntasks=1 : --ntasks=1", "training.sbatch", &variables, &words);
    job.ends("FAILED");
    let said = "none of its tasks is left";
    assert!(job.output().contains(said), "{said:?} is not in:\n{}", job.output());
}

/// A worker whose MPI library knows nothing of Slurm.
fn without_slurm(path: &Path) -> String {
    let worker = mpi_folder().join("noise-worker").display().to_string();
    let hidden =
        "-u SLURM_JOBID -u SLURM_JOB_ID -u SLURM_NODELIST -u SLURM_PROCID -u SLURM_STEP_ID -u SLURM_STEPID";
    // Each task by itself makes Open MPI's folder of the node: two of one node meet there, and one of them may fail.
    let own = "OMPI_MCA_orte_tmpdir_base=$(mktemp -d)";
    executable(path, &format!("exec env {hidden} {own} {worker} \"$@\""));
    path.display().to_string()
}

fn executable(path: &Path, commands: &str) {
    fs::write(path, format!("#!/bin/sh\n{commands}\n")).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
}
