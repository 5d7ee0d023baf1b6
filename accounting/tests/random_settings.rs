//! Random settings over the accounts, each against the masses of finitely many outputs.
//!
//! Cutting outputs into bins is a function of them, so the δ of the bins is a lower bound of the mechanism's, whatever the bins are; so
//! is the δ of one data set where the account is for the worst of all. Bins are fine enough for that bound to be close.

// Helpers outside `#[test]` functions are tests too.
#![allow(clippy::unwrap_used)]

use accounting::{Account, AccountingError, Event, MatrixMechanism, Neighbouring, Partition};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

/// Bins of a line.
const BINS: usize = 500;
/// Width of the bins of losses in which outputs are gathered before they are composed.
const WIDTH: f64 = 0.001;

/// Masses of outputs with the record and without it.
type Outputs = Vec<(f64, f64)>;

/// A mechanism's event, and outputs of it.
struct Setting {
    event: Event,
    outputs: Outputs,
    /// True where the outputs are nearly all that there is to know of the event.
    is_close: bool,
}

struct Dice(ChaCha8Rng);

impl Dice {
    fn unit(&mut self) -> f64 {
        (self.0.next_u64() >> 11) as f64 / (1u64 << 53) as f64
    }

    fn between(&mut self, low: f64, high: f64) -> f64 {
        low * (high / low).powf(self.unit())
    }

    fn below(&mut self, count: u64) -> u64 {
        self.0.next_u64() % count
    }
}

fn cdf(x: f64) -> f64 {
    0.5 * libm::erfc(-x / std::f64::consts::SQRT_2)
}

/// Bins of a line between two mixtures of unit Gaussians, given as (weight, mean).
fn mixtures(with: &[(f64, f64)], without: &[(f64, f64)]) -> Outputs {
    let means = || with.iter().chain(without).map(|(_, mean)| *mean);
    let low = means().fold(0.0, f64::min) - 8.0;
    let high = means().fold(0.0, f64::max) + 8.0;
    let edge = |i: usize| match i {
        0 => f64::NEG_INFINITY,
        BINS => f64::INFINITY,
        i => low + (high - low) * i as f64 / BINS as f64,
    };
    let mass = |side: &[(f64, f64)], i: usize| -> f64 {
        let one = |(weight, mean): &(f64, f64)| {
            let from = edge(i) - mean;
            let to = edge(i + 1) - mean;
            // From the tail that the bin is in.
            weight * if from > 0.0 { cdf(-from) - cdf(-to) } else { cdf(to) - cdf(from) }
        };
        side.iter().map(one).sum()
    };
    (0..BINS).map(|i| (mass(with, i), mass(without, i))).collect()
}

/// Integers from −300 to 300 under two probabilities that needn't be normalised.
fn integers(with: impl Fn(f64) -> f64, without: impl Fn(f64) -> f64) -> Outputs {
    let points = || (-300..=300).map(f64::from);
    let all = [points().map(&with).sum::<f64>(), points().map(&without).sum::<f64>()];
    points().map(|x| (with(x) / all[0], without(x) / all[1])).collect()
}

fn randomized_response(epsilon: f64, delta: f64) -> Outputs {
    let likely = (1.0 - delta) / (1.0 + (-epsilon).exp());
    let rare = 1.0 - delta - likely;
    vec![(likely, rare), (rare, likely), (delta, 0.0), (0.0, delta)]
}

fn laplace(scale: f64) -> Outputs {
    let below = |x: f64| if x < 0.0 { 0.5 * (x / scale).exp() } else { 1.0 - 0.5 * (-x / scale).exp() };
    let edges: Vec<f64> = (0..=BINS).map(|i| i as f64 / BINS as f64).collect();
    let ends = [(below(-1.0), below(0.0)), (1.0 - below(0.0), 1.0 - below(1.0))];
    let bin = |at: &[f64]| (below(at[1] - 1.0) - below(at[0] - 1.0), below(at[1]) - below(at[0]));
    edges.windows(2).map(bin).chain(ends).collect()
}

/// Products of bins of two lines, of which the record moves one.
fn one_of_two(mu: f64) -> Outputs {
    let line = mixtures(&[(1.0, mu)], &[(1.0, 0.0)]);
    let line = gathered(line, 0.05);
    let pair = |a: &(f64, f64), b: &(f64, f64)| (0.5 * (a.0 * b.1 + a.1 * b.0), a.1 * b.1);
    line.iter().flat_map(|a| line.iter().map(move |b| pair(a, b))).collect()
}

/// Adds up the outputs whose losses are in the same bin.
fn gathered(outputs: Outputs, width: f64) -> Outputs {
    let mut bins = std::collections::BTreeMap::<i64, (f64, f64)>::new();
    for (with, without) in outputs {
        let place = ((with / without).ln() / width).clamp(-1e9, 1e9).floor() as i64;
        if with + without > 0.0 {
            let bin = bins.entry(place).or_default();
            bin.0 += with;
            bin.1 += without;
        }
    }
    bins.into_values().collect()
}

fn draw(dice: &mut Dice, relation: Neighbouring) -> Setting {
    let factor = if relation == Neighbouring::Replace { 2.0 } else { 1.0 };
    let close = |event, outputs| Setting { event, outputs, is_close: true };
    let sigma = dice.between(0.6, 6.0);
    // Kinds that have an account under replacement whose worst case is written down here come first.
    let kinds = if relation == Neighbouring::Replace { 6 } else { 13 };
    match dice.below(kinds) {
        0 => close(
            Event::Gaussian { noise_multiplier: sigma },
            mixtures(&[(1.0, factor / sigma)], &[(1.0, 0.0)]),
        ),
        1 => {
            let q = dice.between(0.01, 1.0);
            let other = if relation == Neighbouring::Replace { -1.0 / sigma } else { 0.0 };
            let event = Event::PoissonSampledGaussian { noise_multiplier: sigma, sampling_probability: q };
            close(event, mixtures(&[(1.0 - q, 0.0), (q, 1.0 / sigma)], &[(1.0 - q, 0.0), (q, other)]))
        }
        2 => close(Event::Laplace { noise_multiplier: sigma }, laplace(sigma / factor)),
        3 => {
            let epsilon = dice.between(0.01, 2.0);
            close(Event::PureDp { epsilon }, randomized_response(factor * epsilon, 0.0))
        }
        4 => {
            let a = dice.between(0.2, 1.0);
            let s = 1 + dice.below(3);
            let event = Event::DiscreteLaplace { noise_parameter: a, sensitivity: s };
            let moved = s as f64 * factor;
            close(event, integers(|x| (-a * (x - moved).abs()).exp(), |x| (-a * x.abs()).exp()))
        }
        5 => {
            let s = 1 + dice.below(3);
            let event = Event::DiscreteGaussian { standard_deviation: sigma, sensitivity: s };
            let moved = s as f64 * factor;
            let density = move |x: f64| (-0.5 * (x / sigma).powi(2)).exp();
            close(event, integers(|x| density(x - moved), density))
        }
        6 => {
            let share = dice.unit();
            let event = Event::MixtureOfGaussians {
                noise_multiplier: sigma,
                sensitivities: vec![0.0, 1.0, 2.0],
                probabilities: vec![0.5, 0.5 * share, 0.5 - 0.5 * share],
            };
            let with = [(0.5, 0.0), (0.5 * share, 1.0 / sigma), (0.5 - 0.5 * share, 2.0 / sigma)];
            close(event, mixtures(&with, &[(1.0, 0.0)]))
        }
        7 => {
            let epsilon = dice.between(0.01, 2.0);
            let delta = dice.between(1e-6, 0.1);
            close(Event::ApproximateDp { epsilon, delta }, randomized_response(epsilon, delta))
        }
        8 => {
            let width = dice.between(0.05, 3.0);
            // Randomized response with the losses t and t − η.
            let high = -width * dice.unit();
            let low = high + width;
            let p = low.exp_m1() / (low.exp() - high.exp());
            let outputs = vec![(p, p * high.exp()), (1.0 - p, (1.0 - p) * low.exp())];
            Setting { event: Event::ExponentialMechanism { epsilon: width }, outputs, is_close: false }
        }
        9 => {
            let event =
                Event::RandomAllocation { noise_multiplier: sigma, batches_per_epoch: 2, participations: 1 };
            Setting { event, outputs: one_of_two(1.0 / sigma), is_close: false }
        }
        10 => {
            let rho = dice.between(1e-4, 1.0);
            let outputs = if dice.below(2) == 0 {
                mixtures(&[(1.0, (2.0 * rho).sqrt())], &[(1.0, 0.0)])
            } else {
                randomized_response((2.0 * rho).sqrt(), 0.0)
            };
            Setting { event: Event::ZCdp { rho }, outputs, is_close: false }
        }
        11 => {
            let records = 2 + dice.below(50);
            let batch = 1 + dice.below(records);
            let q = batch as f64 / records as f64;
            let event = Event::WithoutReplacementGaussian {
                noise_multiplier: sigma,
                dataset_size: records,
                batch_size: batch,
            };
            // All others move the sum by −1: who is in the batch, zeroed out or not, keeps one of them out.
            let one = 1.0 / sigma;
            let outputs = if batch == records {
                mixtures(&[(1.0, one)], &[(1.0, 0.0)])
            } else {
                mixtures(&[(1.0 - q, 0.0), (q, 2.0 * one)], &[(1.0 - q, 0.0), (q, one)])
            };
            Setting { event, outputs, is_close: false }
        }
        _ => {
            let bands = 1 + dice.below(4);
            let q = dice.between(0.01, 1.0) / bands as f64;
            let run = MatrixMechanism::cyclic_poisson(sigma, q, bands, bands, Partition::Independent);
            let q = q * bands as f64;
            close(Event::MatrixMechanism(run), mixtures(&[(1.0 - q, 0.0), (q, 1.0 / sigma)], &[(1.0, 0.0)]))
        }
    }
}

/// Returns δ at ε of two mechanisms together, in the worse order.
fn delta(one: &Outputs, other: &Outputs, epsilon: f64) -> f64 {
    let rise = epsilon.exp();
    let mut sums = [0.0, 0.0];
    for (with, without) in one {
        for (more_with, more_without) in other {
            let p = with * more_with;
            let q = without * more_without;
            sums[0] += (p - rise * q).max(0.0);
            sums[1] += (q - rise * p).max(0.0);
        }
    }
    sums[0].max(sums[1])
}

/// Returns how many settings were compared closely.
fn compare(count: u64, seed: u64) -> u64 {
    let mut dice = Dice(ChaCha8Rng::seed_from_u64(seed));
    let mut close = 0;
    for setting in 0..count {
        let relation = match dice.below(4) {
            0 => Neighbouring::Replace,
            1 => Neighbouring::AddRemove,
            _ => Neighbouring::ZeroOut,
        };
        let parts: Vec<Setting> = (0..=dice.below(2)).map(|_| draw(&mut dice, relation)).collect();
        let has_size = |part: &Setting| matches!(part.event, Event::WithoutReplacementGaussian { .. });
        let relation = if parts.iter().any(has_size) { Neighbouring::ZeroOut } else { relation };
        let outputs: Vec<Outputs> = parts.iter().map(|part| gathered(part.outputs.clone(), WIDTH)).collect();
        let nothing = vec![(1.0, 1.0)];
        let epsilon = 1.5 * dice.unit();
        let least = delta(&outputs[0], outputs.get(1).unwrap_or(&nothing), epsilon);
        let events: Vec<Event> = parts.iter().map(|part| part.event.clone()).collect();
        let what = format!("{setting}: {events:?} {relation:?}");
        let account = Account::new(&Event::Composed { events }, relation).unwrap();
        let found = account.delta(epsilon).unwrap();
        assert!(
            found >= least * (1.0 - 1e-9) - 1e-14,
            "{what}: δ {found:e} at {epsilon}, {least:e} at least"
        );
        if least > 1e-9 {
            // Where losses have no bound, no ε has a δ that small.
            let has_no_bound = |part: &Setting| matches!(part.event, Event::ApproximateDp { .. });
            let again = match account.epsilon(least * (1.0 - 1e-9)) {
                Err(AccountingError::OutOfReach { .. }) if parts.iter().any(has_no_bound) => f64::INFINITY,
                found => found.unwrap_or_else(|error| panic!("{what}: {error}")),
            };
            assert!(again >= epsilon * (1.0 - 1e-6) - 1e-9, "{what}: ε {again}, {epsilon} at least");
        }
        if parts.iter().all(|part| part.is_close) {
            close += 1;
            assert!(found <= 1.03 * least + 1e-6, "{what}: δ {found:e} at {epsilon} for {least:e}");
        }
    }
    close
}

#[test]
fn no_account_is_below_its_outputs() {
    assert!(compare(60, 31) > 15);
}

#[test]
#[ignore = "a minute or more: cargo nextest run -p accounting --release --run-ignored only"]
fn no_account_of_a_thousand_is_below_its_outputs() {
    println!("1,000 settings, {} of them closely", compare(1000, 77));
}
