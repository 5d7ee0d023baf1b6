//! Evaluates one mechanism: its cost, and the error that is left at the requested (ε, δ).

use std::ops::ControlFlow;

use accounting::amplification;
use strategy::optimize::{Family, Target, optimize};
use strategy::{Objective, Participation, Sensitivity, Strategy, Workload};

use crate::candidates::{Candidate, Method};
use crate::entry::{Entry, column_norms};
use crate::request::{PlannerError, Request, Result};
use crate::sampling::Sampling;

/// Where refinements end: mechanisms differ by per cents, and the last digits take most of the steps.
const LEAST_GAIN: f64 = 1e-4;
/// Where other searches for half the rounds end, of which a ratio of losses alone is shown.
const HALF_GAIN: f64 = 1e-7;
/// Most numbers of a column-normalised strategy that is optimized with its true, shorter last columns.
const NORMALISED_NUMBERS: u64 = 1 << 17;

/// A candidate's figures, or the reason why it has none.
pub(crate) enum Evaluation {
    Entry(Box<Entry>),
    LeftOut {
        name: String,
        reason: String,
    },
    /// Scales of columns that gain nothing, so that the strategy is one evaluated before; or a search that was stopped.
    NoScales {
        stopped: bool,
    },
}

type Flow<'a> = &'a (dyn Fn() -> ControlFlow<()> + Sync);

/// Evaluates a candidate; one that this setting can't have is left out.
///
/// # Errors
/// [`PlannerError`] for an (ε, δ) out of reach.
pub(crate) fn evaluate(candidate: &Candidate, request: &Request, flow: Flow<'_>) -> Result<Evaluation> {
    match entry(candidate, request, flow) {
        Ok(entry) if candidate.is_scaled() && !matches!(entry.strategy, Strategy::Scaled(_)) => {
            Ok(Evaluation::NoScales { stopped: entry.stopped })
        }
        Ok(entry) => Ok(Evaluation::Entry(Box::new(entry))),
        Err(error @ (PlannerError::Strategy(_) | PlannerError::Plan(_))) => {
            Ok(Evaluation::LeftOut { name: candidate.name(), reason: error.to_string() })
        }
        Err(error) => Err(error),
    }
}

fn entry(candidate: &Candidate, request: &Request, flow: Flow<'_>) -> Result<Entry> {
    let n = request.iterations;
    let sampling = candidate.sampling;
    let whole = target(request, candidate, n, 0.0);
    let timed = || {
        let start = std::time::Instant::now();
        search(candidate, &whole, flow).map(|found| (found, start.elapsed().as_secs_f64()))
    };
    // Beside each other, as the largest search of all takes the time of many.
    let (found, half) = rayon::join(timed, || of_half(candidate, request, flow));
    let (Optimum { strategy, converged, stopped }, seconds) = found?;
    let error = whole.error(&strategy)?;
    let sensitivity = plan::accounted_sensitivity(&strategy, sampling.rule(), n)?;
    let noise_multiplier = noise_multiplier(sampling, sensitivity, request)?;
    let state_bytes_per_parameter = state_bytes(&strategy, request);
    let state_bytes_per_worker = state_bytes_per_parameter.saturating_mul(request.shard());
    Ok(Entry {
        mechanism: strategy.name(),
        size: strategy.size().map(|size| size as u64),
        column_norms: column_norms(&strategy),
        sampling,
        sampling_name: sampling.name(),
        sensitivity: sensitivity.value,
        sensitivity_exact: sensitivity.exact,
        loss: error * sensitivity.value,
        noise_multiplier,
        error: error * noise_multiplier,
        state_bytes_per_parameter,
        state_bytes_per_worker,
        fits: request.memory_per_worker.is_none_or(|most| state_bytes_per_worker <= most),
        epsilon_if_assumption_fails: epsilon_if_assumption_fails(
            &strategy,
            sampling,
            noise_multiplier,
            request,
        )?,
        excess_at_half: half.and_then(|(target, least)| Some(target.loss(&strategy).ok()? / least - 1.0)),
        converged,
        stopped,
        seconds,
        strategy,
    })
}

/// Returns the bytes of state of a parameter: in `f32`, or on a grid in integers of 32 bits, but for BLTs in binary64.
fn state_bytes(strategy: &Strategy, request: &Request) -> u64 {
    let is_wide = request.on_grid && matches!(strategy, Strategy::Blt(_));
    (if is_wide { 8 } else { 4 }) * strategy.state_slots(request.iterations) as u64
}

struct Optimum {
    strategy: Strategy,
    converged: bool,
    stopped: bool,
}

fn target(request: &Request, candidate: &Candidate, n: u64, least_gain: f64) -> Target {
    Target::new(n, candidate.sampling.rule(), request.objective.clone())
        .with_workload(request.workload.clone())
        .with_least_gain(if candidate.is_refinement() { LEAST_GAIN } else { least_gain })
}

fn search(candidate: &Candidate, target: &Target, flow: Flow<'_>) -> Result<Optimum> {
    let n = target.iterations;
    let family = match &candidate.method {
        Method::Search(family) => *family,
        Method::Normalised { bands } if n.saturating_mul(*bands as u64) <= NORMALISED_NUMBERS => {
            Family::BandToeplitzNormalised { bands: *bands }
        }
        // So long a run has next to nothing to gain from its last columns.
        Method::Normalised { bands } => Family::BandToeplitz { bands: *bands },
    };
    let found = optimize(family, target, &mut |_| flow())?;
    let strategy = match (found.strategy, &candidate.method) {
        (Strategy::BandToeplitz { c, .. }, Method::Normalised { .. }) => {
            Strategy::BandToeplitz { c, column_normalised: true }
        }
        (strategy, _) => strategy,
    };
    Ok(Optimum { strategy, converged: found.converged, stopped: found.stopped })
}

fn noise_multiplier(sampling: Sampling, sensitivity: Sensitivity, request: &Request) -> Result<f64> {
    let epsilon = request.epsilon;
    let delta = request.delta;
    Ok(match sampling {
        Sampling::MinSep(_) => accounting::calibrate_gaussian(sensitivity.value, epsilon, delta)?,
        // The accountant's σ is for columns of norm one.
        Sampling::CyclicPoisson { bands, sampling_probability: q } => {
            sensitivity.value
                * amplification::band_mf_noise_multiplier(epsilon, delta, bands, q, request.iterations)?
        }
    })
}

/// ε where the sampling's assumption fails; `None` where no separation is less than the request's.
fn epsilon_if_assumption_fails(
    strategy: &Strategy,
    sampling: Sampling,
    noise_multiplier: f64,
    request: &Request,
) -> Result<Option<f64>> {
    let n = request.iterations;
    let rule = match sampling {
        Sampling::MinSep(Participation { min_sep: 1, .. }) => return Ok(None),
        Sampling::MinSep(Participation { min_sep, max_participations }) => {
            let closer = min_sep - (min_sep / 4).max(1);
            let more = u128::from(max_participations) * u128::from(min_sep);
            Participation::new(closer, more.div_ceil(closer.into()).min(n.into()) as u64)?
        }
        // Every record in every round of its group.
        Sampling::CyclicPoisson { bands, .. } => Participation::new(bands, n.div_ceil(bands))?,
    };
    let sensitivity = strategy.sensitivity(n, rule)?.value;
    Ok(Some(accounting::gaussian::epsilon(request.delta, sensitivity / noise_multiplier)?))
}

/// The setting of half the rounds, with the loss of a strategy made for them; `None` where there is no such loss.
fn of_half(candidate: &Candidate, request: &Request, flow: Flow<'_>) -> Option<(Target, f64)> {
    let half = request.iterations / 2;
    // A workload or weights written out for n rounds don't define those of half of them; a sampled run's noise is
    // calibrated to all its rounds.
    let written_out =
        !matches!(request.workload, Workload::Prefix) || matches!(request.objective, Objective::Weighted(_));
    if half == 0 || written_out || !matches!(candidate.sampling, Sampling::MinSep(_)) {
        return None;
    }
    let target = target(request, candidate, half, HALF_GAIN);
    let optimum = search(candidate, &target, flow).ok().filter(|optimum| !optimum.stopped)?;
    let least = target.loss(&optimum.strategy).ok()?;
    Some((target, least))
}
