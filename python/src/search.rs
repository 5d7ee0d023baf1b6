//! The planner: mechanisms weighed, optimised and calibrated.

use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering};

use accounting::{Report, calibrate_gaussian};
use plan::{Grid, Layout, Mechanism, Participation, PlanSpec, grid};
use planner::{Request, Sampling, Watch};
use pyo3::prelude::*;
use serde_json::json;
use strategy::optimize::{Family, Target, optimize};
use strategy::{Objective, Strategy, Workload};

use crate::error::{Refused, Result};
use crate::plans::{Plan, layout};
use crate::wait::{signals, work};

/// Times that σ is raised to make up for a grid: each raise changes the step by at most one factor of 2.
const RAISES: usize = 16;
/// Beyond what the last account asked for, so that rounding does not ask again.
const RAISE_MARGIN: f64 = 1.0 + 1e-9;

/// Most buffers of a BLT where no number is given.
const BUFFERS: usize = 8;

/// The run to plan for.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub struct Run {
    iterations: u64,
    min_sep: u64,
    max_participations: u64,
    clip_norm: f64,
    dimension: Option<u64>,
    parameters: Option<Vec<(String, Vec<u64>)>>,
    objective: String,
}

impl Run {
    fn rule(&self) -> Result<strategy::Participation> {
        let rule = strategy::Participation::new(self.min_sep, self.max_participations)?;
        rule.fits(self.iterations)?;
        Ok(rule)
    }

    fn layout(&self) -> Result<Option<Layout>> {
        layout(self.dimension, self.parameters.clone())
    }

    fn objective(&self) -> Result<Objective> {
        match self.objective.as_str() {
            "rms" => Ok(Objective::Rms),
            "max" => Ok(Objective::Max),
            "last" => Ok(Objective::Last),
            other => Err(Refused::invalid("objective", format!("{other:?}"), "rms, max, last")),
        }
    }

    fn plan(&self, strategy: &Strategy, rule: (u64, u64), noise_multiplier: f64) -> Result<Plan> {
        Ok(Plan(plan::Plan::new(PlanSpec {
            chacha_rounds: 20,
            iterations: self.iterations,
            // Found for a promise, or 1.
            noise_multiplier: plan::noise_multiplier_to_run(noise_multiplier, self.clip_norm),
            clip_norm: self.clip_norm,
            participation: Participation { min_sep: rule.0, max_participations: rule.1 },
            mechanism: Mechanism::try_from(strategy)?,
            layout: self.layout()?,
            grid: None,
        })?))
    }
}

/// Every mechanism weighed: one JSON object of entries, the least error first, and a plan of each. `workers`: their number
/// and the most bytes of state of one. `within`: the excess error for which less state is preferred.
#[pyfunction]
pub fn suggest(
    py: Python<'_>,
    run: Run,
    promise: (f64, f64),
    sampling_probability: Option<f64>,
    workers: (u64, Option<u64>),
    within: f64,
) -> Result<(String, Vec<Plan>)> {
    let (workers, memory_per_worker) = workers;
    if !(0.0..=10.0).contains(&within) {
        return Err(Refused::invalid("within", within, "0 to 10, where 0.05 is 5 %"));
    }
    let (epsilon, delta) = promise;
    let dimension = run.layout()?.map(|layout| layout.dimension());
    let request = Request {
        iterations: run.iterations,
        participation: run.rule()?,
        sampling_probability,
        epsilon,
        delta,
        objective: run.objective()?,
        workload: Workload::Prefix,
        dimension: dimension.ok_or_else(|| Refused::invalid("dimension", "missing", "given"))?,
        workers,
        memory_per_worker,
        on_grid: false,
    };
    let ended = AtomicBool::new(false);
    let flow =
        || if ended.load(Ordering::Relaxed) { ControlFlow::Break(()) } else { ControlFlow::Continue(()) };
    let end = || ended.store(true, Ordering::Relaxed);
    let watch = Watch { progress: &|_| {}, flow: &flow };
    let found = py.detach(|| work(signals, end, || planner::suggest(&request, watch)))??;
    let chosen = planner::recommend(&found.entries, within);
    let plans = found.entries.iter().map(|entry| {
        // A plan says nothing of sampling: what it promises by itself must hold without.
        let rule = match entry.sampling {
            Sampling::MinSep(rule) => (rule.min_sep, rule.max_participations),
            Sampling::CyclicPoisson { bands, .. } => (bands, run.iterations.div_ceil(bands)),
        };
        run.plan(&entry.strategy, rule, entry.noise_multiplier)
    });
    let plans = plans.collect::<Result<Vec<_>>>()?;
    let answer = json!({
        "entries": found.entries,
        "left_out": found.left_out,
        "recommended": chosen.as_ref().map(|chosen| chosen.index),
        "reason": chosen.map(|chosen| chosen.reason),
    });
    Ok((answer.to_string(), plans))
}

/// One mechanism, optimised for prefix sums and calibrated to (ε, δ). `size`: bands or buffers.
#[pyfunction]
pub fn optimise(
    py: Python<'_>,
    run: Run,
    promise: (f64, f64),
    mechanism: &str,
    size: Option<usize>,
) -> Result<Plan> {
    let family = family(mechanism, size, &run)?;
    let target = Target::new(run.iterations, run.rule()?, run.objective()?);
    let ended = AtomicBool::new(false);
    let end = || ended.store(true, Ordering::Relaxed);
    let mut flow =
        |_| if ended.load(Ordering::Relaxed) { ControlFlow::Break(()) } else { ControlFlow::Continue(()) };
    let found = py.detach(|| work(signals, end, || optimize(family, &target, &mut flow)))??;
    let plan = run.plan(&found.strategy, (run.min_sep, run.max_participations), 1.0)?;
    calibrate(py, &plan, promise.0, promise.1)
}

/// The plan with the smallest σ that keeps (ε, δ), for batches formed anyhow within its participation. On a grid σ is raised
/// by what the grid costs, and the step chosen anew.
#[pyfunction]
pub fn calibrate(py: Python<'_>, plan: &Plan, epsilon: f64, delta: f64) -> Result<Plan> {
    py.detach(|| {
        let float = plan::Plan::new(PlanSpec { grid: None, ..plan.0.spec().clone() })?;
        let sensitivity = float.accounted_sensitivity()?;
        let noise_multiplier = calibrate_gaussian(sensitivity.value, epsilon, delta)?;
        let noise_multiplier = plan::noise_multiplier_to_run(noise_multiplier, float.clip_norm());
        let spec = PlanSpec { noise_multiplier, ..float.spec().clone() };
        match plan.0.spec().grid {
            None => Ok(Plan(plan::Plan::new(spec)?)),
            Some(grid) => on_grid(spec, grid, epsilon, delta),
        }
    })
}

/// Raises σ of a float plan until it keeps (ε, δ) on a grid as well.
fn on_grid(float: PlanSpec, old: Grid, epsilon: f64, delta: f64) -> Result<Plan> {
    let mut spec = float;
    for _ in 0..RAISES {
        let grid = grid::choose(&spec, Some(old.rounding), Some(old.summing_error))?;
        let plan = plan::Plan::new(PlanSpec { grid: Some(grid), ..spec.clone() })?;
        let sensitivity = plan.accounted_sensitivity()?;
        let noise = plan.accounted_noise_multiplier();
        if Report::of_run(sensitivity, noise, plan.failure_probability(), delta)?.epsilon <= epsilon {
            return Ok(Plan(plan));
        }
        let needed = calibrate_gaussian(sensitivity.value, epsilon, delta)?;
        spec.noise_multiplier *= (needed / noise).max(1.0) * RAISE_MARGIN;
    }
    let allowed =
        "a smaller summing_error, or another rounding: the grid costs more than more noise makes up for";
    Err(Refused::invalid("epsilon", epsilon, allowed))
}

fn family(mechanism: &str, size: Option<usize>, run: &Run) -> Result<Family> {
    let bands = size.unwrap_or(run.min_sep.min(run.iterations) as usize);
    let sized = |family| Ok(family);
    let unsized_ = |family: Family| match size {
        None => Ok(family),
        Some(size) => {
            Err(Refused::invalid("size", size, format!("none: {mechanism} has no bands or buffers")))
        }
    };
    match mechanism {
        "identity" => unsized_(Family::Identity),
        "tree" => unsized_(Family::Tree),
        "lambda-cgd" => unsized_(Family::LambdaCgd),
        "dense" => unsized_(Family::Dense),
        "blt" => {
            sized(size.map_or(Family::BltAuto { max_buffers: BUFFERS }, |buffers| Family::Blt { buffers }))
        }
        "band-toeplitz" => sized(Family::BandToeplitz { bands }),
        "band-mf" => sized(Family::BandMfByEpoch { bands }),
        "band-sqrt" => sized(Family::BandSqrt { bands }),
        "band-inverse" => sized(Family::BandInverse { bands }),
        "band-inverse-sqrt" => sized(Family::BandInverseSqrt { bands }),
        other => {
            let allowed = Mechanism::NAMES.join(", ");
            Err(Refused::invalid("mechanism", format!("{other:?}"), allowed))
        }
    }
}
