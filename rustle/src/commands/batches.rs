//! `rustle batches`: the records of every round's batch, as JSON lines.

use std::fs::{self, File};
use std::io::{self, BufReader, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context;
use batches::{BatchError, Batches, Owners, Population, Rounds, SamplingEvent, Seed, Unit, Users};

use self::scheme::SchemeArgs;
use super::harden::harden;
use super::plan_file;
use crate::key_file;
use crate::out_file::{self, Access, OutFile};
use crate::output::{Answer, Format, bad_use};
use crate::progress::Progress;
use crate::values::Span;

mod scheme;

/// Draw batches as the privacy accounts assume them, from a secret seed
#[derive(Clone, Debug, clap::Args)]
pub struct BatchesArgs {
    #[command(flatten)]
    scheme: SchemeArgs,
    /// Number N of records, which are numbered from 0
    #[arg(long, value_name = "N", required_unless_present_any = ["user_sizes", "owners"])]
    #[arg(conflicts_with_all = ["user_sizes", "owners"])]
    population: Option<u64>,
    /// File of the number of records of each user, one per line from user 0 on
    #[arg(long, value_name = "FILE", conflicts_with = "owners")]
    user_sizes: Option<PathBuf>,
    /// File of the owners of each record: a line `record,owner,owner,…` or {"record": N, "owners": [...]} for each;
    /// with --scheme contribution-bound, or poisson with --els
    #[arg(long, value_name = "FILE")]
    owners: Option<PathBuf>,
    /// Number of rounds in the run
    #[arg(long, value_name = "T")]
    iterations: u64,
    /// File of a plan whose participation the batches must keep; others are refused [default: none]
    #[arg(long, value_name = "FILE")]
    plan: Option<PathBuf>,
    /// File of the secret seed from `rustle key new`; not the job's key
    #[arg(long, value_name = "FILE")]
    seed_file: PathBuf,
    /// Rounds a..b, counted from 0 [default: all]
    #[arg(long, value_name = "A..B")]
    rounds: Option<Span>,
    /// File to write, mode 0600; - for standard output
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
}

pub fn run(args: &BatchesArgs, format: Format) -> anyhow::Result<ExitCode> {
    let scheme = args.scheme.scheme()?;
    let population = args.population()?;
    harden()?;
    let seed = Seed::from_bytes(key_file::read(&args.seed_file)?.secret_bytes())?;
    let batches = Batches::new(scheme, population, args.iterations, seed).map_err(bad_use)?;
    if let Some(path) = &args.plan {
        check_plan(path, &batches)?;
    }
    let range = args.rounds.clone().map_or(0..args.iterations, |span| span.0);
    let rounds = batches.rounds(range.clone()).map_err(bad_use)?;
    let named = || format!("write {}", args.out.display());
    out_file::refuse_ending(&args.out, "a line of JSON for each round", &["jsonl", "json"])?;
    let mut out = OutFile::open(&args.out, Access::Owner)?;
    let bar = Progress::bar(range.end - range.start, "rounds");
    let sizes = write(rounds, &mut out, &bar).with_context(named)?;
    out.finish()?;
    drop(bar);
    if out_file::is_stdout(&args.out) {
        // Standard output carries the lines, so no summary follows.
        return Ok(ExitCode::SUCCESS);
    }
    let owners = batches.owner_statistics().map_err(bad_use)?.map(serde_json::to_value).transpose()?;
    let answer = Answer::new()
        .with("out", args.out.display().to_string())
        .with("rounds", format!("{}..{}", range.start, range.end))
        .with("records", sizes.total)
        .with("size_mean", sizes.total as f64 / sizes.rounds as f64)
        .with("size_min", sizes.least)
        .with("size_max", sizes.most)
        .with("event", serde_json::to_value(batches.event())?);
    match owners {
        Some(owners) => answer.with("owners", owners),
        None => answer,
    }
    .print(format)?;
    Ok(ExitCode::SUCCESS)
}

/// Refuses batches in which a unit may take part more often, or at a smaller distance, than a plan's account allows.
fn check_plan(path: &Path, batches: &Batches) -> anyhow::Result<()> {
    let plan = plan_file::read(path)?;
    let rule = plan.participation();
    let event: SamplingEvent = batches.event();
    let drawn = event.participation();
    let unit = match event.unit {
        Unit::Record => "a record",
        Unit::User => "a user",
        Unit::Owner => "an owner",
    };
    if batches.iterations() < plan.iterations() {
        let why = format!("--iterations is {}", batches.iterations());
        return Err(bad_use(format!("{why}; allowed by --plan: {} or more", plan.iterations())));
    }
    let often = drawn.max_participations;
    if often > 1 && drawn.min_sep < rule.min_sep {
        let why = format!("{unit} may return after {} rounds", drawn.min_sep);
        return Err(bad_use(format!("{why}; allowed by --plan: {} (min_sep) or more", rule.min_sep)));
    }
    if often > rule.max_participations {
        let most = rule.max_participations;
        let why = format!("{unit} may take part {often} times");
        return Err(bad_use(format!("{why}; allowed by --plan: {most} (max_participations) or fewer")));
    }
    if drawn.records_per_batch > 1 {
        let why = format!("{unit} may have {} records in a batch", drawn.records_per_batch);
        let instead =
            "allowed by --plan: 1; others have `account plan --records-per-batch`, or `account user-level`";
        return Err(bad_use(format!("{why}; {instead}")));
    }
    Ok(())
}

impl BatchesArgs {
    fn population(&self) -> anyhow::Result<Population> {
        if let Some(path) = &self.owners {
            let named = || format!("owners {}", path.display());
            let file = BufReader::new(File::open(path).with_context(named)?);
            let graph = Owners::read(file).map_err(|error: BatchError| bad_use(error).context(named()))?;
            return Ok(Population::Owners(graph));
        }
        let Some(path) = &self.user_sizes else {
            let records = self.population.filter(|&records| records > 0);
            let records = records.ok_or_else(|| bad_use("--population is 0; allowed: 1 or more records"))?;
            return Ok(Population::Records(records));
        };
        let named = || format!("user sizes {}", path.display());
        let text = fs::read_to_string(path).with_context(named)?;
        if text.trim().is_empty() {
            return Err(bad_use(format!(
                "{} is empty; allowed: a whole number for each user, one per line",
                named()
            )));
        }
        let sizes: Result<Vec<u64>, _> = (1..)
            .zip(text.lines())
            .map(|(line, size)| {
                let why = |error| bad_use(format!("{}, line {line}: {size:?}: {error}", named()));
                size.trim().parse().map_err(why)
            })
            .collect();
        Ok(Population::Users(Users::new(sizes?).map_err(bad_use)?))
    }
}

/// The sizes of the batches, for the summary.
#[derive(Debug, Default)]
struct Sizes {
    rounds: u64,
    total: u64,
    least: u64,
    most: u64,
}

impl Sizes {
    fn add(&mut self, size: u64) {
        self.least = if self.rounds == 0 { size } else { self.least.min(size) };
        self.most = self.most.max(size);
        self.rounds += 1;
        self.total += size;
    }
}

fn write(rounds: Rounds, out: impl Write, bar: &Progress) -> anyhow::Result<Sizes> {
    let mut out = BufWriter::with_capacity(1 << 16, out);
    let mut sizes = Sizes::default();
    for batch in rounds {
        serde_json::to_writer(&mut out, &batch).map_err(io::Error::from)?;
        out.write_all(b"\n")?;
        sizes.add(batch.ids.len() as u64);
        bar.inc(1);
    }
    out.flush()?;
    Ok(sizes)
}
