//! `make fuzz`: each decoder for some minutes.

use std::{
    fs,
    path::{Path, PathBuf},
    process::ExitCode,
    time::Duration,
};

use anyhow::Context;
use clap::Parser;
use fuzz::{Target, engine, targets};
use indicatif::{ProgressBar, ProgressStyle};
use sha2::{Digest, Sha256};

#[derive(Parser)]
#[command(about = "Runs decoders on inputs that nobody meant")]
struct Cli {
    /// Targets; all where none is named
    targets: Vec<String>,
    /// Of a processor, for each target: what else the machine does counts for nothing
    #[arg(long, default_value_t = 1.0)]
    minutes: f64,
    /// Of the changes; the time of day where not given
    #[arg(long)]
    seed: Option<u64>,
    /// Inputs that once broke something, one folder a target; new ones are added
    #[arg(long, default_value = concat!(env!("CARGO_MANIFEST_DIR"), "/corpus"))]
    corpus: PathBuf,
    /// Runs these files alone
    #[arg(long, num_args = 1.., requires = "targets")]
    input: Vec<PathBuf>,
    /// Names of all targets
    #[arg(long)]
    list: bool,
}

fn main() -> anyhow::Result<ExitCode> {
    let cli = Cli::parse();
    let all = targets::all();
    if cli.list {
        all.iter().for_each(|target| println!("{}", target.name));
        return Ok(ExitCode::SUCCESS);
    }
    let names: Vec<_> = all.iter().map(|target| target.name).collect();
    for name in &cli.targets {
        anyhow::ensure!(
            names.contains(&name.as_str()),
            "{name:?} is no target; allowed: {}",
            names.join(", ")
        );
    }
    let is_wanted =
        |target: &&Target| cli.targets.is_empty() || cli.targets.iter().any(|name| name == target.name);
    let wanted: Vec<_> = all.iter().filter(is_wanted).collect();
    for path in &cli.input {
        let input = fs::read(path).with_context(|| format!("read {}", path.display()))?;
        wanted.iter().for_each(|target| println!("{}: {}", target.name, (target.run)(&input)));
    }
    if !cli.input.is_empty() {
        return Ok(ExitCode::SUCCESS);
    }
    engine::limit_memory()?;
    // Faults are reported once, by what they say.
    std::panic::set_hook(Box::new(|_| {}));
    let clock = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    let seed = cli.seed.unwrap_or(clock.as_secs());
    println!("seed {seed}, {} targets, {} minutes each", wanted.len(), cli.minutes);
    let mut is_good = true;
    for target in wanted {
        is_good &= fuzz_one(target, &cli, seed)?;
    }
    Ok(if is_good { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn fuzz_one(target: &Target, cli: &Cli, seed: u64) -> anyhow::Result<bool> {
    let (began, limit) = (used(), Duration::from_secs_f64(cli.minutes * 60.0));
    let memory = Path::new("/dev/shm");
    let folder = if memory.is_dir() { memory.to_owned() } else { std::env::temp_dir() };
    let last = folder.join(format!("fuzz-{}-{}.last", target.name, std::process::id()));
    let bar = ProgressBar::new(limit.as_secs());
    let style = ProgressStyle::with_template("{prefix:14} {bar:30} {pos}/{len} s {msg}");
    bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
    bar.set_prefix(target.name);
    let found = engine::run(target, engine::kept(&cli.corpus, target), Some(&last), seed, |runs| {
        if runs.is_multiple_of(256) {
            bar.set_position((used() - began).as_secs());
        }
        used() - began < limit
    })?;
    bar.finish_and_clear();
    // Left behind only by a process that ended in the middle of a run.
    fs::remove_file(&last)?;
    let each = (used() - began).as_secs_f64();
    println!(
        "{:14} {:>10} runs in {each:.0} s of a processor, {} answers",
        target.name, found.runs, found.answers
    );
    let Some((text, input)) = found.fault else { return Ok(true) };
    let path = keep(&cli.corpus, target, &input)?;
    println!("FAULT in {}: {text}\n  input kept as {}", target.name, path.display());
    Ok(false)
}

/// What of the processors this process has used.
fn used() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

fn keep(corpus: &Path, target: &Target, input: &[u8]) -> anyhow::Result<PathBuf> {
    let folder = corpus.join(target.name);
    fs::create_dir_all(&folder)?;
    let path = folder.join(hex::encode(&Sha256::digest(input)[..6]));
    fs::write(&path, input)?;
    Ok(path)
}
