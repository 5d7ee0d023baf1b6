//! The number of coordinates that a command works on.

use plan::Plan;

use crate::output::bad_use;

/// Returns the dimension of `--dimension` or of the plan's layout, by the rule for jobs. Errors: the two differ, both
/// are missing, or the flag is out of range.
pub fn resolve(flag: Option<u64>, plan: &Plan) -> anyhow::Result<u64> {
    release::job::dimension(flag, plan).map_err(|error| bad_use(format!("--{error}")))
}
