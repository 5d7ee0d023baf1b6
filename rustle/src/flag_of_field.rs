//! Fields of a plan that come from flags.

use std::collections::BTreeSet;
use std::sync::OnceLock;

use clap::Command;
use plan::PlanError;
use planner::PlannerError;

use crate::output::bad_use;

/// The long flags of all commands of `rustle plan`.
static FLAGS: OnceLock<BTreeSet<String>> = OnceLock::new();

/// Notes the flags of the command line, whose own module takes from this one.
pub fn set_flags(root: &Command) {
    FLAGS.get_or_init(|| {
        let plan = root.find_subcommand("plan").into_iter();
        let arguments = plan.flat_map(Command::get_subcommands).flat_map(Command::get_arguments);
        arguments.filter_map(|argument| argument.get_long().map(str::to_owned)).collect()
    });
}

/// Names the flag of a field that is not allowed, since a command line has no plan file to look into. A field that no flag holds
/// is named as the plan's.
pub fn of_flag(error: PlanError) -> anyhow::Error {
    match error {
        PlanError::Field { field, value, allowed } => bad_use(of_field(&field, &value, &allowed)),
        PlanError::Missing { field, allowed } => {
            bad_use(format!("{} is missing; allowed: {allowed}", named(&field)))
        }
        other => bad_use(other),
    }
}

fn of_field(field: &str, value: &str, allowed: &str) -> String {
    // Which step a grid has follows from the noise and the dimension, and so does whether a rounding fits it.
    let limit = allowed.split([';', ':']).next().unwrap_or(allowed);
    match field {
        "grid.rounding" => {
            let coarser = if value.starts_with("\"nearest\"") { ", or --rounding dithered" } else { "" };
            format!(
                "the grid of these rows has rounding {value}; allowed: {limit}: a smaller --noise-multiplier or --dimension{coarser}"
            )
        }
        "grid.step" => format!(
            "the grid of these rows has the step {value}; allowed: {limit}: another --noise-multiplier or --clip-norm"
        ),
        field => format!("{} is {value}; allowed: {allowed}", named(field)),
    }
}

/// Returns the flag of a field, or the field where no command of `rustle plan` has such a flag.
fn named(field: &str) -> String {
    let name = field.rsplit('.').next().unwrap_or(field);
    let name = name.split('[').next().unwrap_or(name).replace('_', "-");
    if is_flag(&name) { format!("--{name}") } else { format!("the plan's {field}") }
}

fn is_flag(name: &str) -> bool {
    FLAGS.get().is_some_and(|flags| flags.contains(name))
}

/// The same of what the planner refuses.
pub fn of_planner(error: PlannerError) -> anyhow::Error {
    match error {
        PlannerError::Plan(error) => of_flag(error),
        error => bad_use(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_flags_that_there_are_are_named() {
        let flags = ["min-sep", "theta", "noise-multiplier", "batch-size"]
            .map(|name| clap::Arg::new(name).long(name));
        set_flags(
            &Command::new("rustle")
                .subcommand(Command::new("plan").subcommand(Command::new("from").args(flags))),
        );
        for (field, expected) in [
            ("participation.min_sep", "--min-sep"),
            ("mechanism.theta[1]", "--theta"),
            ("noise_multiplier", "--noise-multiplier"),
            ("mechanism.name", "the plan's mechanism.name"),
            ("mechanism.entries", "the plan's mechanism.entries"),
            ("batch_size", "--batch-size"),
        ] {
            assert_eq!(named(field), expected);
        }
        let text = of_field(
            "grid.rounding",
            "\"dithered\" with x",
            "\"dithered\" with x up to 2; take a smaller step",
        );
        assert!(text.contains("--noise-multiplier") && !text.contains("smaller step"), "{text}");
    }
}
