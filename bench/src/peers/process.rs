//! One Python process that makes rows when asked: a line of JSON each way, as `bench/peers/peer.py` says.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::Duration;

use anyhow::Context;
use plan::Mechanism;
use serde::Deserialize;
use serde_json::{Value, json};

use super::Library;
use super::environment::last_lines;
use crate::cases::Case;

pub struct Peer {
    process: Child,
    output: BufReader<ChildStdout>,
    errors: PathBuf,
}

/// How the library does a case: the rates of all the ways it has, in coordinates a second, and the fastest.
#[derive(Debug, Deserialize)]
pub struct Way {
    pub rates: BTreeMap<String, f64>,
    pub chosen: String,
}

impl Peer {
    /// `errors`: the file that takes what the process writes to standard error.
    pub fn start(python: &Path, runner: &Path, errors: &Path) -> anyhow::Result<Self> {
        let log = fs::File::create(errors).with_context(|| format!("write {}", errors.display()))?;
        let mut process = Command::new(python)
            .arg(runner)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(log)
            .spawn()
            .with_context(|| format!("start {}", python.display()))?;
        let output = BufReader::new(process.stdout.take().context("the peer's output")?);
        Ok(Self { process, output, errors: errors.to_owned() })
    }

    /// Compiles and warms up a case in all its ways, and keeps the fastest.
    pub fn prepare(
        &mut self,
        library: Library,
        case: &Case,
        size: u64,
        threads: usize,
    ) -> anyhow::Result<Way> {
        let mut asked = family(case)?;
        for (field, value) in
            [("library", json!(library.name())), ("dimension", size.into()), ("threads", threads.into())]
        {
            asked[field] = value;
        }
        Ok(serde_json::from_value(self.ask(&json!({ "prepare": asked }))?)?)
    }

    /// Coordinates a second over at least `time`.
    pub fn measure(&mut self, time: Duration) -> anyhow::Result<f64> {
        let answer = self.ask(&json!({ "measure": time.as_secs_f64() }))?;
        answer["coordinates_per_second"].as_f64().with_context(|| format!("the peer answered {answer}"))
    }

    fn ask(&mut self, request: &Value) -> anyhow::Result<Value> {
        let input = self.process.stdin.as_mut().context("the peer's input")?;
        let asked = writeln!(input, "{request}").and_then(|()| input.flush());
        let mut line = String::new();
        let read = asked.and_then(|()| self.output.read_line(&mut line));
        if !matches!(read, Ok(count) if count > 0) {
            let said = fs::read(&self.errors).unwrap_or_default();
            anyhow::bail!("it ended: {}", last_lines(&String::from_utf8_lossy(&said)));
        }
        let answer: Value =
            serde_json::from_str(&line).with_context(|| format!("the peer answered {line:?}"))?;
        match answer["error"].as_str() {
            Some(error) => anyhow::bail!("{}", last_lines(error)),
            None => Ok(answer),
        }
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        // It holds no work worth an orderly end; without this it would outlive an error.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// What the runner needs to know of a mechanism. Error: one it has no way to do.
fn family(case: &Case) -> anyhow::Result<Value> {
    Ok(match &case.mechanism {
        Mechanism::Identity => json!({ "family": "identity" }),
        Mechanism::Tree { .. } => json!({ "family": "tree" }),
        Mechanism::Blt { theta, omega } => json!({ "family": "blt", "theta": theta, "omega": omega }),
        Mechanism::BandToeplitz { coefficients, .. } => {
            json!({ "family": "band-toeplitz", "coefficients": coefficients })
        }
        Mechanism::BandInverse { coefficients } => {
            json!({ "family": "band-inverse", "coefficients": coefficients })
        }
        _ => anyhow::bail!("no peer does {}", case.name),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A runner in the shell's language, which is there wherever these tests run.
    fn peer(script: &str) -> (tempfile::TempDir, Peer) {
        let folder = tempfile::tempdir().unwrap();
        let runner = folder.path().join("runner");
        fs::write(&runner, script).unwrap();
        let peer = Peer::start(Path::new("/bin/sh"), &runner, &folder.path().join("stderr.txt")).unwrap();
        (folder, peer)
    }

    #[test]
    fn answers_and_errors_come_back() {
        let (_folder, mut peer) = peer(
            "read a; echo '{\"coordinates_per_second\": 5.5}'; read a; echo '{\"error\": \"no memory\"}'; read a",
        );
        assert_eq!(peer.measure(Duration::from_secs(1)).unwrap(), 5.5);
        let error = peer.measure(Duration::from_secs(1)).unwrap_err();
        assert!(error.to_string().contains("no memory"), "{error}");
    }

    #[test]
    fn a_peer_that_dies_says_why() {
        let (_folder, mut peer) = peer("read a; echo 'no module named jax' >&2; exit 3");
        let error = peer.measure(Duration::from_secs(1)).unwrap_err();
        assert!(error.to_string().contains("it ended: no module named jax"), "{error}");
    }

    #[test]
    fn coefficients_go_along() {
        let asked = family(&"band-inverse-3".parse().unwrap()).unwrap();
        assert_eq!(asked["coefficients"].as_array().unwrap().len(), 3);
        assert!(family(&"dense-4".parse().unwrap()).is_err());
    }
}
