//! The rate at which this machine generates rows of a mechanism, measured.

use std::sync::Arc;
use std::time::{Duration, Instant};

use noise_kernel::{BranchKey, Generator, Rounds, Stream};
use plan::{Mechanism, Participation, Plan, PlanSpec};
use strategy::Strategy;

/// Coordinates of a measurement: state and rows exceed the caches.
const COORDINATES: usize = 1 << 19;
/// Maximum numbers of state in a measurement: mechanisms with much state are measured on fewer coordinates.
const STATE: usize = 1 << 25;
/// Duration of a measurement.
const DURATION: Duration = Duration::from_millis(60);

/// Returns coordinates per second on all cores, with several rows generated at once as a worker does; `None` where the
/// kernel can't run the mechanism.
#[must_use]
pub fn coordinates_per_second(strategy: &Strategy, iterations: u64) -> Option<f64> {
    let plan = Plan::new(PlanSpec {
        chacha_rounds: 20,
        iterations,
        noise_multiplier: 1.0,
        clip_norm: 1.0,
        participation: Participation { min_sep: 1, max_participations: 1 },
        mechanism: Mechanism::try_from(strategy).ok()?,
        layout: None,
        grid: None,
    })
    .ok()?;
    let width = COORDINATES.min(STATE / plan.state_slots().max(1)).next_multiple_of(noise_kernel::BLOCK);
    let coefficients = Arc::new(plan.coefficients().ok()?);
    let key = BranchKey::from_array([0; 32]);
    let make = |next_row, state: &[&[f32]]| {
        let stream = Stream::new(&key, Rounds::Twenty);
        let range = 0..width as u64;
        Generator::restore(stream, coefficients.clone(), iterations, 1.0, range, next_row, state).ok()
    };
    let fresh = Generator::new(
        Stream::new(&key, Rounds::Twenty),
        coefficients.clone(),
        iterations,
        1.0,
        0..width as u64,
    );
    let fresh = fresh.ok()?;
    let at_once = fresh.suggested_rows_at_once().min(usize::try_from(iterations).unwrap_or(usize::MAX));
    let state = vec![0.0_f32; fresh.state().len()];
    drop(fresh);
    // The middle of the run, where the past of a row is at its longest.
    let middle = (iterations / 2).min(iterations - at_once as u64);
    let mut rows = vec![0.0_f32; at_once * width];
    let mut made = 0_usize;
    let mut spent = Duration::ZERO;
    let mut generator = make(middle, &[&state])?;
    // The first rows only bring the memory in.
    let mut warm = false;
    while spent < DURATION {
        if generator.remaining() < at_once as u64 {
            generator = make(middle, &[&state])?;
        }
        let mut buffers: Vec<&mut [f32]> = rows.chunks_mut(width).collect();
        let start = Instant::now();
        generator.generate(&mut buffers).ok()?;
        if std::mem::replace(&mut warm, true) {
            spent += start.elapsed();
            made += at_once * width;
        }
    }
    Some(made as f64 / spent.as_secs_f64())
}
