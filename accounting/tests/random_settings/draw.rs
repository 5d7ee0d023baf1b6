//! Events drawn at random, with outputs of each.

use accounting::{Event, MatrixMechanism, Neighbouring, Partition};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

use super::outputs::{Outputs, best_of, integers, laplace, mixtures, one_of_two, randomized_response};

/// A mechanism's event, and outputs of it.
pub struct Setting {
    pub event: Event,
    pub outputs: Outputs,
    /// True where the outputs are nearly all that there is to know of the event.
    pub is_close: bool,
}

/// A stream of its own for each setting.
pub struct Dice(ChaCha8Rng);

impl Dice {
    pub fn new(seed: u64, number: u64) -> Self {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        rng.set_stream(number);
        Self(rng)
    }

    pub fn unit(&mut self) -> f64 {
        (self.0.next_u64() >> 11) as f64 / (1u64 << 53) as f64
    }

    pub fn between(&mut self, low: f64, high: f64) -> f64 {
        low * (high / low).powf(self.unit())
    }

    pub fn below(&mut self, count: u64) -> u64 {
        self.0.next_u64() % count
    }
}

pub fn draw(dice: &mut Dice, relation: Neighbouring) -> Setting {
    let factor = if relation == Neighbouring::Replace { 2.0 } else { 1.0 };
    let close = |event, outputs| Setting { event, outputs, is_close: true };
    let sigma = dice.between(0.6, 6.0);
    // Kinds that have an account under replacement whose worst case is written down here come first.
    let kinds = if relation == Neighbouring::Replace { 6 } else { 16 };
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
        other => draw_unreplaced(dice, other, sigma),
    }
}

/// Draws an event of the kinds whose worst case under replacement isn't written down here.
fn draw_unreplaced(dice: &mut Dice, kind: u64, sigma: f64) -> Setting {
    let close = |event, outputs| Setting { event, outputs, is_close: true };
    match kind {
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
        12 => {
            let mean = dice.between(1.0, 6.0);
            let shape = [None, Some(1.0)][dice.below(2) as usize];
            let epsilon = dice.between(0.01, 0.5);
            let stop = 1.0 / mean;
            let chance = |z: f64| match shape {
                None => (mean * (z - 1.0)).exp(),
                Some(_) => stop * z / (1.0 - (1.0 - stop) * z),
            };
            let outputs = best_of(&randomized_response(epsilon, 0.0), chance);
            let event = Event::RepeatAndSelect { event: Box::new(Event::PureDp { epsilon }), mean, shape };
            Setting { event, outputs, is_close: false }
        }
        13 => {
            let levels = dice.below(5);
            let event = Event::Tree {
                noise_multiplier: sigma,
                iterations: 1 << levels,
                min_sep: 1,
                max_participations: 1,
                restarts: Vec::new(),
                completion: false,
            };
            // A round is in one node of each level.
            close(event, mixtures(&[(1.0, ((levels + 1) as f64).sqrt() / sigma)], &[(1.0, 0.0)]))
        }
        14 => {
            let q = dice.between(0.01, 1.0);
            let records = 1 + dice.below(40);
            let cap = 1 + dice.below(40);
            let event = Event::TruncatedPoissonGaussian {
                noise_multiplier: sigma,
                sampling_probability: q,
                dataset_size: records,
                batch_cap: cap,
            };
            // All others contribute nothing: all that counts is whether the record is kept.
            let kept = q * share_kept(records - 1, q, cap);
            let outputs = mixtures(&[(1.0 - kept, 0.0), (kept, 1.0 / sigma)], &[(1.0, 0.0)]);
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

/// E[min(1, cap/(1 + J))] for J of Bin(others, q): how likely a record that was sampled stays under a cap.
fn share_kept(others: u64, q: f64, cap: u64) -> f64 {
    let mut mass = vec![1.0];
    for _ in 0..others {
        let mut next = vec![0.0; mass.len() + 1];
        for (j, m) in mass.iter().enumerate() {
            next[j] += m * (1.0 - q);
            next[j + 1] += m * q;
        }
        mass = next;
    }
    mass.iter().enumerate().map(|(j, m)| m * (cap as f64 / (1.0 + j as f64)).min(1.0)).sum()
}
