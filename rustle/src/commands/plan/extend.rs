//! `rustle plan extend`: the same plan with more rounds.

use std::path::PathBuf;
use std::process::ExitCode;

use accounting::zcdp;
use clap::Args;
use plan::Plan;

use super::grid::GridArgs;
use super::make::RunArgs;
use crate::commands::errors::from_accounting;
use crate::commands::plan_file;
use crate::commands::setting::ParticipationArgs;
use crate::flag_of_field::of_flag;
use crate::output::{Answer, Format, bad_use};

#[derive(Clone, Debug, Args)]
pub struct ExtendArgs {
    /// File of the plan that is made longer
    #[arg(long, value_name = "FILE")]
    plan: PathBuf,
    /// Number of rounds of the longer plan
    #[arg(long, value_name = "N")]
    iterations: u64,
    /// Maximum number of participations of one user in all rounds, at least the plan's [default: the plan's, or as many as fit
    /// where it allows as many as fit]
    #[arg(long, value_name = "K")]
    max_participations: Option<u64>,
    /// File to write the longer plan to; - for standard output, without the answer [default: part of the answer]
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

pub fn run(args: &ExtendArgs, format: Format) -> anyhow::Result<ExitCode> {
    let plan = plan_file::read(&args.plan)?;
    let longer = plan.extended(args.iterations, args.max_participations).map_err(of_flag)?;
    let rule = longer.participation();
    let answer = Answer::new()
        .with("mechanism", longer.mechanism().name())
        .with("iterations", longer.iterations())
        .with("extends", plan.iterations())
        .with("min_sep", rule.min_sep)
        .with("max_participations", rule.max_participations)
        .with("noise_multiplier", longer.noise_multiplier());
    let answer = with_cost(answer, &longer, ["sensitivity", "sensitivity_exact", "rho"])?;
    let answer = with_cost(answer, &plan, ["sensitivity_before", "sensitivity_exact_before", "rho_before"])?;
    let run = RunArgs {
        iterations: longer.iterations(),
        participation: ParticipationArgs {
            min_sep: rule.min_sep,
            max_participations: rule.max_participations,
        },
        clip_norm: longer.clip_norm(),
        chacha_rounds: longer.chacha_rounds(),
        dimension: None,
        grid: GridArgs::default(),
        out: args.out.clone(),
    };
    let answer = run.deliver(&longer, run.open_out()?, answer)?;
    run.print(&answer, format)?;
    Ok(ExitCode::SUCCESS)
}

/// Adds what a whole run of the plan costs, from its first round on.
fn with_cost(answer: Answer, plan: &Plan, names: [&'static str; 3]) -> anyhow::Result<Answer> {
    let [sensitivity, exact, rho] = names;
    let found = plan.accounted_sensitivity().map_err(bad_use)?;
    let answer = answer.with(sensitivity, found.value).with(exact, found.exact);
    let sigma = plan.accounted_noise_multiplier();
    if sigma == 0.0 {
        return Ok(answer);
    }
    Ok(answer.with(rho, zcdp::rho(found.value, sigma).map_err(from_accounting)?))
}
