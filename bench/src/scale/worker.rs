//! Worker processes side by side: each makes one shard with one thread, all start at the same time.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::Context;

use super::Settings;
use crate::arguments::{self, Compute};
use crate::cases::Case;
use crate::job::Job;

/// What a worker says once its memory is touched and it waits for the start.
const READY: &str = "ready";

#[derive(clap::Args, Debug)]
pub struct Args {
    #[command(flatten)]
    compute: Compute,
    #[arg(long)]
    case: Case,
    /// First coordinate of the shard, and the first after it
    #[arg(long)]
    start: u64,
    #[arg(long)]
    end: u64,
    #[arg(long, value_parser = arguments::positive)]
    rows: usize,
    #[arg(long, value_parser = arguments::seconds)]
    seconds: f64,
}

/// Says "ready", and for each line that comes in measures once and answers with coordinates a second.
pub fn run(args: &Args) -> anyhow::Result<()> {
    let backend = args.compute.backend()?;
    anyhow::ensure!(args.start < args.end, "--start {} --end {}; allowed: start < end", args.start, args.end);
    args.compute.install(|| {
        let mut job = Job::new(&args.case, args.start..args.end, args.rows, backend)?;
        println!("{READY}");
        for line in std::io::stdin().lock().lines() {
            line.context("read the start")?;
            println!("{}", job.rate(Duration::from_secs_f64(args.seconds))?);
        }
        Ok(())
    })
}

/// Coordinates a second of all of `count` workers together.
pub fn side_by_side(settings: &Settings, count: usize, coordinates: u64) -> anyhow::Result<f64> {
    let mut workers = Vec::with_capacity(count);
    for index in 0..count {
        workers.push(Worker::spawn(settings, shard(coordinates, index, count))?);
    }
    for worker in &mut workers {
        let said = worker.line()?;
        anyhow::ensure!(said == READY, "a worker said \"{said}\"; allowed: {READY}");
    }
    for worker in &mut workers {
        worker.start()?;
    }
    let mut total = 0.0;
    for worker in workers {
        total += worker.finish()?;
    }
    Ok(total)
}

/// Shard `index` of `count`, cut at whole blocks of 512; there are at least as many blocks as shards.
fn shard(coordinates: u64, index: usize, count: usize) -> std::ops::Range<u64> {
    let cut = |index: usize| {
        if index == count { coordinates } else { (coordinates / 512) * index as u64 / count as u64 * 512 }
    };
    cut(index)..cut(index + 1)
}

struct Worker {
    process: Child,
    output: BufReader<std::process::ChildStdout>,
}

impl Worker {
    fn spawn(settings: &Settings, range: std::ops::Range<u64>) -> anyhow::Result<Self> {
        let this = std::env::current_exe().context("find this program")?;
        let backend = settings.compute.backend.to_string();
        let mut process = Command::new(this)
            .args(["worker", "--threads", "1", "--backend", &backend, "--case", &settings.case.name])
            .args(["--start", &range.start.to_string(), "--end", &range.end.to_string()])
            .args(["--rows", &settings.rows.to_string()])
            .args(["--seconds", &settings.time.as_secs_f64().to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .context("start a worker")?;
        let output = BufReader::new(process.stdout.take().context("a worker's output")?);
        Ok(Self { process, output })
    }

    fn line(&mut self) -> anyhow::Result<String> {
        let mut line = String::new();
        let read = self.output.read_line(&mut line).context("read from a worker")?;
        anyhow::ensure!(read > 0, "a worker ended before it had answered");
        Ok(line.trim_end().to_owned())
    }

    fn start(&mut self) -> anyhow::Result<()> {
        let input = self.process.stdin.as_mut().context("a worker's input")?;
        input.write_all(b"\n").and_then(|()| input.flush()).context("start a worker")
    }

    /// What it measured. It ends when its input does.
    fn finish(mut self) -> anyhow::Result<f64> {
        let line = self.line()?;
        drop(self.process.stdin.take());
        self.process.wait().context("wait for a worker")?;
        line.parse().with_context(|| format!("a worker said \"{line}\"; allowed: a number"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shards_cover_all_coordinates_once_at_whole_blocks() {
        for (coordinates, count) in [(512, 1), (10_000, 3), (512 * 7 + 5, 7)] {
            let shards: Vec<_> = (0..count).map(|index| shard(coordinates, index, count)).collect();
            assert_eq!((shards[0].start, shards[count - 1].end), (0, coordinates));
            assert!(shards.iter().all(|shard| !shard.is_empty() && shard.start % 512 == 0), "{shards:?}");
            assert!(shards.windows(2).all(|pair| pair[0].end == pair[1].start), "{shards:?}");
        }
    }
}
