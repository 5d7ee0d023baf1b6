//! A case running on a range of coordinates, for as long as it takes to measure it.

use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

use noise_kernel::{Backend, BranchKey, Buffer, Generator, History, JobKey, NoiseContext, Rounds, Stream};
use plan::{Coefficients, Plan};

use crate::cases::Case;

/// As a worker with memory to spare: what keeping costs was measured, and the sizes measured here fit.
const HISTORY: History = History::Auto { limit_bytes: 16 << 30 };

/// What state is filled with where measuring starts: timing asks for finite numbers, not for the right ones.
static FILL: [f32; 1 << 14] = [0.5; 1 << 14];

/// Makes rows `first..iterations` of a case over and over, some at once, all memory touched beforehand.
pub struct Job {
    stream: Stream,
    coefficients: Arc<Coefficients>,
    iterations: u64,
    first: u64,
    /// Batches of one period.
    batches: u64,
    generator: Generator,
    /// As a worker's are.
    buffers: Vec<Buffer>,
}

/// The nonce of every job here: rates don't depend on it.
const NONCE: [u8; 32] = [7; 32];

/// The key of a job in a vector of `dimension` coordinates.
fn branch_key(plan: &Plan, dimension: u64) -> anyhow::Result<BranchKey> {
    let context = NoiseContext::new(plan, dimension, NONCE)?;
    Ok(JobKey::from_bytes(&[7; 32])?.branch(&context, &NONCE))
}

/// Rows that the engine makes at once where it runs ahead of the job.
pub fn rows_ahead(case: &Case) -> anyhow::Result<usize> {
    let plan = case.plan()?;
    let stream = Stream::new(&branch_key(&plan, 1)?, Rounds::Twenty);
    let coefficients = Arc::new(plan.coefficients()?);
    let generator = Generator::new(stream, coefficients, case.iterations, plan.scale(), 0..1)?;
    Ok(generator.suggested_rows_at_once())
}

impl Job {
    /// Warm: state and buffers have been written, and rows have been made.
    /// Errors: more rows at once than the case has from its first row on; what the kernel refuses.
    pub fn new(case: &Case, range: Range<u64>, rows: usize, backend: Backend) -> anyhow::Result<Self> {
        Self::starting_at(case, case.first_row(), range, rows, backend)
    }

    /// The same from row `first` on.
    pub fn starting_at(
        case: &Case,
        first: u64,
        range: Range<u64>,
        rows: usize,
        backend: Backend,
    ) -> anyhow::Result<Self> {
        let iterations = case.iterations;
        let most = iterations - first.min(iterations);
        anyhow::ensure!(
            (1..=most).contains(&(rows as u64)),
            "{rows} rows at once of {}; allowed: 1 to the {most} it has from row {first} on",
            case.name
        );
        let plan = case.plan()?;
        let stream = Stream::new(&branch_key(&plan, range.end)?, Rounds::Twenty).with_backend(backend)?;
        let coefficients = Arc::new(plan.coefficients()?);
        let width = (range.end - range.start) as usize;
        let buffers = (0..rows).map(|_| Buffer::zeroed("a row", width)).collect::<Result<_, _>>()?;
        let generator =
            Generator::new(stream.clone(), coefficients.clone(), iterations, plan.scale(), range)?
                .with_history(HISTORY)?;
        let batches = case.period().div_ceil(rows as u64);
        let mut job = Self { stream, coefficients, iterations, first, batches, generator, buffers };
        job.wind_back()?;
        for _ in 0..case.warm_up_rows().div_ceil(rows as u64) {
            job.batch()?;
        }
        Ok(job)
    }

    /// Makes the next rows; returns the number of coordinates made.
    pub fn batch(&mut self) -> anyhow::Result<u64> {
        let rows = self.buffers.len() as u64;
        if self.generator.remaining() < rows {
            self.wind_back()?;
        }
        let mut out: Vec<&mut [f32]> = self.buffers.iter_mut().map(|row| &mut row[..]).collect();
        self.generator.generate(&mut out)?;
        let range = self.generator.range();
        Ok(rows * (range.end - range.start))
    }

    /// Coordinates a second over at least `time`, in whole periods of the case.
    pub fn rate(&mut self, time: Duration) -> anyhow::Result<f64> {
        let started = Instant::now();
        let mut coordinates = 0;
        while coordinates == 0 || started.elapsed() < time {
            for _ in 0..self.batches {
                coordinates += self.batch()?;
            }
        }
        Ok(coordinates as f64 / started.elapsed().as_secs_f64())
    }

    /// Back to the first row, with state that has been written. It comes in pieces of the same small one: a second
    /// copy of all of it may not fit.
    fn wind_back(&mut self) -> anyhow::Result<()> {
        let values = self.generator.state().len();
        let mut state = vec![&FILL[..]; values / FILL.len()];
        state.push(&FILL[..values % FILL.len()]);
        let stream = self.stream.clone();
        let coefficients = self.coefficients.clone();
        let scale = self.generator.scale();
        let range = self.generator.range();
        self.generator =
            Generator::restore(stream, coefficients, self.iterations, scale, range, self.first, &state)?
                .with_history(HISTORY)?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_outlasts_its_rows() {
        let case: Case = "dense-4".parse().unwrap();
        let mut job = Job::new(&case, 0..600, 3, Backend::Auto).unwrap();
        for _ in 0..5 {
            assert_eq!(job.batch().unwrap(), 3 * 600);
        }
        assert!(job.buffers.iter().flat_map(|row| row.iter()).all(|value| value.is_finite()));
        assert!(job.rate(Duration::from_millis(1)).unwrap() > 0.0);
    }

    #[test]
    fn rows_the_case_does_not_have_are_refused() {
        let case: Case = "dense-4".parse().unwrap();
        for rows in [0, 5] {
            let error = Job::new(&case, 0..512, rows, Backend::Auto).err().unwrap().to_string();
            assert!(
                error.contains(&format!("{rows} rows at once of dense-4; allowed: 1 to the 4")),
                "{error}"
            );
        }
    }
}
