//! The command behind `make fuzz`, which fuzzes each decoder for some minutes.

use std::{
    fs,
    path::PathBuf,
    process::{Command, ExitCode},
    time::Duration,
};

use anyhow::Context;
use clap::Parser;
use fuzz::{
    Target, engine,
    figures::{Fault, TargetReport, Total},
    side_by_side::{keep, last_input, run_all},
    targets,
};
use indicatif::{ProgressBar, ProgressStyle};

#[derive(Parser)]
#[command(about = "Fuzzes decoders with mutated inputs")]
struct Cli {
    /// Targets to run; all if none is named
    targets: Vec<String>,
    /// CPU minutes for each target
    #[arg(long, default_value_t = 30.0)]
    minutes: f64,
    /// Targets that run at the same time, each in its own process; 0 for one per core
    #[arg(long, default_value_t = 0)]
    jobs: usize,
    /// Seed of the mutations; the current time if not given
    #[arg(long)]
    seed: Option<u64>,
    /// Folder of inputs that once caused a fault, one subfolder per target; new ones are added
    #[arg(long, default_value = concat!(env!("CARGO_MANIFEST_DIR"), "/corpus"))]
    corpus: PathBuf,
    /// Run only these files
    #[arg(long, num_args = 1.., requires = "targets")]
    input: Vec<PathBuf>,
    /// Print the names of all targets
    #[arg(long)]
    list: bool,
    /// Run in this process and print the report as JSON
    #[arg(long, hide = true, requires = "targets")]
    here: bool,
}

fn main() -> anyhow::Result<ExitCode> {
    let cli = Cli::parse();
    if cli.list {
        targets::all().iter().for_each(|target| println!("{}", target.name));
        return Ok(ExitCode::SUCCESS);
    }
    let wanted = wanted(&cli.targets)?;
    if !cli.input.is_empty() {
        for path in &cli.input {
            let input = fs::read(path).with_context(|| format!("read {}", path.display()))?;
            wanted.iter().for_each(|target| println!("{}: {}", target.name, (target.run)(&input)));
        }
        return Ok(ExitCode::SUCCESS);
    }
    let clock = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    let seed = cli.seed.unwrap_or(clock.as_secs());
    if cli.here {
        engine::limit_memory()?;
        // Each fault is reported once, by its message.
        std::panic::set_hook(Box::new(|_| {}));
        for target in &wanted {
            println!("{}", serde_json::to_string(&fuzz_one(target, &cli, seed)?)?);
        }
        return Ok(ExitCode::SUCCESS);
    }
    let total = fuzz_all(&wanted, &cli, seed)?;
    println!("{total}");
    Ok(if total.is_good() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn wanted(names: &[String]) -> anyhow::Result<Vec<Target>> {
    let all = targets::all();
    let known: Vec<_> = all.iter().map(|target| target.name).collect();
    let planted: Vec<_> = targets::self_test().iter().map(|target| target.name).collect();
    for name in names {
        anyhow::ensure!(
            known.contains(&name.as_str()) || planted.contains(&name.as_str()),
            "{name:?} is no target; allowed: {}",
            known.join(", ")
        );
    }
    if names.is_empty() {
        return Ok(all);
    }
    let is_named = |target: &Target| names.iter().any(|name| name == target.name);
    Ok(all.into_iter().chain(targets::self_test()).filter(is_named).collect())
}

fn fuzz_all(wanted: &[Target], cli: &Cli, seed: u64) -> anyhow::Result<Total> {
    let jobs = match cli.jobs {
        0 => std::thread::available_parallelism().map_or(1, usize::from),
        jobs => jobs,
    };
    let names: Vec<_> = wanted.iter().map(|target| target.name).collect();
    println!("seed {seed}, {} targets, {} minutes each, {jobs} at once", names.len(), cli.minutes);
    let program = std::env::current_exe().context("find this program")?;
    let command = |target: &str| {
        let mut command = Command::new(&program);
        command.args(["--here", target, "--minutes", &cli.minutes.to_string(), "--seed", &seed.to_string()]);
        command.arg("--corpus").arg(&cli.corpus);
        command
    };
    let bar = ProgressBar::new(names.len() as u64);
    let style = ProgressStyle::with_template("{bar:30} {pos}/{len} targets, {elapsed}");
    bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
    bar.enable_steady_tick(Duration::from_secs(1));
    let each = |ran: &TargetReport| {
        bar.suspend(|| println!("{ran}"));
        bar.inc(1);
    };
    let all = run_all(&names, jobs, &cli.corpus, command, each)?;
    bar.finish_and_clear();
    Ok(Total::of(&all))
}

fn fuzz_one(target: &Target, cli: &Cli, seed: u64) -> anyhow::Result<TargetReport> {
    let began = used();
    let limit = Duration::from_secs_f64(cli.minutes * 60.0);
    let last = last_input(target.name, std::process::id());
    let kept = engine::kept(&cli.corpus, target);
    let found = engine::run(target, kept, Some(&last), seed, |_| used() - began < limit)?;
    // It remains only if the process ends during a run.
    fs::remove_file(&last)?;
    let fault = match found.fault {
        Some((text, input)) => Some(Fault { text, input: Some(keep(&cli.corpus, target.name, &input)?) }),
        None => None,
    };
    let runs = found.runs;
    let answers = found.answers;
    let seconds = (used() - began).as_secs_f64();
    Ok(TargetReport { target: target.name.into(), runs, answers, seconds, fault })
}

/// Returns the CPU time of this process.
fn used() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}
