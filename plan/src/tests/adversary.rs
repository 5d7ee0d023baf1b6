//! Rounding under sums that are chosen to move the integers as far as they can: never further than ζ′.

use super::spec;
use crate::{Grid, Layout, Mechanism, Plan, PlanSpec, Rounding};

const DIMENSION: usize = 200;

/// ζ and ζ′ in steps of a plan whose rounding is as coarse as it may be.
fn norms(step: i32, rounding: Rounding) -> (f64, f64) {
    let plan = Plan::new(PlanSpec {
        noise_multiplier: 1.0,
        clip_norm: 1.0,
        layout: Layout::dimension_only(DIMENSION as u64).ok(),
        grid: Some(Grid { step, rounding, summing_error: 0.0 }),
        ..spec(5, Mechanism::Identity)
    });
    let clip_norm = plan.unwrap().on_grid().unwrap().figures().clip_norm;
    let steps = f64::from(-step).exp2();
    (steps, clip_norm * steps)
}

/// A number in [0, 1) of 24 bits and half of one, without a pattern.
fn uniform(state: &mut u64) -> f64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    (((z ^ (z >> 31)) >> 40) as f64 + 0.5) / (1u64 << 24) as f64
}

fn norm(vector: impl Iterator<Item = f64>) -> f64 {
    vector.map(|x| x * x).sum::<f64>().sqrt()
}

#[test]
fn nearest_reaches_its_bound_and_does_not_pass_it() {
    let (steps, bound) = norms(-16, Rounding::Nearest);
    let each = steps / (DIMENSION as f64).sqrt();
    // The sum of the others lies just below an edge.
    let others = 0.5 - 1e-6;
    let moved = norm((0..DIMENSION).map(|_| (others + each).round() - others.round()));
    assert!(moved > steps, "{moved}: with ζ for ζ′ the account would be wrong");
    assert!(moved <= bound && moved > bound - 2.0, "{moved} beside {bound}");
}

#[test]
fn dither_stays_within_its_bound() {
    let (steps, bound) = norms(-9, Rounding::Dithered);
    // Half of a step beyond an integer spreads the most; the other coordinates make up a contribution of norm ζ.
    let half = 31.5;
    let other = (2.0 * steps * steps / DIMENSION as f64 - half * half).sqrt();
    let mut state = 1;
    let mut largest = 0.0f64;
    for _ in 0..10_000 {
        let moved = (0..DIMENSION).map(|i| {
            let others = uniform(&mut state);
            let dither = uniform(&mut state);
            let contribution = if i % 2 == 0 { half } else { other };
            (others + contribution + dither).floor() - (others + dither).floor()
        });
        largest = largest.max(norm(moved));
    }
    assert!(largest > steps && largest <= bound, "{largest} beside {steps} and {bound}");
}

/// What `contributions` asks of a job: clip to ζ less half a step in each coordinate, round, and check the integers.
#[test]
fn contributions_move_no_further_than_the_clip_norm() {
    let (steps, bound) = norms(-10, Rounding::Contributions);
    assert_eq!(bound, steps);
    let mut state = 2;
    let mut largest = 0.0f64;
    for _ in 0..1000 {
        let vector: Vec<f64> = (0..DIMENSION).map(|_| uniform(&mut state) - 0.5).collect();
        let factor = (steps - (DIMENSION as f64).sqrt() / 2.0) / norm(vector.iter().copied());
        largest = largest.max(norm(vector.iter().map(|x| (x * factor).round_ties_even())));
    }
    assert!(largest <= bound && largest > bound * 0.98, "{largest} beside {bound}");
}
