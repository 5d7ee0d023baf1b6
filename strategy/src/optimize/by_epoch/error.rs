//! The rms error of prefix sums under C = T·diag(s), from the running sums b of T⁻¹'s column and r = 1/s.
//!
//! The squared rows of `scaled::row_errors`, summed over the rounds of each stretch:
//!
//! ```text
//! n·rms² = Σ_e r_e²·U_e − 2·Σ_{1≤f≤e} r_e·δ_f·V_fe + Σ_{f,g≥1} δ_f·δ_g·W_fg·(n − S_max(f,g))
//! U_e = Σ_{t∈e} Σ_{i≤t} b_i²      V_fe = Σ_{i<S_f} b_i·Σ_{t∈e} b_{t+1−S_f+i}      W_fg = Σ_{i<S_f} b_i·b_{i+S_g−S_f}, f ≤ g
//! ```
//!
//! With running sums of b every V is one pass: value and gradient are O(n·k²).

use crate::numeric::dot;

/// Where the stretches begin, and the number of rounds.
pub(super) struct Stretches {
    n: usize,
    /// S_0 = 0, S_1, …
    starts: Vec<usize>,
}

/// A squared rms error with its derivatives.
pub(super) struct ScaledError {
    pub value: f64,
    pub by_b: Vec<f64>,
    pub by_r: Vec<f64>,
}

impl Stretches {
    pub fn new(n: usize, gap: usize, count: usize) -> Self {
        Self { n, starts: (0..count).map(|e| e * gap).collect() }
    }

    pub fn len(&self) -> usize {
        self.starts.len()
    }

    fn end(&self, e: usize) -> usize {
        self.starts.get(e + 1).copied().unwrap_or(self.n)
    }

    /// The squared rms error, with its gradient in `b` (n numbers) and in `r` (one for each stretch).
    pub fn error(&self, b: &[f64], r: &[f64]) -> ScaledError {
        let k = self.len();
        let mut sums = Sums::new(b, 1.0 / self.n as f64);
        let mut by_r = vec![0.0; k];
        let mut by_delta = vec![0.0; k];
        for e in 0..k {
            by_r[e] += 2.0 * r[e] * sums.own(self.starts[e]..self.end(e), r[e] * r[e]);
        }
        for f in 1..k {
            let delta = r[f] - r[f - 1];
            let start = self.starts[f];
            for e in f..k {
                let shift = self.starts[e] - start..self.end(e) - start;
                let crossed = -2.0 * sums.crossed(start, shift, -2.0 * r[e] * delta);
                by_r[e] += crossed * delta;
                by_delta[f] += crossed * r[e];
            }
            for g in f..k {
                let other = r[g] - r[g - 1];
                let twice = if f == g { 1.0 } else { 2.0 };
                let rows = twice * (self.n - self.starts[g]) as f64;
                let carried = rows * sums.carried(start, self.starts[g] - start, rows * delta * other);
                by_delta[f] += carried * other;
                by_delta[g] += carried * delta;
            }
        }
        for f in 1..k {
            by_r[f] += by_delta[f];
            by_r[f - 1] -= by_delta[f];
        }
        let (value, by_b) = sums.finish();
        by_r.iter_mut().for_each(|by| *by /= self.n as f64);
        ScaledError { value, by_b, by_r }
    }
}

/// Sums over b, and what a weighted total of them has as derivatives by b.
struct Sums<'a> {
    b: &'a [f64],
    /// Σ_{l<m} b_l for m = 0…n.
    running: Vec<f64>,
    unit: f64,
    total: f64,
    by_b: Vec<f64>,
    by_running: Vec<f64>,
    /// The weight of the squares of rows that begin to count at each round, later ones included.
    squares: Vec<f64>,
}

impl<'a> Sums<'a> {
    fn new(b: &'a [f64], unit: f64) -> Self {
        let mut running = vec![0.0];
        running.extend(crate::series::prefix_sums(b));
        let zeros = |count: usize| vec![0.0; count];
        let n = b.len();
        Self { b, running, unit, total: 0.0, by_b: zeros(n), by_running: zeros(n + 1), squares: zeros(n) }
    }

    /// U of these rounds, which counts `weight` times.
    fn own(&mut self, rounds: std::ops::Range<usize>, weight: f64) -> f64 {
        self.squares[rounds.clone()].fill(weight);
        let mut square: f64 = self.b[..rounds.start].iter().map(|b| b * b).sum();
        let mut own = 0.0;
        for b in &self.b[rounds] {
            square += b * b;
            own += square;
        }
        self.total += weight * own;
        own
    }

    /// V of the stretch that begins in round `start` and the rounds `shift` after it, which counts `weight` times.
    fn crossed(&mut self, start: usize, shift: std::ops::Range<usize>, weight: f64) -> f64 {
        let low = shift.start + 1;
        let high = shift.end + 1;
        let mut crossed = 0.0;
        for i in 0..start {
            let sum = self.running[high + i] - self.running[low + i];
            crossed += self.b[i] * sum;
            self.by_b[i] += weight * sum;
            self.by_running[high + i] += weight * self.b[i];
            self.by_running[low + i] -= weight * self.b[i];
        }
        self.total += weight * crossed;
        crossed
    }

    /// W at the distance `apart`, which counts `weight` times.
    fn carried(&mut self, start: usize, apart: usize, weight: f64) -> f64 {
        let first = &self.b[..start];
        let second = &self.b[apart..apart + start];
        let carried = dot(first, second);
        crate::numeric::add(&mut self.by_b[..start], weight, second);
        crate::numeric::add(&mut self.by_b[apart..apart + start], weight, first);
        self.total += weight * carried;
        carried
    }

    /// The total and its gradient by b, both times the unit.
    fn finish(mut self) -> (f64, Vec<f64>) {
        // b_l is in the running sums from l + 1 on, and b_i² in the rows from i on.
        let mut later = 0.0;
        let mut rows = 0.0;
        for i in (0..self.b.len()).rev() {
            later += self.by_running[i + 1];
            rows += self.squares[i];
            self.by_b[i] += later + 2.0 * self.b[i] * rows;
            self.by_b[i] *= self.unit;
        }
        (self.total * self.unit, self.by_b)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scaled::{Base, ColumnScales, Scaled};
    use crate::series::{invert, prefix_sums};

    #[test]
    fn errors_are_those_of_the_strategy_and_gradients_central_differences() {
        let c = [1.0, 0.6, 0.5, 0.2, 0.1];
        for (n, gap, count) in [(13, 4, 3), (12, 4, 3), (9, 2, 4), (7, 7, 1)] {
            let stretches = Stretches::new(n, gap, count);
            let scales: Vec<f64> = (0..count).map(|e| 1.0 / (1.0 + 0.3 * e as f64)).collect();
            let r: Vec<f64> = scales.iter().map(|s| 1.0 / s).collect();
            let b = prefix_sums(&invert(&c, n).unwrap());
            let found = stretches.error(&b, &r);
            let scales = ColumnScales::new(gap as u64, scales).unwrap();
            let strategy =
                Scaled::new(Base::BandToeplitz { c: c.to_vec(), column_normalised: false }, scales).unwrap();
            let known = strategy.errors(n as u64).unwrap().rms.powi(2);
            assert!((found.value / known - 1.0).abs() < 1e-12, "{n} {gap}: {} {known}", found.value);
            for i in 0..n {
                let at = |by: f64| {
                    let mut moved = b.clone();
                    moved[i] += by;
                    stretches.error(&moved, &r).value
                };
                let expected = (at(1e-5) - at(-1e-5)) / 2e-5;
                assert!((found.by_b[i] - expected).abs() < 1e-8, "{n} b {i}: {} {expected}", found.by_b[i]);
            }
            for e in 0..count {
                let at = |by: f64| {
                    let mut moved = r.clone();
                    moved[e] += by;
                    stretches.error(&b, &moved).value
                };
                let expected = (at(1e-5) - at(-1e-5)) / 2e-5;
                assert!((found.by_r[e] - expected).abs() < 1e-8, "{n} r {e}: {} {expected}", found.by_r[e]);
            }
        }
    }
}
