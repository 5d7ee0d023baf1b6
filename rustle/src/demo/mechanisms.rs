//! The mechanisms that the demo compares: four at the same (ε, δ), calibrated under the actual participation.

use std::ops::ControlFlow;

use anyhow::Context;
use plan::{Layout, Mechanism, Participation, Plan, PlanSpec, Rounding};
use strategy::{
    Strategy,
    optimize::{Family, Objective, Target, optimize},
};

use super::model::PARAMETERS;
use super::training::Config;
use crate::flag_of_field::of_planner;

/// κ, more than enough: products of f32 may make a gradient longer than its clip norm by 2⁻²⁴ of it ([`super::model`]), and
/// sums of at most 145 in f64 round by 2·145²·2⁻⁵³.
const SUMMING_ERROR: f64 = 1e-6;

/// A mechanism, its plan and its loss.
#[derive(Clone, Debug)]
pub struct Contender {
    pub name: String,
    pub plan: Plan,
    pub rms_loss: f64,
}

/// Returns identity, tree, BLT and banded Toeplitz, calibrated to (ε, δ) by the exact Gaussian formula: on a grid, or of
/// floating-point numbers.
pub fn contenders(config: &Config, epsilon: f64, delta: f64, float: bool) -> anyhow::Result<Vec<Contender>> {
    let min_sep = config.batches_per_epoch as u64;
    let epochs = config.epochs as u64;
    let participation = Participation { min_sep, max_participations: epochs };
    let rule = strategy::Participation::new(min_sep, epochs)?;
    let target = Target::new(config.steps() as u64, rule, Objective::Rms);
    let mechanisms = [
        Mechanism::Identity,
        Mechanism::Tree { restarts: vec![], completion: false },
        optimised(Family::Blt { buffers: 3 }, &target)?,
        optimised(Family::BandToeplitz { bands: config.batches_per_epoch }, &target)?,
    ];
    let contenders = mechanisms
        .into_iter()
        .map(|m| contender(m, config, participation, &target, epsilon, delta))
        .collect::<anyhow::Result<Vec<_>>>()?;
    if float { Ok(contenders) } else { contenders.into_iter().map(on_grid).collect() }
}

fn on_grid(contender: Contender) -> anyhow::Result<Contender> {
    let plan = planner::on_grid(&contender.plan, Some(Rounding::Nearest), Some(SUMMING_ERROR))
        .map_err(of_planner)?;
    Ok(Contender { plan, ..contender })
}

fn contender(
    mechanism: Mechanism,
    config: &Config,
    participation: Participation,
    target: &Target,
    epsilon: f64,
    delta: f64,
) -> anyhow::Result<Contender> {
    let name = mechanism.name().to_owned();
    // The sensitivity does not depend on the noise multiplier, so a plan with any of them has it.
    let spec = PlanSpec {
        chacha_rounds: 20,
        iterations: target.iterations,
        noise_multiplier: 1.0,
        clip_norm: config.clip_norm,
        participation,
        mechanism,
        layout: Some(Layout::dimension_only(PARAMETERS as u64)?),
        grid: None,
    };
    let strategy = Plan::new(spec.clone())?.strategy().clone();
    let sensitivity = strategy.sensitivity(target.iterations, target.participation)?;
    let noise_multiplier = accounting::calibrate_gaussian(sensitivity.value, epsilon, delta)?;
    let noise_multiplier = plan::noise_multiplier_to_run(noise_multiplier, config.clip_norm);
    let rms_loss = strategy.rms_loss(target.iterations, target.participation)?;
    Ok(Contender { name, plan: Plan::new(PlanSpec { noise_multiplier, ..spec })?, rms_loss })
}

fn optimised(family: Family, target: &Target) -> anyhow::Result<Mechanism> {
    let found = optimize(family, target, &mut |_| ControlFlow::Continue(()))
        .with_context(|| format!("optimize {}", family.name()))?;
    match found.strategy {
        Strategy::Blt(blt) => Ok(Mechanism::Blt { theta: blt.theta().to_vec(), omega: blt.omega().to_vec() }),
        Strategy::BandToeplitz { c: coefficients, column_normalised } => {
            Ok(Mechanism::BandToeplitz { coefficients, column_normalised })
        }
        other => anyhow::bail!("the optimizer returned {} for {}", other.name(), family.name()),
    }
}
