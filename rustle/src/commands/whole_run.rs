//! ε of a job that runs to its end, also after it has left a branch: what commands state before they cost it.

use accounting::rewind::{ReleasedBranch, ReleasedRows, charge_with};
use plan::Plan;

use crate::figures::rounded_up;
use crate::output::bad_use;

/// Returns what is released once the job has left its branch at `row`.
pub fn left_at(mut released: ReleasedRows, branch: u64, row: u64) -> ReleasedRows {
    released.branches.push(ReleasedBranch {
        branch: branch + 1,
        parent: Some(branch),
        from_row: row,
        released: Vec::new(),
    });
    released
}

/// Returns ε of a job that releases all rows of its last branch; `None` for a plan without noise.
pub fn epsilon(plan: &Plan, released: &ReleasedRows, delta: f64) -> anyhow::Result<Option<f64>> {
    let noise = plan.accounted_noise_multiplier();
    if noise <= 0.0 {
        return Ok(None);
    }
    let sensitivity_of = |rows| plan.accounted_sensitivity_of(rows).map_err(anyhow::Error::from);
    let charge = charge_with(plan.iterations(), released, sensitivity_of)?;
    let failure = plan.failure_probability();
    Ok(Some(accounting::Report::of_run(charge.total(), noise, failure, delta)?.epsilon))
}

/// Returns ε as text.
pub fn shown(epsilon: Option<f64>) -> String {
    epsilon.map_or("none (the plan has no noise)".to_owned(), rounded_up)
}

/// Refuses a δ at which there is no ε.
pub fn check_delta(delta: f64) -> anyhow::Result<()> {
    if delta > 0.0 && delta < 1.0 {
        return Ok(());
    }
    Err(bad_use(format!("--delta is {delta}; allowed: strictly between 0 and 1")))
}
