//! Starts launches, and ends those that hang.

use std::{
    fs::{self, File},
    ops::Range,
    os::unix::{fs::PermissionsExt, process::CommandExt},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use plan::Plan;
use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use serde_json::Value;
use tempfile::TempDir;
use tests::{KEY, expected_in, job};

/// A launch that takes longer hangs.
const LONGEST: Duration = Duration::from_secs(100);

/// Returns the folder of the programs that tests/setup/mpi.sh built.
pub fn folder() -> PathBuf {
    let own = || {
        let test = std::env::current_exe().unwrap();
        test.ancestors().nth(3).unwrap().join("mpi")
    };
    let folder = std::env::var_os("RUSTLE_MPI").map_or_else(own, PathBuf::from);
    assert!(folder.join("noise-worker").exists(), "{} is missing: make test-mpi builds it", folder.display());
    folder
}

/// A job's plan, key and ledger, which is begun, in a folder.
pub struct Job {
    pub dir: TempDir,
    pub dimension: u64,
}

impl Job {
    pub fn new(plan: &Plan, dimension: u64) -> Self {
        let job = Self { dir: TempDir::new().unwrap(), dimension };
        job.write_plan("plan.toml", plan);
        job.write_key("job.key", KEY);
        coordinator::init_ledger(job.dir.path()).unwrap();
        job
    }

    pub fn path(&self, name: &str) -> String {
        self.dir.path().join(name).display().to_string()
    }

    /// Returns the rows that the oracle computes of the job in the folder's ledger, once a launch has created it and has
    /// ended.
    pub fn expected(&self, plan: &Plan, steps: Range<u64>, range: Range<u64>) -> Vec<Vec<f32>> {
        expected_in(self.path("ledger.redb").as_ref(), &job("default"), plan, steps, range)
    }

    pub fn write_plan(&self, name: &str, plan: &Plan) {
        fs::write(self.path(name), plan.to_toml_string().unwrap()).unwrap();
    }

    pub fn write_key(&self, name: &str, key: [u8; 32]) {
        fs::write(self.path(name), key).unwrap();
        fs::set_permissions(self.path(name), fs::Permissions::from_mode(0o400)).unwrap();
    }

    /// Noise ranks that run on this folder's key.
    pub fn processes(&self) -> Vec<u32> {
        let key = self.path("job.key");
        let has_key = |pid: &u32| {
            let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            let words: Vec<_> = line.split(|byte| *byte == 0).map(String::from_utf8_lossy).collect();
            words[0].ends_with("noise-worker") && words.contains(&key.as_str().into())
        };
        let names = fs::read_dir("/proc").unwrap().map(|entry| entry.unwrap().file_name());
        names.filter_map(|name| name.to_str()?.parse().ok()).filter(has_key).collect()
    }

    /// Noise ranks on the ledger of this folder.
    pub fn noise(&self, ranks: usize, flags: &str) -> App {
        self.noise_on(ranks, &self.path("ledger.redb"), flags)
    }

    pub fn noise_on(&self, ranks: usize, ledger: &str, flags: &str) -> App {
        let plan = self.path("plan.toml");
        let key = self.path("job.key");
        self.bare_noise(ranks, &format!("--plan {plan} --key-file {key} --ledger {ledger} {flags}"))
    }

    /// Without plan, key and ledger.
    pub fn bare_noise(&self, ranks: usize, flags: &str) -> App {
        let program = folder().join("noise-worker").display().to_string();
        let dimension = self.dimension;
        App::new(ranks, &format!("{program} mpi --dimension {dimension} --threads 1 {flags}"))
    }
}

/// Training ranks in Rust.
pub fn training(ranks: usize, flags: &str) -> App {
    let program = folder().join("noise-worker").display().to_string();
    let named = if flags.contains("--commitment") { "" } else { "--commitment trained" };
    App::new(ranks, &format!("{program} mpi --train {flags} {named}"))
}

/// Training ranks in Python: `train.py` beside this file.
pub fn python(ranks: usize, arguments: &str) -> App {
    let program = folder().join("venv/bin/python").display().to_string();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/mpi/train.py");
    App::new(ranks, &format!("{program} {} {arguments}", script.display()))
}

/// Training ranks that use the package: `session.py` beside this file.
pub fn session(ranks: usize, what: &str, job: &Job, way: &str) -> App {
    let program = folder().join("venv/bin/python").display().to_string();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/mpi/session.py");
    App::new(ranks, &format!("{program} {} {what} {} {way}", script.display(), job.dir.path().display()))
}

/// One program of a launch, and how many ranks of it. Words without spaces.
pub struct App {
    ranks: usize,
    words: Vec<String>,
}

impl App {
    pub fn new(ranks: usize, words: &str) -> Self {
        Self { ranks, words: words.split_whitespace().map(str::to_owned).collect() }
    }
}

#[derive(Debug)]
pub struct LaunchOutput {
    pub success: bool,
    pub out: String,
    pub err: String,
}

impl LaunchOutput {
    /// The line of JSON on standard output.
    #[track_caller]
    pub fn answer(&self) -> Value {
        assert!(self.success, "{}\n{}", self.out, self.err);
        let line = self.out.lines().find(|line| line.starts_with('{'));
        let answer = line.and_then(|line| serde_json::from_str(line).ok());
        answer.unwrap_or_else(|| panic!("no answer: {self:?}"))
    }

    #[track_caller]
    pub fn sha256(&self) -> String {
        self.answer()["sha256"].as_str().unwrap().to_owned()
    }

    /// The launch failed, and said so.
    #[track_caller]
    pub fn failed_with(&self, words: &[&str]) {
        assert!(!self.success, "it went through: {}\n{}", self.out, self.err);
        for word in words {
            assert!(self.err.contains(word), "{word:?} is not in:\n{}\n{}", self.out, self.err);
        }
    }
}

/// Runs the programs as one launch, to its end.
#[track_caller]
pub fn mpirun(apps: &[App]) -> LaunchOutput {
    Running::start(apps).end()
}

/// A launch under way.
pub struct Running {
    child: Child,
    dir: TempDir,
}

impl Running {
    pub fn start(apps: &[App]) -> Self {
        let dir = TempDir::new().unwrap();
        let file = |name: &str| File::create(dir.path().join(name)).unwrap();
        let mut command = Command::new("mpirun");
        command.args(["--oversubscribe", "--bind-to", "none"]);
        for (index, app) in apps.iter().enumerate() {
            if index > 0 {
                command.arg(":");
            }
            command.arg("-n").arg(app.ranks.to_string()).args(&app.words);
        }
        let root = [("OMPI_ALLOW_RUN_AS_ROOT", "1"), ("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1")];
        command.envs(root).env("TMPDIR", dir.path()).env("PYTHONDONTWRITEBYTECODE", "1");
        command.env("PYTHONPATH", folder().join("package"));
        command.stdin(Stdio::null()).stdout(file("out")).stderr(file("err"));
        let child = command.process_group(0).spawn().expect("mpirun: run tests/setup/mpi.sh first");
        Self { child, dir }
    }

    /// Waits until the ranks have printed the text on standard error.
    #[track_caller]
    pub fn wait_for(&self, words: &str) {
        let deadline = Instant::now() + LONGEST;
        while !self.read("err").contains(words) {
            assert!(Instant::now() < deadline, "{words:?} is not in:\n{}", self.read("err"));
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    fn read(&self, name: &str) -> String {
        String::from_utf8_lossy(&fs::read(self.dir.path().join(name)).unwrap()).into_owned()
    }

    /// Sends a signal to `mpirun`, which passes it to all ranks.
    pub fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    #[track_caller]
    pub fn end(mut self) -> LaunchOutput {
        let deadline = Instant::now() + LONGEST;
        let status = loop {
            match self.child.try_wait().unwrap() {
                Some(status) => break Some(status),
                None if Instant::now() > deadline => {
                    let _ = kill_process_group(Pid::from_child(&self.child), Signal::KILL);
                    let _ = self.child.wait();
                    break None;
                }
                None => std::thread::sleep(Duration::from_millis(10)),
            }
        };
        let read =
            |name: &str| String::from_utf8_lossy(&fs::read(self.dir.path().join(name)).unwrap()).into_owned();
        let out = read("out");
        let err = read("err");
        let Some(status) = status else { panic!("the launch hangs:\n{out}\n{err}") };
        LaunchOutput { success: status.success(), out, err }
    }
}
