//! The throughput of a worker, by which placement weighs it.

pub mod idle_benchmark;

use std::{
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use node::process::cpu_pool::CpuPool;
use noise_kernel::{Backend, History, JobKey};
use plan::{Mechanism, Participation, Plan, PlanSpec};
use proto::{NoiseId, Nonce, ServiceError};
use tokio::time::Instant;

use crate::generation_spec::GenerationSpec;

/// The least busy time that is a measurement: shorter ones are noise of the clock.
const MIN_SAMPLE: Duration = Duration::from_millis(5);
/// After so much start_work, half of the rate is what was measurement before.
const HALF_LIFE: f64 = 0.5;

/// Bytes of state and rows per second of the time in which any shard was being generated.
#[derive(Debug, Default)]
pub struct Throughput(Mutex<Measurement>);

#[derive(Debug, Default)]
struct Measurement {
    running: u32,
    since: Option<Instant>,
    busy: Duration,
    bytes: f64,
    /// Bytes a second; 0 before anything was made.
    rate: f64,
}

/// Work in progress: its time counts until it is dropped.
pub struct ActiveWork<'a> {
    throughput: &'a Throughput,
    bytes: u64,
}

impl Throughput {
    /// Starts from a known rate in bytes per second.
    pub fn with_rate(rate: f64) -> Self {
        Self(Mutex::new(Measurement { rate, ..Measurement::default() }))
    }

    /// Records a rate that was measured by other means than `start_work`.
    pub fn set(&self, rate: f64) {
        self.measurement().rate = rate;
    }

    fn measurement(&self) -> MutexGuard<'_, Measurement> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins work on so many bytes.
    pub fn start_work(&self, bytes: u64) -> ActiveWork<'_> {
        let mut measurement = self.measurement();
        measurement.running += 1;
        measurement.since.get_or_insert_with(Instant::now);
        ActiveWork { throughput: self, bytes }
    }

    /// Returns the bytes per second, with the latest weighted most.
    pub fn rate(&self) -> f64 {
        let mut measurement = self.measurement();
        // What is under way counts up to now, so that no time counts for two measures.
        if let Some(since) = measurement.since.as_mut() {
            let passed = since.elapsed();
            *since += passed;
            measurement.busy += passed;
        }
        if measurement.busy >= MIN_SAMPLE && measurement.bytes > 0.0 {
            let seconds = measurement.busy.as_secs_f64();
            let lately = measurement.bytes / seconds;
            let kept = if measurement.rate > 0.0 { (-seconds / HALF_LIFE).exp2() } else { 0.0 };
            measurement.rate = kept * measurement.rate + (1.0 - kept) * lately;
            measurement.busy = Duration::ZERO;
            measurement.bytes = 0.0;
        }
        measurement.rate
    }
}

impl Drop for ActiveWork<'_> {
    fn drop(&mut self) {
        let mut measurement = self.throughput.measurement();
        measurement.bytes += self.bytes as f64;
        measurement.running -= 1;
        if measurement.running == 0
            && let Some(since) = measurement.since.take()
        {
            measurement.busy += since.elapsed();
        }
    }
}

/// The rate of work like generating rows, in bytes per second.
#[derive(Clone, Copy, Debug)]
pub struct Calibration {
    /// The rate of the quickest piece: what this worker can do.
    pub best: f64,
    /// The rate of all pieces with everything in between: what this worker does.
    pub mean: f64,
}

/// Measures pieces of work for at least `at_least`: the throughput of a worker that generates nothing for a job.
pub async fn calibrate(
    pool: &CpuPool,
    backend: Backend,
    at_least: Duration,
) -> Result<Calibration, ServiceError> {
    const COORDINATES: u64 = 1 << 17;
    const ROWS: usize = 4;
    const PIECES: u32 = 4;
    let plan = Plan::new(PlanSpec {
        chacha_rounds: 20,
        iterations: 1 << 16,
        noise_multiplier: 1.0,
        clip_norm: 1.0,
        participation: Participation { min_sep: 1, max_participations: 1 },
        mechanism: Mechanism::Blt { theta: vec![0.9, 0.5], omega: vec![0.1, 0.2] },
        layout: None,
        grid: None,
    });
    // A key of no job: these rows are thrown away.
    let key = JobKey::from_bytes(&[1; 32]).map_err(ServiceError::internal)?;
    let noise_id = NoiseId::of_job(Nonce::from_bytes([0; 32]));
    let spec = GenerationSpec::new(&plan.map_err(ServiceError::internal)?, &key, COORDINATES, &noise_id)?
        .with_backend(backend, History::Redraw)
        .map_err(ServiceError::internal)?;
    let bytes = ROWS as f64 * bytes_per_row(&spec, COORDINATES) as f64;
    let work = move || {
        let mut generator = spec.generator(0..COORDINATES)?;
        let mut rows = vec![vec![0f32; COORDINATES as usize]; ROWS];
        let began = std::time::Instant::now();
        let mut best = Duration::MAX;
        let mut pieces = 0;
        while pieces < PIECES || began.elapsed() < at_least {
            let piece = std::time::Instant::now();
            let mut out: Vec<&mut [f32]> = rows.iter_mut().map(Vec::as_mut_slice).collect();
            generator.generate(&mut out)?;
            best = best.min(piece.elapsed());
            pieces += 1;
        }
        Ok::<_, noise_kernel::grid::GridRowError>((best, began.elapsed() / pieces))
    };
    let (best, mean) =
        pool.run(work).await.map_err(ServiceError::internal)?.map_err(ServiceError::internal)?;
    let rate = |time: Duration| bytes / time.as_secs_f64().max(1e-6);
    Ok(Calibration { best: rate(best), mean: rate(mean) })
}

/// Returns the bytes of state and output that one row of so many coordinates passes through, as placement counts them.
pub fn bytes_per_row(spec: &GenerationSpec, coordinates: u64) -> u64 {
    coordinates.saturating_mul(4 * (spec.slots as u64 + 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_rate_is_bytes_by_the_time_of_making_alone() {
        let throughput = Throughput::default();
        assert_eq!(throughput.rate(), 0.0);
        for _ in 0..3 {
            let one = throughput.start_work(100);
            let other = throughput.start_work(300);
            tokio::time::advance(Duration::from_millis(100)).await;
            drop(one);
            tokio::time::advance(Duration::from_millis(100)).await;
            drop(other);
            tokio::time::advance(Duration::from_secs(60)).await;
        }
        assert!((throughput.rate() - 2000.0).abs() < 1.0, "{}", throughput.rate());
        let slow = throughput.start_work(2000);
        tokio::time::advance(Duration::from_secs(20)).await;
        drop(slow);
        assert!((100.0..110.0).contains(&throughput.rate()), "the latest counts most");
        assert!((100.0..110.0).contains(&throughput.rate()), "and nothing new changes nothing");
    }

    #[tokio::test]
    async fn calibration_measures_something() {
        let at_least = Duration::from_millis(20);
        let measurement = calibrate(&CpuPool::new(1).unwrap(), Backend::Auto, at_least).await.unwrap();
        assert!(measurement.best.is_finite() && measurement.mean > 1e4, "{measurement:?}");
        assert!(measurement.best >= measurement.mean, "{measurement:?}");
    }
}
