//! `rustle noise`: generates rows in this process and writes them to an .npy file.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::Context;
use node::process::rng;
use noise_kernel::{BLOCK, Backend, Generator, Stream};
use proto::NoiseId;
use rayon::ThreadPool;
use rayon::prelude::*;

use super::branch::{BranchArgs, within};
use crate::npy::NpyWriter;
use crate::out_file;
use crate::output::{Answer, Format, bad_use};
use crate::progress::Progress;
use crate::streams;
use crate::values::Span;

/// Bytes of rows in memory, unless one row alone is longer.
const BUFFER: usize = 256 << 20;

/// Coordinates that one task draws of an i.i.d. row: whole noise blocks of 512.
const TASK: usize = 1 << 16;

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
    /// The .npy file to write, float32 of shape (rows, coordinates); - for standard output
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
    let stream = Stream::of_rows(&branch.keys, &branch.coefficients, branch.rounds);
    let stream = stream.with_backend(args.backend).map_err(bad_use)?;
    let streams = if args.iid { branch.plan.streams(steps.clone()) } else { steps.clone() };
    let rows = streams.end - streams.start;
    let coordinates = range.end - range.start;
    let threads = args.threads.map_or(0, usize::from);
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().context("start threads")?;
    let source = if args.iid {
        RowSource::Iid { stream, next: streams.start, offset: range.start }
    } else {
        let n = branch.plan.iterations();
        let scale = branch.plan.scale();
        room_for_state(branch.plan.state_slots(), coordinates)?;
        let mut generator = Generator::new(stream, branch.coefficients.clone(), n, scale, range.clone())?;
        replay(&mut generator, steps.start, &pool)?;
        RowSource::Correlated(Box::new(generator))
    };
    let mut writer = NpyWriter::create(&args.out, rows, coordinates)?;
    if out_file::is_stdout(&args.out) && args.noise_id.is_none() {
        // Without it the rows could be neither checked nor made again.
        streams::note(format_args!("noise_id: {noise_id}"));
    }
    let seconds_making = source.write(rows, usize::try_from(coordinates)?, &pool, &mut writer)?.as_secs_f64();
    let digest = writer.finish()?;
    if out_file::is_stdout(&args.out) {
        return Ok(ExitCode::SUCCESS);
    }
    Answer::new()
        .with("out", args.out.display().to_string())
        .with("noise_id", noise_id.to_string())
        .with("mechanism", branch.plan.mechanism().name())
        .with("iid", args.iid)
        .with("rows", rows)
        .with("coordinates", coordinates)
        .with("sha256", hex::encode(digest))
        .with("seconds", start.elapsed().as_secs_f64())
        .with("seconds_making", seconds_making)
        .with("coordinates_per_second", rows as f64 * coordinates as f64 / seconds_making)
        .print(format)?;
    Ok(ExitCode::SUCCESS)
}

/// Checks that the state of the range fits in memory. The generator itself would abort the process.
fn room_for_state(slots: usize, coordinates: u64) -> anyhow::Result<()> {
    // A range may begin and end inside a block; whole ones are kept.
    let numbers = u128::from(coordinates.saturating_add(2 * BLOCK as u64)) * slots as u128;
    let named = || {
        format!(
            "memory for the state of {coordinates} coordinates, {slots} numbers each; choose a shorter --range"
        )
    };
    Vec::<f32>::new().try_reserve_exact(usize::try_from(numbers).with_context(named)?).with_context(named)
}

/// Brings the state to row `row`.
fn replay(generator: &mut Generator, row: u64, pool: &ThreadPool) -> anyhow::Result<()> {
    let bar = Progress::bar(row, "rows replayed");
    while generator.next_row() < row {
        let count = if generator.slots() == 0 { row } else { (row - generator.next_row()).min(64) };
        pool.install(|| generator.skip(count))?;
        bar.set_position(generator.next_row());
    }
    Ok(())
}

/// The source of rows.
enum RowSource {
    Correlated(Box<Generator>),
    /// `next`: a stream number; `offset`: the first coordinate.
    Iid {
        stream: Stream,
        next: u64,
        offset: u64,
    },
}

impl RowSource {
    /// Generates `rows` rows of `width` coordinates and writes them. Returns the time that generating alone took.
    fn write(
        mut self,
        rows: u64,
        width: usize,
        pool: &ThreadPool,
        writer: &mut NpyWriter,
    ) -> anyhow::Result<Duration> {
        let at_once = (BUFFER / 4 / width).clamp(1, self.suggested_rows());
        let at_once = usize::try_from(rows).unwrap_or(usize::MAX).min(at_once);
        let mut buffer = Vec::new();
        let length = at_once.checked_mul(width).context("a row is longer than this machine can address")?;
        buffer.try_reserve_exact(length).with_context(|| format!("memory for {length} numbers"))?;
        buffer.resize(length, 0.0);
        let bar = Progress::bar(rows, "rows");
        let mut making = Duration::ZERO;
        let mut left = rows;
        while left > 0 {
            let count = usize::try_from(left).unwrap_or(usize::MAX).min(at_once);
            let part = &mut buffer[..count * width];
            let start = Instant::now();
            pool.install(|| self.fill(part, width))?;
            making += start.elapsed();
            writer.write(part)?;
            left -= count as u64;
            bar.inc(count as u64);
        }
        Ok(making)
    }

    fn suggested_rows(&self) -> usize {
        match self {
            Self::Correlated(generator) => generator.suggested_rows_at_once(),
            Self::Iid { .. } => 1,
        }
    }

    fn fill(&mut self, rows: &mut [f32], width: usize) -> anyhow::Result<()> {
        match self {
            Self::Correlated(generator) => {
                let mut rows: Vec<&mut [f32]> = rows.chunks_mut(width).collect();
                Ok(generator.generate(&mut rows)?)
            }
            Self::Iid { stream, next, offset } => {
                for row in rows.chunks_mut(width) {
                    row.par_chunks_mut(TASK).enumerate().try_for_each(|(task, part)| {
                        let start = *offset + (task * TASK) as u64;
                        stream.iid(*next, start..start + part.len() as u64, part)
                    })?;
                    *next += 1;
                }
                Ok(())
            }
        }
    }
}
