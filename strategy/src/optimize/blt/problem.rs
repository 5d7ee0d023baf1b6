//! ln(loss) of a BLT with its gradient, in the shortest form that workload and objective allow.

use super::chain;
use crate::blt::{Rows, error_squared, sensitivity_slopes, weighted_error, weights, weights_adjoint};
use crate::error::{Result, StrategyError, series_length};
use crate::loss::Objective;
use crate::optimize::{ColumnCost, Target};
use crate::participation::Participation;
use crate::state_space::StateSpace;
use crate::workload::{Momentum, Workload};

/// The function that is minimised, over the free numbers of [`chain`].
pub(super) struct Problem<'a> {
    iterations: u64,
    rules: &'a [Participation],
    error: Form<'a>,
}

/// The way in which the squared error is found.
enum Form<'a> {
    /// In closed form, O(d²): the workload's coefficients are sums of powers, `ends` the complements of
    /// these.
    Closed { ends: Vec<f64>, rows: Rows },
    /// By the series, O(n·d): the weight of each b_i².
    Series { column: Vec<f64>, weights: Vec<f64> },
    /// By covariances, O(n·d²).
    Schedule { momentum: &'a Momentum, rows: RowMeasure },
}

/// Which rows count where no row holds the one before.
enum RowMeasure {
    Weights(Vec<f64>),
    /// (Σ_t e_t^{2p})^{1/p}, which tends to the worst row's e² as p grows.
    Norm(f64),
}

/// A squared error and its derivatives in φ, φ̂ and ω; what a form doesn't need stays zero.
struct Slopes {
    squared: f64,
    phi: Vec<f64>,
    phi_hat: Vec<f64>,
    omega: Vec<f64>,
}

impl<'a> Problem<'a> {
    /// # Errors
    /// [`StrategyError::NotOptimizable`] for workloads given as matrices or operators.
    pub fn new(target: &'a Target) -> Result<Self> {
        let iterations = target.iterations;
        let rules = target.rules();
        let rows = if target.objective == Objective::Rms { Rows::Mean } else { Rows::Last };
        let weighted = matches!(target.objective, Objective::Weighted(_));
        let error = match (target.workload.poles(), &target.workload) {
            (Some(ends), _) if !weighted => Form::Closed { ends, rows },
            (_, Workload::Momentum(momentum)) if !momentum.is_toeplitz() => {
                let weights = target.objective.weights(series_length(iterations)?);
                Form::Schedule { momentum, rows: weights.map_or(RowMeasure::Norm(16.0), RowMeasure::Weights) }
            }
            (_, workload) => {
                let n = series_length(iterations)?;
                let Some(column) = workload.column(n) else {
                    let why = format!("the workload {} has no closed form or small state", workload.name());
                    return Err(StrategyError::NotOptimizable { mechanism: "blt", why });
                };
                Form::Series { column, weights: later_rows(&target.objective, n) }
            }
        };
        Ok(Self { iterations, rules, error })
    }

    /// A problem in closed form whose optimum is near: the same momentum at a constant rate, or prefix sums.
    /// `None` where the problem has a closed form itself.
    pub fn nearby(&self, target: &'a Target) -> Option<Self> {
        let ends = match (&self.error, &target.workload) {
            (Form::Closed { .. }, _) => return None,
            (_, Workload::Momentum(momentum)) => momentum.poles(),
            _ => vec![0.0],
        };
        let last = matches!(target.objective, Objective::Max | Objective::Last);
        let rows = if last { Rows::Last } else { Rows::Mean };
        Some(Self { iterations: self.iterations, rules: self.rules, error: Form::Closed { ends, rows } })
    }

    /// The powers p of the norms that stand for the worst row one after another; empty where none is needed.
    pub fn sharper(&self) -> &'static [f64] {
        match self.error {
            Form::Schedule { rows: RowMeasure::Norm(_), .. } => &[128.0, 1024.0],
            _ => &[],
        }
    }

    /// Takes another power p for the worst row.
    pub fn sharpen(&mut self, power: f64) {
        if let Form::Schedule { rows: RowMeasure::Norm(p), .. } = &mut self.error {
            *p = power;
        }
    }

    pub fn iterations(&self) -> u64 {
        self.iterations
    }

    /// ln(loss) and its gradient; infinite where f64 cannot hold the parameters.
    pub fn ln_loss(&self, x: &[f64], gradient: &mut [f64]) -> f64 {
        self.ln_loss_at(x, gradient, |phi, omega, slopes| self.add_sensitivity(phi, omega, slopes).ln())
    }

    /// The same with a cost of the first column of C in place of ln(sensitivity).
    pub fn ln_loss_against(&self, x: &[f64], gradient: &mut [f64], cost: &mut ColumnCost<'_>) -> f64 {
        self.ln_loss_at(x, gradient, |phi, omega, slopes| {
            let theta: Vec<f64> = phi.iter().map(|phi| 1.0 - phi).collect();
            let column = crate::series::blt_coefficients(&theta, omega, self.iterations as usize);
            let mut by_column = vec![0.0; column.len()];
            let value = cost(&column, &mut by_column);
            for (a, theta) in theta.iter().enumerate() {
                // c_i = Σ ω θ^{i−1}, by Horner from the end with the derivative in θ.
                let mut sum = 0.0;
                let mut slope = 0.0;
                for by in by_column.iter().skip(1).rev() {
                    slope = slope * theta + sum;
                    sum = sum * theta + by;
                }
                slopes.omega[a] += sum;
                slopes.phi[a] -= omega[a] * slope;
            }
            value
        })
    }

    fn ln_loss_at(
        &self,
        x: &[f64],
        gradient: &mut [f64],
        ln_sensitivity: impl FnOnce(&[f64], &[f64], &mut Slopes) -> f64,
    ) -> f64 {
        let z = chain::ordered(x);
        let (phi, phi_hat) = chain::split(&z);
        let omega = weights(&phi, &phi_hat);
        if omega.iter().any(|w| !w.is_finite() || *w <= 0.0) {
            return f64::INFINITY;
        }
        let mut slopes = self.error_squared(&phi, &phi_hat, &omega);
        if !(slopes.squared > 0.0 && slopes.squared.is_finite()) {
            return f64::INFINITY;
        }
        let half = 0.5 / slopes.squared;
        for by in [&mut slopes.phi, &mut slopes.phi_hat, &mut slopes.omega] {
            by.iter_mut().for_each(|g| *g *= half);
        }
        let ln_sensitivity = ln_sensitivity(&phi, &omega, &mut slopes);
        weights_adjoint(&phi, &phi_hat, &omega, &slopes.omega, &mut slopes.phi, &mut slopes.phi_hat);
        let mixed: Vec<f64> = slopes.phi.iter().zip(&slopes.phi_hat).flat_map(|(a, b)| [*a, *b]).collect();
        chain::pull(x, &z, &mixed, gradient);
        0.5 * slopes.squared.ln() + ln_sensitivity
    }

    /// The mean sensitivity over the rules; the derivatives of its logarithm are added.
    fn add_sensitivity(&self, phi: &[f64], omega: &[f64], slopes: &mut Slopes) -> f64 {
        let each: Vec<_> =
            self.rules.iter().map(|rule| sensitivity_slopes(phi, omega, self.iterations, *rule)).collect();
        let sum: f64 = each.iter().map(|s| s.squared.sqrt()).sum();
        for s in &each {
            let share = 0.5 / (s.squared.sqrt() * sum);
            slopes.phi.iter_mut().zip(&s.phi).for_each(|(to, g)| *to += share * g);
            slopes.omega.iter_mut().zip(&s.omega).for_each(|(to, g)| *to += share * g);
        }
        sum / self.rules.len() as f64
    }

    fn error_squared(&self, phi: &[f64], phi_hat: &[f64], omega: &[f64]) -> Slopes {
        let zeros = vec![0.0; phi.len()];
        match &self.error {
            Form::Closed { ends, rows } => {
                let by = error_squared(phi, phi_hat, ends, self.iterations, *rows);
                Slopes { squared: by.squared, phi: by.phi, phi_hat: by.phi_hat, omega: zeros }
            }
            Form::Series { column, weights } => {
                let by = weighted_error(phi, omega, column, weights);
                Slopes { squared: by.squared, phi: by.phi, phi_hat: zeros, omega: by.omega }
            }
            Form::Schedule { momentum, rows } => {
                let theta: Vec<f64> = phi.iter().map(|phi| 1.0 - phi).collect();
                let mut squared = f64::NAN;
                let weigh = |errors: &[f64]| {
                    let (value, weights) = rows.value(errors);
                    squared = value;
                    weights
                };
                let by = StateSpace::new(&theta, omega, momentum).slopes(self.iterations as usize, weigh);
                let by_phi = by.theta.iter().map(|g| -g).collect();
                Slopes { squared, phi: by_phi, phi_hat: zeros, omega: by.omega }
            }
        }
    }
}

impl RowMeasure {
    /// The squared error of the rows that count, and its derivative in each e_t².
    fn value(&self, errors: &[f64]) -> (f64, Vec<f64>) {
        match self {
            Self::Weights(weights) => (weights.iter().zip(errors).map(|(w, e)| w * e).sum(), weights.clone()),
            Self::Norm(p) => {
                let worst = errors.iter().copied().fold(0.0, f64::max);
                let powers: f64 = errors.iter().map(|e| (e / worst).powf(*p)).sum();
                let value = worst * powers.powf(p.recip());
                let scale = value / (worst * powers);
                (value, errors.iter().map(|e| scale * (e / worst).powf(p - 1.0)).collect())
            }
        }
    }
}

/// The weight of b_i² in a Toeplitz decoder's error: that of all rows from i on.
fn later_rows(objective: &Objective, n: usize) -> Vec<f64> {
    let Some(mut weights) = objective.weights(n) else { return vec![1.0; n] };
    for i in (1..n).rev() {
        weights[i - 1] += weights[i];
    }
    weights
}
