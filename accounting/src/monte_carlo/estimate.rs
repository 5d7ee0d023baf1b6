//! Means of bounded terms: their standard errors, their upper confidence bounds, and the ε at which they reach a δ.

use super::block::{Proposal, blocks};
use super::scaled::Scaled;
use super::stream::{Draw, SAMPLES};
use crate::gaussian::bisect;

/// An estimate of δ at an ε: the mean of samples.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Estimate {
    /// The mean, which is unbiased.
    pub delta: f64,
    /// The standard error of the mean.
    pub standard_error: f64,
    /// B: no term is above it.
    pub most: f64,
    /// The number of samples, in antithetic pairs: half as many are independent.
    pub samples: u64,
}

impl Estimate {
    /// Returns an upper bound of δ that fails with probability at most `failure`: the smaller of two bounds for the mean of
    /// independent terms in [0, B], each of failure probability `failure`/2. It is at most 1.
    #[must_use]
    pub fn upper(&self, failure: f64) -> f64 {
        self.bernstein(0.5 * failure).min(self.chernoff(0.5 * failure)).min(1.0)
    }

    /// Returns the empirical Bernstein bound of Maurer and Pontil: tight where errors are small beside δ.
    fn bernstein(&self, failure: f64) -> f64 {
        let doubt = (2.0 / failure).ln();
        let seen = self.standard_error * (2.0 * doubt).sqrt();
        self.delta + seen + 7.0 * self.most * doubt / (3.0 * (self.pairs() - 1.0))
    }

    /// Returns Chernoff's and Hoeffding's bound, which needs no variance: the largest p with kl(mean/B, p) ≤ ln(1/β)/N. It
    /// is less than half of the other bound where the terms with B dominate that one.
    fn chernoff(&self, failure: f64) -> f64 {
        let mean = (self.delta / self.most).min(1.0);
        let most = (1.0 / failure).ln() / self.pairs();
        let part = |p: f64, q: f64| if p > 0.0 { p * (p / q).ln() } else { 0.0 };
        let divergence = |q: f64| part(mean, q) + part(1.0 - mean, 1.0 - q);
        // The upper end of the last interval, so never below the root.
        self.most * bisect(mean, 1.0, |q| divergence(q) > most).1
    }

    fn pairs(&self) -> f64 {
        (self.samples / 2) as f64
    }
}

/// Count, mean and sum of squared deviations, merged by Chan's update.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Moments {
    count: f64,
    mean: f64,
    squares: f64,
}

impl Moments {
    fn of(values: impl Iterator<Item = f64> + Clone) -> Self {
        let (count, sum) = values.clone().fold((0.0, 0.0), |(n, sum), x| (n + 1.0, sum + x));
        let mean = sum / count;
        Self { count, mean, squares: values.map(|x| (x - mean) * (x - mean)).sum() }
    }

    /// Computes the moments of the terms at ε; samples of an antithetic pair stand next to each other.
    pub fn of_pairs(losses: &[f64], weights: &[f64], epsilon: f64) -> Self {
        let mut terms = [0.0; SAMPLES];
        let pairs = losses.iter().zip(weights);
        terms.iter_mut().zip(pairs).for_each(|(to, (l, w))| *to = term(*l, *w, epsilon));
        Self::of(terms[..losses.len()].chunks_exact(2).map(|pair| f64::midpoint(pair[0], pair[1])))
    }

    /// Returns the estimate; no term is above `most`.
    pub fn estimate(self, most: f64, draw: Draw) -> Estimate {
        let variance = self.squares / (self.count - 1.0);
        let standard_error = (variance / self.count).sqrt();
        Estimate { delta: self.mean, standard_error, most, samples: draw.samples }
    }

    pub fn join(self, other: Self) -> Self {
        let count = self.count + other.count;
        let apart = other.mean - self.mean;
        let mean = self.mean + apart * other.count / count;
        let squares = self.squares + other.squares + apart * apart * self.count * other.count / count;
        Self { count, mean, squares }
    }
}

/// Estimates δ(ε) from proposals made for this ε.
pub(super) fn delta<const K: usize>(
    scaled: &Scaled,
    proposals: [&Proposal<'_>; K],
    epsilon: f64,
    draw: Draw,
) -> [Estimate; K] {
    let moments = blocks(scaled, proposals, draw, |block, count| {
        Moments::of_pairs(&block.losses[..count], &block.weights[..count], epsilon)
    });
    std::array::from_fn(|k| {
        let all = moments.iter().map(|m| m[k]).fold(Moments::default(), Moments::join);
        all.estimate(proposals[k].most(epsilon), draw)
    })
}

/// Returns (1 − e^{ε−loss})₊ · weight.
pub(super) fn term(loss: f64, weight: f64, epsilon: f64) -> f64 {
    if loss > epsilon { -(epsilon - loss).exp_m1() * weight } else { 0.0 }
}

/// Returns losses above zero with their weights.
pub(super) fn losses(scaled: &Scaled, proposal: &Proposal<'_>, draw: Draw) -> Vec<(f64, f64)> {
    let kept = blocks(scaled, [proposal], draw, |block, count| {
        let pairs = block.losses.iter().zip(&block.weights).take(count);
        pairs.filter(|(loss, _)| **loss > 0.0).map(|(l, w)| (*l, *w)).collect::<Vec<_>>()
    });
    kept.into_flattened().concat()
}

/// Returns the smallest ε in 0…`most` whose mean over fixed samples is at most `delta`, whatever ε their proposal was
/// made for.
pub(super) fn epsilon(mut losses: Vec<(f64, f64)>, draw: Draw, delta: f64, most: f64) -> f64 {
    losses.sort_unstable_by(|x, y| y.0.total_cmp(&x.0));
    let Some(top) = losses.first().map(|p| p.0) else { return 0.0 };
    let goal = delta * draw.samples as f64;
    // With w and v = w·e^{top−loss} summed over the losses above ε the sum of all terms is Σw − e^{ε−top}·Σv.
    let mut whole = 0.0;
    let mut part = 0.0;
    let ends = losses.iter().skip(1).map(|p| p.0).chain([0.0]);
    for ((loss, weight), next) in losses.iter().zip(ends) {
        whole += weight;
        part += weight * (top - loss).exp();
        if whole - (next - top).exp() * part > goal {
            let found = top + ((whole - goal) / part).ln();
            return if found.is_finite() { found.clamp(0.0, most) } else { most };
        }
    }
    0.0
}

#[cfg(test)]
mod tests {
    use strategy::Strategy;

    use super::super::balls_in_bins::BallsInBins;
    use super::super::pair::LossSampler;
    use super::super::stream::Purpose;
    use super::*;
    use crate::neighbouring::Direction;

    /// Weights make every proposal's mean the same number.
    #[test]
    fn proposals_made_for_other_losses_agree() {
        let draw = Draw { samples: 1 << 19, seed: 3, purpose: Purpose::Search };
        for (bands, n, b, sigma, epsilon) in [(8, 128, 32, 2.0, 1.18), (64, 128, 16, 0.7, 4.0)] {
            let mechanism = BallsInBins::new(&Strategy::BandSqrt { bands }, n, b).unwrap();
            let scaled = mechanism.scaled(sigma * mechanism.longest()).unwrap();
            for direction in Direction::BOTH {
                let [own, lower, higher] =
                    [1.0, 0.85, 1.1].map(|factor| Proposal::new(&scaled, direction, factor * epsilon));
                let [own, lower, higher] = delta(&scaled, [&own, &lower, &higher], epsilon, draw);
                println!("{direction:?} {own:?} {lower:?} {higher:?}");
                for other in [lower, higher] {
                    let error = own.standard_error.hypot(other.standard_error);
                    assert!((own.delta - other.delta).abs() < 4.0 * error, "{direction:?} {own:?} {other:?}");
                    assert!(error < 0.06 * own.delta, "{direction:?} {own:?} {other:?}");
                }
            }
        }
    }
}
