//! One child process of a local cluster.

use std::{
    fs::{self, File},
    io::Write,
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Stdio},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, bail};
use node::process::ready_file::ReadyFile;
use rustix::process::{Pid, Signal, kill_process};

use super::options::ClusterOptions;

/// Maximum time until a process listens.
const START: Duration = Duration::from_secs(30);

/// Lines of a log shown in an error.
const TAIL: usize = 12;

/// A running process and the addresses it chose. Killed when dropped.
#[derive(Debug)]
pub struct Process {
    name: String,
    child: Child,
    log: PathBuf,
    ready: ReadyFile,
}

impl Process {
    /// Starts the process and waits until it has written its ready file. The key, if any, goes through its standard
    /// input: no argument, environment or file holds it.
    pub fn start(
        options: &ClusterOptions,
        name: &str,
        flags: Vec<String>,
        key: Option<&[u8; 32]>,
    ) -> anyhow::Result<Self> {
        let ClusterOptions { program, dir, environment, .. } = options;
        let log = dir.join(format!("{name}.log"));
        let ready_path = dir.join(format!("{name}.ready.json"));
        ReadyFile::clear(&ready_path)?;
        let output = File::options().create(true).append(true).open(&log)?;
        // What earlier processes wrote is not about this one.
        let earlier = output.metadata()?.len();
        let mut command = Command::new(program);
        // These variables configure the key of this process. They would conflict with the child's --key-fd.
        for name in ["RUSTLE_KEY_FILE", "RUSTLE_KEY_CREDENTIAL", "RUSTLE_KEY_COMMAND", "RUSTLE_KEY_DIR"] {
            command.env_remove(name);
        }
        let mut child = command
            .args(flags)
            .envs(environment.iter().map(|(name, value)| (name, value)))
            .arg("--ready-file")
            .arg(&ready_path)
            .arg("--exit-with-parent")
            .stdin(if key.is_some() { Stdio::piped() } else { Stdio::null() })
            .stdout(Stdio::null())
            .stderr(output)
            .spawn()
            .with_context(|| format!("start {name} ({})", program.display()))?;
        if let (Some(key), Some(mut pipe)) = (key, child.stdin.take()) {
            pipe.write_all(key).with_context(|| format!("give {name} its key"))?;
        }
        let ready = wait_until_ready(name, &mut child, &ready_path, (&log, earlier))?;
        Ok(Self { name: name.to_owned(), child, log, ready })
    }

    pub fn grpc(&self) -> &str {
        &self.ready.grpc
    }

    /// Base URL of /metrics, /livez, /readyz and /status.
    pub fn metrics(&self) -> &str {
        &self.ready.metrics
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Returns whether the process runs. A zombie, which has ended but was not waited for, does not.
    pub fn is_alive(&self) -> bool {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.pid())).unwrap_or_default();
        let state = stat.rsplit(") ").next().and_then(|rest| rest.chars().next());
        state.is_some_and(|state| state != 'Z' && state != 'X')
    }

    /// Returns the status of a process that has ended; `None` while it runs.
    pub fn exit_status(&mut self) -> anyhow::Result<Option<ExitStatus>> {
        self.child.try_wait().with_context(|| format!("look after {}", self.name))
    }

    pub fn log(&self) -> &Path {
        &self.log
    }

    /// Returns the last lines of its log.
    pub fn log_tail(&self, lines: usize) -> String {
        tail(&self.log, lines)
    }

    pub fn kill(mut self) -> anyhow::Result<()> {
        self.child.kill().and_then(|()| self.child.wait()).with_context(|| format!("kill {}", self.name))?;
        Ok(())
    }

    /// Sends SIGTERM and waits. Errors: the process fails, or takes longer than `patience`.
    pub fn stop(mut self, patience: Duration) -> anyhow::Result<()> {
        let pid = Pid::from_child(&self.child);
        kill_process(pid, Signal::TERM).with_context(|| format!("stop {}", self.name))?;
        let deadline = Instant::now() + patience;
        while Instant::now() < deadline {
            match self.child.try_wait()? {
                Some(status) if status.success() => return Ok(()),
                Some(status) => bail!("{} ended with {status}:\n{}", self.name, tail(&self.log, TAIL)),
                None => thread::sleep(Duration::from_millis(10)),
            }
        }
        bail!("{} was still running {patience:?} after SIGTERM", self.name)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn wait_until_ready(
    name: &str,
    child: &mut Child,
    path: &Path,
    (log, earlier): (&Path, u64),
) -> anyhow::Result<ReadyFile> {
    let deadline = Instant::now() + START;
    while Instant::now() < deadline {
        if let Ok(text) = fs::read(path) {
            return serde_json::from_slice(&text).with_context(|| format!("read {}", path.display()));
        }
        if let Some(status) = child.try_wait()? {
            bail!("{name} did not start ({status}): {}", reason(log, earlier));
        }
        thread::sleep(Duration::from_millis(5));
    }
    bail!("{name} did not listen within {START:?}: {}", reason(log, earlier))
}

/// Returns why a process ended: its own error, or else the end of what it logged after the first `earlier` bytes.
fn reason(log: &Path, earlier: u64) -> String {
    let bytes = fs::read(log).unwrap_or_default();
    let own = String::from_utf8_lossy(bytes.get(earlier as usize..).unwrap_or_default()).into_owned();
    match own.rsplit_once("error: ") {
        Some((before, error)) if before.is_empty() || before.ends_with('\n') => error.trim_end().to_owned(),
        _ => format!("see {}; it ends with\n{}", log.display(), last_lines(&own, TAIL)),
    }
}

/// Returns the end of a log, which usually has the reason of a failure.
fn tail(log: &Path, count: usize) -> String {
    let text = fs::read_to_string(log).unwrap_or_default();
    last_lines(&text, count)
}

fn last_lines(text: &str, count: usize) -> String {
    let lines: Vec<_> = text.lines().collect();
    lines[lines.len().saturating_sub(count)..].join("\n")
}
