//! How fast this worker makes rows: what placement weighs it by.

use std::{
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use node::cpu_pool::CpuPool;
use noise_kernel::{Backend, History, JobKey};
use plan::{Mechanism, Participation, Plan, PlanSpec};
use proto::{JobId, ServiceError};
use tokio::time::Instant;

use crate::recipe::Recipe;

/// Less than this says nothing.
const SHORTEST: Duration = Duration::from_millis(5);
/// After so much making, half of the rate is what was measured before.
const HALF_LIFE: f64 = 0.5;

/// Bytes of state and rows, by the time in which any shard was being made.
#[derive(Debug, Default)]
pub struct Meter(Mutex<Measured>);

#[derive(Debug, Default)]
struct Measured {
    running: u32,
    since: Option<Instant>,
    busy: Duration,
    bytes: f64,
    /// Bytes a second; 0 before anything was made.
    rate: f64,
}

/// Counts time from when it was made to when it is dropped.
pub struct Making<'a> {
    meter: &'a Meter,
    bytes: u64,
}

impl Meter {
    pub fn of_rate(rate: f64) -> Self {
        Self(Mutex::new(Measured { rate, ..Measured::default() }))
    }

    /// Measured by other means than making.
    pub fn set(&self, rate: f64) {
        self.measured().rate = rate;
    }

    fn measured(&self) -> MutexGuard<'_, Measured> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Of so many bytes to go through.
    pub fn making(&self, bytes: u64) -> Making<'_> {
        let mut measured = self.measured();
        measured.running += 1;
        measured.since.get_or_insert_with(Instant::now);
        Making { meter: self, bytes }
    }

    /// Bytes a second, the latest counting most.
    pub fn rate(&self) -> f64 {
        let mut measured = self.measured();
        // What is under way counts up to now, so that no time counts for two measures.
        if let Some(since) = measured.since.as_mut() {
            let passed = since.elapsed();
            *since += passed;
            measured.busy += passed;
        }
        if measured.busy >= SHORTEST && measured.bytes > 0.0 {
            let seconds = measured.busy.as_secs_f64();
            let lately = measured.bytes / seconds;
            let kept = if measured.rate > 0.0 { (-seconds / HALF_LIFE).exp2() } else { 0.0 };
            measured.rate = kept * measured.rate + (1.0 - kept) * lately;
            (measured.busy, measured.bytes) = (Duration::ZERO, 0.0);
        }
        measured.rate
    }
}

impl Drop for Making<'_> {
    fn drop(&mut self) {
        let mut measured = self.meter.measured();
        measured.bytes += self.bytes as f64;
        measured.running -= 1;
        if measured.running == 0
            && let Some(since) = measured.since.take()
        {
            measured.busy += since.elapsed();
        }
    }
}

/// Bytes a second of work that is like making rows.
#[derive(Clone, Copy, Debug)]
pub struct Calibration {
    /// Of its quickest piece: what this worker can do.
    pub best: f64,
    /// Over all of it, with whatever came between: what this worker does.
    pub mean: f64,
}

/// Some pieces of work, for at least so long: what a worker goes by while it makes nothing for a job.
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
    });
    // Nobody's key: these rows are thrown away.
    let key = JobKey::from_bytes(&[1; 32]).map_err(ServiceError::internal)?;
    let recipe = Recipe::new(&plan.map_err(ServiceError::internal)?, &key, &JobId::new("calibration")?, 0)?
        .made_by(backend, History::Redraw)
        .map_err(ServiceError::internal)?;
    let bytes = ROWS as f64 * bytes_a_row(&recipe, COORDINATES) as f64;
    let work = move || {
        let mut generator = recipe.generator(0..COORDINATES)?;
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
        Ok::<_, noise_kernel::KernelError>((best, began.elapsed() / pieces))
    };
    let (best, mean) =
        pool.run(work).await.map_err(ServiceError::internal)?.map_err(ServiceError::internal)?;
    let rate = |time: Duration| bytes / time.as_secs_f64().max(1e-6);
    Ok(Calibration { best: rate(best), mean: rate(mean) })
}

/// State and output that one row of so many coordinates goes through: what placement calls a shard's bytes.
pub fn bytes_a_row(recipe: &Recipe, coordinates: u64) -> u64 {
    coordinates.saturating_mul(4 * (recipe.slots as u64 + 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_rate_is_bytes_by_the_time_of_making_alone() {
        let meter = Meter::default();
        assert_eq!(meter.rate(), 0.0);
        for _ in 0..3 {
            let one = meter.making(100);
            let other = meter.making(300);
            tokio::time::advance(Duration::from_millis(100)).await;
            drop(one);
            tokio::time::advance(Duration::from_millis(100)).await;
            drop(other);
            tokio::time::advance(Duration::from_secs(60)).await;
        }
        assert!((meter.rate() - 2000.0).abs() < 1.0, "{}", meter.rate());
        let slow = meter.making(2000);
        tokio::time::advance(Duration::from_secs(20)).await;
        drop(slow);
        assert!((100.0..110.0).contains(&meter.rate()), "the latest counts most");
        assert!((100.0..110.0).contains(&meter.rate()), "and nothing new changes nothing");
    }

    #[tokio::test]
    async fn calibration_measures_something() {
        let at_least = Duration::from_millis(20);
        let measured = calibrate(&CpuPool::new(1).unwrap(), Backend::Auto, at_least).await.unwrap();
        assert!(measured.best.is_finite() && measured.mean > 1e4, "{measured:?}");
        assert!(measured.best >= measured.mean, "{measured:?}");
    }
}
