//! Reading a plan, with an error that names its file.

use std::path::Path;

use plan::{Plan, PlanError};

use crate::output::bad_use;

/// Reads a plan. Errors: a file that can't be read, or that holds no plan that is allowed.
pub fn read(path: &Path) -> anyhow::Result<Plan> {
    Plan::from_path(path).map_err(|error| match error {
        PlanError::Read { .. } => error.into(),
        error => anyhow::Error::from(error).context(format!("plan file {}", path.display())),
    })
}

/// Refuses a plan on a grid where σ is searched for: another σ has another step, and the step enters the account.
pub fn without_grid(plan: &Plan) -> anyhow::Result<()> {
    if plan.on_grid().is_none() {
        return Ok(());
    }
    Err(bad_use(
        "--plan has [grid]; allowed: a plan without, or `rustle plan suggest --grid`, which raises σ by what the grid \
         costs",
    ))
}
