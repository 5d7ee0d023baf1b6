//! The number of coordinates that a command works on, from `--dimension` and the plan's layout.

use plan::{Layout, Plan};

use crate::output::bad_use;

/// Returns the number of coordinates. Errors: the flag is 0 or differs from the layout, or both are missing.
pub fn resolve(flag: Option<u64>, plan: &Plan) -> anyhow::Result<u64> {
    match (flag, plan.layout().map(Layout::dimension)) {
        (Some(flag), Some(layout)) if flag != layout => Err(bad_use(format!(
            "--dimension is {flag}; allowed: {layout}, the dimension of the plan's layout"
        ))),
        (Some(0), _) => Err(bad_use("--dimension is 0; allowed: 1 or more")),
        (Some(dimension), _) | (None, Some(dimension)) => Ok(dimension),
        (None, None) => Err(bad_use("--dimension is missing, and the plan has no layout to take it from")),
    }
}
