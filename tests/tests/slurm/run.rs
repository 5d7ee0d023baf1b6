//! The folder of a run, as docs/slurm.md says: a plan, a key, a new ledger, and what becomes of them.

use std::{fs, ops::Range, os::unix::fs::PermissionsExt, path::PathBuf};

use plan::Plan;
use serde_json::Value;
use tempfile::TempDir;
use tests::{KEY, expected_in, job, program};

/// Bytes before the values of a .npy file.
const HEADER: usize = 128;

pub struct Run {
    pub dir: TempDir,
    pub dimension: u64,
}

impl Run {
    pub fn new(plan: &Plan, dimension: u64) -> Self {
        let run = Self { dir: TempDir::new().unwrap(), dimension };
        fs::write(run.path("plan.toml"), plan.to_toml_string().unwrap()).unwrap();
        fs::write(run.path("job.key"), KEY).unwrap();
        fs::set_permissions(run.path("job.key"), fs::Permissions::from_mode(0o400)).unwrap();
        coordinator::init_ledger(run.dir.path()).unwrap();
        run
    }

    /// Returns whole rows as the oracle computes them for the run's job, once no process holds its ledger.
    pub fn expected(&self, plan: &Plan, rows: Range<u64>) -> Vec<Vec<f32>> {
        expected_in(&self.path("ledger.redb"), &job("default"), plan, rows, 0..self.dimension)
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Returns the variables that a user sets, and the paths of the programs.
    pub fn variables(&self, more: &[(&'static str, &str)]) -> Vec<(&'static str, String)> {
        let own = [
            ("RUSTLE_RUN", self.dir.path().display().to_string()),
            ("RUSTLE_DIMENSION", self.dimension.to_string()),
            ("RUSTLE_NOISE_WORKER", mpi_folder().join("noise-worker").display().to_string()),
            ("RUSTLE_PROGRAM", program().display().to_string()),
        ];
        own.into_iter().chain(more.iter().map(|(name, value)| (*name, value.to_string()))).collect()
    }

    /// Returns the reports of the launches about finished files.
    pub fn answers(&self) -> Vec<Value> {
        let text = fs::read_to_string(self.path("rows/answers.jsonl")).unwrap_or_default();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    pub fn next_row(&self) -> u64 {
        self.answers().last().map_or(0, |answer| answer["next_row"].as_u64().unwrap())
    }

    /// Returns whether rows are in the file that begins where the last one ended.
    pub fn writes_rows(&self) -> bool {
        let file = self.path(&format!("rows/{}.npy.partial", self.next_row()));
        fs::metadata(file).is_ok_and(|file| file.len() > HEADER as u64)
    }

    /// All values in all files, as bytes; they follow on each other without a gap.
    pub fn rows(&self) -> Vec<u8> {
        let mut next = 0;
        let mut rows = Vec::new();
        for answer in self.answers() {
            assert_eq!(answer["first_row"], next, "{:?}", self.answers());
            next = answer["next_row"].as_u64().unwrap();
            let file = fs::read(answer["out"].as_str().unwrap()).unwrap();
            rows.extend_from_slice(&file[HEADER..]);
        }
        rows
    }
}

/// Returns the folder of the worker with MPI and its Python, from `make test-slurm`.
pub fn mpi_folder() -> PathBuf {
    let own = || std::env::current_exe().unwrap().ancestors().nth(3).unwrap().join("mpi");
    let folder = std::env::var_os("RUSTLE_MPI").map_or_else(own, PathBuf::from);
    assert!(
        folder.join("noise-worker").exists(),
        "{} is missing: make test-slurm builds it",
        folder.display()
    );
    folder
}
