//! One participation pattern: bounds of ‖C u‖² over all contributions of norm ≤ 1 to its rounds.
//!
//! ‖C u‖² = Σ X_ij⟨u_i, u_j⟩ is convex, so every u_i has norm one at the maximum and leaving rounds out never
//! helps. Σ|X_ij| is an upper bound, attained where signs s with s_i s_j X_ij ≥ 0 exist. Where they do not,
//! duality bounds it: for every diagonal D, the maximum is at most tr D + k·max(0, λ_max(X − D)).

use ndarray::Array2;

use super::eigen::extreme_eigenvalues;
use super::{Bracket, CLOSE};

/// Most participations for which the dual bound is computed; it takes O(k³).
pub(crate) const MAX_DUAL: usize = 32;

/// X restricted to a pattern: its diagonal, and its nonzero entries off the diagonal as (i, j, X_ij) with i < j.
pub(crate) struct Overlaps {
    diagonal: Vec<f64>,
    edges: Vec<(usize, usize, f64)>,
}

impl Overlaps {
    /// X restricted to ascending `rounds`, whose columns overlap at distances below `reach`.
    pub(crate) fn new(rounds: &[usize], reach: usize, overlap: impl Fn(usize, usize) -> f64) -> Self {
        let diagonal = rounds.iter().map(|&i| overlap(i, i)).collect();
        let mut edges = Vec::new();
        for (a, &i) in rounds.iter().enumerate() {
            for (b, &j) in rounds.iter().enumerate().skip(a + 1).take_while(|(_, j)| **j - i < reach) {
                let x = overlap(i, j);
                if x != 0.0 {
                    edges.push((a, b, x));
                }
            }
        }
        Self { diagonal, edges }
    }

    /// Bounds of max ‖C u‖²; `lower` is attained by a contribution of ±1 in each round.
    pub(crate) fn bracket(&self) -> Bracket {
        let upper = self.value(|_, _, x| x.abs());
        if self.edges.iter().all(|e| e.2 >= 0.0) {
            return Bracket { lower: upper, upper };
        }
        let mut signs = self.aligned_signs();
        let lower = self.signed(&signs);
        if upper - lower <= CLOSE * upper || self.diagonal.len() > MAX_DUAL {
            return Bracket { lower, upper };
        }
        let x = self.matrix();
        improve(&x, &mut signs);
        let lower = lower.max(self.signed(&signs));
        Bracket { lower, upper: upper.min(dual_bound(&x, &signs)) }
    }

    fn value(&self, edge: impl Fn(usize, usize, f64) -> f64) -> f64 {
        let twice: f64 = self.edges.iter().map(|&(a, b, x)| edge(a, b, x)).sum();
        self.diagonal.iter().sum::<f64>() + 2.0 * twice
    }

    fn signed(&self, signs: &[f64]) -> f64 {
        self.value(|a, b, x| signs[a] * signs[b] * x)
    }

    /// Signs that agree with a spanning forest of the largest |X_ij|, and so with all of X where that is possible.
    fn aligned_signs(&self) -> Vec<f64> {
        let mut order: Vec<usize> = (0..self.edges.len()).collect();
        order.sort_by(|&a, &b| self.edges[b].2.abs().total_cmp(&self.edges[a].2.abs()));
        let mut group: Vec<usize> = (0..self.diagonal.len()).collect();
        let mut members: Vec<Vec<usize>> = group.iter().map(|&i| vec![i]).collect();
        let mut signs = vec![1.0; self.diagonal.len()];
        for index in order {
            let (a, b, x) = self.edges[index];
            let mut keep = group[a];
            let mut join = group[b];
            if keep == join {
                continue;
            }
            if members[keep].len() < members[join].len() {
                std::mem::swap(&mut keep, &mut join);
            }
            let flip = signs[a] * signs[b] * x < 0.0;
            for i in std::mem::take(&mut members[join]) {
                group[i] = keep;
                if flip {
                    signs[i] = -signs[i];
                }
                members[keep].push(i);
            }
        }
        signs
    }

    fn matrix(&self) -> Array2<f64> {
        let mut x = Array2::from_diag(&ndarray::Array1::from(self.diagonal.clone()));
        for &(a, b, value) in &self.edges {
            x[[a, b]] = value;
            x[[b, a]] = value;
        }
        x
    }
}

/// Flips single signs for as long as sᵀXs grows.
fn improve(x: &Array2<f64>, signs: &mut [f64]) {
    let k = signs.len();
    let pull = |signs: &[f64], i: usize| -> f64 {
        (0..k).filter(|j| *j != i).map(|j| signs[i] * signs[j] * x[[i, j]]).sum()
    };
    let mut turned = true;
    let mut rounds = 0;
    while turned && rounds < 4 * k {
        turned = false;
        rounds += 1;
        for i in 0..k {
            if pull(signs, i) < 0.0 {
                signs[i] = -signs[i];
                turned = true;
            }
        }
    }
}

/// tr D + k·λ_max(X − D) with D_i = s_i(Xs)_i, whose trace is sᵀXs, and with D = 0: the smaller of the two.
fn dual_bound(x: &Array2<f64>, signs: &[f64]) -> f64 {
    let k = signs.len();
    let all = k as f64 * extreme_eigenvalues(x.clone()).1;
    let mut rest = x.clone();
    let mut trace = 0.0;
    for i in 0..k {
        let d: f64 = (0..k).map(|j| signs[i] * signs[j] * x[[i, j]]).sum();
        rest[[i, i]] -= d;
        trace += d;
    }
    all.min(trace + k as f64 * extreme_eigenvalues(rest).1.max(0.0))
}
