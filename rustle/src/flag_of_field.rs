//! Fields of a plan that come from flags.

use plan::PlanError;
use planner::PlannerError;

use crate::output::bad_use;

/// Names the flag of a field that is not allowed, since a command line has no plan file to look into.
pub fn of_flag(error: PlanError) -> anyhow::Error {
    let flag = |field: &str| {
        let name = field.rsplit('.').next().unwrap_or(field);
        let name = name.split('[').next().unwrap_or(name);
        format!("--{}", name.replace('_', "-"))
    };
    match error {
        PlanError::Field { field, value, allowed } => {
            bad_use(format!("{} is {value}; allowed: {allowed}", flag(&field)))
        }
        PlanError::Missing { field, allowed } => {
            bad_use(format!("{} is missing; allowed: {allowed}", flag(&field)))
        }
        other => bad_use(other),
    }
}

/// The same of what the planner refuses.
pub fn of_planner(error: PlannerError) -> anyhow::Error {
    match error {
        PlannerError::Plan(error) => of_flag(error),
        error => bad_use(error),
    }
}
