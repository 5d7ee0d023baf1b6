//! The decoder B = A·C⁻¹ of a banded Toeplitz C on a Toeplitz workload, as far as it changes.
//!
//! b = a(x)/c(x) settles: once p of its numbers in a row equal a_∞/Σc to the last digit, all later ones do. The
//! rest of the error is then a closed form, so an evaluation costs O(ℓ·p) with ℓ the settling time, whatever n is
//! (McKenna 2024, App. I, fixes ℓ = 10p; here ℓ follows from the digits). The gradient has the same two parts.

use crate::error::{Result, StrategyError};
use crate::loss::Objective;
use crate::numeric::{add, dot};
use crate::series::prefix_sums;
use crate::workload::Workload;

/// The relative distance from its limit at which b counts as settled; below it the recursion's own rounding shows. What
/// is dropped changes the error by some 1e-12 of itself at most.
const SETTLED: f64 = 1e-13;
/// Relative difference up to which numbers of a workload's column count as equal.
const EQUAL: f64 = 4e-16;
/// Least number of rounds that must be at stake for b to be watched until it settles.
const WORTHWHILE: usize = 256;

/// The error of one run, objective and workload, for any C: what stays the same through a search.
pub(crate) struct Decoder {
    n: usize,
    weights: Weights,
    column: Column,
}

/// Σ_{t≥i} w_t, the weight of b_i² in the error: row t of a Toeplitz decoder holds b_0…b_t.
enum Weights {
    /// (n−i)/n.
    Rms,
    /// 1: the last row is the worst.
    Last,
    Any(Vec<f64>),
}

/// The first column of A.
enum Column {
    Ones,
    /// With the limit of a_t where it has one that is not zero, and the round from which it stays there.
    Given {
        values: Vec<f64>,
        limit: Option<(f64, usize)>,
    },
}

/// An error Σ w_t·e_t² with its gradient in c.
pub(crate) struct SquareWithGradient {
    pub value: f64,
    pub gradient: Vec<f64>,
}

impl Decoder {
    /// # Errors
    /// [`StrategyError::NotOptimizable`] for a workload that is not Toeplitz.
    pub fn new(mechanism: &'static str, n: u64, objective: &Objective, workload: &Workload) -> Result<Self> {
        let n = crate::error::series_length(n)?;
        let weights = match objective {
            Objective::Rms => Weights::Rms,
            Objective::Max | Objective::Last => Weights::Last,
            Objective::Weighted(_) => {
                let mut weights = objective.weights(n).unwrap_or_default();
                for i in (1..n).rev() {
                    weights[i - 1] += weights[i];
                }
                Weights::Any(weights)
            }
        };
        let column = match (workload, workload.is_toeplitz()) {
            (Workload::Prefix, _) => Column::Ones,
            (workload, true) => {
                let values = workload.column(n).unwrap_or_default();
                let limit = limit(&values);
                Column::Given { values, limit }
            }
            _ => {
                let why = format!("the workload {} is not Toeplitz", workload.name());
                return Err(StrategyError::NotOptimizable { mechanism, why });
            }
        };
        Ok(Self { n, weights, column })
    }

    fn weight(&self, i: usize) -> f64 {
        match &self.weights {
            Weights::Rms => (self.n - i) as f64 / self.n as f64,
            Weights::Last => 1.0,
            Weights::Any(weights) => weights[i],
        }
    }

    /// Σ_{i≥from} of the weights.
    fn weights_from(&self, from: usize) -> f64 {
        let rest = (self.n - from) as f64;
        match &self.weights {
            Weights::Rms => rest * (rest + 1.0) / (2.0 * self.n as f64),
            Weights::Last => rest,
            Weights::Any(weights) => weights[from..].iter().sum(),
        }
    }

    fn query(&self, t: usize) -> f64 {
        match &self.column {
            Column::Ones => 1.0,
            Column::Given { values, .. } => values[t],
        }
    }

    /// a_∞ and the round from which it holds.
    fn query_limit(&self) -> Option<(f64, usize)> {
        match &self.column {
            Column::Ones => Some((1.0, 0)),
            Column::Given { limit, .. } => *limit,
        }
    }

    /// b_0, b_1, … until they have settled or the run ends.
    ///
    /// ```text
    /// b_t = (a_t − Σ_{1≤i<p} c_i·b_{t−i})/c_0
    /// stop when p numbers in a row are within SETTLED of a_∞/Σc, and a has reached a_∞
    /// ```
    ///
    /// p numbers in a row that equal the limit reproduce it in the recursion, so every later number equals it too.
    pub fn column(&self, c: &[f64]) -> Vec<f64> {
        let reversed: Vec<f64> = c[1..].iter().rev().copied().collect();
        let p = reversed.len();
        let limit = self.query_limit().filter(|_| self.n > c.len() + WORTHWHILE);
        // Where Σc = 0 the decoder grows without bound.
        let settled =
            limit.map(|(a, from)| (a / c.iter().sum::<f64>(), from)).filter(|(end, _)| end.is_finite());
        let mut b: Vec<f64> = Vec::with_capacity(if settled.is_some() { 16 * c.len() } else { self.n });
        let mut still = 0;
        for t in 0..self.n {
            let reach = t.min(p);
            let next = (self.query(t) - dot(&reversed[p - reach..], &b[t - reach..])) / c[0];
            b.push(next);
            if let Some((end, from)) = settled {
                still = if (next - end).abs() <= SETTLED * end.abs() { still + 1 } else { 0 };
                if still >= c.len() && t >= from {
                    break;
                }
            }
        }
        b
    }

    /// Σ w_t·e_t² of C⁻¹ = LtToep(s), with its gradient in s: b = a(x)·s(x) over all n rounds. O(p) for prefix sums,
    /// else O(n·p).
    pub fn inverse_error_gradient(&self, s: &[f64]) -> SquareWithGradient {
        let s = &s[..s.len().min(self.n)];
        match &self.column {
            Column::Ones => self.inverse_of_sums(s),
            Column::Given { values, .. } => {
                let mut b = vec![0.0; self.n];
                s.iter().enumerate().for_each(|(i, s)| add(&mut b[i..], *s, values));
                let adjoint: Vec<f64> = b.iter().enumerate().map(|(i, b)| 2.0 * self.weight(i) * b).collect();
                SquareWithGradient { value: self.head(&b), gradient: correlate(&adjoint, values, s.len()) }
            }
        }
    }

    /// b is the running sum of s, and constant after it.
    fn inverse_of_sums(&self, s: &[f64]) -> SquareWithGradient {
        let b = prefix_sums(s);
        let end = b[b.len() - 1];
        let rest = self.weights_from(b.len());
        let mut gradient: Vec<f64> = b.iter().enumerate().map(|(i, b)| 2.0 * self.weight(i) * b).collect();
        gradient[b.len() - 1] += 2.0 * rest * end;
        for i in (1..gradient.len()).rev() {
            gradient[i - 1] += gradient[i];
        }
        SquareWithGradient { value: self.head(&b) + rest * end * end, gradient }
    }

    /// Σ w_t·e_t² of C = LtToep(c), alone.
    pub fn error_squared(&self, c: &[f64]) -> f64 {
        let b = self.column(c);
        self.head(&b) + self.tail(c, b.len())
    }

    fn head(&self, b: &[f64]) -> f64 {
        b.iter().enumerate().map(|(i, b)| self.weight(i) * b * b).sum()
    }

    fn tail(&self, c: &[f64], from: usize) -> f64 {
        match self.query_limit() {
            Some((a, _)) if from < self.n => {
                let end = a / c.iter().sum::<f64>();
                self.weights_from(from) * end * end
            }
            _ => 0.0,
        }
    }

    /// Σ w_t·e_t² of C = LtToep(c) with its gradient in c.
    ///
    /// ```text
    /// value = Σ_{i<ℓ} W_i·b_i²  +  (a_∞/Σc)²·Σ_{i≥ℓ} W_i          W_i: the weight of all rows from i on
    /// head:  C·b = a, so ∂/∂c_j = −Σ_i λ_i·b_{i−j}  with  Cᵀλ = ∂/∂b = 2W·b
    /// tail:  ∂/∂c_j = −2·tail/Σc, the same for every j
    /// ```
    pub fn error_gradient(&self, c: &[f64]) -> SquareWithGradient {
        let b = self.column(c);
        let tail = self.tail(c, b.len());
        let adjoint: Vec<f64> = b.iter().enumerate().map(|(i, b)| 2.0 * self.weight(i) * b).collect();
        let lambda = transposed_solve(c, &adjoint);
        let sum: f64 = c.iter().sum();
        let gradient = (0..c.len().min(b.len()))
            .map(|j| -dot(&lambda[j..], &b) - 2.0 * tail / sum)
            .chain(std::iter::repeat(-2.0 * tail / sum))
            .take(c.len())
            .collect();
        SquareWithGradient { value: self.head(&b) + tail, gradient }
    }
}

/// The solution of Cᵀλ = g: λ_i = (g_i − Σ_{1≤j<p} c_j λ_{i+j})/c_0.
pub(crate) fn transposed_solve(c: &[f64], g: &[f64]) -> Vec<f64> {
    let mut out = vec![0.0; g.len()];
    for i in (0..g.len()).rev() {
        out[i] = (g[i] - dot(&c[1..], &out[i + 1..])) / c[0];
    }
    out
}

/// Σ_i λ_i x_{i−j} for j < count.
pub(crate) fn correlate(lambda: &[f64], x: &[f64], count: usize) -> Vec<f64> {
    (0..count).map(|j| dot(lambda.get(j..).unwrap_or_default(), x)).collect()
}

/// The limit of a column that ends in equal numbers (to rounding), with the round from which it holds.
fn limit(column: &[f64]) -> Option<(f64, usize)> {
    let last = *column.last()?;
    let from = column.iter().rposition(|a| (a - last).abs() > EQUAL * last.abs()).map_or(0, |i| i + 1);
    (last != 0.0 && from + WORTHWHILE < column.len()).then_some((last, from))
}
