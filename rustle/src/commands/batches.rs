//! `rustle batches`: who takes part in which round, as JSON lines.

use std::fs;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, ensure};
use batches::{Batches, Partition, Population, Rounds, Scheme, Seed, Users};
use clap::ValueEnum;
use indicatif::ProgressBar;
use tempfile::NamedTempFile;

use super::harden::harden;
use crate::key_file;
use crate::output::{Answer, Format, bad_use};
use crate::values::Span;

/// How records join rounds; each takes the flags named with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum SchemeName {
    /// --sampling-probability
    Poisson,
    /// --bands, --sampling-probability (averaged over rounds), --partition
    CyclicPoisson,
    /// --batches-per-epoch
    BallsInBins,
    /// --min-sep, --sampling-probability (of those free to join), --warm-start
    BMinSep,
    /// --batches-per-epoch, --participations
    RandomAllocation,
    /// --min-sep
    FixedOrder,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum PartitionName {
    /// Assign each record independently
    Independent,
    /// Groups of equal size; not valid for adding or removing records
    EqualSplit,
}

/// Form batches that match the accounting, from a secret seed, as lines of JSON
#[derive(Clone, Debug, clap::Args)]
pub struct BatchesArgs {
    #[arg(long, value_enum)]
    scheme: SchemeName,
    /// Probability with which a record joins a round; from 2^-40 to 1
    #[arg(long, value_name = "Q")]
    sampling_probability: Option<f64>,
    /// Bands of the strategy, which equals the number of groups in cyclic Poisson sampling
    #[arg(long, value_name = "P")]
    bands: Option<u64>,
    /// How cyclic Poisson sampling forms groups [default: independent]
    #[arg(long, value_enum)]
    partition: Option<PartitionName>,
    /// Number of rounds in an epoch
    #[arg(long, value_name = "B")]
    batches_per_epoch: Option<u64>,
    /// Number of rounds that a record joins in each epoch
    #[arg(long, value_name = "K")]
    participations: Option<u64>,
    /// Smallest distance between two rounds of a record
    #[arg(long, value_name = "B")]
    min_sep: Option<u64>,
    /// Start b-min-sep from the stationary distribution instead of with every record eligible
    #[arg(long)]
    warm_start: bool,
    /// Keep N random records of a larger batch; report the padding that a smaller batch needs
    #[arg(long, value_name = "N")]
    cap: Option<u64>,
    /// Sample users, each of whom contributes G freshly drawn records to a round
    #[arg(long, value_name = "G", conflicts_with = "els")]
    uls: Option<u64>,
    /// Sample records, after choosing G of each user once; Poisson only
    #[arg(long, value_name = "G")]
    els: Option<u64>,
    /// Number of records, numbered 0..N
    #[arg(long, value_name = "N", required_unless_present = "user_sizes", conflicts_with = "user_sizes")]
    population: Option<u64>,
    /// File with one number per line: the number of records each user owns, starting with user 0
    #[arg(long, value_name = "FILE")]
    user_sizes: Option<PathBuf>,
    /// Number of rounds in the run
    #[arg(long, value_name = "T")]
    iterations: u64,
    /// Secret seed file: 32 bytes readable only by the owner, as written by `rustle key new`; never the job's key
    #[arg(long, value_name = "FILE")]
    seed_file: PathBuf,
    /// Rounds a..b, counted from 0 [default: all]
    #[arg(long, value_name = "A..B")]
    rounds: Option<Span>,
    /// Output file, or - for standard output; a file is readable only by its owner and appears once complete
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
}

pub fn run(args: &BatchesArgs, format: Format) -> anyhow::Result<ExitCode> {
    let scheme = args.scheme()?;
    let population = args.population()?;
    harden()?;
    let seed = Seed::from_bytes(key_file::read(&args.seed_file)?.secret_bytes())?;
    let batches = Batches::new(scheme, population, args.iterations, seed).map_err(bad_use)?;
    let range = args.rounds.clone().map_or(0..args.iterations, |span| span.0);
    let rounds = batches.rounds(range.clone()).map_err(bad_use)?;
    let bar = ProgressBar::new(range.end - range.start).with_message("rounds");
    if args.out == Path::new("-") {
        // Standard output is the lines' alone.
        write(rounds, io::stdout().lock(), &bar)?;
        return Ok(ExitCode::SUCCESS);
    }
    let sizes = to_file(rounds, &args.out, &bar)?;
    Answer::new()
        .with("out", args.out.display().to_string())
        .with("rounds", format!("{}..{}", range.start, range.end))
        .with("records", sizes.total)
        .with("size_mean", sizes.total as f64 / sizes.rounds as f64)
        .with("size_min", sizes.least)
        .with("size_max", sizes.most)
        .with("event", serde_json::to_value(batches.event())?)
        .print(format)?;
    Ok(ExitCode::SUCCESS)
}

impl BatchesArgs {
    fn scheme(&self) -> anyhow::Result<Scheme> {
        let mut given = Given::of(self);
        let scheme = given.scheme(self.scheme)?;
        match (self.els, scheme) {
            (None, scheme) => {
                given.nothing_left(self.scheme)?;
                let uls = |group_size| Scheme::Uls { group_size, users: Box::new(scheme.clone()) };
                Ok(self.uls.map_or(scheme.clone(), uls))
            }
            (Some(group_size), Scheme::Poisson { sampling_probability, cap: None }) => {
                given.nothing_left(self.scheme)?;
                Ok(Scheme::Els { group_size, sampling_probability })
            }
            (Some(_), _) => Err(bad_use("--els goes with --scheme poisson alone, and without --cap")),
        }
    }

    fn population(&self) -> anyhow::Result<Population> {
        let Some(path) = &self.user_sizes else {
            return Ok(Population::Records(self.population.unwrap_or(0)));
        };
        let named = || format!("user sizes {}", path.display());
        let text = fs::read_to_string(path).with_context(named)?;
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

/// The flags that some schemes take and others don't; a scheme takes its own out.
struct Given {
    sampling_probability: Option<f64>,
    bands: Option<u64>,
    partition: Option<PartitionName>,
    batches_per_epoch: Option<u64>,
    participations: Option<u64>,
    min_sep: Option<u64>,
    warm_start: bool,
    cap: Option<u64>,
}

impl Given {
    fn of(args: &BatchesArgs) -> Self {
        Self {
            sampling_probability: args.sampling_probability,
            bands: args.bands,
            partition: args.partition,
            batches_per_epoch: args.batches_per_epoch,
            participations: args.participations,
            min_sep: args.min_sep,
            warm_start: args.warm_start,
            cap: args.cap,
        }
    }

    fn scheme(&mut self, name: SchemeName) -> anyhow::Result<Scheme> {
        let needed = |flag| move || bad_use(format!("{flag} is missing; {} needs it", word(name)));
        Ok(match name {
            SchemeName::Poisson => Scheme::Poisson {
                sampling_probability: self.sampling_probability.take().ok_or_else(needed(SAMPLING))?,
                cap: self.cap.take(),
            },
            SchemeName::CyclicPoisson => {
                let partition = match self.partition.take() {
                    Some(PartitionName::EqualSplit) => Partition::EqualSplit,
                    Some(PartitionName::Independent) | None => Partition::Independent,
                };
                Scheme::CyclicPoisson {
                    bands: self.bands.take().ok_or_else(needed("--bands"))?,
                    sampling_probability: self.sampling_probability.take().ok_or_else(needed(SAMPLING))?,
                    partition,
                    cap: self.cap.take(),
                }
            }
            SchemeName::BallsInBins => Scheme::BallsInBins {
                batches_per_epoch: self.batches_per_epoch.take().ok_or_else(needed("--batches-per-epoch"))?,
                cap: self.cap.take(),
            },
            SchemeName::BMinSep => Scheme::BMinSep {
                min_sep: self.min_sep.take().ok_or_else(needed("--min-sep"))?,
                sampling_probability: self.sampling_probability.take().ok_or_else(needed(SAMPLING))?,
                warm_start: std::mem::take(&mut self.warm_start),
                cap: self.cap.take(),
            },
            SchemeName::RandomAllocation => Scheme::RandomAllocation {
                batches_per_epoch: self.batches_per_epoch.take().ok_or_else(needed("--batches-per-epoch"))?,
                participations: self.participations.take().ok_or_else(needed("--participations"))?,
                cap: self.cap.take(),
            },
            SchemeName::FixedOrder => {
                Scheme::FixedOrder { min_sep: self.min_sep.take().ok_or_else(needed("--min-sep"))? }
            }
        })
    }

    /// Error: a flag that the scheme has no use for, and that somebody might rely on.
    fn nothing_left(&self, name: SchemeName) -> anyhow::Result<()> {
        let left = [
            (SAMPLING, self.sampling_probability.is_some()),
            ("--bands", self.bands.is_some()),
            ("--partition", self.partition.is_some()),
            ("--batches-per-epoch", self.batches_per_epoch.is_some()),
            ("--participations", self.participations.is_some()),
            ("--min-sep", self.min_sep.is_some()),
            ("--warm-start", self.warm_start),
            ("--cap", self.cap.is_some()),
        ];
        match left.iter().find(|(_, given)| *given) {
            Some((flag, _)) => Err(bad_use(format!("{flag} means nothing to {}", word(name)))),
            None => Ok(()),
        }
    }
}

const SAMPLING: &str = "--sampling-probability";

fn word(name: SchemeName) -> String {
    name.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
}

/// What came out, for the summary.
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

/// Batches are as secret as the seed: the file is of mode 0600, and appears once it is whole.
fn to_file(rounds: Rounds, path: &Path, bar: &ProgressBar) -> anyhow::Result<Sizes> {
    let named = || format!("batches {}", path.display());
    ensure!(!path.is_dir(), "{}: is a folder; allowed: a file", named());
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let file = NamedTempFile::new_in(folder).with_context(named)?;
    let sizes = write(rounds, file.as_file(), bar).with_context(named)?;
    file.as_file().sync_all().with_context(named)?;
    file.persist(path).with_context(named)?;
    Ok(sizes)
}

fn write(rounds: Rounds, out: impl Write, bar: &ProgressBar) -> anyhow::Result<Sizes> {
    let mut out = BufWriter::with_capacity(1 << 16, out);
    let mut sizes = Sizes::default();
    for batch in rounds {
        serde_json::to_writer(&mut out, &batch)?;
        out.write_all(b"\n")?;
        sizes.add(batch.ids.len() as u64);
        bar.inc(1);
    }
    out.flush()?;
    bar.finish_and_clear();
    Ok(sizes)
}
