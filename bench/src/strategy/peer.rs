//! One Python process that optimises and evaluates when asked: a line of JSON each way, as
//! `bench/peers/strategy.py` says, and within a limit.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Context;
use serde::Deserialize;
use serde_json::{Value, json};
use strategy::Strategy;

use super::ours::Losses;
use super::parameters;
use super::setting::Setting;
use crate::peers::environment::last_lines;

pub struct Peer {
    process: Child,
    answers: Receiver<String>,
    errors: PathBuf,
    limit: Duration,
    /// Called while it is waited for.
    waiting: Box<dyn Fn()>,
}

/// What one call took, in seconds.
#[derive(Clone, Copy, Debug, Deserialize)]
pub struct Call {
    pub seconds: f64,
    /// Of them, those in which JAX says that it traced, lowered or compiled.
    pub compiling: f64,
}

/// What came of asking the library to optimise.
pub enum Answer {
    Optimised(Call, Strategy),
    /// It has no such optimiser.
    Absent(String),
}

impl Peer {
    /// `errors`: the file that takes what the process writes to standard error.
    pub fn start(
        python: &Path,
        runner: &Path,
        errors: &Path,
        limit: Duration,
        waiting: Box<dyn Fn()>,
    ) -> anyhow::Result<Self> {
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
        Ok(Self { process, answers, errors: errors.to_owned(), limit, waiting })
    }

    /// Error: also where it takes longer than the limit; it must be started anew then.
    pub fn optimise(&mut self, setting: &Setting) -> anyhow::Result<Answer> {
        let mut case = described(setting);
        case["size"] = setting.kind.size().into();
        case["loss"] = setting.loss.name().into();
        let answer = self.ask(&json!({ "optimise": case }))?;
        if let Some(why) = answer["absent"].as_str() {
            return Ok(Answer::Absent(why.to_owned()));
        }
        let strategy = parameters::read(setting.kind, &answer["parameters"])?;
        Ok(Answer::Optimised(Call::deserialize(answer)?, strategy))
    }

    /// The last setting once more.
    pub fn again(&mut self) -> anyhow::Result<Call> {
        Ok(Call::deserialize(self.ask(&json!({ "again": {} }))?)?)
    }

    /// Losses by plain sums in NumPy.
    pub fn evaluate(&mut self, setting: &Setting, strategy: &Strategy) -> anyhow::Result<Losses> {
        let mut case = described(setting);
        case["parameters"] = parameters::write(strategy)?;
        let answer = self.ask(&json!({ "evaluate": case }))?;
        let number =
            |name: &str| answer[name].as_f64().with_context(|| format!("the peer answered {answer}"));
        Ok(Losses { rms: number("rms")?, max: number("max")?, sensitivity: number("sensitivity")? })
    }

    pub fn ask(&mut self, request: &Value) -> anyhow::Result<Value> {
        let input = self.process.stdin.as_mut().context("the peer's input")?;
        if writeln!(input, "{request}").and_then(|()| input.flush()).is_err() {
            return Err(self.ended());
        }
        let line = self.wait()?;
        let answer: Value =
            serde_json::from_str(&line).with_context(|| format!("the peer answered {line:?}"))?;
        match answer["error"].as_str() {
            Some(error) => anyhow::bail!("{}", last_lines(error)),
            None => Ok(answer),
        }
    }

    fn wait(&self) -> anyhow::Result<String> {
        let start = Instant::now();
        loop {
            let left = self.limit.saturating_sub(start.elapsed());
            match self.answers.recv_timeout(left.min(Duration::from_secs(1))) {
                Ok(line) => return Ok(line),
                Err(RecvTimeoutError::Disconnected) => return Err(self.ended()),
                Err(RecvTimeoutError::Timeout) if left.is_zero() => {
                    anyhow::bail!("no answer in {} s", self.limit.as_secs_f64());
                }
                Err(RecvTimeoutError::Timeout) => (self.waiting)(),
            }
        }
    }

    fn ended(&self) -> anyhow::Error {
        let said = fs::read(&self.errors).unwrap_or_default();
        anyhow::anyhow!("it ended: {}", last_lines(&String::from_utf8_lossy(&said)))
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        // It holds no work worth an orderly end; without this it would outlive an error.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn described(setting: &Setting) -> Value {
    json!({ "family": setting.kind.family(), "n": setting.n, "b": setting.b, "k": setting.k })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A runner in the shell's language, which is there wherever these tests run.
    fn peer(script: &str, limit: Duration) -> (tempfile::TempDir, Peer) {
        let folder = tempfile::tempdir().unwrap();
        let runner = folder.path().join("runner");
        fs::write(&runner, script).unwrap();
        let errors = folder.path().join("stderr.txt");
        let peer = Peer::start(Path::new("/bin/sh"), &runner, &errors, limit, Box::new(|| ())).unwrap();
        (folder, peer)
    }

    fn setting() -> Setting {
        "band-toeplitz-2,n=8".parse().unwrap()
    }

    #[test]
    fn what_it_found_what_it_lacks_and_what_went_wrong_come_back() {
        let script = r#"
            read a; echo '{"seconds": 2.5, "compiling": 2.0, "parameters": {"c": [1.0, 0.5]}}'
            read a; echo '{"absent": "it has none"}'
            read a; echo '{"error": "ValueError: no memory"}'; read a"#;
        let (_folder, mut peer) = peer(script, Duration::from_secs(20));
        let Answer::Optimised(call, strategy) = peer.optimise(&setting()).unwrap() else { panic!("absent") };
        assert_eq!((call.seconds, call.compiling), (2.5, 2.0));
        assert_eq!(strategy, Strategy::BandToeplitz { c: vec![1.0, 0.5], column_normalised: false });
        assert!(matches!(peer.optimise(&setting()).unwrap(), Answer::Absent(why) if why == "it has none"));
        assert!(peer.again().unwrap_err().to_string().contains("no memory"));
    }

    #[test]
    fn a_peer_that_never_answers_is_given_up() {
        let (_folder, mut peer) = peer("read a; read a", Duration::from_millis(50));
        assert_eq!(peer.again().unwrap_err().to_string(), "no answer in 0.05 s");
    }

    #[test]
    fn a_peer_that_dies_says_why() {
        let (_folder, mut peer) = peer("read a; echo 'no module named jax' >&2", Duration::from_secs(20));
        let error = peer.again().unwrap_err();
        assert!(error.to_string().contains("it ended: no module named jax"), "{error}");
    }
}
