//! Masses of finitely many outputs of a mechanism, on two neighbouring data sets.

use std::collections::BTreeMap;

/// Bins of a line.
const BINS: usize = 500;

/// Masses of outputs with the record and without it.
pub type Outputs = Vec<(f64, f64)>;

fn cdf(x: f64) -> f64 {
    0.5 * libm::erfc(-x / std::f64::consts::SQRT_2)
}

/// Bins of a line between two mixtures of unit Gaussians, given as (weight, mean).
pub fn mixtures(with: &[(f64, f64)], without: &[(f64, f64)]) -> Outputs {
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
pub fn integers(with: impl Fn(f64) -> f64, without: impl Fn(f64) -> f64) -> Outputs {
    let points = || (-300..=300).map(f64::from);
    let all = [points().map(&with).sum::<f64>(), points().map(&without).sum::<f64>()];
    points().map(|x| (with(x) / all[0], without(x) / all[1])).collect()
}

pub fn randomized_response(epsilon: f64, delta: f64) -> Outputs {
    let likely = (1.0 - delta) / (1.0 + (-epsilon).exp());
    let rare = 1.0 - delta - likely;
    vec![(likely, rare), (rare, likely), (delta, 0.0), (0.0, delta)]
}

pub fn laplace(scale: f64) -> Outputs {
    let below = |x: f64| if x < 0.0 { 0.5 * (x / scale).exp() } else { 1.0 - 0.5 * (-x / scale).exp() };
    let edges: Vec<f64> = (0..=BINS).map(|i| i as f64 / BINS as f64).collect();
    let ends = [(below(-1.0), below(0.0)), (1.0 - below(0.0), 1.0 - below(1.0))];
    let bin = |at: &[f64]| (below(at[1] - 1.0) - below(at[0] - 1.0), below(at[1]) - below(at[0]));
    edges.windows(2).map(bin).chain(ends).collect()
}

/// Products of bins of two lines, of which the record moves one.
pub fn one_of_two(mu: f64) -> Outputs {
    let line = mixtures(&[(1.0, mu)], &[(1.0, 0.0)]);
    let line = gathered(line, 0.05);
    let pair = |a: &(f64, f64), b: &(f64, f64)| (0.5 * (a.0 * b.1 + a.1 * b.0), a.1 * b.1);
    line.iter().flat_map(|a| line.iter().map(move |b| pair(a, b))).collect()
}

/// Adds up the outputs whose losses are in the same bin.
pub fn gathered(outputs: Outputs, width: f64) -> Outputs {
    let mut bins = BTreeMap::<i64, (f64, f64)>::new();
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

/// Returns δ at ε of two mechanisms together, in the worse order.
pub fn delta(one: &Outputs, other: &Outputs, epsilon: f64) -> f64 {
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

/// The output of the run with the largest loss among K runs, where E[z^K] is `chance`: the last output is that of no run.
pub fn best_of(outputs: &Outputs, chance: impl Fn(f64) -> f64) -> Outputs {
    let mut sorted: Outputs =
        outputs.iter().copied().filter(|(with, without)| with + without > 0.0).collect();
    sorted.sort_by(|one, other| (one.0 * other.1).total_cmp(&(other.0 * one.1)));
    let mut below = (0.0, 0.0);
    let mut best: Outputs = sorted
        .into_iter()
        .map(|(with, without)| {
            let upto = (below.0 + with, below.1 + without);
            let masses = (chance(upto.0) - chance(below.0), chance(upto.1) - chance(below.1));
            below = upto;
            masses
        })
        .collect();
    best.push((chance(0.0), chance(0.0)));
    best
}
