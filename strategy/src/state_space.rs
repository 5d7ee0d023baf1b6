//! Errors of strategies with a small state under momentum with learning rates that change: the covariance of
//! the state is carried from round to round, O(n·(d+2)²), and A need not be Toeplitz.
//!
//! A BLT's buffers and the velocity are filters of the same noise row ẑ_t = z_t − ω·s, s_k ← θ_k s_k + ẑ_t;
//! the velocity is one more of them with θ = β and ω = 0. The model is y ← (1−λ)·y + η_t·velocity, and the
//! error of row t is its variance.

use crate::workload::Momentum;

/// A BLT under a momentum workload.
pub(crate) struct StateSpace<'a> {
    /// θ of the buffers, then β.
    theta: Vec<f64>,
    /// ω of the buffers, then 0.
    omega: Vec<f64>,
    momentum: &'a Momentum,
}

/// Σ_t w_t·e_t² by θ and ω.
#[derive(Debug, Clone)]
pub(crate) struct StateSlopes {
    pub theta: Vec<f64>,
    pub omega: Vec<f64>,
}

/// Covariances before a round: of the filters (D×D, row by row), of filters with the model, of the model.
#[derive(Clone)]
struct Covariance {
    filters: Vec<f64>,
    cross: Vec<f64>,
    model: f64,
}

impl Covariance {
    fn zeros(size: usize) -> Self {
        Self { filters: vec![0.0; size * size], cross: vec![0.0; size], model: 0.0 }
    }
}

/// Covariances of the noise row with the state: cov(x_k, −ẑ) for the filters and the model, and var(ẑ).
struct Row {
    filters: Vec<f64>,
    model: f64,
    variance: f64,
}

impl Row {
    fn zeros(size: usize) -> Self {
        Self { filters: vec![0.0; size], model: 0.0, variance: 0.0 }
    }
}

impl<'a> StateSpace<'a> {
    pub fn new(theta: &[f64], omega: &[f64], momentum: &'a Momentum) -> Self {
        let with = |values: &[f64], last: f64| values.iter().copied().chain([last]).collect();
        Self { theta: with(theta, momentum.momentum), omega: with(omega, 0.0), momentum }
    }

    /// e_t² of rounds 0…n−1, in units of (σζ)².
    pub fn row_errors_squared(&self, n: usize) -> Vec<f64> {
        let mut at = Covariance::zeros(self.theta.len());
        let mut after = at.clone();
        let mut row = Row::zeros(self.theta.len());
        (0..n)
            .map(|t| {
                self.next(&at, t, &mut row, &mut after);
                std::mem::swap(&mut at, &mut after);
                at.model
            })
            .collect()
    }

    /// The derivatives of Σ_t w_t·e_t², the weights chosen from the e_t². Covariances are kept at every √n
    /// rounds and computed again in between.
    pub fn slopes(&self, n: usize, weigh: impl FnOnce(&[f64]) -> Vec<f64>) -> StateSlopes {
        let size = self.theta.len();
        let stride = n.isqrt().max(1);
        let mut kept = Vec::new();
        let mut errors = Vec::with_capacity(n);
        let mut at = Covariance::zeros(size);
        let mut after = at.clone();
        let mut row = Row::zeros(size);
        for t in 0..n {
            if t % stride == 0 {
                kept.push(at.clone());
            }
            self.next(&at, t, &mut row, &mut after);
            std::mem::swap(&mut at, &mut after);
            errors.push(at.model);
        }
        let weights = weigh(&errors);
        let mut adjoint = Covariance::zeros(size);
        let mut before = Covariance::zeros(size);
        let mut slopes = StateSlopes { theta: vec![0.0; size], omega: vec![0.0; size] };
        let mut stretch = vec![Covariance::zeros(size); stride];
        for (piece, start) in kept.into_iter().enumerate().rev() {
            let first = piece * stride;
            let rounds = stride.min(n - first);
            stretch[0] = start;
            for i in 1..rounds {
                let (done, rest) = stretch.split_at_mut(i);
                self.next(&done[i - 1], first + i - 1, &mut row, &mut rest[0]);
            }
            for t in (first..first + rounds).rev() {
                adjoint.model += weights[t];
                self.back(&stretch[t - first], &mut adjoint, t, &mut row, &mut before, &mut slopes);
                std::mem::swap(&mut adjoint, &mut before);
            }
        }
        slopes.theta.truncate(size - 1);
        slopes.omega.truncate(size - 1);
        slopes
    }

    fn row(&self, at: &Covariance, row: &mut Row) {
        let dot = |x: &[f64]| x.iter().zip(&self.omega).map(|(x, w)| x * w).sum::<f64>();
        for (to, filters) in row.filters.iter_mut().zip(at.filters.chunks_exact(self.theta.len())) {
            *to = dot(filters);
        }
        row.model = dot(&at.cross);
        row.variance = 1.0 + dot(&row.filters);
    }

    /// The covariances after round t.
    fn next(&self, at: &Covariance, t: usize, row: &mut Row, next: &mut Covariance) {
        let size = self.theta.len();
        let theta = &self.theta;
        let kept = self.momentum.kept();
        let rate = self.momentum.learning_rates.at(t);
        self.row(at, row);
        for k in 0..size {
            for l in 0..=k {
                let value = theta[k] * theta[l] * at.filters[k * size + l]
                    - theta[k] * row.filters[k]
                    - theta[l] * row.filters[l]
                    + row.variance;
                next.filters[k * size + l] = value;
                next.filters[l * size + k] = value;
            }
        }
        let velocity = &next.filters[(size - 1) * size..];
        let before = |k: usize| theta[k] * at.cross[k] - row.model;
        for (k, velocity) in velocity.iter().enumerate() {
            next.cross[k] = kept * before(k) + rate * velocity;
        }
        next.model =
            kept * kept * at.model + 2.0 * kept * rate * before(size - 1) + rate * rate * velocity[size - 1];
    }

    /// The adjoint of [`Self::next`]: `before` becomes that of the covariances before the round, from that of
    /// those after it.
    fn back(
        &self,
        at: &Covariance,
        after: &mut Covariance,
        t: usize,
        row: &mut Row,
        before: &mut Covariance,
        slopes: &mut StateSlopes,
    ) {
        let size = self.theta.len();
        let theta = &self.theta;
        let omega = &self.omega;
        let kept = self.momentum.kept();
        let rate = self.momentum.learning_rates.at(t);
        self.row(at, row);
        let last = size - 1;
        before.model = kept * kept * after.model;
        after.filters[last * size + last] += rate * rate * after.model;
        let mut by_model = 0.0;
        for (k, theta) in theta.iter().enumerate() {
            // Symmetric entries share what belongs to both.
            after.filters[last * size + k] += 0.5 * rate * after.cross[k];
            after.filters[k * size + last] += 0.5 * rate * after.cross[k];
            let shared = if k == last { 2.0 * kept * rate * after.model } else { 0.0 };
            let by_cross = kept * after.cross[k] + shared;
            before.cross[k] = theta * by_cross;
            slopes.theta[k] += at.cross[k] * by_cross;
            by_model -= by_cross;
        }
        let by_variance: f64 = after.filters.iter().sum();
        for k in 0..size {
            let mut sum = 0.0;
            let mut with_theta = 0.0;
            for l in 0..size {
                let g = after.filters[k * size + l];
                sum += g;
                with_theta += g * theta[l] * at.filters[k * size + l];
                before.filters[k * size + l] = theta[k] * theta[l] * g;
            }
            slopes.theta[k] += 2.0 * (with_theta - row.filters[k] * sum);
            slopes.omega[k] += row.filters[k] * by_variance + at.cross[k] * by_model;
            before.cross[k] += by_model * omega[k];
            // The row's own entry is read no more: its adjoint takes its place.
            row.filters[k] = omega[k] * by_variance - 2.0 * theta[k] * sum;
        }
        for k in 0..size {
            for l in 0..size {
                before.filters[k * size + l] += 0.5 * (row.filters[k] * omega[l] + row.filters[l] * omega[k]);
                slopes.omega[l] += at.filters[k * size + l] * row.filters[k];
            }
        }
    }
}

/// e_t² for C⁻¹ = LtToep(s): the filters' memory is the last p−1 rows of z themselves, O(n·p).
pub(crate) fn banded_inverse_errors(s: &[f64], momentum: &Momentum, n: usize) -> Vec<f64> {
    let beta = momentum.momentum;
    let kept = momentum.kept();
    // Covariances of velocity and model with z_t, z_{t−1}, …; a ring would save the shifting, not the sums.
    let mut velocity = vec![0.0; s.len()];
    let mut model = vec![0.0; s.len()];
    let mut square = 0.0;
    let mut cross = 0.0;
    let mut error = 0.0;
    (0..n)
        .map(|t| {
            let rate = momentum.learning_rates.at(t);
            let own: f64 = s[..s.len().min(t + 1)].iter().map(|s| s * s).sum();
            for past in [&mut velocity, &mut model] {
                past.rotate_right(1);
                past[0] = 0.0;
            }
            let dot = |x: &[f64]| x.iter().zip(s).map(|(x, s)| x * s).sum::<f64>();
            // cov(model before, velocity after), then the new second moments.
            let before = beta * cross + dot(&model);
            square = beta * beta * square + 2.0 * beta * dot(&velocity) + own;
            cross = kept * before + rate * square;
            error = kept * kept * error + 2.0 * kept * rate * before + rate * rate * square;
            for (i, s) in s.iter().enumerate().take(t + 1) {
                velocity[i] = beta * velocity[i] + s;
                model[i] = kept * model[i] + rate * velocity[i];
            }
            error
        })
        .collect()
}
