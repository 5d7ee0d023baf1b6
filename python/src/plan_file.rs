//! Plans' files, whose refusals say where a plan comes from.

use std::io::ErrorKind;
use std::path::Path;

use plan::{Plan, PlanError};

use crate::error::{Refused, Result};

/// Reads a plan.
///
/// # Errors
/// A file that is missing or can't be read, and one that holds no plan that is allowed. All name the file.
pub fn read(path: &Path) -> Result<Plan> {
    Plan::from_path(path).map_err(|error| {
        let file = path.display();
        let text = match &error {
            PlanError::Read { source, .. } if source.kind() == ErrorKind::NotFound => format!(
                "{error}; allowed: a plan's file, which Plan.save or `rustle plan suggest --out {file}` writes"
            ),
            PlanError::Read { .. } => format!("{error}; allowed: a plan's file that can be read"),
            error => format!("plan file {file}: {error}"),
        };
        Refused::Here("plan", text)
    })
}
