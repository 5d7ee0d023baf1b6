//! Plans on a grid that keep what was promised of floats.

use accounting::{Report, calibrate_gaussian};
use plan::{Grid, Plan, PlanSpec, Rounding, grid};
use strategy::Sensitivity;

use crate::request::{Result, invalid};

/// Most times that σ is raised for a grid; its cost hardly changes with σ, so two do.
const RAISES: usize = 16;

/// Beyond what roundings and probabilities of failure leave open.
const MARGIN: f64 = 1.0 + 1e-9;

/// Returns the plan on a grid whose account is that of `float`, of whatever kind that is: σ is raised by what the grid costs.
///
/// # Errors
/// Fields that no grid has.
pub fn on_grid(float: &Plan, rounding: Option<Rounding>, summing_error: Option<f64>) -> Result<Plan> {
    let promised = moved(float)?;
    let mut spec = PlanSpec { grid: None, ..float.spec().clone() };
    for _ in 0..RAISES {
        let grid = grid::choose(&spec, rounding, summing_error)?;
        let plan = Plan::new(PlanSpec { grid: Some(grid), ..spec.clone() })?;
        let cost = moved(&plan)?;
        let more = (cost[0] / promised[0]).max(cost[1] / promised[1]);
        if more <= 1.0 {
            return Ok(plan);
        }
        spec.noise_multiplier *= more * MARGIN;
    }
    Err(too_dear(spec.noise_multiplier))
}

/// Returns the plan with the least σ that keeps (ε, δ) for batches in any order, on a grid with the rounding and κ of `old`,
/// whose step is chosen anew. `factor`: what a contribution moves a sum by, in clip norms, 2 where it is replaced. σ of
/// `float` is not read.
///
/// # Errors
/// Fields that no grid has, and an (ε, δ) that no σ keeps.
pub fn calibrate_on_grid(
    float: &PlanSpec,
    old: Grid,
    (epsilon, delta): (f64, f64),
    factor: f64,
) -> Result<Plan> {
    let moved = |found: Sensitivity| Sensitivity { value: found.value * factor, ..found };
    let plain = Plan::new(PlanSpec { grid: None, ..float.clone() })?;
    let sigma = calibrate_gaussian(moved(plain.accounted_sensitivity()?).value, epsilon, delta)?;
    let mut noise_multiplier = plan::noise_multiplier_to_run(sigma, plain.clip_norm());
    for _ in 0..RAISES {
        let spec = PlanSpec { noise_multiplier, ..plain.spec().clone() };
        let grid = grid::choose(&spec, Some(old.rounding), Some(old.summing_error))?;
        let plan = Plan::new(PlanSpec { grid: Some(grid), ..spec })?;
        let sensitivity = moved(plan.accounted_sensitivity()?);
        let noise = plan.accounted_noise_multiplier();
        if Report::of_run(sensitivity, noise, plan.failure_probability(), delta)?.epsilon <= epsilon {
            return Ok(plan);
        }
        let needed = calibrate_gaussian(sensitivity.value, epsilon, delta)?;
        noise_multiplier *= (needed / noise).max(1.0) * MARGIN;
    }
    Err(too_dear(noise_multiplier))
}

/// Returns the plan on a grid, its step chosen anew, with the least σ of which an account takes `sigma` or more. What is left of
/// δ for that account is [`delta_on_grid`].
///
/// # Errors
/// Fields that no grid has.
pub fn with_accounted_noise(on_grid: &Plan, old: Grid, sigma: f64) -> Result<Plan> {
    let mut noise_multiplier = plan::noise_multiplier_to_run(sigma, on_grid.clip_norm());
    for _ in 0..RAISES {
        let spec = PlanSpec { noise_multiplier, grid: None, ..on_grid.spec().clone() };
        let grid = grid::choose(&spec, Some(old.rounding), Some(old.summing_error))?;
        let plan = Plan::new(PlanSpec { grid: Some(grid), ..spec })?;
        let noise = plan.accounted_noise_multiplier();
        if noise >= sigma {
            return Ok(plan);
        }
        noise_multiplier *= sigma / noise * MARGIN;
    }
    Err(too_dear(noise_multiplier))
}

/// Returns the δ that a mechanism on a grid may have at ε where the run is to keep `delta`: the largest probability of leaving
/// it is taken off.
///
/// # Errors
/// A δ of which nothing is left.
pub fn delta_on_grid(epsilon: f64, delta: f64) -> Result<f64> {
    let left = delta - grid::MAX_FAILURE * (1.0 + epsilon.exp());
    if left > 0.0 { Ok(left) } else { Err(invalid("delta", delta, "above 1e-16·(1 + e^ε) on a grid")) }
}

fn too_dear(noise_multiplier: f64) -> crate::PlannerError {
    let allowed =
        "a smaller summing error, or another rounding: the grid costs more than more noise makes up for";
    invalid("noise-multiplier", noise_multiplier, allowed)
}

/// How far one unit moves a run and one column of it, in deviations of its noise.
fn moved(plan: &Plan) -> Result<[f64; 2]> {
    let sensitivity = plan.accounted_sensitivity()?.value;
    let column = plan.accounted_column_norm()?;
    Ok([sensitivity, column].map(|moved| moved / plan.accounted_noise_multiplier()))
}

#[cfg(test)]
mod tests {
    use plan::{Layout, Mechanism, Participation};

    use super::*;

    fn float(mechanism: Mechanism, noise_multiplier: f64) -> Plan {
        Plan::new(PlanSpec {
            chacha_rounds: 20,
            iterations: 64,
            noise_multiplier,
            clip_norm: 0.5,
            participation: Participation { min_sep: 8, max_participations: 4 },
            mechanism,
            layout: Some(Layout::dimension_only(10_000).unwrap()),
            grid: None,
        })
        .unwrap()
    }

    #[test]
    fn a_promise_is_kept_on_the_grid_at_the_price_of_kappa() {
        let blt = Mechanism::Blt { theta: vec![0.9, 0.5], omega: vec![0.2, 0.3] };
        for mechanism in [Mechanism::Identity, Mechanism::BandSqrt { bands: 4 }, blt] {
            let float = float(mechanism, 3.0);
            let found = on_grid(&float, None, Some(0.01)).unwrap();
            let before = moved(&float).unwrap();
            let after = moved(&found).unwrap();
            assert!(after[0] <= before[0] && after[1] <= before[1], "{before:?} {after:?}");
            let dearer = found.noise_multiplier() / float.noise_multiplier();
            assert!((1.01..1.012).contains(&dearer), "{dearer}");
            // Without the raise the promise is broken.
            let grid = grid::choose(float.spec(), None, Some(0.01)).unwrap();
            let unraised = Plan::new(PlanSpec { grid: Some(grid), ..float.spec().clone() }).unwrap();
            assert!(moved(&unraised).unwrap()[0] > before[0]);
        }
    }

    #[test]
    fn a_calibrated_plan_keeps_epsilon_and_no_more_noise_than_it_takes() {
        let float = float(Mechanism::BandSqrt { bands: 4 }, 1.0);
        let old = grid::choose(float.spec(), None, Some(1e-3)).unwrap();
        for factor in [1.0, 2.0] {
            let found = calibrate_on_grid(float.spec(), old, (2.0, 1e-6), factor).unwrap();
            let epsilon = |plan: &Plan| {
                let mut sensitivity = plan.accounted_sensitivity().unwrap();
                sensitivity.value *= factor;
                let noise = plan.accounted_noise_multiplier();
                Report::of_run(sensitivity, noise, plan.failure_probability(), 1e-6).unwrap().epsilon
            };
            assert!(epsilon(&found) <= 2.0 && epsilon(&found) > 2.0 - 1e-5, "{}", epsilon(&found));
            assert_eq!(found.spec().grid.unwrap().summing_error, 1e-3);
        }
        let on_grid = Plan::new(PlanSpec { grid: Some(old), ..float.spec().clone() }).unwrap();
        for sigma in [0.3, 1.0, 40.0] {
            let found = with_accounted_noise(&on_grid, old, sigma).unwrap().accounted_noise_multiplier();
            assert!(found >= sigma && found < sigma * (1.0 + 1e-6), "{sigma}: {found}");
        }
        assert!(delta_on_grid(1.0, 1e-6).unwrap() < 1e-6);
        assert!(delta_on_grid(40.0, 1e-6).is_err());
    }
}
