//! Norms of columns that differ from one epoch to the next, at one sensitivity.
//!
//! The rounds are cut into epochs of min_sep rounds. Participations of one user are at least min_sep apart, so none has
//! two in one epoch; and the first rounds of any k epochs are a pattern that the rule allows. Where the columns of one user
//! do not overlap (p ≤ min_sep) and every column of epoch e has the squared norm w_e, sens(C)² is therefore exactly the sum
//! of the k largest w_e. The published optimum has w_e = 1 throughout; noise of early rounds, which more of the released
//! sums hold, is worth a larger share.

use super::{Objective, Target};

/// How much less the logarithm of the last epoch's squared norm is than that of the first, at the start; the best norms fall by 0.6 in
/// 5 epochs and by 0.8 in 10.
const FALL: f64 = 0.5;

/// The epochs of a participation rule, and how many of them one user takes part in.
#[derive(Debug, Clone)]
pub(super) struct EpochNorms {
    min_sep: usize,
    epochs: usize,
    participations: usize,
}

impl EpochNorms {
    /// Returns the epochs; `None` where norms stay equal: for one participation, several rules, or the last row's error, of
    /// which equal norms are the optimum as closely as searches can tell.
    pub fn new(target: &Target) -> Option<Self> {
        let n = target.iterations;
        let rule = target.participation;
        let participations = rule.in_rounds(n);
        if participations < 2 || target.rules().len() > 1 || target.objective == Objective::Last {
            return None;
        }
        let epochs = n.div_ceil(rule.min_sep) as usize;
        Some(Self { min_sep: rule.min_sep as usize, epochs, participations: participations as usize })
    }

    /// Returns the parameters of equal norms.
    pub fn equal(&self) -> Vec<f64> {
        vec![0.0; self.epochs]
    }

    /// Returns the parameters that a search starts with. With more than k epochs, equal norms are a kink of the loss, at which a
    /// search would end: any k are the largest. Norms that fall are none.
    pub fn start(&self) -> Vec<f64> {
        let fall = if self.epochs > self.participations { FALL } else { 0.0 };
        (0..self.epochs).map(|e| -fall * e as f64 / self.epochs as f64).collect()
    }

    /// Writes the norm of each column for the parameters `free`: w_e ∝ exp(free_e), of which the k largest add up to k.
    pub fn lengths(&self, free: &[f64], lengths: &mut [f64]) {
        let total = self.largest(free).1;
        let norms = free.iter().map(|x| (self.participations as f64 * x.exp() / total).sqrt());
        for (norm, epoch) in norms.zip(lengths.chunks_mut(self.min_sep)) {
            epoch.fill(norm);
        }
    }

    /// Writes ∂ln(error)/∂free, where `gains` are −∂ln(error)/∂ln(norm) of every column.
    pub fn gradient(&self, free: &[f64], gains: &[f64], gradient: &mut [f64]) {
        for (gradient, gains) in gradient.iter_mut().zip(gains.chunks(self.min_sep)) {
            *gradient = -0.5 * gains.iter().sum::<f64>();
        }
        let (largest, total) = self.largest(free);
        let all = 0.5 * gains.iter().sum::<f64>();
        for epoch in largest {
            gradient[epoch] += all * free[epoch].exp() / total;
        }
    }

    /// Returns the gains of each epoch together, which their curvatures are proportional to.
    pub fn gather(&self, gains: &[f64]) -> Vec<f64> {
        gains.chunks(self.min_sep).map(|gains| gains.iter().sum()).collect()
    }

    /// Returns the k epochs of the largest norms, and the sum of their exponentials.
    fn largest(&self, free: &[f64]) -> (Vec<usize>, f64) {
        let mut order: Vec<usize> = (0..self.epochs).collect();
        order.sort_by(|a, b| free[*b].total_cmp(&free[*a]));
        order.truncate(self.participations);
        let total = order.iter().map(|epoch| free[*epoch].exp()).sum();
        (order, total)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::participation::Participation;

    fn norms(n: u64, min_sep: u64, participations: u64) -> EpochNorms {
        let rule = Participation::new(min_sep, participations).unwrap();
        EpochNorms::new(&Target::new(n, rule, Objective::Rms)).unwrap()
    }

    #[test]
    fn no_pattern_has_more_than_k() {
        // Every pattern of the rule, by recursion over the rounds.
        fn most(lengths: &[f64], from: usize, min_sep: usize, left: usize) -> f64 {
            if left == 0 || from >= lengths.len() {
                return 0.0;
            }
            let skip = most(lengths, from + 1, min_sep, left);
            skip.max(lengths[from].powi(2) + most(lengths, from + min_sep, min_sep, left - 1))
        }
        for (n, min_sep, k) in [(12, 3, 4), (13, 3, 5), (14, 4, 2), (17, 5, 3)] {
            let norms = norms(n, min_sep, k);
            let free: Vec<f64> = (0..norms.epochs).map(|e| (e as f64 * 1.7).sin()).collect();
            let mut lengths = vec![0.0; n as usize];
            norms.lengths(&free, &mut lengths);
            let worst = most(&lengths, 0, min_sep as usize, k as usize);
            assert!((worst - k as f64).abs() < 1e-12, "{n} {min_sep} {k}: {worst}");
        }
    }

    #[test]
    fn gradients_are_central_differences() {
        let norms = norms(14, 4, 2);
        let free = [0.4, -0.3, 0.9, 0.1];
        let weights: Vec<f64> = (0..14).map(|j| 1.0 + (j as f64).cos()).collect();
        // ln(error) = −Σ weight·ln(norm), whose gains are the weights.
        let value = |free: &[f64]| {
            let mut lengths = vec![0.0; 14];
            norms.lengths(free, &mut lengths);
            -lengths.iter().zip(&weights).map(|(norm, weight)| weight * norm.ln()).sum::<f64>()
        };
        let mut gradient = [0.0; 4];
        norms.gradient(&free, &weights, &mut gradient);
        for (e, gradient) in gradient.iter().enumerate() {
            let at = |by: f64| {
                let mut moved = free;
                moved[e] += by;
                value(&moved)
            };
            let expected = (at(1e-5) - at(-1e-5)) / 2e-5;
            assert!((gradient - expected).abs() < 1e-8, "{e}: {gradient} {expected}");
        }
    }

    #[test]
    fn one_participation_keeps_equal_norms() {
        assert!(EpochNorms::new(&Target::new(9, Participation::single(), Objective::Rms)).is_none());
    }
}
