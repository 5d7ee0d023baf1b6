//! Lower bounds of ε where a record joins several batches of an epoch: what one statistic of the sums shows.
//!
//! Let T = Σ_i f(x_i) over the t sums of an epoch, for one function f. Whichever k of them the record is in, T is distributed
//! as k independent f(z + 1/σ) and t − k independent f(z), z a unit Gaussian; without the record, as t independent f(z).
//! T is a function of the sums, so every δ of its two laws is at most that of the sums, whatever f is. Here f is the loss of a round
//! that has the record with probability k/t, rounded down to multiples of h, and T is taken modulo M·h: its laws are then
//! powers of two Fourier transforms of length M, and nothing is cut off.

use realfft::RealFftPlanner;
use realfft::num_complex::Complex;

use crate::error::{AccountingError, Result};
use crate::normal::ln_cdf;
use crate::pld::{Loss, Losses};

/// Most batches of an epoch: rounding of the transforms' powers grows with them.
const MOST_BATCHES: u64 = 1 << 16;
/// Distance from 0 beyond which the values of f are all alike, in units of σ.
const REACH: f64 = 9.0;
/// Multiples of h in a standard deviation of f, where `MOST_CELLS` allow them.
const RESOLUTION: f64 = 32.0;
const MOST_CELLS: f64 = 65_536.0;
/// log₂ of the shortest and of the longest transform.
const LENGTHS: (u32, u32) = (8, 18);
/// Most values of T that stay distinct once the rounds are added up.
const MOST_VALUES: usize = 1 << 12;
/// Standard deviations of T that a transform holds on both sides.
const DEVIATIONS: f64 = 8.0;
/// Rounding of one coefficient of a transform of masses that sum to 1, those of the masses themselves included.
const ROUNDING: f64 = 64.0 * f64::EPSILON;
/// Smallest mass of a value of T: smaller ones are rounding alone.
const SMALLEST: f64 = 1e-18;

/// The losses of both directions of one epoch's T, and how far they may be off.
pub(super) struct Statistic {
    pub remove: Losses,
    pub add: Losses,
    /// A bound of the distance in total variation of each computed law from T's.
    pub rounding: f64,
}

impl Statistic {
    /// Computes the laws of T. Numbers are those of an epoch that has an account.
    ///
    /// # Errors
    /// [`AccountingError::OutOfReach`] of more than 2^16 batches.
    pub fn new(noise_multiplier: f64, batches: u64, participations: u64) -> Result<Self> {
        if batches > MOST_BATCHES {
            return Err(AccountingError::OutOfReach {
                what: "a lower bound under random allocation",
                setting: format!("{participations} of {batches} batches"),
            });
        }
        let round = Round { shift: 1.0 / noise_multiplier, rate: participations as f64 / batches as f64 };
        let places = Places::of(&round, batches as f64, participations as f64);
        let mut without = places.spectrum(&round, 0.0);
        let with = places.spectrum(&round, round.shift);
        let joined = participations as u32;
        let others = (batches - participations) as u32;
        let mut moved: Vec<_> = with
            .iter()
            .zip(&without)
            .map(|(with, without)| with.powu(joined) * without.powu(others))
            .collect();
        let rounding = rounding(&with, &without, batches as f64, places.length);
        without.iter_mut().for_each(|one| *one = one.powu(joined + others));
        let p = places.law(&mut moved);
        let q = places.law(&mut without);
        Ok(Self { remove: losses(&p, &q)?, add: losses(&q, &p)?, rounding })
    }
}

/// A round of Poisson sampling, whose loss is f.
struct Round {
    /// 1/σ.
    shift: f64,
    /// k/t.
    rate: f64,
}

impl Round {
    fn loss(&self, x: f64) -> f64 {
        (self.rate * (self.shift * x - 0.5 * self.shift * self.shift).exp_m1()).ln_1p()
    }

    /// Returns the x of a loss, −∞ below all losses.
    fn inverse(&self, loss: f64) -> f64 {
        let ratio = 1.0 + loss.exp_m1() / self.rate;
        if ratio > 0.0 { ratio.ln() / self.shift + 0.5 * self.shift } else { f64::NEG_INFINITY }
    }

    /// Returns how much larger f is with the record on average, and its standard deviation without.
    fn moments(&self) -> (f64, f64) {
        const NODES: i32 = 512;
        let mut sums = [0.0; 4];
        for node in -NODES..=NODES {
            let z = f64::from(node) * REACH / f64::from(NODES);
            let mass = (-0.5 * z * z).exp();
            let loss = self.loss(z);
            let moved = self.loss(z + self.shift);
            for (sum, term) in sums.iter_mut().zip([1.0, loss, loss * loss, moved]) {
                *sum += mass * term;
            }
        }
        let [mass, loss, square, moved] = sums;
        let mean = loss / mass;
        ((moved / mass - mean).max(0.0), (square / mass - mean * mean).max(0.0).sqrt())
    }
}

/// The multiples of h from `low` on, and the length of the transforms.
struct Places {
    low: f64,
    step: f64,
    count: usize,
    length: usize,
}

impl Places {
    fn of(round: &Round, batches: f64, participations: f64) -> Self {
        let low = round.loss(-REACH);
        let high = round.loss(REACH + round.shift);
        let (moved, deviation) = round.moments();
        let mut step = (deviation / RESOLUTION).max((high - low) / MOST_CELLS);
        let span = 2.0 * (DEVIATIONS * batches.sqrt() * deviation + participations * moved + high - low);
        let (least, most) = LENGTHS;
        let wanted = (span / step).log2().ceil();
        if wanted > f64::from(most) {
            step = span / f64::from(most).exp2();
        }
        let length = 1 << (wanted as u32).clamp(least, most);
        Self { low, step, count: ((high - low) / step).ceil() as usize, length }
    }

    /// Returns the transform of the law of one f(z + `moved`).
    fn spectrum(&self, round: &Round, moved: f64) -> Vec<Complex<f64>> {
        let forward = RealFftPlanner::new().plan_fft_forward(self.length);
        let mut masses = forward.make_input_vec();
        let mut spectrum = forward.make_output_vec();
        let mut from = f64::NEG_INFINITY;
        for place in 0..=self.count {
            let edge = self.low + (place + 1) as f64 * self.step;
            let to = if place == self.count { f64::INFINITY } else { round.inverse(edge) - moved };
            masses[place % self.length] += between(from, to);
            from = to;
        }
        // Lengths are those of the plan, so it can't fail.
        let _ = forward.process(&mut masses, &mut spectrum);
        spectrum
    }

    /// Returns the law of a transform, which it overwrites, neighbours taken together. No mass is 0.
    fn law(&self, spectrum: &mut [Complex<f64>]) -> Vec<f64> {
        let inverse = RealFftPlanner::new().plan_fft_inverse(self.length);
        let mut masses = inverse.make_output_vec();
        for end in [0, spectrum.len() - 1] {
            spectrum[end].im = 0.0;
        }
        let _ = inverse.process(spectrum, &mut masses);
        let joined = masses.chunks(self.length.div_ceil(MOST_VALUES));
        let mut law: Vec<f64> =
            joined.map(|few| (few.iter().sum::<f64>() / self.length as f64).max(SMALLEST)).collect();
        let sum: f64 = law.iter().sum();
        law.iter_mut().for_each(|mass| *mass /= sum);
        law
    }
}

/// Returns the mass of a unit Gaussian between two places.
fn between(from: f64, to: f64) -> f64 {
    let cdf = |x: f64| ln_cdf(x).exp();
    if to <= from {
        0.0
    } else if from > 0.0 {
        cdf(-from) - cdf(-to)
    } else {
        cdf(to) - cdf(from)
    }
}

/// Bounds the distance in total variation of either law from T's: half the root of the length times the sum of squared errors
/// of masses, which is the sum of those of the coefficients (Parseval), and as much again for masses that were made positive.
fn rounding(with: &[Complex<f64>], without: &[Complex<f64>], batches: f64, length: usize) -> f64 {
    let of_power = |(a, b): (&Complex<f64>, &Complex<f64>)| {
        let size = (a.norm().max(b.norm()) + ROUNDING).min(1.0);
        batches * ROUNDING * size.powf(batches - 1.0)
    };
    let powers: f64 = with.iter().zip(without).map(of_power).map(|error| 2.0 * error * error).sum();
    let length = length as f64;
    powers.sqrt() + length.sqrt() * ROUNDING + 2.0 * length * SMALLEST
}

fn losses(p: &[f64], q: &[f64]) -> Result<Losses> {
    let losses = p.iter().zip(q).map(|(p, q)| Loss { loss: (p / q).ln(), ln_mass: p.ln() });
    Losses::of_logarithms(losses.collect(), 0.0)
}
