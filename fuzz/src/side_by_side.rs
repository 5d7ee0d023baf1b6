//! Runs each target in its own process, several at once, so that memory and CPU time are counted for each.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
};

use anyhow::Context;
use sha2::{Digest, Sha256};

use crate::figures::{Fault, TargetReport};

/// Returns the file in which process `id` keeps the input that it is about to run.
pub fn last_input(target: &str, id: u32) -> PathBuf {
    let memory = Path::new("/dev/shm");
    let folder = if memory.is_dir() { memory.to_owned() } else { std::env::temp_dir() };
    folder.join(format!("fuzz-{target}-{id}.last"))
}

pub fn keep(corpus: &Path, target: &str, input: &[u8]) -> anyhow::Result<PathBuf> {
    let folder = corpus.join(target);
    fs::create_dir_all(&folder)?;
    let path = folder.join(hex::encode(&Sha256::digest(input)[..6]));
    fs::write(&path, input)?;
    Ok(path)
}

/// Runs `command` for each target, `jobs` at once, and returns their reports in the order in which they ended. `each` is
/// called with every report as it comes.
pub fn run_all(
    targets: &[&str],
    jobs: usize,
    corpus: &Path,
    command: impl Fn(&str) -> Command + Sync,
    each: impl Fn(&TargetReport) + Sync,
) -> anyhow::Result<Vec<TargetReport>> {
    let next = AtomicUsize::new(0);
    let ended = Mutex::new(Vec::new());
    let work = || -> anyhow::Result<()> {
        while let Some(target) = targets.get(next.fetch_add(1, Ordering::Relaxed)) {
            let ran = run_one(target, corpus, command(target))?;
            let mut ended = ended.lock().unwrap_or_else(PoisonError::into_inner);
            each(&ran);
            ended.push(ran);
        }
        Ok(())
    };
    thread::scope(|scope| {
        let running: Vec<_> = (0..jobs.clamp(1, targets.len().max(1))).map(|_| scope.spawn(work)).collect();
        running.into_iter().try_for_each(|thread| match thread.join() {
            Ok(ended) => ended,
            Err(_) => anyhow::bail!("a thread that waits for a target panicked"),
        })
    })?;
    Ok(ended.into_inner().unwrap_or_else(PoisonError::into_inner))
}

/// Runs one target. Its process prints the report as one line of JSON; where that is missing, an input has ended the
/// process: it ran out of memory or stack, or aborted.
fn run_one(target: &str, corpus: &Path, mut command: Command) -> anyhow::Result<TargetReport> {
    let process = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn();
    let process = process.with_context(|| format!("start a process for {target}"))?;
    let last = last_input(target, process.id());
    let output = process.wait_with_output().with_context(|| format!("wait for {target}"))?;
    if let (true, Ok(ran)) = (output.status.success(), serde_json::from_slice(&output.stdout)) {
        return Ok(ran);
    }
    let input = fs::read(&last).ok().map(|input| keep(corpus, target, &input)).transpose()?;
    let _ = fs::remove_file(&last);
    let text = format!("its process ended ({}); how often it had run is not known", output.status);
    Ok(TargetReport {
        target: target.into(),
        runs: 0,
        answers: 0,
        seconds: 0.0,
        fault: Some(Fault { text, input }),
    })
}
