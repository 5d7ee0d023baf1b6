//! `rustle up` watches its processes: it names what ended and why, starts it again where asked to, and does not pretend to run.
#![allow(clippy::unwrap_used)] // a test says best where it stands

use std::fs::{self, File};
use std::io::{BufRead, BufReader, PipeWriter, pipe};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;
use tests::{plans, program};

/// Longest wait for what must happen; generous for a busy machine.
const TIMEOUT: Duration = Duration::from_secs(90);

/// A running `rustle up`, killed when dropped.
struct Up {
    dir: TempDir,
    child: Child,
    url: String,
}

impl Up {
    /// Starts two workers and waits until the job is there.
    fn start(flags: &[&str]) -> Self {
        let dir = TempDir::new().unwrap();
        let plan = dir.path().join("plan.toml");
        fs::write(&plan, plans()[0].to_toml_string().unwrap()).unwrap();
        let mut child = Command::new(program())
            .args(["up", "--format", "json", "--dimension", "4096", "--listen", "127.0.0.1:0", "--plan"])
            .arg(&plan)
            .arg("--data-dir")
            .arg(dir.path().join("data"))
            .args(flags)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(File::create(dir.path().join("said")).unwrap())
            .spawn()
            .unwrap();
        let mut answer = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut answer).unwrap();
        let said = fs::read_to_string(dir.path().join("said")).unwrap();
        let answer: Value = serde_json::from_str(&answer).unwrap_or_else(|_| panic!("no answer: {said}"));
        let url = answer["coordinator"].as_str().unwrap().to_owned();
        let up = Self { dir, child, url };
        up.wait_until("it runs", || up.said().contains("running"));
        up
    }

    fn said(&self) -> String {
        fs::read_to_string(self.dir.path().join("said")).unwrap()
    }

    fn pid(&self, name: &str) -> u64 {
        let file = self.dir.path().join(format!("data/{name}.ready.json"));
        let ready: Value = serde_json::from_slice(&fs::read(file).unwrap()).unwrap();
        ready["pid"].as_u64().unwrap()
    }

    /// Kills a process and waits until its end is reported.
    fn kill(&self, name: &str) {
        let pid = self.pid(name);
        signal("-KILL", pid);
        let report = format!("{name} (process {pid}) has ended: signal: 9 (SIGKILL)");
        self.wait_until("the end is reported", || self.said().contains(&report));
        assert!(self.said().contains(&format!("data/{name}.log")), "{}", self.said());
    }

    fn shards_ready(&self) -> Option<u64> {
        let show = ["job", "show", "--format", "json", "--coordinator", &self.url];
        let output = Command::new(program()).args(show).output().unwrap();
        serde_json::from_slice::<Value>(&output.stdout).ok()?["shards_ready"].as_u64()
    }

    fn wait_until(&self, what: &str, mut happened: impl FnMut() -> bool) {
        let deadline = Instant::now() + TIMEOUT;
        while !happened() {
            assert!(Instant::now() < deadline, "not within {TIMEOUT:?}: {what}:\n{}", self.said());
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    fn end(&mut self) -> ExitStatus {
        let deadline = Instant::now() + TIMEOUT;
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status;
            }
            assert!(Instant::now() < deadline, "it runs on:\n{}", self.said());
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

impl Drop for Up {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn signal(name: &str, pid: u64) {
    assert!(Command::new("kill").args([name, &pid.to_string()]).status().unwrap().success());
}

#[test]
fn it_says_what_ended_and_ends_with_the_last_worker() {
    let mut up = Up::start(&[]);
    // A row that the first screen makes a newcomer bind is lost for the training.
    assert!(up.said().contains("rustle job show") && up.said().contains("rustle.connect"), "{}", up.said());
    assert!(!up.said().contains("fetch"), "{}", up.said());
    up.kill("worker-0");
    up.wait_until("the other worker takes over", || {
        up.said().contains("its shards go to the 1 worker that runs") && up.shards_ready() == Some(2)
    });
    up.kill("worker-1");
    assert_eq!(up.end().code(), Some(1), "{}", up.said());
    assert!(up.said().contains("no worker is left") && up.said().contains("--restart"), "{}", up.said());
}

/// Returns a pipe without a reader.
fn unread() -> PipeWriter {
    let (reader, writer) = pipe().unwrap();
    drop(reader);
    writer
}

#[test]
fn a_reader_that_left_is_a_failure_of_what_binds_rows() {
    let up = Up::start(&[]);
    up.wait_until("both shards are served", || up.shards_ready() == Some(2));
    let file = up.dir.path().join("rows.npy");
    let fetch = |steps: &str, out: &Path| {
        let mut command = Command::new(program());
        command.args(["fetch", "--coordinator", &up.url, "--commitment", "of a test", "--range", "0..4096"]);
        command.args(["--steps", steps, "--out"]).arg(out);
        let output = command.stdin(Stdio::null()).stdout(unread()).stderr(Stdio::piped()).output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{said}");
        said
    };
    let said = fetch("0..1", Path::new("-"));
    assert!(said.contains("rows that were bound count as released"), "{said}");
    let said = fetch("1..2", &file);
    assert!(said.contains("rows.npy is written, and its rows are bound") && file.exists(), "{said}");
}

#[test]
fn it_does_not_run_where_nobody_reads_its_address() {
    let dir = TempDir::new().unwrap();
    let plan = dir.path().join("plan.toml");
    fs::write(&plan, plans()[0].to_toml_string().unwrap()).unwrap();
    let output = Command::new(program())
        .args(["up", "--dimension", "4096", "--listen", "127.0.0.1:0", "--plan"])
        .arg(&plan)
        .arg("--data-dir")
        .arg(dir.path().join("data"))
        .stdin(Stdio::null())
        .stdout(unread())
        .stderr(Stdio::piped())
        .output()
        .unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("the cluster is stopped, and its job stays in"), "{said}");
}

#[test]
fn it_ends_with_its_coordinator() {
    let mut up = Up::start(&[]);
    up.kill("coordinator");
    assert_eq!(up.end().code(), Some(1), "{}", up.said());
    assert!(up.said().contains("without a coordinator"), "{}", up.said());
}

#[test]
fn it_starts_again_what_ended_and_stops_in_order() {
    let mut up = Up::start(&["--restart"]);
    up.wait_until("both shards are served", || up.shards_ready() == Some(2));
    for name in ["worker-1", "coordinator"] {
        let pid = up.pid(name);
        up.kill(name);
        up.wait_until("it runs again", || up.said().contains(&format!("{name} was started again")));
        assert_ne!(up.pid(name), pid);
    }
    up.wait_until("both shards are served again", || up.shards_ready() == Some(2));
    signal("-TERM", up.child.id().into());
    assert_eq!(up.end().code(), Some(0), "{}", up.said());
}

/// Returns whether the process runs: a zombie does not.
fn is_running(pid: &str) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let state = stat.rsplit(") ").next().and_then(|rest| rest.chars().next());
    state.is_some_and(|state| state != 'Z' && state != 'X')
}

#[test]
fn it_ends_all_processes_of_its_command() {
    let mut up = Up::start(&["--exec", "sleep 600 & echo \"running: $!.\" >&2; sleep 600; true"]);
    let said = up.said();
    let (_, rest) = said.split_once("running: ").unwrap();
    let pid = rest.split('.').next().unwrap();
    assert!(is_running(pid), "{said}");
    signal("-TERM", up.child.id().into());
    assert_eq!(up.end().code(), Some(1), "{}", up.said());
    assert!(!is_running(pid), "the command left process {pid} behind:\n{}", up.said());
}

#[test]
fn it_ends_with_the_command_that_it_runs_for() {
    let dir = TempDir::new().unwrap();
    let plan = dir.path().join("plan.toml");
    fs::write(&plan, plans()[0].to_toml_string().unwrap()).unwrap();
    let shown = dir.path().join("shown");
    let command = format!(
        "'{}' job show --format json --job \"$RUSTLE_JOB\" > '{}' && test \"$RUSTLE_URL\" && exit 7",
        program().display(),
        shown.display()
    );
    let output = Command::new(program())
        .args([
            "up",
            "--format",
            "json",
            "--dimension",
            "4096",
            "--listen",
            "127.0.0.1:0",
            "--exec",
            &command,
        ])
        .arg("--plan")
        .arg(&plan)
        .arg("--data-dir")
        .arg(dir.path().join("data"))
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(7), "{said}");
    let shown: Value = serde_json::from_slice(&fs::read(shown).unwrap()).unwrap();
    assert_eq!(
        (&shown["shards"], &shown["shards_served"]),
        (&2.into(), &2.into()),
        "it waits for every shard: {shown}"
    );
    let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
    let url = answer["coordinator"].as_str().unwrap().trim_start_matches("http://").to_owned();
    assert!(std::net::TcpStream::connect(url).is_err(), "the coordinator has ended");
}

/// Copies the files and folders in `from`, as `cp -a` does.
fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), target).unwrap();
        }
    }
}

#[test]
fn on_a_copied_folder_it_says_so_and_ends() {
    let mut up = Up::start(&[]);
    up.wait_until("both shards are served", || up.shards_ready() == Some(2));
    signal("-TERM", up.child.id().into());
    assert!(up.end().success(), "{}", up.said());
    let copied = up.dir.path().join("copied");
    copy(&up.dir.path().join("data"), &copied);
    for more in [&[][..], &["--exec", "true"], &["--wait"]] {
        let started = Instant::now();
        let output = Command::new(program())
            .args(["up", "--dimension", "4096", "--listen", "127.0.0.1:0", "--plan"])
            .arg(up.dir.path().join("plan.toml"))
            .arg("--data-dir")
            .arg(&copied)
            .args(more)
            .stdin(Stdio::null())
            .output()
            .unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(started.elapsed() < TIMEOUT, "{said}");
        assert_eq!((output.status.code(), output.stdout.is_empty()), (Some(1), true), "{more:?}: {said}");
        let file = copied.join("coordinator/ledger.redb");
        let command = format!("`rustle ledger adopt --file {}`", fs::canonicalize(file).unwrap().display());
        for part in ["error: ledger_copied: ", "another file (inode", "(says the ledger itself)", &command] {
            assert!(said.contains(part), "{more:?}: no {part:?} in {said}");
        }
        assert!(!said.contains("running; press"), "{said}");
    }
}
