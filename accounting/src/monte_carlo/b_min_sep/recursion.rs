//! Sums over all sets of rounds at least min_sep apart, by a recursion from the last round back: a record that is free in
//! round t either skips it, or takes it and is free again min_sep rounds later.

use super::join_rule::JoinRule;
use crate::monte_carlo::exp::exp;

/// Values above this are scaled down, with all values that they are still to be added to.
const RESCALE_ABOVE: f64 = 1e150;
/// A result below this may have lost terms to underflow on the way.
const UNDERFLOW_BELOW: f64 = 1e-250;
/// Largest argument that is passed to [`exp`].
const MAX_EXPONENT: f64 = 300.0;
/// Largest −ln of the probability to skip min_sep rounds: beyond it small values would be lost.
const MAX_LN_LEFT: f64 = 300.0;

/// Returns the largest Σ_{t∈S} norm_t.
pub fn longest(norms: &[f64], min_sep: usize) -> f64 {
    let n = norms.len();
    let mut best = vec![0.0_f64; n + 1];
    for t in (0..n).rev() {
        best[t] = best[t + 1].max(norms[t] + best[n.min(t.saturating_add(min_sep))]);
    }
    best[0]
}

/// Returns the probability of each round to be taken.
pub fn marginals(rule: JoinRule, n: usize) -> Vec<f64> {
    let mut taken = vec![0.0; n];
    let mut free = rule.free();
    for t in 0..n {
        taken[t] = rule.q * free;
        // A record that took the round min_sep − 1 before, or rested until now, is free in the next.
        let back = match (t + 1).checked_sub(rule.min_sep) {
            Some(round) => taken[round],
            None => rule.resting(),
        };
        free += back - taken[t];
    }
    taken
}

/// A mixture in which records join with probability q, and columns are s times as long.
#[derive(Debug, Clone)]
pub struct Tilt {
    pub rule: JoinRule,
    pub s: f64,
    /// ln q − s²|c_t|²/2 in units of σ.
    base: Vec<f64>,
}

impl Tilt {
    /// `norms`: |c_t|²/σ².
    pub fn new(rule: JoinRule, s: f64, norms: &[f64]) -> Self {
        let base = norms.iter().map(|norm| rule.q.ln() - 0.5 * s * s * norm).collect();
        Self { rule, s, base }
    }

    /// Returns ln of the density of this mixture over that of the noise at y, given all d_t = c_t·y in units of σ.
    pub fn ln_ratio(&self, d: &[f64], buffers: &mut Buffers) -> f64 {
        let n = d.len();
        let most = self.exponents(d, &mut buffers.weights);
        let left = self.rule.min_sep.min(n) as f64 * -(-self.rule.q).ln_1p();
        if most > MAX_EXPONENT || left > MAX_LN_LEFT {
            return self.ln_ratio_of_logs(d, buffers);
        }
        buffers.weights.iter_mut().for_each(|weight| *weight = exp(*weight));
        let leave = 1.0 - self.rule.q;
        let values = &mut buffers.values;
        let mut ln_scale = 0.0;
        values[n] = 1.0;
        for t in (0..n).rev() {
            let end = n.min(t.saturating_add(self.rule.min_sep));
            let value = leave * values[t + 1] + buffers.weights[t] * values[end];
            values[t] = value;
            if value > RESCALE_ABOVE {
                // Values above `end` are not read again.
                values[t..=end].iter_mut().for_each(|each| *each /= RESCALE_ABOVE);
                ln_scale += RESCALE_ABOVE.ln();
            }
        }
        let start = self.start(|t| values[t]);
        if start < UNDERFLOW_BELOW { self.ln_ratio_of_logs(d, buffers) } else { ln_scale + start.ln() }
    }

    /// Computes ln of the weight of each round; returns the largest.
    fn exponents(&self, d: &[f64], to: &mut [f64]) -> f64 {
        let mut most = f64::NEG_INFINITY;
        for (exponent, (base, d)) in to.iter_mut().zip(self.base.iter().zip(d)) {
            *exponent = base + self.s * d;
            most = if *exponent > most { *exponent } else { most };
        }
        most
    }

    /// Returns the mean of `value` over the first round in which the record is free.
    fn start(&self, value: impl Fn(usize) -> f64) -> f64 {
        let n = self.base.len();
        let free = self.rule.free() * value(0);
        let resting = self.rule.resting();
        if resting == 0.0 {
            return free;
        }
        let within = 1..self.rule.min_sep.min(n);
        let beyond = self.rule.min_sep.saturating_sub(n.max(1)) as f64;
        free + resting * (within.map(&value).sum::<f64>() + beyond * value(n))
    }

    /// Computes [`Self::ln_ratio`] by logarithms, where values are too far apart for f64.
    #[cold]
    fn ln_ratio_of_logs(&self, d: &[f64], buffers: &mut Buffers) -> f64 {
        self.exponents(d, &mut buffers.weights);
        let values = &mut buffers.values;
        let n = self.base.len();
        let leave = (-self.rule.q).ln_1p();
        values[n] = 0.0;
        for t in (0..n).rev() {
            let end = n.min(t.saturating_add(self.rule.min_sep));
            values[t] = ln_add(leave + values[t + 1], buffers.weights[t] + values[end]);
        }
        let most =
            values.iter().take(self.rule.min_sep.min(n) + 1).copied().fold(f64::NEG_INFINITY, f64::max);
        let most = if self.rule.warm { most.max(values[n]) } else { values[0] };
        most + self.start(|t| (values[t] - most).exp()).ln()
    }
}

/// Returns ln(eˣ + eʸ).
fn ln_add(x: f64, y: f64) -> f64 {
    let (low, high) = if x < y { (x, y) } else { (y, x) };
    if low == f64::NEG_INFINITY { high } else { high + (low - high).exp().ln_1p() }
}

/// Scratch memory of one recursion.
#[derive(Debug)]
pub struct Buffers {
    weights: Vec<f64>,
    values: Vec<f64>,
}

impl Buffers {
    pub fn new(n: usize) -> Self {
        Self { weights: vec![0.0; n], values: vec![0.0; n + 1] }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All sets of rounds at least min_sep apart, with their probabilities.
    fn sets(rule: JoinRule, n: usize) -> Vec<(Vec<usize>, f64)> {
        fn go(rule: JoinRule, n: usize, t: usize, set: &[usize], p: f64, all: &mut Vec<(Vec<usize>, f64)>) {
            if t >= n {
                return all.push((set.to_vec(), p));
            }
            go(rule, n, t + 1, set, p * (1.0 - rule.q), all);
            go(rule, n, t + rule.min_sep, &[set, &[t]].concat(), p * rule.q, all);
        }
        let mut all = Vec::new();
        go(rule, n, 0, &[], rule.free(), &mut all);
        (1..rule.min_sep).for_each(|c| go(rule, n, c, &[], rule.resting(), &mut all));
        all
    }

    const RULES: [JoinRule; 6] = [
        JoinRule { min_sep: 1, q: 0.2, warm: false },
        JoinRule { min_sep: 3, q: 0.3, warm: false },
        JoinRule { min_sep: 3, q: 0.3, warm: true },
        JoinRule { min_sep: 4, q: 1.0, warm: false },
        JoinRule { min_sep: 4, q: 1.0, warm: true },
        JoinRule { min_sep: 14, q: 0.4, warm: true },
    ];

    #[test]
    fn recursions_are_sums_over_all_sets() {
        let n = 9;
        let norms: Vec<f64> = (0..n).map(|t| 0.5 + 0.1 * t as f64).collect();
        let mut buffers = Buffers::new(n);
        for rule in RULES {
            let all = sets(rule, n);
            assert!((all.iter().map(|set| set.1).sum::<f64>() - 1.0).abs() < 1e-12, "{rule:?}");
            let most = all.iter().map(|(set, _)| set.iter().map(|t| norms[*t]).sum::<f64>());
            assert!((longest(&norms, rule.min_sep) - most.fold(0.0, f64::max)).abs() < 1e-12);
            for (t, found) in marginals(rule, n).into_iter().enumerate() {
                let with_t = all.iter().filter(|(set, _)| set.contains(&t));
                assert!((found - with_t.map(|set| set.1).sum::<f64>()).abs() < 1e-12, "{rule:?} round {t}");
            }
            for (s, far) in [(1.0, 1.0), (1.7, 1.0), (1.0, 60.0), (1.0, 250.0)] {
                let d: Vec<f64> = (0..n).map(|t| far * (1.3 * t as f64).sin()).collect();
                let tilt = Tilt::new(rule, s, &norms);
                let exponent =
                    |set: &[usize]| -> f64 { set.iter().map(|t| s * d[*t] - 0.5 * s * s * norms[*t]).sum() };
                let possible = all.iter().filter(|(_, p)| *p > 0.0).map(|(set, p)| (exponent(set), p));
                let most = possible.clone().map(|(exponent, _)| exponent).fold(f64::NEG_INFINITY, f64::max);
                let sum: f64 = possible.map(|(exponent, p)| p * (exponent - most).exp()).sum();
                let found = tilt.ln_ratio(&d, &mut buffers);
                let expected = most + sum.ln();
                assert!((found - expected).abs() < 1e-8 * (1.0 + expected.abs()), "{found} {expected}");
                // The slow way, whether or not the fast one fell back to it.
                let slow = tilt.ln_ratio_of_logs(&d, &mut buffers);
                assert!((slow - expected).abs() < 1e-10 * (1.0 + expected.abs()), "{slow} {expected}");
            }
        }
    }

    #[test]
    fn long_runs_neither_overflow_nor_vanish() {
        let n = 5_000;
        let mut buffers = Buffers::new(n);
        for (level, q) in [(2.0, 0.5), (250.0, 0.5), (-30.0, 0.9), (3.0, 1e-9)] {
            let rule = JoinRule { min_sep: 3, q, warm: false };
            let tilt = Tilt::new(rule, 1.0, &vec![1.0; n]);
            let d: Vec<f64> = (0..n).map(|t| level + (0.7 * t as f64).cos()).collect();
            let fast = tilt.ln_ratio(&d, &mut buffers);
            let slow = tilt.ln_ratio_of_logs(&d, &mut buffers);
            assert!((fast - slow).abs() < 1e-9 * slow.abs().max(1e-3), "level {level}: {fast} {slow}");
        }
    }
}
