//! Plans on a grid that keep what a plan of floats promises.

use plan::{Plan, PlanSpec, Rounding, grid};

use crate::flag_of_field::of_flag;
use crate::output::bad_use;

/// Most times that σ is raised for a grid; its cost hardly changes with σ, so two do.
const RAISES: usize = 8;

/// Beyond what roundings and probabilities of failure leave open.
const MARGIN: f64 = 1.0 + 1e-9;

/// Returns the plan on a grid whose account is that of `float`, which was found for a promise: σ is raised by what the grid
/// costs. Errors: fields that no grid has (bad use).
pub fn on_grid(float: &Plan, rounding: Option<Rounding>, summing_error: Option<f64>) -> anyhow::Result<Plan> {
    let promised = moved(float)?;
    let mut spec = float.spec().clone();
    for _ in 0..=RAISES {
        let grid = grid::choose(&spec, rounding, summing_error).map_err(of_flag)?;
        let plan = Plan::new(PlanSpec { grid: Some(grid), ..spec.clone() }).map_err(of_flag)?;
        let cost = moved(&plan)?;
        let more = (cost[0] / promised[0]).max(cost[1] / promised[1]);
        if more <= 1.0 {
            return Ok(plan);
        }
        spec.noise_multiplier *= more * MARGIN;
    }
    let sigma = spec.noise_multiplier;
    Err(bad_use(format!("--grid costs more than σ = {sigma} makes up for; allowed: a finer grid, less κ")))
}

/// How far one unit moves a run and one column of it, in deviations of its noise.
fn moved(plan: &Plan) -> anyhow::Result<[f64; 2]> {
    let sensitivity = plan.accounted_sensitivity().map_err(bad_use)?.value;
    let column = plan.accounted_column_norm().map_err(bad_use)?;
    Ok([sensitivity, column].map(|moved| moved / plan.accounted_noise_multiplier()))
}
