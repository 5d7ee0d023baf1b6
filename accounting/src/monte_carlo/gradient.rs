//! The derivatives of δ and σ by C.
//!
//! δ = ∫(P − e^εQ)₊ is flat where the integrand turns zero, so its slope is the integral of ∂P over the set where the
//! loss is above ε: E_P[1·r_i·(x − m_i)]/σ² for m_i, with r_i the share of batch i in P at x; in the other order
//! ∫(Q − e^εP)₊ has −e^ε times that over its own set. The part of x outside the span of the m_j averages to zero, so
//! ∂δ/∂M = M·A/σ² for M = (m_0 … m_{b−1}) and a b×b matrix A. δ depends on G/σ² alone, which gives the slope in
//! σ from the same A.

use ndarray::linalg::general_mat_mul;
use ndarray::{Array1, Array2, Axis, Slice};

use super::block::{Block, Proposal, stretches};
use super::exp::exp;
use super::scaled::Scaled;
use super::stream::{Draw, SAMPLES};
use crate::neighbouring::Direction;

/// The derivative of σ by G at constant δ, in one order of the neighbours.
pub(super) struct Slope {
    /// H = ∂ ln σ/∂G, for entries of G that move freely: symmetric, with ΣH∘G = ½.
    pub h: Array2<f64>,
    /// −∂δ/∂ ln σ.
    pub fall: f64,
}

/// Estimates H from samples of one order.
pub(super) fn noise_by_gram(scaled: &Scaled, direction: Direction, epsilon: f64, draw: Draw) -> Slope {
    let mut slope = delta_by_gram(scaled, direction, epsilon, draw);
    let whole = (&slope * &scaled.gram).sum();
    // `slope` is by G/σ², H by G.
    slope *= 0.5 / whole / scaled.variance;
    Slope { h: slope, fall: 2.0 * whole }
}

/// Estimates A/2, the derivative of δ by G/σ².
pub(super) fn delta_by_gram(scaled: &Scaled, direction: Direction, epsilon: f64, draw: Draw) -> Array2<f64> {
    let b = scaled.batches();
    let proposal = Proposal::new(scaled, direction, epsilon);
    let parts = stretches(
        scaled,
        &proposal,
        draw,
        || Sums::new(b),
        |sums, block, samples| {
            sums.add(scaled, block, samples, direction, epsilon);
        },
    );
    let mut moved = Array2::<f64>::zeros((b, b));
    let mut share = Array1::<f64>::zeros(b);
    for part in parts {
        moved += &part.moved;
        share += &part.share;
    }
    // A = G⁻¹·E[1·v·rᵀ] − diag E[1·r], in units of σ.
    let mut slope = scaled.solve(moved);
    slope.diag_mut().zip_mut_with(&share, |a, s| *a -= s);
    slope /= draw.samples as f64;
    // The true A is symmetric: the mean of both halves has less of the samples' error.
    (&slope + &slope.t()) * 0.25
}

/// Σ v·rᵀ and Σ r over samples above ε, r the weighted shares of the batches.
struct Sums {
    moved: Array2<f64>,
    share: Array1<f64>,
    v: Array2<f64>,
    r: Array2<f64>,
}

impl Sums {
    fn new(b: usize) -> Self {
        let rows = || Array2::zeros((SAMPLES, b));
        Self { moved: Array2::zeros((b, b)), share: Array1::zeros(b), v: rows(), r: rows() }
    }

    fn add(&mut self, scaled: &Scaled, block: &Block, samples: usize, direction: Direction, epsilon: f64) {
        let mut rows = 0;
        for sample in (0..samples).filter(|sample| block.losses[*sample] > epsilon) {
            let loss = block.losses[sample];
            let weight = block.weights[sample];
            // ln P/Q, and the factor of ∂P at this sample.
            let (ratio, factor) = match direction {
                Direction::Remove => (loss, weight),
                Direction::Add => (-loss, -weight * (epsilon - loss).exp()),
            };
            let factor = factor / scaled.batches() as f64;
            let mut v = self.v.row_mut(rows);
            let mut r = self.r.row_mut(rows);
            let all = block.v(sample).as_flattened().iter().zip(scaled.halves.as_flattened());
            for ((v, r), (x, half)) in v.iter_mut().zip(&mut r).zip(all) {
                (*v, *r) = (*x, factor * exp(x - half - ratio));
            }
            rows += 1;
        }
        let some = Slice::from(..rows);
        let v = self.v.slice_axis(Axis(0), some);
        let r = self.r.slice_axis(Axis(0), some);
        general_mat_mul(1.0, &v.t(), &r, 1.0, &mut self.moved);
        self.share += &r.sum_axis(Axis(0));
    }
}

impl Scaled {
    /// Computes (G/σ²)⁻¹·X by both triangles, O(b³).
    fn solve(&self, mut x: Array2<f64>) -> Array2<f64> {
        let b = self.batches();
        for i in 0..b {
            let (done, mut rest) = x.view_mut().split_at(Axis(0), i);
            let mut row = rest.row_mut(0);
            for j in 0..i {
                row.scaled_add(-self.factor[[i, j]], &done.row(j));
            }
            row /= self.factor[[i, i]];
        }
        for i in (0..b).rev() {
            let (mut rest, done) = x.view_mut().split_at(Axis(0), i + 1);
            let mut row = rest.row_mut(i);
            for j in i + 1..b {
                row.scaled_add(-self.factor[[j, i]], &done.row(j - i - 1));
            }
            row /= self.factor[[i, i]];
        }
        x
    }
}

#[cfg(test)]
mod tests {
    use strategy::Strategy;

    use super::super::pair::LossSampler;
    use super::super::stream::Purpose;
    use super::super::{BallsInBins, estimate};
    use super::*;

    /// δ of a G by its own samples, the same random numbers for all.
    fn delta(gram: &Array2<f64>, sigma: f64, direction: Direction, epsilon: f64, draw: Draw) -> f64 {
        let mechanism = BallsInBins::of_gram(gram.clone()).unwrap();
        let scaled = mechanism.scaled(sigma).unwrap();
        let proposal = Proposal::new(&scaled, direction, epsilon);
        let [found] = estimate::delta(&scaled, [&proposal], epsilon, draw);
        found.delta
    }

    #[test]
    fn slopes_are_those_of_differences() {
        let draw = Draw { samples: 1 << 18, seed: 5, purpose: Purpose::Search };
        for (bands, n, b, sigma, epsilon) in [(12, 24, 4, 1.5, 1.0), (3, 12, 3, 0.8, 3.0)] {
            let mechanism = BallsInBins::new(&Strategy::BandSqrt { bands }, n, b).unwrap();
            let sigma = sigma * mechanism.longest();
            let scaled = mechanism.scaled(sigma).unwrap();
            for direction in Direction::BOTH {
                let slope = delta_by_gram(&scaled, direction, epsilon, draw);
                let all = slope.iter().map(|x| x.abs()).fold(0.0, f64::max);
                for i in 0..b as usize {
                    for j in 0..=i {
                        let step = 1e-3 * mechanism.gram()[[i, i]];
                        let moved = |by: f64| {
                            let mut gram = mechanism.gram().to_owned();
                            gram[[i, j]] += by;
                            gram[[j, i]] = gram[[i, j]];
                            delta(&gram, sigma, direction, epsilon, draw)
                        };
                        let by = (moved(step) - moved(-step)) / (2.0 * step) * sigma * sigma;
                        let found = slope[[i, j]] * if i == j { 1.0 } else { 2.0 };
                        assert!((found - by).abs() < 0.08 * all, "{direction:?} {i} {j}: {found:e} {by:e}");
                    }
                }
                let noise = noise_by_gram(&scaled, direction, epsilon, draw);
                let whole: f64 = (&noise.h * &mechanism.gram()).sum();
                assert!((whole - 0.5).abs() < 1e-12, "{whole}");
                let at =
                    |ln: f64| delta(&mechanism.gram().to_owned(), sigma * ln.exp(), direction, epsilon, draw);
                let fall = (at(-1e-3) - at(1e-3)) / 2e-3;
                assert!((noise.fall / fall - 1.0).abs() < 0.03, "{direction:?} {} {fall}", noise.fall);
            }
        }
    }

    #[test]
    fn solving_undoes_the_product() {
        let mechanism = BallsInBins::new(&Strategy::BandSqrt { bands: 9 }, 21, 7).unwrap();
        let scaled = mechanism.scaled(1.7).unwrap();
        let x = Array2::from_shape_fn((7, 7), |(i, j)| (i * 7 + j) as f64);
        let back = scaled.solve(scaled.gram.dot(&x));
        back.iter().zip(&x).for_each(|(a, b)| assert!((a - b).abs() < 1e-10, "{a} {b}"));
    }
}
