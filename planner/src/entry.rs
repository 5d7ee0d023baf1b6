//! One mechanism weighed: what it costs and what is left of the error at the (ε, δ) asked for.

use std::ops::ControlFlow;

use accounting::amplified;
use serde::Serialize;
use strategy::optimize::{Family, Target, optimize};
use strategy::{Participation, Sensitivity, Strategy, StrategyError};

use crate::candidates::{Candidate, Make};
use crate::request::{Request, Result};

/// How batches are formed: what the privacy of an entry rests on.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Sampling {
    /// Any order in which participations of one user satisfy **j − i ≥ min_sep**; no amplification.
    MinSep(Participation),
    /// Records are split into `bands` groups independently of the data; round t samples group t mod bands, each
    /// record with probability bands·q.
    CyclicPoisson { bands: u64, sampling_probability: f64 },
}

impl Sampling {
    /// In one word.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::MinSep(_) => "min-sep",
            Self::CyclicPoisson { bands: 1, .. } => "poisson",
            Self::CyclicPoisson { .. } => "cyclic-poisson",
        }
    }
}

/// A mechanism in the setting of a request.
#[derive(Debug, Clone, Serialize)]
pub struct Entry {
    /// As plan.toml names it.
    pub mechanism: &'static str,
    /// Bands of C or of C⁻¹, or buffers; none where there is no such number.
    pub size: Option<u64>,
    #[serde(skip)]
    pub strategy: Strategy,
    #[serde(skip)]
    pub sampling: Sampling,
    #[serde(rename = "sampling")]
    pub sampling_name: &'static str,
    /// sens(C) per unit clip norm under the sampling's rule; of one participation for cyclic Poisson.
    pub sensitivity: f64,
    /// False where the sensitivity is an upper bound.
    pub sensitivity_exact: bool,
    /// Error of the released rows times sens(C), of the request's objective.
    pub loss: f64,
    /// σ for the request's (ε, δ).
    pub noise_multiplier: f64,
    /// σ × error of the released rows, in units of the clip norm: what entries are ranked by.
    pub error: f64,
    /// `f32` numbers of state that a worker keeps for each coordinate.
    pub state_bytes_per_parameter: u64,
    pub state_bytes_per_worker: u64,
    /// Within the memory that the request allows.
    pub fits: bool,
    /// ε where the sampling's assumption fails: a quarter less min_sep (and as many more participations), or cyclic
    /// batches whose records were not sampled at all.
    pub epsilon_if_assumption_fails: f64,
    /// Loss over the first half of the rounds relative to the same mechanism made for half the rounds, less one; none
    /// where that can't be made.
    pub excess_at_half: Option<f64>,
    /// False where the search ran out of steps; the best point found is given.
    pub converged: bool,
    /// Seconds that the search took.
    pub seconds: f64,
}

/// None where the mechanism can't be optimised in this setting.
pub(crate) fn weigh(candidate: &Candidate, request: &Request) -> Result<Option<Entry>> {
    let start = std::time::Instant::now();
    let Some(made) = made(candidate, request, request.iterations)? else { return Ok(None) };
    let seconds = start.elapsed().as_secs_f64();
    let Made { strategy, converged } = made;
    let n = request.iterations;
    let target = target(request, candidate.sampling, n);
    let (error, sensitivity) = (target.error(&strategy)?, sensitivity(&strategy, candidate.sampling, n)?);
    let noise_multiplier = noise_multiplier(candidate.sampling, sensitivity, request)?;
    // State is kept as `f32`.
    let state_bytes_per_parameter = 4 * strategy.state_slots(n) as u64;
    let state_bytes_per_worker = state_bytes_per_parameter.saturating_mul(request.shard());
    Ok(Some(Entry {
        mechanism: strategy.name(),
        size: size(&strategy),
        sampling: candidate.sampling,
        sampling_name: candidate.sampling.name(),
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
            candidate.sampling,
            noise_multiplier,
            request,
        )?,
        excess_at_half: excess_at_half(&strategy, candidate, request)?,
        converged,
        seconds,
        strategy,
    }))
}

struct Made {
    strategy: Strategy,
    converged: bool,
}

fn target(request: &Request, sampling: Sampling, n: u64) -> Target {
    let rule = match sampling {
        Sampling::MinSep(rule) => rule,
        Sampling::CyclicPoisson { .. } => Participation::single(),
    };
    Target::new(n, rule, request.objective.clone()).with_workload(request.workload.clone())
}

fn made(candidate: &Candidate, request: &Request, n: u64) -> Result<Option<Made>> {
    let target = target(request, candidate.sampling, n);
    let family = match &candidate.make {
        Make::Given(strategy) => return evaluable(strategy.clone(), &target),
        Make::Search(family) => *family,
        Make::Normalised { bands } => Family::BandToeplitz { bands: *bands },
    };
    match optimize(family, &target, &mut |_| ControlFlow::Continue(())) {
        Ok(found) => {
            let strategy = match (found.strategy, &candidate.make) {
                (Strategy::BandToeplitz { c, .. }, Make::Normalised { .. }) => {
                    Strategy::BandToeplitz { c, column_normalised: true }
                }
                (strategy, _) => strategy,
            };
            Ok(Some(Made { strategy, converged: found.converged }))
        }
        Err(StrategyError::NotOptimisable { .. }) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// A strategy without parameters, unless its error on this workload has no answer (a tree's under momentum).
fn evaluable(strategy: Strategy, target: &Target) -> Result<Option<Made>> {
    match target.error(&strategy) {
        Ok(_) => Ok(Some(Made { strategy, converged: true })),
        Err(StrategyError::NoMatrix { .. }) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

fn sensitivity(strategy: &Strategy, sampling: Sampling, n: u64) -> Result<Sensitivity> {
    let rule = match sampling {
        Sampling::MinSep(rule) => rule,
        Sampling::CyclicPoisson { .. } => Participation::single(),
    };
    Ok(strategy.sensitivity(n, rule)?)
}

fn noise_multiplier(sampling: Sampling, sensitivity: Sensitivity, request: &Request) -> Result<f64> {
    let (epsilon, delta) = (request.epsilon, request.delta);
    Ok(match sampling {
        Sampling::MinSep(_) => accounting::calibrate_gaussian(sensitivity.value, epsilon, delta)?,
        // The accountant's σ is for columns of norm one.
        Sampling::CyclicPoisson { bands, sampling_probability: q } => {
            sensitivity.value
                * amplified::band_mf_noise_multiplier(epsilon, delta, bands, q, request.iterations)?
        }
    })
}

fn epsilon_if_assumption_fails(
    strategy: &Strategy,
    sampling: Sampling,
    noise_multiplier: f64,
    request: &Request,
) -> Result<f64> {
    let n = request.iterations;
    let rule = match sampling {
        Sampling::MinSep(Participation { min_sep, max_participations }) => {
            let closer = (min_sep - min_sep / 4).max(1);
            Participation::new(closer, (max_participations * min_sep).div_ceil(closer))?
        }
        // Every record in every round of its group.
        Sampling::CyclicPoisson { bands, .. } => Participation::new(bands, n.div_ceil(bands))?,
    };
    let sensitivity = strategy.sensitivity(n, rule)?.value;
    Ok(accounting::gaussian::epsilon(request.delta, sensitivity / noise_multiplier)?)
}

/// How much worse the strategy is over half the rounds than one made for them.
fn excess_at_half(strategy: &Strategy, candidate: &Candidate, request: &Request) -> Result<Option<f64>> {
    let half = request.iterations / 2;
    let Sampling::MinSep(rule) = candidate.sampling else { return Ok(None) };
    // A workload or weights written out for n rounds say nothing of half of them.
    let written_out = !matches!(request.workload, strategy::Workload::Prefix)
        || matches!(request.objective, strategy::Objective::Weighted(_));
    if half == 0 || written_out || rule.in_rounds(half) == 0 {
        return Ok(None);
    }
    let fits = match candidate.make {
        Make::Search(Family::BandToeplitz { bands } | Family::BandMf { bands }) => bands as u64 <= half,
        Make::Search(Family::Dense) => false,
        _ => true,
    };
    if !fits {
        return Ok(None);
    }
    let target = target(request, candidate.sampling, half);
    let Some(made) = made(candidate, request, half)? else { return Ok(None) };
    Ok(Some(target.loss(strategy)? / target.loss(&made.strategy)? - 1.0))
}

fn size(strategy: &Strategy) -> Option<u64> {
    Some(match strategy {
        Strategy::Blt(blt) => blt.buffers() as u64,
        Strategy::BandToeplitz { c, .. } => c.len() as u64,
        Strategy::BandMf(banded) => banded.bands() as u64,
        Strategy::BandSqrt { bands } | Strategy::BandInverseSqrt { bands } => *bands as u64,
        Strategy::BandInverse { s } => s.len() as u64,
        _ => return None,
    })
}
