//! Reading a plan, with an error that names its file.

use std::path::Path;

use plan::{Plan, PlanError};

/// Reads a plan. Errors: a file that can't be read, or that holds no plan that is allowed.
pub fn read(path: &Path) -> anyhow::Result<Plan> {
    Plan::from_path(path).map_err(|error| match error {
        PlanError::Read { .. } => error.into(),
        error => anyhow::Error::from(error).context(format!("plan file {}", path.display())),
    })
}
