//! One mechanism weighed: what it costs and what is left of the error at the (ε, δ) asked for.

use std::ops::ControlFlow;

use accounting::amplification;
use plan::{Mechanism, Plan, PlanSpec};
use serde::Serialize;
use strategy::optimize::{Family, Target, optimize};
use strategy::{Objective, Participation, Sensitivity, Strategy, Workload};

use crate::candidates::{Candidate, Make};
use crate::request::{PlannerError, Request, Result};

/// Most numbers of a column-normalised strategy that is optimised with its last columns as they are.
const NORMALISED_NUMBERS: u64 = 1 << 17;

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
    /// The rule whose sensitivity the noise is calibrated by: of one participation where sampling is accounted apart.
    fn rule(self) -> Participation {
        match self {
            Self::MinSep(rule) => rule,
            Self::CyclicPoisson { .. } => Participation::single(),
        }
    }

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
    pub epsilon_if_assumption_fails: Option<f64>,
    /// Loss over the first half of the rounds relative to the same mechanism made for half the rounds, less one; none
    /// where that can't be made.
    pub excess_at_half: Option<f64>,
    /// False where the search ran out of steps; the best point found is given.
    pub converged: bool,
    /// True where the caller ended the search.
    pub stopped: bool,
    /// Seconds that the search took.
    pub seconds: f64,
}

/// A candidate weighed, or why it couldn't be.
pub(crate) enum Weighed {
    Entry(Box<Entry>),
    LeftOut { name: String, reason: String },
}

type Flow<'a> = &'a (dyn Fn() -> ControlFlow<()> + Sync);

/// # Errors
/// An (ε, δ) out of reach. A mechanism that this setting can't have is left out.
pub(crate) fn weigh(candidate: &Candidate, request: &Request, flow: Flow<'_>) -> Result<Weighed> {
    match entry(candidate, request, flow) {
        Ok(entry) => Ok(Weighed::Entry(Box::new(entry))),
        Err(PlannerError::Strategy(error)) => {
            Ok(Weighed::LeftOut { name: candidate.name(), reason: error.to_string() })
        }
        Err(PlannerError::Plan(error)) => {
            Ok(Weighed::LeftOut { name: candidate.name(), reason: error.to_string() })
        }
        Err(error) => Err(error),
    }
}

fn entry(candidate: &Candidate, request: &Request, flow: Flow<'_>) -> Result<Entry> {
    let start = std::time::Instant::now();
    let n = request.iterations;
    let sampling = candidate.sampling;
    let Made { strategy, converged, stopped } = made(candidate, request, n, flow)?;
    let seconds = start.elapsed().as_secs_f64();
    let error = target(request, sampling, n).error(&strategy)?;
    let sensitivity = accounted(&strategy, sampling.rule(), n)?;
    let noise_multiplier = noise_multiplier(sampling, sensitivity, request)?;
    // State is kept as `f32`.
    let state_bytes_per_parameter = 4 * strategy.state_slots(n) as u64;
    let state_bytes_per_worker = state_bytes_per_parameter.saturating_mul(request.shard());
    Ok(Entry {
        mechanism: strategy.name(),
        size: size(&strategy),
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
        excess_at_half: excess_at_half(&strategy, candidate, request, flow),
        converged,
        stopped,
        seconds,
        strategy,
    })
}

struct Made {
    strategy: Strategy,
    converged: bool,
    stopped: bool,
}

fn target(request: &Request, sampling: Sampling, n: u64) -> Target {
    Target::new(n, sampling.rule(), request.objective.clone()).with_workload(request.workload.clone())
}

fn made(candidate: &Candidate, request: &Request, n: u64, flow: Flow<'_>) -> Result<Made> {
    let target = target(request, candidate.sampling, n);
    let family = match &candidate.make {
        Make::Search(family) => *family,
        Make::Normalised { bands } if n.saturating_mul(*bands as u64) <= NORMALISED_NUMBERS => {
            Family::BandToeplitzNormalised { bands: *bands }
        }
        // So long a run has next to nothing to gain from its last columns.
        Make::Normalised { bands } => Family::BandToeplitz { bands: *bands },
    };
    let found = optimize(family, &target, &mut |_| flow())?;
    let strategy = match (found.strategy, &candidate.make) {
        (Strategy::BandToeplitz { c, .. }, Make::Normalised { .. }) => {
            Strategy::BandToeplitz { c, column_normalised: true }
        }
        (strategy, _) => strategy,
    };
    Ok(Made { strategy, converged: found.converged, stopped: found.stopped })
}

/// sens(C) of what a plan of this strategy runs with.
fn accounted(strategy: &Strategy, rule: Participation, n: u64) -> Result<Sensitivity> {
    let plan = Plan::new(PlanSpec {
        chacha_rounds: 20,
        iterations: n,
        noise_multiplier: 1.0,
        clip_norm: 1.0,
        participation: plan::Participation {
            min_sep: rule.min_sep,
            max_participations: rule.max_participations,
        },
        mechanism: Mechanism::try_from(strategy)?,
        layout: None,
    })?;
    Ok(plan.accounted_sensitivity()?)
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

/// None where no separation is less than one.
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

/// How much worse the strategy is over half the rounds than one made for them; none where that can't be said.
fn excess_at_half(
    strategy: &Strategy,
    candidate: &Candidate,
    request: &Request,
    flow: Flow<'_>,
) -> Option<f64> {
    let half = request.iterations / 2;
    // A workload or weights written out for n rounds say nothing of half of them; a sampled run's noise is
    // calibrated to all its rounds.
    let written_out =
        !matches!(request.workload, Workload::Prefix) || matches!(request.objective, Objective::Weighted(_));
    if half == 0 || written_out || !matches!(candidate.sampling, Sampling::MinSep(_)) {
        return None;
    }
    let target = target(request, candidate.sampling, half);
    let made = made(candidate, request, half, flow).ok().filter(|made| !made.stopped)?;
    Some(target.loss(strategy).ok()? / target.loss(&made.strategy).ok()? - 1.0)
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
