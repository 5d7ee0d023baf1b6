//! A Python process that answers when asked: a line of JSON each way, as the scripts in `bench/peers` say, and within a
//! limit.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Context;
use serde_json::Value;

use super::environment::{Environment, last_lines};

/// Started when it is first needed, and again after it gave no answer of use: it may have ended, or be busy still with
/// what took too long.
pub struct Python {
    python: PathBuf,
    runner: PathBuf,
    /// The file that takes what the process writes to standard error.
    errors: PathBuf,
    /// Called while it is waited for.
    waiting: Box<dyn Fn() + Send>,
    running: Option<Running>,
}

struct Running {
    process: Child,
    answers: Receiver<String>,
}

impl Python {
    /// Runs `script`, which is written to the environment under this name.
    pub fn new(
        environment: &Environment,
        name: &str,
        script: &str,
        waiting: Box<dyn Fn() + Send>,
    ) -> anyhow::Result<Self> {
        let runner = environment.folder().join(name);
        fs::write(&runner, script).with_context(|| format!("write {}", runner.display()))?;
        let errors = environment.folder().join("stderr.txt");
        Ok(Self { python: environment.python(), runner, errors, waiting, running: None })
    }

    /// Returns the answer. Fails also where it takes longer than the limit.
    pub fn ask(&mut self, request: &Value, limit: Duration) -> anyhow::Result<Value> {
        let mut running = match self.running.take() {
            Some(running) => running,
            None => Running::start(&self.python, &self.runner, &self.errors)?,
        };
        let line = self.answer(&mut running, request, limit)?;
        let answer: Value =
            serde_json::from_str(&line).with_context(|| format!("the peer answered {line:?}"))?;
        if let Some(error) = answer["error"].as_str() {
            anyhow::bail!("{}", last_lines(error));
        }
        self.running = Some(running);
        Ok(answer)
    }

    fn answer(&self, running: &mut Running, request: &Value, limit: Duration) -> anyhow::Result<String> {
        let input = running.process.stdin.as_mut().context("the peer's input")?;
        if writeln!(input, "{request}").and_then(|()| input.flush()).is_err() {
            return Err(self.ended());
        }
        let start = Instant::now();
        loop {
            let left = limit.saturating_sub(start.elapsed());
            match running.answers.recv_timeout(left.min(Duration::from_secs(1))) {
                Ok(line) => return Ok(line),
                Err(RecvTimeoutError::Disconnected) => return Err(self.ended()),
                Err(RecvTimeoutError::Timeout) if left.is_zero() => {
                    anyhow::bail!("no answer in {} s", limit.as_secs_f64());
                }
                Err(RecvTimeoutError::Timeout) => (self.waiting)(),
            }
        }
    }

    fn ended(&self) -> anyhow::Error {
        let errors = fs::read(&self.errors).unwrap_or_default();
        anyhow::anyhow!("it ended: {}", last_lines(&String::from_utf8_lossy(&errors)))
    }
}

impl Running {
    fn start(python: &Path, runner: &Path, errors: &Path) -> anyhow::Result<Self> {
        let log = fs::File::create(errors).with_context(|| format!("write {}", errors.display()))?;
        let mut process = Command::new(python)
            .arg(runner)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(log)
            .spawn()
            .with_context(|| format!("start {}", python.display()))?;
        let output = BufReader::new(process.stdout.take().context("the peer's output")?);
        let (send, answers) = mpsc::channel();
        // Ends with the process, whose output is then at its end.
        thread::spawn(move || output.lines().map_while(Result::ok).try_for_each(|line| send.send(line)));
        Ok(Self { process, answers })
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // It holds no work worth an orderly end; without this it would outlive an error.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

#[cfg(test)]
pub mod tests {
    use serde_json::json;

    use super::*;

    /// A runner in the shell's language, which is there wherever these tests run.
    pub fn peer(script: &str) -> (tempfile::TempDir, Python) {
        let folder = tempfile::tempdir().unwrap();
        let runner = folder.path().join("runner");
        fs::write(&runner, script).unwrap();
        let errors = folder.path().join("stderr.txt");
        let python =
            Python { python: "/bin/sh".into(), runner, errors, waiting: Box::new(|| ()), running: None };
        (folder, python)
    }

    fn refusal(script: &str, limit: Duration) -> String {
        let (_folder, mut peer) = peer(script);
        peer.ask(&json!({}), limit).unwrap_err().to_string()
    }

    #[test]
    fn answers_and_errors_come_back() {
        let limit = Duration::from_secs(20);
        let (_folder, mut peer) = peer("read a; echo '{\"rate\": 5.5}'; read a");
        assert_eq!(peer.ask(&json!({}), limit).unwrap(), json!({ "rate": 5.5 }));
        assert!(refusal("read a; echo '{\"error\": \"no memory\"}'; read a", limit).contains("no memory"));
    }

    #[test]
    fn a_peer_that_never_answers_is_given_up() {
        assert_eq!(refusal("read a; read a", Duration::from_millis(50)), "no answer in 0.05 s");
    }

    #[test]
    fn a_peer_that_dies_says_why() {
        let script = "read a; echo 'no module named jax' >&2; exit 3";
        let error = refusal(script, Duration::from_secs(20));
        assert!(error.contains("it ended: no module named jax"), "{error}");
    }
}
