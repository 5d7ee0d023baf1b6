//! The planner: mechanisms weighed, optimised and calibrated.

use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering};

use accounting::calibrate_gaussian;
use plan::{Layout, Mechanism, Participation, PlanSpec};
use planner::{Request, Sampling, Watch};
use pyo3::prelude::*;
use serde_json::json;
use strategy::optimize::{Family, Target, optimize};
use strategy::{Objective, Strategy, Workload};

use crate::error::{Refused, Result};
use crate::plans::{Plan, layout, rounding};
use crate::wait::{signals, work};

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
/// and the most bytes of state of one. `within`: the excess error for which less state is preferred. `on_grid`: whether the plans
/// are then put on a grid, with [`keep_on_grid`].
#[pyfunction]
pub fn suggest(
    py: Python<'_>,
    run: Run,
    promise: (f64, f64),
    sampling_probability: Option<f64>,
    workers: (u64, Option<u64>),
    within: f64,
    on_grid: bool,
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
        on_grid,
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

/// The plan on a grid that costs what this plan of floats does, however batches are formed: σ is raised by what the grid costs.
#[pyfunction]
pub fn keep_on_grid(
    py: Python<'_>,
    plan: &Plan,
    summing_error: Option<f64>,
    name: Option<&str>,
) -> Result<Plan> {
    let rounding = rounding(name)?;
    Ok(Plan(py.detach(|| planner::on_grid(&plan.0, rounding, summing_error))?))
}

/// One mechanism, optimised for prefix sums and calibrated to (ε, δ). `size`: bands or buffers. `column_norms`: by-epoch or equal,
/// as of `rustle plan optimize`.
#[pyfunction]
pub fn optimise(
    py: Python<'_>,
    run: Run,
    promise: (f64, f64),
    mechanism: &str,
    size: Option<usize>,
    column_norms: Option<&str>,
) -> Result<Plan> {
    let is_by_epoch = is_by_epoch(mechanism, column_norms)?;
    let family = family(mechanism, size, is_by_epoch, &run)?;
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
            Some(grid) => Ok(Plan(planner::calibrate_on_grid(&spec, grid, (epsilon, delta), 1.0)?)),
        }
    })
}

/// The δ that a mechanism on a grid may have at ε where the run is to keep `delta`.
#[pyfunction]
pub fn delta_on_grid(epsilon: f64, delta: f64) -> Result<f64> {
    Ok(planner::delta_on_grid(epsilon, delta)?)
}

/// Returns whether the norms of C's columns are one for each epoch, as of band-mf they are where nothing is given.
fn is_by_epoch(mechanism: &str, column_norms: Option<&str>) -> Result<bool> {
    let Some(name) = column_norms else { return Ok(mechanism == "band-mf") };
    if !matches!(mechanism, "band-mf" | "band-toeplitz" | "blt") {
        let allowed = format!("none with {mechanism}; for band-mf, band-toeplitz and blt, by-epoch or equal");
        return Err(Refused::invalid("column_norms", format!("{name:?}"), allowed));
    }
    match name {
        "by-epoch" => Ok(true),
        "equal" => Ok(false),
        other => Err(Refused::invalid("column_norms", format!("{other:?}"), "by-epoch, equal")),
    }
}

fn family(mechanism: &str, size: Option<usize>, is_by_epoch: bool, run: &Run) -> Result<Family> {
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
        "blt" => sized(match size {
            Some(buffers) if is_by_epoch => Family::BltByEpoch { buffers },
            Some(buffers) => Family::Blt { buffers },
            None if is_by_epoch => Family::BltAutoByEpoch { max_buffers: BUFFERS },
            None => Family::BltAuto { max_buffers: BUFFERS },
        }),
        "band-toeplitz" if is_by_epoch => sized(Family::BandToeplitzByEpoch { bands }),
        "band-toeplitz" => sized(Family::BandToeplitz { bands }),
        "band-mf" if is_by_epoch => sized(Family::BandMfByEpoch { bands }),
        "band-mf" => sized(Family::BandMf { bands }),
        "band-sqrt" => sized(Family::BandSqrt { bands }),
        "band-inverse" => sized(Family::BandInverse { bands }),
        "band-inverse-sqrt" => sized(Family::BandInverseSqrt { bands }),
        other => {
            let allowed = Mechanism::NAMES.join(", ");
            Err(Refused::invalid("mechanism", format!("{other:?}"), allowed))
        }
    }
}
