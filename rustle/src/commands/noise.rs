//! `rustle noise`: generates rows in this process and writes them to an .npy file.

mod rows;

use std::ops::Range;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context;
use node::process::rng;
use noise_kernel::grid::{GridGenerator, GridMechanism};
use noise_kernel::{BLOCK, Backend, Generator, Stream};
use proto::NoiseId;
use rayon::ThreadPool;

use self::rows::{IidRows, RowSource};
use super::branch::{Branch, BranchArgs, within};
use crate::npy::{NpyWriter, Number};
use crate::out_file;
use crate::output::{Answer, Format, bad_use};
use crate::progress::Progress;
use crate::streams;
use crate::values::Span;

#[derive(Clone, Debug, clap::Args)]
pub struct NoiseArgs {
    #[command(flatten)]
    branch: BranchArgs,
    /// Noise id of rows to make again, as `rustle job show` or an earlier call prints it [default: new noise, under a
    /// nonce that is drawn and printed]
    #[arg(long, value_name = "ID")]
    noise_id: Option<NoiseId>,
    /// Rows a..b, counted from 0
    #[arg(long, value_name = "A..B")]
    steps: Span,
    /// Coordinates a..b, counted from 0 [default: all]
    #[arg(long, value_name = "A..B")]
    range: Option<Span>,
    /// Write Z instead of σζ·C⁻¹Z; of a tree, the nodes that these steps complete
    #[arg(long)]
    iid: bool,
    /// Number of threads, from 1 to 4096 [default: one per core]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=4096))]
    threads: Option<u16>,
    /// Instruction set: auto, portable, avx2, avx512 or neon
    #[arg(long, default_value = "auto")]
    backend: Backend,
    /// The .npy file to write, of shape (rows, coordinates): float32, or int32 where the plan is on a grid; - for standard output
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
}

pub fn run(args: &NoiseArgs, format: Format) -> anyhow::Result<ExitCode> {
    let start = Instant::now();
    let noise_id = match &args.noise_id {
        Some(noise_id) => noise_id.clone(),
        // No two calls make the same noise unless the second names what the first drew.
        None => NoiseId::of_job(rng::nonce().context("draw a nonce")?),
    };
    let branch = args.branch.open(&noise_id)?;
    let dimension = branch.dimension;
    let range = args.range.clone().map_or(0..dimension, |span| span.0);
    within("--range", &range, dimension, "the dimension")?;
    let steps = args.steps.0.clone();
    within("--steps", &steps, branch.plan.iterations(), "the plan's iterations")?;
    let threads = args.threads.map_or(0, usize::from);
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().context("start threads")?;
    let job = NoiseJob { args, branch, noise_id, steps, range, pool };
    let written = match job.branch.grid()? {
        None => job.floats()?,
        Some(_) if args.iid => {
            return Err(bad_use(
                "--iid is for plans without [grid]; allowed: none, a plan on a grid has rows alone",
            ));
        }
        Some(mechanism) => job.integers(mechanism)?,
    };
    if out_file::is_stdout(&args.out) {
        return Ok(ExitCode::SUCCESS);
    }
    let coordinates = job.coordinates();
    let seconds_making = written.making.as_secs_f64();
    Answer::new()
        .with("out", args.out.display().to_string())
        .with("noise_id", job.noise_id.to_string())
        .with("mechanism", job.branch.plan.mechanism().name())
        .with("element", written.element)
        .with("iid", args.iid)
        .with("rows", written.rows)
        .with("coordinates", coordinates)
        .with("sha256", hex::encode(written.digest))
        .with("seconds", start.elapsed().as_secs_f64())
        .with("seconds_making", seconds_making)
        .with("coordinates_per_second", written.rows as f64 * coordinates as f64 / seconds_making)
        .print(format)?;
    Ok(ExitCode::SUCCESS)
}

/// What one call makes.
struct NoiseJob<'a> {
    args: &'a NoiseArgs,
    branch: Branch,
    noise_id: NoiseId,
    steps: Range<u64>,
    range: Range<u64>,
    pool: ThreadPool,
}

/// What was written.
struct Written {
    element: &'static str,
    rows: u64,
    making: Duration,
    digest: [u8; 32],
}

impl NoiseJob<'_> {
    fn coordinates(&self) -> u64 {
        self.range.end - self.range.start
    }

    fn floats(&self) -> anyhow::Result<Written> {
        let Branch { plan, keys, rounds, .. } = &self.branch;
        let coefficients = self.branch.coefficients()?;
        let stream = Stream::of_rows(keys, &coefficients, *rounds);
        let stream = stream.with_backend(self.args.backend).map_err(bad_use)?;
        if self.args.iid {
            let streams = plan.streams(self.steps.clone());
            let mut source = IidRows { stream, next: streams.start, offset: self.range.start };
            return self.write("float32", streams.end - streams.start, &mut source);
        }
        room_for_state(plan.state_slots(), 4, self.coordinates())?;
        let n = plan.iterations();
        let mut generator = Generator::new(stream, coefficients, n, plan.scale(), self.range.clone())?;
        let is_stateless = generator.slots() == 0;
        self.replay(|row| {
            let count = if is_stateless { self.steps.start } else { (self.steps.start - row).min(64) };
            generator.skip(count)?;
            Ok(generator.next_row())
        })?;
        self.write("float32", self.steps.end - self.steps.start, &mut generator)
    }

    fn integers(&self, mechanism: Arc<GridMechanism>) -> anyhow::Result<Written> {
        let stream = mechanism.stream(&self.branch.keys, self.branch.rounds);
        let stream = stream.with_backend(self.args.backend).map_err(bad_use)?;
        // A buffer of a BLT is a binary64, all else an integer of 32 bits.
        room_for_state(mechanism.slots(), 8, self.coordinates())?;
        let mut generator = GridGenerator::new(stream, mechanism, self.range.clone())?;
        self.replay(|row| {
            generator.skip((self.steps.start - row).min(64))?;
            Ok(generator.next_row())
        })?;
        self.write("int32", self.steps.end - self.steps.start, &mut generator)
    }

    /// Brings a generator's state to the first row; `skip` takes the next row, skips some, and returns the next.
    fn replay(&self, mut skip: impl FnMut(u64) -> anyhow::Result<u64> + Send) -> anyhow::Result<()> {
        let bar = Progress::bar(self.steps.start, "rows replayed");
        let mut row = 0;
        while row < self.steps.start {
            row = self.pool.install(|| skip(row))?;
            bar.set_position(row);
        }
        Ok(())
    }

    fn write<T: Number>(
        &self,
        element: &'static str,
        rows: u64,
        source: &mut dyn RowSource<T>,
    ) -> anyhow::Result<Written> {
        let NoiseArgs { out, noise_id, .. } = self.args;
        let mut writer = NpyWriter::create(out, rows, self.coordinates())?;
        if out_file::is_stdout(out) && noise_id.is_none() {
            // Without it the rows could be neither checked nor made again.
            streams::note(format_args!("noise_id: {}", self.noise_id));
        }
        let width = usize::try_from(self.coordinates())?;
        let making = rows::write(source, rows, width, &self.pool, &mut writer)?;
        Ok(Written { element, rows, making, digest: writer.finish()? })
    }
}

/// Checks that the state of the range fits in memory. The generator itself would abort the process.
fn room_for_state(slots: usize, bytes: u128, coordinates: u64) -> anyhow::Result<()> {
    // A range may begin and end inside a block; whole ones are kept.
    let all = u128::from(coordinates.saturating_add(2 * BLOCK as u64)) * slots as u128 * bytes;
    let named = || {
        format!(
            "memory for the state of {coordinates} coordinates, {slots} numbers each; choose a shorter --range"
        )
    };
    Vec::<u8>::new().try_reserve_exact(usize::try_from(all).with_context(named)?).with_context(named)
}
