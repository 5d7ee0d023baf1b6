//! Interprets an event: finds what it is composed of.

use strategy::{Participation, Tree};

use super::selection::Selection;
use super::totals::Totals;
use super::truncated::{self, Cut};
use super::{fixed_size, known};
use crate::allocation;
use crate::amplification::group_probability;
use crate::error::{AccountingError, Result, not_negative, positive};
use crate::event::{BatchCap, Event, MatrixMechanism, Partition, Sampling};
use crate::neighbouring::Neighbouring;
use crate::neighbouring::{AccountKind, Direction};
use crate::pld::{Pair, Round, sampling};

/// Deepest nesting of compositions: bounds the recursion on events that come from outside.
const MAX_DEPTH: usize = 64;

/// Works out what an event is composed of under one neighbouring relation.
pub(super) fn interpret(event: &Event, neighbouring: Neighbouring) -> Result<Totals> {
    let mut totals = Totals::new(neighbouring);
    add(&mut totals, event, 1, 0)?;
    Ok(totals)
}

/// Adds an event `count` times.
fn add(totals: &mut Totals, event: &Event, count: u64, depth: usize) -> Result<()> {
    if depth > MAX_DEPTH {
        return Err(unsupported(event, "compositions are nested more than 64 deep"));
    }
    let relation = totals.neighbouring;
    match event {
        Event::Gaussian { noise_multiplier } => totals.add_gaussian(1.0, *noise_multiplier, count),
        Event::PoissonSampledGaussian { noise_multiplier, sampling_probability } => {
            poisson(totals, *noise_multiplier, *sampling_probability, count)
        }
        Event::TruncatedPoissonGaussian {
            noise_multiplier,
            sampling_probability,
            dataset_size,
            batch_cap,
        } => totals.add_rounds(count, |direction| {
            let cap = BatchCap { batch_cap: *batch_cap, dataset_size: *dataset_size };
            truncated::round(*noise_multiplier, *sampling_probability, Cut::new(cap, 1, relation)?, direction)
        }),
        Event::MixtureOfGaussians { noise_multiplier, sensitivities, probabilities } => {
            let mixture = zipped(event, sensitivities, probabilities)?;
            if !AccountKind::UserLevel.accepts(relation) {
                let why = "no worst pair is known for replacement, where both data sets are mixtures; \
                           account under zero-out or add-remove";
                return Err(unsupported(event, why));
            }
            totals.add_rounds(count, |direction| {
                Pair::mixture(*noise_multiplier, &mixture, direction).map(Round::from)
            })
        }
        Event::RandomAllocation { noise_multiplier, batches_per_epoch, participations } => {
            if relation == Neighbouring::Replace {
                let why = "no worst pair is known for replacement, where both data sets are mixtures; \
                           account under zero-out or add-remove";
                return Err(unsupported(event, why));
            }
            let rounds = allocation::rounds(*noise_multiplier, *batches_per_epoch, *participations)?;
            rounds.into_iter().try_for_each(|(remove, add, times)| {
                totals.add_rounds(times.saturating_mul(count), |direction| {
                    Ok(match direction {
                        Direction::Remove => remove.clone(),
                        Direction::Add => add.clone(),
                    })
                })
            })
        }
        Event::SelfComposed { event, count: times } => {
            let product = count.checked_mul(*times).ok_or(AccountingError::Invalid {
                what: "number of rounds",
                value: count as f64 * *times as f64,
                allowed: "at most 2^40",
            })?;
            add(totals, event, product, depth + 1)
        }
        Event::Composed { events } => {
            events.iter().try_for_each(|event| add(totals, event, count, depth + 1))
        }
        Event::Tree { noise_multiplier, iterations, min_sep, max_participations, restarts, completion } => {
            let tree = Tree::new(restarts.clone(), *completion)?;
            let rule = Participation::new(*min_sep, *max_participations)?;
            totals.add_gaussian(tree.sensitivity(*iterations, rule)?.value, *noise_multiplier, count)
        }
        Event::ApproximateDp { .. }
        | Event::PureDp { .. }
        | Event::Laplace { .. }
        | Event::DiscreteLaplace { .. }
        | Event::DiscreteGaussian { .. }
        | Event::ExponentialMechanism { .. } => known::add(totals, event, count),
        Event::WithoutReplacementGaussian { noise_multiplier, dataset_size, batch_size } => {
            fixed_size::add(totals, *noise_multiplier, (*dataset_size, *batch_size), count)
        }
        Event::RepeatAndSelect { event, mean, shape } => {
            let mut run = Totals::new(relation);
            add(&mut run, event, 1, depth + 1)?;
            totals.add_selection(Selection::new(|order| run.worse_divergence(order), *mean, *shape)?, count);
            // Each of the runs may leave its mechanism, and the selection then leaves its own: docs/grid.md has the proof.
            totals.add_failure(run.failure * *mean, count)
        }
        Event::ZCdp { rho } => totals.add_zcdp(not_negative("rho", *rho)?, count),
        Event::MatrixMechanism(run) => matrix(totals, event, run, count),
    }
}

fn poisson(totals: &mut Totals, sigma: f64, q: f64, count: u64) -> Result<()> {
    if sampling("sampling probability", q)? == 1.0 {
        return totals.add_gaussian(1.0, sigma, count);
    }
    let relation = totals.neighbouring;
    totals.add_rounds(count, |direction: Direction| {
        Pair::poisson(sigma, q, relation, direction).map(Round::from)
    })
}

fn matrix(totals: &mut Totals, event: &Event, run: &MatrixMechanism, count: u64) -> Result<()> {
    let norm = positive("largest column norm", run.largest_column_norm)?;
    Participation::new(run.min_sep, run.max_participations)?;
    totals.add_failure(run.failure_probability, count)?;
    match run.sampling {
        Sampling::AnyOrder => totals.add_gaussian(run.sensitivity, run.noise_multiplier, count),
        Sampling::CyclicPoisson { sampling_probability, partition, cap } => {
            let Some(bands) = run.bands else {
                let why = "cyclic Poisson sampling amplifies strategies with bands only; this one has none";
                return Err(unsupported(event, why));
            };
            if partition == Partition::EqualSplit
                && !AccountKind::CyclicPoissonEqualSplit.accepts(totals.neighbouring)
            {
                let why = "groups of one size depend on the number of records; account under zero-out or \
                           replace, or put each record into a group on its own";
                return Err(unsupported(event, why));
            }
            positive("noise multiplier", run.noise_multiplier)?;
            let q = group_probability(bands, sampling_probability)?;
            let rounds = run.iterations.div_ceil(bands);
            let total = count.saturating_mul(rounds);
            let sigma = run.noise_multiplier / norm;
            let Some(cap) = cap else { return poisson(totals, sigma, q, total) };
            if bands > 1 && partition == Partition::Independent {
                let why = "a cap on batches of independent groups, whose sizes are secret, has no account; put records into \
                           groups of one size, leave out the cap, or account for batches in any order";
                return Err(unsupported(event, why));
            }
            let cut = Cut::new(cap, bands, totals.neighbouring)?;
            totals.add_rounds(total, |direction| truncated::round(sigma, q, cut, direction))
        }
    }
}

fn zipped(event: &Event, sensitivities: &[f64], probabilities: &[f64]) -> Result<Vec<(f64, f64)>> {
    if sensitivities.len() != probabilities.len() {
        let s = sensitivities.len();
        let p = probabilities.len();
        return Err(unsupported(event, &format!("it has {s} sensitivities and {p} probabilities")));
    }
    Ok(probabilities.iter().copied().zip(sensitivities.iter().copied()).collect())
}

fn unsupported(event: &Event, why: &str) -> AccountingError {
    AccountingError::Unsupported { event: event.name(), why: why.to_owned() }
}
