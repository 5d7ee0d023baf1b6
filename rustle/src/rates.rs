//! The rate at which this machine generates rows of a plan, measured.

use std::sync::Arc;
use std::time::{Duration, Instant};

use noise_kernel::grid::{GridGenerator, GridMechanism};
use noise_kernel::{BranchKey, Generator, Rounds, RowGenerator, Stream};
use plan::{Layout, Mechanism, Participation, Plan, PlanSpec, Rounding, grid};
use strategy::Strategy;

/// Coordinates of a measurement: state and rows exceed the caches.
const COORDINATES: usize = 1 << 19;
/// Maximum numbers of state in a measurement: mechanisms with much state are measured on fewer coordinates.
const STATE: usize = 1 << 25;
/// Duration of a measurement.
const DURATION: Duration = Duration::from_millis(60);

/// Returns coordinates per second on all cores, with several rows generated at once as a worker does, of integers on a grid or
/// of floats; `None` where the kernel can't run the mechanism.
#[must_use]
pub fn coordinates_per_second(strategy: &Strategy, iterations: u64, on_grid: bool) -> Option<f64> {
    let float = PlanSpec {
        chacha_rounds: 20,
        iterations,
        noise_multiplier: 1.0,
        clip_norm: 1.0,
        participation: Participation { min_sep: 1, max_participations: 1 },
        mechanism: Mechanism::try_from(strategy).ok()?,
        layout: None,
        grid: None,
    };
    if on_grid { integers(float) } else { floats(Plan::new(float).ok()?) }
}

fn width(plan: &Plan) -> usize {
    COORDINATES.min(STATE / plan.state_slots().max(1)).next_multiple_of(noise_kernel::BLOCK)
}

fn stream() -> Stream {
    Stream::new(&BranchKey::from_array([0; 32]), Rounds::Twenty)
}

/// The middle of the run, where the past of a row is at its longest.
fn middle(iterations: u64, at_once: usize) -> u64 {
    (iterations / 2).min(iterations - at_once as u64)
}

fn floats(plan: Plan) -> Option<f64> {
    let n = plan.iterations();
    let width = width(&plan);
    let range = 0..width as u64;
    let coefficients = Arc::new(plan.coefficients().ok()?);
    let fresh = Generator::new(stream(), coefficients.clone(), n, 1.0, range.clone()).ok()?;
    let at_once = fresh.suggested_rows_at_once().min(usize::try_from(n).unwrap_or(usize::MAX));
    let state = vec![0.0_f32; fresh.state().len()];
    drop(fresh);
    let start = || {
        let middle = middle(n, at_once);
        Generator::restore(stream(), coefficients.clone(), n, 1.0, range.clone(), middle, &[&state]).ok()
    };
    let mut generator = start()?;
    timed(width, at_once, |rows: &mut [&mut [f32]]| {
        if generator.remaining() < at_once as u64 {
            generator = start()?;
        }
        let from = Instant::now();
        generator.generate(rows).ok()?;
        Some(from.elapsed())
    })
}

fn integers(float: PlanSpec) -> Option<f64> {
    let n = float.iterations;
    let width = width(&Plan::new(float.clone()).ok()?);
    let range = 0..width as u64;
    let spec = PlanSpec { layout: Some(Layout::dimension_only(width as u64).ok()?), ..float };
    let grid = grid::choose(&spec, Some(Rounding::Contributions), None).ok()?;
    let plan = Plan::new(PlanSpec { grid: Some(grid), ..spec }).ok()?;
    let mechanism = Arc::new(GridMechanism::of_plan(plan.on_grid()?.coefficients(), n).ok()?);
    let fresh = GridGenerator::new(stream(), mechanism.clone(), range.clone()).ok()?;
    let mut state = fresh.snapshot().ok()?;
    let suggested = RowGenerator::Integers(fresh).suggested_rows_at_once();
    let at_once = suggested.min(usize::try_from(n).unwrap_or(usize::MAX));
    state.next_row = middle(n, at_once);
    let start = || GridGenerator::restore(stream(), mechanism.clone(), range.clone(), &state).ok();
    let mut generator = start()?;
    timed(width, at_once, |rows: &mut [&mut [i32]]| {
        if generator.remaining() < at_once as u64 {
            generator = start()?;
        }
        let from = Instant::now();
        generator.generate(rows).ok()?;
        Some(from.elapsed())
    })
}

/// Returns the coordinates per second of a call that makes `at_once` rows and says how long that took.
fn timed<T: Copy + Default>(
    width: usize,
    at_once: usize,
    mut make: impl FnMut(&mut [&mut [T]]) -> Option<Duration>,
) -> Option<f64> {
    let mut rows = vec![T::default(); at_once * width];
    let mut call = || make(&mut rows.chunks_mut(width).collect::<Vec<_>>());
    // The first rows only bring the memory in.
    call()?;
    let mut made = 0_usize;
    let mut spent = Duration::ZERO;
    while spent < DURATION {
        spent += call()?;
        made += at_once * width;
    }
    Some(made as f64 / spent.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_mechanism_has_a_rate_in_integers_and_in_floats() {
        let tree = strategy::Tree::new(Vec::new(), false).unwrap();
        for strategy in [Strategy::Identity, Strategy::Tree(tree)] {
            for on_grid in [false, true] {
                let rate = coordinates_per_second(&strategy, 8, on_grid);
                assert!(rate.is_some_and(|rate| rate > 0.0), "{} {on_grid}", strategy.name());
            }
        }
    }
}
